"""Which parts of a model a recipe trains: all of them, unless some are frozen, or adapters are trained instead."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sympy import Integer

from clearhead.errors import Problem, RecipeError
from clearhead.recipe import Address, TrainingSpec, means, means_any, tells_layers_apart


@dataclass
class TunedParts:
    """What ``training.freeze`` and ``training.adapters`` say of each weight.

    Args:
        training: the settings; without them everything is trained.
    """

    training: TrainingSpec = field(default_factory=TrainingSpec)
    _met: set[str] = field(default_factory=set)
    """Patterns that meant something so far."""

    @property
    def frozen(self) -> list[str]:
        """Patterns of frozen parts."""
        return self.training.freeze or []

    def trains(self, *addresses: Address) -> bool:
        """Whether a weight is trained as a whole; these are all its addresses, if it is tied."""
        adapters = self.training.adapters
        frozen = self._count(self.frozen, addresses)
        return (adapters is None or self._count(adapters.also, addresses) > 0) and not frozen

    def rank(self, address: Address) -> Integer | None:
        """The rank of the adapter beside a linear map, None if it has none."""
        adapters = self.training.adapters
        if adapters is None or not any(word.isdigit() for word in address):  # maps outside of layers have none
            return None
        targeted = self._count(adapters.targets, [address])
        return Integer(adapters.rank) if targeted and not means_any(self.frozen, address) else None

    def signature(self, stack: str, layer: int) -> tuple[bool, ...]:
        """Equal for layers of a stack, counted from 1, that are trained alike."""
        adapters = self.training.adapters
        patterns = [*self.frozen, *([] if adapters is None else [*adapters.targets, *adapters.also])]
        return tuple(tells_layers_apart(pattern, stack, layer) for pattern in patterns)

    def require_all_met(self) -> None:
        """Refuse names that meant nothing in the whole model, and a model of which nothing is trained."""
        adapters = self.training.adapters
        settings = {"training.freeze": self.frozen}
        if adapters is not None:
            settings |= {"training.adapters.targets": adapters.targets, "training.adapters.also": adapters.also}
        problems = [
            Problem("", f'{setting} = ["{pattern}"]', "no such part of this model (`clearhead show` prints them)")
            for setting, patterns in settings.items()
            for pattern in patterns
            if pattern not in self._met
        ]
        if problems:
            raise RecipeError(problems)

    def _count(self, patterns: Sequence[str], addresses: Sequence[Address]) -> int:
        """How many of the patterns mean one of these addresses; they are remembered."""
        found = [pattern for pattern in patterns if any(means(pattern, address) for address in addresses)]
        self._met.update(found)
        return len(found)
