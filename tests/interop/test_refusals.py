"""Foreign folders that cannot be read exactly are refused with the reason; published ones are understood whole."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from clearhead.errors import ClearheadError, DataError, UnsupportedModel
from clearhead.interop import import_huggingface, load_huggingface
from clearhead.interop.huggingface import PLANS
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights
from clearhead.models import count_parameters
from clearhead.positions import sinusoids
from clearhead.recipe import Seq2SeqSpec, TransformerSpec, module_of, read_recipe, recipe_from
from tests.interop import references
from tests.interop.references import transformers

# config.json files as they were published, older keys included
OPUS_MT: dict[str, Any] = {
    **{"_name_or_path": "opus-mt-en-de", "_num_labels": 3, "activation_dropout": 0.0, "activation_function": "swish"},
    **{"add_bias_logits": False, "add_final_layer_norm": False, "architectures": ["MarianMTModel"]},
    **{"attention_dropout": 0.0, "bad_words_ids": [[58100]], "bos_token_id": 0, "classif_dropout": 0.0},
    **{"classifier_dropout": 0.0, "d_model": 512, "decoder_attention_heads": 8, "decoder_ffn_dim": 2048},
    **{"decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_start_token_id": 58100, "decoder_vocab_size": 58101},
    **{"dropout": 0.1, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0},
    **{"encoder_layers": 6, "eos_token_id": 0, "forced_eos_token_id": 0, "gradient_checkpointing": False},
    **{"id2label": {"0": "LABEL_0"}, "init_std": 0.02, "is_encoder_decoder": True, "label2id": {"LABEL_0": 0}},
    **{"max_length": 512, "max_position_embeddings": 512, "model_type": "marian", "normalize_before": False},
    **{"normalize_embedding": False, "num_beams": 6, "num_hidden_layers": 6, "pad_token_id": 58100},
    **{"scale_embedding": True, "share_encoder_decoder_embeddings": True, "static_position_embeddings": True},
    **{"transformers_version": "4.22.0", "use_cache": True, "vocab_size": 58101},
}
BART_BASE: dict[str, Any] = {
    **{"_num_labels": 3, "activation_dropout": 0.1, "activation_function": "gelu", "add_bias_logits": False},
    **{"add_final_layer_norm": False, "architectures": ["BartModel"], "attention_dropout": 0.1, "bos_token_id": 0},
    **{"classif_dropout": 0.1, "classifier_dropout": 0.0, "d_model": 768, "decoder_attention_heads": 12},
    **{"decoder_ffn_dim": 3072, "decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_start_token_id": 2},
    **{"dropout": 0.1, "early_stopping": True, "encoder_attention_heads": 12, "encoder_ffn_dim": 3072},
    **{"encoder_layerdrop": 0.0, "encoder_layers": 6, "eos_token_id": 2, "forced_bos_token_id": 0},
    **{"forced_eos_token_id": 2, "gradient_checkpointing": False, "init_std": 0.02, "is_encoder_decoder": True},
    **{"max_position_embeddings": 1024, "model_type": "bart", "no_repeat_ngram_size": 3, "normalize_before": False},
    **{"normalize_embedding": True, "num_beams": 4, "num_hidden_layers": 6, "pad_token_id": 1},
    **{"scale_embedding": False, "task_specific_params": {}, "torch_dtype": "float32", "vocab_size": 50265},
}
BERT_BASE: dict[str, Any] = {
    **{"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False},
    **{"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02},
    **{"intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert"},
    **{"num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute"},
    **{"transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522},
}
GPT2: dict[str, Any] = {
    **{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1},
    **{"bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02},
    **{"layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12},
    **{"n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1},
    **{"summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True},
    **{"task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257},
}


BLOOM_560M: dict[str, Any] = {
    **{"apply_residual_connection_post_layernorm": False, "architectures": ["BloomModel"], "attention_dropout": 0.0},
    **{"attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "bos_token_id": 1, "eos_token_id": 2},
    **{"hidden_dropout": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True},
    **{"model_type": "bloom", "n_embed": 1024, "n_inner": None, "n_layer": 24, "num_attention_heads": 16},
    **{"offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1, "skip_bias_add": True, "skip_bias_add_qkv": False},
    **{"slow_but_exact": False, "unk_token_id": 0, "vocab_size": 250880},
}
T5_SMALL: dict[str, Any] = {
    **{"architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512},
    **{"decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0},
    **{"is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512},
    **{"num_heads": 8, "num_layers": 6, "output_past": True, "pad_token_id": 0},
    **{"relative_attention_num_buckets": 32, "task_specific_params": {}, "vocab_size": 32128},
}


VIT_BASE: dict[str, Any] = {
    **{"_name_or_path": "google/vit-base-patch16-224", "architectures": ["ViTForImageClassification"]},
    **{"attention_probs_dropout_prob": 0.0, "encoder_stride": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.0},
    **{"hidden_size": 768, "id2label": {"0": "tench"}, "image_size": 224, "initializer_range": 0.02},
    **{"intermediate_size": 3072, "label2id": {"tench": 0}, "layer_norm_eps": 1e-12, "model_type": "vit"},
    **{"num_attention_heads": 12, "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": True},
    **{"torch_dtype": "float32", "transformers_version": "4.13.0.dev0"},
}


def plan(config: dict[str, Any], names: tuple[str, ...] = ()) -> Any:
    """The recipe that a configuration stands for, without any weights."""
    foreign = ForeignConfig(config, Path("config.json"))
    kind = foreign.take("model_type", "")
    weights = ForeignWeights(dict.fromkeys(names, torch.zeros(1)), Path())
    planned = PLANS[kind](foreign, weights)
    foreign.finish()
    return recipe_from({"model": planned.model})


def test_published_configurations_are_understood_whole() -> None:
    """Every key of these real files is known; the presets of the same names agree with them."""
    marian = plan(OPUS_MT, ("final_logits_bias",)).model
    assert isinstance(marian, Seq2SeqSpec)
    assert isinstance(marian.encoder, TransformerSpec)
    assert marian.encoder.feedforward.activation == "silu"
    assert marian.embedding.scale == "sqrt"
    assert marian.embedding.output_bias
    assert marian.vocabulary.first == marian.vocabulary.pad == 58100
    for config, preset, names in (
        (BART_BASE, "bart-base", ()),
        (BERT_BASE, "bert-base", ("pooler.dense.weight",)),
        (GPT2, "gpt2", ()),
        (T5_SMALL, "t5-small", ()),
    ):
        mine, theirs = read_recipe(preset).model, plan(config, names).model
        assert mine.model_dump(exclude={"vocabulary"}) == theirs.model_dump(exclude={"vocabulary"})
        # config.json does not say which tokens are unknown, nor which begin and end a line of BERT
        for name in (*mine.sides, "pad", "start"):
            assert getattr(mine.vocabulary, name) == getattr(theirs.vocabulary, name)


def test_the_published_bloom_has_its_number_of_parameters() -> None:
    """Old names of sizes and today's; reference: the 559,214,592 parameters of bloom-560m."""
    names = {"hidden_size": BLOOM_560M["n_embed"], "n_head": BLOOM_560M["num_attention_heads"]}
    today = {key: value for key, value in BLOOM_560M.items() if key not in ("n_embed", "num_attention_heads")}
    old, new = plan(BLOOM_560M).model, plan(today | names).model
    assert old == new
    with torch.device("meta"):
        model: Any = module_of(old).from_spec(old)
    assert count_parameters(model) == 559_214_592


