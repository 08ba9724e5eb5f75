"""The document that is shown of a view: chosen parts of it, with what makes sense only for people.

It is ``View.as_dict()`` with, for every token, the parts against its strongest rival, and with what happens to log p of
the answer when each head is switched off.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clearhead.drawing import look_svg
from clearhead.errors import ClearheadError, DataError, Problem, RecipeError, did_you_mean
from clearhead.files import write_whole
from clearhead.inspection.roles import Reading, RoleSums
from clearhead.inspection.saving import as_dict, parts_table, save_arrays
from clearhead.pages import look_page

View = Any
"""A ``View``, whose module imports this one."""
SHOWN = ("attention", "norms", "rollout", "lens", "parts")
"""What is shown without being asked for."""
KINDS = (*SHOWN, "inputs", "occlusion")
"""What can be shown; the last two take a while."""
FILES = (".html", ".json", ".npz", ".svg")
_GO_TOGETHER = {"lens": ("lens", "decoder_lens")}
MOST_INPUTS = 12
"""Answer tokens that get integrated gradients if no place is named."""
MOST_SWITCHED = 30_000
"""Heads × tokens up to which every head is switched off in turn."""
MOST_RIVALS = 64
"""Answer tokens up to which each gets its parts against a rival."""


def document(
    view: View,
    show: Sequence[str] | None = None,
    *,
    at: int | None = None,
    against: str | None = None,
    rivals: bool = False,
    switched: bool = False,
) -> dict[str, Any]:
    """Everything that is shown of a view.

    Args:
        view: the view.
        show: what to show, of ``KINDS``. Default: all but inputs and occlusion.
        at: the place in the answer that is meant, from 0. Default: all.
        against: another token; with ``at``, the parts of the difference of the two logits.
        rivals: whether every token gets its parts against the most probable other one.
        switched: whether every head is switched off in turn, which takes a forward pass for each.
    """
    wanted = SHOWN if show is None else tuple(show)
    for name in wanted:
        if name not in KINDS:
            message = f"cannot be shown: there is {', '.join(KINDS)}{did_you_mean(name, KINDS)}"
            raise RecipeError([Problem("", name, message)])
    place = None if at is None else view.place(at)
    if against is not None and place is None:
        raise DataError(f"against {against!r}: say for which token, as the first is at=0")
    places = [number for number, row in enumerate(view.subject.rows) if row is not None]
    traced = ([place] if place is not None else places[-MOST_INPUTS:]) if "inputs" in wanted else []
    table = as_dict(view, inputs=traced, occlusion="occlusion" in wanted)
    if "parts" in wanted and "parts" in table:
        if against is not None and place is not None:
            table["parts"].append(parts_table(view.parts(place, against)))
        elif rivals and len(places) <= MOST_RIVALS:
            table["parts"] += _rivals(view, places)
    for kind in KINDS:
        if kind not in wanted:
            for name in _GO_TOGETHER.get(kind, (kind,)):
                table.pop(name, None)
                table["refused"].pop(name, None)
    if place is not None:
        table["at"] = place
    _name_roles(view, table)
    if switched:
        _switch_off(view, table)
    return table


def save(view: View, path: Path, show: Sequence[str] | None, *, at: int | None, against: str | None) -> None:
    """Write a view to a file whose name ends in one of ``FILES``."""
    if path.suffix not in FILES:
        raise DataError(f"{path}: a view is saved as {', '.join(FILES)}")
    if not path.parent.is_dir():
        raise ClearheadError(f"{path}: the folder {path.parent} does not exist")
    if path.suffix == ".npz":
        save_arrays(view, path)
        return
    whole = path.suffix == ".html"
    table = document(view, show, at=at, against=against, rivals=whole, switched=whole)
    if path.suffix == ".json":
        text = json.dumps(table, ensure_ascii=False, allow_nan=False) + "\n"
    else:
        text = look_page(table) if path.suffix == ".html" else look_svg(table)
    write_whole(path, text.encode())


def _rivals(view: View, places: Sequence[int]) -> list[dict[str, Any]]:
    """The parts of every token against the most probable other one."""
    found = []
    for place in places:
        rival = next((word for word, _ in view.alternatives[place] if word != view.answer[place]), None)
        if rival is not None:
            try:
                found.append(parts_table(view.parts(place, rival)))
            except ClearheadError:  # a word that stands for several tokens
                continue
    return found


def _name_roles(view: View, table: dict[str, Any]) -> None:
    """What each head did on this text: previous, next, diagonal …; none where its rows are not weights over tokens."""
    subject, found = view.subject, {}
    for stack, maps in view.attention.items():
        ids = None if stack == "cross" else subject.inputs if stack == "decoder" else subject.source
        for number, layer in enumerate(maps.layers, start=1):
            weights = None if layer is None else layer.cpu()
            if weights is None or not torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-3):
                continue
            sums = RoleSums(len(weights))
            n, m = (torch.tensor([size]) for size in weights.shape[-2:])
            text = ids if ids is not None and ids.dim() == 2 else None  # pixels are no text
            sums.add(weights[None], Reading(n, m, causal=stack == "decoder", cross=stack == "cross", ids=text))
            for head, (role, score) in enumerate(sums.roles(), start=1):
                found[f"{stack}.{number}.{head}"] = {"role": role, "score": None if math.isnan(score) else score}
    for head in table["heads"]:
        head.update(found.get(head["name"], {}))


def _switch_off(view: View, table: dict[str, Any]) -> None:
    """For every head, log p of each answer token without it; its importance here is what log p loses."""
    known = [value for value in view.log_probabilities if value is not None]
    if not known or len(table["heads"]) * len(view.answer) > MOST_SWITCHED:
        return
    for head in table["heads"]:
        try:
            other = view.without(head["name"]).log_probabilities
        except ClearheadError:  # the alignment of a recurrent net is no head
            return
        head["log_probabilities"] = other
        head["importance"] = sum(known) - sum(value for value in other if value is not None)
