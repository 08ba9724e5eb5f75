"""The end of `make demo`: the model that was just trained, beside the one that comes with the package.

    python -m tools.demo RUN

Both are asked for the same test words, which neither has been trained on. On a terminal, what you type is pronounced by
both, until an empty line.
"""

import sys
from pathlib import Path

import clearhead

SHOWN = 8


def table(run: "clearhead.Run", shipped: "clearhead.Predictor") -> list[tuple[str, str, str, str]]:
    """Some test words: the word, the new model's answer, the shipped one's, and what the dictionary says."""
    asked = run.examples(SHOWN)
    answers = shipped.generate([example.question for example in asked])
    return [
        (
            example.question,
            _marked(example.answer, example.right),
            _marked(answer, example.right),
            " or ".join(example.right),
        )
        for example, answer in zip(asked, answers, strict=True)
    ]


def _marked(answer: str, right: list[str]) -> str:
    return answer if answer in right else f"{answer} ✗"


def print_table(rows: list[tuple[str, str, str, str]]) -> None:
    """A word, and below it what each of the three says: also wide answers fit into 80 columns."""
    for word, trained, shipped, right in rows:
        print(f"  {word}")
        print(f"      just trained  {trained}")
        print(f"      g2p-en        {shipped}")
        print(f"      dictionary    {right}")


def converse(trained: "clearhead.Predictor", shipped: "clearhead.Predictor") -> None:
    """Pronounce what is typed."""
    print("\ntype a word or a sentence; an empty line ends")
    while line := _line():
        print(f"      just trained  {trained(line)}")
        print(f"      g2p-en        {shipped(line)}")


def _line() -> str:
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        print()
        return ""


def main() -> None:
    """Show both models, and what to do next."""
    run, shipped = clearhead.Run(Path(sys.argv[1])), clearhead.load("g2p-en")
    print("\nthe same test words, also pronounced by g2p-en, the model that comes with clearhead:")
    print_table(table(run, shipped))
    if sys.stdin.isatty() and sys.stdout.isatty():
        converse(run.model, shipped)
    print("\nlook inside:   clearhead look g2p-en thoroughly -o look.html")
    print("in a browser:  clearhead serve g2p-en runs/demo")


if __name__ == "__main__":
    main()
