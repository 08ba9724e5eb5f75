"""The text of an answer while its tokens arrive: pieces that never change once they are given out."""

from clearhead.data import Codec

_HALF = "\N{REPLACEMENT CHARACTER}"
"""What the tokenizer returns for a character whose bytes are not all there yet."""


class GrowingText:
    """Turns tokens into pieces of text that join to exactly what the tokenizer makes of all of them.

    Args:
        codec: the tokenizer.

    What could still change is held back: half a character, and bytes whose meaning depends on the bytes that follow.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.tokens: list[int] = []
        """All tokens so far."""
        self.said = ""
        """All pieces so far."""

    def add(self, token: int) -> str:
        """Add a token; returns the text that is certain now and was not before, often of one token."""
        self.tokens.append(token)
        if self._codec.is_byte(token):
            return ""
        now = self._text()
        if now.endswith(_HALF) or not now.startswith(self.said):
            return ""
        return self._say(now)

    def rest(self) -> str:
        """What was held back, as no more tokens will come."""
        return self._say(self._text())

    def _text(self) -> str:
        return self._codec.decode([self.tokens])[0]

    def _say(self, now: str) -> str:
        piece = now[len(self.said) :]
        self.said = now
        return piece
