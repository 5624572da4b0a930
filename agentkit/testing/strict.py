"""Validation of requests as strict as the providers' own, so that a request that passes here passes there."""

from .rules import anthropic, gemini, openai, responses
from .rules.invalid import Invalid, Json, parse_body

__all__ = ["Invalid", "RequestChecker", "parse_body"]

_CHECKS = {
    "openai": openai.check,
    "groq": openai.check_groq,
    "responses": responses.check,
    "anthropic": anthropic.check,
    "gemini": gemini.check,
}
_REMEMBERS = {"responses": responses.remember, "anthropic": anthropic.remember, "gemini": gemini.remember}


class RequestChecker:
    """Validate the requests to one server by the rules of each request's wire format.

    Thinking blocks, reasoning items and signatures of replies are stored, because they must come back unchanged.
    """

    def __init__(self) -> None:
        self._issued: Json = {}

    def check(self, wire: str, body: Json) -> None:
        """Raise `Invalid` if the provider would refuse the request."""
        try:
            if wire in _CHECKS:
                _CHECKS[wire](body, self._issued)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise Invalid(f"The request does not have the documented form: {type(error).__name__}: {error}") from error

    def remember(self, wire: str, reply: Json) -> None:
        """Store the parts of a whole reply, in the provider's format, that must come back."""
        if wire in _REMEMBERS:
            _REMEMBERS[wire](reply, self._issued)
