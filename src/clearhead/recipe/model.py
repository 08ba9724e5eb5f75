"""What a recipe's ``[model]`` can say: the families, and what cannot work together in each.

Settings that several parts share (``layers``, ``width``, ``attention`` …) may be written once under ``[model]``;
``clearhead.recipe.spreading`` writes them into the parts, so that what stands here is always complete and concrete.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny, SerializerFunctionWrapHandler, model_serializer

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe.attention import AttentionPlace
from clearhead.recipe.data import TASKS, DataSpec
from clearhead.recipe.describing import shown
from clearhead.recipe.display import one_line, tree
from clearhead.recipe.feedforward import Activation
from clearhead.recipe.grid import PatchesSpec
from clearhead.recipe.joint import JointSpec
from clearhead.recipe.metrics import metrics_of
from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec, Spec
from clearhead.recipe.stack import (
    CrossSpec,
    DecoderSpec,
    EncoderSpec,
    Rate,
    ResidualSpec,
    StackSpec,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
)
from clearhead.recipe.training import DecodingSpec, TrainingSpec
from clearhead.recipe.vocabulary import EmbeddingSpec, VocabularySpec


class InitSpec(Spec):
    """How weights start."""

    kind: Literal["xavier", "normal"] = "xavier"
    """Glorot-uniform linear maps, or N(0, std²); biases start at 0, gains at 1."""
    std: Annotated[float, Field(gt=0, le=100)] = 0.02
    """Standard deviation of `normal`, and of learned positions in any case."""
    residual: Literal["plain", "depth"] = "plain"
    """`depth`: maps that write to the residual stream are divided by √(number of sublayers), as GPT-2 does;
    recurrent stacks have none."""


class ModelSpec(KindSpec):
    """The base of every family."""

    slot: ClassVar[str] = "family"
    tag: ClassVar[str] = "family"
    sides: ClassVar[tuple[str, ...]]
    """The vocabularies that the family uses."""

    family: str
    """Which family: see `clearhead presets --kinds`."""
    vocabulary: VocabularySpec = VocabularySpec()
    """Sizes and special ids."""
    embedding: EmbeddingSpec = EmbeddingSpec()
    """From ids to vectors and back."""
    init: InitSpec = InitSpec()
    """How weights start."""

    @property
    def learns(self) -> str:
        """What the family learns from: pairs, texts, gaps in texts, labels of texts, pictures with labels."""
        return "pairs"

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work together; settings are relative to ``[model]``."""
        yield from self.vocabulary.refusals(self.sides)


def _stack_refusals(
    part: str, stack: StackSpec, embedding: EmbeddingSpec, patches: PatchesSpec | None = None
) -> Iterator[tuple[str, str]]:
    for setting, reason in stack.refusals(patches):
        yield f"{part}.{setting}", reason
    for setting, reason in stack.embedding_refusals(embedding):
        yield f"embedding.{setting}", reason


def _tied_refusals(decoder: DecoderSpec, embedding: EmbeddingSpec) -> Iterator[tuple[str, str]]:
    if embedding.tie in ("auto", "output", "all") and decoder.out_width != decoder.width:
        yield (
            "embedding.tie",
            f"the decoder's vectors ({decoder.out_width}) must be as wide as the embedding ({decoder.width}) that is "
            "also the output matrix: use tie = none",
        )


def _no_segments(embedding: EmbeddingSpec) -> Iterator[tuple[str, str]]:
    if embedding.width is not None:
        yield "embedding.width", "only encoders and classifiers have tables of another width than their stack"
    if embedding.segments:
        yield "embedding.segments", "only encoders and classifiers are told which segment a token belongs to"


