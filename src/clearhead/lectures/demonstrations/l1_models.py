"""L1.4, L1.7, L1.8, L1.10, L1.11: the encoder-decoder, its layers, what the residual does, order, and memory."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import AttentionContext
from clearhead.blocks import Embedding, Output, Stack
from clearhead.data import EncodedTexts
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import alike
from clearhead.lectures.demonstrations.l0_attention import sees_everything
from clearhead.lectures.demonstrations.learning import EVEN_RATE, learn, side
from clearhead.lectures.demonstrations.pytorch import encoder_layer, layer_like, norm_like, randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import Seq2Seq, build
from clearhead.positions import SinusoidalPosition, sinusoids
from clearhead.recipe import Recipe, Seq2SeqSpec, read_recipe
from clearhead.training import objective_of


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
    source[1, 5:] = 0  # padding
    valid = source != 0
    table, where = model.get_parameter("decoder.embedding.tokens.weight"), sinusoids(7, width)
    with torch.no_grad():
        x, y = table[source] * width**0.5 + where, table[target] * width**0.5 + where[:5]
        encoded = reference.encoder(x, src_key_padding_mask=~valid)  # torch's masks are True where it must not look
        ahead = torch.ones(5, 5).triu(1).bool()
        decoded = reference.decoder(y, encoded, tgt_mask=ahead, memory_key_padding_mask=~valid)

    @torch.no_grad()
    def represent() -> Measure:
        mine = model.get_submodule("encoder.embedding")(source, torch.arange(7), 7)
        return alike("step 1, represent: embedding and position", mine[valid], x[valid])

    @torch.no_grad()
    def encode() -> Measure:
        mine = model.encode(source).states
        return alike(
            "step 2, encode: against torch.nn.Transformer's encoder, padded lines", mine[valid], encoded[valid]
        )

    @torch.no_grad()
    def decode() -> Measure:
        return alike("step 3, decode: against its decoder", model.states(source, target), decoded)

    @torch.no_grad()
    def step_by_step() -> Measure:
        state, logits, ends = model.start(source), [], (1, 2, 5)
        for first, last in zip((0, *ends), ends, strict=False):
            logits.append(model.step(target[:, first:last], state))
        expected = (decoded @ table.T)[:, [end - 1 for end in ends]]
        return alike(
            "step 3, predict: logits, tokens added to a cache", torch.stack(logits, 1), expected, tolerance=1e-4
        )

    heads = "clearhead.attention.paths.attend_heads"
    return Evidence(
        measures=(represent(), encode(), decode(), step_by_step()),
        wrong=(
            broken_block(
                "positions that start at 1",
                "clearhead.positions.absolute.SinusoidalPosition.forward",
                lambda right: lambda self, positions, end: right(self, positions + 1, end + 1),
                represent,
            ),
            broken_block("an encoder that reads padding", heads, _reads_padding, encode),
            broken_block("a decoder that sees the future", heads, sees_everything, decode),
            broken_block(
                "a decoder that does not read the encoder",
                "clearhead.blocks.layer.Layer.forward",
                lambda right: (
                    lambda self, x, context, *, memory=None, **rest: right(
                        self, x, context, memory=None if memory is None else torch.zeros_like(memory), **rest
                    )
                ),
                decode,
            ),
            broken_block(
                "a causal mask aligned to the upper left, with a cache",
                "clearhead.attention.context.causal_mask",
                lambda right: lambda n, m, *device: right(n, m, *device).tril(0),
                step_by_step,
            ),
        ),
    )


def _reads_padding(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: right(*given[:-1], dataclasses.replace(given[-1], valid=None))


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
    return Seq2Seq(spec, encoder=stacks[0], decoder=stacks[1], output=Output(tokens.weight), joint=None).eval()


def a_layer() -> Evidence:
    """L1.7: attention, then feed-forward, each with Add & Norm, layer by layer against torch's, with padding."""
    depth, width = 3, 24
    references = [encoder_layer(width=width, heads=3, hidden=40, norm_first=False) for _ in range(depth)]
    layers = [layer_like(reference, "post") for reference in references]
    x = torch.randn(2, 6, width)
    valid = torch.arange(6) < torch.tensor([[6], [4]])

    @torch.no_grad()
    def against_torch(index: int) -> Measure:
        state = x
        for other in references[:index]:
            state = other(state, src_key_padding_mask=~valid)
        expected = references[index](state, src_key_padding_mask=~valid)
        mine = layers[index](state, AttentionContext(valid=valid), valid=valid)
        what = f"layer {index + 1} against torch.nn.TransformerEncoderLayer, padded lines"
        return alike(what, mine[valid], expected[valid])

    layer = "clearhead.blocks.layer.Layer.forward"
    return Evidence(
        measures=tuple(map(against_torch, range(depth))),
        wrong=(
            broken_block("feed-forward before attention", layer, lambda right: _swapped, lambda: against_torch(0)),
            broken_block(
                "the second residual taken from the layer's input", layer, lambda right: _once, lambda: against_torch(0)
            ),
            broken_block(
                "no norm after the feed-forward net",
                layer,
                lambda right: (
                    lambda self, x, context, **rest: (
                        _attended(self, x, context) + self.feedforward(_attended(self, x, context))
                    )
                ),
                lambda: against_torch(1),
            ),
            broken_block(
                "attention that reads padding",
                "clearhead.attention.paths.attend_heads",
                _reads_padding,
                lambda: against_torch(2),
            ),
        ),
    )


