"""What a look tells beside bertviz, TransformerLens, captum and inseq: the same numbers, and the time that they take.

    python -W ignore -m benchmarks.look_peers [bert gpt2] [--tokens 24] [--steps 32] [--rounds 7]

A BERT and a GPT-2 of MiniLM's size (6 layers, width 384, 12 heads), built from transformers' configurations with random
weights and imported into clearhead: nothing is downloaded. For each thing that a peer computes too, max|Δ| beside the
largest value; beyond the bound, the row FAILS and the exit code is 1. Then both take turns: medians, and how many times
as fast we are. One thread, float32.

- attention: our look against transformers' output_attentions, TransformerLens' patterns, and the numbers in the page
  that bertviz makes;
- logit lens: log p of the whole vocabulary after the embedding and each layer, against TransformerLens, and against
  transformers' hidden states put through the final norm and the head by hand;
- integrated gradients of log p, midpoints of as many steps, the same baseline: captum, and inseq, which works by it.

A peer that cannot be imported is left out, and the reason is printed:
`pip install --no-deps captum bertviz transformer-lens inseq`, and what they import:
`pip install accelerate datasets einops fancy-einsum ipython matplotlib treescope`. Without --no-deps, inseq pins a
typeguard that TransformerLens does not take; neither imports it.
"""

import argparse
import contextlib
import copy
import functools
import importlib
import importlib.metadata
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.inspection import View
from clearhead.inspection.gradients import InexactAttribution, integrated
from clearhead.inspection.lens import layer_logits
from clearhead.inspection.replaying import replaying
from clearhead.interop import load_huggingface
from clearhead.models import Model
from clearhead.predictor import look_at_ids

BOUNDS = {"attention": 1e-5, "page of attention": 1e-5, "logit lens": 1e-5, "integrated gradients": 1e-4}
"""The largest |Δ|, as a share of the largest |value|: float32 rounds differently in each order of sums."""
BASELINE = 0
"""The token that stands for all in the baseline: [PAD] or <|endoftext|>, as ids without a tokenizer have no <unk>."""

HEADER = "| | peer | max\\|Δ\\| | max\\|value\\| | ours, ms | theirs, ms | ours is | |\n" + "|---" * 8 + "|"


@dataclass(frozen=True)
class Size:
    """A model, as small as MiniLM by default."""

    layers: int = 6
    width: int = 384
    heads: int = 12
    vocabulary: int = 30_522


@dataclass(frozen=True)
class Case:
    """A model and a text, for all peers."""

    kind: str
    """``bert`` or ``gpt2``"""
    model: Any
    """transformers' model"""
    mine: Model
    """ours, of the same weights"""
    ids: list[int]
    steps: int
    """of integrated gradients"""

    @property
    def tokens(self) -> Int[Tensor, "1 n"]:
        """The text as a batch."""
        return torch.tensor([self.ids])

    def look(self) -> View:
        """Ours: replay and record."""
        return look_at_ids(self.mine, self.ids)


@dataclass(frozen=True)
class Pair:
    """One thing that two libraries compute.

    Args:
        what: a key of ``BOUNDS``.
        peer: whose numbers they are.
        ours: computes ours.
        theirs: computes theirs.
        read: the numbers in what ``theirs`` returns; not part of the time. Default: it returns them.
        read_ours: the same for ours.
    """

    what: str
    peer: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    read: Callable[[Any], Tensor] = lambda numbers: numbers
    read_ours: Callable[[Any], Tensor] = lambda numbers: numbers


@dataclass(frozen=True)
class Difference:
    """How far two results are apart."""

    largest: float
    """max|Δ|"""
    scale: float
    """max|value|"""
    bound: float

    @property
    def holds(self) -> bool:
        """Whether they are the same numbers."""
        return self.largest <= self.bound * self.scale