class Seq2SeqSpec(ModelSpec):
    """Encoder and decoder: a sequence in, a sequence out (L1.4)."""

    sides: ClassVar[tuple[str, ...]] = ("source", "target")
    family: Literal["seq2seq"] = "seq2seq"
    encoder: SerializeAsAny[EncoderSpec] = TransformerEncoderSpec()
    """Reads the source."""
    decoder: SerializeAsAny[DecoderSpec] = TransformerDecoderSpec()
    """Writes the target, token by token."""
    cross: CrossSpec = CrossSpec()
    """How the decoder attends to the encoder."""
    joint: JointSpec = JointSpec()
    """N-grams of aligned pairs that rank answers beside the network."""

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Both stacks, the cross-attention between them, and what tying asks for."""
        yield from super().refusals()
        yield from _stack_refusals("encoder", self.encoder, self.embedding)
        yield from _stack_refusals("decoder", self.decoder, self.embedding)
        for setting, reason in self.decoder.memory_refusals(self.encoder.out_width):
            yield f"decoder.{setting}", reason
        if self.decoder.crosses:
            place = AttentionPlace(
                part="cross",
                width=self.decoder.width,
                memory_width=self.encoder.out_width,
                causal=False,
                position=None if self.cross.position.kind == "none" else self.cross.position,
                layers=self.decoder.layers,
            )
            for setting, reason in self.cross.attention.refusals(place):
                yield f"cross.attention.{setting}", reason
            yield from self.cross.refusals()
        elif self.cross != CrossSpec():
            reason = f"a {self.decoder.kind} decoder looks at the encoder by settings of its own: use model.decoder"
            yield "cross.attention" if self.cross.position == CrossSpec().position else "cross.position", reason
        if self.vocabulary.first is None:
            yield "vocabulary.start", "the decoder needs a first token: give start, or bos"
        yield from _no_segments(self.embedding)
        yield from _tied_refusals(self.decoder, self.embedding)
        if self.embedding.tie in ("inputs", "all"):
            if self.vocabulary.source != self.vocabulary.target:
                yield (
                    "embedding.tie",
                    f"one matrix for source and target needs one vocabulary, not {self.vocabulary.source} "
                    f"and {self.vocabulary.target} tokens",
                )
            if self.encoder.width != self.decoder.width:
                yield (
                    "embedding.tie",
                    f"one matrix for source and target needs one width, not {self.encoder.width} "
                    f"and {self.decoder.width}",
                )

    @model_serializer(mode="wrap")
    def _without_idle_parts(self, rest: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A recipe that is written out leaves out cross-attention and joint n-grams that are not used."""
        table: dict[str, Any] = rest(self)
        idle = {name for name, used in (("cross", self.decoder.crosses), ("joint", self.joint.order)) if not used}
        return {name: part for name, part in table.items() if name not in idle}


class LanguageModelSpec(ModelSpec):
    """A decoder alone: continues a sequence."""

    sides: ClassVar[tuple[str, ...]] = ("target",)
    family: Literal["lm"] = "lm"
    decoder: SerializeAsAny[DecoderSpec] = TransformerDecoderSpec()
    """Continues the sequence."""

    @property
    def learns(self) -> str:
        """The next token of texts."""
        return "texts"

    def refusals(self) -> Iterator[tuple[str, str]]:
        """One causal stack, and tying that needs no source."""
        yield from super().refusals()
        if self.vocabulary.pad is not None and not self.vocabulary.pads_are_told_apart:
            yield (
                "vocabulary.pad",
                "padding that is also another special token would hide that token: use another id, or none",
            )
        yield from _stack_refusals("decoder", self.decoder, self.embedding)
        for setting, reason in self.decoder.memory_refusals(None):
            yield f"decoder.{setting}", reason
        yield from _no_segments(self.embedding)
        yield from _tied_refusals(self.decoder, self.embedding)
        if self.embedding.tie in ("inputs", "all"):
            yield "embedding.tie", "a language model has no source embedding: use tie = output"


