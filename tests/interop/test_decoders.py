"""Llama and its relatives compute what transformers computes: each layer to 1e-5, the same continuations, sizes."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.attention import Heads, for_every_head
from clearhead.costing import cost
from clearhead.errors import UnsupportedModel
from clearhead.interop import load_huggingface
from clearhead.interop.huggingface import PLANS
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights
from clearhead.models import LanguageModel, build
from clearhead.positions.relative import slow_by_place, slow_long_waves
from clearhead.recipe import read_recipe, recipe_from
from tests.interop import references
from tests.interop.test_parity import GENERATE, SOURCE, _Endless, greedy, largest_difference, record

__all__ = ["record"]

LONG = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

LINEAR = {"rope_type": "linear", "factor": 8.0}


def randomised(model: Any) -> Any:
    """Weights from N(0, 0.15²): two maps are multiplied in a gated net."""
    model = references.randomise(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.5)
    return model


DECODERS: dict[str, Callable[[], Any]] = {
    "Llama 2: every head its own keys": partial(references.causal, "Llama", num_key_value_heads=4),
    "Llama 3: grouped queries, slow rotations": partial(
        references.causal,
        "Llama",
        rope_parameters=LONG | {"rope_theta": 500.0, "original_max_position_embeddings": 16},
        tie_word_embeddings=True,
    ),
    "Llama, biases, free head size, linear scaling": partial(
        references.causal,
        "Llama",
        attention_bias=True,
        mlp_bias=True,
        head_dim=10,
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 10_000.0},
    ),
    "Mistral, a window of 3": partial(references.causal, "Mistral", sliding_window=3, head_dim=12),
    "Mistral, no window": partial(references.causal, "Mistral", sliding_window=None, head_dim=12),
    "Llama, YaRN": partial(references.causal, "Llama", rope_parameters=references.YARN),
    "Qwen2, YaRN with bounds of its own": partial(
        references.causal,
        "Qwen2",
        rope_parameters=references.YARN
        | {"beta_fast": 6.0, "beta_slow": 2.0, "truncate": False, "attention_factor": 1.7},
    ),
    "Qwen3, YaRN with two magnitudes": partial(
        references.causal,
        "Qwen3",
        head_dim=16,
        rope_parameters=references.YARN | {"mscale": 3.0, "mscale_all_dim": 0.5},
    ),
    "Phi, YaRN on half of the features": partial(
        references.causal, "Phi", rope_parameters=references.YARN | {"partial_rotary_factor": 0.5}
    ),
    "Qwen2, biases of q, k, v": partial(references.causal, "Qwen2", num_key_value_heads=1, tie_word_embeddings=True),
    "Qwen2, windows in late layers": partial(
        references.causal, "Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1
    ),
    "Qwen3, norms of q and k": partial(references.causal, "Qwen3", head_dim=16),
    "Gemma, multi-query": partial(references.causal, "Gemma", num_key_value_heads=1, head_dim=16),
    "Gemma 2, windows, caps, norms on both sides": partial(
        references.causal,
        "Gemma2",
        head_dim=16,
        sliding_window=3,
        query_pre_attn_scalar=20,
        attn_logit_softcapping=1.0,
        final_logit_softcapping=3.0,
    ),
    "Gemma 3, two rotations": partial(
        references.causal,
        "Gemma3Text",
        head_dim=16,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
        },
    ),
    "Gemma 3, slow rotations where all is seen": partial(
        references.causal,
        "Gemma3Text",
        head_dim=16,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": LINEAR | {"rope_theta": 100.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    ),
    "Phi, side by side, half of the features turned": partial(references.causal, "Phi", hidden_act="gelu_new"),
    "Phi, norms of q and k": partial(references.causal, "Phi", qk_layernorm=True, num_key_value_heads=4),
    "GPT-NeoX, side by side": partial(references.causal, "GPTNeoX", rotary_pct=0.5),
    "GPT-NeoX, one after the other": partial(
        references.causal, "GPTNeoX", use_parallel_residual=False, attention_bias=False, rotary_pct=0.5
    ),
}


def imported(name: str, folder: Path) -> tuple[Any, LanguageModel]:
    reference = randomised(DECODERS[name]())
    model = load_huggingface(references.save(reference, folder)).model
    assert isinstance(model, LanguageModel)
    return reference, model


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_agree_layer_by_layer_and_continue_alike(
    name: str, tmp_path: Path, record: Callable[[str, float], None]
) -> None:
    """References: transformers' causal models and their generate, with a cache and padding at the left."""
    reference, model = imported(name, tmp_path)
    with torch.no_grad():
        theirs = reference(input_ids=SOURCE, output_hidden_states=True)
        logits = model(SOURCE)
    torch.testing.assert_close(logits, theirs.logits, atol=1e-4, rtol=1e-5)
    record(f"{name} (d=48, 3 layers)", largest_difference(model.decoder, theirs.hidden_states, lambda: model(SOURCE)))
    prompt = torch.randint(3, 45, (8, 8))
    prompt[::2, :3] = 0
    with torch.no_grad():
        continued = reference.generate(input_ids=prompt, attention_mask=(prompt != 0).long(), **GENERATE)
    ours = greedy(_Endless(model), prompt, model.start(), 20, prompt != 0)
    assert torch.equal(ours, continued)
    assert len(set(ours.flatten().tolist())) > 5, "a constant continuation proves nothing"


