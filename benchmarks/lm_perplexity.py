"""Perplexity of a language model and of an interpolated Kneser–Ney 5-gram, per token, ends of lines included.

    python -m benchmarks.lm_perplexity [--minutes 35] [--threads 2]

Both learn from the phones of g2p-en's training words and are scored on those of its dev and test words. `clearhead
train` chooses its best step on dev; test is used only at the end. The vocabulary is closed: 39 phones and the end.
The n-gram keeps every count it has seen once; the language model has to pass over the words some fifteen times.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.kneser_ney import KneserNey
from clearhead.data import PAIRS, Pair, read_corpus
from clearhead.recipe import read_recipe

SETTINGS = [
    *("model.decoder.width=256", "model.decoder.layers=2", "model.decoder.position.kind=rope"),
    *("model.decoder.dropout.residual=0.05", "model.decoder.dropout.embedding=0"),
    *("training.optimizer.rate=1.5e-3", "training.optimizer.weight_decay=0.1"),
]
"""Chosen on dev."""


def compare(minutes: float, threads: int) -> dict[str, dict[str, float]]:
    """Perplexities on dev and test, of both."""
    corpus = read_corpus(read_recipe(None, "data.task=g2p-en").data, PAIRS)
    parts: dict[str, list[Pair]] = {"train": list(corpus.train()), "dev": corpus.dev, "test": corpus.test}
    lines = {name: [pair.target.split() for pair in pairs] for name, pairs in parts.items()}
    grams = KneserNey(lines["train"])
    found = {"kneser-ney": {name: grams.perplexity(lines[name]) for name in ("dev", "test")}, "clearhead": {}}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.txt" for name in lines}
        for name, file in files.items():
            file.write_text("".join(f"{' '.join(line)}\n" for line in lines[name]), encoding="utf-8")
        command = [sys.executable, "-m", "clearhead"]
        data = ["--train", str(files["train"]), "--dev", str(files["dev"])]
        run = [*data, "-o", f"{folder}/run", "--minutes", str(minutes), f"training.threads={threads}"]
        subprocess.run([*command, "train", *run, "data.target.kind=symbols", *SETTINGS], check=True)
        for name in ("dev", "test"):
            said = subprocess.run(
                [*command, "eval", f"{folder}/run", str(files[name]), "--json"], check=True, capture_output=True
            )
            found["clearhead"][name] = json.loads(said.stdout)["metrics"]["perplexity"]["value"]
    return found


def main() -> None:
    """Print both; fail if the language model is not better."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=35.0, help="of training")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    found = compare(arguments.minutes, arguments.threads)
    for name, values in found.items():
        print(f"{name:<12} perplexity {values['dev']:.3f} on dev, {values['test']:.3f} on test")
    sys.exit(found["clearhead"]["dev"] >= found["kneser-ney"]["dev"])


if __name__ == "__main__":
    main()
