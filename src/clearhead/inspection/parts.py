"""The parts of a logit: what the embedding, each head, each feed-forward net, each bias and each norm shift add to it.

A logit is u·x + b for the last vector x of the residual stream, a row u of the output matrix and its bias b. x is a
sum: the embedding, and what every sublayer has added. A norm in between is linear once its σ is fixed at the value that
it had, so u goes backwards through it, γ ⊙ u/σ without its mean, and the norm's shift β becomes a part of its own. The
activation before the logits of BERT and the tanh of a pooler are treated in the same way: act(z) = z · (act(z)/z), with
the quotient fixed. So the parts add up to the logit exactly; they say nothing about what another σ would have given,
which is what the lens is for.

Shapes: p places, d features, h heads, e features of a value in one head.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.blocks import AddNorm, GatedFeedForward, LayerNorm, NoNorm, Output, RmsNorm, StandardFeedForward
from clearhead.errors import ClearheadError
from clearhead.inspection.record import Record, StackRecord, SublayerRecord
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, Seq2Seq

_Direction = Callable[[Tensor], Tensor]
Values = Float[Tensor, "p"]
Named = list[tuple[str, Values]]
"""Parts by name, from the last to the first, each with a value for every place."""


@dataclass(frozen=True)
class Part:
    """One part of a logit."""

    name: str
    """``embedding``, ``decoder.2.cross.5`` (head 5), ``decoder.1.feedforward``, ``bias …``, ``norm shift …``."""
    value: float


@dataclass(frozen=True, repr=False)
class Parts:
    """A logit, or the difference of two, as a sum."""

    at: int
    """The place in the answer, from 0."""
    token: str
    logit: float
    """The logit, or with ``against`` the difference of the logits."""
    against: str | None
    parts: tuple[Part, ...]

    @property
    def total(self) -> float:
        """The sum of the parts, which is the logit."""
        return sum(part.value for part in self.parts)

    def strongest(self, most: int = 3) -> list[Part]:
        """The parts that are farthest from 0."""
        return sorted(self.parts, key=lambda part: -abs(part.value))[:most]

    def __repr__(self) -> str:
        what = self.token if self.against is None else f"{self.token} and not {self.against}"
        reasons = ", ".join(f"{part.name} {part.value:+.2f}" for part in self.strongest())
        return f"Parts({what}: {self.logit:.3f} = {reasons}, … {len(self.parts)} parts)"


class NoParts(ClearheadError):
    """The mathematics does not allow a logit to be taken apart."""


def why_not(model: Model) -> str | None:
    """Why the logits of this model have no parts; None if they have."""
    stack: Any = getattr(model, "decoder", None) or getattr(model, "encoder", None)
    if isinstance(model, EncoderModel) and not isinstance(model, ClassifierModel) and model.output is None:
        return "this encoder gives vectors and no logits"
    if getattr(getattr(model, "output", None), "cap", None) is not None:
        return "a cap makes logits of the sums, which are no sums themselves"
    if not hasattr(stack, "final_norm"):
        return "the state of a recurrent network is no sum of what its tokens added, so its logits have no parts"
    for norm in stack.modules():
        if isinstance(norm, LayerNorm) and norm.axis != "token":
            return (
                f"norm.axis = {norm.axis} takes mean and deviation over several tokens, "
                "so that a part of one token would change the others"
            )
    known = (LayerNorm, RmsNorm, NoNorm)
    around = [part.norm for part in stack.layers.modules() if isinstance(part, AddNorm)]
    places = [*around, stack.final_norm, stack.embedding.norm]
    for norm in places:
        if norm is not None and not isinstance(norm, known):
            return f"nothing is known about the norm {type(norm).__name__}: it may not be linear once σ is fixed"
    return None


def parts_of(
    model: Model,
    record: Record,
    rows: Int[Tensor, "p"],
    tokens: Int[Tensor, "p"],
    against: Int[Tensor, "p"] | None = None,
) -> Named:
    """Take the logits of these tokens at these places apart, or their differences to ``against``.

    Args:
        model: the model.
        record: what it computed, for one line.
        rows: the places of the logits; of a classifier, only 0.
        tokens: the token, or class, at each place.
        against: another token at each place, whose logit is subtracted.
    """
    if (reason := why_not(model)) is not None:
        raise NoParts(f"no parts: {reason}")

    def direction(weight: Tensor) -> Tensor:
        found = weight.detach()[tokens].double()
        return found if against is None else found - weight.detach()[against].double()

    if isinstance(model, ClassifierModel):
        return _classified(model, record.stacks["encoder"], direction)
    name = "decoder" if isinstance(model, Seq2Seq | LanguageModel) else "encoder"
    stack, output = record.stacks[name], model.output
    assert isinstance(output, Output)
    found: Named = [] if output.bias is None else [("bias output", direction(output.bias))]
    u = direction(output.weight)
    if output.transform is not None:
        u = _through_transform(output, stack.y[0, rows].double(), u, found)
    return found + list(_stack_parts(name, stack, rows, u * output.scale))


def _classified(model: ClassifierModel, stack: StackRecord, direction: "_Direction") -> Named:
    found: Named = [("bias output", direction(model.head.bias))]
    u = direction(model.head.weight)  # (1, d)
    count = stack.y.shape[1]
    if model.spec.pooling == "first":
        if model.pooler is not None:
            z = model.pooler(stack.y[0, :1]).double()
            u = u * _gate(torch.tanh(z), z, at_zero=1.0)
            found.append(("bias pooler", (u * model.pooler.bias.double()).sum(-1)))
            u = u @ model.pooler.weight.double()
        return found + list(_stack_parts("encoder", stack, torch.zeros(1, dtype=torch.long), u))
    everywhere = _stack_parts("encoder", stack, torch.arange(count), u.expand(count, -1) / count)
    return found + [(name, values.sum(0, keepdim=True)) for name, values in everywhere]


def _through_transform(output: Output, x: Tensor, u: Tensor, found: Named) -> Float[Tensor, "p d"]:
    """Backwards through norm(act(xW + b)), the activation fixed at its own values."""
    transform = output.transform
    assert transform is not None
    weight = transform.map.weight.double()
    bias = 0.0 * weight[:, 0] if transform.map.bias is None else transform.map.bias.double()
    z = (x * output.scale) @ weight.T + bias
    active = transform.activation(z)
    u, shift = through_norm(transform.norm, active, u)
    found += [("norm shift output", shift)] if shift is not None else []
    u = u * _gate(active, z, at_zero=0.0)
    found.append(("bias output transform", (u * bias).sum(-1)))
    return u @ weight


def _gate(active: Tensor, z: Tensor, *, at_zero: float) -> Tensor:
    """act(z)/z."""
    return torch.where(z == 0, at_zero, active / torch.where(z == 0, 1.0, z))


def through_norm(
    norm: nn.Module, x: Float[Tensor, "p d"], u: Float[Tensor, "p d"]
) -> tuple[Float[Tensor, "p d"], Values | None]:
    """u·norm(x) = u'·x + shift with σ fixed at that of x: return u', and the shift if the norm has one."""
    if isinstance(norm, RmsNorm):
        root = (x.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        return (u if norm.scale is None else u * norm.scale.double()) / root, None
    assert isinstance(norm, LayerNorm)  # why_not has checked it
    variance = x.var(-1, correction=0, keepdim=True)
    deviation = (variance + norm.eps).sqrt() if norm.eps_place == "inside" else variance.sqrt() + norm.eps
    scaled = (u if norm.gain is None else u * norm.gain.double()) / deviation
    shift = None if norm.shift is None else (u * norm.shift.double()).sum(-1)
    return scaled - scaled.mean(-1, keepdim=True), shift


def _stack_parts(
    name: str, stack: StackRecord, rows: Int[Tensor, "p"], u: Float[Tensor, "p d"]
) -> Iterator[tuple[str, Values]]:
    """Backwards through a stack, from the last layer to the embedding."""
    last = stack.streams[-1][0, rows].double()
    if (final := stack.module.final_norm) is not None:
        u, shift = through_norm(final, last, u)  # type: ignore[arg-type]
        if shift is not None:
            yield f"norm shift {name}.final", shift
    for number, layer in reversed(list(enumerate(stack.layers, start=1))):
        for sublayer in reversed(layer.sublayers):
            place = f"{name}.{number}.{sublayer.name}"
            around = sublayer.around
            change = sublayer.change[0, rows].double()
            if around.place == "post":
                x = sublayer.x[0, rows].double()
                if around.project is not None:
                    x = x @ around.project.weight.double().T
                before = change + x if around.residual else change
                u, shift = through_norm(around.norm, before, u)
                if shift is not None:
                    yield f"norm shift {place}", shift
            inner = u
            if around.after is not None:
                inner, shift = through_norm(around.after, change, u)
                if shift is not None:
                    yield f"norm shift {place}", shift
            yield from reversed(list(_change_parts(place, sublayer, rows, change, inner)))
            if not around.residual:
                return  # nothing else reaches the logit on its own
            if around.project is not None:
                u = u @ around.project.weight.double()
    yield from _embedding_parts(stack, rows, u)


def _change_parts(
    place: str, sublayer: SublayerRecord, rows: Tensor, change: Tensor, u: Tensor
) -> Iterator[tuple[str, Values]]:
    """What a sublayer adds: head by head, its bias apart; or as a whole, if it is not a linear map in the end."""
    if sublayer.attentions:
        last = sublayer.attentions[-1]  # axial: only the columns' heads write to the residual stream
        out, joined = (part if last.tiles is None else last.tiles.joined(part) for part in (last.out, last.joined))
        if torch.equal(out, sublayer.change):
            first = sum(part.heads for part in sublayer.attentions[:-1])
            heads = joined[0, rows].double().view(len(rows), last.heads, -1)  # (p, h, e)
            weight = last.output_weight
            at_heads = (
                u.view(len(rows), last.heads, -1) if weight is None else torch.einsum("heo,po->phe", weight.double(), u)
            )
            values = (heads * at_heads).sum(-1)  # (p, h)
            for head in range(last.heads):
                yield f"{place}.{first + head + 1}", values[:, head]
            if last.output_bias is not None:
                yield f"bias {place}", (u * last.output_bias.double()).sum(-1)
            return
    module = sublayer.module
    if isinstance(module, StandardFeedForward | GatedFeedForward) and module.down.bias is not None:
        bias = module.down.bias.detach().double()
        yield place, (u * (change - bias)).sum(-1)
        yield f"bias {place}", (u * bias).sum(-1)
        return
    yield place, (u * change).sum(-1)


def _embedding_parts(stack: StackRecord, rows: Tensor, u: Tensor) -> Iterator[tuple[str, Values]]:
    given = stack.embedding
    module = given.module
    terms = {"embedding": module.tokens(given.inputs) * module.scale}  # (b, n, d)
    if module.ngrams is not None:
        terms["n-grams"] = module.ngrams(given.inputs, given.valid) * module.scale
    if (where := module.position(given.positions, given.end)) is not None:
        terms["position"] = where.expand_as(terms["embedding"])
    if module.segments is not None:
        segment = module.segments.weight[0] if given.segments is None else module.segments(given.segments)
        terms["segment"] = segment.expand_as(terms["embedding"])
    if module.project is not None:
        yield "bias embedding", (u * module.project.bias.detach().double()).sum(-1)
        u = u @ module.project.weight.detach().double()
    if module.norm is not None:
        whole = torch.stack([term[0, rows].double() for term in terms.values()]).sum(0)
        u, shift = through_norm(module.norm, whole, u)
        if shift is not None:
            yield "norm shift embedding", shift
    for name, term in reversed(terms.items()):
        yield name, (u * term[0, rows].double()).sum(-1)