def _repeated_in_turn(shared: Tensor, heads: int) -> Tensor:
    """The wrong order: head i has the keys of group i mod g."""
    return shared.repeat(1, heads // shared.shape[1], 1, 1)


def _set(attribute: str, value: Any) -> Callable[[Any], None]:
    """Give an attribute of every layer another value: ``attention.cap``."""

    def change(model: Any) -> None:
        *path, last = attribute.split(".")
        for layer in model.decoder.layers:
            setattr(layer.get_submodule(".".join(path)), last, value)

    return change


def _wider(model: Any) -> None:
    for layer in model.decoder.layers:
        if hasattr(layer.attention, "window"):
            layer.attention.window += 1


def _all_turned(model: Any) -> None:
    model.decoder.scheme.features, model.decoder.scheme.rotates_all = 12, True


def _in_turn(model: Any) -> None:
    for layer in model.decoder.layers:
        attention = layer.attention
        attention.path = "explicit"
        mix = attention.mix
        attention.mix = lambda query, keys, values, context, mix=mix, h=attention.heads: mix(
            query, _repeated_in_turn(keys, h), _repeated_in_turn(values, h), context
        )


def _no_head_norms(model: Any) -> None:
    for layer in model.decoder.layers:
        layer.attention.query_norm = layer.attention.key_norm = None


def _late_head_norms(model: Any) -> None:
    for layer in model.decoder.layers:
        attention = layer.attention
        norms, mix = (attention.query_norm, attention.key_norm), attention.mix
        attention.query_norm = attention.key_norm = None
        attention.mix = lambda query, keys, *rest, mix=mix, norms=norms: mix(norms[0](query), norms[1](keys), *rest)


def _blended_by_waves(model: Any) -> None:
    scheme = model.decoder.scheme
    scheme.slow = partial(slow_long_waves, *scheme.slow.args)


def _rounded(model: Any) -> None:
    scheme = model.decoder.scheme
    scheme.slow = partial(slow_by_place, scheme.slow.args[0].replaced(rounded=True))


GEMMA2 = "Gemma 2, windows, caps, norms on both sides"
LLAMA3, PHI = "Llama 3: grouped queries, slow rotations", "Phi, side by side, half of the features turned"
WRONG: dict[str, tuple[str, Callable[[Any], None]]] = {
    "groups in turn": (LLAMA3, _in_turn),
    "rotations not slowed down": (LLAMA3, lambda model: setattr(model.decoder.scheme, "slow", None)),
    "YaRN without its magnitude": ("Llama, YaRN", lambda model: setattr(model.decoder.scheme, "magnitude", 1.0)),
    "YaRN's blend as in Llama 3": ("Llama, YaRN", _blended_by_waves),
    "bounds rounded": ("Qwen2, YaRN with bounds of its own", _rounded),
    "windows slowed down, too": ("Gemma 3, slow rotations where all is seen", _set("scheme", None)),
    "window off by one": ("Mistral, a window of 3", _wider),
    "window among whole layers off by one": (GEMMA2, _wider),
    "norms of q and k left out": ("Qwen3, norms of q and k", _no_head_norms),
    "norms of q and k after the rotation": ("Qwen3, norms of q and k", _late_head_norms),
    "cap of scores left out": (GEMMA2, _set("attention.cap", None)),
    "cap of logits left out": (GEMMA2, lambda model: setattr(model.output, "cap", None)),
    "norm after the sublayer left out": (GEMMA2, _set("around_attention.after", None)),
    "rotations of one speed": ("Gemma 3, two rotations", _set("scheme", None)),
    "all features turned": (PHI, _all_turned),
    "net after attention": (PHI, _set("parallel", False)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_parity_rejects_wrong_decoders(wrong: str, tmp_path: Path) -> None:
    """Each small mistake moves the logits far more than the tolerance."""
    name, change = WRONG[wrong]
    reference, model = imported(name, tmp_path)
    with torch.no_grad():
        theirs = reference(input_ids=SOURCE).logits
        assert float((model(SOURCE) - theirs).abs().max()) < 1e-4
        change(model)
        assert float((model(SOURCE) - theirs).abs().max()) > 1e-2


def test_neighbouring_heads_share_keys() -> None:
    """Head i has the keys of group ⌊i·g/h⌋: interleaved, not in turn."""
    groups = torch.arange(2.0).view(1, 2, 1, 1)
    assert for_every_head(groups, 6).flatten().tolist() == [0, 0, 0, 1, 1, 1]
    assert _repeated_in_turn(groups, 6).flatten().tolist() == [0, 1, 0, 1, 0, 1]


PUBLISHED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Llama-2-7B": (
        "llama",
        6_738_415_616,
        {
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "vocab_size": 32000,
            "rms_norm_eps": 1e-05,
        },
    ),
    "Llama-3-8B": (
        "llama",
        8_030_261_248,
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "bos_token_id": 128000,
            "eos_token_id": 128001,
            "rope_theta": 500000.0,
        },
    ),
    "Mistral-7B": (
        "mistral",
        7_241_732_096,
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
            "sliding_window": 4096,
        },
    ),
    "Qwen2-0.5B": (
        "qwen2",
        494_032_768,
        {
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
            "max_window_layers": 24,
            "use_sliding_window": False,
            "sliding_window": 131072,
        },
    ),
    "Qwen3-0.6B": (
        "qwen3",
        596_049_920,
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
        },
    ),
    "Gemma-2B": (
        "gemma",
        2_506_172_416,
        {
            "hidden_size": 2048,
            "intermediate_size": 16384,
            "num_hidden_layers": 18,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "vocab_size": 256000,
            "hidden_act": "gelu",
        },
    ),
    "Gemma-2-2B": (
        "gemma2",
        2_614_341_888,
        {
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "vocab_size": 256000,
        },
    ),
    "Gemma-3-1B": (
        "gemma3_text",
        999_885_952,
        {
            "hidden_size": 1152,
            "intermediate_size": 6912,
            "num_hidden_layers": 26,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "vocab_size": 262144,
            "sliding_window": 512,
        },
    ),
    "Phi-2": (
        "phi",
        2_779_683_840,
        {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "vocab_size": 51200,
            "partial_rotary_factor": 0.4,
            "bos_token_id": 50256,
            "eos_token_id": 50256,
        },
    ),
    "Pythia-70M": (
        "gpt_neox",
        70_426_624,
        {
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
            "vocab_size": 50304,
        },
    ),
    "NLLB-200-600M": (
        "m2m_100",
        615_073_792,
        {
            "d_model": 1024,
            "encoder_layers": 12,
            "decoder_layers": 12,
            "encoder_attention_heads": 16,
            "decoder_attention_heads": 16,
            "encoder_ffn_dim": 4096,
            "decoder_ffn_dim": 4096,
            "vocab_size": 256206,
        },
    ),
}
"""The ``model_type``, the parameters and the settings of models as they were published."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_cost_knows_the_published_sizes(name: str) -> None:
    """References: the parameters that transformers counts, which are those of the published weights."""
    kind, parameters, settings = PUBLISHED[name]
    plan = PLANS[kind](ForeignConfig(settings, Path("config.json")), ForeignWeights({}, Path()))
    assert cost(recipe_from({"model": plan.model}, name=name)).parameters.at() == parameters


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("Llama", {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "lacks original_max_position_embeddings"),
        ("Llama", {"rope_parameters": references.YARN | {"beta_fast": "x"}}, "beta_fast = 'x' should be a number"),
        ("Llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "depend on the length of the whole text"),
        ("Qwen2", {"rope_scaling": {"rope_type": "longrope"}}, "change once a text is longer than the original ones"),
        ("Llama", {"rope_parameters": {"rope_type": ["yarn"]}}, "is not supported"),
        ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "twist": 2}}, "twist"),
        ("Llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not supported"),
        ("Gemma2", {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ("Gemma3Text", {"rope_parameters": {"sliding_attention": LINEAR}}, "'linear' of sliding_attention"),
        ("Gemma3Text", {"rope_parameters": LINEAR}, "should be two tables"),
        ("Llama", {"rope_parameters": LINEAR | {"factor": None}}, "factor = None should be a number"),
        ("Llama", {"rope_parameters": {"rope_theta": "x"}}, "rope_theta = 'x' should be a number"),
        ("Llama", {"rope_parameters": {"partial_rotary_factor": "x"}}, "partial_rotary_factor = 'x' should be a"),
        ("Llama", {"rope_parameters": LONG | {"low_freq_factor": "x"}}, "lacks original_max_position_embeddings"),
        (
            "Llama",
            {"rope_parameters": LONG | {"low_freq_factor": "x", "original_max_position_embeddings": 16}},
            "low_freq_factor = 'x' should be a number",
        ),
        ("Llama", {"num_attention_heads": 0}, "num_attention_heads = 0 should be above 0"),
        ("Phi", {"num_attention_heads": 0}, "num_attention_heads = 0 should be above 0"),
        ("Gemma3Text", {"sliding_window_pattern": 0}, "sliding_window_pattern = 0 should be above 0"),
        ("Gemma2", {"query_pre_attn_scalar": -1}, "query_pre_attn_scalar = -1 should be above 0"),
        ("Llama", {"pretraining_tp": 2}, "pretraining_tp"),
        ("Llama", {"residual_multiplier": 2.0}, "residual_multiplier"),
        ("Gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("Qwen2", {"layer_types": ["full_attention", "chunked_attention", "full_attention"]}, "chunked_attention"),
    ],
)
def test_settings_that_are_not_understood_are_errors(
    name: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """Written into the folder by hand, as transformers may refuse or change them."""
    references.save(references.causal(name), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(UnsupportedModel, match=reason):
        load_huggingface(tmp_path)


def test_null_is_not_the_same_as_absent() -> None:
    """References: MistralConfig() and MistralConfig(sliding_window=None, num_key_value_heads=None)."""

    def attention(kind: str, **settings: Any) -> dict[str, Any]:
        found: dict[str, Any] = PLANS[kind](
            ForeignConfig(settings, Path("config.json")), ForeignWeights({}, Path())
        ).model["attention"]
        return found

    absent, null = attention("mistral"), attention("mistral", sliding_window=None, num_key_value_heads=None)
    assert (absent["kind"], absent["window"], absent["kv_heads"]) == ("local", 4096, 8)
    assert not {"kind", "window", "kv_heads"} & null.keys()
    assert attention("qwen2", use_sliding_window=True, max_window_layers=4)["window"] == 4096
    assert "window" not in attention("qwen2", max_window_layers=4)


@pytest.mark.parametrize("kind", ["multihead", "local"])
@pytest.mark.parametrize("position", ["none", "rope", "alibi", "shaw", "t5"])
def test_shared_keys_are_repeated_keys_on_every_path(kind: str, position: str) -> None:
    """Grouped queries against a model whose keys and values are written out for every head; a smaller cache."""
    settings = ["model.family=lm", "model.layers=2", "model.width=16", "model.vocabulary.target=40"]
    settings += [f"model.attention.kind={kind}", f"model.position.kind={position}", "model.heads=4"]
    grouped: Any = build(read_recipe(None, *settings, "model.attention.kv_heads=2"), seed=3).eval()
    whole: Any = build(read_recipe(None, *settings), seed=4).eval()
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            given = grouped.get_parameter(name)
            if given.shape != parameter.shape:
                given = given.unflatten(0, (2, 4)).repeat_interleave(2, dim=0).flatten(0, 1)
            parameter.copy_(given)
    ids = torch.randint(4, 40, (3, 40))
    for path in ("auto", "explicit", "fused"):
        for model in (grouped, whole):
            for part in model.modules():
                if isinstance(part, Heads):
                    part.path = path
        expected, state = whole(ids), grouped.start()
        torch.testing.assert_close(grouped(ids), expected, atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            grouped.step(ids[:, :39], state)
            torch.testing.assert_close(grouped.step(ids[:, 39:], state), expected[:, -1], atol=1e-5, rtol=1e-5)
        held = min(40, getattr(grouped.spec.decoder.attention, "window", 40))  # a window forgets what is before it
        assert state.cache.nbytes == 2 * 3 * 2 * (4 + 4) * held * 4  # layers, lines, groups, features, tokens, bytes
