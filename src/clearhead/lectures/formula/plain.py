"""Formulas for a terminal, as one line of Unicode."""

from clearhead.lectures.formula.parse import Accent, Fraction, Leaf, Node, Nodes, Root, Scripts, parse

_SUPER = dict(zip("0123456789n⊤′", "⁰¹²³⁴⁵⁶⁷⁸⁹ⁿᵀ′", strict=True))
_SUB = dict(zip("0123456789", "₀₁₂₃₄₅₆₇₈₉", strict=True))
_SPACED = "=≤≥≠≈∈→⇒⇔≪←∼∝+∥⊥↦"


def plain(latex: str) -> str:
    r"""Write each line of a formula as one line of Unicode.

    >>> plain(r"\operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V")
    'softmax(QKᵀ/√d_k)V'
    >>> plain(r"\sum_{i=1}^{m} \alpha_i v_i = O(n^2 d)")
    'Σ_{i=1}^m α_i v_i = O(n²d)'
    """
    return "\n".join(" ".join(_text(parse(line)).split(" ")).strip() for line in latex.split(r"\\"))


def _text(node: Node) -> str:
    match node:
        case Leaf():
            return _leaf(node)
        case Nodes():
            return _join(node)
        case Fraction(over, under):
            return f"{_bracketed(over)}/{_whole(under)}"
        case Root(inside):
            return f"√{_whole(inside)}"
        case Accent(mark, inside):
            return _text(inside) + {"~": "\u0303", "^": "\u0302", "¯": "\u0304"}[mark]
        case Scripts():
            return _scripts(node)


def _leaf(leaf: Leaf) -> str:
    if leaf.kind == "large":
        return {"∑": "Σ", "∏": "Π"}[leaf.text]
    if leaf.kind == "space":
        return "   " if leaf.text.startswith("\u2003") else " "
    return leaf.text


def _join(row: Nodes) -> str:
    text = ""
    for index, part in enumerate(row.parts):
        piece = _text(part)
        if isinstance(part, Leaf) and part.kind == "operator":
            minus = part.text == "−" and index > 0 and not _opens(row.parts[index - 1])
            if part.text in _SPACED or minus:
                piece = f" {piece} "
            elif part.text in ",;":
                piece = f"{part.text} "
        elif (
            index and piece[:1].isalnum() and (_ends_low(row.parts[index - 1]) or _is_name(row.parts[index - 1], part))
        ):
            piece = f" {piece}"
        text = text.rstrip() + piece if piece.startswith(" ") and text.endswith(" ") else text + piece
        if isinstance(part, Scripts) and isinstance(part.base, Leaf) and part.base.kind == "large":
            text += " "
    return text


def _opens(node: Node) -> bool:
    """Whether a minus after this belongs to the number that follows."""
    return isinstance(node, Leaf) and node.kind == "operator" and node.text not in (")", "]", "…", "′")


def _ends_low(node: Node) -> bool:
    """Whether a letter after this would read as part of its index."""
    return isinstance(node, Scripts) and _text(node)[-1].isalpha()


def _is_name(left: Node, right: Node) -> bool:
    """Whether two neighbours would read as one word."""
    named = [part.base if isinstance(part, Scripts) else part for part in (left, right)]
    kinds = [part.kind if isinstance(part, Leaf) else "" for part in named]
    return "function" in kinds and kinds[0] in ("function", "letter", "number")


def _scripts(node: Scripts) -> str:
    base = _text(node.base)
    large = isinstance(node.base, Leaf) and node.base.kind == "large"
    for mark, script, letters in (("_", node.sub, _SUB), ("^", node.sup, _SUPER)):
        if script is None:
            continue
        text = _text(script).replace(" ", "")
        if not large and all(letter in letters for letter in text):
            base += "".join(letters[letter] for letter in text)
        else:
            base += f"{mark}{text}" if isinstance(script, Leaf | Accent) else f"{mark}{{{text}}}"
    return base


def _whole(node: Node) -> str:
    """Add parentheses around anything but a single term; ∂x is one."""
    text = _text(node)
    several = isinstance(node, Nodes) and len(node.parts) > (2 if text.startswith("∂") else 1)
    return f"({text})" if several else text


def _bracketed(node: Node) -> str:
    """Add parentheses around a sum or a product above a fraction."""
    text = _text(node)
    simple = not isinstance(node, Nodes) or not any(letter in text for letter in " /·×−∣")
    return text if simple else f"({text})"
