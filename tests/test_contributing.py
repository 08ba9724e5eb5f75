"""CONTRIBUTING's how-to is run as it stands: a mechanism from another package works everywhere."""

import re
from pathlib import Path
from typing import Any

import torch

from clearhead.costing import cost
from clearhead.costing.tracing import watch
from clearhead.evaluation import score
from clearhead.models import build, count_parameters
from clearhead.recipe import metrics as metrics_module
from clearhead.recipe import read_recipe
from clearhead.recipe import registry as registry_module

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"


def test_the_page_runs_and_its_mechanism_keeps_the_contracts() -> None:
    """Its attention trains in an encoder and a decoder, with a cache, and hides what is outside its window; its
    metric is measured."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    try:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
        kinds = ["model.decoder.attention.kind=windowed", "model.decoder.attention.radius=1"]
        sizes = ["model.family=lm", "model.layers=1", "model.width=16", "model.heads=2", "model.vocabulary.target=40"]
        model: Any = build(read_recipe(None, *sizes, *kinds), seed=1).eval()
        ids = torch.randint(4, 40, (2, 7))
        with torch.no_grad():
            whole, state = model(ids), model.start()
            for index in range(7):
                step = model.step(ids[:, index : index + 1], state)
                torch.testing.assert_close(step, whole[:, index], atol=1e-5, rtol=1e-4)
            other = ids.clone()
            other[:, 0] = 39
            assert torch.equal(model(other)[:, 2:], whole[:, 2:])  # two tokens away: outside the window
            assert not torch.equal(model(other)[:, 1], whole[:, 1])
        formula = cost(read_recipe(None, *sizes, *kinds, "model.vocabulary.pad=none"))
        seen = watch(lambda: model(ids), model, [ids])
        assert formula.macs.at(B=2, n=7) == seen.macs
        assert formula.span.at(B=2, n=7) == seen.span
        assert formula.parameters.at() == count_parameters(model)
        assert formula.step.cache.at(B=2, t=7) == state.cache.nbytes
        assert read_recipe(None, "training.metric=length_error").training.metric == "length_error"
        found = score(["ab", "ab"], [["cd"], ["c", "cde"]], spaced=False, names=["length_error"])["length_error"]
        assert (found.value, found.low, found.high) == (50.0, 0.0, 100.0)
    finally:
        metrics_module._metrics.pop("length_error", None)
        registry_module._kinds["attention"].pop("windowed", None)
