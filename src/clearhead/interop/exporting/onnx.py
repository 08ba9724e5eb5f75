"""ONNX: graphs with open batch and lengths, which onnxruntime runs without clearhead."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.data import Framing
from clearhead.interop.exporting.graphs import Graph, graphs_of, open_names, use_path
from clearhead.interop.exporting.sample import LONGEST, Sample, SampleBatch, codecs_in, reading_of, tokenizer_files
from clearhead.interop.exporting.torch_export import best_places, quiet
from clearhead.interop.exporting.verifying import Foreign
from clearhead.models import EncoderModel, Model, Seq2Seq, evaluating

OPSET = 18
"""The version of the operators: old enough for engines that people have, new enough for all that we need."""


def write_onnx(sample: Sample, folder: Path) -> str:
    """Write one file a graph, what a program needs to know about them, the tokenizers, and an example program.

    Returns what the folder holds, in a word.
    """
    model, saved = sample.model, sample.saved
    # explicit attention: its softmax is defined for a query that may attend to nothing, which others make NaN
    with evaluating(model), use_path(model, "explicit"):
        graphs = graphs_of(model)
        for graph in graphs:
            _write_graph(graph, folder / f"{graph.name}.onnx")
    names = []
    for name, text in tokenizer_files(saved.tokenizers):
        names.append(f"tokenizer_{name}.json" if len(saved.tokenizers) > 1 else "tokenizer.json")
        (folder / names[-1]).write_text(text, encoding="utf-8")
    (folder / "model.json").write_text(json.dumps(_about(sample, graphs, names), indent=1), encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("onnx_answer.py"), folder / "answer.py")
    return f"ONNX, operators of version {OPSET}: {' and '.join(graph.name for graph in graphs)}"


def _about(sample: Sample, graphs: tuple[Graph, ...], tokenizers: list[str]) -> dict[str, Any]:
    spec = sample.saved.recipe.model
    vocabulary, reading = spec.vocabulary, reading_of(sample.saved)
    past = {
        port.name: [0 if name == "past" else size for name, size in zip(port.open, port.example.shape, strict=True)][1:]
        for graph in graphs
        for port in graph.inputs
        if port.name.startswith("past_")
    }
    decoding, codecs = sample.saved.recipe.decoding, [codec for _, codec in codecs_in(sample.saved.tokenizers)]
    writes = bool(codecs) and vocabulary.first is not None and vocabulary.eos is not None
    return {
        "family": spec.family,
        "graphs": {
            graph.name: {
                "inputs": {port.name: list(port.open) for port in graph.inputs},
                "outputs": list(graph.outputs),
            }
            for graph in graphs
        },
        "tokens": {
            "pad": vocabulary.pad,
            "first": vocabulary.first,
            "eos": vocabulary.eos,
            "banned": sample.banned,
        },
        "past": past,
        "tokenizers": [tokenizers[0], tokenizers[-1]] if tokenizers else [],
        "names_are_text": all(codec.imported is None or codec.imported.splits_specials for codec in codecs),
        "around": [reading["before"], reading["after"]],
        "prefix": Framing(spec, codecs[0], codecs[-1]).prefix(decoding) if writes else [],
        "labels": list(getattr(spec, "labels", [])),
        "longest": decoding.max_length or 256,
        "pooling": decoding.pooling,
        "normalize": decoding.normalize,
    }


def _write_graph(graph: Graph, path: Path) -> None:
    with quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph.module,
            tuple(port.example for port in graph.inputs),
            dynamo=True,
            input_names=[port.name for port in graph.inputs],
            output_names=list(graph.outputs),
            dynamic_shapes=open_names(graph),
            opset_version=OPSET,
            verbose=False,
        )
        assert program is not None
        program.save(path, external_data=False)


class OnnxEngine(Foreign):
    """The folder, run by onnxruntime through the example program that lies in it."""

    measure = "logits"

    def __init__(self, folder: Path, model: Model) -> None:
        from clearhead.interop.exporting.onnx_answer import ExportedModel

        self._runner, self._model = ExportedModel(folder), model

    def values(self, batch: SampleBatch) -> Tensor:
        model, inputs = self._model, batch.inputs
        if isinstance(model, EncoderModel):
            return self._read(batch)
        lines = len(inputs)
        assert batch.valid is not None
        state: dict[str, Any] = {
            name: torch.zeros(lines, *shape).numpy() for name, shape in self._runner.about["past"].items()
        }
        ids, valid = inputs, batch.valid
        if isinstance(model, Seq2Seq):
            assert batch.target is not None
            state |= self._runner.run("encoder", {"ids": inputs.numpy(), "valid": valid.numpy()})
            ids = batch.target
        # the first half at once, then token by token: both ways of using the graph are compared
        half = max(1, ids.shape[1] // 2)
        ends = [half, *range(half + 1, ids.shape[1] + 1)]
        found, start = [], 0
        for end in ends:
            there = valid if isinstance(model, Seq2Seq) else valid[:, :end]
            result = self._runner.run("decoder", state | {"ids": ids[:, start:end].numpy(), "valid": there.numpy()})
            found.append(torch.from_numpy(result["logits"]))
            state |= {name.replace("new_", "past_", 1): result[name] for name in result if name.startswith("new_")}
            start = end
        return torch.cat(found, dim=1)

    def _read(self, batch: SampleBatch) -> Tensor:
        ids = batch.inputs
        if batch.valid is None:
            feed = {"pixels": ids.numpy()}
        else:
            feed = {"ids": ids.numpy(), "valid": batch.valid.numpy(), "segments": torch.zeros_like(ids).numpy()}
        result = self._runner.run(next(iter(self._runner.graphs)), feed)
        return torch.from_numpy(result.get("logits", result.get("vectors")))

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        if batch.answers is None:
            return None
        if isinstance(self._model, EncoderModel):
            return best_places(self._read(batch), batch)
        return self._runner.greedy(batch.rows, LONGEST)
