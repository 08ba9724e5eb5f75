"""What a recipe's ``[data]`` can say: where examples come from, and how text becomes tokens."""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from clearhead.recipe.spec import Spec

Share = Annotated[float, Field(ge=0, lt=1)]
File = str | Annotated[list[str], Field(min_length=2, max_length=2)]


def _texts(value: object) -> object:
    """Numbers of columns may be written as numbers."""
    return [str(item) if type(item) is int else item for item in value] if isinstance(value, list) else value


Columns = Annotated[list[str], BeforeValidator(_texts), Field(min_length=1, max_length=2)]


class Task(NamedTuple):
    """A built-in task."""

    learns: str
    """What it has to learn from."""
    settings: tuple[str, ...] = ()
    """What a recipe for it says, unless there is another one."""
    shares: tuple[float, float] | None = None
    """What goes to dev and to test, unless the recipe says so."""


TASKS = {
    "g2p-en": Task("pairs"),
    "dates": Task("pairs", ("data.source.kind=characters", "data.target.kind=characters")),
    "digits": Task(
        "pictures",
        (
            "model.family=classifier",
            "model.patches={height=8, width=8, channels=1, size=2}",
            "model.attention.kind=grid",
            "model.position.kind=sinusoidal-2d",
            "model.width=64",
            "model.dropout={residual=0, embedding=0}",
            "training.optimizer.weight_decay=0.1",
            "training.shift=1",
        ),
        (0.1, 0.2),
    ),
}


class TokenizerSpec(Spec):
    """How the text of one side becomes tokens."""

    kind: Literal["auto", "characters", "symbols", "bpe", "unigram"] = "auto"
    """Single characters, symbols between spaces, byte-level BPE, unigram pieces; auto decides by the training data."""
    size: Annotated[int, Field(ge=8, le=1_000_000)] | None = None
    """How many tokens bpe and unigram may learn; without it a number that suits the data."""


class DataSpec(Spec):
    """What to learn from: pairs, lines of text (lm, encoder), or labelled texts (classifier)."""

    task: Literal["none", "g2p-en", "dates", "digits"] = "none"
    """A built-in task instead of files: g2p-en is English spelling → pronunciation, dates are days as people say them →
    ISO 8601, digits are 8 × 8 pictures."""
    stress: bool = False
    """For g2p-en: keep the stress marks of vowels."""
    train: File | None = None
    """A file (.tsv, .csv, .txt or .jsonl, also .gz; .parquet, .arrow), or a pattern for several (in/*.tsv), of pairs
    `source<TAB>target`, of lines of text (lm, encoder) or of `label<TAB>text` (classifier; with patches the text is an
    image, as numbers between spaces); pairs may also be two parallel files [source, target]."""
    dev: File | None = None
    """The same, to choose the best model by; without it a part of the training data."""
    test: File | None = None
    """The same, scored only at the end; without it a part of the training data."""
    more: File | None = None
    """More of the same to train on, such as the answers of a model: never in dev or test. What dev or test ask for is
    left out, and joint n-grams are not counted from it. A task may have it, too."""
    columns: Columns | None = None
    """The columns of the files that are meant, by the names of a header (CSV, TSV) or of the fields of JSON objects, or
    by number from 1 for files without a header: [source, target], [text] (lm, encoder) or [label, text] (classifier).
    Without it a header with such names, or usual ones (src, tgt), is noticed, and else the columns stand in this
    order. Line breaks and tabs inside a quoted field of CSV become spaces."""
    dev_share: Share | None = None
    """Part of the sources, or texts, that goes to dev if there is no file; without it 5 %, at most about 2,000."""
    test_share: Share | None = None
    """The same for test."""
    bad_lines: Literal["refuse", "skip"] = "refuse"
    """Lines with an empty side, a wrong number of columns, or in dev and test a label that training does not know:
    stop and name them, or count and leave them out."""
    max_length: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """The most tokens of a line. Longer pairs are counted and left out of training; longer lines are cut into pieces
    for lm and encoder, and a classifier is trained on their beginning."""
    source: TokenizerSpec = TokenizerSpec()
    """How source text becomes tokens; models that have one side take this table or the next, whichever is given."""
    target: TokenizerSpec = TokenizerSpec()
    """How target text becomes tokens."""
    case: Literal["keep", "lower"] = "keep"
    """Read capital letters as they are, or as small ones: of the source for pairs (targets stay as they are), of the
    text for lm, encoder and classifier. Part of the tokenizer, so that train, run, score and eval do alike."""
    shared: bool | None = None
    """One vocabulary for both sides; without it: yes for subwords if the alphabets overlap."""

    @property
    def text(self) -> TokenizerSpec:
        """How the text of a family with one side becomes tokens."""
        return self.source if self.source != TokenizerSpec() else self.target

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work together."""
        if self.task != "none":
            for name in ("train", "dev", "test"):
                if getattr(self, name) is not None:
                    yield name, f"the task {self.task} brings its own data"
        if self.columns is not None:
            yield from self._column_refusals(self.columns)
        if (self.dev_share or 0) + (self.test_share or 0) >= 1:
            yield "dev_share", "dev and test together leave nothing to train on"
        if self.shared and self.source.kind != self.target.kind:
            yield "shared", f"one vocabulary needs one kind of tokens, not {self.source.kind} and {self.target.kind}"

    def _column_refusals(self, columns: list[str]) -> Iterator[tuple[str, str]]:
        numbers = [word.isascii() and word.isdigit() for word in columns]
        if self.task != "none":
            yield "columns", f"the task {self.task} brings its own data"
        if any(isinstance(where, list) for where in (self.train, self.dev, self.test, self.more)):
            yield "columns", "parallel files have one column each"
        if not all(word.strip() for word in columns) or len({word.lower() for word in columns}) < len(columns):
            yield "columns", "each column is named, and only once"
        elif any(numbers) and not all(numbers):
            yield "columns", "all by name, or all by number"
        elif any(numbers) and not all(1 <= int(word[:9]) <= 100_000 for word in columns):
            yield "columns", "columns are counted from 1"
