"""``clearhead.compare_recipes``: what sets two recipes apart, and what each of them costs. Never imports torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.recipe import Difference, Recipe, differences, notes_of
from clearhead.verbs.naming import Changes, recipe_named

if TYPE_CHECKING:
    from clearhead.costing import Compared


@dataclass(frozen=True)
class RecipeComparison:
    """Two recipes beside each other."""

    differences: list[Difference]
    """Settings that are not the same."""
    length: int
    """Tokens of source and target that the costs are for."""
    costs: "list[Compared]"
    """What each of them costs."""
    notes: tuple[list[str], list[str]]
    """What the settings of each bring along."""

    def table(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "differences": [{"setting": one.setting, "values": [one.first, one.second]} for one in self.differences],
            "at": {"n": self.length, "m": self.length, "B": 1},
            "costs": {row.key: [row.first, row.second] for row in self.costs},
            "notes": list(self.notes),
        }


def compare_recipes(
    first: str | Path | Recipe | None,
    second: str | Path | Recipe | None,
    *,
    first_settings: Changes = None,
    second_settings: Changes = None,
) -> RecipeComparison:
    """The differences of two recipes, each with settings changed; None is the default recipe."""
    from clearhead.costing import side_by_side  # and sympy with it, which no other verb is to wait for

    left, right = recipe_named(first, first_settings), recipe_named(second, second_settings)
    length, costs = side_by_side(left, right)
    return RecipeComparison(differences(left, right), length, costs, (notes_of(left), notes_of(right)))
