"""Puts a trained pronunciation model into the package, in half precision, as ``g2p-en``.

    python -m tools.ship data TEST.tsv DEV.tsv -o data    # the CMU dictionary without the test words, as train and dev
    clearhead train --train data/train.tsv --dev data/dev.tsv -o runs/all --from runs/standard …
    python -m tools.ship model runs/all --name g2p-en

The words of TEST.tsv, those of the standard split, are in neither file, so that what ships can be scored on them.
"""

import argparse
from pathlib import Path

import torch

import clearhead
from clearhead.data import codecs_of, pronunciations
from clearhead.files import write_whole
from clearhead.models import SavedModel, load_model, save_model
from clearhead.predictor import ready
from clearhead.recipe import DataSpec, DecodingSpec

SHIPPED = Path(clearhead.__file__).parent / "shipped"
MOST_BYTES = 12_000_000


def words_of(file: Path) -> set[str]:
    """The words of a file of ``letters<TAB>phones``, whose letters may stand apart."""
    rows = file.read_text(encoding="utf-8").splitlines()
    return {row.partition("\t")[0].replace(" ", "") for row in rows if row}


def write_data(test: Path, dev: Path, folder: Path, *, stress: bool) -> None:
    """Write the dictionary without the words of ``test`` as training data, with those of ``dev`` apart."""
    left_out, apart = words_of(test), words_of(dev)
    rows: dict[str, list[str]] = {"train": [], "dev": []}
    for pair in pronunciations(stress=stress):
        if pair.source not in left_out:
            rows["dev" if pair.source in apart else "train"].append(f"{pair.source}\t{pair.target}\n")
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in rows.items():
        write_whole(folder / f"{part}.tsv", "".join(lines).encode())
        print(f"{folder / part}.tsv: {len(lines):,} pairs")


def ship(run: Path, name: str) -> None:
    """Write the best model of a run as a model of the package."""
    saved = load_model(run / "best.safetensors")
    data = DataSpec(task="g2p-en", stress=saved.recipe.data.stress, source=saved.recipe.data.source)
    recipe = saved.recipe.updated(data=data, decoding=DecodingSpec())
    half = {key: value.half() for key, value in saved.model.state_dict().items()}
    lost = max(float((saved.model.state_dict()[key] - value.float()).abs().max()) for key, value in half.items())
    model = saved.model.to(torch.float16)
    path = SHIPPED / f"{name}.safetensors"
    save_model(SavedModel(model, recipe, saved.tokenizers), path)
    shipped = ready(load_model(path), path)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes; weights moved by {lost:.1e} at most; {shipped!r}")
    assert size <= MOST_BYTES, f"larger than {MOST_BYTES:,} bytes"
    assert codecs_of(saved.tokenizers)[0].kind == "characters", "words are to be read letter by letter"


def main() -> None:
    """Write the data, or the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    data = verbs.add_parser("data")
    data.add_argument("test", type=Path)
    data.add_argument("dev", type=Path)
    data.add_argument("-o", "--output", type=Path, required=True)
    data.add_argument("--stress", action="store_true")
    model = verbs.add_parser("model")
    model.add_argument("run", type=Path)
    model.add_argument("--name", default="g2p-en")
    asked = parser.parse_args()
    if asked.verb == "data":
        write_data(asked.test, asked.dev, asked.output, stress=asked.stress)
    else:
        ship(asked.run, asked.name)


if __name__ == "__main__":
    main()
