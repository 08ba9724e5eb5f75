"""What cannot work together is refused when the recipe is read, with the reason."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import pytest

from clearhead.errors import RecipeError
from clearhead.recipe import AttentionSpec, kinds, read_recipe, register
from clearhead.recipe import registry as registry_module

IMAGES = ["model.family=classifier", "model.patches.size=2"]
CLASS_TOKEN = ["model.patches.class_token=true", "model.pooling=first"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["model.width=100", "model.heads=3"],
            "model.heads = 3: heads (3) must divide the width (100), unless query_size and value_size are both given",
        ),
        (
            ["model.encoder.width=100", "model.encoder.heads=7"],
            "model.encoder.heads = 7: heads (7) must divide the width (100)",
        ),
        (
            ["model.attention.output=false", "model.attention.value_size=3"],
            "model.attention.output = false: without W_O the heads' outputs together (4 × 3) must be as wide "
            "as the tokens (192)",
        ),
        (
            ["model.attention.projections=false", "model.attention.query_size=3"],
            "without projections a head is a slice of width / heads: give no sizes",
        ),
        (["model.cross.position.kind=t5"], 'kind = "t5": t5 positions cannot act between two sequences: use rope'),
        (
            [
                "model.cross.position.kind=rope",
                "model.cross.attention.query_size=5",
                "model.cross.attention.value_size=5",
            ],
            "the head size (5) must be even",
        ),
        (
            ["model.cross.position.kind=rope", "model.cross.position.window_base=20"],
            "cross-attention sees no windows: use base",
        ),
        (
            ["model.cross.position.kind=rope", "model.decoder.kind=recurrent"],
            "model.cross.position: a recurrent decoder looks at the encoder by settings of its own",
        ),
        (
            ["model.cross.attention.projections=false", "model.encoder.width=128"],
            "without projections the memory (128) must be as wide as the queries (192)",
        ),
        (
            ["model.position.kind=rope", "model.attention.score=additive"],
            "rope positions act on products q·k, and an additive score is none",
        ),
        (
            ["model.position.kind=rope", "model.attention.query_size=5"],
            "rope turns pairs of features: the head size (5) must be even",
        ),
        (
            ["model.norm.axis=sequence"],
            "statistics over the sequence would show a decoder the future: use axis = token",
        ),
        (
            ["model.norm.axis=all"],
            "statistics over the sequence would show a decoder the future: use axis = token",
        ),
        (
            ["model.feedforward.out_width=64"],
            "the decoder's vectors (64) must be as wide as the embedding (192) that is also the output matrix: use tie",
        ),
        (
            ["model.family=encoder", "model.head=tokens", "model.feedforward.out_width=64"],
            "the vectors (64) must be as wide as the token embedding (192)",
        ),
        (
            ["model.encoder.kind=convolutional", "model.encoder.kernel=4"],
            "in an encoder the token stands in the middle of its kernel, which is odd, not 4",
        ),
        (
            ["model.decoder.kind=convolutional", "model.decoder.layers=30"],
            "in layer 30 the tokens of a kernel would be more than 10,000,000 apart",
        ),
        (
            ["model.encoder.kind=convolutional", "model.encoder.position.kind=rope"],
            "rope positions act inside self-attention, which a convolutional stack has not",
        ),
        (
            ["model.decoder.kind=convolutional", "model.decoder.norm.axis=sequence"],
            "statistics over the sequence would show a decoder the future",
        ),
        (
            ["model.encoder.kind=convolutional", "model.encoder.dropout.attention=0.1"],
            "a convolutional encoder has no attention: give it to the decoder alone",
        ),
        (
            [*IMAGES, "model.encoder.kind=convolutional"],
            "a convolutional stack reads sequences: patches of an image need a transformer",
        ),
        (
            ["model.decoder.attention.kind=local", "model.decoder.attention.sides=both"],
            'model.decoder.attention.sides = "both": a window on both sides would see the future in a decoder: use one',
        ),
        (
            ["model.encoder.attention.kind=local", "model.encoder.attention.window=8"],
            "a window on both sides has its query in the middle and is odd, not 8; or sides = one",
        ),
        (["model.cross.attention.kind=local"], "a window needs queries and keys of one sequence"),
        (
            [*IMAGES, "model.attention.kind=local", "model.position.kind=relative-2d"],
            "relative-2d positions have rows and columns, a window counts along one line",
        ),
        (
            ["model.position.kind=t5", "model.position.max_distance=16"],
            "model.position.max_distance = 16: must be more than 16, the distances that have a bucket of their own",
        ),
        (["model.vocabulary.bos=none"], "the decoder needs a first token: give start, or bos"),
        (["model.embedding.segments=2"], "only encoders and classifiers are told which segment a token belongs to"),
        (["model.family=classifier", "model.pooler=true"], "the pooler sums up the first token: it needs pooling"),
        (["training.steps=5", "training.epochs=2"], "one budget is enough, and steps is given too"),
        (["model.width=9", "model.heads=3"], "sinusoidal positions need an even width, not 9"),
        (
            ["model.embedding.tie=all", "model.vocabulary.source=10"],
            "one matrix for source and target needs one vocabulary, not 10 and 32000 tokens",
        ),
        (
            ["model.embedding.tie=inputs", "model.encoder.width=128"],
            "one matrix for source and target needs one width, not 128 and 192",
        ),
        (["model.vocabulary.pad=32000"], "id 32000 is outside the vocabulary of 32000 tokens"),
        (["model.family=lm", "model.embedding.tie=all"], "a language model has no source embedding: use tie = output"),
        (["model.family=encoder", "model.embedding.tie=output"], "an encoder has no output matrix of its own"),
        (["model.family=classifier", "model.head=tokens"], "a classifier has a head of its own"),
        (["model.family=classifier", 'model.labels=["a", "b", "c"]'], "3 different names for 2 classes"),
        (["model.family=lm", "training.metric=bleu"], "a model of family lm is judged by perplexity"),
        (["training.metric=accuracy"], "a model of family seq2seq is judged by line_error"),
        (["model.family=lm", "data.task=g2p-en"], "has pairs, and this model, of family lm, learns from texts"),
        (["model.family=lm", 'data.train=["a", "b"]'], "a model of family lm learns from one file"),
        (["training.masking.masked=0.95"], "together with masking.masked (0.95) more than all hidden tokens"),
        (
            ["model.family=classifier", "model.norm.axis=sequence"],
            "statistics over the sequence make the mean of all tokens 0: use pooling = first",
        ),
        *(
            (
                [*family, f"model.attention.kind={kind}"],
                f"{kind} attention needs a grid: give [model.patches] to an encoder or a classifier",
            )
            for kind in ("grid", "axial", "window")
            for family in ([], ["model.family=lm"], ["model.family=classifier"])
        ),
        *(
            (
                [*family, f"model.position.kind={kind}"],
                f"{kind} positions need a grid: give [model.patches] to an encoder or a classifier",
            )
            for kind in ("sinusoidal-2d", "relative-2d")
            for family in ([], ["model.family=lm"], ["model.family=encoder"])
        ),
        (
            [*IMAGES, "model.attention.kind=window", "model.attention.size=3"],
            "model.attention.size = 3: windows of 3 × 3 must divide the grid of 4 × 4 patches",
        ),
        ([*IMAGES, "model.patches.height=9"], "model.patches.size = 2: patches of 2 pixels must divide the height (9)"),
        (
            [*IMAGES, "model.position.kind=sinusoidal-2d", "model.width=90", "model.heads=2"],
            "model.width = 90: sinusoidal-2d positions need a width that 4 divides, not 90",
        ),
        (
            [*IMAGES, "model.position.kind=learned", "model.position.size=15"],
            "model.position.size = 15: an image becomes 16 tokens, the table holds 15 positions",
        ),
        ([*IMAGES, "model.embedding.segments=2"], "patches belong to no segment"),
        ([*IMAGES, "model.pooling=first"], "the first patch is only a corner of the image: give patches.class_token"),
        ([*IMAGES, "model.patches.class_token=true"], "the class token is there for the head to look at"),
        (
            ["model.family=encoder", "model.patches.size=2", "model.pooler=true"],
            "model.pooler = true: the first patch is only a corner of the image: give patches.class_token",
        ),
        *(
            (
                [*IMAGES, *CLASS_TOKEN, f"model.attention.kind={kind}"],
                f"a class token has no place in the grid of {kind} attention: use multihead, or no class token",
            )
            for kind in ("grid", "axial", "window")
        ),
        (
            [*IMAGES, *CLASS_TOKEN, "model.position.kind=relative-2d"],
            "a class token has no place in the grid, so relative-2d knows no distance to it",
        ),
        *(
            (
                [*IMAGES, f"model.attention.kind={kind}", f"model.position.kind={position}"],
                f"{position} positions count along one line, which {kind} attention cuts up: use relative-2d",
            )
            for kind in ("axial", "window")
            for position in ("t5", "rope")
        ),
        (["model.family=classifier", "model.patches=16"], "model.patches = 16: must be a table of settings"),
        (["model.patches.size=2"], "model.patches.size: no such setting"),
    ],
)
def test_impossible_combinations_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipe(None, *overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.width=100", "model.heads=3", "model.attention.query_size=5", "model.attention.value_size=7"],
        ["model.family=encoder", "model.norm.axis=sequence"],
        ["model.encoder.norm.axis=sequence"],
        ["model.encoder.width=128"],
        ["model.width=9", "model.heads=3", "model.position.kind=learned"],
        ["model.family=lm", "model.vocabulary.source=1"],
        ["model.encoder.position.kind=rope", "model.cross.attention.score=additive"],
        [*IMAGES, "model.attention.kind=window", "model.position.kind=relative-2d"],
        [*IMAGES, *CLASS_TOKEN, "model.position.kind=sinusoidal-2d"],
        [*IMAGES, "model.attention.kind=grid", "model.position.kind=rope"],
        ["model.family=classifier", "model.norm.axis=sequence", "model.pooling=first"],
    ],
)
def test_what_can_work_is_not_refused(overrides: list[str]) -> None:
    assert list(read_recipe(None, *overrides).refusals()) == []


class Peeking(AttentionSpec):
    """A third party's attention that cannot be causal."""

    causal: ClassVar[bool] = False
    kind: Literal["peeking"] = "peeking"


