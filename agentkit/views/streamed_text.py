"""Masking of a text that arrives in pieces: no part of a secret is shown before the rest of it has arrived."""

import string

from ..core.masking import MAX_SECRET_CHARS, mask

MAX_HELD_CHARS = MAX_SECRET_CHARS
"""Characters that are withheld at most."""
_KEY_CHARS = string.ascii_letters + string.digits + string.punctuation


class MaskedStream:
    """Masks a stream.  Withholds the last word, which may begin a secret, and a private key until it is complete."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add `piece` and return the masked text that can be shown."""
        text = self._held + piece
        cut = len(text.rstrip(_KEY_CHARS))
        if (begin := text.rfind("-----BEGIN")) >= 0:
            rest = text[begin:].split("-----", 4)[4:]  # after the dashes around BEGIN ... and END ...
            if not rest or len(text) - len(rest[0]) > cut:
                cut = min(cut, begin)
        if len(text) - cut > MAX_HELD_CHARS:
            text = mask(text)
            cut = len(text) - MAX_HELD_CHARS // 2
        self._held = text[cut:]
        return mask(text[:cut])

    def flush(self) -> str:
        """Return the withheld text, masked, at the end of the stream."""
        text, self._held = self._held, ""
        return mask(text)
