"""A catalogue of mutations: parts of the product, each with a way to break it. Nothing here imports torch.

``wrong`` takes the right function and returns the wrong one; see ``demonstrations/broken.py``. ``noticed`` names claims
that are known to notice: the tests run these, ``clearhead lecture --break`` runs all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Break:
    """One mutation of the product."""

    name: str
    """What ``clearhead lecture --break`` takes: ``scale-by-d``."""
    what: str
    """What is wrong, in a few words."""
    target: str
    """The full name of the function or method that is replaced."""
    wrong: Callable[[Any], Any]
    noticed: tuple[str, ...]
    """Claims that are known to notice; there may be more."""


def _divisor(of: Callable[[int], float]) -> Callable[[Any], Any]:
    return lambda right: lambda scale, size: of(size) if scale == "sqrt" else right(scale, size)


def _tril(offset: Callable[[int, int], int]) -> Callable[[Any], Any]:
    return lambda right: (
        lambda queries, keys, device=None: right(queries, keys, device).logical_or(True).tril(offset(queries, keys))
    )


def _blind_to(**fields: Any) -> Callable[[Any], Any]:
    """A method of a context that does not see some of its fields."""
    return lambda right: lambda self, *args: right(replace(self, **fields), *args)


def _softmax_over_queries(right: Any) -> Any:
    def choose(scores: Any, mask: Any = None, choice: str = "soft") -> Any:
        if choice != "soft":
            return right(scores, mask, choice)
        return right(scores.transpose(-1, -2), None if mask is None else mask.transpose(-1, -2)).transpose(-1, -2)

    return choose


def _with(**settings: Any) -> Callable[[Any], Any]:
    """A method during which the object has other settings."""

    def wrong(right: Any) -> Any:
        def method(self: Any, *args: Any, **options: Any) -> Any:
            before = {name: getattr(self, name) for name in settings}
            for name, value in settings.items():
                setattr(self, name, value(before[name]) if callable(value) else value)
            try:
                return right(self, *args, **options)
            finally:
                for name, value in before.items():
                    setattr(self, name, value)

        return method

    return wrong


def _other(pair: tuple[str, str]) -> Callable[[str], str]:
    return lambda value: pair[1] if value == pair[0] else pair[0]


def _fast_only(name: str) -> Callable[[Any], Any]:
    """Attention by the fused kernel whose scores are not scaled; the explicit path stays right."""
    return lambda right: lambda *args, **options: right(*args, **(options | {name: "none"}))


def _no_gradient_through_hard(right: Any) -> Any:
    return lambda scores, mask=None, choice="soft": (
        right(scores, mask, choice).detach() if choice == "hard" else right(scores, mask, choice)
    )


BREAKS = (
    Break(
        "scale-by-d",
        "scores are divided by d, not by √d",
        "clearhead.attention.score.divisor",
        _divisor(float),
        ("L0.2", "L1.1", "L2.9"),
    ),
    Break(
        "no-scale", "scores are not divided", "clearhead.attention.score.divisor", _divisor(lambda _: 1.0), ("L0.2",)
    ),
    Break(
        "scores-doubled",
        "q·k counts every product twice",
        "clearhead.attention.score.dot",
        lambda right: lambda query, keys: 2 * right(query, keys),
        ("L1.5", "L4.8"),
    ),
    Break(
        "mask-off-by-one",
        "a token sees its right neighbour",
        "clearhead.attention.context.causal_mask",
        _tril(lambda queries, keys: keys - queries + 1),
        ("L1.9",),
    ),
    Break(
        "mask-top-left-with-cache",
        "with a cache the causal mask starts at the top left, so that earlier tokens are hidden",
        "clearhead.attention.context.causal_mask",
        _tril(lambda _queries, _keys: 0),
        ("L1.9",),
    ),
    Break(
        "no-mask",
        "the decoder sees the future",
        "clearhead.attention.context.AttentionContext._make_mask",
        _blind_to(causal=False),
        ("L1.9",),
    ),
    Break(
        "padding-leaks",
        "tokens attend to padding",
        "clearhead.attention.context.AttentionContext._make_mask",
        _blind_to(valid=None),
        (),
    ),
    Break(
        "softmax-over-queries",
        "weights add up to 1 over the queries, not over the keys",
        "clearhead.attention.choice.choose",
        _softmax_over_queries,
        ("L0.2", "L2.6"),
    ),
    Break(
        "hard-is-soft",
        "the hard choice is a softmax",
        "clearhead.attention.choice.choose",
        lambda right: lambda scores, mask=None, choice="soft": right(scores, mask, "soft"),
        ("L0.3",),
    ),
    Break(
        "hard-without-gradient",
        "no gradient passes through the hard choice",
        "clearhead.attention.choice.choose",
        _no_gradient_through_hard,
        ("L0.3",),
    ),
    Break(
        "fused-not-scaled",
        "only the fused path forgets to scale",
        "clearhead.attention.attend.fused",
        _fast_only("scale"),
        ("L0.11",),
    ),
    Break(
        "heads-reversed",
        "the heads are concatenated in reverse order",
        "clearhead.attention.heads.Heads.join",
        lambda right: lambda self, heads: right(self, heads.flip(1)),
        ("L0.7", "L1.6"),
    ),
    Break(
        "no-residual",
        "a sublayer's input is not added to its result",
        "clearhead.blocks.residual.AddNorm.forward",
        _with(residual=False),
        ("L0.11", "L2.7"),
    ),
    Break(
        "norm-in-the-other-place",
        "pre-norm where post-norm is asked for, and the reverse",
        "clearhead.blocks.residual.AddNorm.forward",
        _with(place=_other(("pre", "post"))),
        ("L0.11", "L1.7"),
    ),
    Break(
        "norm-over-the-sequence",
        "layer norm takes its statistics over the tokens",
        "clearhead.blocks.norm.LayerNorm.forward",
        _with(axis="sequence"),
        ("L0.10",),
    ),
    Break(
        "epsilon-in-the-other-place",
        "σ + ε where √(σ² + ε) is asked for, and the reverse",
        "clearhead.blocks.norm.LayerNorm.forward",
        _with(eps_place=_other(("inside", "outside"))),
        ("L2.8",),
    ),
    Break(
        "relu-outside",
        "the ReLU stands around both maps",
        "clearhead.blocks.feedforward.StandardFeedForward.forward",
        lambda right: lambda self, x: self.activation(self.down(self.up(x))),
        ("L0.12",),
    ),
    Break(
        "sinusoids-in-halves",
        "all sines, then all cosines, whatever the layout",
        "clearhead.positions.absolute.sinusoids",
        lambda right: (
            lambda length, width, *, layout="interleaved", base=10_000.0: right(
                length, width, layout="halves", base=base
            )
        ),
        ("L2.10",),
    ),
    Break(
        "shaw-mirrored",
        "the vector of the distance i − j is taken for j − i",
        "clearhead.positions.shaw.shaw_index",
        lambda right: lambda queries, keys, farthest: 2 * farthest - right(queries, keys, farthest),
        ("L2.12",),
    ),
    Break(
        "p2c-swapped",
        "the last index of disentangled attention is δ(j, i) where δ(i, j) is asked for, and the reverse",
        "clearhead.attention.disentangled.DisentangledAttention.forward",
        _with(p2c_index=_other(("released", "paper"))),
        ("L4.9",),
    ),
    Break(
        "products-counted-twice",
        "the closed forms count two operations for each multiplication",
        "clearhead.costing.forms.sketch.Sketch._multiplied",
        lambda right: lambda self, macs, visible=1: right(self, 2 * macs, visible),
        ("L0.4", "L4.3"),
    ),
)
"""All of them."""
