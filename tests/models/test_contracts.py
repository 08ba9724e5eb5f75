"""The contracts, for every family and every registered mechanism: neighbours, cache, causality, order."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import Phase, example, given
from hypothesis import strategies as st
from torch import Tensor

from clearhead.errors import RecipeError, TooLong
from clearhead.models import Model, build
from clearhead.positions import RotaryPosition, positions_of
from clearhead.recipe import kinds, read_recipe
from tests.models.zoo import ABSOLUTE, ORDERED, RECURRENT, RECURRENT_LM, RELATIVE, SIDE_BY_SIDE, VARIANTS, make
from tests.shapes import shapes_are_known
from tests.thorough import THOROUGH, drawn

PAD = 0
lines = st.lists(st.lists(st.integers(4, 39), min_size=1, max_size=9), min_size=2, max_size=5)


def assert_alike(mine: Tensor, other: Tensor) -> None:
    """Equal but for the last bits, which the shapes of matrix products may move."""
    torch.testing.assert_close(mine, other, atol=2e-5, rtol=1e-4)


def padded(rows: list[list[int]], extra: int = 0, left: bool = False) -> Tensor:
    width = max(map(len, rows)) + extra
    fill = [[PAD] * (width - len(row)) for row in rows]
    return torch.tensor([pad + row if left else row + pad for row, pad in zip(rows, fill, strict=True)])


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT])
@example(rows=[[5], [*range(6, 15)], [15, 16], [17, 5, 18, 19, 20, 21]], extra=2, seed=1)
@example(rows=[[22, 23, 24], [25], [25, 26, 27]], extra=0, seed=2)
@given(rows=lines, extra=st.integers(0, 3), seed=st.integers(0, 99))
@drawn(1, 30, phases=tuple(Phase) if THOROUGH else [Phase.explicit])
def test_a_line_does_not_depend_on_its_neighbours(variant: str, rows: list[list[int]], extra: int, seed: int) -> None:
    """Contract 1: batch, order and padding do not matter, for encoder, decoder and cross-attention alike.

    Lines of one token and of many, with more padding than any needs, and with the longest of them twice, without.
    Statistics over a line of two tokens divide by what may be as small as rounding, so they are held to it in float64.
    """
    model = _cached("seq2seq", variant)
    if variant == "statistics over the sequence":
        model = copy.deepcopy(model).double()
    targets = [[1, *row[::-1]] for row in rows]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        batch = model(padded(rows, extra)[order], padded(targets, extra)[order])
        for place, index in enumerate(order.tolist()):
            alone = model(torch.tensor([rows[index]]), torch.tensor([targets[index]]))
            shapes_are_known()
            assert_alike(batch[place, : len(targets[index])], alone[0])


@pytest.mark.parametrize("family", ["lm", "encoder", "classifier"])
@pytest.mark.parametrize("left", [False, True])
@given(rows=lines, extra=st.integers(0, 3))
@drawn(4, 30)
def test_padding_on_either_side_does_not_matter(family: str, left: bool, rows: list[list[int]], extra: int) -> None:
    """Contract 1 and the left-padding edge case, with absolute positions, which would show any shift."""
    model = _cached(family, "position learned")
    with torch.no_grad():
        batch = model(padded(rows, extra, left))
        for index, row in enumerate(rows):
            alone = model(torch.tensor([row]))[0]
            shapes_are_known()
            mine = batch[index] if family == "classifier" else batch[index][_real(len(row), batch.shape[1], left)]
            assert_alike(mine, alone)


def test_the_padding_contract_rejects_a_model_that_sees_padding() -> None:
    """The wrong variant: without its mask an encoder is moved by padding."""
    model = make("encoder", "plain")
    row = [5, 6, 7]
    with torch.no_grad():
        alone = model(torch.tensor([row]))[0]
        seen = model(padded([row], 2), torch.ones(1, 5, dtype=torch.bool))[0, :3]
    assert not torch.allclose(seen, alone, atol=1e-3)


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT])
def test_with_a_cache_is_without_a_cache(variant: str) -> None:
    """Contract 2, seq2seq: steps of any size, first, later and last, give the logits of teacher forcing."""
    model = _cached("seq2seq", variant)
    source, target = torch.randint(4, 40, (3, 5)), torch.randint(4, 40, (3, 6))
    source[1, 3:] = PAD
    with torch.no_grad():
        whole = model(source, target)
        for chunks in ((1, 1, 2, 1, 1), (3, 1, 2)):
            state, start = model.start(source), 0
            for size in chunks:
                logits = model.step(target[:, start : start + size], state)
                start += size
                assert_alike(logits, whole[:, start - 1])
            shapes_are_known()
            assert state.cache.length == 6
            for layer in getattr(state.cache, "layers", []):
                assert layer.own.length == 6
                assert layer.cross.length == 5 or "informer" in variant  # which keeps its slots


@pytest.mark.parametrize("variant", [*VARIANTS, *SIDE_BY_SIDE, *RECURRENT_LM])
def test_a_language_models_cache_takes_left_padded_prompts(variant: str) -> None:
    """Contract 2, lm: prompts of unequal length, then token by token, equals each line on its own."""
    model = _cached("lm", variant)
    prompts = [[5, 6, 7, 8], [9, 10]]
    more = torch.randint(4, 40, (2, 3))
    ids = padded(prompts, left=True)
    with torch.no_grad():
        state = model.start()
        steps = [model.step(ids, state, ids != PAD)]
        steps += [model.step(more[:, index : index + 1], state) for index in range(3)]
        shapes_are_known()
        for row, prompt in enumerate(prompts):
            alone = model(torch.tensor([prompt + more[row].tolist()]))[0]
            for index, logits in enumerate(steps):
                assert_alike(logits[row], alone[len(prompt) - 1 + index])


@pytest.mark.parametrize("variant", ["position learned", *RECURRENT_LM])
def test_a_cache_with_left_padding_follows_its_beams(variant: str) -> None:
    """Which of the old tokens are padding moves along with the rows."""
    model = _cached("lm", variant)
    ids = padded([[5, 6, 7, 8], [9, 10], [11, 12, 13]], left=True)
    rows = torch.tensor([2, 1, 1])  # neither sorted nor its own reverse
    with torch.no_grad():
        state = model.start()
        model.step(ids, state, ids != PAD)
        state.select(rows)
        logits = model.step(torch.tensor([[4], [5], [6]]), state)
        for place, line in enumerate(([11, 12, 13, 4], [9, 10, 5], [9, 10, 6])):
            assert_alike(logits[place], model(torch.tensor([line]))[0, -1])


def test_padding_may_follow_tokens_without_padding() -> None:
    """The first step has none, so that its tokens all count once the second step has some."""
    model = _cached("lm", "plain")
    with torch.no_grad():
        state = model.start()
        model.step(torch.tensor([[5, 6], [7, 8]]), state)
        ids = torch.tensor([[9, 10], [PAD, 11]])
        logits = model.step(ids, state, ids != PAD)
        for row, line in enumerate(([5, 6, 9, 10], [7, 8, 11])):
            assert_alike(logits[row], model(torch.tensor([line]))[0, -1])


def test_a_sequence_that_is_too_long_leaves_the_cache_as_it_was() -> None:
    model = make("lm", "position learned", "model.position.size=4")
    with torch.no_grad():
        state = model.start()
        model.step(torch.tensor([[5, 6, 7]]), state)
        with pytest.raises(TooLong):
            model.step(torch.tensor([[5, 6, 7]]), state)
        logits = model.step(torch.tensor([[8]]), state)
        assert_alike(logits[0], model(torch.tensor([[5, 6, 7, 8]]))[0, -1])


@pytest.mark.parametrize("axis", ["token", "sequence"])
@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("eps_place", ["inside", "outside"])
def test_a_source_of_nothing_but_padding_does_no_harm(axis: str, place: str, eps_place: str) -> None:
    """Fully masked rows through a whole, deep model: finite outputs and finite gradients."""
    norm = [f"model.norm.place={place}", f"model.norm.eps_place={eps_place}", f"model.encoder.norm.axis={axis}"]
    model = make("seq2seq", "plain", *norm, "model.encoder.layers=8")
    source, target = torch.tensor([[5, 6, 7], [PAD, PAD, PAD]]), torch.tensor([[1, 5], [1, 6]])
    out = model(source, target)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def test_padding_must_be_told_apart_in_a_language_model() -> None:
    """Padding that is also <s> or </s> would hide real tokens from forward, though not from step: refused."""
    for special in ("bos", "eos"):
        with pytest.raises(RecipeError, match="padding that is also another special token"):
            read_recipe(None, "model.family=lm", f"model.vocabulary.{special}=0")


@pytest.mark.parametrize("variant", ["position t5", *RECURRENT])
def test_a_state_follows_its_beams(variant: str) -> None:
    """Rows that are reordered, repeated and dropped continue as if they had always stood there."""
    model = _cached("seq2seq", variant)
    source, target = torch.randint(4, 40, (3, 5)), torch.randint(4, 40, (3, 4))
    source[2, 2:] = PAD
    rows = torch.tensor([2, 0, 0, 1])  # neither sorted nor its own reverse
    with torch.no_grad():
        state = model.start(source)
        model.step(target, state)
        state.select(rows)
        token = torch.tensor([[5], [6], [7], [5]])
        logits = model.step(token, state)
        expected = model(source[rows], torch.cat((target[rows], token), dim=1))[:, -1]
        unmoved = model(source[[0, 1, 2, 0]], torch.cat((target[[0, 1, 2, 0]], token), dim=1))[:, -1]
    assert_alike(logits, expected)
    assert not torch.allclose(logits, unmoved, atol=1e-3)


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT_LM])
def test_L1_9_no_token_sees_the_future(variant: str) -> None:
    """L1.9: ∂y_i/∂x_j = 0 for j > i, by derivative, through a whole decoder; and not for j ≤ i."""
    model = _cached("lm", variant)
    jacobian = _influence(model, torch.tensor([[5, 6, 7, 8, 9]]))
    future = torch.ones(5, 5).triu(1).bool()
    assert (jacobian[future] == 0).all()
    if variant != "hard":  # a hard choice may really look at one token only
        assert (jacobian[~future] > 0).all()


def test_L1_9_rejects_a_mask_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant: a mask that shows one token too many fails the same check."""
    model, ids = make("lm", "position none"), torch.tensor([[5, 6, 7, 8, 9]])
    for layer in model.decoder.layers:
        layer.attention.path = "explicit"
    future = torch.ones(5, 5).triu(1).bool()
    for shift, sees_future in ((1, True), (0, False)):

        def mask(n: int, m: int, device: torch.device | None = None, shift: int = shift) -> Tensor:
            return torch.ones(n, m, dtype=torch.bool).tril(m - n + shift)

        monkeypatch.setattr("clearhead.attention.context.causal_mask", mask)
        jacobian = _influence(model, ids)
        assert bool((jacobian[future] > 0).any()) == sees_future


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in RELATIVE + ABSOLUTE + ORDERED])
def test_L1_10_without_positions_a_model_sees_a_set(variant: str) -> None:
    """L1.10: permuting the tokens permutes the outputs when there are no positions, and not when there are."""
    ids, order = torch.tensor([[5, 6, 7, 8, 9, 10]]), torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        unordered = make("encoder", variant, "model.position.kind=none")
        assert_alike(unordered(ids[:, order]), unordered(ids)[:, order])
        ordered = make("encoder", variant, "model.position.kind=sinusoidal")
        assert not torch.allclose(ordered(ids[:, order]), ordered(ids)[:, order], atol=1e-3)


