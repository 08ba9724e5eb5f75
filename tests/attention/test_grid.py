"""Attention on a grid: against flattened sequences, loops over cells, and masks; no tensor larger than it must be."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.attention import (
    AttentionContext,
    AxialAttention,
    GridAttention,
    MultiHeadAttention,
    WindowAttention,
    from_tiles,
    to_tiles,
)
from clearhead.attention.score import ScoreName
from clearhead.positions import GridBias
from tests.attention.test_multihead import randomise

X, Y, D, H = 4, 6, 12, 3


def multihead(**settings: Any) -> MultiHeadAttention:
    module: MultiHeadAttention = randomise(MultiHeadAttention(**({"width": D, "heads": H} | settings)))
    return module


def heads_of(module: MultiHeadAttention, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of every head, on the grid: (h, X, Y, size)."""

    def split(joined: Tensor) -> Tensor:
        return joined.view(X, Y, H, -1).movedim(2, 0)

    return split(module.query(cells)), split(module.key(cells)), split(module.value(cells))


def joined(module: MultiHeadAttention, heads: Tensor) -> Tensor:
    """W_O over the heads, (h, X, Y, e) → (X·Y, d)."""
    out: Tensor = module.output(heads.movedim(0, 2).flatten(2)).flatten(0, 1)
    return out


