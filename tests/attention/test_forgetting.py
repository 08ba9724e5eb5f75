"""Caches that forget: a layer that sees a window holds that window alone, and nothing else changes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.attention import Cache, KeyValues, LocalAttention
from clearhead.decoding import ModelStepper, Rules, beam_search
from clearhead.models import LanguageModel, build
from clearhead.recipe import read_recipe

WINDOW, WIDTH, LAYERS = 4, 16, 2
SETTINGS = [
    *(
        "model.family=lm",
        f"model.layers={LAYERS}",
        f"model.width={WIDTH}",
        "model.heads=2",
        "model.feedforward.width=20",
    ),
    *("model.vocabulary.target=40", "model.attention.kind=local", f"model.attention.window={WINDOW}"),
]
MODELS = {
    "sinusoidal": [],
    "rope": ["model.position.kind=rope"],
    "alibi": ["model.position.kind=alibi"],
    "t5": ["model.position.kind=t5"],
    "shaw": ["model.position.kind=shaw", "model.position.farthest=2"],
    "one layer sees everything": [
        "model.position.kind=rope",
        "model.attention.whole=[2]",
        "model.attention.kv_heads=1",
    ],
}


def made(name: str) -> LanguageModel:
    model = build(read_recipe(None, *SETTINGS, *MODELS[name]), seed=3).eval()
    assert isinstance(model, LanguageModel)
    return model


def decoded(model: LanguageModel) -> tuple[list[Tensor], Cache]:
    """Left-padded prompts, single steps, lines that are reordered and dropped, a chunk of tokens, more steps."""
    draw = torch.Generator().manual_seed(1)

    def ids(lines: int, count: int) -> Tensor:
        return torch.randint(4, 40, (lines, count), generator=draw)

    state, found = model.start(), []
    valid = torch.arange(9) >= torch.tensor([[0], [2], [8]])
    found.append(model.step(ids(3, 9), state, valid))
    found += [model.step(ids(3, 1), state) for _ in range(6)]
    state.select(torch.tensor([2, 0, 0, 1]))
    found += [model.step(ids(4, 1), state) for _ in range(5)]
    found.append(model.step(ids(4, 7), state))
    state.select(torch.tensor([3, 1]))
    found += [model.step(ids(2, 1), state) for _ in range(20)]
    assert isinstance(state.cache, Cache)
    return found, state.cache


def held(cache: Any) -> list[int]:
    """Tokens that each layer holds."""
    return [layer.own.held for layer in cache.layers]


def full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyValues, "forget", lambda _self, _reach: None)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_full_cache_in_the_room_of_a_window(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(name)
    found, cache = decoded(model)
    sizes = held(cache)
    whole = [not isinstance(layer.attention, LocalAttention) for layer in model.decoder.layers]  # type: ignore[union-attr]
    assert sizes == [47 if sees_all else WINDOW for sees_all in whole]
    full(monkeypatch)
    expected, all_of_it = decoded(model)
    assert held(all_of_it) == [47] * LAYERS
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("reach", [WINDOW - 2, WINDOW - 3])
def test_a_cache_that_forgets_too_much_is_seen(reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("rope")
    found, _ = decoded(model)
    forget = KeyValues.forget
    monkeypatch.setattr(KeyValues, "forget", lambda self, _reach: forget(self, reach))
    wrong, _ = decoded(model)
    assert max(float((mine - theirs).abs().max()) for mine, theirs in zip(found, wrong, strict=True)) > 1e-3


@torch.no_grad()
def test_memory_is_flat_in_the_length() -> None:
    """The buffers themselves, spare room included: as large after 90 tokens as after 30."""
    model, rooms = made("rope"), list[list[int]]()
    state: Any = model.start()
    for step in range(90):
        model.step(torch.full((2, 1), 5), state)
        if step in (29, 89):
            rooms.append([_room(layer.own) for layer in state.cache.layers])
    assert rooms[0] == rooms[1]
    assert max(rooms[1]) <= 4 * WINDOW


def _room(kept: Any) -> int:
    """Tokens that fit into the buffer of keys."""
    keys, _ = kept.view()
    return int(keys.untyped_storage().nbytes()) // int(keys[:, :, 0].numel() * keys.element_size())


@torch.no_grad()
@pytest.mark.parametrize("chunks", [(3, 1, 2), (1, 2, 3), (3, 3, 1)], ids=str)
def test_padding_between_tokens_is_not_taken_for_tokens(
    chunks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line with padding after its tokens, and then more tokens: its last ones are farther back than its window."""

    def run() -> Tensor:
        draw = torch.Generator().manual_seed(2)
        model, state = made("rope"), None
        state = model.start()
        model.step(torch.randint(4, 40, (2, 8), generator=draw), state)
        for real in chunks:
            valid = torch.arange(6) < torch.tensor([[6], [real % 3]])  # of the second line none, one or two
            last = model.step(torch.randint(4, 40, (2, 6), generator=draw), state, valid)
        del last
        return model.step(torch.randint(4, 40, (2, 1), generator=draw), state)

    found = run()
    full(monkeypatch)
    torch.testing.assert_close(found, run(), atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_beams_find_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("alibi")
    prompts = [[1, 5, 6, 7, 8, 9, 10], [1, 11], [1, 12, 13, 14]]

    def best() -> list[list[int]]:
        stepper = ModelStepper.prompted(model, prompts)
        rules = Rules(longest=[30] * 3, shortest=[30] * 3)
        found = beam_search(stepper, rules, width=3, first=[prompt[-1] for prompt in prompts], eos=2)
        return [line[0].tokens for line in found]

    answers = best()
    full(monkeypatch)
    assert answers == best()
    assert min(map(len, answers)) > 2 * WINDOW


def test_what_is_held_moves_to_the_beginning_when_the_buffer_is_full() -> None:
    """Chunks of any size; what is held is always the end of all that was appended."""
    keys, values, kept, end = torch.randn(2, 3, 300, 4), torch.randn(2, 3, 300, 5), KeyValues(), 0
    for size in [1, 1, 7, 1, 1, 1, 30, 1, 2, 1] + [1] * 60 + [50] + [3] * 20:
        kept.forget(6)
        part = slice(end, end + size)
        end += size
        seen, also = kept.append(keys[:, :, part], values[:, :, part])
        first = max(0, end - size - 6)
        assert torch.equal(seen, keys[:, :, first:end])
        assert torch.equal(also, values[:, :, first:end])
