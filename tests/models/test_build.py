"""Building from a recipe: sizes, seeds, ties, initialisation, devices."""

import math
import subprocess
import sys
from typing import Any

import pytest
import torch

from clearhead.errors import DeviceError, DoesNotFit
from clearhead.models import build, count_parameters, model_bytes, outline, pick_device, use_cores
from clearhead.recipe import read_recipe

PUBLISHED = {
    "bert-base": 109_482_240,
    "deberta-v3-base": 183_831_552,
    "roberta-base": 124_645_632,
    "gpt2": 124_439_808,
    "bart-base": 139_420_416,
    "t5-small": 60_506_624,
    "vit-b16": 86_567_656,
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_presets_have_the_published_number_of_parameters(preset: str) -> None:
    """Reference: the published counts (facts, section 4); one layer more or less is noticed."""
    with torch.device("meta"):
        model = build_without_weights(preset)
        assert count_parameters(model) == PUBLISHED[preset]
        assert count_parameters(build_without_weights(preset, "model.layers=5")) != PUBLISHED[preset]


def build_without_weights(preset: str, *overrides: str) -> Any:
    """On the meta device nothing is allocated or drawn."""
    from clearhead.recipe import module_of

    recipe = read_recipe(preset, *overrides)
    return module_of(recipe.model).from_spec(recipe.model)


def test_the_original_base_model() -> None:
    """Closed form with V = 37,000, tied three ways, with biases: 63.08 M (facts, section 4)."""
    d, ff, V = 512, 2048, 37_000
    attention, feedforward, norm = 4 * d * d + 4 * d, 2 * d * ff + ff + d, 2 * d
    encoder, decoder = attention + feedforward + 2 * norm, 2 * attention + feedforward + 3 * norm
    with torch.device("meta"):
        assert count_parameters(build_without_weights("transformer-base")) == V * d + 6 * encoder + 6 * decoder


def test_the_recurrent_presets() -> None:
    """Closed forms: a GRU layer has 3(es + s² + 2s) weights, an LSTM 4(…); Bahdanau's and Luong's maps."""

    def layer(gates: int, inputs: int, state: int) -> int:
        return gates * (inputs * state + state * state + 2 * state)

    e, s, V = 620, 1000, 30_000
    memory = 2 * s
    reads = 2 * layer(3, e, s)
    attends = s * s + memory * s + s  # W, U and v
    writes = (
        layer(3, e + memory, s) + (s + e + memory + 1) * 2 * e + (2 * memory + 1) * s
    )  # steps, readout, first state
    words = 2 * V * e + V * e + V
    with torch.device("meta"):
        assert count_parameters(build_without_weights("rnn-bahdanau")) == reads + attends + writes + words
        d, V = 1000, 50_000
        reads, attends = 4 * layer(4, d, d), d * d + 2 * d * d  # general score and W_c
        writes = layer(4, 2 * d, d) + 3 * layer(4, d, d) + (2 * d + 1) * 4 * 2 * d
        assert count_parameters(build_without_weights("rnn-luong")) == reads + attends + writes + 3 * V * d + V


def test_a_seed_makes_the_weights_and_leaves_the_global_state() -> None:
    recipe = read_recipe("small", "model.layers=1")
    before = torch.random.get_rng_state()
    first, second, other = (build(recipe, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    for mine, same, different in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, same)
        if mine.dim() > 1:
            assert not torch.equal(mine, different)


@pytest.mark.parametrize("tie", ["none", "output", "inputs", "all"])
def test_ties(tie: str) -> None:
    model: Any = build(read_recipe("small", "model.layers=1", f"model.embedding.tie={tie}"))
    source, target = model.encoder.embedding.tokens.weight, model.decoder.embedding.tokens.weight
    assert (source is target) == (tie in ("inputs", "all"))
    assert (target is model.output.weight) == (tie in ("output", "all"))


@torch.no_grad()
def test_initialisation() -> None:
    """normal: N(0, std²); xavier: uniform within √(6/(in + out)); depth: residual maps over √sublayers; biases 0."""
    model: Any = build(
        read_recipe("small", "model.init.kind=normal", "model.init.std=0.05", "model.embedding.tie=none")
    )
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            assert float(parameter.std()) == pytest.approx(0.05, rel=0.1), name
        elif "bias" in name:
            assert (parameter == 0).all()
    xavier: Any = build(read_recipe("small"))
    weight = xavier.encoder.layers[0].feedforward.up.weight
    assert float(weight.abs().max()) <= math.sqrt(6 / (256 + 1024))
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / (256 + 1024)), rel=0.05)
    assert float(xavier.encoder.embedding.tokens.weight.std()) == pytest.approx(1 / 16, rel=0.1)
    depth: Any = build(read_recipe("small", "model.init.kind=normal", "model.init.residual=depth"))
    assert float(depth.encoder.layers[0].attention.output.weight.std()) == pytest.approx(0.02 / math.sqrt(6), rel=0.1)
    assert float(depth.decoder.layers[0].feedforward.down.weight.std()) == pytest.approx(0.02 / 3, rel=0.1)
    assert float(depth.encoder.layers[0].attention.query.weight.std()) == pytest.approx(0.02, rel=0.1)
    grid = ["model.family=classifier", "model.attention.kind=axial", "model.patches.height=8", "model.patches.width=8"]
    axial: Any = build(read_recipe(None, *grid, "model.init.kind=normal", "model.init.residual=depth"))
    along, across = (getattr(axial.encoder.layers[0].attention, part).output.weight for part in ("rows", "columns"))
    assert float(along.std()) == pytest.approx(0.02, rel=0.1)
    assert float(across.std()) == pytest.approx(0.02 / math.sqrt(6), rel=0.1)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["xavier", "normal"])
