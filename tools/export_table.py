"""Exports a small model of every family and architecture to every target; writes docs/evidence/exports.md.

    python -m tools.export_table
    python -m tools.export_table lm "seq2seq, rope"

With the beginnings of names, only these models are exported, and the table is printed. Each cell is the largest
difference of logits (of log-probabilities for encoder-decoders in CTranslate2) between the model and its export, loaded
by the other library; the greedy answers of all cells that have a number are identical. Models have random weights.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

import clearhead
from clearhead.files import write_whole
from clearhead.models import SavedModel
from clearhead.verbs.exporting import TARGETS

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "exports.md"
HEAD = """\
# Exports, model by target

Small models with random weights, exported, loaded by the other library and compared on 24 lines; written by
`python -m tools.export_table`. A number is the largest |Δ| of logits (of log p for encoder-decoders in CTranslate2);
where there is one, all greedy answers are identical. A dash: the target cannot express the model, and the export is
refused.

"""
SIZES = [
    *("model.layers=1", "model.width=16", "model.heads=2", "model.feedforward.width=20"),
    *("model.vocabulary.source=40", "model.vocabulary.target=40"),
]
_LEARNED = ["model.position.kind=learned", "model.position.size=64"]
_BERT = [*_LEARNED, "model.norm.place=post", "model.norm.eps=1e-12", "model.embedding.norm=true"]
_BERT += ["model.embedding.scale=none", "model.embedding.segments=2", "model.feedforward.activation=gelu"]
_T5 = ["model.position.kind=t5", "model.norm.kind=rmsnorm", "model.attention.scale=none", "model.attention.bias=false"]
_T5 += ["model.feedforward.bias=false", "model.embedding.scale=none", "model.embedding.tie=all"]
_IMAGES = ["model.patches={height=8, width=8, channels=1, size=4, class_token=true}", "model.pooling=first"]
MODELS: dict[str, list[str]] = {
    "seq2seq, tiny (pre-LN, sinusoidal)": ["model.family=seq2seq"],
    "seq2seq, one vocabulary": ["model.family=seq2seq", "model.embedding.tie=all"],
    "seq2seq, post-LN": ["model.family=seq2seq", "model.norm.place=post"],
    "seq2seq, T5": ["model.family=seq2seq", *_T5, "model.embedding.output_scale=rsqrt"],
    **{
        f"seq2seq, {kind}": ["model.family=seq2seq", f"model.position.kind={kind}"]
        for kind in ("learned", "rope", "alibi", "t5", "shaw")
    },
    "seq2seq, disentangled": ["model.family=seq2seq", "model.attention.kind=disentangled"],
    "seq2seq, Linformer": ["model.family=seq2seq", "model.encoder.attention.kind=linformer"],
    "seq2seq, local": [
        "model.family=seq2seq",
        "model.encoder.attention.kind=local",
        "model.decoder.attention.kind=local",
    ],
    "seq2seq, convolutional": [
        "model.family=seq2seq",
        "model.encoder.kind=convolutional",
        "model.decoder.kind=convolutional",
    ],
    "seq2seq, recurrent": ["model.family=recurrent", "model.decoder.attention.kind=bahdanau"],
    "lm, GPT-2": ["model.family=lm", *_LEARNED, "model.embedding.scale=none", "model.feedforward.activation=gelu-tanh"],
    **{
        f"lm, {kind}": ["model.family=lm", f"model.position.kind={kind}"]
        for kind in ("sinusoidal", "rope", "alibi", "t5", "shaw")
    },
    "lm, disentangled": ["model.family=lm", "model.attention.kind=disentangled"],
    "encoder, BERT": ["model.family=encoder", *_BERT],
    "encoder, rope, fills in tokens": ["model.family=encoder", "model.position.kind=rope", "model.head=tokens"],
    "encoder, disentangled": ["model.family=encoder", "model.attention.kind=disentangled"],
    "classifier, sinusoidal": ["model.family=classifier"],
    "classifier of images, ViT": ["model.family=classifier", *_IMAGES, *_LEARNED, "model.norm.eps=1e-12"],
}


def saved(overrides: list[str]) -> SavedModel:
    """A model with random weights, biases among them."""
    sizes = SIZES if "model.family=recurrent" not in overrides else [size for size in SIZES if "feed" not in size]
    recipe = clearhead.read_recipe(
        None, *(size for size in sizes if "heads" not in size or "recurrent" not in str(overrides)), *overrides
    )
    model = clearhead.build(recipe, seed=1).eval()
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.empty_like(parameter).normal_(0, 0.1, generator=random))
    return SavedModel(model, recipe, {})


def cells(model: SavedModel) -> Iterator[str]:
    """What each target makes of a model."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        clearhead.save_model(model, file)
        for target in TARGETS:
            try:
                exported = clearhead.export_model(file, target, Path(folder) / target)
            except clearhead.ClearheadError as error:
                yield "—" if getattr(error, "exit_code", 1) == 2 else f"**differs**: {error}"
                continue
            form = f" ({exported.form})" if target == "huggingface" else ""
            yield f"{exported.agreement.worst:.1e}{form}"


def table(names: list[str]) -> Iterator[str]:
    """The lines of the table, as they are ready."""
    yield f"| model | {' | '.join(TARGETS)} |"
    yield "|---" * (len(TARGETS) + 1) + "|"
    for name in names:
        yield f"| {name} | {' | '.join(cells(saved(MODELS[name])))} |"


def main() -> None:
    """Write the page, or print the rows that are asked for."""
    wanted = [name for name in MODELS if any(name.startswith(word) for word in sys.argv[1:])]
    lines = []
    for line in table(wanted or list(MODELS)):
        print(line, flush=True)
        lines.append(line)
    if not wanted:
        write_whole(PAGE, (HEAD + "\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main()