@pytest.fixture
def _peeking() -> Iterator[None]:
    register(Peeking, module="somewhere.else:Peeking")
    yield
    del registry_module._kinds["attention"]["peeking"]


@pytest.mark.usefixtures("_peeking")
def test_a_registered_kind_can_be_named_and_is_refused_where_it_cannot_work() -> None:
    """The registry is open: a third party's kind gets recipes and refusals like any other."""
    assert "peeking" in kinds("attention")
    read_recipe(None, "model.encoder.attention.kind=peeking", "model.cross.attention.kind=peeking")
    with pytest.raises(RecipeError, match="peeking attention mixes positions and would see the future in a decoder"):
        read_recipe(None, "model.attention.kind=peeking")


class Stepless(AttentionSpec):
    """A third party's attention that needs the whole sequence, and knows no relative positions."""

    cached: ClassVar[bool] = False
    kind: Literal["stepless"] = "stepless"


def test_what_a_kind_cannot_do_is_refused() -> None:
    """cached, relative and the size of heads are asked of every kind."""
    register(Stepless, module="somewhere.else:Stepless")
    try:
        read_recipe(None, "model.encoder.attention.kind=stepless")
        for overrides, reason in (
            (["model.decoder.attention.kind=stepless"], "stepless attention cannot decode step by step"),
            (
                ["model.encoder.attention.kind=stepless", "model.encoder.position.kind=rope"],
                "stepless attention does not know rope positions",
            ),
            (
                ["model.encoder.attention.kind=stepless", "model.encoder.heads=5"],
                "heads (5) must divide the width (192)",
            ),
        ):
            with pytest.raises(RecipeError) as caught:
                read_recipe(None, *overrides)
            assert reason in str(caught.value)
    finally:
        del registry_module._kinds["attention"]["stepless"]


def test_register_takes_only_what_can_work() -> None:
    class Nameless(AttentionSpec):
        """No default for its kind."""

    class Undocumented(AttentionSpec):
        kind: Literal["undocumented"] = "undocumented"

    Undocumented.__doc__ = None
    for spec, module, message in (
        (dict, "a:B", "a spec derives from"),
        (Nameless, "a:B", "needs a name"),
        (Undocumented, "a:B", "needs a docstring"),
        (Peeking, "somewhere", 'module reads "package.module:Class"'),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            register(spec, module=module)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_peeking")
def test_a_taken_name_cannot_be_taken_again() -> None:
    class Other(AttentionSpec):
        """Another one."""

        kind: Literal["peeking"] = "peeking"

    with pytest.raises(ValueError, match="attention 'peeking' is registered already"):
        register(Other, module="other:Other")
    register(Peeking, module="somewhere.else:Peeking")  # the same one again does no harm
