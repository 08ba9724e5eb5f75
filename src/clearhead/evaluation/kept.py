"""``scores.json``: what the best model of a run does on dev and test, and everything that this depends on."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import safe_open

from clearhead.data import Corpus, Example
from clearhead.errors import DamagedFile
from clearhead.evaluation.evaluating import evaluate
from clearhead.evaluation.judges import judge_of
from clearhead.evaluation.scores import Scores
from clearhead.files import write_whole
from clearhead.predictor import Predictor
from clearhead.recipe import metrics_for
from clearhead.training import clear_write_errors

NAME = "scores.json"
FORMAT = 2
"""Changes with the shape of the file; one of another shape is not read, but computed anew."""


def scores_of_run(
    folder: Path, predictor: Predictor, corpus: Corpus[Any], *, metric: str, step: int
) -> tuple[dict[str, Scores], bool]:
    """Scores of a run's best model, as loaded, on dev, and on test if there is one; and whether they are new.

    ``scores.json`` keeps them. What it has is taken if it was computed with this very model, its way of decoding and
    these examples; otherwise the scores are computed, and it is written.
    """
    parts = {"dev": corpus.dev, "test": corpus.test}
    best = folder / "best.safetensors"
    facts: dict[str, Any] = {
        "format": FORMAT,
        "model": {"file": best.name, "fingerprint": _model_fingerprint(best), "step": step},
        "metric": metric,
        "decoding": predictor.recipe.decoding.model_dump(mode="json"),
        "data": _data(corpus),
    }
    material = judge_of(predictor).material(predictor)
    kept = _read(folder / NAME)
    if kept is not None and all(kept.get(name) == value for name, value in facts.items()):
        scores = _scores(kept)
        if all(set(found) >= set(metrics_for(material)) for found in scores.values()):  # no metric was added since
            return scores, False
    scores = {part: evaluate(predictor, examples) for part, examples in parts.items() if examples}
    content = facts | {"clearhead": version("clearhead"), "main": list(metrics_for(material, "dev", "main"))}
    content |= {part: found.table() for part, found in scores.items()}
    content["checksum"] = _checksum(content)
    with clear_write_errors(folder / NAME):
        write_whole(folder / NAME, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return scores, True


def kept_scores(folder: Path) -> dict[str, Scores]:
    """Scores of the best model on dev and test that a run has kept; none before its end, or if they are damaged."""
    kept = _read(folder / NAME)
    return _scores(kept) if kept is not None and kept.get("format") == FORMAT else {}


def _data(corpus: Corpus[Any]) -> dict[str, Any]:
    """Fingerprints of what was trained on and scored on: files, and examples one by one."""
    return {
        "corpus": corpus.fingerprint(),
        "task": corpus.spec.task,
        "files": corpus.checksums,
        "dev": _fingerprint(corpus.dev),
        "test": _fingerprint(corpus.test),
    }


def _model_fingerprint(file: Path) -> str:
    """The checksum that a model file carries; whoever loaded it has compared it."""
    with safe_open(file, "pt") as stream:
        return str((stream.metadata() or {}).get("fingerprint"))


def _fingerprint(examples: Sequence[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """What was kept, or None if there is nothing that can be believed."""
    if path.exists() and not path.is_file():
        raise DamagedFile(f"{path}: is not a file: move it away, then --resume")
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    good = isinstance(content, dict) and content.get("checksum") == _checksum(content)
    return content if good else None


def _scores(kept: Mapping[str, Any]) -> dict[str, Scores]:
    return {part: Scores.from_table(kept[part], kept["main"]) for part in ("dev", "test") if part in kept}


def _checksum(content: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
