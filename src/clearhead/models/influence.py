"""How much an output vector depends on an input token, by the derivative (L1.2, L2.1).

Shapes: n tokens, d features of the output, e features of an embedding.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def influence(stack: nn.Module, ids: Int[Tensor, "1 n"], place: int = -1) -> Float[Tensor, "n"]:
    """‖∂h/∂x_t‖ for every token t, where h is the output at ``place`` and x_t the embedding of token t.

    The norm is the Frobenius norm over all pairs of features. In a recurrent network it fades with the distance, as far
    tokens are hardly encoded (L1.2); attention reaches every token in one layer (L2.1).

    Args:
        stack: an encoder or a decoder.
        ids: one line of token ids.
        place: the output vector. Default: the last one.
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
