"""Draw the cross-attention of a trained model: `python -m tools.picture RUN WORD -o docs/pictures/attention.svg`.

The model answers the word. Its answer is then replayed with teacher forcing, which computes all steps at once, while
hooks record the weights of every head. Each head that is shown is one matrix: a row for every token as it is written, a
column for every token of the source, both without the end of the line.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from torch import Tensor

import clearhead
from clearhead.data import Codec
from clearhead.drawing import STYLE, svg
from clearhead.drawing.figure import Heat
from clearhead.files import write_whole

SCALE = 0.72
"""Of the matrices: three of them fit into the width of a page."""
LEFT, GAP, TOP, FOOT = 20, 18, 62, 30
"""Pixels beside, between, above and below the matrices."""
OWN_STYLE = """
.plot .paper { fill: var(--plot-paper); stroke: var(--plot-grid); }
.plot .lead { font-size: 16px; font-weight: 600; }
.plot .head { font-weight: 600; text-anchor: middle; }
.plot .foot { font-size: 12px; opacity: 0.8; }
.plot .plot text { font-size: 16px; }
"""
"""Letters inside of a matrix are larger, as they are scaled with it."""


@dataclass(frozen=True)
class Recorded:
    """What every head did while an answer was replayed."""

    source: list[str]
    """n tokens."""
    answer: list[str]
    """m tokens."""
    weights: Tensor
    """(layers, heads, m, n): rows sum to what is not spent on the end of the source."""


def record(model: clearhead.TextWriter, text: str) -> Recorded:
    """Answer a text, and replay the answer while hooks on every cross-attention record its weights."""
    answer = model(text)
    layers = [layer.cross.weights for layer in model.model.decoder.layers]  # type: ignore[union-attr]
    seen: list[Tensor] = []
    hooks = [layer.register_forward_hook(lambda _, __, weights: seen.append(weights[0])) for layer in layers]
    try:
        model.score([text], [answer])
    finally:
        for hook in hooks:
            hook.remove()
    source, target = _tokens(model.source, text), _tokens(model.target, answer)
    weights = torch.stack(seen)[:, :, : len(target), : len(source)]
    return Recorded(source, target, weights)


def sharpest(recorded: Recorded, count: int) -> list[tuple[int, int]]:
    """Layer and head of the heads that put the most weight on one token at a time, in the order of the layers."""
    best = recorded.weights.amax(-1).mean(-1)  # (layers, heads)
    order = best.flatten().argsort(descending=True)[:count]
    return sorted(divmod(int(index), best.shape[1]) for index in order)


def draw(recorded: Recorded, heads: Sequence[tuple[int, int]], title: str) -> str:
    """The matrices side by side, as one SVG with its own style for light and dark."""
    parts, x, tallest = [], float(LEFT), 0.0
    for layer, head in heads:
        panel = _panel(recorded, layer, head)
        parts.append(panel.placed(x, TOP))
        parts.append(
            f'<text class="head" x="{x + panel.middle:.0f}" y="{TOP - 6}">layer {layer + 1}, head {head + 1}</text>'
        )
        x, tallest = x + panel.width + GAP, max(tallest, panel.height)
    width, height = round(x - GAP + LEFT), round(TOP + tallest + FOOT)
    alt = f"Cross-attention of {len(heads)} heads while the model writes {' '.join(recorded.answer)}"
    foot = (
        "Rows: what the model writes, from top to bottom. Columns: what it reads. The fuller a cell, the more weight."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{escape(title)}</title><desc>{escape(alt)}</desc>'
        f"<style>{STYLE}{OWN_STYLE}</style>"
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
        f'<text class="lead" x="{LEFT}" y="28">{escape(title)}</text>{"".join(parts)}'
        f'<text class="foot" x="{LEFT}" y="{height - 14}">{foot}</text></svg>\n'
    )


@dataclass(frozen=True)
class Panel:
    """One head's matrix: the part of a drawing that it covers."""

    drawn: str
    box: tuple[float, float, float, float]
    """Left, top, width and height of the part, in units of the drawing."""
    margin: float
    """How much of the width stands before the cells."""

    @property
    def width(self) -> float:
        """In pixels, as placed."""
        return self.box[2] * SCALE

    @property
    def height(self) -> float:
        """In pixels, as placed."""
        return self.box[3] * SCALE

    @property
    def middle(self) -> float:
        """Where the middle of the cells is."""
        return (self.margin + self.box[2]) / 2 * SCALE

    def placed(self, x: float, y: float) -> str:
        """The drawing at a place, cut and scaled."""
        box = " ".join(f"{value:.1f}" for value in self.box)
        return re.sub(
            'viewBox="[^"]*"',
            f'x="{x:.1f}" y="{y}" width="{self.width:.1f}" height="{self.height:.1f}" viewBox="{box}"',
            self.drawn,
            count=1,
        )


def _panel(recorded: Recorded, layer: int, head: int) -> Panel:
    rows = tuple(tuple(row) for row in recorded.weights[layer, head].tolist())
    name = f"layer {layer + 1}, head {head + 1}"
    figure = Heat(name, name, "", "", rows, rows=tuple(recorded.answer), columns=tuple(recorded.source))
    drawn = svg(figure)
    edge = re.search(r'class="edge" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn)
    assert edge
    x, y, width, height = map(float, edge.groups())
    margin = 10.0 * max(map(len, recorded.answer)) + 10
    return Panel(drawn, (x - margin, 0, margin + width + 1, y + height + 4), margin)


def _tokens(codec: Codec, text: str) -> list[str]:
    return [codec.decode([[index]])[0] for index in codec.encode([text])[0]]


def _head(word: str) -> tuple[int, int]:
    """Layer and head, counted from 0, of a word that counts them from 1."""
    layer, head = word.split(".")
    return int(layer) - 1, int(head) - 1


def main() -> None:
    """Read the words of the command line, draw, and say what was drawn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="a run folder or model file of pairs")
    parser.add_argument("word", help="what the model reads")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the SVG")
    parser.add_argument(
        "--heads",
        type=_head,
        nargs="+",
        metavar="LAYER.HEAD",
        help="which heads, such as 3.1; without it the three that put the most weight on one token at a time",
    )
    asked = parser.parse_args()
    model = clearhead.load(asked.run)
    if not isinstance(model, clearhead.TextWriter) or not hasattr(model.model, "decoder"):
        parser.error(f"{asked.run}: only models of pairs have cross-attention")
    recorded = record(model, asked.word)
    layers, heads = recorded.weights.shape[:2]
    for layer, head in asked.heads or ():
        if not (0 <= layer < layers and 0 <= head < heads):
            parser.error(f"no head {layer + 1}.{head + 1}: the model has {layers} layers of {heads} heads")
    title = f"{asked.word} → {model(asked.word)}"
    write_whole(asked.output, draw(recorded, asked.heads or sharpest(recorded, 3), title).encode())
    print(f"{asked.output}: {title}")


if __name__ == "__main__":
    main()