def difference(what: str, mine: Tensor, theirs: Tensor) -> Difference:
    """max|Δ| of two results of one shape."""
    if mine.shape != theirs.shape:
        raise ValueError(f"{what}: {tuple(mine.shape)} and {tuple(theirs.shape)} are not the same thing")
    mine, theirs = mine.detach().double(), theirs.detach().double()
    return Difference((mine - theirs).abs().max().item(), theirs.abs().max().item(), BOUNDS[what])


# ---- the models, and what transformers itself says ----


def reference(kind: str, size: Size) -> Any:
    """A random BERT with its head for masked tokens, or a GPT-2; their heads tell tokens apart."""
    import transformers  # takes seconds, which a test that is only collected need not wait

    torch.manual_seed(0)
    common: dict[str, Any] = {"vocab_size": size.vocabulary, "attn_implementation": "eager"}
    model: Any
    if kind == "bert":
        common |= {"hidden_size": size.width, "intermediate_size": 4 * size.width, "pad_token_id": BASELINE}
        common |= {"num_hidden_layers": size.layers, "num_attention_heads": size.heads}
        model = transformers.BertForMaskedLM(transformers.BertConfig(**common))
    else:
        common |= {"n_embd": size.width, "n_layer": size.layers, "n_head": size.heads}
        common |= {"bos_token_id": BASELINE, "eos_token_id": BASELINE}
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**common))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "emb" not in name and "wte" not in name and "wpe" not in name:
                parameter.normal_(0, 1.5 * size.width**-0.5)  # with 0.02, all attention is nearly uniform
            elif parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))  # so that a forgotten bias or gain is seen
    return model.eval()


def imported(model: Any) -> Model:
    """The same weights as a clearhead model."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_huggingface(folder).model


@torch.no_grad()
def transformers_attention(model: Any, ids: Tensor) -> tuple[Tensor, ...]:
    """What bertviz draws: a matrix for every head, (1, heads, n, n) in every layer."""
    return tuple(model(ids, output_attentions=True).attentions)


@torch.no_grad()
def transformers_lens(model: Any, ids: Tensor) -> Tensor:
    """The lens by hand, (layers + 1, n, V): hidden states through the final norm and the head.

    GPT-2's last hidden state has been through its norm already.
    """
    states = model(ids, output_hidden_states=True).hidden_states
    if hasattr(model, "cls"):
        logits = [model.cls(state) for state in states]
    else:
        logits = [model.lm_head(model.transformer.ln_f(state)) for state in states[:-1]] + [model.lm_head(states[-1])]
    return torch.cat(logits).log_softmax(-1)


# ---- ours ----


def our_attention(view: View) -> Tensor:
    """(layers, heads, n, n)"""
    (maps,) = view.attention.values()
    return torch.stack(list(maps))


def our_lens(view: View) -> Tensor:
    """(layers + 1, n, V)"""
    with replaying(view.model):
        return torch.cat(list(layer_logits(view.model, view.record))).log_softmax(-1)


def our_gradients(view: View, at: int, steps: int) -> Tensor:
    """A value for every token of the input, (n,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactAttribution)  # a fixed number of steps, as the peers have it
        found = integrated(view.model, view.subject, at, steps=steps, most=steps)
    return torch.tensor(found.source or found.prefix)


# ---- the peers: each yields what it computes, or raises on import ----

Peer = Callable[[Case], Iterator[Pair]]


def transformers_pairs(case: Case) -> Iterator[Pair]:
    """transformers' own output, and the lens by hand."""
    yield Pair(
        "attention",
        "transformers",
        lambda: our_attention(case.look()),
        lambda: torch.cat(transformers_attention(case.model, case.tokens)),
    )
    yield Pair(
        "logit lens",
        "transformers, by hand",
        lambda: our_lens(case.look()),
        lambda: transformers_lens(case.model, case.tokens),
    )


