"""The spec of restricted self-attention in one dimension: each token attends to a window around it (Table 1, L4.6)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.attention import AttentionPlace, MultiHeadSpec
from clearhead.recipe.registry import register

Sides = Literal["one", "both"]


class LocalSpec(MultiHeadSpec):
    """Multi-head attention over a window of r neighbours (Table 1, L4.6): linear in the length, any length."""

    shared_by: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    kind: Literal["local"] = "local"  # type: ignore[assignment]
    window: Annotated[int, Field(ge=2, le=1_000_000)] = 17
    """Keys that a query attends to, its own included, r; near the ends of a line there are fewer."""
    sides: Sides | None = None
    """`one`: the r − 1 tokens before; `both`: (r − 1)/2 on each side, r odd. Without it one where causal, else both."""

    def sides_if(self, causal: bool) -> Sides:
        """On which sides the window lies, in a stack that is causal or not."""
        return self.sides or ("one" if causal else "both")

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """Windows that show the future, have no middle, or join two sequences."""
        if place.part == "cross":
            yield "kind", "a window needs queries and keys of one sequence: use local attention in encoder and decoder"
            return
        yield from super().refusals(place)
        if place.causal and self.sides == "both":
            yield "sides", f"a window on both sides would see the future in a {place.part}: use one"
        elif self.sides_if(place.causal) == "both" and self.window % 2 == 0:
            yield (
                "window",
                f"a window on both sides has its query in the middle and is odd, not {self.window}; or sides = one",
            )
        if place.position is not None and place.position.planar:
            yield "kind", f"{place.position.kind} positions have rows and columns, a window counts along one line"


register(
    LocalSpec,
    module="clearhead.attention.local:LocalAttention",
    cost="clearhead.costing.forms.local:local",
)