def test_rope_across_knows_the_distance_between_two_sequences() -> None:
    """L1.10, L2.11: no other order is known; both sequences shifted alike look the same, one alone does not."""
    source, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 9, 4]])
    logits: dict[str, Tensor] = {}
    with torch.no_grad():
        blind = make("seq2seq", "plain", "model.position.kind=none")
        assert_alike(blind(source.flip(1), target), blind(source, target))
        model = make("seq2seq", "rope across", "model.position.kind=none")
        assert not torch.allclose(model(source.flip(1), target), model(source, target), atol=1e-3)
        memory = model.encode(source)
        scheme, turns = model.decoder.cross_scheme, RotaryPosition.turns
        for name, shifts in {"none": (0, 0), "both": (3, 3), "source": (3, 0)}.items():
            # the source has four tokens and the target three
            scheme.turns = lambda positions, dtype, shifts=shifts: turns(
                scheme, positions + shifts[int(positions.shape[-1] == 3)], dtype
            )
            logits[name] = model.decoder(target, memory=memory)
    assert_alike(logits["both"], logits["none"])
    assert not torch.allclose(logits["source"], logits["none"], atol=1e-3)


@pytest.mark.parametrize("variant", RELATIVE + ABSOLUTE)
def test_L2_11_only_absolute_schemes_notice_a_shift(variant: str) -> None:
    """L2.11: a sequence that starts three positions later looks the same to relative schemes, and not to absolute."""
    model = make("encoder", variant)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        here = model.encoder(ids)
        there = _shifted(model, ids, 3)
    if variant in RELATIVE:
        assert_alike(there, here)
    else:
        assert not torch.allclose(there, here, atol=1e-3)


