"""How much memory a look takes, said before it is taken; what is too much is refused.

Shapes: n source tokens, m inputs of the decoder, d features, V entries of the vocabulary.
"""

from clearhead.errors import DoesNotFit
from clearhead.inspection.gates import headed_attentions
from clearhead.machine import require_memory, shown_bytes
from clearhead.models import Model

MOST_TOKENS = 1024
"""Tokens of source or answer that are looked at: every head has a matrix of their square."""
_FLOAT = 4
_COPIES = 3
"""Of every matrix: the weights as recorded, over tokens, and their norms."""
_STREAMS = 10
"""Vectors of a token in one layer: what goes into and out of each sublayer, its queries, keys and values."""


def look_bytes(model: Model, source: int, inputs: int) -> int:
    """Bytes that a look at this many source tokens and decoder inputs takes, roughly.

    Args:
        model: the model.
        source: tokens that the encoder reads, n; 0 for a language model.
        inputs: tokens that the decoder reads, m; 0 without a decoder.
    """
    pairs = {"encoder": source * source, "decoder": inputs * inputs, "cross": inputs * source}
    matrices = sum(attention.heads * pairs[attention.stack] for attention in headed_attentions(model))
    vectors = 0
    for name, length in (("encoder", source), ("decoder", inputs)):
        stack = getattr(model, name, None)
        layers = getattr(stack, "layers", ())
        width = max((weight.shape[-1] for weight in (stack.parameters() if stack is not None else ())), default=0)
        vectors += _STREAMS * len(layers) * length * width
    output = getattr(model, "output", None)
    entries = len(output.weight) if output is not None else 0
    logits = 3 * entries * (inputs or source)
    return _FLOAT * (_COPIES * matrices + vectors + logits)


def require_room(model: Model, source: int, inputs: int) -> int:
    """Return the bytes that a look takes; raise ``DoesNotFit`` if it is too large, or for too many tokens."""
    needed = look_bytes(model, source, inputs)
    longest = max(source, inputs)
    what = f"looking at {longest:,} tokens"
    if longest > MOST_TOKENS:
        raise DoesNotFit(
            f"{what} would take about {shown_bytes(needed)}, as every head has a matrix of {longest:,} × {longest:,}: "
            f"look at a part of the text, of {MOST_TOKENS:,} tokens at most"
        )
    require_memory(needed, what, "look at a shorter text, or at a smaller model")
    return needed


def require_room_to_read(model: Model, read: int) -> None:
    """The same before an answer is generated, when only what the model reads is known."""
    decodes = getattr(model, "encoder", None) is None
    require_room(model, 0 if decodes else read, read if decodes else 0)
