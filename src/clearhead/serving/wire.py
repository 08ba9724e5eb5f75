"""What requests and responses look like: pydantic models, which check a body and make the OpenAPI document.

A mistake in a body is reported with its place: ``lines.3 must be text``.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, FiniteFloat, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError, from_json

from clearhead.errors import did_you_mean
from clearhead.serving.faults import Fault, Refused

SHOWN = 5
"""Mistakes of one body that are reported."""
NAMED = 60
"""Characters of an unknown field's name that are repeated."""
KEYS = 50
"""Most fields of a body, and of an object in it."""
ITEMS = 1_000
"""Most items of a list, where it is not one of lines."""
SETTING_ITEMS = 100_000
"""Most items of a list among the settings, as the recipe's own limit for banned tokens."""
COLUMNS = 10
"""Most columns of a row; the model says how many it has."""


class BadBody(Fault):
    """A body that cannot be read at all."""

    status, code = 400, "bad_body"


class TakenBody(BaseModel):
    """The base of all requests: only known fields, each of the type that is written here, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GivenBody(BaseModel):
    """The base of all responses, which are described here and not checked: they are made by us."""


def _setting(value: Any) -> Any:
    """One setting of ``[decoding]``: a plain value. What it may be is for the recipe to say."""
    if isinstance(value, list) and len(value) > SETTING_ITEMS:
        raise PydanticCustomError("setting", "may have at most {most} items", {"most": f"{SETTING_ITEMS:,}"})
    if isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return value
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and abs(value) < float("inf")):
        return value
    raise PydanticCustomError("setting", "must be a finite number, text, true, false, null or a list of whole numbers")


def _text_or_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise PydanticCustomError("texts", "must be text or a list of texts")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise PydanticCustomError(
                "texts", "must be text or a list of texts, but item {index} is not text", {"index": index}
            )
    return value


Setting = Annotated[bool | int | FiniteFloat | str | list[int] | None, BeforeValidator(_setting)]
Settings = Annotated[dict[str, Setting], Field(max_length=KEYS)]
Texts = Annotated[list[str], FailFast()]  # a list of a million wrong items is one mistake, not a million
TextOrTexts = Annotated[str | list[str], BeforeValidator(_text_or_texts)]
Shown = Literal["attention", "norms", "rollout", "lens", "parts", "inputs", "occlusion"]
ModelName = Annotated[str | None, Field(max_length=200)]


class RunRequest(TakenBody):
    """Lines to answer."""

    lines: Texts
    """The lines; each is answered on its own."""
    model: ModelName = None
    """The model's name; without it the first one."""
    n_best: Annotated[int, Field(ge=1)] = 1
    """Answers to each line."""
    settings: Settings = {}
    """Settings of [decoding] by name, such as {"beam_size": 4}."""
    details: bool = False
    """Whether log p, tokens, probabilities and warnings are wanted too."""
    stream: bool = False
    """Whether the answer to a single line is sent piece by piece, as server-sent events."""
    first: Annotated[int, Field(ge=0, lt=2**53)] = 0
    """The number of the first line, from 0, where a file is sent in parts: what is sampled depends on it."""


class LineResult(GivenBody):
    """The answers to one line, the best first."""

    answers: list[dict[str, Any]]
    """text, log_probability, score, finished, tokens; probabilities and masks where the family has them."""
    warnings: list[str]
    """What was cut, and which characters are unknown to the model."""


class RunReply(GivenBody):
    """Answers, in the order of the lines."""

    model: str
    answers: list[str]
    """The best answer to each line."""
    results: list[LineResult] | None = None
    """With n_best > 1 or details."""


class ScoreRequest(TakenBody):
    """Rows to score: what the model's data files have in a line."""

    rows: Annotated[list[Annotated[Texts, Field(max_length=COLUMNS)]], FailFast()]
    """Columns of each row: ["source", "target"]; for a language model ["text"]; for a classifier ["label", "text"]."""
    model: ModelName = None


class ScoredRow(GivenBody):
    """log p of one row."""

    log_probability: float | None
    tokens: list[str]
    token_log_probabilities: list[float | None]
    warnings: list[str]


class ScoreReply(GivenBody):
    """Scores, in the order of the rows."""

    model: str
    scores: list[ScoredRow]


class LookRequest(TakenBody):
    """A line to answer and to look inside."""

    line: str
    model: ModelName = None
    target: str | None = None
    """An answer to look at instead of the model's own."""
    at: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The place in the answer, from 0."""
    against: str | None = None
    """Another token for that place."""
    without: Annotated[Texts, Field(max_length=ITEMS)] = []
    """Heads to switch off, such as cross.2.5."""
    n_best: Annotated[int, Field(ge=1)] = 5
    heads: bool = False
    """Whether every head is switched off in turn, to tell how important it is here."""
    show: Annotated[list[Shown], Field(max_length=KEYS)] | None = None
    """What is wanted; without it, all but inputs (gradients of token at) and occlusion, which take a while."""
    settings: Settings = {}


class ModelEntry(GivenBody):
    """A model that is served."""

    name: str
    family: str
    fingerprint: str
    parameters: int
    reads: str
    columns: list[str]
    streams: bool
    ready: bool


class ModelsReply(GivenBody):
    """All models, in the order in which they were named."""

    models: list[ModelEntry]


class TranslateRequest(TakenBody):
    """LibreTranslate's request, with two fields of our own: scores and alignments."""

    q: TextOrTexts
    source: Annotated[str, Field(max_length=200)] = "auto"
    target: Annotated[str, Field(max_length=200)] = ""
    format: Annotated[str, Field(max_length=20)] = "text"
    alternatives: Annotated[int, Field(ge=0)] = 0
    scores: bool = False
    """Whether log p of each translation is wanted, then of its alternatives."""
    alignments: bool = False
    """Whether it is wanted which token of the text each token of the translation comes from."""
    api_key: str | None = None