@pytest.mark.parametrize("variant", ["plain", "post norm", "hard", "position rope", *RECURRENT])
def test_L0_1_the_likelihood_factorises(variant: str) -> None:
    """L0.1: the teacher-forced Σ log p(y_l | y_<l; x) equals the score collected step by step while decoding."""
    shapes_are_known()  # from the same model with a cache and without
    model = _cached("seq2seq", variant)
    source, target = torch.randint(4, 40, (4, 6)), torch.randint(4, 40, (4, 7))
    start = torch.full((4, 1), 1)
    with torch.no_grad():
        forced = model(source, torch.cat((start, target[:, :-1]), dim=1)).log_softmax(-1)
        forced_score = forced.gather(-1, target[..., None]).sum((1, 2))
        state, token, decoded = model.start(source), start, torch.zeros(4)
        for index in range(7):
            step = model.step(token, state).log_softmax(-1)
            token = target[:, index : index + 1]
            decoded += step.gather(-1, token)[:, 0]
        unshifted = model(source, target).log_softmax(-1).gather(-1, target[..., None]).sum((1, 2))
    torch.testing.assert_close(decoded, forced_score, atol=1e-4, rtol=1e-5)
    assert not torch.allclose(unshifted, forced_score, atol=1e-2)  # the wrong variant: y_l given y_≤l


