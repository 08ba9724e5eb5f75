"""What stands around the tokens of a text that a model reads, and of an answer that it writes.

Our own encoder-decoders read `text </s>`; an imported one reads what its tokenizer puts around a line: <s> … </s>
(BART), … </s> (T5, Marian), … </s> en_XX (mBART), eng_Latn … </s> (NLLB). The language of an answer is its first token
(NLLB, M2M100, mBART-50), or the first one that the decoder reads (mBART).
"""

from collections.abc import Sequence

from clearhead.data.tokens import Codec
from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe import DecodingSpec, ModelSpec


class Framing:
    """Frames what a model reads and writes.

    Args:
        model: what the recipe says of an encoder-decoder or a language model.
        source: the tokenizer of what it reads.
        target: the tokenizer of what it writes.
    """

    def __init__(self, model: ModelSpec, source: Codec, target: Codec) -> None:
        first, eos = model.vocabulary.first, model.vocabulary.eos
        assert first is not None  # a model without them does not generate text, and is refused before
        assert eos is not None
        self._lm, self._start = model.family == "lm", model.vocabulary.start
        self._source, self._target, self._first, self._eos = source, target, first, eos

    def read(self, ids: Sequence[int], spec: DecodingSpec) -> list[int]:
        """The tokens of a text with what stands around them; a prompt has at least one."""
        before, after = self.around(spec)
        return [*before, *ids, *after] or [self._first]

    def room(self, spec: DecodingSpec) -> int:
        """How many tokens stand around a text, at least one."""
        return max(1, sum(map(len, self.around(spec))))

    def around(self, spec: DecodingSpec) -> tuple[Sequence[int], Sequence[int]]:
        """What stands before and after every text."""
        if self._source.imported is not None:
            return self._source.frame(_language(self._source, spec, "source_language"))
        if self._lm:
            return ([] if self._start is None else [self._start]), []
        return [], [self._eos]

    def first(self, spec: DecodingSpec) -> int:
        """The first token that the decoder reads."""
        language = self._answer_language(spec)
        return self._first if language is None or not self._starts_with_language else language

    def prefix(self, spec: DecodingSpec) -> list[int]:
        """The tokens that every answer begins with."""
        language = self._answer_language(spec)
        return list(spec.prefix) if language is None or self._starts_with_language else [language, *spec.prefix]

    def written(self, ids: Sequence[int], spec: DecodingSpec) -> list[int]:
        """A given answer as the model writes it: after its prefix, before the end token."""
        return [*self.prefix(spec), *ids, self._eos]

    @property
    def _starts_with_language(self) -> bool:
        return self._first in self._target.languages.values()

    def _answer_language(self, spec: DecodingSpec) -> int | None:
        name = _language(self._target, spec, "target_language")
        return None if name is None else self._target.languages[name]


def _language(codec: Codec, spec: DecodingSpec, setting: str) -> str | None:
    """The language that a setting names; one that the tokenizer does not know is refused."""
    name: str | None = getattr(spec, setting)
    if name is None or name in codec.languages:
        return name
    if not codec.languages:
        raise RecipeError([Problem("", f"decoding.{setting}", "the model's tokenizer tells no languages apart")])
    near = did_you_mean(name, list(codec.languages)) or f" (there are: {', '.join(list(codec.languages)[:10])} …)"
    raise RecipeError([Problem("", f"decoding.{setting}", f"the model knows no language {name}{near}")])