class EncoderModelSpec(ModelSpec):
    """An encoder alone: a vector for every token, and with a pooler one for the sequence."""

    sides: ClassVar[tuple[str, ...]] = ("source",)
    family: Literal["encoder"] = "encoder"
    encoder: SerializeAsAny[EncoderSpec] = TransformerEncoderSpec()
    """Reads the sequence."""
    pooler: bool = False
    """tanh(W x₀ + b) of the first token (BERT)."""
    head: Literal["none", "tokens"] = "none"
    """`tokens`: logits xEᵀ + b over the vocabulary, E the token embedding: fills in hidden tokens; training sets it."""
    head_transform: Literal["none"] | Activation = "none"
    """What vectors pass before the logits of `head = tokens`: norm(act(xW + b)) with this activation, as BERT and
    RoBERTa have it, or nothing."""
    head_bias: bool = True
    """A bias in the map of `head_transform`; ModernBERT has none."""
    patches: PatchesSpec | None = None
    """Read images instead of token ids; without this table, text."""

    @property
    def learns(self) -> str:
        """Hidden tokens of texts; training on hidden patches of images is not there yet."""
        return "gaps" if self.patches is None else "images"

    def refusals(self) -> Iterator[tuple[str, str]]:
        """One stack that sees everything, and no output matrix to tie."""
        yield from super().refusals()
        yield from _stack_refusals("encoder", self.encoder, self.embedding, self.patches)
        if self.patches is not None:
            yield from self._patch_refusals(self.patches)
        yield from self._narrow_refusals()
        if self.head == "tokens" and self.encoder.out_width != self.encoder.width:
            yield (
                "head",
                f"the vectors ({self.encoder.out_width}) must be as wide as the token embedding ({self.encoder.width})",
            )
        yield from self._transform_refusals()
        for setting, allowed in (
            ("tie", ("auto", "none")),
            ("output_bias", (False,)),
            ("output_scale", ("none",)),
            ("output_cap", (None,)),
        ):
            if getattr(self.embedding, setting) not in allowed:
                yield f"embedding.{setting}", "an encoder has no output matrix of its own: model.head makes one"

    def _narrow_refusals(self) -> Iterator[tuple[str, str]]:
        if self.embedding.width is None:
            return
        if self.patches is not None or not isinstance(self.encoder, TransformerEncoderSpec):
            yield "embedding.width", "only Transformers that read texts have tables of another width"
        if self.head == "tokens" and self.head_transform == "none" and self.embedding.width != self.encoder.width:
            yield "head_transform", "must lead from the vectors back to the width of the tables: give an activation"
        if isinstance(self.encoder, ResidualSpec) and self.encoder.norm.mixes_positions and self.embedding.norm:
            yield "embedding.width", "statistics over the sequence are not taken over tables of another width"

    def _transform_refusals(self) -> Iterator[tuple[str, str]]:
        if self.head_transform == "none":
            return
        if self.head != "tokens":
            yield "head_transform", "there are no logits over tokens that it could stand before: use head = tokens"
        if not isinstance(self.encoder, ResidualSpec):
            yield "head_transform", f"a {self.encoder.kind} encoder has no norm that it could share: use none"
        elif self.encoder.norm.mixes_positions:
            yield "head_transform", "statistics over the sequence mean nothing for single tokens: use axis = token"

    def _patch_refusals(self, patches: PatchesSpec) -> Iterator[tuple[str, str]]:
        for setting, reason in patches.refusals():
            yield f"patches.{setting}", reason
        if self.embedding.segments:
            yield "embedding.segments", "patches belong to no segment"
        if self.head != "none":
            yield "head", "an image has no tokens to fill in"
        if self.pooler and not patches.class_token:
            yield "pooler", "the first patch is only a corner of the image: give patches.class_token"


class ClassifierSpec(EncoderModelSpec):
    """An encoder with a classification head."""

    family: Literal["classifier"] = "classifier"  # type: ignore[assignment]
    classes: Annotated[int, Field(ge=2, le=1_000_000)] = 2
    """Number of classes; training sets it."""
    labels: Annotated[list[str], Field(max_length=1_000_000)] = Field(default=[])
    """What the classes are called, in order; without it training takes the labels of the training data, sorted."""
    pooling: Literal["first", "mean"] = "mean"
    """What the head sees: the first token, or the mean of all tokens that are there."""
    head_dropout: Rate = 0.0
    """How often features are dropped before the head."""

    @property
    def learns(self) -> str:
        """The classes of texts, or of pictures."""
        return "labels" if self.patches is None else "pictures"

    def refusals(self) -> Iterator[tuple[str, str]]:
        """What an encoder refuses, labels that do not fit, and a pooler that nothing would read."""
        yield from super().refusals()
        if self.labels and len(set(self.labels)) != self.classes:
            yield "labels", f"{len(set(self.labels))} different names for {self.classes} classes"
        if self.head != "none":
            yield "head", "a classifier has a head of its own, and fills in no tokens"
        if self.pooler and self.pooling != "first":
            yield "pooler", "the pooler sums up the first token: it needs pooling = first"
        if self.pooling == "mean" and isinstance(self.encoder, ResidualSpec) and self.encoder.ends_centred:
            yield "pooling", "statistics over the sequence make the mean of all tokens 0: use pooling = first"
        if self.patches is None:
            return
        if self.pooling == "first" and not self.patches.class_token:
            yield "pooling", "the first patch is only a corner of the image: give patches.class_token, or use mean"
        if self.pooling == "mean" and self.patches.class_token:
            yield "pooling", "the class token is there for the head to look at: use pooling = first"


