"""Curves of costs, drawn with matplotlib (the extra ``plot``)."""

from pathlib import Path
from typing import Any

from clearhead.costing.forms.crossover import Crossover
from clearhead.errors import ClearheadError

FORMATS = (".svg", ".png", ".pdf")
COLOURS = ("#1f5aa6", "#c2410c")


def pyplot() -> Any:
    """matplotlib, or what to do if it is not there."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ClearheadError("drawing needs matplotlib: pip install 'clearhead[plot]'") from None
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
    partial = path.with_name(f".{path.name}.partial{path.suffix}")
    try:
        figure.savefig(partial, dpi=150, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def draw_crossover(found: Crossover, *, title: str, convention: str, path: Path) -> None:
    """Both costs over the length, on logarithmic axes, with the places where the cheaper one changes."""
    plt = pyplot()
    places = [crossing.at for crossing in found.crossings] or [256]
    low, high = max(1, min(places) // 32), 32 * max(places)
    lengths = sorted({round(low * 2 ** (step / 4)) for step in range(4 * (high // low).bit_length() - 3)})
    values = [found.at(length) for length in lengths]
    figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    for index, name in enumerate(found.names):
        axes.plot(lengths, [pair[index] for pair in values], color=COLOURS[index], linewidth=2, label=name)
    for crossing in found.crossings:
        height = found.at(crossing.at)[0]
        axes.plot([crossing.at], [height], "o", color="black", markersize=6)
        axes.annotate(
            found.told(crossing),
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
