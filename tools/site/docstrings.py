"""An extension of griffe, which reads the docstrings for the API reference: examples become blocks of code."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Examples(griffe.Extension):
    """``>>>`` with what follows up to an empty line is an example; Markdown alone would take it for a quotation."""

    def on_object(self, *, obj: griffe.Object, **arguments: Any) -> None:
        """Fence the examples of a docstring."""
        del arguments
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", obj.docstring.value)