@pytest.mark.parametrize("family", ["encoder", "classifier"])
@pytest.mark.parametrize("left", [False, True])
@given(rows=lines, extra=st.integers(0, 3))
@drawn(4, 30)
def test_recurrent_encoders_pass_padding_by(family: str, left: bool, rows: list[list[int]], extra: int) -> None:
    """Contract 1 for what reads in both directions: where padding stands, and how much, does not matter."""
    sizes = ["model.width=16", "model.layers=2", "model.vocabulary.source=40"]
    model = _built(f"model.family={family}", *sizes, "model.encoder.kind=recurrent", "model.encoder.cell=lstm")
    with torch.no_grad():
        batch = model(padded(rows, extra, left))
        for index, row in enumerate(rows):
            alone = model(torch.tensor([row]))[0]
            shapes_are_known()
            mine = batch[index] if family == "classifier" else batch[index][_real(len(row), batch.shape[1], left)]
            assert_alike(mine, alone)
        # the wrong variant: a net that reads padding as if it were there
        longer = padded(rows[:1], 3, left)
        seen = model(longer, torch.ones_like(longer, dtype=torch.bool))[0]
        here = seen if family == "classifier" else seen[_real(len(rows[0]), longer.shape[1], left)]
        assert not torch.allclose(here, model(torch.tensor([rows[0]]))[0], atol=1e-4)


