"""What all predictors share: text in, answers out."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data import BadLine, Codec, format_of
from clearhead.errors import ClearheadError, DataError, Problem, RecipeError
from clearhead.models import Model
from clearhead.predictor.forced import Forced
from clearhead.recipe import Decoding, Recipe, recipe_from, recipe_table


@dataclass(frozen=True)
class Answer:
    """One answer to one text."""

    text: str
    log_probability: float
    """log p of its tokens given the text, the end among them; NaN if nobody asked."""
    score: float
    """What the answers of a beam are ranked by, log p over the length penalty; without a beam log p itself."""
    finished: bool
    """False if the longest length was reached before the end."""
    tokens: list[int]
    cut: bool = False
    """Whether the text was longer than decoding.max_source, and only its beginning was read."""
    probabilities: Mapping[str, float] | None = None
    """Of a label: how probable every label is, the most probable first."""


class Predictor(ABC):
    """A model with its tokenizers: the one way in which dev scores, `eval`, `run` and Python get answers from it.

    model = clearhead.load("runs/demo")
    model("l o v e l y")
    model.generate(["l o v e", "h a t e"], beam_size=4)
    """

    def __init__(self, model: Model, recipe: Recipe, codecs: tuple[Codec, ...]) -> None:
        self.model, self.recipe = model, recipe
        if codecs:  # images have none
            self.source, self.target = codecs

    def __call__(self, text: str, **settings: Any) -> str:
        """The answer to one text."""
        return self.generate([text], **settings)[0]

    def generate(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """The best answer to each text; settings of ``[decoding]`` can be given: ``beam_size=4``."""
        return [best.text for best, *_ in self.answers(texts, self.decoding(**settings))]

    def score(self, *columns: Sequence[str]) -> list[float]:
        """log p of each example, given by its columns.

        Of targets given sources, of texts (lm), of labels given texts (classifier): in the order of the file.
        """
        make = format_of(self.model.spec).make
        rows = zip(*columns, strict=True)
        return [line.log_probability for line in self.forced([make(*row, line=0) for row in rows])]

    def decoding(self, *overrides: str, **settings: Any) -> Decoding:
        """The recipe's way of decoding with some settings changed; what cannot work is refused as in a recipe.

        Settings come by name, or as words of the form ``decoding.key=value``.
        """
        if not overrides and not settings:
            return self.recipe.decoding
        table = recipe_table(self.recipe)
        table["decoding"] |= settings
        for word in overrides:
            if not word.startswith("decoding."):
                raise RecipeError([Problem("command line", word, "of a trained model only decoding.key can be set")])
        return recipe_from(table, *overrides, name="settings").decoding

    @abstractmethod
    def answers(
        self,
        texts: Sequence[str],
        spec: Decoding | None = None,
        *,
        n_best: int = 1,
        scored: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Answer]]:
        """The best answers to each text, in order, the best first; log-probabilities only if ``scored``.

        ``numbers`` name the lines, where chance decides.
        """

    @abstractmethod
    def table(self, best: Answer) -> dict[str, Any]:
        """An answer as the fields of a JSON line."""

    @abstractmethod
    def forced(self, examples: Sequence[Any]) -> list[Forced]:
        """How probable given examples are."""

    def unfit(self, examples: Sequence[Any], file: str) -> Iterator[BadLine]:
        """Examples that the model cannot be scored on."""
        del examples, file
        yield from ()

    def stream(self, text: str, **settings: Any) -> Iterator[str]:
        """An answer piece by piece, as it is written, by models that write."""
        del text, settings
        raise ClearheadError(f"a model of family {self.model.spec.family} does not write token by token")

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            return self.source.encode(texts)
        except (TypeError, UnicodeEncodeError):
            raise DataError("a text holds half of a surrogate pair, which is no character") from None
