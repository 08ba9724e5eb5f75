"""Reading recipes: levels, spreading, kinds; and errors that say file, line, value, what is allowed, all at once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import ClearheadError, RecipeError
from clearhead.recipe import (
    LanguageModelSpec,
    MultiHeadSpec,
    Recipe,
    Seq2SeqSpec,
    kinds,
    preset_names,
    read_recipe,
    recipe_from,
    recipe_table,
    recipe_toml,
)
from tests.thorough import drawn


def problems(*overrides: str, source: Any = None) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read_recipe(source, *overrides)
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


def model(recipe: Recipe) -> Any:
    assert isinstance(recipe.model, Seq2SeqSpec)
    return recipe.model


def test_nothing_is_needed() -> None:
    assert read_recipe() == Recipe()


def test_shared_settings_reach_every_part() -> None:
    """model.layers, model.width, model.heads, model.attention.kind … stand for all parts that have them."""
    read = model(read_recipe(None, "model.layers=5", "model.width=64", "model.heads=8", "model.attention.choice=hard"))
    assert read.encoder.layers == read.decoder.layers == 5
    assert read.encoder.width == read.decoder.width == 64
    for attention in (read.encoder.attention, read.decoder.attention, read.cross.attention):
        assert isinstance(attention, MultiHeadSpec)
        assert attention.heads == 8
        assert attention.choice == "hard"


def test_a_part_wins_over_what_is_shared() -> None:
    read = model(read_recipe(None, "model.layers=5", "model.encoder.layers=2", "model.cross.heads=1", "model.heads=8"))
    assert (read.encoder.layers, read.decoder.layers) == (2, 5)
    assert (read.encoder.attention.heads, read.cross.attention.heads) == (8, 1)


def test_command_line_over_file_over_preset(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('preset = "tiny"\n[model]\nlayers = 7\nencoder.layers = 3\nheads = 2\n')
    read = model(read_recipe(file))
    assert (read.encoder.layers, read.decoder.layers, read.encoder.attention.heads, read.encoder.width) == (
        3,
        7,
        2,
        128,
    )
    # a shared setting of a higher level wins over a part's setting of a lower one
    read = model(read_recipe(file, "model.layers=9"))
    assert (read.encoder.layers, read.decoder.layers) == (9, 9)


def test_a_new_kind_keeps_what_it_knows_and_drops_the_rest() -> None:
    read = model(read_recipe("tiny", "model.feedforward.kind=single"))  # tiny sets feedforward.width
    assert read.encoder.feedforward.kind == "single"
    # a misspelling is not dropped with it
    (misspelt,) = problems("model.feedforward.widht=3", "model.feedforward.kind=single")
    assert "model.feedforward.widht: no such setting" in misspelt
    read = model(read_recipe("t5-small", "model.norm.kind=layernorm"))
    assert (read.encoder.norm.kind, read.encoder.norm.eps) == ("layernorm", 1e-6)


def test_another_family_keeps_what_it_knows() -> None:
    read = read_recipe("tiny", "model.family=lm").model
    assert isinstance(read, LanguageModelSpec)
    assert (read.decoder.layers, read.decoder.width) == (4, 128)
    resolved = recipe_toml(read_recipe("tiny"))
    assert "[model.encoder]" in resolved


def test_an_empty_table_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('preset = "tiny"\n[model.encoder]\n# layers = 9\n[model.norm]\n')
    assert read_recipe(file) == read_recipe("tiny")
    assert read_recipe("gpt2", "model.decoder={}") == read_recipe("gpt2")


def test_another_family_is_not_refused_for_what_a_preset_says() -> None:
    for preset, family in (("transformer-base", "lm"), ("bart-base", "encoder"), ("gpt2", "lm")):
        assert read_recipe(preset, f"model.family={family}").model.family == family


def test_a_shared_setting_goes_where_it_is_known(tmp_path: Path) -> None:
    """Across levels too: the encoder's net has no width, the decoder's has."""
    file = tmp_path / "mine.toml"
    file.write_text('[model]\nencoder.feedforward.kind = "single"\n')
    read = model(read_recipe(file, "model.feedforward.width=128"))
    assert read.encoder.feedforward.kind == "single"
    assert read.decoder.feedforward.model_dump()["width"] == 128
    assert "no such setting" in problems("model.feedforward.kind=single", "model.feedforward.width=12")[0]


def test_values_are_toml_or_bare_words() -> None:
    read = model(read_recipe(None, "model.norm.place=post", 'model.norm.kind="rmsnorm"', "model.norm.eps=1e-3"))
    assert (read.encoder.norm.place, read.encoder.norm.kind, read.encoder.norm.eps) == ("post", "rmsnorm", 1e-3)
    read = model(read_recipe(None, 'model.feedforward={kind="gated", width=12, activation="silu"}'))
    assert read.decoder.feedforward.model_dump()["width"] == 12


@pytest.mark.parametrize("preset", preset_names())
def test_a_resolved_recipe_reads_back_as_itself(preset: str, tmp_path: Path) -> None:
    recipe = read_recipe(preset)
    file = tmp_path / "resolved.toml"
    file.write_text(recipe_toml(recipe), encoding="utf-8")
    assert read_recipe(file) == recipe
    assert recipe_from(recipe_table(recipe)) == recipe


def test_recipes_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        read_recipe().model.vocabulary.pad = 3  # type: ignore[misc]


# ---- the words of errors ----


def test_an_unknown_setting_shows_the_nearest_spelling() -> None:
    assert problems("model.encoder.layrs=2") == [
        "command line: model.encoder.layrs: no such setting; did you mean layers?"
    ]
    assert problems("model.encoder.zzz=2") == [
        "command line: model.encoder.zzz: no such setting "
        "(there are: kind, width, layers, dropout, position, norm, residual, attention, feedforward, parallel, "
        "shared, ngrams, heads)"
    ]
    assert problems("model.encoder.haeds=2")[0].endswith("did you mean heads?")
    assert problems("model.atention.heads=2")[0].startswith("command line: model.atention.heads: no such setting; did")
    assert "did you mean layers?" in problems("model.layrs=2")[0]
    assert "did you mean model?" in problems("modle.layers=2")[0]


def test_an_unknown_kind_shows_what_there_is() -> None:
    found = problems("model.position.kind=sinusodial")
    assert found == [
        'command line: model.position.kind = "sinusodial": no such position; did you mean sinusoidal? '
        f"(there are: {', '.join(kinds('position'))})"
    ]
    assert 'model.family = "seqtoseq": no such family; did you mean seq2seq?' in problems("model.family=seqtoseq")[0]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.layers=six", 'model.layers = "six": must be a whole number ≥ 1'),
        ("model.layers=0", "model.layers = 0: must be a whole number ≥ 1 and ≤ 10000"),
        ("model.layers=2.5", "model.layers = 2.5: must be a whole number ≥ 1"),
        ("model.layers=true", "model.layers = true: must be a whole number ≥ 1"),
        ("model.norm.place=mid", 'model.norm.place = "mid": must be pre or post or both'),
        ("model.norm.final=maybe", 'model.norm.final = "maybe": must be true or false'),
        ("model.dropout.residual=1", "model.dropout.residual = 1: must be a number ≥ 0 and < 1"),
        ("model.dropout.residual=nan", "model.dropout.residual = nan: must be a number ≥ 0 and < 1"),
        ("model.attention.scale=-1", "model.attention.scale = -1: must be sqrt or dim or none or a number > 0"),
        ("model.attention=3", "model.attention = 3: must be a table of settings: for instance model.attention.heads=…"),
        ("model.position=rope", 'model.position = "rope": must be a table of settings: write model.position.kind=rope'),
        ("model.layers=" + "9" * 5000, "must be a whole number ≥ 1"),
        ("model.layers.x=3", "command line: model.layers: must be a whole number ≥ 1"),
        ("model.vocabulary.pad=-1", "model.vocabulary.pad = -1: must be a whole number ≥ 0"),
        (
            'model.position={kind="t5", buckets=7}',
            "model.position.buckets = 7: must be a whole number ≥ 4 and ≤ 1000000 and a multiple of 2",
        ),
    ],
)
def test_a_wrong_value_shows_what_is_allowed(override: str, message: str) -> None:
    found = problems(override)
    assert len(found) == 1
    assert message in found[0]


def test_all_problems_at_once_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(
        '# a recipe\n[model]\nlayers = "six"\nwidht = 3\n\n[model.encoder.norm]\nplace = "mid"\neps = -1\n',
    )
    assert problems(source=file) == [
        f'{file}, line 3: model.layers = "six": must be a whole number ≥ 1 and ≤ 10000',
        f"{file}, line 4: model.widht: no such setting; did you mean width?",
        f'{file}, line 7: model.encoder.norm.place = "mid": must be pre or post or both',
        f"{file}, line 8: model.encoder.norm.eps = -1: must be a number ≥ 0 and ≤ 1",
    ]


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    bad, latin, empty = tmp_path / "bad.toml", tmp_path / "latin.toml", tmp_path / "empty.toml"
    bad.write_text("[model\nlayers = 3\n")
    latin.write_bytes(b"# caf\xe9\n")
    empty.write_text("")
    assert "is not valid TOML" in problems(source=bad)[0]
    assert "line 1" in problems(source=bad)[0]
    assert problems(source=latin) == [f"{latin}: is not UTF-8 (byte 5)"]
    assert read_recipe(empty) == Recipe()
    bom = tmp_path / "bom.toml"
    bom.write_bytes(b"\xef\xbb\xbf[model]\r\nlayers = 2\r\n")
    assert model(read_recipe(bom)).encoder.layers == 2


def test_names_that_are_nothing() -> None:
    assert problems(source="tyny")[0].startswith('"tyny": no such file or preset; did you mean tiny? (presets: ')
    assert problems("zzz=3") == ["command line: zzz=3: an override reads section.key=value"]
    assert problems("layers=3")[0].endswith("an override reads section.key=value; did you mean model.layers=3?")
    assert problems(source="nowhere.toml") == ["nowhere.toml: no such file"]
    assert "is a folder, not a recipe" in problems(source=Path())[0]
    assert "no such file or preset" in problems(source="x" * 5000)[0]
    assert problems(source="TINY")[0].startswith('"TINY": no such file or preset; did you mean tiny?')
    assert read_recipe(Path("tiny")) == read_recipe("tiny")
    assert problems("model.layers")[0] == "command line: model.layers: an override reads section.key=value"


def test_a_wrong_preset_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('\npreset = "tinny"\n')
    assert problems(source=file)[0].startswith(f"{file}, line 2: preset: no preset 'tinny'; did you mean tiny?")


def test_reading_recipes_imports_no_torch() -> None:
    code = "import sys, clearhead.recipe as r; r.read_recipe('t5-small'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- fuzz ----

words = st.sampled_from(
    [
        "model",
        "encoder",
        "decoder",
        "cross",
        "attention",
        "kind",
        "layers",
        "width",
        "heads",
        "norm",
        "position",
        "vocabulary",
        "family",
        "pad",
        "feedforward",
        "scale",
        "x",
        "=",
        "é",
        "0",
        "",
    ]
)
values = st.one_of(
    st.integers(-5, 300).map(str),
    st.floats().map(str),
    st.text(max_size=8),
    st.sampled_from(
        ["true", "[]", "{}", "{kind=1}", '{kind="rope"}', "multihead", "lm", "classifier", '"', "\n", "[1"]
    ),
)


@given(st.lists(st.tuples(st.lists(words, min_size=1, max_size=5), values), max_size=6))
@drawn(150, 5000)
def test_overrides_only_ever_raise_our_errors(pairs: list[tuple[list[str], str]]) -> None:
    """Fuzz: whatever is typed, a recipe or a RecipeError comes out, and a recipe reads back as itself."""
    try:
        recipe = read_recipe(None, *(".".join(key) + "=" + value for key, value in pairs))
    except ClearheadError as error:
        assert str(error)
        return
    assert recipe_from(recipe_table(recipe)) == recipe


@given(st.recursive(values | st.integers() | st.none(), lambda inner: st.dictionaries(words, inner, max_size=4)))
@drawn(150, 5000)
def test_tables_only_ever_raise_our_errors(table: Any) -> None:
    """Fuzz: nested tables, as they could stand in a damaged model file."""
    if not isinstance(table, dict):
        return
    try:
        recipe_from(table)
    except ClearheadError as error:
        assert str(error)


@given(st.text(max_size=200))
@drawn(150, 5000)
def test_texts_only_ever_raise_our_errors(text: str) -> None:
    """Fuzz: a file of anything."""
    from clearhead.recipe.sources import settings_of_text

    try:
        settings_of_text("[model]\nlayers = 3\n" + text, "fuzz.toml")
    except ClearheadError as error:
        assert "fuzz.toml" in str(error)
