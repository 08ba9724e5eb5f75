"""What the engines of other libraries have in common: they are opened late, and say what they cannot do."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError, Problem, RecipeError
from clearhead.models import Model
from clearhead.predictor import Engine
from clearhead.recipe import DecodingSpec


class ForeignEngine(Engine):
    """Answers with a conversion of the model, which another library runs.

    Args:
        model: the model, which says how answers begin and end.
        folder: its conversion.
    """

    def __init__(self, model: Model, folder: Path) -> None:
        super().__init__(model)
        self.folder = folder
        self._opened: tuple[int, Any] | None = None

    def _library(self) -> Any:
        """The conversion as the library has it; opened anew in a forked process, which inherits no threads."""
        if self._opened is None or self._opened[0] != os.getpid():
            if not self.folder.is_dir():
                raise ClearheadError(f"{self.folder}: the conversion was removed; load the model again")
            self._opened = os.getpid(), self._open()
        return self._opened[1]

    def _open(self) -> Any:
        raise NotImplementedError

    def _refuse(self, spec: DecodingSpec) -> None:
        super()._refuse(spec)
        problems = [Problem("", f"decoding.{key}", reason) for key, reason in self._cannot(spec)]
        if problems:
            raise RecipeError(problems)

    def _cannot(self, spec: DecodingSpec) -> Sequence[tuple[str, str]]:
        """Settings that this engine cannot follow, each with the reason."""
        if spec.attention == "trained":
            return []
        return [("attention", f"the model was converted for {self.name} as it was trained; --engine native can")]
