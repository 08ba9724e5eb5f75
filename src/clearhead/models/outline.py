"""The size of a model before it is allocated: it is built on torch's meta device, without weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clearhead.machine import require_memory
from clearhead.recipe import ModelSpec, StackSpec, module_of

_FEW = 2
"""Layers that are built to find the size of one."""


def outline(spec: ModelSpec) -> Any:
    """Build the model with all names and shapes but without weights."""
    with torch.device("meta"), _NoValues():
        return module_of(spec).from_spec(spec)


class _NoValues(TorchFunctionMode):
    """Draws no weights, as there are only shapes: on the meta device, torch imports its compiler to do so."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        options = dict(kwargs or {})
        if func in _DRAWING:
            return args[0] if args else options["tensor"]
        return func(*args, **options)


_DRAWING = {
    *(Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
    *(nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.trunc_normal_, nn.init.orthogonal_),
}


_sizes: dict[tuple[Any, str, torch.dtype], int] = {}
"""Bytes of what was asked for: a program that loads or trains builds the same model more than once."""
_MOST_SIZES = 256


def model_bytes(spec: ModelSpec) -> int:
    """Bytes of a model's weights and tables.

    The layers of a stack are equal unless heads are removed, so two of them give the size of ten thousand.
    """
    key = module_of(spec), spec.model_dump_json(), torch.get_default_dtype()
    found = _sizes.get(key)
    if found is None:
        found = _measure(spec)
        if len(_sizes) >= _MOST_SIZES:
            _sizes.clear()
        _sizes[key] = found
    return found


def _measure(spec: ModelSpec) -> int:
    deep = {name: part for name, part in _stacks(spec).items() if part.layers > _FEW}
    if not deep or not _equal_layers(spec):
        return _bytes(outline(spec))
    shallow = _with_layers(spec, dict.fromkeys(deep, _FEW - 1))
    base = _bytes(outline(shallow))
    total = base
    for name, part in deep.items():
        one_more = _bytes(outline(_with_layers(shallow, {name: _FEW}))) - base
        total += one_more * (part.layers - 1)
    return total


def require_model_memory(spec: ModelSpec, copies: float = 1.0) -> None:
    """Raise ``DoesNotFit`` if ``copies`` of a model do not fit into memory."""
    require_memory(
        copies * model_bytes(spec), "the model", "choose a smaller width, vocabulary or depth, or a larger machine"
    )


def _stacks(spec: ModelSpec) -> dict[str, StackSpec]:
    parts = {name: getattr(spec, name) for name in type(spec).model_fields}
    return {name: part for name, part in parts.items() if isinstance(part, StackSpec)}


def _equal_layers(spec: ModelSpec) -> bool:
    """Whether no attention has heads removed."""
    holders = [getattr(spec, name) for name in type(spec).model_fields]
    return all(getattr(getattr(part, "attention", None), "kept", None) is None for part in holders)


def _with_layers(spec: ModelSpec, layers: dict[str, int]) -> ModelSpec:
    parts = {name: getattr(spec, name).model_copy(update={"layers": count}) for name, count in layers.items()}
    return spec.model_copy(update=parts)


def _bytes(model: nn.Module) -> int:
    tensors: list[Tensor] = [*model.parameters(), *model.buffers()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
