"""Every imported architecture computes what transformers computes: each layer to 1e-5, and the same continuations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.blocks import Memory
from clearhead.interop import load_huggingface
from clearhead.models import LanguageModel, SavedModel, Seq2Seq, load_model, save_model
from clearhead.positions import AlibiBias
from tests.conftest import PARITY
from tests.interop import references

TOLERANCE = 1e-5
SOURCE = torch.tensor([[5, 9, 33, 7, 2, 11, 30], [8, 4, 19, 1, 1, 1, 1], [40, 1, 1, 1, 1, 1, 1]])
TARGET = torch.tensor([[2, 17, 6, 33, 21], [2, 5, 44, 12, 3], [2, 9, 9, 30, 8]])


def largest_difference(stack: Any, theirs: Any, run: Callable[[], Any], valid: Tensor | None = None) -> float:
    """How far the embedding and each layer are from the reference's hidden states, at worst.

    Each layer is given the reference's own input, so that a difference is its own and not inherited. Where the stack
    ends with a norm, the reference reports its last layer after that norm, and so do we.
    """
    outputs: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        outputs.append(output)

    def replace_input(index: int) -> Callable[..., Any]:
        return lambda _module, inputs: (theirs[index], *inputs[1:])

    parts = [stack.embedding, *stack.layers] + ([stack.final_norm] if stack.final_norm is not None else [])
    handles = [part.register_forward_hook(keep) for part in parts]
    handles += [layer.register_forward_pre_hook(replace_input(index)) for index, layer in enumerate(stack.layers)]
    with torch.no_grad():
        run()
    for handle in handles:
        handle.remove()
    if stack.final_norm is not None:
        del outputs[-2]
    assert len(outputs) == len(theirs)
    worst = 0.0
    for mine, other in zip(outputs, theirs, strict=True):
        assert mine.abs().max() > 0.1, "a comparison of zeros proves nothing"
        difference = (mine - other).abs()
        worst = max(worst, float((difference if valid is None else difference[valid]).max()))
    return worst


def with_pad(ids: Tensor, pad: int) -> Tensor:
    """The shared test batch with this model's padding: ones after column 0 stand for it."""
    return torch.where(ids == 1, torch.tensor(pad), ids)


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    def note(name: str, difference: float) -> None:
        record_property(PARITY, f"{name:<68} max|Δ| = {difference:.1e}")
        assert difference < TOLERANCE

    return note