register(Seq2SeqSpec, module="clearhead.models.seq2seq:Seq2Seq", cost="clearhead.costing.forms.family:Seq2SeqForm")
register(
    LanguageModelSpec,
    module="clearhead.models.lm:LanguageModel",
    cost="clearhead.costing.forms.family:LanguageModelForm",
)
register(
    EncoderModelSpec, module="clearhead.models.encoder:EncoderModel", cost="clearhead.costing.forms.family:EncoderForm"
)
register(
    ClassifierSpec,
    module="clearhead.models.encoder:ClassifierModel",
    cost="clearhead.costing.forms.family:ClassifierForm",
)


class Recipe(Spec):
    """One model, described completely: its data, its parts, its training, its answers."""

    data: DataSpec = DataSpec()
    """What to learn from."""
    model: SerializeAsAny[ModelSpec] = Seq2SeqSpec()
    """What to build."""
    training: TrainingSpec = TrainingSpec()
    """How to train it."""
    decoding: DecodingSpec = DecodingSpec()
    """How it answers."""

    def updated(
        self,
        *,
        data: DataSpec | None = None,
        model: ModelSpec | None = None,
        training: TrainingSpec | None = None,
        decoding: DecodingSpec | None = None,
    ) -> "Recipe":
        """This recipe with other sections: ``recipe.updated(training=recipe.training.replaced(seed=2))``.

        Nothing is read again, but everything is checked as if it were: values, and what cannot work together. What is
        wrong raises a ``RecipeError``. Sections that are None stay as they are. To change settings by their names,
        shared ones among them, use ``read_recipe(recipe, settings={"model.layers": 2})``.
        """
        sections = {"data": data, "model": model, "training": training, "decoding": decoding}
        recipe = self.replaced(**{name: section for name, section in sections.items() if section is not None})
        problems = [Problem("recipe", _with_value(recipe, name), reason) for name, reason in recipe.refusals()]
        if problems:
            raise RecipeError(problems)
        return recipe

    def __repr__(self) -> str:
        return one_line(self, Recipe(), self.model)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """The settings as a tree, for notebooks."""
        return tree(self, Recipe(), self.model)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work together, in every section."""
        for name in ("data", "model", "training", "decoding"):
            for setting, reason in getattr(self, name).refusals():
                yield f"{name}.{setting}", reason
        learns, family = self.model.learns, self.model.family
        metric, judges = self.training.metric, metrics_of(learns)
        if metric not in ("auto", *judges):
            near = did_you_mean(metric, judges)
            yield "training.metric", f"a model of family {family} is judged by {', '.join(judges) or 'nothing'}{near}"
        if self.data.task != "none" and (has := TASKS[self.data.task].learns) != learns:
            yield "data.task", f"has {has}, and this model, of family {family}, learns from {learns}"
        if self.decoding.dictionary and self.data.task != "g2p-en":
            yield "decoding.dictionary", "only a model of the task g2p-en, as g2p-en itself, has a dictionary"
        stacks = [name for name, part in self.model if getattr(part, "kind", None) == "recurrent"]
        if self.training.compile and stacks:
            yield (
                "training.compile",
                f"a recurrent {stacks[0]} goes token by token, which torch cannot compile for any length",
            )
        several = 1 if learns in ("texts", "gaps") else 2
        if self.data.columns is not None and len(self.data.columns) != several:
            yield "data.columns", f"a model of family {family} learns from {('one column', 'two columns')[several - 1]}"
        for name in ("train", "more", "dev", "test"):
            if learns != "pairs" and isinstance(getattr(self.data, name), list):
                yield f"data.{name}", f"a model of family {family} learns from one file, not from two parallel ones"


def _with_value(recipe: Recipe, setting: str) -> str:
    """``model.embedding.tie = "all"``: a setting as an error names it; a table without its value."""
    value: Any = recipe
    for name in setting.split("."):
        value = getattr(value, name, None)
    return setting if value is None or isinstance(value, Spec) else f"{setting} = {shown(value)}"
