"""L1.4, L1.7, L1.8, L1.10, L1.11: the encoder-decoder, its layers, what the residual does, order, and memory."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import AttentionContext
from clearhead.blocks import Embedding, Output, Stack
from clearhead.costing import cost
from clearhead.costing.tracing import attention_path, saved_bytes
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.compare import alike, far, gap
from clearhead.lectures.demonstrations.pytorch import encoder_layer, layer_like, norm_like, randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.models import EncoderModel, Seq2Seq, build
from clearhead.positions import SinusoidalPosition, sinusoids
from clearhead.recipe import Seq2SeqSpec, read_recipe


def three_steps() -> Evidence:
    """L1.4: represent, encode, decode and predict, each step against torch.nn.Transformer with the same weights."""
    width, vocabulary = 24, 30
    encoder = nn.TransformerEncoder(
        encoder_layer(width=width, heads=3, hidden=40, norm_first=False),
        num_layers=2,
        norm=nn.LayerNorm(width),
        enable_nested_tensor=False,
    )
    reference = nn.Transformer(width, 3, 2, 2, 40, dropout=0.0, batch_first=True, custom_encoder=encoder)
    randomise(reference)
    model = _like(reference, width, vocabulary)
    source, target = torch.randint(4, vocabulary, (2, 7)), torch.randint(4, vocabulary, (2, 5))
    table, where = model.get_parameter("decoder.embedding.tokens.weight"), sinusoids(7, width)
    with torch.no_grad():
        x, y = table[source] * width**0.5 + where, table[target] * width**0.5 + where[:5]
        encoded = reference.encoder(x)
        ahead = torch.ones(5, 5).triu(1).bool()  # torch's masks are True where it must not look
        decoded = reference.decoder(y, encoded, tgt_mask=ahead)
        steps = (
            model.get_submodule("encoder.embedding")(source, torch.arange(7), 7),
            model.encode(source).states,
            model.states(source, target),
            model(source, target),
        )
        unmasked = reference.decoder(y, encoded)
        unread = reference.decoder(y, torch.zeros_like(encoded), tgt_mask=ahead)
    name = "decoder states"
    return Evidence(
        measures=(
            alike("step 1, represent: embedding and position", steps[0], x),
            alike("step 2, encode: against torch.nn.Transformer's encoder", steps[1], encoded),
            alike("step 3, decode: against its decoder", steps[2], decoded),
            alike("step 3, predict: logits", steps[3], decoded @ table.T, tolerance=1e-4),
        ),
        wrong=(
            Wrong("a decoder that sees the future", alike(name, unmasked, steps[2])),
            Wrong("a decoder that does not read the encoder", alike(name, unread, steps[2])),
        ),
    )


def _like(reference: nn.Transformer, width: int, vocabulary: int) -> Seq2Seq:
    """Our encoder-decoder with the weights of torch's, between one embedding and the logits tied to it."""
    tokens = nn.Embedding(vocabulary, width)
    stacks = [
        Stack(
            embedding=Embedding(tokens, SinusoidalPosition(width=width), scaled=True),
            layers=[layer_like(layer, "post") for layer in part.layers],
            causal=causal,
            final_norm=norm_like(part.norm),
        )
        for part, causal in ((reference.encoder, False), (reference.decoder, True))
    ]
    spec = read_recipe(None, f"model.vocabulary.source={vocabulary}", f"model.vocabulary.target={vocabulary}").model
    assert isinstance(spec, Seq2SeqSpec)
    return Seq2Seq(spec, encoder=stacks[0], decoder=stacks[1], output=Output(tokens.weight)).eval()