class AlignedTokens(GivenBody):
    """Which token of a text each token of its translation comes from."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]
    """Places of source and target, from 0; tokens that are no text have none."""


class TranslateReply(GivenBody):
    """LibreTranslate's response; of several texts each field is a list."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    scores: list[float] | list[list[float]] | None = None
    alignments: AlignedTokens | list[AlignedTokens] | None = None


class LanguageEntry(GivenBody):
    """A language of LibreTranslate's list."""

    code: str
    name: str
    targets: list[str]


class StreamOptions(TakenBody):
    """OpenAI's options of a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


class CompletionRequest(TakenBody):
    """OpenAI's request; what clearhead cannot do may only have its neutral value."""

    model: Annotated[str, Field(max_length=200)]
    prompt: TextOrTexts = ""
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = 16
    temperature: Annotated[FiniteFloat, Field(ge=0, le=2)] | None = None
    top_p: Annotated[FiniteFloat, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = 1
    best_of: Annotated[int, Field(ge=1, le=1)] | None = 1
    stop: Annotated[TextOrTexts | None, Field()] = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    echo: bool | None = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    suffix: Annotated[str, Field(max_length=0)] | None = None
    presence_penalty: Annotated[FiniteFloat, Field(ge=0, le=0)] | None = 0
    frequency_penalty: Annotated[FiniteFloat, Field(ge=0, le=0)] | None = 0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    user: Annotated[str, Field(max_length=1_000)] | None = None


class CompletionChoice(GivenBody):
    """One completion."""

    text: str
    index: int
    logprobs: dict[str, Any] | None
    finish_reason: str | None


class CompletionReply(GivenBody):
    """OpenAI's response."""

    id: str
    object: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: dict[str, int] | None = None


class OpenAIModel(GivenBody):
    """A model, as OpenAI describes it."""

    id: str
    object: str
    created: int
    owned_by: str


class OpenAIModels(GivenBody):
    """OpenAI's list of models."""

    object: str
    data: list[OpenAIModel]


Body = TypeVar("Body", bound=TakenBody)


def read_json(body: bytes) -> Any:
    """The value that a body holds; ``BadBody`` says at which line and column it cannot be read."""
    try:
        return from_json(body, allow_inf_nan=False, cache_strings="none")
    except ValueError as problem:
        raise BadBody(f"the body is not JSON: {problem}") from None


def checked(kind: type[Body], value: Any, lines: int = ITEMS) -> Body:
    """A request of this kind; ``Refused`` names the places of what is wrong with it.

    Args:
        kind: what it should be.
        value: what JSON says.
        lines: most lines of a request.
    """
    _require_few(value, max(lines, ITEMS))
    try:
        return kind.model_validate(value)
    except ValidationError as problem:
        found = problem.errors(include_url=False, include_context=True, include_input=False)
    told = [(_place(error), _mistake(error, kind)) for error in found[:SHOWN]]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise Refused(told[0][0], "; ".join(f"{place or 'the body'} {words}" for place, words in told) + more)


def _require_few(value: Any, items: int) -> None:
    """Refuse a body of very many parts before each of them is looked at."""
    if not isinstance(value, dict):
        return
    if len(value) > KEYS:
        raise Refused("", f"the body has {len(value):,} fields; it may have {KEYS}")
    for name, part in value.items():
        most = KEYS if isinstance(part, dict) else items
        if isinstance(part, dict | list) and len(part) > most:
            raise Refused(name[:NAMED], f"{len(part):,} are too many: a request may have {most:,}")


_MISTAKES = {
    "missing": "is missing",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "string_unicode": "must be text without unpaired surrogates",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than_equal": "must be at most {le:,}",
    "greater_than": "must be more than {gt:,}",
    "less_than": "must be less than {lt:,}",
    "string_too_long": "may have at most {max_length:,} characters",
    "literal_error": "must be {expected}",
    "too_long": "may have at most {max_length:,} items",
}


def _place(error: ErrorDetails) -> str:
    return ".".join(str(part)[:NAMED] for part in error["loc"])


def _mistake(error: ErrorDetails, kind: type[BaseModel]) -> str:
    context: dict[str, Any] = error.get("ctx") or {}
    if error["type"] == "extra_forbidden":
        name = str(error["loc"][-1])
        return "is unknown" + (did_you_mean(name, list(kind.model_fields)) if len(error["loc"]) == 1 else "")
    words = _MISTAKES.get(error["type"])
    return error["msg"] if words is None else words.format(**context)