def indexed(module: MultiHeadAttention, cells: Tensor, softmax_over: str) -> Tensor:
    """The problem's equations with x, y in place of t: a softmax over (x₂, y₂), or wrongly over y₂ of each row x₂."""
    query, key, value = heads_of(module, cells)
    score = torch.einsum("kxyu,kabu->kxyab", query, key) / (D // H) ** 0.5
    if softmax_over == "pairs":
        weights = score.exp() / score.exp().sum((3, 4), keepdim=True)
    else:
        weights = score.exp() / score.exp().sum(4, keepdim=True) / X
    return joined(module, torch.einsum("kxyab,kabi->kxyi", weights, value))


def test_L3_5_grid_attention_is_flattened_attention_and_the_indexed_equations() -> None:
    """L3.5: with the same weights it equals 1-D multi-head attention over X·Y tokens, and the einsum over pairs."""
    inside = multihead()
    module = GridAttention(inside, grid=(X, Y))
    cells = torch.randn(2, X * Y, D)
    torch.testing.assert_close(module(cells), inside(cells), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(module(cells)[0], indexed(inside, cells[0], "pairs"), atol=1e-5, rtol=1e-5)


def test_L3_5_rejects_a_softmax_for_each_row() -> None:
    """The wrong variant: weights that sum to one in each row instead of over the whole grid."""
    inside = multihead()
    cells = torch.randn(1, X * Y, D)
    wrong = indexed(inside, cells[0], "rows")
    assert not torch.allclose(GridAttention(inside, grid=(X, Y))(cells)[0], wrong, atol=1e-3)


def along(module: MultiHeadAttention, cells: Tensor, same: int) -> Tensor:
    """Loops: the cell (x, y) attends to the cells that share its coordinate ``same``: 0 its row, 1 its column."""
    query, key, value = heads_of(module, cells)
    heads = torch.zeros_like(value)
    for h, x, y in itertools.product(range(H), range(X), range(Y)):
        line = [(x, b) for b in range(Y)] if same == 0 else [(a, y) for a in range(X)]
        scores = torch.stack([query[h, x, y] @ key[h, a, b] for a, b in line]) / (D // H) ** 0.5
        for weight, (a, b) in zip(scores.softmax(0), line, strict=True):
            heads[h, x, y] += weight * value[h, a, b]
    return joined(module, heads)


def test_axial_attention_is_rows_then_columns() -> None:
    """Reference: loops over cells; columns first, or one pair of projections for both, is something else."""
    rows, columns = multihead(), multihead()
    module = AxialAttention(rows, columns, grid=(X, Y))
    cells = torch.randn(1, X * Y, D)
    with torch.no_grad():
        expected = along(columns, along(rows, cells[0], 0), 1)
        torch.testing.assert_close(module(cells)[0], expected, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(along(rows, along(columns, cells[0], 1), 0), expected, atol=1e-3)
        shared = AxialAttention(rows, rows, grid=(X, Y))
        assert not torch.allclose(shared(cells)[0], expected, atol=1e-3)


def test_window_attention_is_full_attention_behind_a_mask() -> None:
    """Reference: multi-head attention over all cells, masked to pairs of one window; off by one row is rejected."""
    inside, size = multihead(), 2
    module = WindowAttention(inside, grid=(X, Y), size=size)
    cells = torch.randn(2, X * Y, D)
    full = GridAttention(inside, grid=(X, Y))

    def masked(offset: int) -> Tensor:
        x, y = torch.arange(X * Y) // Y + offset, torch.arange(X * Y) % Y
        window = x // size * Y + y // size
        mask = window[:, None] == window[None, :]
        rows = [full(cells, context=AttentionContext(valid=mask[i].expand(2, -1)))[:, i] for i in range(X * Y)]
        return torch.stack(rows, dim=1)

    torch.testing.assert_close(module(cells), masked(0), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(module(cells), masked(1), atol=1e-3)


@given(batch=st.integers(1, 3), tiles=st.tuples(*[st.integers(1, 4)] * 2), tile=st.tuples(*[st.integers(1, 4)] * 2))
@settings(max_examples=30, deadline=None)
def test_tiles_hold_the_cells_of_one_place_and_come_back(
    batch: int, tiles: tuple[int, int], tile: tuple[int, int]
) -> None:
    """Tile number t = (x // r)·(Y/c) + y // c holds its cells row by row; from_tiles undoes it."""
    grid = tiles[0] * tile[0], tiles[1] * tile[1]
    cells = torch.randn(batch, grid[0] * grid[1], 2)
    cut = to_tiles(cells, grid, tile)
    assert torch.equal(from_tiles(cut, grid, tile), cells)
    for x, y in itertools.product(range(grid[0]), range(grid[1])):
        number = x // tile[0] * tiles[1] + y // tile[1]
        place = x % tile[0] * tile[1] + y % tile[1]
        assert torch.equal(cut[number, place], cells[0, x * grid[1] + y])


def modules(grid: tuple[int, int] = (X, Y), **settings: Any) -> dict[str, Any]:
    return {
        "grid": GridAttention(multihead(**settings), grid=grid),
        "axial": AxialAttention(multihead(**settings), multihead(**settings), grid=grid),
        "window": WindowAttention(multihead(**settings), grid=grid, size=2),
    }


def context_with_bias(grid: tuple[int, int]) -> AttentionContext:
    where = torch.arange(grid[0] * grid[1])
    return AttentionContext(scheme=randomise(GridBias(heads=H, grid=grid, farthest=2)), queries=where, keys=where)


@pytest.mark.parametrize("kind", ["axial", "window"])
def test_biases_reach_the_tiles(kind: str) -> None:
    """A bias by distance inside rows, columns and windows equals the same bias on full attention behind a mask."""
    module, context = modules()[kind], context_with_bias((X, Y))
    cells = torch.randn(1, X * Y, D)
    x, y = torch.arange(X * Y) // Y, torch.arange(X * Y) % Y

    def full(attention: MultiHeadAttention, tokens: Tensor, together: Tensor) -> Tensor:
        """Weights formed for all pairs, those of other tiles set to zero."""
        query, key, value = (
            part(tokens).view(X * Y, H, -1).transpose(0, 1)
            for part in (attention.query, attention.key, attention.value)
        )
        assert context.bias is not None
        scores = query @ key.mT / (D // H) ** 0.5 + context.bias
        weights = scores.masked_fill(together[:, None] != together[None, :], float("-inf")).softmax(-1)
        out: Tensor = attention.output((weights @ value).transpose(0, 1).flatten(1))
        return out

    with torch.no_grad():
        if kind == "axial":
            expected = full(module.columns, full(module.rows, cells[0], x), y)
        else:
            expected = full(module.inside, cells[0], x // 2 * Y + y // 2)
        torch.testing.assert_close(module(cells, context=context)[0], expected, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(module(cells)[0], expected, atol=1e-3)  # without the bias


def test_a_stack_of_layers_computes_the_bias_of_a_tile_once() -> None:
    context = context_with_bias((X, Y))
    module = modules()["axial"]
    cells = torch.randn(1, X * Y, D)
    module(cells, context=context)
    first = {tile: inside.bias for (_, tile), inside in context.shared._tiles.items()}
    module(cells, context=context)
    assert first.keys() == {(1, Y), (X, 1)}
    assert all(inside.bias is first[tile] for (_, tile), inside in context.shared._tiles.items())


def test_a_shared_context_gives_what_fresh_ones_give() -> None:
    """What layers share only saves time; the wrong variant, a tile of another scheme, is noticed."""
    first, second = context_with_bias((X, Y)), context_with_bias((X, Y))
    assert first.scheme is not None
    assert second.scheme is not None
    with torch.no_grad():
        for parameter in second.scheme.parameters():
            parameter.add_(1.0 + torch.rand_like(parameter))
    module = modules()["axial"]
    cells = torch.randn(1, X * Y, D)
    with torch.no_grad():
        fresh = module(cells, context=second)
        module(cells, context=first)  # fills what is shared
        assert torch.equal(module(cells, context=first.with_scheme(second.scheme)), fresh)
        assert not torch.allclose(module(cells, context=first), fresh, atol=1e-3)


@pytest.mark.parametrize("kind", ["grid", "axial", "window"])
def test_hidden_cells_are_not_seen(kind: str) -> None:
    """A mask over cells is cut into the same tiles: what is hidden changes nothing elsewhere."""
    module = modules()[kind]
    cells = torch.randn(1, X * Y, D)
    changed = cells.clone()
    changed[0, 7] += 1.0
    context = AttentionContext(valid=torch.arange(X * Y)[None] != 7)
    others = torch.arange(X * Y) != 7
    seen, unseen = module(cells, context=context), module(changed, context=context)
    torch.testing.assert_close(seen[0, others], unseen[0, others], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(module(cells)[0, others], module(changed)[0, others], atol=1e-4)


@pytest.mark.parametrize("kind", ["grid", "axial", "window"])
@pytest.mark.parametrize("score", ["dot", "multiplicative", "additive"])
def test_gradients_in_float64(kind: str, score: ScoreName) -> None:
    """gradcheck of the cells, through a bias by distance."""
    module = modules(grid=(2, 4), width=6, score=score)[kind].double()
    scheme = randomise(GridBias(heads=H, grid=(2, 4), farthest=1)).double()
    where = torch.arange(8)
    cells = torch.randn(1, 8, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda cells: module(cells, context=AttentionContext(scheme=scheme, queries=where, keys=where)),
        (cells,),
        fast_mode=True,  # along one random direction of each side, in place of 48 × 48 entries
    )


@pytest.mark.parametrize("kind", ["grid", "axial", "window"])
def test_a_hard_choice_takes_one_cell_of_the_tile(kind: str) -> None:
    module = modules(choice="hard")[kind]
    watched: list[Tensor] = []
    for part in module.children():
        part.weights.register_forward_hook(lambda _m, _i, weights: watched.append(weights))
    module(torch.randn(2, X * Y, D))
    assert len(watched) == (2 if kind == "axial" else 1)
    for weights in watched:
        assert torch.equal(weights.sort(-1).values[..., -1], torch.ones(weights.shape[:-1]))
        assert (weights.count_nonzero(-1) == 1).all()


def test_nothing_on_a_grid_is_causal() -> None:
    with pytest.raises(ValueError, match="cannot be causal"):
        modules()["grid"](torch.randn(1, X * Y, D), context=AttentionContext(causal=True))


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


def test_no_tensor_is_larger_than_the_weights_of_the_tiles() -> None:
    """Forward and backward at 16 × 16 hold h·n² numbers at most, axial and window far fewer; never h·n²·d."""
    n = 256
    largest = {}
    for kind, module in modules(grid=(16, 16)).items():
        for attention in module.children():
            attention.path = "explicit"
        cells = torch.randn(1, n, D, requires_grad=True)
        with Largest() as mode:
            module(cells).sum().backward()
        largest[kind] = mode.numbers
    assert largest == {"grid": H * n * n, "axial": H * n * 16, "window": n * D}
