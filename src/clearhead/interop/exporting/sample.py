"""The inputs on which a model and its export are compared, and the model's own answers to them.

Shapes: b lines, n tokens read, m tokens that the decoder reads, V entries of the vocabulary, c classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.data import Codec, pixels_of
from clearhead.errors import DataError
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, SavedModel, Seq2Seq, evaluating
from clearhead.predictor import Engine, Labeller, TextWriter, ready
from clearhead.predictor.engine import reach
from clearhead.predictor.filler import Filler
from clearhead.recipe import ModelSpec, Recipe

LINES = 24
"""The most lines that are compared."""
LONGEST = 24
"""The most tokens of an answer that is compared, and of a line that is read."""
_ROWS = 8
"""Lines of a batch; the first batch is a single line, so that both sizes occur."""
_SEED = 20


@dataclass(frozen=True)
class SampleBatch:
    """Some lines, as tensors.

    Args:
        inputs: token ids, (b, n), padded on the right; or pixels, (b, height, width, channels).
        valid: True for tokens, False for padding, (b, n); None for pixels.
        target: what the decoder of an encoder-decoder reads, (b, m); None for other families.
        counts: where results are compared, (b, n) or (b, m); None if there is one result for each line.
        following: the right token at each place, for the models that predict one.
        rows: what is read, without padding: sources, or prompts.
        answers: the model's greedy answers, without the end token; None if it gives none.
    """

    inputs: Tensor
    valid: Tensor | None
    target: Tensor | None
    counts: Tensor | None
    following: Tensor | None
    rows: list[list[int]]
    answers: list[list[int]] | None


@dataclass(frozen=True)
class Sample:
    """A model, and batches of what it reads.

    Args:
        saved: the model with its recipe and its tokenizers.
        batches: what it reads, and its answers.
        inputs: where the lines come from.
    """

    saved: SavedModel
    batches: list[SampleBatch]
    inputs: str

    @property
    def model(self) -> Model:
        """The model."""
        return self.saved.model

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return sum(len(batch.inputs) for batch in self.batches)

    def logits(self, batch: SampleBatch) -> Tensor:
        """What the model computes: logits, (b, m, V), (b, n, V) or (b, c); or an encoder's vectors, (b, n, d)."""
        model = self.model
        with evaluating(model), torch.no_grad():
            if isinstance(model, Seq2Seq):
                assert batch.target is not None
                found: Tensor = model(batch.inputs, batch.target, batch.valid)
            else:
                found = model(batch.inputs, batch.valid)
            if isinstance(model, EncoderModel) and model.output is not None:
                found = model.output(found)
        return found.clone()

    @property
    def banned(self) -> list[int]:
        """Tokens that are never generated: special ones, and those that the settings ban."""
        if not isinstance(self.model, Seq2Seq | LanguageModel):
            return []
        return Engine(self.model).never_written(self.saved.recipe.decoding)


def make_sample(saved: SavedModel, texts: Sequence[str] = (), inputs: str = "") -> Sample:
    """Read texts as the model does; without texts, or without a tokenizer, lines are made from the vocabulary.

    Args:
        saved: the model with its recipe and its tokenizers.
        texts: real inputs.
        inputs: where they come from.
    """
    spec = saved.recipe.model
    patches = getattr(spec, "patches", None)
    if patches is not None:
        if texts:
            pixels = torch.stack([torch.from_numpy(pixels_of(text, patches)) for text in texts[:LINES]])
        else:
            random = torch.Generator().manual_seed(_SEED)
            pixels = torch.rand(_ROWS, patches.height, patches.width, patches.channels, generator=random)
            inputs = "made of random pixels"
        return Sample(saved, [_pictured(saved.model, part) for part in (pixels[:1], pixels[1:]) if len(part)], inputs)
    rows = _read(saved, texts[:LINES]) if texts and saved.tokenizers else []
    if not rows:
        rows, inputs = _made(spec, _reach(saved.model)), "made from the vocabulary"
    parts = [rows[:1], *(rows[start : start + _ROWS] for start in range(1, len(rows), _ROWS))]
    return Sample(saved, [_batch(saved.model, saved.recipe, part) for part in parts if part], inputs)


def _reach(model: Model) -> int:
    """The most tokens that the model's positions allow."""
    return min(LONGEST, reach(model.modules()))


