"""The targets of an export: what each needs, writes and is compared by."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from clearhead.errors import MissingExtra
from clearhead.interop.exporting.result import Exported, Target
from clearhead.interop.exporting.sample import Sample
from clearhead.interop.exporting.verifying import compare, require_agreement
from clearhead.interop.exporting.written import Written

_PACKAGES: dict[str, tuple[str, ...]] = {
    "huggingface": ("transformers",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "ctranslate2": ("ctranslate2",),
    "torch-export": (),
}
"""What each target needs beside clearhead's own packages; the extra ``export`` brings all of them."""


def require_packages(target: str) -> None:
    """Refuse to begin without the packages that the target needs."""
    for package in _PACKAGES[target]:
        try:
            import_module(package)
        except ImportError:
            raise MissingExtra(f"an export to {target}", package, "export") from None


def export_to(target: Target, sample: Sample, folder: Path, path: Path, *, int8: bool = False) -> Exported:
    """Fill a folder and compare it with the model; raises if they differ, or if the target cannot express the model.

    Args:
        target: what to export to.
        sample: the model, and what it is compared on.
        folder: an empty folder.
        path: what the folder will be called.
        int8: for CTranslate2, also store weights in eight bits.
    """
    written = (_ctranslate2(sample, folder, int8=int8)) if target == "ctranslate2" else _WRITERS[target](sample, folder)
    require_agreement(written.agreement, target)
    files = {str(file.relative_to(folder)): file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file()}
    return Exported(
        target=target,
        folder=path,
        form=written.form,
        files=files,
        agreement=written.agreement,
        lines=sample.lines,
        inputs=sample.inputs,
        notes=written.notes,
        int8=written.int8,
    )


def _huggingface(sample: Sample, folder: Path) -> Written:
    from clearhead.interop.huggingface.engine import HuggingFaceEngine
    from clearhead.interop.huggingface.exporting import write_huggingface

    form, notes = write_huggingface(sample.saved, folder, banned=sample.banned)
    return Written(form, compare(sample, HuggingFaceEngine(folder, sample)), notes)


def _onnx(sample: Sample, folder: Path) -> Written:
    from clearhead.interop.exporting.onnx import OnnxEngine, write_onnx

    form = write_onnx(sample, folder)
    note = "answer.py answers with numpy, onnxruntime and tokenizers alone"
    if not any(folder.glob("tokenizer*.json")):
        note = "there is no tokenizer.json, as a SentencePiece model is no such file: answer.py can be given ids alone"
    return Written(form, compare(sample, OnnxEngine(folder, sample.model)), (note,) if sample.saved.tokenizers else ())


def _torch_export(sample: Sample, folder: Path) -> Written:
    from clearhead.interop.exporting.torch_export import ProgramEngine, trace_graphs, write_programs

    programs = trace_graphs(sample.model)
    agreement = compare(sample, ProgramEngine(programs, sample))
    require_agreement(agreement, "torch-export")
    note = "torch.export.load unpickles: open the files only if you trust them; compared in memory, before writing"
    return Written(write_programs(programs, folder), agreement, (note,))


def _ctranslate2(sample: Sample, folder: Path, *, int8: bool) -> Written:
    from clearhead.interop.exporting.ctranslate2 import write_ctranslate2

    return write_ctranslate2(sample, folder, int8=int8)


_WRITERS: dict[str, Callable[[Sample, Path], Written]] = {
    "huggingface": _huggingface,
    "onnx": _onnx,
    "torch-export": _torch_export,
}
