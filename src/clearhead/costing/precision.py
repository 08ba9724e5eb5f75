"""What training would compute a recipe in on this machine; torch is asked only where the system cannot tell."""

from clearhead.machine import cpu_flags, may_have_gpu
from clearhead.recipe import Precision, Recipe, precision_of

BFLOAT16_FLAGS = {"avx512_bf16", "amx_tile"}
"""Of CPUs that multiply bfloat16."""


def precision_here(recipe: Recipe) -> Precision:
    """The recipe's own word, or what ``auto`` is resolved to when training begins here."""
    return precision_of(recipe, multiplies=lambda: _multiplies(recipe.training.device))


def _multiplies(device: str) -> bool:
    """Whether training takes the CPU, and this one multiplies bfloat16."""
    flags = cpu_flags()
    if device not in ("auto", "cpu") or (flags is not None and not flags & BFLOAT16_FLAGS):
        return False
    if flags is not None and (device == "cpu" or not may_have_gpu()):
        return True
    from clearhead.models import computes_bfloat16, pick_device

    return pick_device(device).type == "cpu" and computes_bfloat16()
