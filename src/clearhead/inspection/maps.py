"""Matrices by layer and head, with their axes named.

Shapes: h heads, n queries, m keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import Problem, RecipeError, did_you_mean


@dataclass(frozen=True, repr=False)
class HeadMaps:
    """A matrix for every layer and head of a stack: ``maps[1, 4]`` counts from 0, ``maps["cross.2.5"]`` from 1.

    Args:
        stack: ``encoder``, ``decoder`` or ``cross``.
        layers: a tensor (h, n, m) for every layer; None for a layer without heads.
        queries: the tokens that attend, n of them.
        keys: the tokens that are attended to, m of them.
    """

    stack: str
    layers: tuple[Float[Tensor, "h n m"] | None, ...]
    queries: tuple[str, ...]
    keys: tuple[str, ...]

    axes = ("layer", "head", "query", "key")

    def __getitem__(self, where: int | tuple[int, int] | str) -> Tensor:
        if isinstance(where, str):
            if where not in self.names:
                message = f"no such head{did_you_mean(where, self.names)}"
                raise RecipeError([Problem("", where, message)])
            _, layer, head = where.split(".")
            where = int(layer) - 1, int(head) - 1
        layer_number, *head_number = (where,) if isinstance(where, int) else where
        found = self.layers[layer_number]
        if found is None:
            raise IndexError(f"layer {layer_number + 1} of {self.stack} has no heads")
        return found[head_number[0]] if head_number else found

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[layer] for layer in range(len(self.layers)))

    @property
    def names(self) -> list[str]:
        """``STACK.LAYER.HEAD`` of every head."""
        sizes = [0 if layer is None else len(layer) for layer in self.layers]
        return [f"{self.stack}.{layer}.{head}" for layer, size in enumerate(sizes, 1) for head in range(1, size + 1)]

    @property
    def size(self) -> int:
        """The number of values."""
        return sum(layer.numel() for layer in self.layers if layer is not None)

    def numpy(self) -> np.ndarray:
        """All layers as one array (layer, head, query, key); heads that a layer does not have are NaN."""
        most = max((len(layer) for layer in self.layers if layer is not None), default=0)
        whole = np.full((len(self.layers), most, len(self.queries), len(self.keys)), np.nan, dtype=np.float32)
        for number, layer in enumerate(self.layers):
            if layer is not None:
                whole[number, : len(layer)] = layer.cpu().numpy()
        return whole

    def mean(self) -> Float[Tensor, "n m"]:
        """The mean over all layers and heads."""
        return torch.cat([layer for layer in self.layers if layer is not None]).mean(0)

    def tolist(self) -> list[list[list[list[float]]] | None]:
        """As nested lists, [layer][head][query][key]."""
        return [None if layer is None else layer.tolist() for layer in self.layers]

    def __repr__(self) -> str:
        heads = " + ".join(str(0 if layer is None else len(layer)) for layer in self.layers)
        size = f"{len(self.queries)} queries × {len(self.keys)} keys"
        return f"HeadMaps({self.stack}: {heads} heads in {len(self.layers)} layers, {size})"


class Maps(Mapping[str, HeadMaps]):
    """The matrices of all stacks: ``maps["cross"]``, ``maps["cross.2.5"]``.

    Args:
        stacks: the matrices of every stack.
    """

    def __init__(self, stacks: Sequence[HeadMaps]) -> None:
        self._stacks = {stack.stack: stack for stack in stacks}

    def __getitem__(self, name: str) -> HeadMaps:
        if name in self._stacks:
            return self._stacks[name]
        raise KeyError(f"{name!r}: there is {', '.join(self._stacks) or 'no attention'}")

    def head(self, name: str) -> Float[Tensor, "n m"]:
        """The matrix of one head by its name, ``cross.2.5``."""
        stack = name.partition(".")[0]
        if stack not in self._stacks:
            known = [head for maps in self._stacks.values() for head in maps.names]
            raise RecipeError([Problem("", name, f"no such head{did_you_mean(name, known)}")])
        return self._stacks[stack][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stacks)

    def __len__(self) -> int:
        return len(self._stacks)

    def __repr__(self) -> str:
        return f"Maps({', '.join(map(repr, self._stacks.values()))})"
