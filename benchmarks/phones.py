"""Phones in one notation: ARPAbet without stress, as the CMU dictionary has it.

espeak-ng writes IPA, in symbols of its own choice; ``ESPEAK`` says what each of them is in ARPAbet. The table is
conservative: a symbol is what the dictionary usually writes for the sound, and nothing looks at the right answer. What
two notations write differently for one sound can be folded into one (``folded``), in answers and references alike.
"""

import re

VOWELS = frozenset(["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"])
ESPEAK = {
    # consonants
    **{"p": "P", "b": "B", "t": "T", "d": "D", "k": "K", "ɡ": "G", "tʃ": "CH", "dʒ": "JH"},
    **{"f": "F", "v": "V", "θ": "TH", "ð": "DH", "s": "S", "z": "Z", "ʃ": "SH", "ʒ": "ZH", "h": "HH"},
    **{"m": "M", "n": "N", "ŋ": "NG", "l": "L", "ɹ": "R", "j": "Y", "w": "W"},
    # a flapped t, a t before a syllabic n, and sounds of other languages that English replaces
    **{"ɾ": "T", "ʔ": "T", "x": "K", "r": "R", "ɬ": "L", "nʲ": "N Y"},
    # vowels; ə, ɐ and ʌ are one phone in the dictionary, and ᵻ is the vowel of "roses"
    **{"æ": "AE", "ɑː": "AA", "ɔː": "AO", "ɔ": "AO", "oː": "AO", "ʌ": "AH", "ə": "AH", "ɐ": "AH", "ɛ": "EH"},
    **{"ɪ": "IH", "ᵻ": "IH", "i": "IY", "iː": "IY", "ʊ": "UH", "u": "UW", "uː": "UW", "ɚ": "ER", "ɜː": "ER"},
    **{"eɪ": "EY", "aɪ": "AY", "ɔɪ": "OY", "oʊ": "OW", "aʊ": "AW"},
    # one symbol for espeak-ng, two phones for the dictionary
    **{"əl": "AH L", "n̩": "AH N", "iə": "IY AH", "aɪə": "AY AH", "aɪɚ": "AY ER"},
    **{"ɑːɹ": "AA R", "ɔːɹ": "AO R", "oːɹ": "AO R", "ɛɹ": "EH R", "ɪɹ": "IH R", "ʊɹ": "UH R"},
}
"""Symbols of the voice en-us, without stress marks, in ARPAbet."""
FOLDED = (
    "ER R is ER, and R R is R (a linking r)",
    "IH before a vowel is IY",
    "IY R is IH R, UW R is UH R",
    "AY ER is AY R, AW ER is AW R",
    "AO is AA, but not before R",
    "otherwise IH is AH, but not before R (reduced vowels are written as either)",
)
"""The rules of ``folded``, in their order."""
_STRESS = re.compile("[ˈˌ]")
_BETWEEN = re.compile("[ _]+")
_LANGUAGE = re.compile(r"\([^)]*\)")
_FOLDING = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\bER R\b", "ER"),
        (r"\bR R\b", "R"),
        (rf"\bIH(?= (?:{'|'.join(sorted(VOWELS))})\b)", "IY"),
        (r"\bIY R\b", "IH R"),
        (r"\bUW R\b", "UH R"),
        (r"\b(AY|AW) ER\b", r"\1 R"),
        (r"\bAO\b(?! R\b)", "AA"),
        (r"\bIH\b(?! R\b)", "AH"),
    )
]


def without_stress(phones: str) -> str:
    """ARPAbet without the digits of stress.

    >>> without_stress("HH AH0 L OW1")
    'HH AH L OW'
    """
    return " ".join(phone.rstrip("012") for phone in phones.split())


def from_espeak(line: str) -> str:
    """What ``espeak-ng --ipa --sep=_`` wrote for a word, in ARPAbet; a symbol that is not in the table stays as it is.

    >>> from_espeak("h_ə_l_ˈoʊ")
    'HH AH L OW'
    """
    symbols = _BETWEEN.split(_STRESS.sub("", _LANGUAGE.sub("", line)).strip())
    return " ".join(ESPEAK.get(symbol, symbol) for symbol in symbols if symbol)


def folded(phones: str) -> str:
    """Phones without the differences that are a matter of notation, by the rules of ``FOLDED``.

    >>> folded("AE B ER R EY SH IH N")
    'AE B ER EY SH AH N'
    """
    for pattern, replacement in _FOLDING:
        phones = pattern.sub(replacement, phones)
    return phones
