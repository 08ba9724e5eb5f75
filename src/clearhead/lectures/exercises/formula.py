"""Formulas as a student types them: numbers, letters, + − * / ** and a few functions. Nothing is executed as code."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

HIGHEST = 100.0
"""The largest exponent: higher ones only keep the machine busy."""


def _power(base: float, exponent: float) -> Any:
    if abs(exponent) > HIGHEST:
        raise NotAFormula("the exponent is too large")
    return base**exponent


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt,
    "log": math.log,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "ceil": math.ceil,
    "floor": math.floor,
}
_SIGNS = str.maketrans({"·": "*", "×": "*", "−": "-", "^": "**", "²": "**2", "³": "**3"})
LONGEST = 200


class NotAFormula(ValueError):
    """What was typed cannot be read as a formula; the message says why."""


def formula(text: str, names: tuple[str, ...]) -> Callable[..., float]:
    """The function of these names that a formula describes.

    >>> formula("4·n·d² + 2·n²·d", ("n", "d"))(10, 2)
    560
    """
    if len(text) > LONGEST:
        raise NotAFormula("it is too long")
    try:
        tree = ast.parse(text.strip().translate(_SIGNS), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise NotAFormula("it cannot be read; write products with *, powers with **: 4*n*d**2") from None
    _value(tree, dict.fromkeys(names, 2.0), only_names=True)

    def answer(*values: float) -> float:
        found: float = _value(tree, dict(zip(names, values, strict=True)))
        return found

    return answer


def _value(node: ast.expr, letters: Mapping[str, float], *, only_names: bool = False) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name):
        return _letter(node.id, letters)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        operand = _value(node.operand, letters, only_names=only_names)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = (_value(side, letters, only_names=only_names) for side in (node.left, node.right))
        return 1.0 if only_names else _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id not in _FUNCTIONS:
            raise NotAFormula(f"{node.func.id} is not a known function (there are: {', '.join(_FUNCTIONS)})")
        given = [_value(argument, letters, only_names=only_names) for argument in node.args]
        return 1.0 if only_names else _FUNCTIONS[node.func.id](*given)
    raise NotAFormula("it cannot be read; write products with *, powers with **: 4*n*d**2")


def _letter(name: str, letters: Mapping[str, float]) -> float:
    if name in letters:
        return letters[name]
    if name in ("pi", "e"):
        return float(getattr(math, name))
    known = f" (there are: {', '.join(letters)})" if letters else ""
    raise NotAFormula(f"{name} is not known{known}")
