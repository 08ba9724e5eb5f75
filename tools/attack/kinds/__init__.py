"""A generator of cases for each kind of bad input: ``cases(chance, victims)`` yields without end."""

import random
from collections.abc import Callable, Iterator, Sequence

from tools.attack.case import Case
from tools.attack.kinds import (
    command_line,
    data_file,
    decoding,
    look,
    model_file,
    recipe,
    run_folder,
    serve,
    surroundings,
)
from tools.attack.victims import Victim

Generator = Callable[[random.Random, Sequence[Victim]], Iterator[Case]]

KINDS: dict[str, tuple[Generator, float]] = {
    "run folder": (run_folder.cases, 0.22),
    "model file": (model_file.cases, 0.21),
    "recipe": (recipe.cases, 0.2),
    "decoding": (decoding.cases, 0.1),
    "data file": (data_file.cases, 0.15),
    "command line": (command_line.cases, 0.08),
    "look": (look.cases, 0.03),
    "serve": (serve.cases, 0.03),
    "surroundings": (surroundings.cases, 0.01),
}
"""Each kind with its share of all cases."""
