"""Tokens in a recipe: the vocabularies, their special ids, and how ids become vectors and vectors logits."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from clearhead.recipe.spec import Spec

Size = Annotated[int, Field(ge=1, le=100_000_000)]
# TOML has no null, so a special token that does not exist is written "none"
TokenId = Annotated[
    Annotated[int, Field(ge=0, lt=100_000_000)] | None,
    BeforeValidator(lambda value: None if value == "none" else value),
    PlainSerializer(lambda value: "none" if value is None else value),
]


class EmbeddingSpec(Spec):
    """From token ids to vectors, and back."""

    scale: Literal["sqrt", "none"] = "sqrt"
    """Multiply token embeddings by √d before positions are added (the paper, Marian), or not (BERT, GPT-2); patches
    are never scaled."""
    width: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Features of the tables, if not the stack's: a linear map then leads from the embedding to the first layer
    (ALBERT, ELECTRA). Encoders and classifiers of texts only."""
    norm: bool = False
    """Normalise the sum of the embeddings (BERT, BART)."""
    segments: Annotated[int, Field(ge=0, le=1000)] = 0
    """Number of segment (token type) embeddings: BERT has 2."""
    tie: Literal["auto", "none", "output", "inputs", "all"] = "auto"
    """One matrix for target embedding and output, for both embeddings, or for all; auto: output, all if they share."""
    output_bias: bool = False
    """A bias on the logits (Marian, BART)."""
    output_scale: Literal["none", "rsqrt"] = "none"
    """Multiply the decoder's output by 1/√d before the logits (T5)."""
    output_cap: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """c·tanh(logit/c) in place of each logit, which so stays within ±c (Gemma 2)."""


class VocabularySpec(Spec):
    """Sizes of the vocabularies and the ids of the special tokens: recorded, never assumed."""

    source: Size = 32_000
    """Number of source tokens."""
    target: Size = 32_000
    """Number of target tokens."""
    pad: TokenId = 0
    """Fills up shorter lines of a batch, ignored everywhere; "none" if there is no such token, as for all of these."""
    bos: TokenId = 1
    """Begins a sequence."""
    eos: TokenId = 2
    """Ends a sequence."""
    unk: TokenId = 3
    """Stands for what the tokenizer does not know."""
    start: TokenId = None
    """The decoder's first input; without it `bos` (Marian: pad, BART: eos). A lm reads it before a prompt, if given."""
    mask: TokenId = None
    """Stands for a hidden token that an encoder fills in."""

    @property
    def first(self) -> int | None:
        """The token that decoding starts from."""
        return self.bos if self.start is None else self.start

    def refusals(self, sides: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Special ids must lie inside every vocabulary that the family uses."""
        size = min(getattr(self, side) for side in sides)
        for name in ("pad", "bos", "eos", "unk", "start", "mask"):
            if (value := getattr(self, name)) is not None and value >= size:
                yield f"vocabulary.{name}", f"id {value} is outside the vocabulary of {size} tokens"

    @property
    def pads_are_told_apart(self) -> bool:
        """Whether an id alone tells padding from a real token."""
        return self.pad is not None and self.pad not in (self.bos, self.eos, self.start)
