"""Answering speed by engine, in tokens per second: native, CTranslate2 and onnxruntime by clearhead, CTranslate2's own.

    python -m benchmarks.engines [tiny base] [--batches 1 32] [--beams 1 4] [--rounds 5] [--without onnxruntime]

One random Marian model of each size, the same weights for all, in float32 on one thread; sources of 8 to 24 tokens,
answers of 32, as the end is made impossible. All outputs are compared first. The engines take turns in one process, and
medians are compared with CTranslate2's own interface, which runs the conversion that clearhead's engine runs. What is
measured is processor time, which other programs on the machine disturb least.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.decode_speed import LENGTH, Lines, reference, sources
from benchmarks.train_speed import SIZES
from clearhead.events import ignore
from clearhead.interop import load_huggingface
from clearhead.interop.engines import kept_folder
from clearhead.interop.engines.ctranslate2 import CTranslate2Search
from clearhead.interop.engines.onnxruntime import OnnxRuntimeEngine
from clearhead.interop.exporting.ctranslate2 import vocabularies
from clearhead.models import SavedModel
from clearhead.predictor import Engine
from clearhead.recipe import DecodingSpec

OWN = "CTranslate2 itself"
PEERS = ("native", "ctranslate2", OWN, "onnxruntime")
Decode = Callable[[Lines], Lines]


def by_engine(engine: Engine, batch: int, beam: int) -> Decode:
    """One of clearhead's engines."""
    spec = DecodingSpec(beam_size=beam, length_penalty=0.0, max_length=LENGTH, batch_tokens=batch * beam * 25)

    def decode(lines: Lines) -> Lines:
        parts = [lines] if batch > 1 else [[line] for line in lines]
        return [best.tokens for part in parts for best, *_ in engine.search(part, spec)]

    return decode


def itself(folder: Path, names: tuple[list[str], list[str]], batch: int, beam: int) -> Decode:
    """CTranslate2's own interface, asked for the same."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
    )
    read, ids = names[0], {name: index for index, name in enumerate(names[1])}

    def decode(lines: Lines) -> Lines:
        parts = [lines] if batch > 1 else [[line] for line in lines]
        found: Lines = []
        for part in parts:
            results = translator.translate_batch(
                [[read[token] for token in line] for line in part],
                max_batch_size=batch,
                beam_size=beam,
                length_penalty=0.0,
                max_decoding_length=LENGTH,
            )
            found += [[ids[token] for token in result.hypotheses[0]] for result in results]
        return found

    return decode


def opened(saved: SavedModel, place: Path, wanted: list[str]) -> dict[str, Path]:
    """Conversions of a model, by engine."""
    targets = {"ctranslate2": ("ctranslate2", OWN), "onnxruntime": ("onnxruntime",)}
    return {
        engine: kept_folder(saved, engine, ignore, beside=place / "model")
        for engine, users in targets.items()
        if any(user in wanted for user in users)
    }


def peers(saved: SavedModel, folders: dict[str, Path], wanted: list[str], batch: int, beam: int) -> dict[str, Decode]:
    """What is compared, by name."""
    found: dict[str, Decode] = {}
    names = vocabularies(saved)
    for name in wanted:
        if name == OWN:
            found[name] = itself(folders["ctranslate2"], names, batch, beam)
            continue
        engine = Engine(saved.model)
        if name == "ctranslate2":
            engine = CTranslate2Search(saved.model, folders[name], "float32", names, 0.0)
        elif name == "onnxruntime":
            engine = OnnxRuntimeEngine(saved.model, folders[name])
        found[name] = by_engine(engine, batch, beam)
    return found


def measure(decoders: dict[str, Decode], lines: Lines, rounds: int) -> dict[str, tuple[float, int]]:
    """For each: tokens per second of a processor, median of the rounds, and how many outputs are those of the first."""
    outputs = {peer: decode(lines) for peer, decode in decoders.items()}
    first = next(iter(outputs.values()))
    times: dict[str, list[float]] = {peer: [] for peer in decoders}
    for _ in range(rounds):
        for peer, decode in decoders.items():
            start = time.process_time()
            decode(lines)
            times[peer].append(time.process_time() - start)
    return {
        peer: (
            len(lines) * LENGTH / statistics.median(times[peer]),
            sum(mine == other for mine, other in zip(outputs[peer], first, strict=True)),
        )
        for peer in decoders
    }


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=["tiny", "base"], help="which sizes: tiny, small, base")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=8, help="lines of a round with batch 1")
    parser.add_argument("--without", nargs="*", default=[], help="engines to leave out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [peer for peer in PEERS if peer not in arguments.without]
    print(f"| size | batch | beam | {' | '.join(wanted)} | outputs |")
    print(f"|---|---|---|{'---|' * len(wanted)}---|", flush=True)
    for name in arguments.sizes:
        size = SIZES[name]
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary)
            reference(size).save_pretrained(place / "model")
            saved = load_huggingface(place / "model")
            folders = opened(saved, place, wanted)
            for batch in arguments.batches:
                for beam in arguments.beams:
                    lines = sources(size, batch if batch > 1 else arguments.lines)
                    found = measure(peers(saved, folders, wanted, batch, beam), lines, arguments.rounds)
                    print(row(f"| {name} | {batch} | {beam} |", found, len(lines)), flush=True)


def row(title: str, found: dict[str, tuple[float, int]], lines: int) -> str:
    """Tokens per second, and as a multiple of CTranslate2's own; whether all outputs are the same."""
    base = found[OWN][0] if OWN in found else None
    speeds = [f"{speed:,.0f}" + ("" if base is None else f" ({speed / base:.2f}×)") for speed, _ in found.values()]
    differing = [f"{peer}: {same} of {lines}" for peer, (_, same) in found.items() if same < lines]
    return f"{title} {' | '.join(speeds)} | {'; '.join(differing) or f'all {lines} the same'} |"


if __name__ == "__main__":
    main()
