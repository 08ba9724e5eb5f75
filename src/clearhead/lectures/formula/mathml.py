"""Formulas for a page: MathML, which browsers draw and screen readers read without any script."""

from html import escape

from clearhead.lectures.formula.parse import Accent, Fraction, Leaf, Node, Nodes, Root, Scripts, parse
from clearhead.lectures.formula.plain import plain


def mathml(latex: str) -> str:
    """Write each line of a formula as a ``<math>`` element."""
    return "".join(_block(line) for line in latex.split(r"\\"))


def _block(latex: str) -> str:
    return f'<math display="block" alttext="{escape(plain(latex))}">{_element(parse(latex))}</math>'


def _element(node: Node) -> str:
    match node:
        case Leaf():
            return _leaf(node)
        case Nodes(parts, fenced):
            inner = [_element(part) for part in parts]
            if fenced:
                inner[0], inner[-1] = (_fence(parts[index], index) for index in (0, -1))
            return f"<mrow>{''.join(inner)}</mrow>"
        case Fraction(over, under):
            return f"<mfrac>{_element(over)}{_element(under)}</mfrac>"
        case Root(inside):
            return f"<msqrt>{_element(inside)}</msqrt>"
        case Accent(mark, inside):
            return f'<mover accent="true">{_element(inside)}<mo>{mark}</mo></mover>'
        case Scripts():
            return _scripts(node)


def _leaf(leaf: Leaf) -> str:
    text = escape(leaf.text)
    match leaf.kind:
        case "number":
            return f"<mn>{text}</mn>"
        case "letter" | "function":
            upright = text in "∂∞…⊤" or (leaf.kind == "function" and len(text) == 1)
            return f'<mi mathvariant="normal">{text}</mi>' if upright else f"<mi>{text}</mi>"
        case "word":
            return f"<mtext>{text.replace(' ', chr(0xA0))}</mtext>"  # MathML drops spaces at the ends
        case "space":
            return f'<mspace width="{0.5 * len(text) if text.startswith(chr(0x2003)) else 0.2}em"/>'
        case "large":
            return f'<mo largeop="true" movablelimits="false">{text}</mo>'
        case _:
            # only \left … \right grow with their content
            return f'<mo stretchy="false">{text}</mo>'


def _fence(node: Node, index: int) -> str:
    assert isinstance(node, Leaf)
    form = "prefix" if index == 0 else "postfix"
    return f'<mo form="{form}" fence="true" stretchy="true">{escape(node.text)}</mo>'


def _scripts(node: Scripts) -> str:
    below = isinstance(node.base, Leaf) and node.base.kind == "large"
    base = _element(node.base)
    sub = "" if node.sub is None else _element(node.sub)
    sup = "" if node.sup is None else _element(node.sup)
    if sub and sup:
        return f"<munderover>{base}{sub}{sup}</munderover>" if below else f"<msubsup>{base}{sub}{sup}</msubsup>"
    name = ("munder" if sub else "mover") if below else ("msub" if sub else "msup")
    return f"<{name}>{base}{sub}{sup}</{name}>"
