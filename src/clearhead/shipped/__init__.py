"""Trained models that come with the package, each with its card: ``clearhead run g2p-en`` answers at once."""

from importlib.resources import files
from pathlib import Path

_FOLDER = Path(str(files("clearhead.shipped")))


def shipped_names() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.safetensors"))


def shipped_model(name: str) -> Path | None:
    """The model file of a name; None if no model of that name comes with the package."""
    return _FOLDER / f"{name}.safetensors" if name in shipped_names() else None


def is_shipped(path: Path) -> bool:
    """Whether a file is one of the package's own, beside which nothing should be written."""
    return path.absolute().parent == _FOLDER.absolute()


def model_card(name: str) -> str:
    """What a model was trained on, how good it is, what it cannot do, and the terms of its data, as Markdown."""
    if name not in shipped_names():
        raise ValueError(f"{name}: no such model comes with clearhead (there are {', '.join(shipped_names())})")
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
