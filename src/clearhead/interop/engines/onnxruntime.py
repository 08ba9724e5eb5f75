"""onnxruntime runs the graphs; the search is clearhead's own, so everything that it can do works the same.

Shapes: b lines, k beams of a line, V entries of the vocabulary.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding import Stepper
from clearhead.interop.engines.foreign import ForeignEngine
from clearhead.interop.exporting.sample import padded_ids
from clearhead.models import LanguageModel, Model


class OnnxRuntimeEngine(ForeignEngine):
    """Answers with the ONNX graphs of a model.

    Args:
        model: the model.
        folder: its graphs.
    """

    name = "onnxruntime"

    def __init__(self, model: Model, folder: Path) -> None:
        super().__init__(model, folder)
        self.where = (folder,)

    def _open(self) -> "_Graphs":
        return _Graphs(self.folder)

    def _stepper(self, lines: list[list[int]]) -> Stepper:
        graphs: _Graphs = self._library()
        return OnnxStepper(graphs, lines, prompts=isinstance(self.model, LanguageModel))


class _Graphs:
    """The sessions of a folder, on as many threads as torch has."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        from clearhead.interop.exporting.onnx_answer import ExportedModel

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
        options.log_severity_level = 3
        opened = ExportedModel(folder, options)
        self.run, self.past = opened.run, opened.about["past"]


class OnnxStepper:
    """The state of a batch of lines; every beam is a row.

    Args:
        graphs: the sessions.
        lines: sources, or prompts, of which the last token is fed by the search.
        prompts: whether they are prompts.
    """

    def __init__(self, graphs: _Graphs, lines: list[list[int]], *, prompts: bool) -> None:
        self._graphs, self._beams = graphs, 1
        state: dict[str, Any] = {
            name: np.zeros((len(lines), *shape), np.float32) for name, shape in graphs.past.items()
        }
        self._grows = prompts
        if not prompts:
            ids, valid = (part.numpy() for part in padded_ids(lines))
            self._state = state | {"valid": valid} | graphs.run("encoder", {"ids": ids, "valid": valid})
            return
        ids, valid = (part.numpy() for part in padded_ids([line[:-1] for line in lines], left=True))
        self._state = state | {"valid": valid}
        if ids.shape[1]:
            self._feed(ids)

    def _feed(self, ids: Any) -> Any:
        result = self._graphs.run("decoder", self._state | {"ids": ids})
        for name, value in result.items():
            if name.startswith("new_"):
                self._state[name.replace("new_", "past_", 1)] = value
        return result["logits"]

    def step(self, ids: Tensor) -> Tensor:
        """Feed a token to every beam, (b, k); returns logits, (b, k, V)."""
        batch, self._beams = ids.shape
        if self._grows:
            valid = self._state["valid"]
            self._state["valid"] = np.concatenate((valid, np.ones((len(valid), 1), bool)), axis=1)
        logits = self._feed(ids.reshape(-1, 1).numpy())
        return torch.from_numpy(logits[:, -1]).view(batch, self._beams, -1)

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        """Continue with these lines and beams."""
        if beams is None:
            beams = torch.arange(self._beams).expand(len(lines), -1)
        rows = (lines[:, None] * self._beams + beams).flatten().numpy()
        self._state = {name: value[rows] for name, value in self._state.items()}
