"""A conversation that goes on from run to run, and from process to process."""

import asyncio
import json
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.display import display_with
from ..core.errors import Paused, RunError
from ..core.masking import mask_data
from ..core.messages import Message, ToolCall, Usage, pending_calls, sort_results, system, tool_message, user
from ..engine.history import repair_history
from ..engine.loop import CANCELLED, is_open
from ..policies.approval import Approvals, Decision
from ..policies.long_results import TruncatedResults
from .journal.conversation import Changed, JournaledConversation, Uncertain
from .journal.reader import open_named, open_run
from .journal.store import Journal
from .session_file import FORMAT, REMEDY, VERSION, encode_session, validate_saved, write_atomically

NOT_RUN = "Not run: the call waited for approval, and the conversation went on without it."
MAX_LOOP_ROUNDS = 50
"""Rounds of the event loop in which a stream that was left half-way can close itself."""


@dataclass(eq=False)
class Session:
    """One conversation: its messages (system message first, once a run has begun) and what its runs took.

    Messages may come from outside: what a provider would refuse in them is repaired when a run begins.
    """

    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cut: TruncatedResults = field(default_factory=TruncatedResults, repr=False)
    """The whole texts of results that were too long to be shown."""
    inbox: deque[str] = field(default_factory=deque, repr=False)
    """What was said to the model and is in no request yet."""
    approvals: Approvals = field(default_factory=Approvals, repr=False)
    handed: list[str] = field(default_factory=list, repr=False)
    """The names under which the last run was handed on, from agent to agent."""
    journaled: JournaledConversation | None = field(default=None, repr=False)
    """The conversation in a journal, if its runs are kept."""
    _busy: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _own: list[Message] = field(default_factory=list, repr=False)
    """The messages as the last run left them."""

    def __post_init__(self) -> None:
        self.messages = [*self.messages]  # what was given stays as it is

    def say(self, text: str) -> None:
        """Add a message for the model: it reads it with its next request, during a run too; from any thread."""
        self.inbox.append(text)

    @property
    def waiting(self) -> list[ToolCall]:
        """The calls that wait for a decision; one of an agent inside a tool has the id "outer id/inner id"."""
        own = [call for call in pending_calls(self.messages) if call.id in self.approvals.waiting]
        inner = [
            replace(call, id=f"{identity}/{call.id}")
            for identity, session in self.approvals.nested.items()
            for call in session.waiting
        ]
        return own + inner

    @contextmanager
    def turn(
        self, instruction: str, query: str | None = None, approvals: Mapping[str, Decision] | None = None
    ) -> Iterator[list[Message]]:
        """Hold the conversation for one run: put the instruction and the query in; yields the messages.

        Without a query the run goes on where the last one stopped: calls without a result are run first, with what
        `approvals` decides about them, by their ids.  With one they are cancelled.  A query that came to nothing (the
        first request failed) is taken out again, so that asking once more does not say it twice.  Raises `RunError`
        when another run holds the session, and when there is nothing to go on with.
        """
        if not self._busy.acquire(blocking=False):
            raise RunError(
                "this session is in the middle of a run. Wait for it (or close the stream that was left half-way), or "
                "give each run a conversation of its own: agent(query, session=Session())"
            )
        try:
            said = list(self.inbox) if query is not None else []
            asked = self._begin(instruction, query, approvals or {})
            try:
                yield self.messages
            except Paused as pause:
                pause.session, pause.calls = self, tuple(self.waiting)
                raise
            except BaseException:
                if asked is not None and self.messages[-1] is asked:
                    self.messages.pop()
                    self.inbox.extendleft(reversed(said))
                raise
        finally:
            self._own = list(self.messages)
            self._busy.release()

    async def wait_until_free(self) -> None:
        """Let a stream on this session that was left in this moment close itself; the event loop does that in a while.

        It returns when no run holds the session, or after a few moments.
        """
        for _ in range(MAX_LOOP_ROUNDS):
            if not self._busy.locked():
                return
            await asyncio.sleep(0)

    def clear(self) -> None:
        """Forget what was said, and what it took; the instruction stays.  Raises `RunError` in the middle of a run."""
        if self._busy.locked():
            raise RunError("this session is in the middle of a run: it can be cleared when the run is over")
        self.messages[:] = [message for message in self.messages[:1] if message["role"] == "system"]
        self.usage = Usage()
        self.cut = TruncatedResults()
        self.inbox.clear()
        self._forget_pause()

    def _begin(self, instruction: str, query: str | None, approvals: Mapping[str, Decision]) -> Message | None:
        """The message that was added for the query."""
        if self.messages != self._own:
            self.messages[:] = repair_history(self.messages, pending="keep")
        if query is None:
            self._go_on(approvals)
        elif approvals:
            raise RunError(
                "approvals decide about calls that wait: leave the query out, agent.run(session=session, ...)"
            )
        if self.messages and self.messages[0]["role"] == "system":
            self.messages[0] = system(instruction)
        else:
            self.messages.insert(0, system(instruction))
        if query is None:
            return None
        told = NOT_RUN if self.approvals.waiting else CANCELLED
        self.messages.extend(tool_message(call, told) for call in pending_calls(self.messages))
        sort_results(self.messages)
        self._forget_pause()
        said = [self.inbox.popleft() for _ in range(len(self.inbox))]
        asked = user("\n\n".join([*said, query]))
        self.messages.append(asked)
        return asked

    def _go_on(self, approvals: Mapping[str, Decision]) -> None:
        """Take the decisions in; raises `RunError` for one that nobody waits for, and when there is nothing to do."""
        if not self.inbox and not is_open(self.messages):
            raise RunError(
                "the query is empty, and this session holds nothing that could go on without one: say what you want "
                'to know, agent("What is 2 + 3?")'
            )
        known = {call.id for call in (*self.waiting, *pending_calls(self.messages))}
        for identity, decision in approvals.items():
            if identity not in known:
                there = ", ".join(map(repr, sorted(known))) or "none"
                raise RunError(f"approvals: no call with the id {identity!r} waits for a decision; there wait: {there}")
            if not isinstance(decision, bool | str | dict):
                raise RunError(
                    f"approvals[{identity!r}] must be True, False, a reason (str) or other arguments (dict), "
                    f"not {type(decision).__name__}"
                )
        self.approvals.decisions.update(approvals)

    def _forget_pause(self) -> None:
        self.approvals = Approvals()
        self.handed = []

    def as_dict(self) -> dict[str, Any]:
        """The session as a JSON object; the messages in it are the session's own, so copy it before changing it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "messages": [*self.messages],
            "usage": self.usage.as_dict(),
            "cut": {**self.cut.texts},
            **self.state(),
        }

    def state(self) -> dict[str, Any]:
        """What a run leaves to be done, as JSON data: what was said and not read yet, calls that wait, hand-offs."""
        return {
            "inbox": [*self.inbox],
            "waiting": [*self.approvals.waiting],
            "decisions": {**self.approvals.decisions},
            "nested": {identity: session.as_dict() for identity, session in [*self.approvals.nested.items()]},
            "handed": [*self.handed],
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Session":
        """The session that `as_dict` gave; raises `RunError` for anything else."""
        data = validate_saved(saved)
        session = cls(data["messages"], data["usage"], TruncatedResults(data["cut"]), deque(data["inbox"]))
        session.approvals = Approvals(data["waiting"], data["decisions"])
        session.approvals.nested = {identity: cls.from_dict(inner) for identity, inner in data["nested"].items()}
        session.handed = data["handed"]
        return session

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session into a file, as JSON; whoever reads it finds the last whole one, whatever happens.

        Secrets (see `agentkit.secrets`) are not in it, wherever they stood: there are stars in their place, also in the
        arguments of calls that still wait; make such a call with other arguments when the session goes on.
        May be called at any time, in the middle of a run too: what is in it by then goes on when it is loaded.  Raises
        `RunError` when a message holds something that JSON does not have.
        """
        try:
            write_atomically(Path(path), encode_session(mask_data(self.as_dict())))
        except (TypeError, ValueError, RecursionError) as error:
            raise RunError(f"the session cannot be saved: its messages must be JSON values only ({error})") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Session":
        """The session in a file; raises `RunError` when something else is in it, `OSError` when there is no file."""
        data = Path(path).read_bytes()
        try:
            return cls.from_dict(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{os.fspath(path)!r} is damaged, or no saved session: {error}. {REMEDY}") from error
        except RunError as error:
            raise RunError(f"{os.fspath(path)!r}: {error}") from error

    @classmethod
    def open(cls, name: str, store: "str | os.PathLike[str] | Journal") -> "Session":
        """The conversation `name` of a journal, to go on with; a new one if there is none.  Its runs are kept there."""
        return cls._of(*open_named(Journal.of(store), name))

    @classmethod
    def resumed(
        cls,
        run_id: str,
        store: "str | os.PathLike[str] | Journal",
        *,
        on_uncertain: Uncertain = None,
        changed: Changed = "refuse",
    ) -> "Session":
        """The conversation of a run that was stopped: a run on it without a query goes on there, see `agent.resume`."""
        session = cls._of(*open_run(Journal.of(store), run_id))
        assert session.journaled is not None
        session.journaled.on_uncertain, session.journaled.changed = on_uncertain, changed
        return session

    @classmethod
    def _of(cls, kept: JournaledConversation, state: Mapping[str, Any]) -> "Session":
        session = cls.from_dict({**cls().as_dict(), **state, "usage": kept.base.as_dict()})
        session.messages, session._own, session.journaled = [*kept.written], [*kept.written], kept
        return session

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The conversation as a page that needs nothing else, without secrets; written into `path`, if given."""
        return str(
            display_with("agentkit.views.html:write_page")(
                display_with("agentkit.views.html:session_page")(self.messages, self.usage.as_dict()), path
            )
        )

    _repr_html_ = display_with("agentkit.views.html:session_view")
    _repr_markdown_ = display_with("agentkit.views.html:session_markdown")
