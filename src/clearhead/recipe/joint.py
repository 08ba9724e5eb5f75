"""The joint n-gram model beside an encoder-decoder, in a recipe."""

from typing import Annotated

from pydantic import Field

from clearhead.recipe.spec import Spec


class JointSpec(Spec):
    """N-grams of aligned pairs, counted before the first step, which rank the answers of a beam beside the network.

    For sequences that run side by side, such as letters and sounds: see `decoding.joint_weight`."""

    order: Annotated[int, Field(ge=0, le=16)] = 0
    """Units of the longest n-grams, a unit being one or two source tokens with those that go with them; 0: no such
    model. Training counts one of 8 by itself where nobody described the layers, both sides are symbols or characters,
    and n-grams of the training pairs explain at least half of what the dev targets say."""
    units: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Different units; training fills this in."""
    nodes: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    """N-grams, all lengths together; training fills this in."""

    @property
    def stored(self) -> int:
        """Bytes that they take: 8 a unit, 6 an n-gram."""
        return 8 * self.units + 6 * self.nodes
