"""What a run knows before it has seen its data, if it starts from a trained model: tokens and labels.

A vocabulary of characters or symbols is extended by what is new in the training data; subwords spell new text by
themselves, or read it as unknown. Labels are extended if some are known, and taken from the data if none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from clearhead.data import Codec
from clearhead.data.texts import Joined, Texts, chunks
from clearhead.errors import DataError
from clearhead.recipe import ModelSpec, Recipe
from clearhead.training.objectives.base import Codecs

SHOWN = 12
"""New tokens, or labels, that a note lists."""


@dataclass
class KnownVocabulary:
    """Tokenizers and labels of the model that a run starts from.

    Args:
        codecs: its tokenizers of source and target; none if it reads images.
        model: its settings.
        name: what it is called.
        notes: what was done with new tokens and labels, collected on the way.
    """

    codecs: Codecs
    model: ModelSpec
    name: str
    notes: list[str] = field(default_factory=list)

    def extended(self, recipe: Recipe, *texts: Texts) -> tuple[Codecs, Recipe]:
        """The tokenizers with what is new in these texts, and the recipe with vocabularies of their sizes.

        Args:
            recipe: a recipe with the vocabulary of the start.
            texts: of source and target, or of the only side.
        """
        if not self.codecs:
            raise DataError(f"{self.name}: has no tokenizer, so it cannot be tuned on text")
        source, target = before = (self.codecs[0],) * 2 if len(texts) == 1 else self.codecs
        if source is target:
            one = self._grown(source, Joined(*texts), "")
            after = one, one
        elif recipe.model.embedding.tie in ("inputs", "all"):  # one matrix: both sides get what is new on either
            units = dict.fromkeys([*self._new(source, texts[0]), *self._new(target, texts[1])])
            self._say(list(units), "")
            after = source.with_units(list(units)), target.with_units(list(units))
        else:
            after = (
                self._grown(source, texts[0], " on the source side"),
                self._grown(target, texts[1], " on the target side"),
            )
        vocabulary = recipe.model.vocabulary
        sizes = {
            side: getattr(vocabulary, side) + len(new) - len(old)
            for side, old, new in zip(("source", "target"), before, after, strict=True)
        }
        return after, recipe.updated(model=recipe.model.replaced(vocabulary=vocabulary.replaced(**sizes)))

    def labels(self, found: Sequence[str]) -> list[str]:
        """The labels of the run: the start's, then new ones; only those of the data if the start knows none of them."""
        had: list[str] = getattr(self.model, "labels", [])
        if not set(had) & set(found):
            if had:
                self.notes.append(f"none of the labels of {self.name} is in the data: the head is new")
            return list(found)
        new = [label for label in found if label not in had]
        if new:
            self.notes.append(f"{len(new)} new label{'s'[: len(new) > 1]}: {_listed(new)}; the head is extended")
        return [*had, *new]

    def _grown(self, codec: Codec, texts: Texts, where: str) -> Codec:
        units = self._new(codec, texts)
        self._say(units, where)
        return codec.with_units(units)

    def _new(self, codec: Codec, texts: Texts) -> list[str]:
        """What a closed vocabulary lacks; of an open one, what it cannot read is only told."""
        if codec.closed:
            return codec.new_units(texts)
        unknown: dict[str, None] = {}
        for chunk in chunks(texts):
            for parts in codec.read(chunk)[1]:
                unknown |= dict.fromkeys(parts)
        if unknown:
            listed = _listed(list(unknown))
            self.notes.append(f"warning: the tokenizer of {self.name} does not know {listed}: read as <unk>")
        return []

    def _say(self, units: Sequence[str], where: str) -> None:
        if units:
            what = f"{len(units)} token{'s'[: len(units) > 1]} that {self.name} does not know{where}"
            self.notes.append(f"{what}: {_listed(units)}; the vocabulary is extended, new vectors start at random")


def _listed(words: Sequence[str]) -> str:
    shown = " ".join(word if word.strip() else repr(word) for word in words[:SHOWN])
    return shown + (f" and {len(words) - SHOWN:,} more" if len(words) > SHOWN else "")
