"""CTranslate2: encoder-decoders for its Translator, language models for its Generator.

Its Transformer knows dot products scaled by √d, LayerNorm and RMS norm per token before or after each sublayer, plain
and gated feed-forward nets, and positions that are sinusoidal, learned, T5's, rotary, or (without an encoder) ALiBi.
Everything else is refused by name. What is compared are log-probabilities for a Translator, which tells no logits, and
logits for a Generator.

Shapes: V entries of the vocabulary, d features.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention, divisor
from clearhead.blocks import AddNorm, GatedFeedForward, Layer, LayerNorm, RmsNorm, Stack
from clearhead.data import Codec
from clearhead.errors import UnsupportedModel
from clearhead.interop.exporting.result import Agreement
from clearhead.interop.exporting.sample import LONGEST, Sample, SampleBatch, codecs_in, tokenizer_files
from clearhead.interop.exporting.torch_export import quiet
from clearhead.interop.exporting.verifying import Foreign, compare, require_agreement
from clearhead.interop.exporting.written import Written
from clearhead.models import LanguageModel, SavedModel, Seq2Seq
from clearhead.positions import AlibiBias, BucketBias, LearnedPosition, RotaryPosition, SinusoidalPosition, sinusoids
from clearhead.recipe import ModelSpec, StackSpec

ROWS = 2048
"""Positions of a table of sinusoids: the longest line that such an export reads or writes."""
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}


def write_ctranslate2(sample: Sample, folder: Path, *, int8: bool) -> Written:
    """Write ``model.bin``, its vocabularies and the tokenizers; compare it with the model.

    Args:
        sample: the model, and what it is compared on.
        folder: an empty folder.
        int8: store weights in eight bits; in float32 the export is compared, but not kept.
    """
    reasons = list(refusals(sample.saved.recipe.model))
    if reasons:
        raise UnsupportedModel(f"CTranslate2 cannot express this model: {'; '.join(reasons)}")
    eight: Agreement | None = None
    if int8:
        with TemporaryDirectory() as aside:
            exact = _written(sample, Path(aside), "float32")
            require_agreement(exact, "ctranslate2")
        eight = _written(sample, folder, "int8")
    else:
        exact = _written(sample, folder, "float32")
    for name, text in tokenizer_files(sample.saved.tokenizers):
        place = "tokenizer.json" if name == "shared" else f"tokenizer_{name}.json"
        (folder / place).write_text(text, encoding="utf-8")
    form = "Translator" if isinstance(sample.model, Seq2Seq) else "Generator"
    notes = ("pass tokens by name; the end token of a source is one of them",) if form == "Translator" else ()
    return Written(f"ctranslate2.{form}, {'int8' if int8 else 'float32'}", exact, notes, eight)


def _written(sample: Sample, folder: Path, kind: str) -> Agreement:
    with quiet():
        spec = _spec(sample)
        spec.validate()
        spec.optimize(quantization=kind)
        spec.save(str(folder))
    return compare(sample, CTranslate2Engine(folder, sample, kind))


def refusals(spec: ModelSpec) -> Iterator[str]:
    """What CTranslate2 has no word for, one reason each."""
    if spec.family not in ("seq2seq", "lm"):
        yield f"a model of family {spec.family} generates no text"
        return
    stacks = {name: getattr(spec, name) for name in ("encoder", "decoder") if getattr(spec, name, None) is not None}
    for name, stack in stacks.items():
        if getattr(stack, "kind", "") != "transformer":
            yield f"model.{name}.kind is {stack.kind}, not transformer"
            return
        yield from _stack_refusals(name, stack, alone="encoder" not in stacks)
    if "encoder" in stacks:
        cross = spec.cross.attention  # type: ignore[attr-defined]
        yield from _attention_refusals("cross", cross, stacks["decoder"].width)
        if spec.cross.position.kind != "none":  # type: ignore[attr-defined]
            yield "model.cross.position: cross-attention there knows no positions"
        if stacks["encoder"].ngrams.reach:
            yield "model.encoder.ngrams: there are no tables of n-grams there"
        if cross.heads != stacks["decoder"].attention.heads:
            yield "model.cross.attention.heads differs from the decoder's"
        if stacks["encoder"].norm.eps != stacks["decoder"].norm.eps:
            yield "model.encoder.norm.eps differs from the decoder's"
    if spec.embedding.output_cap is not None:
        yield "model.embedding.output_cap"
    if spec.vocabulary.first is None or spec.vocabulary.eos is None:
        yield "model.vocabulary does not say how answers begin and end"


def _stack_refusals(name: str, stack: StackSpec, *, alone: bool) -> Iterator[str]:
    part: Any = stack
    yield from _attention_refusals(name, part.attention, part.width)
    norm = part.norm
    if getattr(norm, "axis", "token") != "token" or getattr(norm, "eps_place", "inside") != "inside" or not norm.affine:
        yield f"model.{name}.norm is not one of each token with a gain and ε inside the root"
    if norm.place == "both" or not getattr(norm, "shift", True) or part.parallel != "no":
        yield f"model.{name} has norms after its sublayers or without a shift, or sublayers side by side"
    if getattr(part.position, "features", None) is not None or getattr(part.position, "scaling", "none") != "none":
        yield f"model.{name}.position turns a part of the features, or slows angles down"
    if not part.residual or part.out_width != part.width:
        yield f"model.{name} has layers without a residual connection, or of another width"
    if part.feedforward.kind not in ("standard", "gated"):
        yield f"model.{name}.feedforward.kind is {part.feedforward.kind}"
    if part.position.kind not in ("sinusoidal", "learned", "none", "t5", "rope", *(("alibi",) if alone else ())):
        yield f"model.{name}.position.kind is {part.position.kind}"


def _attention_refusals(name: str, attention: Any, width: int) -> Iterator[str]:
    if attention.kind != "multihead":
        yield f"model.{name}.attention.kind is {attention.kind}"
        return
    if attention.score != "dot" or attention.choice != "soft":
        yield f"model.{name}.attention is not a softmax of dot products"
    if not attention.projections or not attention.output:
        yield f"model.{name}.attention lacks projections"
    if getattr(attention, "kept", None) is not None:
        yield f"model.{name}.attention.kept: its layers have different heads"
    if attention.qk_norm != "none" or attention.cap is not None or attention.output_bias not in (None, attention.bias):
        yield f"model.{name}.attention normalises queries and keys, caps scores, or has biases in some maps alone"
    if attention.kv_heads not in (None, attention.heads):
        yield f"model.{name}.attention.kv_heads: heads that share keys and values are not exported"
    query, value = attention.sizes(width)
    if query != value:
        yield f"model.{name}.attention has queries of {query} and values of {value} features"


# ---- weights ----


def _numbers(tensor: Tensor) -> np.ndarray:
    """A copy, as CTranslate2 changes what it is given when it stores it in eight bits."""
    return np.array(tensor.detach().cpu().float().numpy(), order="C")


def _set_linear(spec: Any, *maps: nn.Module) -> None:
    """One linear map, or several side by side."""
    linear = [part for part in maps if isinstance(part, nn.Linear)]
    spec.weight = _numbers(torch.cat(tuple(part.weight for part in linear)))
    biases: list[Tensor] = [part.bias for part in linear if part.bias is not None]
    if biases:
        spec.bias = _numbers(torch.cat(biases))


def _set_norm(spec: Any, norm: nn.Module | None) -> None:
    assert isinstance(norm, LayerNorm | RmsNorm)
    gain = norm.scale if isinstance(norm, RmsNorm) else norm.gain
    assert gain is not None
    spec.gamma = _numbers(gain)
    if isinstance(norm, LayerNorm):
        spec.beta = _numbers(norm.get_parameter("shift"))


def _set_attention(spec: Any, attention: nn.Module, around: AddNorm | None, *, cross: bool) -> None:
    assert isinstance(attention, MultiHeadAttention)
    assert around is not None
    if cross:
        _set_linear(spec.linear[0], attention.query)
        _set_linear(spec.linear[1], attention.key, attention.value)
    else:
        _set_linear(spec.linear[0], attention.query, attention.key, attention.value)
    _set_linear(spec.linear[-1], attention.output)
    _set_norm(spec.layer_norm, around.norm)
    if attention.scale != "sqrt":
        spec.queries_scale = np.float32(1.0 / divisor(attention.scale, attention.query_size))


def _set_stack(spec: Any, stack: Stack, embeddings: Any) -> None:
    embedding = stack.embedding
    embeddings.weight = _numbers(embedding.tokens.weight)  # type: ignore[arg-type]
    spec.scale_embeddings = bool(embedding.scale != 1.0)
    if hasattr(spec, "position_encodings"):
        spec.position_encodings.encodings = _positions(stack)
    if embedding.norm is not None:
        _set_norm(spec.layernorm_embedding, embedding.norm)
    if stack.final_norm is not None:
        _set_norm(spec.layer_norm, stack.final_norm)
    for number, (part, layer) in enumerate(zip(spec.layer, stack.layers, strict=True)):
        assert isinstance(layer, Layer)
        _set_attention(part.self_attention, layer.attention, layer.around_attention, cross=False)
        if isinstance(stack.scheme, BucketBias):
            first = spec.layer[0].self_attention
            if number == 0:
                first.relative_attention_bias = _numbers(stack.scheme.table.weight)
                first.relative_attention_max_distance = np.int32(stack.scheme.max_distance)
            else:
                part.self_attention.relative_attention_bias = first.relative_attention_bias
                part.self_attention.relative_attention_max_distance = first.relative_attention_max_distance
        if layer.cross is not None:
            _set_attention(part.attention, layer.cross, layer.around_cross, cross=True)
        net: Any = layer.feedforward
        if isinstance(net, GatedFeedForward):
            _set_linear(part.ffn.linear_0, net.gate)
            _set_linear(part.ffn.linear_0_noact, net.up)
        else:
            _set_linear(part.ffn.linear_0, net.up)
        _set_linear(part.ffn.linear_1, net.down)
        _set_norm(part.ffn.layer_norm, layer.around_feedforward.norm)


def _positions(stack: Stack) -> np.ndarray:
    """The vectors that are added to the embeddings."""
    position, width = stack.embedding.position, stack.embedding.tokens.embedding_dim
    if isinstance(position, SinusoidalPosition):
        table = sinusoids(ROWS + position.offset, width, layout=position.layout, base=position.base)
        return _numbers(table[position.offset :])
    if isinstance(position, LearnedPosition):
        return _numbers(position.table.weight[position.offset :])
    return np.zeros((ROWS, width), dtype=np.float32)


def _settings(stack: Stack, spec: Any) -> dict[str, Any]:
    from ctranslate2.specs import common_spec

    scheme, head = stack.scheme, stack.layers[0].attention
    settings: dict[str, Any] = {
        "pre_norm": spec.norm.place == "pre",
        "activation": getattr(common_spec.Activation, _ACTIVATIONS[spec.feedforward.activation]),
        "ffn_glu": spec.feedforward.kind == "gated",
        "rms_norm": spec.norm.kind == "rmsnorm",
        "layernorm_embedding": stack.embedding.norm is not None,
        "relative_attention_bias": isinstance(scheme, BucketBias),
        "head_dim": head.query_size,  # type: ignore[union-attr]
    }
    if isinstance(scheme, RotaryPosition):
        settings |= {"rotary_dim": 0, "rotary_interleave": scheme.layout == "interleaved", "rotary_base": scheme.base}
    return settings


def _spec(sample: Sample) -> Any:
    from ctranslate2.specs import transformer_spec

    model, ours = sample.model, sample.saved.recipe.model
    assert isinstance(model, Seq2Seq | LanguageModel)
    decoder: Any = model.decoder
    made = transformer_spec.TransformerDecoderSpec(
        len(decoder.layers),
        ours.decoder.attention.heads,  # type: ignore[attr-defined]
        with_encoder_attention=isinstance(model, Seq2Seq),
        alibi=isinstance(decoder.scheme, AlibiBias),
        **_settings(decoder, ours.decoder),  # type: ignore[attr-defined]
    )
    _set_stack(made, decoder, made.embeddings)
    made.projection.weight = _numbers(model.output.weight)
    if model.output.bias is not None:
        made.projection.bias = _numbers(model.output.bias)
    if model.output.scale != 1.0:
        made.scale_outputs = np.float32(model.output.scale)
    names = vocabularies(sample.saved)
    if isinstance(model, Seq2Seq):
        encoder: Any = model.encoder
        reader = transformer_spec.TransformerEncoderSpec(
            len(encoder.layers),
            ours.encoder.attention.heads,  # type: ignore[attr-defined]
            **_settings(encoder, ours.encoder),  # type: ignore[attr-defined]
        )
        _set_stack(reader, encoder, reader.embeddings[0])
        whole: Any = transformer_spec.TransformerSpec(reader, made)
        whole.register_source_vocabulary(names[0])
        whole.register_target_vocabulary(names[1])
    else:
        whole = transformer_spec.TransformerDecoderModelSpec(made)
        whole.register_vocabulary(names[1])
    _configure(whole.config, ours, names[1])
    return whole


def _configure(config: Any, ours: Any, names: list[str]) -> None:
    vocabulary = ours.vocabulary
    config.bos_token = names[vocabulary.bos if vocabulary.bos is not None else vocabulary.first]
    config.eos_token = names[vocabulary.eos]
    config.unk_token = names[vocabulary.unk or 0]
    config.layer_norm_epsilon = ours.decoder.norm.eps
    if ours.family == "seq2seq":
        config.decoder_start_token = names[vocabulary.first]


def vocabularies(saved: SavedModel) -> tuple[list[str], list[str]]:
    """The names of the tokens of both sides, each different; those that no tokenizer names are called by their ids."""
    vocabulary = saved.recipe.model.vocabulary
    codecs: list[Codec | None] = [codec for _, codec in codecs_in(saved.tokenizers)]
    codecs = codecs or [None]
    return _names(codecs[0], vocabulary.source), _names(codecs[-1], vocabulary.target)


def _names(codec: Codec | None, size: int) -> list[str]:
    found = [None if codec is None else codec.name(index) for index in range(size)]
    return [f"<id {index}>" if name is None else name for index, name in enumerate(found)]


class CTranslate2Engine(Foreign):
    """A folder, run by CTranslate2.

    Args:
        folder: the folder.
        sample: the model that it is compared with.
        kind: the type that it computes in.
    """

    def __init__(self, folder: Path, sample: Sample, kind: str) -> None:
        import ctranslate2

        self._sample, self._model = sample, sample.model
        self._read, self._write = vocabularies(sample.saved)
        self._numbers = {name: index for index, name in enumerate(self._write)}
        make = ctranslate2.Translator if isinstance(self._model, Seq2Seq) else ctranslate2.Generator
        self._engine: Any = make(str(folder), device="cpu", compute_type=kind, inter_threads=1, intra_threads=1)
        self.measure = "log p" if isinstance(self._model, Seq2Seq) else "logits"

    def _named(self, rows: list[list[int]], names: list[str]) -> list[list[str]]:
        return [[names[index] for index in row] for row in rows]

    def values(self, batch: SampleBatch) -> Tensor:
        if not isinstance(self._model, Seq2Seq):
            assert batch.valid is not None
            rows = [line[there].tolist() for line, there in zip(batch.inputs, batch.valid, strict=True)]
            view = self._engine.forward_batch(self._named(rows, self._write))
            return torch.from_numpy(np.array(view))
        assert batch.answers is not None
        assert batch.counts is not None
        scored = self._engine.score_batch(
            self._named(batch.rows, self._read), self._named(batch.answers, self._write), max_input_length=0
        )
        found = torch.zeros(batch.counts.shape)
        for row, (one, counts) in enumerate(zip(scored, batch.counts, strict=True)):
            length = int(counts.sum())
            found[row, :length] = torch.tensor(one.log_probs[:length])
        return found

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        if batch.answers is None:
            return None
        banned = [[self._write[index]] for index in self._sample.banned]
        if isinstance(self._model, Seq2Seq):
            found = self._engine.translate_batch(
                self._named(batch.rows, self._read),
                beam_size=1,
                max_decoding_length=LONGEST,
                min_decoding_length=0,  # an answer may be empty
                max_input_length=0,
                suppress_sequences=banned,
            )
            texts = [one.hypotheses[0] for one in found]
        else:
            # one prompt at a time: of several, with one of a single token among them, it returns the prompts too
            texts = [
                self._engine.generate_batch(
                    [prompt],
                    beam_size=1,
                    max_length=LONGEST,
                    include_prompt_in_result=False,
                    suppress_sequences=banned,
                )[0].sequences[0]
                for prompt in self._named(batch.rows, self._write)
            ]
        return [[self._numbers[name] for name in text] for text in texts]
