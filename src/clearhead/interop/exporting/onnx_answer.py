"""Answers by an exported model, without clearhead: numpy, onnxruntime and tokenizers are enough.

python answer.py "a line to answer" "another one"
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class ExportedModel:
    """The graphs of a folder; ``model.json`` says what the model reads and which tokens begin and end an answer."""

    def __init__(self, folder: Path, options: onnxruntime.SessionOptions | None = None) -> None:
        self.about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.graphs = {
            name: onnxruntime.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
            for name in self.about["graphs"]
        }
        self._ports = {
            name: ([port.name for port in graph.get_inputs()], [port.name for port in graph.get_outputs()])
            for name, graph in self.graphs.items()
        }

    def run(self, graph: str, tensors: dict[str, Any]) -> dict[str, Any]:
        """Run a graph: arrays by name in, arrays by name out."""
        session, (inputs, outputs) = self.graphs[graph], self._ports[graph]
        found = session.run(outputs, {name: tensors[name] for name in inputs})
        return dict(zip(outputs, found, strict=True))

    def greedy(self, rows: list[list[int]], longest: int, prefix: Sequence[int] = ()) -> list[list[int]]:
        """The tokens of each answer: those of the prefix, then the most probable one at every step, up to the end."""
        tokens, lines, done = self.about["tokens"], len(rows), np.zeros(len(rows), bool)
        side = self.about["family"] == "lm"  # prompts are padded on the left
        rows = [[*row, *prefix] for row in rows] if side else rows
        width = max(map(len, rows))
        ids, valid = np.full((lines, width), tokens["pad"] or 0), np.zeros((lines, width), bool)
        for line, row in enumerate(rows):
            place = slice(width - len(row), width) if side else slice(0, len(row))
            ids[line, place], valid[line, place] = row, True
        state = {"valid": valid}
        if not side:
            state |= self.run("encoder", {"ids": ids, "valid": valid})
            ids = np.array([[tokens["first"], *prefix]] * lines)
        for name, shape in self.about["past"].items():  # nothing yet: no tokens, or those before the first one
            state[name] = np.zeros((lines, *shape), np.float32)
        answers = [list(prefix) for _ in rows]
        for _ in range(longest - len(prefix)):
            result = self.run("decoder", state | {"ids": ids})
            scores = result["logits"][:, -1]
            scores[:, tokens["banned"]] = -np.inf
            best = scores.argmax(-1)
            done |= best == tokens["eos"]
            for line in np.flatnonzero(~done).tolist():
                answers[line].append(int(best[line]))
            if done.all():
                break
            state |= {name.replace("new_", "past_", 1): result[name] for name in result if name.startswith("new_")}
            ids = best[:, None]
            if side:
                state["valid"] = np.concatenate((state["valid"], np.ones((lines, 1), bool)), axis=1)
        return answers


def main(folder: Path, texts: list[str]) -> None:
    """Print an answer to every text."""
    from tokenizers import Tokenizer

    model = ExportedModel(folder)
    if not model.about["tokenizers"]:
        sys.exit("there is no tokenizer.json here: cut the texts yourself, and give the ids to ExportedModel.greedy")
    reader, writer = (Tokenizer.from_file(str(folder / name)) for name in model.about["tokenizers"])
    reader.encode_special_tokens = model.about["names_are_text"]  # whether the name of a special token is only text
    before, after = model.about["around"]
    for text in texts:
        row = [*before, *reader.encode(text, add_special_tokens=False).ids, *after]
        if "decoder" in model.graphs:
            (answer,) = model.greedy([row], model.about["longest"], model.about["prefix"])
            print(writer.decode(answer, skip_special_tokens=True))
            continue
        tensors = {
            "ids": np.array([row]),
            "valid": np.ones((1, len(row)), bool),
            "segments": np.zeros((1, len(row)), int),
        }
        result = model.run(next(iter(model.graphs)), tensors)
        if model.about["family"] == "classifier":
            best = int(result["logits"][0].argmax())
            print(model.about["labels"][best] if model.about["labels"] else best)
        else:
            print(json.dumps(pooled(result["vectors"][0], model.about).tolist()))


def pooled(vectors: Any, about: dict[str, Any]) -> Any:
    """One vector for those of a text's tokens, as ``model.json`` says: their mean, the first, or the largest values."""
    kind = about["pooling"]
    found = vectors[0] if kind == "cls" else vectors.mean(0) if kind == "mean" else vectors.max(0)
    return found / max(float(np.linalg.norm(found)), 1e-12) if about["normalize"] else found


if __name__ == "__main__":
    main(Path(__file__).parent, sys.argv[1:])