def bertviz_pairs(case: Case) -> Iterator[Pair]:
    """The page of all heads; its numbers are read back."""
    head_view = importlib.import_module("bertviz").head_view
    words = [str(index) for index in case.ids]

    def page() -> str:
        made = head_view(transformers_attention(case.model, case.tokens), words, html_action="return")
        return str(made.data)

    def numbers(page: str) -> Tensor:
        start = page.index("{", page.index("const params ="))
        table, _ = json.JSONDecoder().raw_decode(page, start)
        return torch.tensor(table["attention"][0]["attn"], dtype=torch.float64)

    def our_page() -> View:
        view = case.look()
        with tempfile.TemporaryDirectory() as folder:
            view.save(Path(folder) / "look.html", ["attention"])
        return view

    yield Pair("page of attention", "bertviz", our_page, page, numbers, our_attention)


def lens_pairs(case: Case) -> Iterator[Pair]:
    """TransformerLens: patterns of attention, and for GPT-2 the logit lens, which it does not have for BERT."""
    bridge = importlib.import_module("transformer_lens.model_bridge").TransformerBridge
    logit_lens = importlib.import_module("transformer_lens.tools.analysis").logit_lens
    names = {"bert": "google-bert/bert-base-uncased", "gpt2": "openai-community/gpt2"}  # no more: the model is given
    model = copy.deepcopy(case.model)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = numbers_tokenizer(model, folder)
        booted = bridge.boot_transformers(names[case.kind], hf_model=model, tokenizer=tokenizer, device="cpu")
    wanted = [f"blocks.{layer}.attn.hook_pattern" for layer in range(len(booted.blocks))]

    @torch.no_grad()
    def patterns() -> Tensor:
        _, cache = booted.run_with_cache(case.tokens, names_filter=wanted)
        return torch.cat([cache[name] for name in wanted])

    @torch.no_grad()
    def lens() -> Tensor:
        values: Tensor = logit_lens(booted, case.tokens, positions=None, return_type="log_probs").values
        return values[:, 0]

    yield Pair("attention", "TransformerLens", lambda: our_attention(case.look()), patterns)
    if case.kind == "gpt2":
        yield Pair("logit lens", "TransformerLens", lambda: our_lens(case.look()), lens)


def captum_pairs(case: Case) -> Iterator[Pair]:
    """captum: on the embedded tokens of GPT-2; of BERT, on what leaves its embedding layer and the norm in it."""
    attr = importlib.import_module("captum.attr")
    model, tokens, place = case.model, case.tokens, len(case.ids) - 1
    bare = torch.full_like(tokens, BASELINE)
    row, target = place if case.kind == "bert" else place - 1, case.ids[place]
    rule = {"n_steps": case.steps, "method": "riemann_middle", "return_convergence_delta": True}

    def log_p(**inputs: Tensor) -> Tensor:
        logits: Tensor = model(**inputs).logits
        return logits[:, row].log_softmax(-1)[:, target]

    def of_layer() -> Tensor:
        method = attr.LayerIntegratedGradients(lambda ids: log_p(input_ids=ids), model.bert.embeddings)
        found, _ = method.attribute(tokens, baselines=bare, **rule)
        return found.sum(-1)[0]  # type: ignore[no-any-return]

    def of_embeddings() -> Tensor:
        table = model.transformer.wte
        method = attr.IntegratedGradients(lambda vectors: log_p(inputs_embeds=vectors))
        found, _ = method.attribute(table(tokens).detach(), baselines=table(bare).detach(), **rule)
        return found.sum(-1)[0]  # type: ignore[no-any-return]

    yield Pair(
        "integrated gradients",
        "captum",
        lambda: our_gradients(case.look(), place, case.steps),
        of_layer if case.kind == "bert" else of_embeddings,
    )


