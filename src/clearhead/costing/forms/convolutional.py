"""What convolutional encoders and decoders cost (Table 1, L4.6): k·n·d² a layer."""

from sympy import Expr

from clearhead.costing.forms.attention import attention_form
from clearhead.costing.forms.feedforward import activate
from clearhead.costing.forms.inputs import Inputs, StackRole, embed
from clearhead.costing.forms.letters import B, depth, pieces
from clearhead.costing.forms.sketch import FLOAT, ONE, ZERO, Ledger, Sketch
from clearhead.costing.forms.stack import across, add_and_norm
from clearhead.recipe import ConvolutionalSpec, cost_of


def convolution_path(n: Expr, k: Expr, *, both: bool, dilated: bool = True) -> Expr:
    """Layers of kernels of k tokens that join all n positions.

    A kernel has b tokens on a side, its own included: k, or (k + 1)/2 if ``both``. With dilations 1, b, b² …, L layers
    carry a signal b^L − 1 tokens far; without, L(b − 1).
    """
    if dilated:
        return depth(n, (k + 1) / 2 if both else k)
    return pieces((1 + int(both)) * (n - 1), k - 1)


def convolve(spec: ConvolutionalSpec, x: Sketch, k: Expr) -> Sketch:
    """act(k tokens side by side · W + b): k·n·d²."""
    batch, n, d = x.shape
    if spec.dilation in ("powers", 1):
        path = convolution_path(n, k, both=not spec.causal, dilated=spec.dilation == "powers")
        x.ledger.mixes(path=path)
    else:  # tokens that are not a multiple of the dilation apart never meet
        x.ledger.count("sequential", ONE)
    windows = x.beside(x, batch, n, k * d)
    return activate(spec, windows.linear(d, bias=spec.bias, name="map"))


class ConvolutionalForm:
    """An encoder, or a decoder, of convolutions."""

    def __init__(self, spec: ConvolutionalSpec) -> None:
        self.spec = spec

    def run(self, ledger: Ledger, inputs: Inputs, role: StackRole) -> Sketch:
        """All tokens of the inputs; with ``so_far`` they follow those that the cache holds."""
        spec = self.spec
        k = ledger.letters("k", spec.kernel, role.part)
        setting, cross = across(ledger, role, stored=role.stored), None if role.cross is None else role.cross.attention
        with ledger.block(role.name) as block:
            x = embed(ledger, spec, inputs, role, position=spec.position, norm=spec.norm)
            if cross is not None:
                attention_form(cross).shared(cross, ledger, x.shape[-1], "cross")
            if role.so_far is not None:  # each layer keeps as many inputs as its kernel reaches back
                ledger.count("cache", sum(spec.reach(one)[0] for one in spec.dilations()) * B * x.shape[-1] * FLOAT)

            def one(y: Sketch) -> Sketch:
                y = add_and_norm(spec, "convolution", lambda z: convolve(spec, z, k), y)
                if cross is None:
                    return y
                return add_and_norm(spec, "cross", lambda z: cost_of(cross)(cross, z, role.memory, setting=setting), y)

            again = ledger.computed_again(one, role.memory)
            x = ledger.repeat("layers", spec.layers, ledger.letters("L", spec.layers, role.part), again, x)
            if spec.norm.has_final:
                x = ledger.measured("final_norm", lambda y: cost_of(spec.norm)(spec.norm, y), x)
            block.span = x.time
        return x

    def out_width(self, ledger: Ledger) -> Expr:
        """Features of the vectors that an encoder hands on."""
        return ledger.letters("d", self.spec.width, "enc")

    def prepare(self, ledger: Ledger, role: StackRole) -> None:
        """What decoding does once: the memory's keys and values in every layer."""
        width = ledger.letters("d", self.spec.width, role.part)
        with ledger.block(role.name), ledger.block("layers") as layers:
            layers.times = ledger.letters("L", self.spec.layers, role.part)
            if role.cross is not None:
                with ledger.block("cross"):  # no queries yet
                    none = ledger.input(B, ZERO, width)
                    cross = role.cross.attention
                    cost_of(cross)(cross, none, role.memory, setting=across(ledger, role, stored=False))