def _attended(layer: Any, x: Tensor, context: AttentionContext) -> Tensor:
    out: Tensor = layer.around_attention(x, partial(layer.attention, context=context))
    return out


def _swapped(layer: Any, x: Tensor, context: AttentionContext, **_: Any) -> Tensor:
    return _attended(layer, layer.around_feedforward(x, layer.feedforward), context)


def _once(layer: Any, x: Tensor, context: AttentionContext, **_: Any) -> Tensor:
    out: Tensor = layer.around_feedforward.norm(x + layer.feedforward(_attended(layer, x, context)))
    return out


STEPS, EVERY, LINES = 20, 5, 48
PLACES = ("pre", "post")


def deep_with_residuals() -> Evidence:
    """L1.8: 24 layers, pre-LN and post-LN, with and without x + f(x): what comes through, and what is learnt."""
    variants = list(itertools.product(PLACES, (True, False)))
    through = {variant: _tells_apart(*variant) for variant in variants}
    losses = {variant: _losses(*variant) for variant in variants}
    guess = math.log(SYMBOLS)
    names = {variant: f"{variant[0]}-LN, {'with' if variant[1] else 'without'} the residual" for variant in variants}
    gained = {place: losses[place, False][-1] - losses[place, True][-1] for place in PLACES}
    learnt = f"loss after {STEPS} steps of naming the first letter (guessing: {guess:.2f})"
    gradient = "‖∂(y₀ − y₁)/∂x‖ through 24 layers"

    def comes_through(place: str) -> Measure:
        return Measure(f"{gradient}: {place}-LN", 1e-3, _tells_apart(place, True), relation="≥")

    def learns() -> Measure:
        return Measure(f"{learnt}: pre-LN", guess / 2, _losses("pre", True)[-1], relation="≤")

    at = tuple(float(step) for step in range(0, STEPS + 1, EVERY))
    return Evidence(
        measures=(
            Measure(f"{gradient}, {names['pre', True]}", 1e-3, through["pre", True], relation="≥"),
            Measure(f"{gradient}, {names['post', True]}", 1e-3, through["post", True], relation="≥"),
            Measure(f"{gradient}, {names['pre', False]}", 1e-3, through["pre", False], relation="≤"),
            Measure(f"{gradient}, {names['post', False]}", 1e-3, through["post", False], relation="≤"),
            Measure(f"{learnt}, {names['pre', True]}", guess / 2, losses["pre", True][-1], relation="≤"),
            Measure(f"{learnt}, {names['pre', False]}", 0.9 * guess, losses["pre", False][-1], relation="≥"),
            Measure(f"{learnt}, {names['post', True]}", 0.9 * guess, losses["post", True][-1], relation="≥"),
            Measure(f"{learnt}, {names['post', False]}", 0.9 * guess, losses["post", False][-1], relation="≥"),
        ),
        wrong=(
            broken_block("pre-LN that drops its residual", _ADD_NORM, _without_residual, lambda: comes_through("pre")),
            broken_block(
                "post-LN that drops its residual", _ADD_NORM, _without_residual, lambda: comes_through("post")
            ),
            broken_block(
                "the claim without its condition: pre-LN that norms the sum, as post-LN does",
                _ADD_NORM,
                lambda _right: lambda self, x, f, valid=None: self.norm(x + f(x), valid),
                learns,
            ),
        ),
        tables=(
            EvidenceTable(
                "24 layers, the same weights, data and steps",
                ("variant", gradient, learnt),
                tuple((names[variant], through[variant], losses[variant][-1]) for variant in variants),
            ),
        ),
        figures=(
            Lines(
                title="24 layers learn to pass on a letter: with the residual and pre-LN they do",
                alt="With pre-LN and the residual the loss falls nearly to 0; the three others stay where guessing is.",
                x_label="step",
                y_label="loss",
                series=tuple(Series(names[variant], at, tuple(losses[variant])) for variant in variants),
            ),
        ),
        notes=(
            f"The residual lowers the loss by {gained['pre']:.2f} with pre-LN, by {gained['post']:.2f} with post-LN.",
            "Post-LN is what the slides print: with the residual, what tells two tokens apart comes through, but "
            f"{STEPS} steps make no use of it.",
        ),
    )


