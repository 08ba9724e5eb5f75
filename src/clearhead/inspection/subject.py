"""What is looked at: a text and its answer, as ids and as words. Inspection knows no tokenizers: both are handed in.

Shapes: n source tokens, m inputs of the decoder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class PatchedImage:
    """An image that a model read, and how it was cut into patches."""

    rows: int
    columns: int
    patch: int
    """Height and width of a patch in pixels."""
    pixels: Float[Tensor, "height width channels"]
    class_token: bool
    """Whether a learned token comes before the patches."""


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis of the search that found an answer, in words: its parent and one more token."""

    parent: int | None
    """Its place in ``Subject.beam``; None for a first token."""
    token: str
    log_probability: float
    """log p of all tokens so far."""
    score: float
    """The value by which hypotheses of one length are ranked."""
    fate: str
    """continued, finished, stopped (by the length limit) or cut (others were better)."""
    rank: int | None
    """Its place among the answers, from 1; None if it is not one of them."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A text and its answer.

    Args:
        family: the model's family.
        name: the model's name, for people.
        text: what was given.
        source: the ids that the encoder reads, (1, n), or the pixels of an image; None for a language model.
        source_tokens: their words; of an image, its patches.
        inputs: the decoder's inputs, (1, m): the start token, if there is one, and the answer without its last token;
            None without a decoder.
        input_tokens: their words.
        answer: the ids of the answer, its end token included; of a language model, those of the text as well; of an
            encoder, those at the gaps; of a classifier, the class.
        answer_tokens: their words.
        rows: for every token of the answer the place of the logits that predict it; None if nothing does.
        answer_text: the answer as text.
        given: how many tokens of the answer were given and not generated.
        n_best: the best answers with their log p.
        beam: every hypothesis of the beam search, parents first; empty where there was none.
        word: the word of an id of the answer's vocabulary.
        number: the id of a word; None if there is none.
        unknown: the id of <unk>, source and target; None if there is none.
        specials: ids that are no text, source and target.
        picture: the image, if the text is one.
        notes: what was left out, a sentence each.
    """

    family: str
    name: str
    text: str
    source: Int[Tensor, "1 n"] | Float[Tensor, "1 height width channels"] | None = None
    source_tokens: tuple[str, ...] = ()
    inputs: Int[Tensor, "1 m"] | None = None
    input_tokens: tuple[str, ...] = ()
    answer: tuple[int, ...] = ()
    answer_tokens: tuple[str, ...] = ()
    rows: tuple[int | None, ...] = ()
    answer_text: str = ""
    given: int = 0
    n_best: tuple[tuple[str, float], ...] = ()
    beam: tuple[BeamNode, ...] = ()
    word: Callable[[int], str] = str
    number: Callable[[str], int | None] = lambda word: int(word) if word.isdecimal() else None
    unknown: tuple[int | None, int | None] = (None, None)
    specials: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    picture: PatchedImage | None = None
    notes: tuple[str, ...] = ()
