"""Formulas: the subset of LaTeX, as MathML and as text."""

import xml.etree.ElementTree as ET

import pytest

from clearhead.lectures import claims
from clearhead.lectures.formula import mathml, plain


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V", "softmax(QKᵀ/√d_k)V"),
        (r"\sum_{i=1}^{m}\alpha_i v_i", "Σ_{i=1}^m α_i v_i"),
        (r"\frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}", "(x − μ)/√(σ² + ε)"),
        (r"4nd^2+2n^2d", "4nd² + 2n²d"),
        (r"W\in\mathbb{R}^{h\tilde d_v\times d_o}", "W ∈ ℝ^{hd̃_v×d_o}"),
        (r"p(y_l\mid y_{<l})", "p(y_l∣y_{<l})"),
        (r"-\ln x", "−ln x"),
        (r"a=b\\c=d", "a = b\nc = d"),
    ],
)
def test_plain_text(latex: str, text: str) -> None:
    assert plain(latex) == text


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id)
def test_every_formula_is_well_formed(claim: object) -> None:
    latex: str = claim.latex  # type: ignore[attr-defined]
    lines = ET.fromstring(f"<all>{mathml(latex)}</all>")
    assert len(lines) == len(latex.split(r"\\"))
    for line in lines:
        assert line.get("alttext")
        for fraction in line.iter("mfrac"):
            assert len(fraction) == 2
        for node in (*line.iter("msub"), *line.iter("msup"), *line.iter("mover"), *line.iter("munder")):
            assert len(node) == 2
        for node in (*line.iter("msubsup"), *line.iter("munderover")):
            assert len(node) == 3


def test_mathml_has_the_structure_of_the_formula() -> None:
    assert mathml(r"\frac{a}{\sqrt{2}}") == (
        '<math display="block" alttext="a/√2"><mrow><mfrac><mi>a</mi><msqrt><mn>2</mn></msqrt></mfrac></mrow></math>'
    )
    assert "<munderover>" in mathml(r"\sum_{i=1}^{n}x_i")
    assert 'stretchy="true"' in mathml(r"\left(x\right)")
    assert 'stretchy="true"' not in mathml(r"(x)")


@pytest.mark.parametrize("latex", [r"\unknown", r"\frac{a}", r"{a", r"a}", r"\left(a", "x^"])
def test_what_is_not_in_the_subset_is_refused(latex: str) -> None:
    with pytest.raises(ValueError, match=r"subset|missing|counterpart|early"):
        plain(latex)
