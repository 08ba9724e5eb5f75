"""Scripts without the blanks that people read them by. Line breaks stay, as a statement may end with one."""

import re

_WORD = re.compile(r"[\w$]+")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_BLANKS = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"//.*")
_TEMPLATE_PART = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))+")
_BEFORE_A_VALUE = {"return", "typeof", "case", "in", "of"}
"""Words after which a slash begins a regular expression and is no division."""


def squeezed(code: str) -> str:
    """The same script without comments, indentation, blank lines, and blanks beside signs.

    Strings (with double quotes, as ours are), templates and regular expressions stay as they are.

    >>> squeezed('if (a  / b) {  // why\\n\\n  say(`${ a } b`, "c  d", / +/g); }')
    'if(a/b){\\nsay(`${ a } b`,"c  d",/ +/g);}'
    """
    kept: list[str] = []
    blank = False
    for piece in _pieces(code):
        if piece.isspace() and piece != "\n":
            blank = True
            continue
        last = kept[-1] if kept else "\n"
        if piece == "\n":
            if last == "\n":
                continue
        elif blank and _must_part(last[-1], piece[0]):
            kept.append(" ")
        kept.append(piece)
        blank = False
    return "".join(kept)


def _pieces(code: str) -> list[str]:
    """The script cut into words, strings, templates, regular expressions, blanks, line breaks and signs."""
    found: list[str] = []
    place, before = 0, ""  # the last piece that is not blank
    while place < len(code):
        end = _end(code, place, before)
        piece, place = code[place:end], end
        if not piece.startswith("//"):
            found.append(piece)
            before = before if piece.isspace() else piece
    return found


def _end(code: str, place: int, before: str) -> int:
    """Where the piece ends that begins at a place."""
    sign = code[place]
    if sign == "`":
        return _end_of_template(code, place)
    kinds = {'"': _STRING, " ": _BLANKS, "\t": _BLANKS}
    kind = kinds.get(sign, _WORD)
    if sign == "/":
        value = before[-1:].isalnum() or before[-1:] in ("_", "$", ")", "]", '"', "`")
        divided = value and before not in _BEFORE_A_VALUE
        kind = _COMMENT if code.startswith("//", place) else _WORD if divided else _REGEX
    match = kind.match(code, place)
    return match.end() if match else place + 1


def _end_of_template(code: str, place: int) -> int:
    """Where a template ends, with the templates in its expressions."""
    place += 1
    while code[place] != "`":
        if code.startswith("${", place):
            place, depth, before = place + 2, 1, "("
            while depth:
                end = _end(code, place, before)
                piece = code[place:end]
                depth += (piece == "{") - (piece == "}")
                before = before if piece.isspace() else piece
                place = end
        else:
            match = _TEMPLATE_PART.match(code, place)
            assert match is not None  # what else is there but text and expressions
            place = match.end()
    return place + 1


def _must_part(left: str, right: str) -> bool:
    """Whether two pieces would be read as another one without a blank between them."""
    if left in "+-" and left == right:
        return True
    return bool(_WORD.match(left) and _WORD.match(right))
