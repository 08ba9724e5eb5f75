"""What a worker loads: a model file is opened once, a folder of Hugging Face is imported."""

from pathlib import Path

import clearhead
from clearhead.recipe import weights_of
from clearhead.serving.loading import described, loaded
from clearhead.serving.work import answer
from tests.interop import references


def test_an_imported_folder_is_served(tmp_path: Path) -> None:
    folder = references.save(references.vit_classifier(), tmp_path / "vit")
    path, foreign = weights_of(folder)
    assert foreign
    found = loaded(path, str(folder), foreign=foreign)
    facts = described(found)["facts"]
    assert (facts["family"], facts["reads"]) == ("classifier", "picture")
    height, width, channels = facts["picture"]
    line = " ".join(str(number % 7) for number in range(height * width * channels))
    asked = {"lines": [line], "numbers": [0], "settings": {}, "n_best": 1, "details": False, "verbatim": False}
    assert answer(found.predictor, asked)["answers"] == [[clearhead.load(folder)(line)]]
    assert loaded(path, str(folder), foreign=foreign).fingerprint == found.fingerprint
