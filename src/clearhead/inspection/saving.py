"""A view as a table for JSON, and as arrays."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.errors import ClearheadError
from clearhead.files import write_whole
from clearhead.inspection.looked import Looked
from clearhead.inspection.maps import HeadMaps
from clearhead.models import count_parameters

MOST_NUMBERS = 4_000_000
"""Weights of all heads that a table holds; beyond it, the heads whose norms are smallest are left out."""


def as_dict(view: Looked, *, inputs: Sequence[int] = (), occlusion: bool = False) -> dict[str, Any]:
    """Everything that a view can tell, as numbers, lists and texts."""
    subject = view.subject
    left_out, refused = list(subject.notes), {}
    table: dict[str, Any] = {
        "format": 1,
        "family": subject.family,
        "model": {"name": subject.name, "parameters": count_parameters(view.model)},
        "text": subject.text,
    }
    if subject.source is not None:
        table["source"] = view.source
    table |= {
        "answer": view.answer,
        "answer_text": subject.answer_text,
        "given": subject.given,
        "rows": list(subject.rows),
        "log_probabilities": view.log_probabilities,
        "alternatives": [_tokens(place) for place in view.alternatives],
        "n_best": [{"text": text, "log_probability": log_p} for text, log_p in subject.n_best],
    }
    if subject.beam:
        table["beam"] = [asdict(node) for node in subject.beam]
    if subject.inputs is not None:
        table["inputs_of"] = {"decoder": list(subject.input_tokens)}
    if view.off:
        table["without"] = list(view.off)
    kept, words = _kept(view.norms)
    left_out += words
    table["attention"] = {name: _lists(maps, kept) for name, maps in view.attention.items()}
    table["norms"] = {name: _lists(maps, kept) for name, maps in view.norms.items()}
    table["heads"] = [_head(name) for maps in view.attention.values() for name in maps.names]

    def ask(name: str, compute: Callable[[], Any]) -> None:
        try:
            table[name] = compute()
        except ClearheadError as error:
            refused[name] = str(error)

    places = [place for place, row in enumerate(subject.rows) if row is not None]
    ask("rollout", lambda: {name: matrix.tolist() for name, matrix in view.rollout().items()})
    ask("lens", lambda: {name: _lens(layers) for name, layers in view.lens().items()} if places else {})
    ask("decoder_lens", lambda: [_decoder_guess(guess) for guess in view.decoder_lens()])
    ask("parts", lambda: [parts_table(parts) for parts in view._parts(places)] if places else [])
    ask("alignment", lambda: [list(link) for link in view.align()])
    if inputs:
        ask("inputs", lambda: [_attribution(view.inputs(at)) for at in inputs])
    if occlusion:
        drops = view.occlusion().tolist()
        table["occlusion"] = [{"at": place, "source": drops[place]} for place in places]
    if subject.picture is not None:
        picture = subject.picture
        table["image"] = {
            "rows": picture.rows,
            "columns": picture.columns,
            "patch": picture.patch,
            "pixels": picture.pixels.tolist(),
        }
    return table | {"left_out": left_out, "refused": refused}


def _kept(norms: Mapping[str, HeadMaps]) -> tuple[set[str], list[str]]:
    """The heads whose matrices are written, and a sentence about those that are not."""
    sizes = {name: len(maps.queries) * len(maps.keys) for maps in norms.values() for name in maps.names}
    strength = {name: float(maps[name].mean()) for maps in norms.values() for name in maps.names}
    order = sorted(sizes, key=lambda name: -strength[name])
    kept, taken = set(), 0
    for name in order:
        if taken + sizes[name] > MOST_NUMBERS:
            break
        kept.add(name)
        taken += sizes[name]
    if len(kept) == len(order):
        return kept, []
    words = f"the matrices of {len(order) - len(kept)} of {len(order)} heads, those that bring in least"
    return kept, [f"{words}: all would be {sum(sizes.values()):,} numbers"]


def _lists(maps: HeadMaps, kept: set[str]) -> list[Any]:
    return [
        None
        if layer is None
        else [
            matrix.tolist() if f"{maps.stack}.{number}.{head}" in kept else None
            for head, matrix in enumerate(layer, start=1)
        ]
        for number, layer in enumerate(maps.layers, start=1)
    ]


def _head(name: str) -> dict[str, Any]:
    stack, layer, head = name.split(".")
    return {"name": name, "stack": stack, "layer": int(layer), "head": int(head)}


def _tokens(likely: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"token": token, "probability": probability} for token, probability in likely]


def _lens(layers: Any) -> list[Any]:
    return [[_tokens(guess.tokens) for guess in places] for places in layers]


def _decoder_guess(guess: Any) -> dict[str, Any]:
    return {"text": list(guess.tokens), "log_probabilities": list(guess.log_probabilities)}


def parts_table(parts: Any) -> dict[str, Any]:
    """The parts of a logit, for JSON."""
    return {
        "at": parts.at,
        "token": parts.token,
        "logit": parts.logit,
        "against": parts.against,
        "parts": [{"name": part.name, "value": part.value} for part in parts.parts],
    }


def _attribution(found: Any) -> dict[str, Any]:
    return {
        "at": found.at,
        "delta": found.delta,
        "error": found.error,
        "steps": found.steps,
        "baseline": found.baseline,
        "source": list(found.source),
        "prefix": list(found.prefix),
    }


def save_arrays(view: Looked, path: Path) -> None:
    """Write the numbers of a view as ``.npz``."""
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays(view))
    write_whole(path, buffer.getvalue())


def arrays(view: Looked) -> dict[str, np.ndarray]:
    """The numbers of a view by name: ``attention.cross`` is (layer, head, query, key)."""
    found: dict[str, np.ndarray] = {
        "source": np.array(view.source, dtype=str),
        "answer": np.array(view.answer, dtype=str),
        "log_probabilities": np.array([np.nan if value is None else value for value in view.log_probabilities]),
    }
    for kind, maps in (("attention", view.attention), ("norms", view.norms)):
        found |= {f"{kind}.{name}": stack.numpy() for name, stack in maps.items()}
    with suppress(ClearheadError):  # where there is none, the JSON says why
        found |= {f"rollout.{name}": matrix.cpu().numpy() for name, matrix in view.rollout().items()}
    for name, stack in view.record.stacks.items():
        found[f"streams.{name}"] = np.stack([stream[0].cpu().numpy() for stream in stack.streams])
    return found
