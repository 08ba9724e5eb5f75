"""Exports a small model of every family and architecture to every target; writes docs/evidence/exports.md.

    python -m tools.export_table
    python -m tools.export_table lm "seq2seq, rope" llama

With the beginnings of names, only these models are exported, and the tables are printed. Each cell is the largest
difference of logits (of log-probabilities for encoder-decoders in CTranslate2) between the model and its export, loaded
by the other library; the greedy answers of all cells that have a number are identical. Models have random weights.
The second table has a line for each architecture of Hugging Face: a folder that transformers wrote is imported,
compared with transformers itself, and exported to every target. Random weights of this size enlarge what float32
rounds, layer by layer, so the page also has the difference in float64, which a mistake would leave as it is.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import clearhead
from clearhead.files import write_whole
from clearhead.interop import load_huggingface
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
BETWEEN = """
Folders of Hugging Face with small random models, as transformers wrote them, imported and exported. Parity is the
largest |Δ| of logits, or of an encoder's last states, between the imported model and transformers, on four lines;
`largest` is the largest |logit|, or state, of these lines. Large random weights enlarge what float32 rounds: in
float64, also where transformers asks for float32, the same models agree as the column after it says. What is left there
comes from what both compute in float32 before, such as the angles of rotations.

"""
ARCHITECTURES = (
    *("marian", "bart", "mbart", "m2m100", "t5", "bert", "bert_classifier", "roberta", "roberta_classifier"),
    *("distilbert", "deberta", "deberta_v2", "albert", "albert_classifier", "electra", "modernbert"),
    *(
        "gpt2",
        "bloom",
        "llama",
        "llama_yarn",
        "mistral",
        "qwen2",
        "qwen3",
        "phi",
        "gpt_neox",
        "gemma",
        "gemma2",
        "gemma3",
    ),
    *("vit", "vit_classifier"),
)
"""Names of functions in ``tests.interop.references``, each of which makes a model of transformers."""
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
    "seq2seq, convolutional encoder": ["model.family=seq2seq", "model.encoder.kind=convolutional"],
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
    about = str(overrides)
    unknown = ["feedforward"] * ("recurrent" in about or "convolutional" in about) + ["heads"] * ("recurrent" in about)
    sizes = [size for size in SIZES if not any(word in size for word in unknown)]
    recipe = clearhead.read_recipe(None, *sizes, *overrides)
    model = clearhead.build(recipe, seed=1).eval()
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.empty_like(parameter).normal_(0, 0.1, generator=random))
    return SavedModel(model, recipe, {})


class InFloat64(TorchFunctionMode):
    """Computes in float64 what is asked for in float32, as transformers asks for in norms, softmax and angles."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(_wide, args), **{name: _wide(value) for name, value in (kwargs or {}).items()})


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def cells(file: Path, folder: Path) -> Iterator[str]:
    """What each target makes of a model file or of a folder of Hugging Face."""
    for target in TARGETS:
        try:
            exported = clearhead.export_model(file, target, folder / target)
        except clearhead.ClearheadError as error:
            yield "—" if getattr(error, "exit_code", 1) == 2 else f"**differs**: {error}"
            continue
        except Exception as error:  # a bug: the other cells are still worth an hour of measuring
            yield f"**fails**: {type(error).__name__}"
            continue
        form = f" ({exported.form})" if target == "huggingface" else ""
        yield f"{exported.agreement.worst:.1e}{form}"


def table(names: list[str]) -> Iterator[str]:
    """The lines of the table of clearhead's own models, as they are ready."""
    yield f"| model | {' | '.join(TARGETS)} |"
    yield "|---" * (len(TARGETS) + 1) + "|"
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "model.safetensors"
            clearhead.save_model(saved(MODELS[name]), file)
            yield f"| {name} | {' | '.join(cells(file, Path(place)))} |"


def architectures(names: list[str]) -> Iterator[str]:
    """The lines of the table of Hugging Face's architectures, as they are ready."""
    from tests.interop import references

    yield f"| architecture | parameters | largest | parity | in float64 | {' | '.join(TARGETS)} |"
    yield "|---|--:|--:|---|---" + "|---" * len(TARGETS) + "|"
    for name in names:
        model = references.randomise(getattr(references, name)())
        if (
            name == "m2m100"
        ):  # which gives padding in an answer no position: as in any trained model, it is never written
            with torch.no_grad():
                model.get_input_embeddings().weight[model.config.pad_token_id] = 0.0
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "theirs"
            model.save_pretrained(folder)
            ours = load_huggingface(folder).model
            parameters = f"{sum(part.numel() for part in ours.parameters()):,}"
            worst, largest = parity(model, ours)
            model.double()
            ours.double()
            with InFloat64():
                exact, _ = parity(model, ours)
            shown = [type(model).__name__, parameters, f"{largest:.3g}", f"{worst:.1e}", f"{exact:.1e}"]
            yield f"| {' | '.join((*shown, *cells(folder, Path(place))))} |"


@torch.no_grad()
def parity(theirs: Any, ours: Any) -> tuple[float, float]:
    """The largest difference of the last states or logits, on four lines, and the largest of these."""
    config, draw = theirs.config, torch.Generator().manual_seed(3)
    if config.model_type == "vit":
        size = config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2
        pixels = torch.randn(4, *size, config.num_channels, generator=draw).to(theirs.dtype)
        return _difference(theirs(pixels.movedim(-1, 1)), ours(pixels))
    ids = torch.randint(5, config.vocab_size, (4, 9), generator=draw)
    ids[ids == config.pad_token_id] = 5  # Marian's is the last of all; padding without a mask is no line
    if ours.spec.family == "encoder":
        return _difference(theirs.base_model(input_ids=ids), ours(ids))
    if not config.is_encoder_decoder:
        return _difference(theirs(input_ids=ids), ours(ids))
    target = torch.randint(5, config.vocab_size, (4, 7), generator=draw)
    return _difference(theirs(input_ids=ids, decoder_input_ids=target, use_cache=False), ours(ids, target))


def _difference(theirs: Any, ours: torch.Tensor) -> tuple[float, float]:
    wanted = theirs.logits if hasattr(theirs, "logits") else theirs.last_hidden_state
    return float((wanted - ours).abs().max()), float(wanted.abs().max())


def main() -> None:
    """Write the page, or print the rows that are asked for."""
    asked = sys.argv[1:]

    def chosen(names: Iterable[str]) -> list[str]:
        return [name for name in names if not asked or any(name.startswith(word) for word in asked)]

    lines = []
    for heading, rows in ((HEAD, table(chosen(MODELS))), (BETWEEN, architectures(chosen(ARCHITECTURES)))):
        lines.append(heading.rstrip("\n") + "\n")
        for line in rows:
            print(line, flush=True)
            lines.append(line)
    if not asked:
        write_whole(PAGE, ("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main()
