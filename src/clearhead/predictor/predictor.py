"""Text in, text out: the one way in which dev scores, `eval`, `run` and Python get answers from a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.data import Codec, codecs_of
from clearhead.decoding import Allowed, Hypothesis
from clearhead.errors import ClearheadError, DataError, Problem, RecipeError
from clearhead.models import Model, Seq2Seq, load_model
from clearhead.predictor.engine import Engine
from clearhead.predictor.forced import Forced, forced
from clearhead.recipe import Decoding, Recipe, recipe_from, recipe_table

_HALF = "\N{REPLACEMENT CHARACTER}"
"""How a character looks of which not all bytes are written yet."""


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


class Predictor:
    """A model that reads and writes text.

    model = clearhead.load("runs/demo")
    model("l o v e l y")
    model.generate(["l o v e", "h a t e"], beam_size=4)
    """

    def __init__(self, model: Model, recipe: Recipe, source: Codec, target: Codec) -> None:
        self.model, self.recipe, self.source, self.target = model, recipe, source, target
        self.engine = Engine(model)

    def __call__(self, text: str, **settings: Any) -> str:
        """The answer to one text."""
        return self.generate([text], **settings)[0]

    def generate(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """The best answer to each text; settings of ``[decoding]`` can be given: ``beam_size=4``."""
        return [best.text for best, *_ in self.answers(texts, self.decoding(**settings))]

    def stream(self, text: str, **settings: Any) -> Iterator[str]:
        """An answer to one text piece by piece, as it is written; greedy, or sampled: a beam knows only at the end."""
        spec = self.decoding(**settings)
        (line,), _ = self._encode([text], spec)
        written: list[int] = []
        said = ""
        for token in self.engine.stream(line, spec):
            written.append(token)
            now = self.target.decode([written])[0]
            if not now.endswith(_HALF):
                yield now[len(said) :]
                said = now
        if rest := self.target.decode([written])[0][len(said) :]:
            yield rest

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """log p(target | source) of each pair, the end of the target included."""
        return [line.log_probability for line in self.forced(sources, targets)]

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

    def answers(
        self,
        texts: Sequence[str],
        spec: Decoding | None = None,
        *,
        n_best: int = 1,
        scored: bool = False,
        numbers: Sequence[int] | None = None,
        prefixes: Sequence[str] | None = None,
        allowed: Allowed | None = None,
    ) -> list[list[Answer]]:
        """The best answers to each text, in order, the best first; log-probabilities only if ``scored``, or by a beam.

        ``numbers`` name the lines for sampling and for ``allowed``, which says what may come next; ``prefixes`` are how
        the answers must begin.
        """
        spec = spec or self.recipe.decoding
        if n_best > spec.beam_size:
            raise ClearheadError(f"{n_best} answers need a beam of {n_best}: decoding.beam_size is {spec.beam_size}")
        lines, cut = self._encode(texts, spec)
        starts = None if prefixes is None else self.target.encode(prefixes)
        found = self.engine.search(lines, spec, scored=scored, numbers=numbers, prefixes=starts, allowed=allowed)
        return self._decode([hypotheses[:n_best] for hypotheses in found], cut)

    def forced(self, sources: Sequence[str], targets: Sequence[str]) -> list[Forced]:
        """The probability of given answers, token by token."""
        if not isinstance(self.model, Seq2Seq):
            raise ClearheadError("only pairs of a seq2seq model can be scored yet")
        left, _ = self._encode(sources, self.recipe.decoding)
        right = [[*ids, self.engine.eos] for ids in self.target.encode(targets)]
        return forced(self.model, left, right)

    def _encode(self, texts: Sequence[str], spec: Decoding) -> tuple[list[list[int]], list[bool]]:
        """Ids of each text as the model reads it, and whether it was too long and had to be cut."""
        try:
            rows = self.source.encode(texts)
        except (TypeError, UnicodeEncodeError):
            raise DataError("a text holds half of a surrogate pair, which is no character") from None
        longest = min(spec.max_source, self.engine.reach - 1)  # the end is read too
        cut = [len(row) > longest for row in rows]
        rows = [row[:longest] for row in rows]
        if isinstance(self.model, Seq2Seq):
            return [[*row, self.engine.eos] for row in rows], cut
        return [row or [self.engine.first] for row in rows], cut

    def _decode(self, found: list[list[Hypothesis]], cut: list[bool]) -> list[list[Answer]]:
        # a line that the rules leave no way to write has an empty answer
        nothing = Hypothesis([], float("-inf"), float("-inf"), finished=False)
        found = [hypotheses or [nothing] for hypotheses in found]
        texts = iter(self.target.decode([hypothesis.tokens for hypotheses in found for hypothesis in hypotheses]))
        return [
            [Answer(next(texts), one.log_probability, one.score, one.finished, one.tokens, was) for one in hypotheses]
            for hypotheses, was in zip(found, cut, strict=True)
        ]


def load(path: str | Path) -> Predictor:
    """A model file, or the best model of a run folder, ready to read and write text."""
    path = Path(path)
    saved = load_model(path / "best.safetensors" if path.is_dir() else path)
    return Predictor(saved.model, saved.recipe, *codecs_of(saved.tokenizers))
