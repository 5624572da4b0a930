"""What a provider said in its own words, beside litellm's reading of it: asked of litellm's hook for loggers."""

import inspect
from collections.abc import Callable
from typing import Any


class RawReply:
    """The body of a reply that was not streamed, or of an error; `body` is None where none was heard, or no text."""

    def __init__(self) -> None:
        self.has_arrived = False
        self.body: str | None = None

    def make_logger(self, other: Any = None) -> Callable[[dict[str, Any]], None]:
        """litellm's option `logger_fn`; `other` is called as well, if it can be.

        A plain function, since litellm copies what it is given.
        """

        def log(details: dict[str, Any]) -> None:
            if callable(other):
                other(details)
            body = details.get("original_response")
            is_first = details.get("log_event_type") == "post_api_call" and not self.has_arrived
            if is_first and not inspect.iscoroutine(body) and body not in _PLACEHOLDER_BODIES:
                self.has_arrived = True
                self.body = body if isinstance(body, str) else None

        return log


_PLACEHOLDER_BODIES = ("first stream response received",)
