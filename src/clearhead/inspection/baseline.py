"""What stands where a token is taken away: <unk> at the same position, or for an image the mean pixel.

Shapes: n tokens, m inputs of the decoder.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.inspection.subject import Subject
from clearhead.models import Model


@dataclass(frozen=True)
class Baseline:
    """The inputs without content.

    Behind a norm, α·x is nearly the same vector for every α, so that 0 is a poor baseline; <unk> is what the model
    knows as "some token".
    """

    name: str
    """What stands for every token."""
    source: Tensor | None
    """The source with every token replaced but special ones, (1, n), or a picture without content."""
    inputs: Tensor | None
    """The decoder's inputs in the same way, (1, m)."""
    source_content: Bool[Tensor, "n"] | None
    """Which tokens of the source were replaced."""
    inputs_content: Bool[Tensor, "m"] | None


def baseline_of(model: Model, subject: Subject) -> Baseline:
    """Replace every token that is no special one."""
    vocabulary = model.spec.vocabulary
    known = {"<unk>": vocabulary.unk, "<mask>": vocabulary.mask, "<pad>": vocabulary.pad, "</s>": vocabulary.eos}
    name, token = next(((name, token) for name, token in known.items() if token is not None), ("token 0", 0))

    def replaced(ids: Tensor | None, specials: frozenset[int]) -> tuple[Tensor | None, Tensor | None]:
        if ids is None:
            return None, None
        content = torch.tensor([index not in specials for index in ids[0].tolist()], device=ids.device)
        return torch.where(content, token, ids), content

    inputs, inputs_content = replaced(subject.inputs, subject.specials[1])
    if subject.picture is not None:
        assert subject.source is not None
        empty = subject.source.mean((1, 2), keepdim=True).expand_as(subject.source)
        content = torch.ones(len(subject.source_tokens), dtype=torch.bool)
        content[0] = not subject.picture.class_token
        return Baseline("the mean pixel", empty, inputs, content, inputs_content)
    source, source_content = replaced(subject.source, subject.specials[0])
    return Baseline(name, source, inputs, source_content, inputs_content)