SEQ2SEQ = {
    "Marian, as opus-mt: swish, √d": lambda: references.marian(activation_function="swish", scale_embedding=True),
    "Marian, two vocabularies": lambda: references.marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=61, tie_word_embeddings=True
    ),
    "Marian, ReLU": lambda: references.marian(activation_function="relu"),
    "BART, as published: GELU": lambda: references.bart(),
    "BART, √d, ReLU": lambda: references.bart(scale_embedding=True, activation_function="relu"),
    "mBART, as published: √d": lambda: references.mbart(scale_embedding=True),
    "M2M100, as published: √d, sinusoids from 2": lambda: references.m2m100(),
    "T5, as published: ReLU, tied": lambda: references.t5(),
    "T5 1.1: gated GELU": lambda: references.t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
}


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_L1_4_encoder_decoders_agree(name: str, tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """L1.4, L1.7; references: transformers' MarianMTModel, BartModel, MBartModel, T5; padded sources."""
    reference = references.randomise(SEQ2SEQ[name]())
    saved = load_huggingface(references.save(reference, tmp_path))
    model = saved.model
    assert isinstance(model, Seq2Seq)
    pad = saved.recipe.model.vocabulary.pad
    assert pad is not None
    source = with_pad(SOURCE, pad)
    with torch.no_grad():
        theirs = reference(
            input_ids=source,
            attention_mask=source != pad,
            decoder_input_ids=TARGET,
            output_hidden_states=True,
        )
        logits = model(source, TARGET)
    torch.testing.assert_close(logits, theirs.logits, atol=1e-4, rtol=1e-5)
    memory = Memory(theirs.encoder_last_hidden_state, source != pad)
    difference = max(
        largest_difference(
            model.encoder, theirs.encoder_hidden_states, lambda: model.encode(source), valid=source != pad
        ),
        largest_difference(model.decoder, theirs.decoder_hidden_states, lambda: model.decoder(TARGET, memory=memory)),
    )
    record(f"{name} (d=48, h=3 and 4, 2+3 layers)", difference)


ENCODERS = {
    "BERT, as published: GELU, ε=1e-12": lambda: references.bert(),
    "BERT, tanh-GELU": lambda: references.bert(hidden_act="gelu_new"),
    "RoBERTa, as published: positions from pad+1": lambda: references.roberta(layer_norm_eps=1e-5, type_vocab_size=1),
    "DistilBERT": lambda: references.distilbert(),
    "DeBERTa, as published": lambda: references.deberta(),
    "DeBERTa, span 3, absolute positions, segments": lambda: references.deberta(
        max_relative_positions=3, position_biased_input=True, type_vocab_size=2
    ),
    "DeBERTa, c2p alone": lambda: references.deberta(pos_att_type=["c2p"]),
    "DeBERTa, p2c alone": lambda: references.deberta(pos_att_type="p2c"),
    "DeBERTa v2, own projections": lambda: references.deberta_v2(),
    "DeBERTa v3: buckets, shared projections, normalised table": lambda: references.deberta_v2(
        position_buckets=4, max_relative_positions=6, share_att_key=True, norm_rel_ebd="layer_norm"
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_L0_11_post_norm_encoders_agree(name: str, tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """L0.11 (post-LN), L4.9; references: transformers' BertModel, RobertaModel, DistilBertModel, DebertaModel,
    DebertaV2Model; padded lines.
    """
    reference = references.randomise(ENCODERS[name]())
    saved = load_huggingface(references.save(reference, tmp_path))
    model: Any = saved.model
    pad = saved.recipe.model.vocabulary.pad
    assert pad is not None
    ids = with_pad(SOURCE, pad)
    segments = {"token_type_ids": (SOURCE > 10).long()} if saved.recipe.model.embedding.segments > 1 else {}
    with torch.no_grad():
        theirs = reference(input_ids=ids, attention_mask=ids != pad, output_hidden_states=True, **segments)
        states = model(ids, None, segments.get("token_type_ids"))
    torch.testing.assert_close(states[ids != pad], theirs.last_hidden_state[ids != pad], atol=TOLERANCE, rtol=0)
    if saved.recipe.model.model_dump()["pooler"]:
        torch.testing.assert_close(model.pool(states), theirs.pooler_output, atol=TOLERANCE, rtol=0)
    difference = largest_difference(
        model.encoder,
        theirs.hidden_states,
        lambda: model(ids, None, segments.get("token_type_ids")),
        valid=ids != pad,
    )
    record(f"{name} (d=48, h=3, 3 layers)", difference)


@pytest.mark.parametrize(
    ("name", "make"),
    [("BERT classifier", references.bert_classifier), ("RoBERTa classifier", references.roberta_classifier)],
)
def test_classifiers_agree(
    name: str, make: Callable[[], Any], tmp_path: Path, record: Callable[[str, float], None]
) -> None:
    """References: transformers' BertForSequenceClassification, RobertaForSequenceClassification."""
    reference = references.randomise(make())
    saved = load_huggingface(references.save(reference, tmp_path))
    pad = saved.recipe.model.vocabulary.pad
    assert pad is not None
    ids = with_pad(SOURCE, pad)
    with torch.no_grad():
        theirs = reference(input_ids=ids, attention_mask=ids != pad).logits
        ours = saved.model(ids)
    assert ours.shape == (3, 5)
    record(f"{name} (logits)", float((ours - theirs).abs().max()))


IMAGE_ENCODERS = {
    "ViT, as published: GELU, ε=1e-12": lambda: references.vit(),
    "ViT, ReLU, square images": lambda: references.vit(image_size=12, patch_size=3, hidden_act="relu"),
    "ViT classifier": lambda: references.vit_classifier(),
}


@pytest.mark.parametrize("name", IMAGE_ENCODERS)
def test_image_encoders_agree(name: str, tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """References: transformers' ViTModel and ViTForImageClassification; patches, class token and positions too."""
    reference = references.randomise(IMAGE_ENCODERS[name]())
    model: Any = load_huggingface(references.save(reference, tmp_path)).model
    rows, columns = model.encoder.embedding.tokens.image
    pixels = torch.randn(3, rows, columns, 2)
    with torch.no_grad():
        theirs = reference(pixel_values=pixels.movedim(-1, 1), output_hidden_states=True)
        states = model.states(pixels)
    if "classifier" in name:
        assert theirs.logits.shape == (3, 5)
        torch.testing.assert_close(model(pixels), theirs.logits, atol=1e-4, rtol=1e-5)
    else:
        torch.testing.assert_close(states, theirs.last_hidden_state, atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(model.pool(states), theirs.pooler_output, atol=1e-5, rtol=0)
    *hidden, last = theirs.hidden_states
    with torch.no_grad():  # unlike the others, it reports its last layer before the norm at the end
        hidden.append(getattr(reference, "vit", reference).layernorm(last))
    difference = largest_difference(model.encoder, hidden, lambda: model.states(pixels))
    record(f"{name} (d=48, h=3, 3 layers, {rows}×{columns} pixels)", difference)


def test_parity_of_images_rejects_a_wrong_order(tmp_path: Path) -> None:
    """The wrong variants: positions or a class token left out, and pixels whose rows and columns are exchanged."""
    reference = references.randomise(references.vit(image_size=12, patch_size=3))
    folder = references.save(reference, tmp_path)
    pixels = torch.randn(2, 12, 12, 2)
    with torch.no_grad():
        theirs = reference(pixel_values=pixels.movedim(-1, 1)).last_hidden_state

    def no_positions(model: Any) -> None:
        model.encoder.embedding.position.table.weight.data.zero_()

    def no_class_token(model: Any) -> None:
        model.encoder.embedding.tokens.class_token.weight.data.zero_()

    def difference(change: Callable[[Any], None], images: Tensor = pixels) -> float:
        model = load_huggingface(folder).model
        change(model)
        with torch.no_grad():
            return float((model(images) - theirs).abs().max())

    assert difference(lambda model: None) < 1e-4
    assert difference(no_positions) > 1e-2
    assert difference(no_class_token) > 1e-2
    assert difference(lambda model: None, pixels.transpose(1, 2)) > 1e-2


DECODERS = {
    "GPT-2, as published: tanh-GELU": lambda: references.gpt2(),
    "GPT-2, ReLU": lambda: references.gpt2(activation_function="relu", n_inner=56),
    "Bloom, ALiBi for 3 heads": lambda: references.bloom(),
    "Bloom, ALiBi for 8 heads": lambda: references.bloom(n_head=8),
}


@pytest.mark.parametrize("name", DECODERS)
def test_L0_11_pre_norm_decoders_agree(name: str, tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """L0.11 (pre-LN), L1.9; references: transformers' GPT2LMHeadModel and BloomForCausalLM."""
    reference = references.randomise(DECODERS[name]())
    model = load_huggingface(references.save(reference, tmp_path)).model
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        theirs = reference(input_ids=SOURCE, output_hidden_states=True)
        logits = model(SOURCE)
    torch.testing.assert_close(logits, theirs.logits, atol=1e-4, rtol=1e-5)
    difference = largest_difference(model.decoder, theirs.hidden_states, lambda: model(SOURCE))
    record(f"{name} (d=48, 3 layers)", difference)


def test_parity_of_bloom_rejects_a_wrong_order(tmp_path: Path) -> None:
    """The wrong variants: q, k, v cut as GPT-2's are, slopes in another order, no norm after the embedding."""
    reference = references.randomise(references.bloom())
    folder = references.save(reference, tmp_path)
    with torch.no_grad():
        theirs = reference(input_ids=SOURCE).logits

    def thirds(model: Any) -> None:
        for layer, other in zip(model.decoder.layers, reference.transformer.h, strict=True):
            joined = other.self_attention.query_key_value.weight.data.chunk(3)
            for name, part in zip(("query", "key", "value"), joined, strict=True):
                getattr(layer.attention, name).weight.data = part

    def slopes(model: Any) -> None:
        (alibi,) = (module for module in model.modules() if isinstance(module, AlibiBias))
        alibi.slopes = alibi.slopes.flip(0)

    def no_embedding_norm(model: Any) -> None:
        model.decoder.embedding.norm = None

    def difference(change: Callable[[Any], None]) -> float:
        model = load_huggingface(folder).model
        change(model)
        with torch.no_grad():
            return float((model(SOURCE) - theirs).abs().max())

    assert difference(lambda model: None) < 1e-4
    for wrong in (thirds, slopes, no_embedding_norm):
        assert difference(wrong) > 1e-2, wrong.__name__


def greedy(model: Any, first: Tensor, state: Any, steps: int, valid: Tensor | None = None) -> Tensor:
    """The plainest cached search: always the best token."""
    tokens, ids = [first], first
    with torch.no_grad():
        for _ in range(steps):
            ids = model.step(ids, state, valid).argmax(-1, keepdim=True)
            valid = None
            tokens.append(ids)
    return torch.cat(tokens, dim=1)


GENERATE: dict[str, Any] = {"do_sample": False, "num_beams": 1, "max_new_tokens": 20, "min_new_tokens": 20}


@pytest.mark.parametrize(
    "make",
    [
        SEQ2SEQ["Marian, as opus-mt: swish, √d"],
        SEQ2SEQ["BART, as published: GELU"],
        SEQ2SEQ["mBART, as published: √d"],
        SEQ2SEQ["M2M100, as published: √d, sinusoids from 2"],
        # transformers' generate fails for T5 stacks of unequal depth
        lambda: references.t5(num_decoder_layers=2),
    ],
    ids=["marian", "bart", "mbart", "m2m100", "t5"],
)
def test_greedy_continuations_of_encoder_decoders_are_identical(make: Callable[[], Any], tmp_path: Path) -> None:
    """Reference: transformers' generate with its own cache; 32 lines, 20 tokens each."""
    reference = references.randomise(make())
    saved = load_huggingface(references.save(reference, tmp_path))
    vocabulary = saved.recipe.model.vocabulary
    assert vocabulary.pad is not None
    assert vocabulary.first is not None
    source = torch.randint(3, 45, (32, 9))
    source[::2, 6:] = vocabulary.pad
    with torch.no_grad():
        theirs = reference.generate(
            input_ids=source,
            attention_mask=(source != vocabulary.pad).long(),
            decoder_start_token_id=vocabulary.first,
            **GENERATE,
        )
    model: Any = saved.model
    # min_new_tokens forbids the end: so do we
    ours = greedy(_Endless(model), torch.full((32, 1), vocabulary.first), model.start(source), 20)
    assert torch.equal(ours, theirs)
    assert len(set(ours.flatten().tolist())) > 5, "a constant continuation proves nothing"


@pytest.mark.parametrize("left_padding", [False, True])
def test_greedy_continuations_of_gpt2_are_identical(tmp_path: Path, left_padding: bool) -> None:
    """Reference: transformers' generate; with left padding the positions must still count from the first token."""
    reference = references.randomise(references.gpt2(pad_token_id=0))
    saved = load_huggingface(references.save(reference, tmp_path))
    prompt = torch.randint(3, 45, (16, 8))
    if left_padding:
        prompt[::2, :3] = 0
    valid = prompt != 0
    with torch.no_grad():
        theirs = reference.generate(input_ids=prompt, attention_mask=valid.long(), **GENERATE)
    model: Any = saved.model
    ours = greedy(_Endless(model), prompt, model.start(), 20, valid)
    assert torch.equal(ours, theirs)
    if left_padding:  # the wrong variant: numbering the columns instead of the tokens
        wrong = greedy(_Endless(model), prompt, model.start(), 20)
        assert not torch.equal(wrong, theirs)


def test_greedy_continuations_of_bloom_are_identical(tmp_path: Path) -> None:
    """Reference: transformers' generate; ALiBi with the cache, and with padding at the left."""
    reference = references.randomise(references.bloom(n_head=6, pad_token_id=0))
    saved = load_huggingface(references.save(reference, tmp_path))
    prompt = torch.randint(3, 45, (16, 8))
    prompt[::2, :3] = 0
    with torch.no_grad():
        theirs = reference.generate(input_ids=prompt, attention_mask=(prompt != 0).long(), **GENERATE)
    model: Any = saved.model
    assert torch.equal(greedy(_Endless(model), prompt, model.start(), 20, prompt != 0), theirs)


class _Endless:
    """A model that never ends a line, as generate's min_new_tokens makes transformers do."""

    def __init__(self, model: Any) -> None:
        self.model, self.eos = model, model.spec.vocabulary.eos

    def step(self, ids: Tensor, state: Any, valid: Tensor | None = None) -> Tensor:
        logits: Tensor = self.model.step(ids, state, valid)
        logits[:, self.eos] = float("-inf")
        return logits


def test_an_imported_model_survives_its_file(tmp_path: Path) -> None:
    """Import, save, load: the same logits, the same tokenizer."""
    reference = references.randomise(references.marian())
    saved = load_huggingface(references.save(reference, tmp_path))
    saved = SavedModel(saved.model, saved.recipe, {"shared": "{}"})
    save_model(saved, tmp_path / "marian.safetensors")
    again = load_model(tmp_path / "marian.safetensors")
    assert again.recipe == saved.recipe
    assert again.tokenizers == saved.tokenizers
    with torch.no_grad():
        assert torch.equal(again.model(SOURCE, TARGET), saved.model(SOURCE, TARGET))


def test_parity_rejects_a_wrong_model(tmp_path: Path) -> None:
    """The comparison must notice small mistakes: each of these variants is refused by the tolerance."""
    reference = references.randomise(references.bart())
    folder = references.save(reference, tmp_path)
    with torch.no_grad():
        theirs = reference(input_ids=SOURCE, attention_mask=SOURCE != 1, decoder_input_ids=TARGET).logits

    def difference(change: Callable[[Any], None]) -> float:
        model: Any = load_huggingface(folder).model
        change(model)
        with torch.no_grad():
            return float((model(SOURCE, TARGET) - theirs).abs().max())

    def off_by_one(model: Any) -> None:
        model.encoder.embedding.position.offset = 1

    def scale_by_width(model: Any) -> None:
        for layer in model.encoder.layers:
            layer.attention.scale = float(48**0.5)

    def not_causal(model: Any) -> None:
        model.decoder.causal = False

    def no_embedding_norm(model: Any) -> None:
        model.decoder.embedding.norm = None

    assert difference(lambda model: None) < 1e-4
    for wrong in (off_by_one, scale_by_width, not_causal, no_embedding_norm):
        assert difference(wrong) > 1e-2, wrong.__name__
