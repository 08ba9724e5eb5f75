"""The precision that costs are counted in is the one that training takes on this machine."""

import pytest

from clearhead.costing import cost
from clearhead.costing import precision as module
from clearhead.machine import cpu_flags
from clearhead.models import computes_bfloat16
from clearhead.recipe import read_recipe
from clearhead.recipe.precision import FROM_WIDTH
from clearhead.training.resolving import with_precision
from tests.cli.typed import typed

WIDE = [f"model.width={FROM_WIDTH}"]


@pytest.mark.parametrize(
    ("flags", "settings", "expected"),
    [
        ({"avx512_bf16"}, WIDE, "bfloat16"),
        ({"amx_tile"}, [*WIDE, "training.device=cpu"], "bfloat16"),
        ({"avx2"}, WIDE, "float32"),
        ({"avx512_bf16"}, [f"model.width={FROM_WIDTH - 4}"], "float32"),
        ({"avx512_bf16"}, [*WIDE, "training.device=cuda"], "float32"),
        ({"avx512_bf16"}, [*WIDE, "training.precision=float32"], "float32"),
        ({"avx2"}, ["training.precision=bfloat16"], "bfloat16"),
    ],
)
def test_auto_is_resolved_as_training_does(
    flags: set[str], settings: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cpu_flags", lambda: frozenset(flags))
    monkeypatch.setattr(module, "may_have_gpu", lambda: False)
    assert cost(read_recipe("tiny", *settings)).precision == expected


@pytest.mark.parametrize("width", [64, 256])
@pytest.mark.parametrize("known", [True, False])
def test_here_it_is_what_training_takes_whoever_is_asked(
    width: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the flags that Linux lists, and by torch where there are none."""
    if not known:
        monkeypatch.setattr(module, "cpu_flags", lambda: None)
    recipe = read_recipe("tiny", f"model.width={width}")
    assert cost(recipe).precision == with_precision(recipe).training.precision


def test_torch_and_linux_agree_about_this_cpu() -> None:
    flags = cpu_flags()
    if flags is None:
        pytest.skip("this system lists no flags")
    assert bool(flags & module.BFLOAT16_FLAGS) == computes_bfloat16()


def test_a_report_says_which_precision_it_is_and_why() -> None:
    said = typed("cost", "transformer-base", "training.precision=bfloat16", "--by", "model").stdout
    assert "activations in bfloat16, as the recipe says" in " ".join(said.split())
    whole = cost("transformer-base", "training.precision=bfloat16")
    assert whole.json()["precision"] == "bfloat16"
    assert whole.json()["copied_bytes"] == whole.copies.at() > 0
    assert "copied_bytes" not in cost("transformer-base", "training.precision=float32").json()
    held = {part.name: part.bytes.at(n=9, m=9, B=2) for part in whole.parallel(8).held()}
    assert held["activations"] + held["copies of weights"] == whole.fused.saved.at(n=9, m=9, B=2)
    # layers that FSDP gathers in bfloat16 are not copied: what is left is the output matrix
    gathered = {part.name: part.bytes.at(n=9, m=9, B=2) for part in whole.parallel(8, "fsdp").held()}
    assert gathered["copies of weights"] == 2 * 512 * 37000