def _read(saved: SavedModel, texts: Sequence[str]) -> list[list[int]]:
    predictor = ready(saved, Path("the model"))
    texts = [text for text in texts if text.strip()]
    longest = _reach(saved.model)
    if isinstance(predictor, TextWriter):
        short = saved.recipe.decoding.replaced(max_source=max(1, longest // 2))
        return predictor._encode(texts, short)[0]
    if not isinstance(predictor, Labeller | Filler):
        raise DataError(f"a model of family {saved.recipe.model.family} reads no text")
    return [predictor.source.wrapped(ids, max(1, longest - predictor.source.room)) for ids in predictor._ids(texts)]


def _made(spec: ModelSpec, longest: int) -> list[list[int]]:
    """Lines of random tokens, of lengths from 1 up to half of what the model can take."""
    vocabulary = spec.vocabulary
    size = getattr(vocabulary, spec.sides[0])
    specials = {vocabulary.pad, vocabulary.bos, vocabulary.eos, vocabulary.unk, vocabulary.start}
    tokens = torch.tensor([index for index in range(min(size, 100_000)) if index not in specials] or [0])
    random = torch.Generator().manual_seed(_SEED)
    end = [vocabulary.eos] if spec.family == "seq2seq" and vocabulary.eos is not None else []
    most = max(1, longest // 2 - len(end))
    return [
        [*tokens[torch.randint(len(tokens), (1 + number % most,), generator=random)].tolist(), *end]
        for number in range(LINES)
    ]


def padded_ids(rows: Sequence[Sequence[int]], fill: int = 0, *, left: bool = False) -> tuple[Tensor, Tensor]:
    """Lines as a tensor, padded on one side, and where it holds tokens."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), fill)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for number, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[number, place], valid[number, place] = torch.tensor(row), True
    return ids, valid


def _pictured(model: Model, pixels: Tensor) -> SampleBatch:
    with evaluating(model), torch.no_grad():
        found = model(pixels)
    answers = [[int(best)] for best in found.argmax(-1)] if isinstance(model, ClassifierModel) else None
    return SampleBatch(pixels, None, None, None, None, [[] for _ in pixels], answers)


def _batch(model: Model, recipe: Recipe, rows: list[list[int]]) -> SampleBatch:
    if isinstance(model, EncoderModel):
        return _read_only(model, rows)
    assert isinstance(model, Seq2Seq | LanguageModel)
    vocabulary = model.spec.vocabulary
    pad, eos, first = vocabulary.pad or 0, vocabulary.eos, vocabulary.first
    answers: list[list[int]] | None = None
    ended = [False] * len(rows)
    if eos is not None and first is not None:
        spec = recipe.decoding.replaced(
            **{"beam_size": 1, "sample": False, "max_length": LONGEST, "min_length": 0, "min_ratio": 0.0},
            **{"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1.0},
            banned_sequences=[],
        )
        found = [ways[0] for ways in Engine(model).search(rows, spec)]
        answers, ended = [one.tokens for one in found], [one.finished for one in found]
    given = answers or [[] for _ in rows]
    written: list[list[int]] = [
        [*answer, eos] if end and eos is not None else answer for answer, end in zip(given, ended, strict=True)
    ]
    if isinstance(model, Seq2Seq):
        assert first is not None  # the recipe refuses an encoder-decoder without it
        inputs, valid = padded_ids(rows, pad)
        target, counts = padded_ids([[first, *tokens[:-1]] for tokens in written], pad)
        following, _ = padded_ids([tokens or [pad] for tokens in written], pad)
        return SampleBatch(inputs, valid, target, counts, following, rows, answers)
    # a language model reads its own answer after the prompt
    whole = [[*row, *tokens[:-1]] for row, tokens in zip(rows, written, strict=True)]
    inputs, valid = padded_ids(whole, pad)
    following, _ = padded_ids([[*row[1:], *(tokens or [pad])] for row, tokens in zip(rows, written, strict=True)], pad)
    return SampleBatch(inputs, valid, None, valid, following, rows, answers)


def _read_only(model: EncoderModel, rows: list[list[int]]) -> SampleBatch:
    inputs, valid = padded_ids(rows, model.spec.vocabulary.pad or 0)
    with evaluating(model), torch.no_grad():
        found = model(inputs, valid)
        if isinstance(model, ClassifierModel):
            return SampleBatch(inputs, valid, None, None, None, rows, [[int(best)] for best in found.argmax(-1)])
        if model.output is None:
            return SampleBatch(inputs, valid, None, valid, None, rows, None)
        best = model.output(found).argmax(-1)
    answers = [line[there].tolist() for line, there in zip(best, valid, strict=True)]
    return SampleBatch(inputs, valid, None, valid, None, rows, answers)


def codecs_in(tokenizers: Mapping[str, str]) -> Iterator[tuple[str, Codec]]:
    """Every tokenizer of a model, by its name: shared, or source and target."""
    for name, text in tokenizers.items():
        yield name, Codec.from_json(text)


def tokenizer_files(tokenizers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The ``tokenizer.json`` of each tokenizer, by its name; nothing for one of SentencePiece, which has none."""
    for name, codec in codecs_in(tokenizers):
        if codec.imported is None:
            yield name, codec.to_json()
        elif codec.imported.library == "tokenizers":
            yield name, codec.imported.tokenizer.to_str()


def reading_of(saved: SavedModel) -> dict[str, Any]:
    """What stands around the tokens of every line that a model reads: ids before, ids after."""
    vocabulary, family = saved.recipe.model.vocabulary, saved.recipe.model.family
    codec = next((codec for _, codec in codecs_in(saved.tokenizers)), None)
    if codec is not None and (codec.imported is not None or family not in ("seq2seq", "lm")):
        before, after = codec.frame(saved.recipe.decoding.source_language)
        return {"before": list(before), "after": list(after)}
    if family == "seq2seq":
        return {"before": [], "after": [vocabulary.eos]}
    if family == "lm":
        return {"before": [] if vocabulary.start is None else [vocabulary.start], "after": []}
    return {"before": [], "after": []}