_ADD_NORM = "clearhead.blocks.residual.AddNorm.forward"
SYMBOLS = 6


def _without_residual(right: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, x: Tensor, f: Any, valid: Any = None) -> Any:
        return f(self.norm(x, valid)) if self.place == "pre" else self.norm(f(x), valid)

    return forward


def _deep(place: str, residual: bool) -> Recipe:
    sizes = ["model.layers=24", "model.width=16", "model.heads=2", f"model.vocabulary.source={4 + SYMBOLS}"]
    kind = ["model.family=classifier", f"model.classes={SYMBOLS}", f"model.norm.place={place}"]
    rate = ["training.optimizer.rate=6e-3", f"training.batch_tokens={2 * LINES}", f"training.steps={STEPS}"]
    pace = [f"training.evaluate_every={EVERY}", f"training.save_every={STEPS}"]
    return read_recipe(None, *kind, *sizes, f"model.residual={str(residual).lower()}", *EVEN_RATE, *rate, *pace)


def _tells_apart(place: str, residual: bool) -> float:
    """How much of what makes two tokens different comes through the stack, by derivative."""
    encoder = build(_deep(place, residual), seed=0).eval().get_submodule("encoder")
    inputs: list[Tensor] = []
    encoder.get_submodule("embedding").register_forward_hook(lambda _module, _inputs, out: inputs.append(out))
    out = encoder(torch.arange(4, 4 + SYMBOLS)[None])
    (gradient,) = torch.autograd.grad((out[0, 0] - out[0, 1]) @ torch.ones(16).cumsum(0), inputs)
    return float(gradient.norm())


def _losses(place: str, residual: bool) -> list[float]:
    """The loss on other lines, before training and at each evaluation of a short one by the trainer."""
    recipe, generator = _deep(place, residual), torch.Generator().manual_seed(3)
    model, objective = build(recipe, seed=0), objective_of(recipe)
    examples, others = (_lines(count, generator) for count in (LINES * STEPS, 60))
    batch = objective.batch(others, np.arange(len(others)), 0)

    @torch.no_grad()
    def loss(average: nn.Module) -> float:
        return float(objective.loss(average.eval(), batch)) / len(others)

    return [loss(model), *learn(model, examples, objective, recipe, loss)]


def _lines(count: int, generator: torch.Generator) -> EncodedTexts:
    """Lines of two letters; the class of a line is its first letter."""
    ids = torch.randint(4, 4 + SYMBOLS, (count, 2), generator=generator)
    return EncodedTexts(side(ids), (ids[:, 0] - 4).numpy(), too_long=0)
