"""The judge of requests: as strict as the providers themselves, so that what passes here passes there."""

from .rules import anthropic, gemini, openai
from .rules.invalid import Invalid, Json, parse_body

__all__ = ["Invalid", "RequestChecker", "parse_body"]

_CHECKS = {"openai": openai.check, "anthropic": anthropic.check, "gemini": gemini.check}
_REMEMBERS = {"anthropic": anthropic.remember, "gemini": gemini.remember}


class RequestChecker:
    """Judges the requests to one server by the rules of the wire they came on.

    It remembers what replies brought that has to come back unchanged: thinking blocks and signatures.
    """

    def __init__(self) -> None:
        self._issued: Json = {}

    def check(self, wire: str, body: Json) -> None:
        """Raise `Invalid` when the provider would refuse the request."""
        try:
            if wire in _CHECKS:
                _CHECKS[wire](body, self._issued)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise Invalid(f"The request has not the documented form: {type(error).__name__}: {error}") from error

    def remember(self, wire: str, reply: Json) -> None:
        """Take note of a whole reply, in the provider's format."""
        if wire in _REMEMBERS:
            _REMEMBERS[wire](reply, self._issued)
