"""Formulas: numbers put in, arithmetic, comparison, how they are written."""

import pytest
import sympy

from clearhead.costing import B, Formula, cost, letter, lg, m, n, t
from clearhead.costing.crossovers import meet
from clearhead.costing.forms.formula import total_over_steps
from clearhead.costing.forms.letters import Letters, later, latest
from clearhead.costing.forms.text import tidy
from clearhead.costing.forms.views import asymptotic

d = letter("d")


def test_numbers_are_put_in_bit_by_bit() -> None:
    work = Formula(4 * B * n * d**2 + 2 * B * n**2 * d, {d: 16})
    assert work.at(n=10, batch=2) == 2 * (4 * 10 * 256 + 2 * 100 * 16)
    half = work.at(n=10)
    assert half == Formula(13440 * B)
    assert half.at(B=3) == 3 * 13440
    with pytest.raises(ValueError, match="no letter 'x'"):
        work.at(x=3)


def test_formulas_add_and_compare_by_what_they_are_worth() -> None:
    """Letters that stand for two sizes become numbers, so that sums over models are right."""
    small, large = Formula(n * d, {d: 16}), Formula(n * d, {d: 32})
    assert (small + large).at(n=2) == 2 * 48
    assert (large - small).at(n=2) == 2 * 16
    assert (small * 2) == large
    assert bool(small < large)
    assert bool(large >= small)
    assert small != large
    assert hash(small * 2) == hash(large)
    assert (small < 100).free_symbols == {n}  # depends on n
    both = cost("tiny") + cost("small")
    assert both.parameters.at() == cost("tiny").parameters.at() + cost("small").parameters.at()


def test_formulas_are_written_for_people_and_for_papers() -> None:
    work = Formula(4 * B * n * d**2 + 2 * B * n**2 * d)
    assert str(work) == "B·(2·n²·d + 4·n·d²)"
    assert work._repr_latex_() == "$4 B d^{2} n + 2 B d n^{2}$"
    assert tidy(2 * lg(d) + 9) == "2·lg(d) + 9"
    assert tidy(n * (n + 1) / 2 - n) == "n²/2 − n/2"
    assert tidy(d / letter("h") - 3) == "d/h − 3"
    assert tidy(n * lg(n) - 2 ** lg(n) + 1) == "n·lg(n) + 1 − 2^lg(n)"
    assert Formula(lg(n)).latex == r"\left\lceil \log_2 n \right\rceil"
    assert Formula(latest(n, m)).latex == r"\max\left(n, m\right)"


def test_logarithms_are_rounded_up() -> None:
    assert [lg(size) for size in (1, 2, 3, 4, 5, 8, 9, 1024, 1025)] == [0, 1, 2, 2, 3, 3, 4, 10, 11]


def test_the_later_of_two_times_is_decided_where_it_can_be() -> None:
    assert later(3 + lg(n), 2 + lg(n)) == 3 + lg(n)
    assert later(lg(n), lg(n) + lg(d)) == lg(n) + lg(d)
    open_ = later(lg(n), lg(m))
    assert open_ == latest(lg(n), lg(m))
    assert open_.xreplace({n: sympy.Integer(8), m: sympy.Integer(2)}) == 3
    assert later(open_ + 1, lg(n)) == open_ + 1  # a maximum is not less than what it is taken of


def test_steps_are_summed_in_closed_form() -> None:
    """Powers of t and ⌈log₂ t⌉, against the sum itself."""
    step = 5 + 3 * t + 2 * t**2 + 7 * lg(t)
    for first, last in ((1, 1), (1, 9), (4, 16), (17, 40)):
        total = total_over_steps(step, n + 1, m).xreplace({n: sympy.Integer(first - 1), m: sympy.Integer(last)})
        assert total.doit() == sum(step.xreplace({t: sympy.Integer(now)}) for now in range(first, last + 1))


def test_a_sum_with_a_maximum_stays_a_sum_until_its_ends_are_numbers() -> None:
    """Evaluated against the sum itself; t in another formula does not reach inside."""
    for step in (latest(3 * lg(t) + 1, lg(n) + 5), latest(t, n) + 2 * t * lg(t), latest(lg(t), lg(n)) * lg(t)):
        total = Formula(total_over_steps(step, n + 1, m))
        for first, last in ((2, 2), (2, 9), (4, 16), (17, 40)):
            place = {n: sympy.Integer(first - 1), m: sympy.Integer(last)}
            steps = [step.xreplace(place | {t: sympy.Integer(now)}) for now in range(first, last + 1)]
            assert total.at(n=first - 1, m=last, t=3) == sum(steps)
    written = Formula(total_over_steps(latest(lg(t), n), sympy.Integer(1), m))
    assert str(written) == "Σ(t = 1 … m; max(lg(t), n))"
    assert asymptotic(written.expression) == m * n + m * lg(m)


def test_growth_keeps_what_no_other_term_outgrows() -> None:
    assert asymptotic(3 * n**2 * d + 7 * n * d**2 + 5 * n * d + 9) == n**2 * d + n * d**2
    assert asymptotic(3 * n**2 * d + 7 * n * d**2, [n]) == n**2
    assert asymptotic(n + lg(n)) == n
    assert asymptotic(n * lg(n) + 4 * n) == n * lg(n)
    assert asymptotic(sympy.Integer(7)) == 1
    assert asymptotic(lg(d / letter("h")) + lg(d)) == lg(d)


def test_letters_tell_parts_apart_only_where_they_differ() -> None:
    letters = Letters()
    assert letters("d", 512, "enc") == letters("d", 512, "dec") == d
    assert letters("d", 256, "dec") == letter("d_dec")
    uneven = cost("tiny", "model.encoder.width=64", "model.decoder.layers=2")
    names = {symbol.name: int(size) for symbol, size in uneven.sizes.items()}
    assert (names["d"], names["d_dec"], names["L"], names["L_dec"]) == (64, 128, 4, 2)


def test_crossings_are_found_wherever_they_are() -> None:
    """One at each sign change; curves that meet twice cross twice; curves that do not cross say so."""
    cubic, line = Formula((n - 10) * (n - 100) * n + 0 * n), Formula(0 * n)
    found = meet(cubic, line, names=("A", "B"))
    assert [(place.at, place.cheaper) for place in found.crossings] == [(11, "A"), (101, "B")]
    assert not meet(Formula(n), Formula(2 * n), names=("A", "B")).crossings
    steps = meet(Formula(lg(n)), Formula(sympy.Integer(10)), names=("A", "B"))
    assert [place.at for place in steps.crossings] == [1025]


def test_blocks_are_found_by_name() -> None:
    base = cost("transformer-base")
    assert base["encoder"]["layers"]["attention"].path == 1
    with pytest.raises(KeyError, match="there are: embedding, layers"):
        base["encoder"]["atention"]
    assert "lg" not in str(base.parameters)
    assert base._repr_latex_() == base.macs._repr_latex_()
