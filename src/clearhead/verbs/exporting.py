"""``clearhead.export_model``: a model as other libraries and engines take it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clearhead.errors import ClearheadError, DataError, Problem, RecipeError, did_you_mean
from clearhead.events import Event, Listener
from clearhead.files import whole_folder
from clearhead.recipe import named
from clearhead.verbs.evaluate import examples_of_run
from clearhead.verbs.naming import saved_named
from clearhead.verbs.outputs import EXISTS
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.interop.exporting import Exported, Target
    from clearhead.models import SavedModel
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run

TARGETS = ("huggingface", "onnx", "ctranslate2", "torch-export")
_NO_JOINT = "the joint n-grams stay here: there a beam's answers are ranked by the network alone"
_REPORT = "export.json"
"""What was exported and how it was compared: beside every export."""


def export_model(
    model: "str | Path | Run | Predictor",
    to: str,
    output: str | Path,
    *,
    lines: str | Path | Sequence[str] | None = None,
    int8: bool = False,
    force: bool = False,
    report: Listener | bool | None = None,
) -> "Exported":
    """Write a model as another library takes it; load it there, and compare before it gets its name.

        exported = clearhead.export_model("runs/demo", "onnx", "demo-onnx")
        print(exported)
        exported.agreement.worst

    The folder appears when everything was written and compared: largest difference of logits, and greedy answers, which
    must be identical. A model that the target cannot express exactly is refused with the reason.

    Args:
        model: A model, a run, or the name of one: a run folder, a model file, a Hugging Face folder.
        to: ``huggingface``, ``onnx``, ``ctranslate2`` or ``torch-export``.
        output: The folder to write.
        lines: What to compare on: a file of lines to answer, or a list. Default: the dev data of a run, or else lines
            made from the vocabulary.
        int8: For ``ctranslate2``: store weights in eight bits, and tell how many answers stay the same.
        force: Replace an earlier export.
        report: Called with an ``Event`` now and then; True prints lines to standard error.
    """
    if to not in TARGETS:
        problem = f"{to} is no target{did_you_mean(to, TARGETS)} (there are: {', '.join(TARGETS)})"
        raise RecipeError([Problem("", "to", problem)])
    if int8 and to != "ctranslate2":
        raise RecipeError([Problem("", "int8", "only an export to ctranslate2 stores weights in eight bits")])
    path = _writable(Path(output), force=force)
    listener = listener_of(report)
    from clearhead.interop.targets import require_packages

    target = cast("Target", to)
    require_packages(target)  # before anything takes time
    from clearhead.models import use_cores, without_joint

    whole = saved_named(model)
    saved = without_joint(whole)
    texts, where = _texts(model, whole, lines)

    from clearhead.interop.exporting import make_sample
    from clearhead.interop.targets import export_to

    with undisturbed(), whole_folder(path) as folder:
        use_cores()
        sample = make_sample(saved, texts, where)
        listener(Event("note", f"exporting to {to}; comparing on {sample.lines} lines ({sample.inputs})"))
        exported = export_to(target, sample, folder, path, int8=int8)
        if saved is not whole:
            exported = replace(exported, notes=(*exported.notes, _NO_JOINT))
        content: dict[str, Any] = {"made_by": "clearhead"} | exported.as_dict()
        (folder / _REPORT).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return exported


def _writable(path: Path, *, force: bool) -> Path:
    if not path.resolve().parent.is_dir():
        raise ClearheadError(f"-o {path}: the folder {path.parent} does not exist")
    if not path.exists():
        return path
    if not path.is_dir():
        raise ClearheadError(f"-o {path}: is a file; an export is a folder")
    if not (path / _REPORT).is_file():
        if any(path.iterdir()):
            raise ClearheadError(f"{path}: exists already, and is not an export: choose another folder")
        return path
    if not force:
        raise ClearheadError(f"{path}: {EXISTS}")
    return path


def _texts(
    model: "str | Path | Run | Predictor", saved: "SavedModel", lines: str | Path | Sequence[str] | None
) -> tuple[list[str], str]:
    """Real inputs, and where they come from; none if there are none."""
    if isinstance(lines, str | Path):
        from clearhead.data import read_lines

        if not saved.tokenizers and saved.recipe.model.learns != "pictures":
            raise DataError(f"--lines {lines}: the model has no tokenizer, so it reads no text: leave the option out")
        found = [text for text in read_lines(lines) if text.strip()]
        if not found:
            raise DataError(f"{lines}: has no lines")
        return found, Path(lines).name
    if lines is not None:
        return [text for text in lines if text.strip()], "given"
    folder = getattr(model, "folder", model)
    if isinstance(folder, str | Path) and named(folder) == "run" and Path(folder).is_dir():
        from clearhead.predictor import ready

        try:
            examples = examples_of_run(ready(saved, Path(folder)), Path(folder), "dev")
        except ClearheadError:  # its data have moved, or need a package that is not there
            return [], ""
        return [one.source if hasattr(one, "source") else one.text for one in examples], "the run's dev data"
    return [], ""
