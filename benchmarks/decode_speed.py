"""Decoding speed in tokens per second: clearhead, CTranslate2 and transformers.generate, all in float32.

    python -m benchmarks.decode_speed [tiny base] [--batches 32 1] [--beams 1 4] [--rounds 5]

One random Marian model of each size, the same weights for all; sources of 8 to 24 tokens, answers of 32, as the end is
made impossible. Outputs are compared first. CTranslate2 runs with inter_threads=2, intra_threads=1, we with two workers
of one thread, transformers with two threads; they take turns, and medians are compared.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.train_speed import SIZES, Size, marian_config
from clearhead.interop import load_huggingface
from clearhead.predictor import Engine, WorkerPool
from clearhead.recipe import DecodingSpec

LENGTH = 32
EOS = 0
Lines = list[list[int]]
Decode = Callable[[Lines], Lines]


def reference(size: Size) -> Any:
    """A random Marian whose answers vary and never end."""
    torch.manual_seed(0)
    pad = size.vocabulary - 1
    config = marian_config(
        size, pad_token_id=pad, eos_token_id=EOS, decoder_start_token_id=pad, forced_eos_token_id=None
    )
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_positions" not in name:
                # large enough that answers differ, and that a token does not simply repeat itself
                parameter.normal_(0, 0.05 if parameter.shape[0] == size.vocabulary else 3 * size.width**-0.5)
        model.model.shared.weight[pad] = 0.0  # CTranslate2 starts from a vector of zeros
        model.final_logits_bias[0, [EOS, pad]] = -1e9
    return model


def ours(folder: Path, batch: int, beam: int) -> tuple[Decode, WorkerPool[Any, Any]]:
    """clearhead: two workers of one thread each."""
    engine = Engine(load_huggingface(folder).model)
    longest = 25
    spec = DecodingSpec(beam_size=beam, length_penalty=0.0, max_length=LENGTH, batch_tokens=batch * beam * longest)

    def work(lines: Lines) -> Lines:
        return [best.tokens for best, *_ in engine.search(lines, spec)]

    pool: WorkerPool[Lines, Lines] = WorkerPool(work, 2)

    def decode(lines: Lines) -> Lines:
        order = sorted(range(len(lines)), key=lambda index: len(lines[index]))
        chunks = [order[start : start + batch] for start in range(0, len(order), batch)]
        answers: Lines = [[] for _ in lines]
        results = pool.results([lines[index] for index in chunk] for chunk in chunks)
        for chunk, found in zip(chunks, results, strict=True):
            for index, tokens in zip(chunk, found, strict=True):
                answers[index] = tokens
        return answers

    return decode, pool


def ctranslate2s(model: Any, folder: Path, batch: int, beam: int) -> Decode:
    """CTranslate2 in float32."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    target = folder / "ctranslate2"
    names = [str(index) for index in range(model.config.vocab_size - 1)]
    if not target.is_dir():
        loader = MarianMTLoader()
        model.config.normalize_before = model.config.normalize_embedding = False
        spec = loader.get_model_spec(model)
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.config.eos_token, spec.config.unk_token, spec.config.decoder_start_token = "0", "1", "0"
        spec.validate()
        spec.optimize(quantization="float32")
        target.mkdir()
        spec.save(str(target))
    translator = ctranslate2.Translator(
        str(target), device="cpu", compute_type="float32", inter_threads=2, intra_threads=1
    )

    def decode(lines: Lines) -> Lines:
        results = translator.translate_batch(
            [[names[token] for token in line] for line in lines],
            max_batch_size=batch,
            beam_size=beam,
            length_penalty=0.0,
            max_decoding_length=LENGTH,
        )
        return [[int(token) for token in result.hypotheses[0]] for result in results]

    return decode


def transformers_generate(model: Any, batch: int, beam: int) -> Decode:
    """transformers' generate, two threads."""

    def decode(lines: Lines) -> Lines:
        torch.set_num_threads(2)
        order = sorted(range(len(lines)), key=lambda index: len(lines[index]))
        answers: Lines = [[] for _ in lines]
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            width = max(len(lines[row]) for row in rows)
            pad = model.config.pad_token_id
            ids = torch.tensor([lines[row] + [pad] * (width - len(lines[row])) for row in rows])
            settings = {"num_beams": beam, "do_sample": False, "max_new_tokens": LENGTH, "length_penalty": 0.0}
            found = model.generate(input_ids=ids, attention_mask=(ids != pad).long(), **settings)
            for row, tokens in zip(rows, found[:, 1:].tolist(), strict=True):
                answers[row] = tokens
        torch.set_num_threads(1)
        return answers

    return decode


def main() -> None:
    """Print a table per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=["tiny", "base"], help="which sizes: tiny, small, base")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 1])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", nargs="*", default=[], help="peers to leave out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.sizes:
        size = SIZES[name]
        model = reference(size)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            model.save_pretrained(folder)
            for batch in arguments.batches:
                for beam in arguments.beams:
                    lines = sources(size, 8 * batch if batch > 1 else 16)
                    decode, pool = ours(folder, batch, beam)
                    peers = {"clearhead": decode}
                    peers["CTranslate2"] = ctranslate2s(model, folder, batch, beam)
                    peers["transformers"] = transformers_generate(model, batch, beam)
                    peers = {peer: run for peer, run in peers.items() if peer not in arguments.without}
                    with pool:
                        report(f"{name}, batch {batch}, beam {beam}", peers, lines, arguments.rounds)


def sources(size: Size, count: int) -> Lines:
    """Random lines of 8 to 24 tokens, each with its end."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(8, 25, (count,), generator=generator).tolist()
    top = size.vocabulary - 1
    return [[*torch.randint(2, top, (length,), generator=generator).tolist(), EOS] for length in lengths]


def report(title: str, peers: dict[str, Decode], lines: Lines, rounds: int) -> None:
    """Compare outputs, then speeds."""
    outputs = {peer: decode(lines) for peer, decode in peers.items()}
    print(f"{title}: {len(lines)} lines of {LENGTH} tokens")
    times: dict[str, list[float]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, decode in peers.items():
            start = time.perf_counter()
            decode(lines)
            times[peer].append(time.perf_counter() - start)
    medians = {peer: statistics.median(values) for peer, values in times.items()}
    for peer, seconds in medians.items():
        same = sum(mine == other for mine, other in zip(outputs[peer], outputs["clearhead"], strict=True))
        ratio = seconds / medians["clearhead"]
        print(
            f"  {peer:<14} {len(lines) * LENGTH / seconds:8,.0f} tokens/s   ours is {ratio:5.2f}×   "
            f"{same} of {len(lines)} outputs are ours",
            flush=True,
        )


if __name__ == "__main__":
    main()
