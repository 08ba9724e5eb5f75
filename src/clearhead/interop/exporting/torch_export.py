"""torch.export: the graphs as ``.pt2`` archives, for torch's own runtimes and compilers.

An archive has pickles in it, and ``torch.export.load`` unpickles them. clearhead never does: what is compared is the
program in memory, before it is written. Open such a file only if you trust where it comes from.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.interop.exporting.graphs import Graph, Port, graphs_of, open_shapes
from clearhead.interop.exporting.sample import LONGEST, Sample, SampleBatch, padded_ids
from clearhead.interop.exporting.verifying import Foreign
from clearhead.models import EncoderModel, Model, Seq2Seq, evaluating

Program = Any
"""``torch.export.ExportedProgram``."""


def trace_graphs(model: Model) -> dict[str, tuple[Graph, Program]]:
    """Every graph of a model by its name, recorded for any batch and any lengths."""
    with quiet(), evaluating(model), torch.inference_mode(mode=False), torch.no_grad():
        return {
            graph.name: (
                graph,
                torch.export.export(
                    graph.module, tuple(port.example for port in graph.inputs), dynamic_shapes=open_shapes(graph)
                ),
            )
            for graph in graphs_of(model)
        }


def write_programs(programs: dict[str, tuple[Graph, Program]], folder: Path) -> str:
    """Write an archive for each graph; returns what the folder holds, in a word."""
    with quiet():
        for name, (_, program) in programs.items():
            torch.export.save(program, folder / f"{name}.pt2")
    return f"torch.export of torch {torch.__version__.partition('+')[0]}: {' and '.join(programs)}"


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what the exporters tell their own developers."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class ProgramEngine(Foreign):
    """The recorded programs, run in memory."""

    measure = "logits"

    def __init__(self, programs: dict[str, tuple[Graph, Program]], sample: Sample) -> None:
        self._graphs = {name: graph for name, (graph, _) in programs.items()}
        # torch records with dimensions of 2 or more, and would refuse the first step, whose past is empty
        self._run = {name: program.module(check_guards=False) for name, (_, program) in programs.items()}
        self._sample, self._model = sample, sample.model

    def _call(self, name: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            found = self._run[name](*tensors)
        return found if isinstance(found, tuple) else (found,)

    def _past(self, lines: int) -> list[Tensor]:
        """The state before the first token."""
        ports = [port for port in self._graphs["decoder"].inputs if port.name.startswith("past_")]
        return [torch.zeros(lines, *_sizes(port)) for port in ports]

    def values(self, batch: SampleBatch) -> Tensor:
        if isinstance(self._model, EncoderModel):
            return self._read(batch)
        assert batch.valid is not None
        past = self._past(len(batch.inputs))
        if not isinstance(self._model, Seq2Seq):
            return self._call("decoder", batch.inputs, batch.valid, *past)[0]
        assert batch.target is not None
        memory = self._call("encoder", batch.inputs, batch.valid)
        return self._call("decoder", batch.target, batch.valid, *memory, *past)[0]

    def _read(self, batch: SampleBatch) -> Tensor:
        (name, graph), *_ = self._graphs.items()
        given = [batch.inputs] if batch.valid is None else [batch.inputs, batch.valid]
        rest = [torch.zeros_like(batch.inputs)] * (len(graph.inputs) - len(given))
        return self._call(name, *given, *rest)[-1]

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        if batch.answers is None:
            return None
        if isinstance(self._model, EncoderModel):
            return best_places(self._read(batch), batch)
        return self._greedy(batch.rows)

    def _greedy(self, rows: list[list[int]]) -> list[list[int]]:
        vocabulary, crosses = self._model.spec.vocabulary, isinstance(self._model, Seq2Seq)
        ids, valid = padded_ids(rows, vocabulary.pad or 0, left=not crosses)
        memory: tuple[Tensor, ...] = ()
        if crosses:
            assert vocabulary.first is not None
            memory = self._call("encoder", ids, valid)
            ids = torch.full((len(rows), 1), vocabulary.first)
        past, done = self._past(len(rows)), torch.zeros(len(rows), dtype=torch.bool)
        answers: list[list[int]] = [[] for _ in rows]
        for _ in range(LONGEST):
            logits, *past = self._call("decoder", ids, valid, *memory, *past)
            scores = logits[:, -1].clone()
            scores[:, self._sample.banned] = -torch.inf
            best = scores.argmax(-1)
            done |= best == vocabulary.eos
            for line in (~done).nonzero().flatten().tolist():
                answers[line].append(int(best[line]))
            if bool(done.all()):
                break
            ids = best[:, None]
            if not crosses:
                valid = torch.cat((valid, torch.ones(len(rows), 1, dtype=torch.bool)), dim=1)
        return answers


def best_places(values: Tensor, batch: SampleBatch) -> list[list[int]]:
    """The best class of each line, or the best token at each of its places."""
    best = values.argmax(-1)
    if best.dim() == 1:
        return [[int(one)] for one in best]
    assert batch.valid is not None
    return [line[there].tolist() for line, there in zip(best, batch.valid, strict=True)]


def _sizes(port: Port) -> list[int]:
    return [0 if name == "past" else size for name, size in zip(port.open, port.example.shape, strict=True)][1:]
