"""Curves of costs in files: SVG is drawn by clearhead itself, other formats by matplotlib (the extra ``plot``)."""

from pathlib import Path
from typing import Any

from clearhead.drawing import svg
from clearhead.drawing.figure import Lines
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
    """Refuse a file that no picture can be written to."""
    if path.suffix not in FORMATS:
        raise ClearheadError(f"{path}: a picture is called something.svg, .png or .pdf")
    if not path.parent.is_dir():
        raise ClearheadError(f"{path}: the folder {path.parent} does not exist")


def save(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib whole: a file that is there is a picture."""
    with whole_file(path) as stream:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(stream, format=path.suffix[1:], dpi=150, facecolor="white", metadata=metadata)


def save_lines(figure: Lines, path: Path) -> None:
    """Draw curves into a file, whose name says in which format."""
    check_file(path)
    if path.suffix == ".svg":
        write_whole(path, svg(figure, standalone=True).encode())
    else:
        _draw_with_matplotlib(figure, path)


def _draw_with_matplotlib(figure: Lines, path: Path) -> None:
    plt = pyplot()
    canvas, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    for colour, series in zip(COLOURS, figure.series, strict=False):
        axes.plot(series.x, series.y, color=colour, linewidth=2, label=series.name)
    for x, y, words in figure.marks:
        axes.plot([x], [y], "o", color="black", markersize=6)
        axes.annotate(words, (x, y), xytext=(10, -16), textcoords="offset points", fontsize=11)
    if figure.log_x:
        axes.set_xscale("log", base=2)
    if figure.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(figure.x_label, fontsize=11)
    axes.set_ylabel(figure.y_label, fontsize=11)
    axes.set_title(figure.title, fontsize=12, loc="left")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=11, frameon=False)
    save(canvas, path)
    plt.close(canvas)
