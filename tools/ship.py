"""Puts a trained pronunciation model into the package, in half precision, as ``g2p-en``.

clearhead train g2p-en -o runs/g2p …
python -m tools.ship runs/g2p [--name g2p-en]
"""

import argparse
from pathlib import Path

import clearhead
from clearhead.models import SavedModel, load_model, save_model
from clearhead.predictor import ready
from clearhead.recipe import DecodingSpec

SHIPPED = Path(clearhead.__file__).parent / "shipped"
MOST_BYTES = 12_000_000


def ship(run: Path, name: str) -> None:
    """Write the best model of a run of the task g2p-en as a model of the package; it answers by a beam of 4."""
    saved = load_model(run / "best.safetensors")
    assert saved.recipe.data.task == "g2p-en", f"{run}: was not trained on the task g2p-en"
    recipe = saved.recipe.updated(decoding=DecodingSpec())
    weights = {key: value.clone() for key, value in saved.model.state_dict().items()}
    path = SHIPPED / f"{name}.safetensors"
    save_model(SavedModel(saved.model.half(), recipe, saved.tokenizers), path)
    shipped = load_model(path)
    lost = max(float((weights[key] - value).abs().max()) for key, value in shipped.model.state_dict().items())
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes; weights moved by {lost:.1e} at most; {ready(shipped, path)!r}")
    assert size <= MOST_BYTES, f"larger than {MOST_BYTES:,} bytes"


def main() -> None:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", default="g2p-en")
    asked = parser.parse_args()
    ship(asked.run, asked.name)


if __name__ == "__main__":
    main()
