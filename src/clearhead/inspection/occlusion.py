"""Occlusion: how much less probable every answer token becomes if one input token is replaced.

Shapes: a answer tokens, n input tokens.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.inspection.baseline import baseline_of
from clearhead.inspection.replaying import replaying, run
from clearhead.inspection.subject import PatchedImage, Subject
from clearhead.models import AttentionChoice, Model, device_of

_AT_ONCE = 4096
"""Tokens that run through the model at a time."""


def occluded(
    model: Model, subject: Subject, *, attention: AttentionChoice = "trained", off: Sequence[str] = ()
) -> Float[Tensor, "a n"]:
    """log p of each answer token minus log p with input token j replaced; NaN where nothing predicts the token.

    The input tokens are the source, or for a language model the text. Special tokens are not replaced and have 0. This
    takes one forward pass for each token.
    """
    base, device = baseline_of(model, subject), device_of(model)
    reads_source = subject.source is not None
    whole, empty = (subject.source, base.source) if reads_source else (subject.inputs, base.inputs)
    content = base.source_content if reads_source else base.inputs_content
    assert whole is not None
    assert empty is not None
    assert content is not None
    hidden = content.nonzero()[:, 0]
    length = len(content)
    lines = [whole, *(_hidden(whole, empty, int(place), subject.picture) for place in hidden)]
    found = []
    with replaying(model, attention, off):
        at_once = max(1, _AT_ONCE // length)
        for first in range(0, len(lines), at_once):
            rows = torch.cat(lines[first : first + at_once])
            count = len(rows)
            target = None if subject.inputs is None else subject.inputs.expand(count, -1).to(device)
            logits = run(model, rows.to(device) if reads_source else None, target if reads_source else rows.to(device))
            found.append(_log_p(logits, subject))
    log_p = torch.cat(found)  # (1 + hidden, a)
    drops = log_p.new_zeros(len(subject.answer), length)
    drops[:, hidden] = (log_p[:1] - log_p[1:]).T
    return drops


def _log_p(logits: Tensor, subject: Subject) -> Float[Tensor, "b a"]:
    """log p of the answer's tokens in every line."""
    by_place = logits if logits.dim() == 3 else logits[:, None]
    log_p = by_place.double().log_softmax(-1)
    places = zip(subject.answer, subject.rows, strict=True)
    nothing = log_p.new_full((len(log_p),), torch.nan)
    return torch.stack([nothing if row is None else log_p[:, row, token] for token, row in places], dim=1)


def _hidden(whole: Tensor, empty: Tensor, place: int, picture: PatchedImage | None) -> Tensor:
    """The inputs without one token, or without one patch of a picture."""
    one = whole.clone()
    if picture is None:
        one[0, place] = empty[0, place]
        return one
    row, column = divmod(place - picture.class_token, picture.columns)
    across, down = (slice(start * picture.patch, (start + 1) * picture.patch) for start in (column, row))
    one[0, down, across] = empty[0, down, across]
    return one