def test_ngrams_say_nothing_before_they_are_seen(kind: str) -> None:
    """A fresh table adds 0, as a dropped row does; with numbers in it, the model reads something else."""
    small = read_recipe("small", "model.layers=1", "model.encoder.ngrams.reach=1", f"model.init.kind={kind}")
    model: Any = build(small, seed=1).eval()
    ngrams, ids = model.encoder.embedding.ngrams, torch.randint(4, 200, (2, 6))
    assert not ngrams(ids).any()
    assert ngrams.project.weight.any()  # else no row would ever have a gradient
    before = model(ids, ids)
    ngrams.table.weight.normal_()
    assert not torch.equal(model(ids, ids), before)


def test_dropout_stands_where_the_recipe_puts_it() -> None:
    """Each place alone makes training outputs random; all at zero, training equals evaluation."""
    ids = torch.randint(4, 200, (2, 6))
    places = ["residual", "embedding", "attention", "activation"]

    def is_random(rates: dict[str, float]) -> bool:
        settings = [f"model.dropout.{place}={rates.get(place, 0.0)}" for place in places]
        model = build(read_recipe("small", "model.layers=1", *settings), seed=1)
        return not torch.equal(model(ids, ids), model(ids, ids))

    assert not is_random({})
    for place in places:
        assert is_random({place: 0.5}), place


def test_a_model_that_does_not_fit_is_named() -> None:
    with pytest.raises(DoesNotFit, match=r"the model needs about .* GiB, but only .* are free: choose a smaller width"):
        build(read_recipe("tiny", "model.width=1000000", "model.heads=1"))


def test_tokens_and_positions_start_at_one_size() -> None:
    """√d times N(0, 1/d) is as large as sinusoids are: neither drowns the other."""
    model: Any = build(read_recipe("small"), seed=1).eval()
    tokens = model.encoder.embedding.tokens.weight * model.encoder.embedding.scale
    positions = model.encoder.embedding.position(torch.arange(50), 50)
    ratio = float((tokens.detach().square().mean() / positions.square().mean()).sqrt())
    assert 0.5 < ratio < 2.5


def test_devices() -> None:
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    assert pick_device("cpu") == torch.device("cpu")
    with pytest.raises(DeviceError, match=r"no device 'cuba'; did you mean cuda\?"):
        pick_device("cuba")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="cuda is not available on this machine"):
            pick_device("cuda:1")


def test_the_memory_of_a_model_is_known_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers tell what a thousand weigh: no module is made for each of them."""
    for words in (["tiny"], ["rnn-luong", "model.width=20"], ["gpt2", "model.width=24", "model.layers=5"], ["vit-b16"]):
        spec = read_recipe(*words).model
        whole = outline(spec)
        tensors = [*whole.parameters(), *whole.buffers()]
        assert model_bytes(spec) == sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    monkeypatch.setattr("clearhead.machine.free_memory", lambda: 1 << 30)
    made, make = [0], torch.nn.Linear.__init__

    def counted(*words: Any, **more: Any) -> None:
        made[0] += 1
        make(*words, **more)

    monkeypatch.setattr(torch.nn.Linear, "__init__", counted)
    with pytest.raises(DoesNotFit, match=r"needs about .* GiB, but only 1\.0 GiB are free"):
        build(read_recipe("tiny", "model.layers=10000"))
    assert 0 < made[0] < 200


def test_torch_runs_the_threads_that_the_process_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own default counts the machine's cores, whatever the container allows."""
    before = torch.get_num_threads()
    try:
        for allowed in (3, 1):
            monkeypatch.setattr("clearhead.models.device.cores", lambda allowed=allowed: allowed)
            use_cores()
            assert torch.get_num_threads() == allowed
    finally:
        torch.set_num_threads(before)


def test_outlines_and_trainers_are_made_without_torchs_compiler() -> None:
    """Importing it takes seconds, which every command that loads a model would pay; names and shapes stay as built."""
    code = (
        "import sys, clearhead.verbs.session; "
        "from clearhead.models import model_bytes; from clearhead.recipe import read_recipe; "
        "names = 'tiny', 'gpt2', 'vit-b16', 'rnn-luong', 'deberta-v3-base';"
        " [model_bytes(read_recipe(name).model) for name in names];"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    made, outlined = build(read_recipe("tiny")), outline(read_recipe("tiny").model)
    assert {name: value.shape for name, value in made.state_dict().items()} == {
        name: value.shape for name, value in outlined.state_dict().items()
    }