def inseq_pairs(case: Case) -> Iterator[Pair]:
    """inseq, which reads texts and knows models that generate. The rule is set in its captum: it has no setting."""
    if case.kind != "gpt2":
        return
    inseq = importlib.import_module("inseq")
    given = copy.deepcopy(case.model)
    given.config.name_or_path = "gpt2"
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = numbers_tokenizer(case.model, folder)
    explainer = inseq.load_model(given, "integrated_gradients", tokenizer=tokenizer, device="cpu")
    method = explainer.attribution_method.method
    method.attribute = functools.partial(method.attribute, method="riemann_middle")
    *before, _ = words = [str(index) for index in case.ids]
    asked = {"attributed_fn": "probability", "logprob": True, "n_steps": case.steps, "show_progress": False}

    def gradients() -> Any:
        found = explainer.attribute(
            " ".join(before), " ".join(words), **asked, internal_batch_size=case.steps, return_convergence_delta=True
        )
        return found.sequence_attributions[0]

    def numbers(found: Any) -> Tensor:
        assert [token.id for token in found.target] == case.ids
        return found.target_attributions[:-1, -1].sum(-1)  # type: ignore[no-any-return]

    last = len(case.ids) - 1
    yield Pair(
        "integrated gradients",
        "inseq",
        lambda: our_gradients(case.look(), last, case.steps)[:-1],
        gradients,
        numbers,
    )


def numbers_tokenizer(model: Any, folder: str) -> Any:
    """A tokenizer whose words are the ids, for libraries that want texts; read from a folder, as they expect."""
    import tokenizers
    import transformers

    vocabulary = {str(index): index for index in range(model.config.vocab_size)}
    empty = "<baseline>"  # no part of a number: tokenizers find special tokens inside of words
    vocabulary[empty] = vocabulary.pop(str(BASELINE))
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=empty))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    special = dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), empty)
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


PEERS: dict[str, Peer] = {
    "transformers": transformers_pairs,
    "bertviz": bertviz_pairs,
    "TransformerLens": lens_pairs,
    "captum": captum_pairs,
    "inseq": inseq_pairs,
}


# ---- side by side ----


def medians(pair: Pair, rounds: int) -> tuple[float, float]:
    """Seconds of both, in turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for times, run in zip(taken, (pair.ours, pair.theirs), strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return statistics.median(taken[0]), statistics.median(taken[1])


def report(pair: Pair, rounds: int) -> bool:
    """Print a row; whether the numbers are the same."""
    found = difference(pair.what, pair.read_ours(pair.ours()), pair.read(pair.theirs()))
    our_time, their_time = medians(pair, rounds)
    print(
        f"| {pair.what} | {pair.peer} | {found.largest:.1e} | {found.scale:.3g} | {our_time * 1e3:.0f} | "
        f"{their_time * 1e3:.0f} | {their_time / our_time:.2f}× | {'same' if found.holds else 'FAILS'} |",
        flush=True,
    )
    return found.holds


def side_by_side(case: Case, rounds: int, peers: Mapping[str, Peer] = PEERS) -> tuple[bool, dict[str, str]]:
    """Print a table; whether all numbers are the same, and why peers are missing."""
    good, missing = True, dict[str, str]()
    print(HEADER)
    for name, pairs in peers.items():
        try:
            found = list(pairs(case))
        except (ImportError, AttributeError) as problem:
            missing[name] = f"{type(problem).__name__}: {problem}"
            continue
        for pair in found:
            good &= report(pair, rounds)
    return good, missing


def versions() -> Iterator[str]:
    """The libraries that are installed, with their versions."""
    for name in ("torch", "transformers", "bertviz", "transformer-lens", "captum", "inseq"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


def main() -> int:
    """Print a table per model; 1 if numbers differ."""
    import transformers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["bert", "gpt2"], help="which models: bert, gpt2")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--steps", type=int, default=32, help="of integrated gradients")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(", ".join(versions()))
    good, missing = True, dict[str, str]()
    for kind in asked.models:
        size = Size()
        model = reference(kind, size)
        ids = torch.randint(1000, size.vocabulary, (asked.tokens,)).tolist()
        sizes = f"{size.layers} layers of {size.width}, {size.heads} heads, vocabulary {size.vocabulary:,}"
        print(f"\n{kind}: {sizes}; {asked.tokens} tokens, {asked.steps} steps, {asked.rounds} rounds\n")
        same, lacking = side_by_side(Case(kind, model, imported(model), ids, asked.steps), asked.rounds)
        good, missing = good and same, missing | lacking
    for name, reason in missing.items():
        print(f"\n{name} is left out: {reason}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
