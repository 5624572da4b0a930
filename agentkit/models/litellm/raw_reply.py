"""The provider's raw response body, read through litellm's hook for loggers."""

import inspect
from collections.abc import Callable
from typing import Any


class RawReply:
    """The body of an unstreamed reply or of an error.

    `has_arrived` tells whether a response arrived. `body` is its text; None without a response or for other types.
    """

    def __init__(self) -> None:
        self.has_arrived = False
        self.body: str | None = None

    def make_logger(self, other: Any = None) -> Callable[[dict[str, Any]], None]:
        """Return the function for litellm's option `logger_fn`, which calls `other` too, if that is callable.

        It is a plain function because litellm copies the option's value.
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
