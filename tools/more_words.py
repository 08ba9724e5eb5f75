"""Words that nobody has transcribed, answered by a trained model: more to learn pronunciation from.

    pip install names; apt install wamerican-huge
    python -m tools.more_words g2p-en answers.tsv                             beside the words of the task g2p-en
    python -m tools.more_words MODEL answers.tsv --data train.tsv dev.tsv test.tsv     beside those of other files
    python -m tools.more_words MODEL others.tsv decoding.joint_weight=0.8 --seed 3     other words, other settings
    python -m tools.more_words MODEL others.tsv --with SECOND              two models answer together
    clearhead train g2p-en --more answers.tsv --from g2p-en -o runs/taught

The words are names of the census of the United States (package names) and words of a list (Debian's wamerican-huge),
without every word of train, dev and test. MODEL answers them by a beam, with its n-grams; the answers of which it is
least sure are left out. A network that learns from both gets better than the one that it started from: it sees twice
as many words, and what the n-grams know reaches it, too (compare Sun et al. 2019, token-level ensemble distillation).
"""

import argparse
import importlib.util
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import clearhead
from clearhead.data import format_of, read_corpus
from clearhead.data.lines import read_lines
from clearhead.files import write_whole
from clearhead.training import objective_of
from clearhead.verbs.naming import saved_named

NAMES = ("dist.all.last", "dist.female.first", "dist.male.first")
"""Files of the package ``names``: a name, then how common it is."""
WORDS = Path("/usr/share/dict/american-english-huge")
MOST_WORDS, MOST_POSSESSIVES = 80_000, 5_000
"""Words of the list that are taken unasked, and of those that end in ’s; of names all are."""
SHORTEST, LONGEST = 2, 18
"""Letters of a word."""
LEAST_SURE = -0.26
"""log p of an answer, by token, below which it is left out: about a tenth of the answers."""
SEED = 2
BEAM = "decoding.beam_size=4"

Rows = list[tuple[str, str]]
"""Sources and targets."""


def candidates() -> tuple[set[str], set[str]]:
    """All names, and all words of the list, in small letters."""
    found = importlib.util.find_spec("names")
    if found is None or not found.submodule_search_locations or not WORDS.is_file():
        raise SystemExit("more words: pip install names; apt install wamerican-huge")
    folder = Path(found.submodule_search_locations[0])
    names = {line.split()[0].lower() for file in NAMES for line in read_lines(folder / file)}
    return names, {line.strip().lower() for line in read_lines(WORDS)}


def chosen(
    names: Iterable[str],
    words: Iterable[str],
    known: Collection[str],
    letters: set[str],
    *,
    most: int = MOST_WORDS,
    seed: int = SEED,
) -> list[str]:
    """The words to answer: none that is known, and none with a letter that training does not have."""

    def new(some: Iterable[str]) -> set[str]:
        return {word for word in some if SHORTEST <= len(word) <= LONGEST and letters.issuperset(word)} - set(known)

    surnames, listed = new(names), new(words)
    possessives = {word for word in listed if word.endswith("'s")} - surnames
    plain = {word for word in listed if "'" not in word} - surnames
    chance = random.Random(seed)
    return [
        *sorted(surnames),
        *chance.sample(sorted(plain), min(most, len(plain))),
        *chance.sample(sorted(possessives), min(MOST_POSSESSIVES, len(possessives))),
    ]


def answered(
    models: Sequence[str], words: Sequence[str], lines: Path, settings: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The words, which are written to a file, with what the models answer together, where they are sure enough."""
    write_whole(lines, "".join(f"{word}\n" for word in words).encode())
    teacher = clearhead.together(models)
    for batch in clearhead.answer_lines(teacher, lines, as_json=True, workers="all", settings=[BEAM, *settings]):
        for line in batch:
            found = json.loads(line.rows[0])
            if sure(found):
                yield found["source"], found["target"]


def sure(found: Mapping[str, Any]) -> bool:
    """Whether an answer, as ``clearhead run --json`` has it, is one to learn from."""
    phones = len(found["target"].split())
    enough: bool = found["log_probability"] / (phones + 1) > LEAST_SURE
    return bool(phones) and found["finished"] and enough


def parts_of(model: str, files: Sequence[Path]) -> dict[str, Rows]:
    """Train, dev and test: of files, or of the task that the model was trained on."""
    if files:
        return {
            part: [(source, target) for source, _, target in (line.partition("\t") for line in read_lines(file))]
            for part, file in zip(("train", "dev", "test"), files, strict=True)
        }
    recipe = saved_named(model).recipe
    corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
    parts = {"train": corpus.train(), "dev": corpus.dev, "test": corpus.test}
    return {part: [(pair.source, pair.target) for pair in pairs] for part, pairs in parts.items()}


def main() -> None:
    """Write the lessons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="who answers: a run, a model file, or g2p-en")
    parser.add_argument("output", type=Path)
    parser.add_argument("settings", nargs="*", help="decoding.key=value: how it answers")
    parser.add_argument("--with", action="append", default=[], dest="others", metavar="MODEL", help="who answers, too")
    parser.add_argument("--data", nargs=3, type=Path, default=[], metavar="FILE", help="train, dev and test")
    parser.add_argument("--words", type=int, default=MOST_WORDS, help="words of the list; names are all taken")
    parser.add_argument("--seed", type=int, default=SEED, help="which words these are")
    asked = parser.parse_intermixed_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    parts = parts_of(asked.model, asked.data)
    spaced = all(" " in source for source, _ in parts["train"] if len(source) > 1)
    known = {source.replace(" ", "") for rows in parts.values() for source, _ in rows}
    letters = {letter for source, _ in parts["train"] for letter in source}
    words = chosen(*candidates(), known, letters, most=asked.words, seed=asked.seed)
    lines = [" ".join(word) if spaced else word for word in words]
    taught = list(answered([asked.model, *asked.others], lines, asked.output.with_suffix(".words.txt"), asked.settings))
    write_whole(asked.output, "".join(f"{source}\t{target}\n" for source, target in taught).encode())
    print(f"{len(words):,} words answered, {len(taught):,} taken; the data have {len(parts['train']):,} training pairs")


if __name__ == "__main__":
    main()
