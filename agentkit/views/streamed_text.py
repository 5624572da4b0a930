"""A text that comes in pieces, given out without secrets: no half of one is shown before the other half is there."""

import string

from ..core.masking import MAX_SECRET_CHARS, mask

MOST_HELD = MAX_SECRET_CHARS
"""Characters that are held back at most."""
_OF_KEYS = string.ascii_letters + string.digits + string.punctuation


class Pieces:
    """Holds the last word back, for it may be the beginning of a secret, and a private key until it is whole."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, piece: str) -> str:
        """What can be shown now that `piece` has come."""
        text = self._held + piece
        cut = len(text.rstrip(_OF_KEYS))
        if (begin := text.rfind("-----BEGIN")) >= 0:
            rest = text[begin:].split("-----", 4)[4:]  # behind the dashes around BEGIN ... and END ...
            if not rest or len(text) - len(rest[0]) > cut:
                cut = min(cut, begin)
        if len(text) - cut > MOST_HELD:
            text = mask(text)
            cut = len(text) - MOST_HELD // 2
        self._held = text[cut:]
        return mask(text[:cut])

    def rest(self) -> str:
        """What was held back, when no more comes."""
        text, self._held = self._held, ""
        return mask(text)
