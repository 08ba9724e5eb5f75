"""Names of a model's parts: which weights ``training.freeze`` and ``training.adapters`` mean. Nothing here needs torch.

A weight has an address, the names of the blocks around it and its own: ``encoder.2.attention.query.weight`` is the
weight of W_Q in the encoder's second layer. A pattern names some blocks in a row, and means every weight whose address
has them:

embedding           everything in every embedding
encoder             the encoder, its embedding included
encoder.1-3         its first three layers
cross.query         W_Q of the cross-attention in every layer
decoder.*.norm      one name of any letters between the two
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from re import fullmatch

from clearhead.errors import Problem, RecipeError, did_you_mean

Address = tuple[str, ...]
_LAYERS = "layers"
_OWN = ("weight", "bias", "gain", "shift", "direction")
"""What weights themselves are called: no parts that anybody would look for."""


def address_of(name: str) -> Address:
    """The address of a weight, from its name in a module: layers lose the word and are counted from 1.

    >>> address_of("encoder.layers.1.attention.query.weight")
    ('encoder', '2', 'attention', 'query', 'weight')
    """
    words = name.split(".")
    return tuple(
        str(int(word) + 1) if number and words[number - 1] == _LAYERS and word.isdigit() else word
        for number, word in enumerate(words)
        if word != _LAYERS
    )


def means(pattern: str, address: Sequence[str]) -> bool:
    """Whether a pattern means the weight at this address.

    >>> means("encoder.1-3", address_of("encoder.layers.2.attention.query.weight"))
    True
    >>> means("attention", address_of("encoder.layers.2.around_attention.norm.gain"))
    False
    """
    words = pattern.split(".")
    starts = range(len(address) - len(words) + 1)
    return any(all(_same(word, address[start + place]) for place, word in enumerate(words)) for start in starts)


def means_any(patterns: Iterable[str], address: Sequence[str]) -> bool:
    """Whether one of these patterns means the weight at this address."""
    return any(means(pattern, address) for pattern in patterns)


def tells_layers_apart(pattern: str, stack: str, layer: int) -> bool:
    """Whether a pattern names a layer of a stack, counted from 1: what it means may differ from one to another."""
    words = pattern.split(".")
    return any(
        _same(word, str(layer)) and (place == 0 or _same(words[place - 1], stack)) for place, word in enumerate(words)
    )


def require_parts(setting: str, patterns: Iterable[str], addresses: Iterable[Address], what: str) -> None:
    """Refuse patterns that mean nothing, and say what there is.

    Args:
        setting: the setting that holds the patterns.
        patterns: the patterns.
        addresses: the addresses of everything that they may mean.
        what: what that is, in words: ``part``, ``linear map``.
    """
    known = list(addresses)
    parts = part_names(known)
    problems = [
        Problem(
            "",
            f'{setting} = ["{pattern}"]',
            f"no such {what}{did_you_mean(pattern, parts)} (there are: {', '.join(parts) or 'none'})",
        )
        for pattern in patterns
        if not any(means(pattern, address) for address in known)
    ]
    if problems:
        raise RecipeError(problems)


def part_names(addresses: Iterable[Address]) -> list[str]:
    """Names that mean something: the blocks of a model, its layers as ranges, then the blocks inside of layers."""
    outer: dict[str, int] = {}
    inner: dict[str, None] = {}
    for address in addresses:
        for depth, word in enumerate(address[:-1] if address[-1] in _OWN else address):
            if word.isdigit():
                stack = ".".join(address[:depth])
                outer[stack] = max(outer.get(stack, 0), int(word))
                inner |= dict.fromkeys(part for part in address[depth + 1 :] if part not in _OWN)
                break
            outer.setdefault(".".join(address[: depth + 1]), 0)
    ranges = [name for part, layers in outer.items() for name in (part, f"{part}.1-{layers}") if layers or name == part]
    return [*ranges, *(name for name in inner if name not in ranges)]


def _same(word: str, name: str) -> bool:
    if (bounds := fullmatch(r"(\d{1,6})-(\d{1,6})", word)) and name.isdigit():
        return int(bounds[1]) <= int(name) <= int(bounds[2])
    return fnmatchcase(name, word)
