"""The living figures of the five lectures."""

from clearhead.lectures.living import LivingFigure, Select, Slider, Switch

SCALES = (("sqrt", "÷ √d_k"), ("none", "none"), ("dim", "÷ d_k, as in L2"))

LIVING = (
    LivingFigure(
        "choice",
        "soft or hard",
        "Move a score past the others: a soft result moves along, a hard one jumps.",
        ("L0.3",),
        (
            Select("choice", "choice", (("soft", "soft: softmax"), ("hard", "hard: argmax"))),
            *(
                Slider(name, f"score {number}", -4, 4, value, 0.1)
                for number, (name, value) in enumerate(
                    (("one", 1.0), ("two", 2.0), ("three", 0.5), ("four", -1.0)), start=1
                )
            ),
        ),
    ),
    LivingFigure(
        "heads",
        "heads of free sizes",
        "None of these sizes follows from another. Which one makes the attention term the largest?",
        ("L0.7", "L0.8", "L0.9", "L0.5", "L0.6"),
        (
            Slider("N", "queries N", 1, 64, 10),
            Slider("M", "keys M", 1, 64, 12),
            Slider("h", "heads h", 1, 16, 4),
            Slider("dq", "d_q", 1, 64, 32),
            Slider("dv", "d_v", 1, 64, 32),
            Slider("headq", "d̃_q in a head", 1, 64, 8),
            Slider("headv", "d̃_v in a head", 1, 64, 8),
            Slider("dout", "d_o", 1, 64, 32),
        ),
    ),
    LivingFigure(
        "norm",
        "what layer norm normalises",
        "Shift and stretch the input: nothing changes, until it is as small as √ε. Then take the statistics over the "
        "sequence: a token depends on the others.",
        ("L0.10", "L2.8"),
        (
            Select("axis", "μ and σ over", (("token", "each token"), ("sequence", "the sequence"))),
            Select("place", "ε", (("inside", "√(σ² + ε)"), ("outside", "σ + ε, as in L2"))),
            Slider("size", "input times", -4, 1, 0, 0.5, base=10),
            Slider("shift", "input plus", -5, 5, 0, 0.5),
            Slider("eps", "ε", -8, -1, -5, 1, base=10),
        ),
    ),
    LivingFigure(
        "residual",
        "pre-norm, post-norm, no residual",
        "Add layers: with x + f(LN(x)) a nudge at the input arrives whole; without the residual it dies.",
        ("L0.11", "L1.7", "L1.8", "L2.7"),
        (
            Slider("depth", "layers", 1, 24, 12),
            Select("place", "norm", (("post", "post: LN(x + f(x))"), ("pre", "pre: x + f(LN(x))"))),
            Switch("residual", "residual"),
        ),
    ),
    LivingFigure(
        "mask",
        "scores, mask, weights",
        "Five tokens with d_k = 3, as on the slide. With a cache only the last tokens are queries: the mask must "
        "follow the lower right corner.",
        ("L1.9",),
        (
            Switch("mask", "causal mask"),
            Select("scale", "scale", SCALES),
            Slider("cached", "tokens in the cache", 0, 4, 0),
            Select("align", "mask starts at", (("right", "lower right"), ("left", "top left (wrong)"))),
        ),
    ),
    LivingFigure(
        "order",
        "does order matter?",
        "Rotate the tokens: without positions the rows of the result only change places.",
        ("L1.10",),
        (Slider("shift", "rotate by", 0, 4, 2), Switch("positions", "add sinusoids", on=False)),
    ),
    LivingFigure(
        "table-one",
        "how far apart are two tokens?",
        "Make the sequence longer: the path of a recurrent net grows with it, that of attention stays 1.",
        ("L2.1", "L2.2", "L2.3", "L4.6"),
        (
            Slider("n", "tokens n", 2, 256, 64),
            Slider("d", "width d", 8, 128, 48, 8),
            Slider("k", "kernel k", 2, 9, 3),
            Slider("r", "neighbours r", 3, 33, 9, 2),
        ),
    ),
    LivingFigure(
        "scale",
        "what should a score be divided by?",
        "Double d_k: without a divisor a query ends at one key, with √d_k it keeps looking at several, with d_k "
        "at all.",
        ("L2.9", "L4.7", "L4.8", "L1.5"),
        (Slider("size", "d_k", 0, 8, 6, 1, base=2), Select("scale", "scale", SCALES)),
    ),
    LivingFigure(
        "sinusoids",
        "sines and cosines of the position",
        "The three layouts hold the same kind of numbers in other places; mixing them up is a mistake that nothing "
        "reports.",
        ("L2.10",),
        (
            Slider("length", "positions n", 4, 64, 32),
            Slider("width", "width d", 4, 64, 32, 4),
            Select(
                "layout",
                "layout",
                (("interleaved", "interleaved"), ("halves", "halves"), ("tensor2tensor", "tensor2tensor")),
            ),
            Slider("position", "compare with p", 0, 63, 8),
        ),
    ),
    LivingFigure(
        "linformer",
        "where Linformer becomes cheaper",
        "The lines cross at n = 2k, whatever the width.",
        ("L2.14",),
        (
            Slider("n", "tokens n", 8, 512, 128, 8),
            Slider("k", "slots k", 4, 256, 64, 4),
            Slider("d", "width d", 8, 256, 64, 8),
        ),
    ),
    LivingFigure(
        "span",
        "trees and serial sums",
        "Double T: with trees the layer takes three steps more; with serial sums T more, as mixing the values sums "
        "over T.",
        ("L3.3", "L3.4", "L3.6"),
        (
            Slider("T", "positions T = XY", 0, 10, 6, 1, base=2),
            Slider("J", "features J", 4, 10, 6, 1, base=2),
            Slider("K", "heads K", 0, 4, 2, 1, base=2),
        ),
    ),
    LivingFigure(
        "sizes",
        "one layer in numbers",
        "More heads of size d/h change no product, only the number of weights. At which n do scores and values cost as "
        "much as the projections?",
        ("L4.3", "L4.2", "L4.4", "L2.13", "L1.11"),
        (
            Slider("n", "tokens n", 8, 512, 64, 8),
            Slider("d", "width d", 16, 256, 64, 16),
            Slider("h", "heads h", 0, 4, 2, 1, base=2),
        ),
    ),
)
