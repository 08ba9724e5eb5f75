"""Llama and its relatives compute what transformers computes: each layer to 1e-5, the same continuations, sizes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from clearhead.attention import heads as head_module
from clearhead.attention import paths
from clearhead.errors import UnsupportedModel
from clearhead.interop import load_huggingface
from clearhead.models import LanguageModel
from tests.interop import references
from tests.interop.test_parity import GENERATE, SOURCE, _Endless, greedy, largest_difference, record

__all__ = ["record"]

SIZES: dict[str, Any] = {
    **{"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 40, "vocab_size": 50, "max_position_embeddings": 64},
}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LONG = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def make(name: str, **settings: Any) -> Any:
    sizes = {key: size for key, size in SIZES.items() if name != "GPTNeoX" or key != "num_key_value_heads"}
    config = getattr(transformers, f"{name}Config")(**(sizes | TOKENS | settings))
    return getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)


def randomised(model: Any) -> Any:
    """Weights from N(0, 0.15²): two maps are multiplied in a gated net."""
    model = references.randomise(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.5)
    return model


DECODERS: dict[str, Callable[[], Any]] = {
    "Llama 2: every head its own keys": partial(make, "Llama", num_key_value_heads=4),
    "Llama 3: grouped queries, slow rotations": partial(
        make,
        "Llama",
        rope_parameters=LONG | {"rope_theta": 500.0, "original_max_position_embeddings": 16},
        tie_word_embeddings=True,
    ),
    "Llama, biases, free head size, linear scaling": partial(
        make,
        "Llama",
        attention_bias=True,
        mlp_bias=True,
        head_dim=10,
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 10_000.0},
    ),
    "Mistral, a window of 3": partial(make, "Mistral", sliding_window=3, head_dim=12),
    "Mistral, no window": partial(make, "Mistral", sliding_window=None, head_dim=12),
    "Qwen2, biases of q, k, v": partial(make, "Qwen2", num_key_value_heads=1, tie_word_embeddings=True),
    "Qwen2, windows in late layers": partial(
        make, "Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1
    ),
    "Qwen3, norms of q and k": partial(make, "Qwen3", head_dim=16),
    "Gemma, multi-query": partial(make, "Gemma", num_key_value_heads=1, head_dim=16),
    "Gemma 2, windows, caps, norms on both sides": partial(
        make,
        "Gemma2",
        head_dim=16,
        sliding_window=3,
        query_pre_attn_scalar=20,
        attn_logit_softcapping=1.0,
        final_logit_softcapping=3.0,
    ),
    "Gemma 3, two rotations": partial(
        make,
        "Gemma3Text",
        head_dim=16,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
        },
    ),
    "Phi, side by side, half of the features turned": partial(make, "Phi", hidden_act="gelu_new"),
    "Phi, norms of q and k": partial(make, "Phi", qk_layernorm=True, num_key_value_heads=4),
    "GPT-NeoX, side by side": partial(make, "GPTNeoX", rotary_pct=0.5),
    "GPT-NeoX, one after the other": partial(make, "GPTNeoX", use_parallel_residual=False, attention_bias=False, rotary_pct=0.5),
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
    record(
        f"{name} (d=48, 3 layers)", largest_difference(model.decoder, theirs.hidden_states, lambda: model(SOURCE))
    )
    prompt = torch.randint(3, 45, (8, 8))
    prompt[::2, :3] = 0
    with torch.no_grad():
        continued = reference.generate(input_ids=prompt, attention_mask=(prompt != 0).long(), **GENERATE)
    ours = greedy(_Endless(model), prompt, model.start(), 20, prompt != 0)
    assert torch.equal(ours, continued)
    assert len(set(ours.flatten().tolist())) > 5, "a constant continuation proves nothing"