def a_layer() -> Evidence:
    """L1.7: attention, then feed-forward, each with Add & Norm, layer by layer against torch's."""
    depth, width = 3, 24
    references = [encoder_layer(width=width, heads=3, hidden=40, norm_first=False) for _ in range(depth)]
    layers = [layer_like(reference, "post") for reference in references]
    x = torch.randn(2, 6, width)
    measures, state = [], x
    with torch.no_grad():
        for index, (mine, other) in enumerate(zip(layers, references, strict=True)):
            expected = other(state)
            measures.append(
                alike(
                    f"layer {index + 1} against torch.nn.TransformerEncoderLayer",
                    mine(state, AttentionContext()),
                    expected,
                )
            )
            state = expected
        first = layers[0]
        attended = first.around_attention(x, first.attention)
        written = first.around_feedforward(attended, first.feedforward)
        swapped = first.around_attention(first.around_feedforward(x, first.feedforward), first.attention)
        measures.append(
            alike("layer 1 against LN(X + FFN(X)) of LN(X + MHA(X))", first(x, AttentionContext()), written)
        )
        once = first.around_feedforward.norm(x + first.feedforward(attended))
        expected = references[0](x)
    name = "a layer against torch's"
    return Evidence(
        measures=tuple(measures),
        wrong=(
            Wrong("feed-forward before attention", alike(name, swapped, expected)),
            Wrong("the second residual taken from the layer's input", alike(name, once, expected)),
        ),
    )


def deep_with_residuals() -> Evidence:
    """L1.8: 24 layers with and without x + f(x): what comes through, and what is learnt in 40 steps."""
    steps = 40
    through = {residual: _tells_apart(residual) for residual in (True, False)}
    losses = {residual: _losses(residual, steps) for residual in (True, False)}
    guess = float(torch.tensor(6.0).log())
    what = f"loss after {steps} steps of copying (guessing: {guess:.2f})"
    gradient = "‖∂(y₀ − y₁)/∂x‖ through 24 layers"
    at = tuple(float(step) for step in range(0, steps, 4))
    return Evidence(
        measures=(
            Measure(f"{gradient}, with residuals", 1e-2, through[True], relation="≥"),
            Measure(f"{what}, with residuals", 0.5, losses[True][-1], relation="≤"),
            Measure(f"{what}, without", 1.2, losses[False][-1], relation="≥"),
        ),
        wrong=(
            Wrong("no residuals, the gradient", Measure(gradient, 1e-2, through[False], relation="≥")),
            Wrong("no residuals, training", Measure(what, 0.5, losses[False][-1], relation="≤")),
        ),
        figures=(
            Lines(
                title="24 layers learn to copy their input: with the residual they do, without it they do not",
                alt="With residuals the loss falls nearly to 0; without them it stays where guessing is.",
                x_label="step",
                y_label="loss",
                series=tuple(
                    Series(name, at, tuple(losses[residual][::4]))
                    for name, residual in (("x + f(x)", True), ("f(x) alone", False))
                ),
            ),
        ),
        notes=(
            f"Without residuals {through[False]:.0e} of what tells two tokens apart comes through: attention has "
            "averaged them into one.",
        ),
    )


def _deep(residual: bool) -> EncoderModel:
    sizes = ["model.layers=24", "model.width=16", "model.heads=2", "model.vocabulary.source=10"]
    off = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0", f"model.residual={str(residual).lower()}"]
    model = build(read_recipe(None, "model.family=encoder", *sizes, *off), seed=0)
    assert isinstance(model, EncoderModel)
    return model


def _tells_apart(residual: bool) -> float:
    """How much of what makes two tokens different comes through the stack, by derivative."""
    model, inputs = _deep(residual).eval(), list[Tensor]()
    model.get_submodule("encoder.embedding").register_forward_hook(lambda _module, _inputs, out: inputs.append(out))
    out = model(torch.tensor([[4, 5, 6, 7, 8, 9]]))
    (gradient,) = torch.autograd.grad((out[0, 0] - out[0, 1]) @ torch.ones(16).cumsum(0), inputs)
    return float(gradient.norm())


