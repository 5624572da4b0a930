"""A conversation that goes on from run to run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .errors import RunError
from .loop import CANCELLED
from .messages import Message, Usage, pending_calls, system, tool_message, user
from .policies.excerpts import CutResults


@dataclass(eq=False)
class Session:
    """The messages of one conversation (system message first, once a run has begun) and what its runs took."""

    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cut: CutResults = field(default_factory=CutResults, repr=False)
    """The whole texts of results that were too long to be shown."""
    _busy: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextmanager
    def turn(self, instruction: str, query: str) -> Iterator[list[Message]]:
        """Hold the conversation for one run: put the instruction and the query in; yields the messages.

        A query that came to nothing (the first request failed) is taken out again, so that asking once more does not
        say it twice.  Raises `RunError` when another run holds the session.
        """
        if not self._busy.acquire(blocking=False):
            raise RunError(
                "this session is in the middle of a run. Wait for it, or give each run a conversation of its own: "
                "agent(query, session=Session())"
            )
        try:
            self._begin(instruction)
            said = len(self.messages)
            self.messages.append(user(query))
            try:
                yield self.messages
            except BaseException:
                if len(self.messages) == said + 1:
                    self.messages.pop()
                raise
        finally:
            self._busy.release()

    def clear(self) -> None:
        """Forget what was said, and what it took; the instruction stays."""
        self.messages[:] = [message for message in self.messages[:1] if message["role"] == "system"]
        self.usage = Usage()
        self.cut = CutResults()

    def _begin(self, instruction: str) -> None:
        if self.messages and self.messages[0]["role"] == "system":
            self.messages[0] = system(instruction)
        else:
            self.messages.insert(0, system(instruction))
        self.messages.extend(tool_message(call, CANCELLED) for call in pending_calls(self.messages))
