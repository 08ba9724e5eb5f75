"""What each token brings into each head: α_ij (v_j + b_ij) W_O, with the vector b_ij of a relative position (Shaw).

Summed over heads and tokens, plus b_O, it is the output of the attention (Kobayashi et al. 2020 take its norm).

Shapes: b lines (of tiles), n queries, m keys, h heads, e features of a value, o features out, w distances.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.inspection.record import AttentionRecord
from clearhead.positions import RelativePosition


def through_output(record: AttentionRecord, vectors: Float[Tensor, "... h r e"]) -> Float[Tensor, "... h r o"]:
    """Each head's vectors through its rows of W_O; without W_O, in the head's place of the concatenation."""
    weight = record.output_weight
    if weight is not None:
        return vectors @ weight.to(vectors.dtype)
    heads, size = vectors.shape[-3], vectors.shape[-1]
    places = torch.eye(heads * size, dtype=vectors.dtype, device=vectors.device).view(heads, size, heads * size)
    return vectors @ places


def head_outputs(record: AttentionRecord, dtype: torch.dtype | None = None) -> Float[Tensor, "b h n o"]:
    """What each head adds to the output of its attention: with b_O they sum to it."""
    heads = record.joined.view(*record.joined.shape[:2], record.heads, -1).transpose(1, 2)  # (b, h, n, e)
    return through_output(record, heads if dtype is None else heads.to(dtype))


def token_contributions(record: AttentionRecord, dtype: torch.dtype | None = None) -> Float[Tensor, "b h n m o"]:
    """α_ij (v_j + b_ij) W_O for every head, query and key. Takes b·h·n·m·o numbers: for one short line."""
    values = record.values if dtype is None else record.values.to(dtype)
    moved = through_output(record, values)[:, :, None]  # (b, h, 1, m, o)
    if (places := _places(record)) is not None:
        table, index = places
        moved = moved + through_output(record, table.to(values.dtype))[:, index]  # (b, h, n, m, o)
    return record.inside.to(values.dtype)[..., None] * moved


def norms_inside(record: AttentionRecord) -> Float[Tensor, "b h n m"]:
    """‖α_ij (v_j + b_ij) W_O‖ inside the tiles, without forming the vectors.

    ‖f_j + g_w‖² = ‖f_j‖² + 2 f_j·g_w + ‖g_w‖² for the value f_j of a token and the vector g_w of a distance.
    """
    moved = through_output(record, record.values)  # (b, h, m, o)
    size: Tensor = moved.norm(dim=-1)[:, :, None]  # (b, h, 1, m)
    if (places := _places(record)) is not None:
        table, index = places
        vectors = through_output(record, table)  # (h, w, o)
        products = moved.double() @ vectors.double().mT  # (b, h, m, w)
        squares = moved.double().square().sum(-1, keepdim=True) + vectors.double().square().sum(-1)[:, None]
        by_distance = (squares + 2 * products).clamp(min=0).sqrt().to(moved.dtype)  # (b, h, m, w)
        size = by_distance.mT.gather(2, index.expand(*by_distance.shape[:2], *index.shape))  # (b, h, n, m)
    return record.inside.abs() * size


def norms(record: AttentionRecord) -> Float[Tensor, "b h n m"]:
    """‖α_ij (v_j + b_ij) W_O‖ for every head, query and key."""
    found = norms_inside(record)
    return found if record.tiles is None else record.tiles.spread(found)


def _places(record: AttentionRecord) -> tuple[Float[Tensor, "h w e"], Int[Tensor, "n m"]] | None:
    """The vectors that positions add to values, and the row of each query and key; None if there are none."""
    scheme, queries, keys = record.context.scheme, record.context.queries, record.context.keys
    if scheme is None or not scheme.weighs_positions or queries is None or keys is None:
        return None
    if queries.dim() > 1:  # positions count from the first token, and padding is on the right
        queries, keys = queries[0], keys[0]
    ahead = keys - queries[:, None]  # (n, m)
    lowest = int(ahead.min())
    distances, rows = torch.arange(lowest, int(ahead.max()) + 1, device=ahead.device), ahead - lowest
    table = _of_distance(scheme, distances, record)
    on = record.values.abs().amax((0, 2, 3)) > 0  # a head that is switched off has no values and no places
    return table * on.to(table)[:, None, None], rows


def _of_distance(
    scheme: RelativePosition, distances: Int[Tensor, "w"], record: AttentionRecord
) -> Float[Tensor, "h w e"]:
    """The vector of each distance: the scheme's value term of a query that gives all its weight to one key."""
    lone = distances.new_zeros(1)
    heads = record.heads
    found = []
    for distance in distances:
        weight = record.values.new_ones(1, heads, 1, 1)
        term = scheme.value_term(weight, lone, lone + distance)
        assert term is not None  # the scheme weighs positions
        found.append(term[0, :, 0])
    return torch.stack(found, dim=1).detach()
