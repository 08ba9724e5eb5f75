"""``clearhead export``: a model as other libraries and engines take it."""

import json
from pathlib import Path
from typing import Annotated

import typer

import clearhead
from clearhead.cli.progress import TerminalReport


def export(
    model: Annotated[
        str, typer.Argument(help="A run folder, a model file (pruned ones too), or a Hugging Face folder.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help="huggingface, onnx, ctranslate2 or torch-export.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    lines: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Lines to compare on. Default: the dev data of a run, or else lines made from the vocabulary.",
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="ctranslate2: weights in eight bits; tells how many answers stay the same.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written and compared as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
) -> None:
    """Carry a model to another library: Hugging Face, ONNX, CTranslate2 or torch.export.

    The export is loaded by the other library in the same command and compared with the model: the largest difference of
    logits, and greedy answers, which must be identical. Only then does the folder appear; if anything fails, nothing is
    left behind. A model that the target cannot express exactly is refused, with the reason.

    huggingface: config.json, model.safetensors and tokenizer.json; AutoModel.from_pretrained loads the folder. The
    nearest architecture that computes exactly the same is chosen: Marian, Pegasus, BART, mBART, M2M100, T5; GPT-2,
    Bloom, Llama, Mistral, Qwen2, Qwen3, Phi, GPT-NeoX; BERT, RoBERTa, DistilBERT, DeBERTa,
    ALBERT, ELECTRA, ModernBERT, ViT.

    onnx: graphs with open batch and lengths, an encoder and a decoder step with its cache, and answer.py, which answers
    with numpy, onnxruntime and tokenizers alone. Models of text with every attention and position scheme.

    ctranslate2: a model.bin for its Translator or Generator.

    torch-export: .pt2 archives. torch.export.load unpickles them: load only what you trust.

    clearhead export runs/demo --to onnx -o demo-onnx

    clearhead export runs/demo --to ctranslate2 --int8 -o demo-ct2
    """
    with TerminalReport(bar=False) as report:
        exported = clearhead.export_model(model, to, output, lines=lines, int8=int8, force=force, report=report)
    print(json.dumps(exported.as_dict()) if as_json else exported)
