"""How much a vector depends on a token: the derivative, measured (L1.2, L2.1).

Shapes: n tokens, d features out, e features of an embedding.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def influence(stack: nn.Module, ids: Int[Tensor, "1 n"], place: int = -1) -> Float[Tensor, "n"]:
    """‖∂h/∂x_t‖ for every token t: how far vector ``place`` of an encoder or decoder moves with each embedding.

    h is what the stack makes of the token at ``place``, x_t the embedding of token t; the norm is Frobenius', over all
    pairs of features. A recurrent net hardly encodes far tokens (L1.2): the norm fades with the distance; attention
    reaches every token in one layer (L2.1).
    """
    embedded: list[Tensor] = []
    hook = stack.get_submodule("embedding").register_forward_hook(lambda _module, _inputs, out: embedded.append(out))
    try:
        with torch.enable_grad():
            vector: Tensor = stack(ids)[0, place]  # (d,)
            rows = [
                torch.autograd.grad(feature, embedded, retain_graph=True)[0][0] for feature in vector
            ]  # d of (n, e)
    finally:
        hook.remove()
    norms: Tensor = torch.stack(rows).square().sum((0, 2)).sqrt()
    return norms
