"""The key-value cache: keys and values of earlier tokens, so that a decoding step computes only the new token.

The cache is for decoding only: it is written in place, outside of autograd.

Shapes: b batch, h heads, t tokens so far, d and e features of a key and of a value.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class KeyValues:
    """The cached keys and values of one attention, in a buffer that doubles when it is full: O(1) per token.

    An attention that never looks farther back than some tokens lets the older ones go (``forget``); the buffer is then
    used again from its beginning, and its size does not grow with the text.
    """

    def __init__(self) -> None:
        self.length = 0
        """Tokens so far."""
        self.held = 0
        """How many of them are held: all, or the last ones."""
        self.kept: dict[str, Any] = {}
        """Other tensors that an attention keeps between steps; they are the same for all rows of the batch."""
        self._start = 0
        self._keys: Float[Tensor, "b h c d"] | None = None
        self._values: Float[Tensor, "b h c e"] | None = None

    def append(
        self, keys: Float[Tensor, "b h n d"], values: Float[Tensor, "b h n e"]
    ) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
        """Append the keys and values of n tokens; return those of all t tokens that are held."""
        held, new = self._place, keys.shape[2]
        self._keys, self._start = _with_room(self._keys, held, keys)
        self._values, _ = _with_room(self._values, held, values)
        first = self._start + self.held
        self._keys[:, :, first : first + new] = keys.detach()
        self._values[:, :, first : first + new] = values.detach()
        self.length, self.held = self.length + new, self.held + new
        return self.view()

    def forget(self, reach: int) -> None:
        """Hold the last ``reach`` tokens alone."""
        gone = max(self.held - reach, 0)
        self._start, self.held = self._start + gone, self.held - gone

    def view(self) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
        """The keys and values of all tokens that are held."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty")
        return self._keys[:, :, self._place], self._values[:, :, self._place]

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order; rows may be repeated (beam search)."""
        if self._keys is not None and self._values is not None:
            self._keys = _gather(self._keys, self._place, rows)
            self._values = _gather(self._values, self._place, rows)

    @property
    def _place(self) -> slice:
        """Where in the buffers the tokens stand that are held."""
        return slice(self._start, self._start + self.held)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored keys and values, without spare capacity."""
        return 0 if self._keys is None else sum(part.numel() * part.element_size() for part in self.view())


def remembered(
    cache: KeyValues | None,
    candidates: Callable[[], tuple[Tensor, Tensor]],
    *,
    fixed: bool,
) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
    """Return the keys and values of all tokens, cached and new.

    Args:
        cache: the cache, or None, in which case nothing is stored.
        candidates: computes the keys and values of the new tokens; they are appended to the cache.
        fixed: True for cross-attention, whose memory never changes: ``candidates`` is called in the first step only.
    """
    if cache is None:
        return candidates()
    return cache.view() if fixed and cache.length else cache.append(*candidates())


def _with_room(
    buffer: Float[Tensor, "b h c d"] | None, held: slice, like: Float[Tensor, "b h n d"]
) -> tuple[Float[Tensor, "b h c2 d"], int]:
    """A buffer with room for n more tokens after those that are held, and where in it these begin."""
    batch, heads, new, size = like.shape
    if buffer is None:
        return like.new_empty(batch, heads, new, size), 0
    if held.stop + new <= buffer.shape[2]:
        return buffer, held.start
    needed, capacity = held.stop - held.start + new, buffer.shape[2]
    if held.start and 2 * needed <= capacity:  # at least as many were forgotten as have to be moved: O(1) per token
        buffer[:, :, : needed - new] = buffer[:, :, held]
        return buffer, 0
    room = 2 * needed if held.start else max(needed, 2 * capacity)
    larger = like.new_empty(batch, heads, max(room, 16), size)
    larger[:, :, : needed - new] = buffer[:, :, held]
    return larger, 0


def _gather(buffer: Float[Tensor, "b h c d"], held: slice, rows: Int[Tensor, "r"]) -> Float[Tensor, "r h c d"]:
    gathered = buffer.new_empty(len(rows), *buffer.shape[1:])
    gathered[:, :, held] = buffer[rows, :, held]
    return gathered


class RecentTokens:
    """The last inputs of a convolution, (b, r, d): as many as it reaches back; its size does not grow."""

    def __init__(self) -> None:
        self.length = 0
        self._tokens: Float[Tensor, "b r d"] | None = None

    def joined(self, tokens: Float[Tensor, "b n d"], reach: int) -> Float[Tensor, "b t d"]:
        """The last ``reach`` inputs, then these; before the first one, inputs are 0."""
        if self._tokens is None:
            self._tokens = tokens.new_zeros(tokens.shape[0], reach, tokens.shape[-1])
        return torch.cat((self._tokens, tokens), dim=1)

    def keep(self, line: Float[Tensor, "b t d"], reach: int, new: int) -> None:
        """Keep the last ``reach`` inputs of a line to which ``new`` ones were added."""
        self._tokens = line[:, line.shape[1] - reach :].detach().clone()
        self.length += new

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order; rows may be repeated (beam search)."""
        self._tokens = None if self._tokens is None else self._tokens[rows]

    @property
    def nbytes(self) -> int:
        """Bytes of the stored inputs."""
        return 0 if self._tokens is None else self._tokens.numel() * self._tokens.element_size()


@dataclass
class LayerCache:
    """The cache of one decoder layer: self-attention (``own``), which grows, and cross-attention, computed once.

    In a convolutional layer, ``own`` holds the last inputs.
    """

    own: KeyValues | RecentTokens = field(default_factory=KeyValues)
    cross: KeyValues = field(default_factory=KeyValues)


class Cache:
    """The key-value cache of a whole decoder.

    Args:
        layers: the number of decoder layers.
        recent: whether the layers convolve, so that each keeps its last inputs. Default: False.
    """

    def __init__(self, layers: int, *, recent: bool = False) -> None:
        self.layers = [LayerCache(own=RecentTokens() if recent else KeyValues()) for _ in range(layers)]
        self.valid: Bool[Tensor, "b t"] | None = None
        """True for tokens, False for padding, among all positions so far; None without padding."""
        self.length = 0

    def with_new(
        self, batch: int, new: int, valid: Bool[Tensor, "b n"] | None, device: torch.device
    ) -> Bool[Tensor, "b t"] | None:
        """``valid`` of all positions once ``new`` ones are appended; None without padding. Changes nothing."""
        if valid is None and self.valid is None:
            return None
        old, more = self.valid, valid
        if old is None:
            old = torch.ones(batch, self.length, dtype=torch.bool, device=device)
        if more is None:
            more = torch.ones(batch, new, dtype=torch.bool, device=device)
        return torch.cat((old, more), dim=1)

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order: beams are reordered, finished lines dropped."""
        if self.valid is not None:
            self.valid = self.valid[rows]
        for layer in self.layers:
            layer.own.select(rows)
            layer.cross.select(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values: L·b·h·(d̃_q + d̃_v)·t floats, and the same for the source.

        Layers that see a window of r tokens hold r of them in place of t, once t is larger.
        """
        return sum(layer.own.nbytes + layer.cross.nbytes for layer in self.layers)