def _losses(residual: bool, steps: int) -> list[float]:
    torch.manual_seed(20)
    model, head = _deep(residual), nn.Linear(16, 10)
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=3e-3)
    ids, losses = torch.randint(4, 10, (8, 8)), []
    for _ in range(steps):
        loss = F.cross_entropy(head(model(ids)).flatten(0, 1), ids.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def order_must_be_added() -> Evidence:
    """L1.10: without positions a Transformer sees a set; with them it sees an order; no token waits for another."""
    ids, order = torch.tensor([[5, 6, 7, 8, 9, 10]]), torch.tensor([3, 0, 5, 1, 4, 2])
    results: dict[str, tuple[Tensor, Tensor]] = {}
    for kind in ("none", "sinusoidal"):
        sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.vocabulary.source=40"]
        model = build(read_recipe(None, "model.family=encoder", *sizes, f"model.position.kind={kind}"), seed=5).eval()
        with torch.no_grad():
            results[kind] = (model(ids[:, order]), model(ids)[:, order])
    rnn = nn.GRU(16, 16, batch_first=True)
    x = torch.randn(1, 6, 16)
    with torch.no_grad():
        recurrent = (rnn(x[:, order])[0], rnn(x)[0][:, order])
    name = "model(permuted tokens) against the permuted model(tokens)"
    return Evidence(
        measures=(
            alike(f"{name}, no positions", *results["none"]),
            far(f"{name}, sinusoidal positions", *results["sinusoidal"], 0.01),
        ),
        wrong=(
            Wrong("a model with positions taken for one that sees a set", alike(name, *results["sinusoidal"])),
            Wrong("a recurrent net, which has its order built in", alike(name, *recurrent)),
        ),
        notes=(f"With positions the permutation moves the outputs by {gap(*results['sinusoidal']):.2f}.",),
    )


def memory_grows() -> Evidence:
    """L1.11: bytes that an encoder layer keeps for its backward pass, counted tensor by tensor, over the length."""
    heads, lengths = 4, (64, 128, 256, 512)
    sizes = ["model.layers=1", "model.width=32", f"model.heads={heads}", "model.vocabulary.source=40"]
    off = ["model.vocabulary.pad=none", "model.dropout.residual=0.0", "model.dropout.embedding=0.0"]
    recipe = read_recipe(None, "model.family=encoder", *sizes, *off)
    model, bill = build(recipe, seed=1), cost(recipe)
    formulas = {"explicit": bill.saved, "fused": bill.fused.saved}
    kept: dict[str, list[int]] = {}
    for path in formulas:
        attention_path(model, path)
        kept[path] = [_saved_for(model, length) for length in lengths]
    wrong_by = {
        path: sum(abs(formulas[path].at(n=n, B=2) - seen) for n, seen in zip(lengths, kept[path], strict=True))
        for path in formulas
    }
    # bytes(n) = an + cn², so c = (bytes(2n) − 2 bytes(n)) / 2n²; two lines are kept, so a line has half of it
    square = {path: (seen[3] - 2 * seen[2]) / (2 * 256**2) / 2 for path, seen in kept.items()}
    what = "bytes for each pair of tokens (the n² part)"
    return Evidence(
        measures=(
            Measure(f"{what}, explicit path: 4h", 4 * heads, square["explicit"], tolerance=0.1),
            Measure(f"{what}, fused path", 0, square["fused"], tolerance=0.1),
            Measure("formula − bytes counted, four lengths, explicit", 0, wrong_by["explicit"]),
            Measure("formula − bytes counted, four lengths, fused", 0, wrong_by["fused"]),
        ),
        wrong=(
            Wrong(
                "the explicit path taken for one that keeps no weights",
                Measure(what, 0, square["explicit"], tolerance=0.1),
            ),
            Wrong(
                "the formula of the fused path for the explicit one",
                Measure("formula − bytes counted, n = 512", 0, formulas["fused"].at(n=512, B=2) - kept["explicit"][3]),
            ),
        ),
        tables=(
            EvidenceTable(
                f"Bytes that an encoder layer keeps for its backward pass (d = 32, h = {heads}, two lines)",
                ("n", "explicit", "fused"),
                tuple(zip(lengths, kept["explicit"], kept["fused"], strict=True)),
            ),
        ),
        figures=(
            Lines(
                title="Bytes that an encoder layer keeps for its backward pass",
                alt="Both axes are logarithmic: the explicit path rises towards slope 2, the fused one has slope 1.",
                x_label="tokens n",
                y_label="bytes",
                log_x=True,
                log_y=True,
                series=tuple(
                    Series(name, tuple(map(float, lengths)), tuple(map(float, kept[path])))
                    for name, path in (("weights kept: n²", "explicit"), ("fused: n", "fused"))
                ),
            ),
        ),
    )


def _saved_for(model: nn.Module, length: int) -> int:
    ids = torch.randint(4, 40, (2, length))
    return saved_bytes(lambda: model(ids), model)