def test_the_published_vit_is_the_preset() -> None:
    """Its configuration as published, old keys included; the head's rows say how many classes there are."""
    foreign = ForeignConfig(VIT_BASE | {"model_type": None}, Path("config.json"))
    weights = ForeignWeights({"vit.classifier.weight": torch.zeros(1000, 1)}, Path())
    theirs = recipe_from({"model": PLANS["vit"](foreign, weights).model}).model
    assert read_recipe("vit-b16").model == theirs


@pytest.mark.parametrize(
    ("base", "change", "message"),
    [
        (OPUS_MT, {"normalize_before": True}, "normalize_before = True is not supported (supported: False)"),
        (OPUS_MT, {"activation_function": "tanh"}, "activation_function = 'tanh' is not supported (supported: relu"),
        (OPUS_MT, {"static_position_embeddings": False}, "static_position_embeddings = False is not supported"),
        (BLOOM_560M, {"slow_but_exact": True}, "slow_but_exact = True is not supported"),
        (BART_BASE, {"encoder_layerdrop": 0.1}, "encoder_layerdrop = 0.1 is not supported"),
        (BART_BASE, {"a_new_trick": 7}, "clearhead does not know the settings: a_new_trick = 7"),
        (BART_BASE, {"quantization_config": {"bits": 4}}, "quantization_config = {'bits': 4} is not supported"),
        (BART_BASE, {"eos_token_id": ["a", 3]}, "eos_token_id = a: only a single id is supported"),
        (BART_BASE, {"pad_token_id": [2, 3]}, "pad_token_id = [2, 3]: only a single id is supported"),
        (BERT_BASE, {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key' is not"),
        (BERT_BASE, {"is_decoder": True}, "is_decoder = True is not supported"),
        (BERT_BASE, {"pruned_heads": {"0": [1]}}, "pruned_heads = {'0': [1]} is not supported"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True is not supported"),
        (OPUS_MT, {"num_hidden_layers": 5}, "num_hidden_layers = 5 is not supported (supported: 6)"),
        (T5_SMALL, {"dense_act_fn": "silu"}, "dense_act_fn = 'silu' is not supported (supported: 'relu')"),
        (T5_SMALL, {"feed_forward_proj": "gated-tanh"}, "feed_forward_proj = 'gated-tanh' is not supported"),
        (VIT_BASE, {"qkv_bias": False}, "qkv_bias = False is not supported (supported: True)"),
        (VIT_BASE, {"patch_size": [16, 8]}, "patch_size = [16, 8]: patches must be square"),
        (VIT_BASE, {"patch_size": 15}, "patch_size = 15: must divide the image's height (224) and width (224)"),
        (VIT_BASE, {"patch_size": 0}, "patch_size = 0: must divide"),
        (VIT_BASE, {"image_size": "large"}, "image_size = 'large' should be one whole number, or two"),
        (VIT_BASE, {"image_size": [1, 2, 3]}, "image_size = [1, 2, 3] should be one whole number, or two"),
        (VIT_BASE, {"pooler_act": "relu"}, "pooler_act = 'relu' is not supported (supported: 'tanh')"),
        (GPT2, {"add_cross_attention": True}, "add_cross_attention = True is not supported"),
    ],
)
def test_an_unsupported_setting_is_an_error(base: dict[str, Any], change: dict[str, Any], message: str) -> None:
    """Never ignored: each of these would change what the model computes."""
    with pytest.raises(UnsupportedModel) as caught:
        plan(base | change)
    assert message in str(caught.value)


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return references.save(references.gpt2(), tmp_path / "gpt2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("transformer.ln_f.weight"), "has no weight ln_f.weight"),
        (lambda t: t.update({"transformer.h.0.adapter": torch.zeros(3)}), "has no place for 1 weights: h.0.adapter"),
        (lambda t: t.update({"transformer.ln_f.weight": torch.zeros(3)}), "ln_f.weight has shape (3,)"),
        (lambda t: t.update({"lm_head.weight": torch.zeros(50, 48)}), "lm_head.weight should be tied to wte.weight"),
    ],
)
def test_weights_must_all_find_their_place(folder: Path, change: Callable[..., None], message: str) -> None:
    edit_weights(folder, change)
    with pytest.raises(UnsupportedModel) as caught:
        load_huggingface(folder)
    assert message in str(caught.value)


def test_of_several_end_tokens_the_first_is_kept(folder: Path) -> None:
    """Llama 3's config.json lists several, and its generation_config.json the same ones: that is said once."""
    edit_config(folder, eos_token_id=[1, 7])
    for _ in range(2):
        imported = import_huggingface(folder)
        assert imported.saved.recipe.model.vocabulary.eos == 1
        assert imported.left_behind == ["eos_token_id = [1, 7]: answers end at 1 alone"]
        (folder / "generation_config.json").write_text('{"eos_token_id": [1, 7]}')


def test_names_of_older_checkpoints(tmp_path: Path) -> None:
    """GPT-2 without its prefix and with stored masks; BERT with gamma, beta and a head for masked tokens."""
    reference = references.randomise(references.gpt2())
    folder = references.save(reference, tmp_path / "gpt2")

    def age(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 64, 64)

    edit_weights(folder, age)
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        torch.testing.assert_close(load_huggingface(folder).model(ids), reference(ids).logits, atol=1e-4, rtol=1e-5)

    bert = references.randomise(references.bert())
    folder = references.save(bert, tmp_path / "bert")

    def age_bert(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[f"bert.{older}"] = tensors.pop(name)
        tensors["cls.predictions.bias"] = torch.zeros(50)

    edit_weights(folder, age_bert)
    with torch.no_grad():
        torch.testing.assert_close(
            load_huggingface(folder).model(ids), bert(ids).last_hidden_state, atol=1e-5, rtol=1e-5
        )


def test_a_head_that_labels_tokens_is_no_classifier_of_lines(tmp_path: Path) -> None:
    config = transformers.BertConfig(**(references.ENCODER_SIZES | {"num_labels": 5}))
    references.save(transformers.BertForTokenClassification(config), tmp_path)
    with pytest.raises(UnsupportedModel, match="a head that labels every token"):
        load_huggingface(tmp_path)


def test_marians_stored_positions_must_be_sinusoids(tmp_path: Path) -> None:
    folder = references.save(references.marian(), tmp_path)
    edit_weights(folder, lambda t: t.update({"model.encoder.embed_positions.weight": torch.randn(64, 48)}))
    with pytest.raises(UnsupportedModel, match=r"embed_positions\.weight is not a table of sinusoids"):
        load_huggingface(folder)
    table = sinusoids(64, 48, layout="halves")
    edit_weights(folder, lambda t: t.update({"model.encoder.embed_positions.weight": table}))
    load_huggingface(folder)


def test_gpt2_padded_with_its_end_token_hides_nothing(tmp_path: Path) -> None:
    """pad = bos = eos is common for fine-tuning: then ids alone never hide a token. Reference: GPT2LMHeadModel."""
    reference = references.randomise(references.gpt2(pad_token_id=1))
    saved = load_huggingface(references.save(reference, tmp_path))
    assert saved.recipe.model.vocabulary.pad is None
    ids = torch.tensor([[1, 5, 6, 1, 7]])
    with torch.no_grad():
        torch.testing.assert_close(saved.model(ids), reference(ids).logits, atol=1e-4, rtol=1e-5)


def test_an_untied_t5(tmp_path: Path) -> None:
    """T5 1.1 as published has an output matrix of its own, unscaled: logits are its decoder states times that."""
    reference = references.randomise(references.t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False))
    folder = references.save(reference, tmp_path)
    head = torch.randn(50, 48)
    edit_weights(folder, lambda t: t.update({"lm_head.weight": head}))
    saved = load_huggingface(folder)
    model: Any = saved.model
    assert (model.spec.embedding.tie, model.spec.embedding.output_scale) == ("inputs", "none")
    ids, target = torch.tensor([[5, 6, 7]]), torch.tensor([[0, 8]])
    with torch.no_grad():
        states = reference(input_ids=ids, decoder_input_ids=target, output_hidden_states=True).decoder_hidden_states[-1]
        torch.testing.assert_close(model(ids, target), states @ head.T, atol=1e-4, rtol=1e-5)


def test_sharded_weights(tmp_path: Path) -> None:
    reference = references.randomise(references.gpt2())
    reference.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        torch.testing.assert_close(load_huggingface(tmp_path).model(ids), reference(ids).logits, atol=1e-4, rtol=1e-5)


def test_the_tokenizer_comes_along(folder: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
    tokenizer.save(str(folder / "tokenizer.json"))
    stored = json.loads(load_huggingface(folder).tokenizers["shared"])
    assert stored["tokenizer"]["model"]["vocab"] == {"a": 0, "b": 1}
    (folder / "tokenizer.json").write_text("{}")
    imported = import_huggingface(folder)
    assert imported.saved.tokenizers == {}
    assert any("tokenizer.json: is not a tokenizer" in what for what in imported.left_behind)


def test_pickled_weights_are_never_opened(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(UnsupportedModel, match="only pickled weights"):
        load_huggingface(folder)


def test_folders_that_are_no_models(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        load_huggingface(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"config\.json: cannot be read: No such file"):
        load_huggingface(tmp_path)
    edit_config(folder, model_type="mamba")
    with pytest.raises(UnsupportedModel, match=r"model_type 'mamba' is not supported \(supported: marian, bart"):
        load_huggingface(folder)
    (folder / "config.json").write_text("[1")
    with pytest.raises(DataError, match="is not valid JSON"):
        load_huggingface(folder)
    (folder / "config.json").write_text("[1]")
    with pytest.raises(DataError, match="is not a table of settings"):
        load_huggingface(folder)


@pytest.mark.parametrize(
    "change", [{"n_layer": "x"}, {"n_embd": 47}, {"n_embd": {}}, {"n_layer": -1}, {"vocab_size": 0}]
)
def test_nonsense_values_are_named(folder: Path, change: dict[str, Any]) -> None:
    edit_config(folder, **change)
    with pytest.raises(ClearheadError):
        load_huggingface(folder)
