"""The table of metrics: what a model can be judged by, and what its best version can be chosen by.

A metric is one entry here: its name, its direction, what it applies to, and its function, named by a string so that
reading a recipe never imports torch. From then on `training.metric`, `eval`, JSON and the dev curves know it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal, get_args

Material = Literal["symbols", "sentences", "texts", "gaps", "labels", "pictures"]
"""What a model is judged on. Pairs are ``symbols`` if the target is made of symbols or characters, as pronunciations
are, and ``sentences`` otherwise; the others are what a family learns from."""
Rank = Literal["dev", "main", "rest"]
"""How a metric is treated for a material. ``dev``: measured at each dev evaluation, and shown first; ``main``: shown
first; ``rest``: measured for JSON, or when it is asked for by name."""
Unit = Literal["percent", "plain"]


@dataclass(frozen=True)
class MetricKind:
    """One entry of the table of metrics.

    Args:
        name: What recipes, JSON and curves call it.
        summary: What it measures, in one line.
        function: From the results of a model (``clearhead.evaluation.Results``) to a ``Statistic``; the function
            itself, or ``"package.module:function"``.
        rising: Whether more is better.
        judges: The materials that it applies to, each with its rank there.
        unit: ``percent`` for 0 to 100, otherwise ``plain``.
        interval: Whether ``evaluate`` bootstraps a 95 % interval for it.
    """

    name: str
    summary: str
    function: str | Callable[..., Any]
    rising: bool
    judges: Mapping[Material, Rank]
    unit: Unit = "percent"
    interval: bool = True

    def load(self) -> Callable[..., Any]:
        """The function; imports its module only now."""
        found: Callable[..., Any] = resolve_name(self.function) if isinstance(self.function, str) else self.function
        return found


_metrics: dict[str, MetricKind] = {}


def register_metric(
    name: str,
    function: str | Callable[..., Any],
    *,
    summary: str,
    rising: bool,
    judges: Mapping[Material, Rank],
    unit: Unit = "percent",
    interval: bool = True,
) -> None:
    """Add a metric: from then on recipes can name it, and ``evaluate``, JSON and the dev curves have it.

    The arguments are those of ``MetricKind``. A name that is taken cannot be taken again. A package that announces an
    entry point of the group ``clearhead.kinds`` can call this when it is imported.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or name == "auto":
        raise ValueError(f"a metric's name is made of small letters, digits and _, not {name!r}")
    if name in _metrics:
        raise ValueError(f"metric {name!r} is registered already")
    if isinstance(function, str) and not re.fullmatch(r"[\w.]+:\w+", function):
        raise ValueError(f'function reads "package.module:function", not {function!r}')
    for material, rank in judges.items():
        if material not in get_args(Material) or rank not in get_args(Rank):
            known = f"{', '.join(get_args(Material))} to {', '.join(get_args(Rank))}"
            raise ValueError(f"metric {name!r}: judges maps {known}, not {material!r} to {rank!r}")
    _metrics[name] = MetricKind(name, summary, function, rising, dict(judges), unit, interval)


def metric_kinds() -> dict[str, MetricKind]:
    """The table: every metric by name, in the order of registration."""
    return dict(_metrics)


def metric_rises(name: str) -> bool:
    """Whether more of this metric is better."""
    return _metrics[name].rising


def metrics_for(material: Material, *ranks: Rank) -> tuple[str, ...]:
    """The metrics that judge a material, in the table's order; with ``ranks`` only those of these ranks."""
    found = ((name, kind.judges.get(material)) for name, kind in _metrics.items())
    return tuple(name for name, rank in found if rank is not None and (not ranks or rank in ranks))


def metrics_of(learns: str) -> tuple[str, ...]:
    """The metrics of a family, by what it learns from (``ModelSpec.learns``); none if nothing judges it."""
    materials = ("symbols", "sentences") if learns == "pairs" else (learns,)
    return tuple(name for name, kind in _metrics.items() if any(material in kind.judges for material in materials))


# ---- the metrics of clearhead ----

_FUNCTIONS = "clearhead.evaluation.functions:"

register_metric(
    "line_error",
    _FUNCTIONS + "line_error",
    summary="share of sources whose answer equals none of their references",
    rising=False,
    judges={"symbols": "dev", "sentences": "rest"},
)
register_metric(
    "symbol_error",
    _FUNCTIONS + "symbol_error",
    summary="edit distance to the closest reference, over its length",
    rising=False,
    judges={"symbols": "dev", "sentences": "rest"},
)
register_metric(
    "bleu",
    _FUNCTIONS + "bleu",
    summary="BLEU, by sacrebleu",
    rising=True,
    judges={"symbols": "rest", "sentences": "dev"},
)
register_metric(
    "chrf",
    _FUNCTIONS + "chrf",
    summary="chrF, by sacrebleu",
    rising=True,
    judges={"symbols": "rest", "sentences": "dev"},
)
register_metric(
    "ter",
    _FUNCTIONS + "ter",
    summary="TER, by sacrebleu",
    rising=False,
    judges={"symbols": "rest", "sentences": "rest"},
)
register_metric(
    "accuracy",
    _FUNCTIONS + "accuracy",
    summary="share of labels that are right",
    rising=True,
    judges={"labels": "dev", "pictures": "dev"},
)
register_metric(
    "macro_f1",
    _FUNCTIONS + "macro_f1",
    summary="mean over the classes of F1",
    rising=True,
    judges={"labels": "dev", "pictures": "dev"},
)
register_metric(
    "perplexity",
    _FUNCTIONS + "perplexity",
    summary="e to the mean −log p of a token, the end of a line among them",
    rising=False,
    judges={"symbols": "main", "sentences": "main", "texts": "dev", "gaps": "dev"},
    unit="plain",
)
register_metric(
    "token_accuracy",
    _FUNCTIONS + "token_accuracy",
    summary="share of tokens that are the most probable ones, given the true tokens around them",
    rising=True,
    judges={"symbols": "main", "sentences": "main", "texts": "dev", "gaps": "dev"},
)
register_metric(
    "loss",
    _FUNCTIONS + "loss",
    summary="mean −log p of a token, or of a label",
    rising=False,
    judges={
        **{"symbols": "rest", "sentences": "rest", "texts": "rest", "gaps": "rest"},
        **{"labels": "main", "pictures": "main"},
    },
    unit="plain",
)
