"""What a view can be asked for: the interface that writes a view down needs no more."""

from collections.abc import Sequence
from typing import Protocol

from jaxtyping import Float
from torch import Tensor

from clearhead.inspection.alignment import Link
from clearhead.inspection.gradients import Attribution
from clearhead.inspection.lens import DecoderGuess, Guess
from clearhead.inspection.maps import Maps
from clearhead.inspection.parts import Parts
from clearhead.inspection.record import Record
from clearhead.inspection.subject import Subject
from clearhead.models import Model


class Looked(Protocol):
    """A view, as ``saving`` reads it; ``clearhead.View`` documents the members."""

    model: Model
    subject: Subject
    record: Record

    @property
    def source(self) -> list[str]:
        """The tokens that the encoder read."""

    @property
    def answer(self) -> list[str]:
        """The tokens of the answer."""

    @property
    def off(self) -> tuple[str, ...]:
        """The heads that are switched off."""

    @property
    def log_probabilities(self) -> list[float | None]:
        """log p of every token of the answer."""

    @property
    def alternatives(self) -> list[list[tuple[str, float]]]:
        """The most probable tokens at every place of the answer."""

    @property
    def attention(self) -> Maps:
        """The weights of every head."""

    @property
    def norms(self) -> Maps:
        """‖α v W_O‖ of every head."""

    def rollout(self) -> dict[str, Float[Tensor, "r c"]]:
        """How much of each token could come from each token."""

    def lens(self, most: int = 3) -> dict[str, list[list[Guess]]]:
        """The most probable tokens after every layer."""

    def decoder_lens(self) -> list[DecoderGuess]:
        """What the decoder answers over every layer of the encoder."""

    def align(self) -> list[Link]:
        """The source token of every answer token."""

    def _parts(self, places: Sequence[int], against: str | None = None) -> list[Parts]:
        """The parts of the logits at these places."""

    def inputs(self, at: int, against: str | None = None, *, most_steps: int = 512) -> Attribution:
        """What every input token adds to log p of an answer token."""

    def occlusion(self) -> Float[Tensor, "a n"]:
        """What log p of each answer token loses without each input token."""

    def as_dict(self) -> dict[str, object]:
        """Everything as numbers, lists and texts."""