@pytest.mark.parametrize("variant", RECURRENT)
def test_recurrent_parts_survive_a_source_of_nothing_but_padding(variant: str) -> None:
    """Finite outputs and finite gradients, also where there is nothing to look at."""
    model = make("seq2seq", variant)
    source, target = torch.tensor([[5, 6, 7], [PAD, PAD, PAD]]), torch.tensor([[1, 5], [1, 6]])
    out = model(source, target)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("variant", RECURRENT)
def test_L1_9_no_target_token_sees_the_future(variant: str) -> None:
    """L1.9: by derivative, with a memory to look at; and every token before, and the source, has its say."""
    model = _cached("seq2seq", variant)
    embedded: list[Tensor] = []
    hooks = [
        part.embedding.register_forward_hook(lambda _m, _i, out: embedded.append(out))
        for part in (model.encoder, model.decoder)
    ]
    out = model.states(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8, 9, 10]]))
    for hook in hooks:
        hook.remove()
    source, target = embedded
    for place in range(4):
        wish = out[0, place] @ torch.linspace(1, 2, out.shape[-1])
        here, there = torch.autograd.grad(wish, [target, source], retain_graph=True)
        assert (here[0, place + 1 :] == 0).all()
        assert (here[0, : place + 1].abs().sum(-1) > 0).all()
        assert (there[0].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("encoder", kinds("encoder"))
@pytest.mark.parametrize("decoder", kinds("decoder"))
def test_L1_3_either_encoder_feeds_either_decoder(encoder: str, decoder: str) -> None:
    """L1.3: h from an RNN or from a Transformer: every source token has its say in every output.

    The wrong variant: with the encoder's vectors zeroed the same check fails.
    """
    sizes = ["model.width=16", "model.vocabulary.source=40", "model.vocabulary.target=40"]
    model = _built(*sizes, f"model.encoder.kind={encoder}", f"model.decoder.kind={decoder}")

    def influence() -> Tensor:
        embedded: list[Tensor] = []
        hook = model.encoder.embedding.register_forward_hook(lambda _m, _i, out: embedded.append(out))
        out = model(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8, 9, 10]]))
        hook.remove()
        assert out.shape == (1, 4, 40)
        rows = [torch.autograd.grad(line.square().sum(), embedded, retain_graph=True)[0] for line in out[0]]
        return torch.stack([row[0].abs().sum(-1) for row in rows])  # (target, source)

    assert (influence() > 0).all()
    hook = model.encoder.register_forward_hook(lambda _m, _i, out: out * 0)
    assert (influence() == 0).all()
    hook.remove()


_models: dict[tuple[str, ...], Any] = {}


def _cached(family: str, variant: str, *more: str) -> Any:
    """One model per family and variant: none of these tests changes it."""
    if (family, variant, *more) not in _models:
        _models[family, variant, *more] = make(family, variant, *more)
    return _models[family, variant, *more]


def _built(*overrides: str) -> Any:
    if overrides not in _models:
        _models[overrides] = build(read_recipe(None, *overrides), seed=5).eval()
    return _models[overrides]


def _real(length: int, width: int, left: bool) -> slice:
    return slice(width - length, width) if left else slice(0, length)


def _influence(model: Model, ids: Tensor) -> Tensor:
    """|∂ y_i / ∂ x_j| summed over features, (n, n): how much output i depends on the embedding of token j."""
    stack: Any = model.get_submodule("decoder" if hasattr(model, "decoder") else "encoder")
    embedded: list[Tensor] = []
    handle = stack.embedding.register_forward_hook(lambda _m, _i, out: embedded.append(out))
    out = stack(ids)
    handle.remove()
    rows = [
        torch.autograd.grad(out[0, i] @ torch.linspace(1, 2, out.shape[-1]), embedded, retain_graph=True)[0]
        for i in range(ids.shape[1])
    ]
    return torch.stack([row[0].abs().sum(-1) for row in rows])


def _shifted(model: Any, ids: Tensor, by: int) -> Tensor:
    """Run the encoder as if the sequence started ``by`` positions later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.blocks.stack.positions_of", lambda *args: positions_of(*args) + by)
        out: Tensor = model.encoder(ids)
        return out
