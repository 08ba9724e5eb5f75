"""A subset of LaTeX, read into a tree: letters, scripts, fractions, roots, accents, fences, words."""

import re
from dataclasses import dataclass
from typing import Literal

SYMBOLS = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "mu": "μ", "pi": "π"},
    **{"sigma": "σ", "omega": "ω", "Delta": "Δ", "ell": "ℓ", "partial": "∂", "infty": "∞", "dots": "…", "top": "⊤"},
}
OPERATORS = {
    **{"cdot": "·", "times": "×", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "in": "∈", "to": "→", "pm": "±"},
    **{"mid": "∣", "odot": "⊙", "mapsto": "↦", "perp": "⊥", "Rightarrow": "⇒", "ll": "≪", "lVert": "‖", "rVert": "‖"},
    **{"lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "{": "{", "}": "}", "sim": "∼", "propto": "∝"},
    **{"leftarrow": "←", "iff": "⇔", "parallel": "∥"},
}
LARGE = {"sum": "∑", "prod": "∏"}
FUNCTIONS = ("exp", "log", "ln", "lg", "max", "min", "tanh", "sin", "cos", "det")
DOUBLE = {"R": "ℝ", "E": "𝔼"}
SPACES = {",": "\u2009", ";": "\u2005", "quad": "\u2003", "qquad": "\u2003\u2003"}


@dataclass(frozen=True)
class Leaf:
    """One symbol, number, operator or word."""

    kind: Literal["letter", "number", "operator", "large", "function", "word", "space"]
    text: str


@dataclass(frozen=True)
class Nodes:
    """A row of nodes; ``fenced`` if the first and the last grow with their content."""

    parts: tuple["Node", ...]
    fenced: bool = False


@dataclass(frozen=True)
class Fraction:
    """A fraction."""

    over: "Node"
    under: "Node"


@dataclass(frozen=True)
class Root:
    """A square root."""

    inside: "Node"


@dataclass(frozen=True)
class Accent:
    """An accent."""

    mark: Literal["~", "^", "¯"]
    inside: "Node"


@dataclass(frozen=True)
class Scripts:
    """A base with an index, an exponent, or both."""

    base: "Node"
    sub: "Node | None"
    sup: "Node | None"


Node = Leaf | Nodes | Fraction | Root | Accent | Scripts
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:[.,]\d+)*|\s+|.")


def parse(latex: str) -> Nodes:
    """Parse one line; raise ``ValueError`` for anything outside the subset, so that no formula is shown in part."""
    parser = _Parser(_TOKEN.findall(latex))
    row = parser.row()
    if parser.next() is not None:
        raise ValueError(f"{parser.next()} has no counterpart in {latex!r}")
    return row


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def next(self) -> str | None:
        """The next token, after any space."""
        while self.tokens and self.tokens[0].isspace():
            self.tokens.pop(0)
        return self.tokens[0] if self.tokens else None

    def row(self) -> Nodes:
        """All nodes up to the closing token."""
        parts: list[Node] = []
        while self.next() not in (None, "}", "\\right"):
            parts.append(self.scripted())
        return Nodes(tuple(parts))

    def expect(self, token: str) -> None:
        """Read a required token."""
        if self.next() != token:
            raise ValueError(f"{token} is missing")
        self.tokens.pop(0)

    def scripted(self) -> Node:
        """One node with its scripts."""
        base = self.one()
        sub: Node | None = None
        sup: Node | None = None
        while (mark := self.next()) in ("_", "^", "'"):
            self.tokens.pop(0)
            if mark == "_":
                sub = self.one()
            else:
                sup = self.one() if mark == "^" else Leaf("operator", "′")
        return base if sub is None and sup is None else Scripts(base, sub, sup)

    def group(self) -> Node:
        """The content of braces."""
        self.expect("{")
        row = self.row()
        self.expect("}")
        return row.parts[0] if len(row.parts) == 1 else row

    def words(self) -> str:
        """The text of a group, unparsed."""
        self.expect("{")
        end = self.tokens.index("}")
        text = "".join(self.tokens[:end])
        del self.tokens[: end + 1]
        return text

    def one(self) -> Node:
        """The next node."""
        token = self.next()
        if token is None:
            raise ValueError("a formula ends too early")
        if token == "{":
            return self.group()
        self.tokens.pop(0)
        if token.startswith("\\"):
            return self.command(token[1:])
        if token[0].isdigit():
            return Leaf("number", token)
        if token.isalpha():
            return Leaf("letter", token)
        return Leaf("operator", {"-": "−", "*": "∗", "|": "∣"}.get(token, token))

    def command(self, name: str) -> Node:
        """The node of a command and its arguments."""
        if name in ("frac", "sqrt"):
            inside = self.group()
            return Root(inside) if name == "sqrt" else Fraction(inside, self.group())
        if name in ("tilde", "hat", "bar"):
            marks: dict[str, Literal["~", "^", "¯"]] = {"tilde": "~", "hat": "^", "bar": "¯"}
            return Accent(marks[name], self.one())
        if name in ("text", "operatorname"):
            return Leaf("word" if name == "text" else "function", self.words())
        if name == "mathbb":
            return Leaf("letter", DOUBLE[self.words()])
        if name == "left":
            opening, inside = self.one(), self.row()
            self.expect("\\right")
            return Nodes((opening, *inside.parts, self.one()), fenced=True)
        return _named(name)


def _named(name: str) -> Leaf:
    if name in SYMBOLS:
        return Leaf("letter", SYMBOLS[name])
    if name in OPERATORS:
        return Leaf("operator", OPERATORS[name])
    if name in LARGE:
        return Leaf("large", LARGE[name])
    if name in FUNCTIONS:
        return Leaf("function", name)
    if name in SPACES:
        return Leaf("space", SPACES[name])
    raise ValueError(f"\\{name} is not in the subset")
