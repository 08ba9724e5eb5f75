"""Curves of costs: SVG is drawn by our own hand, other formats with matplotlib (the extra ``plot``)."""

from pathlib import Path
from typing import Any

from clearhead.costing.forms.crossover import Crossover
from clearhead.drawing import svg
from clearhead.drawing.figure import Lines, Series
from clearhead.errors import ClearheadError, MissingExtra
from clearhead.files import whole_file, write_whole

FORMATS = (".svg", ".png", ".pdf")
COLOURS = ("#1f5aa6", "#c2410c")


def pyplot() -> Any:
    """matplotlib, or what to do if it is not there."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtra("drawing .png and .pdf", "matplotlib", "plot") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def check_file(path: Path) -> None:
    """Whether a picture can be written there, told before anything is computed."""
    if path.suffix not in FORMATS:
        raise ClearheadError(f"-o {path}: a picture is called something.svg, .png or .pdf")
    if not path.parent.is_dir():
        raise ClearheadError(f"-o {path}: the folder {path.parent} does not exist")


def save(figure: Any, path: Path) -> None:
    """Write a picture whole: a file that is there is a picture."""
    with whole_file(path) as stream:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(stream, format=path.suffix[1:], dpi=150, facecolor="white", metadata=metadata)


def draw_crossover(found: Crossover, *, title: str, convention: str, path: Path) -> None:
    """Both costs over the length, on logarithmic axes, with the places where the cheaper one changes."""
    if path.suffix == ".svg":
        write_whole(path, svg(_figure(found, title, convention), standalone=True).encode())
    else:
        _draw_with_matplotlib(found, title=title, convention=convention, path=path)


def _curves(found: Crossover) -> tuple[list[int], list[tuple[int, int]]]:
    """Lengths around the crossings, and both costs at each."""
    places = [crossing.at for crossing in found.crossings] or [256]
    low, high = max(1, min(places) // 32), 32 * max(places)
    lengths = sorted({round(low * 2 ** (step / 4)) for step in range(4 * (high // low).bit_length() - 3)})
    return lengths, [found.at(length) for length in lengths]


def _figure(found: Crossover, title: str, convention: str) -> Lines:
    lengths, values = _curves(found)
    series = tuple(
        Series(
            name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…",
            tuple(map(float, lengths)),
            tuple(float(max(pair[index], 1)) for pair in values),
        )
        for index, name in enumerate(found.names)
    )
    cheaper = [f"from {found.letter} = {crossing.at:,} {crossing.cheaper} is cheaper" for crossing in found.crossings]
    marks = tuple((float(one.at), float(found.at(one.at)[0]), found.equal_at(one)) for one in found.crossings)
    return Lines(
        title=title,
        alt=f"{found.cheaper_at_first} is cheaper at first; {'; '.join(cheaper) or 'they do not cross'}",
        x_label=f"{found.letter}, tokens",
        y_label=convention,
        series=series,
        log_x=True,
        log_y=True,
        marks=marks,
    )


_LONGEST = 52
"""Letters of a name that a legend has room for."""


def _draw_with_matplotlib(found: Crossover, *, title: str, convention: str, path: Path) -> None:
    plt = pyplot()
    lengths, values = _curves(found)
    figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    for index, name in enumerate(found.names):
        axes.plot(lengths, [pair[index] for pair in values], color=COLOURS[index], linewidth=2, label=name)
    for crossing in found.crossings:
        height = found.at(crossing.at)[0]
        axes.plot([crossing.at], [height], "o", color="black", markersize=6)
        axes.annotate(
            found.equal_at(crossing),
            (crossing.at, height),
            xytext=(10, -16),
            textcoords="offset points",
            fontsize=11,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(f"{found.letter}, tokens", fontsize=11)
    axes.set_ylabel(convention, fontsize=11)
    axes.set_title(title, fontsize=12, loc="left")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=11, frameon=False)
    save(figure, path)
    plt.close(figure)
