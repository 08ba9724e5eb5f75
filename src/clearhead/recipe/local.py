"""The spec of restricted self-attention in one dimension: each token attends to a window around it (Table 1, L4.6)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.attention import AttentionPlace, AttentionSpec, Count, MultiHeadSpec
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

    whole: Annotated[list[Count], Field(max_length=10_000)] | None = None
    """Layers that attend to everything, counting from 1, as `[2, 4]` (Gemma 2, ModernBERT); without it none."""

    @property
    def same_in_all_layers(self) -> bool:
        """Unless some layers attend to everything, or some lack heads."""
        return not self.whole and super().same_in_all_layers

    def sees_window(self, layer: int) -> bool:
        """Unless it is one of the layers that attend to everything."""
        return layer not in (self.whole or ())

    def in_layer(self, layer: int, width: int) -> AttentionSpec:
        """A window, or multi-head attention with the same settings."""
        own = super().in_layer(layer, width)
        if self.sees_window(layer):
            return own
        return MultiHeadSpec(**own.model_dump(include=MultiHeadSpec.model_fields.keys() - {"kind"}))

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
        yield from self._whole_refusals(self.whole or [], place)
        if place.position is not None and place.position.planar:
            yield "kind", f"{place.position.kind} positions have rows and columns, a window counts along one line"

    def _whole_refusals(self, whole: list[int], place: AttentionPlace) -> Iterator[tuple[str, str]]:
        if whole != sorted(set(whole)) or (whole and whole[-1] > place.layers):
            yield "whole", f"is not a rising list of layers from 1 to {place.layers}"
        if whole and place.position is not None and not place.position.rotates:
            yield (
                "whole",
                f"{place.position.kind} positions are made for layers that all see a window, or for none: use rope",
            )


register(
    LocalSpec,
    module="clearhead.attention.local:LocalAttention",
    cost="clearhead.costing.forms.local:local",
)
