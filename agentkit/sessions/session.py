"""A conversation that continues from run to run, and from process to process.

It holds the calls that are still pending, with their ids inside tools and the messages that close them, and it can be
saved as data.  What records its runs is a journal, or a file that `replay` reads.  The named conversations of a journal
are listed for front doors, with the frames of their runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, NotRequired, SupportsIndex, TypeAlias

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..core.errors import Paused, RunError
from ..core.flow import Listener, Policy
from ..core.host import find_versions
from ..core.lazy_names import display_with
from ..core.messages import (
    DEVELOPER,
    TRUSTED,
    USER,
    CallOrigin,
    Label,
    Message,
    ToolCall,
    Usage,
    delimit,
    list_call_ids,
    make_addition,
    new_delimiter_id,
    pending_calls,
    sort_results,
    system,
    text_of,
    tool_message,
    user,
)
from ..core.parts import Content
from ..core.pending import Pending, Question
from ..core.threads import Cancellation
from ..core.values import frozen
from ..engine.history import repair_history
from ..engine.history.repair import merge_texts
from ..engine.loop import CANCELLED, is_open
from ..policies.long_results import MAX_RESULT_CHARS, TruncatedResults, truncate_result
from ..policies.pending import Given, PendingInputs
from ..policies.taint.hidden import Handles, describe_handle, show_waiting
from ..policies.taint.origins import Origins
from ..tools.results.result_text import render_result
from ..views.frames import Frame, frames_of_stored_run
from .journal.maintenance import (
    JournaledRun,
    Mark,
    closed_state,
    name_conversations,
    open_named,
    open_run,
    read_mark,
    show_conversation,
)
from .journal.policy import journal_policy
from .journal.run_info import RecordedOutcome, Setup, has_key, value_of
from .journal.store import Journal, Place, is_same_place, show_place
from .journal.writer import Changed, JournaledConversation, JournalWriter, Uncertain
from .recordings.file import RecordFile, Recording, begin_file, lines_of, name_in_errors, write_lines
from .recordings.replay import RequestRecorder
from .records import DAMAGE, MessageWritten, StateWritten, TextStored, write_json

QueryContent: TypeAlias = Content | Message
NOT_RUN_UNDECIDED = "Not run: the call waited for approval, and the conversation went on without it."
NOT_ANSWERED = "The call asked the person a question, and the conversation went on without an answer."


FORMAT = "agentkit session"
SESSION_VERSION = 1
"""The name and version in the data of a session; files with the data itself can always be read."""
REMEDY = "Session.save writes sessions; messages from elsewhere become one with Session(messages=[...])."


class StoredText(TypedDict):
    """The whole text of a truncated result, with its label."""

    text: str
    label: dict[str, Any]


class SavedSession(TypedDict):
    """The content of a saved session, beside the name and the version of its format."""

    messages: list[Message]
    usage: Usage
    cut: dict[str, str | StoredText]
    inbox: list[str | Message]
    waiting: dict[str, str] | list[str]
    nested: dict[str, dict[str, Any]]
    handed: list[str]
    asked: NotRequired[dict[str, Any]]
    reasons: NotRequired[dict[str, str]]
    problems: NotRequired[dict[str, str]]
    inner_answers: NotRequired[dict[str, dict[str, Any]]]
    session_state: NotRequired[dict[str, Any]]
    model: NotRequired[str]


@cache
def _saved_session() -> TypeAdapter[SavedSession]:
    """Return what validates a saved session; made at the first one that is read."""
    return TypeAdapter(SavedSession)


def validate_saved(saved: Any) -> SavedSession:
    """Return the content of a saved session; raise `RunError` for anything else."""
    if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
        raise RunError(f"not a saved session. {REMEDY}")
    if saved.get("version") != SESSION_VERSION:
        raise RunError(
            f"the session has version {saved.get('version')!r} of the format, and this agentkit reads version "
            f"{SESSION_VERSION}. Update agentkit."
        )
    try:
        data = _saved_session().validate_python(saved)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"the saved session is damaged, at {where}: {first['msg']}. {REMEDY}") from None
    said = [message for message in data["inbox"] if not isinstance(message, str)]
    check_messages([*data["messages"], *said], "the saved session is damaged")
    return data


def check_messages(messages: Iterable[Any], of: str) -> None:
    """Raise `RunError` for the first entry that is no message with a role."""
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            example = '{"role": "user", "content": "Hello"}'
            raise RunError(f"{of}, at messages.{place}: a message without a role. Expected for example {example}")


def read_saved(content: bytes) -> Any:
    """Return the data of a session from a saved one, or from a recorded run, then with its answer or error.

    Raises:
        ValueError: It is something else.
    """
    if not content.lstrip().startswith(b'{"kind"'):
        return json.loads(content)
    saved = Recording.parse(content)
    if saved.version == 1:
        raise ValueError("it is a recorded run of an older version, which has requests and no conversation")
    hidden = {key: text for key, text in saved.cut.items() if key.startswith("#")}
    cut = TruncatedResults(dict.fromkeys(hidden, ""))
    messages = [*saved.messages, *_close_begun(saved, cut)]
    data = {"messages": messages, "usage": saved.usage.as_dict(), "cut": {**saved.cut, **cut.as_dict(), **hidden}}
    end = {name: saved.end[name] for name in ("answer", "stopped", "error") if name in saved.end}
    state = {**closed_state([]), **saved.state}  # no state was written if the run was killed before its first request
    return {"format": FORMAT, "version": SESSION_VERSION, **data, **state, **end}


def _close_begun(saved: Recording, cut: TruncatedResults) -> Iterator[Message]:
    """Yield the tool messages of the calls that began before the process of a run was killed: they run no second time.

    `cut` gets the whole text of a result that is truncated, or hidden.
    """
    for call in pending_calls(saved.messages):
        if saved.end or call.id not in saved.begun:  # a run that ended leaves calls that wait for a person
            continue
        yield _close_call(call, saved.results.get(call.id), Handles(cut, saved.messages), is_hiding=saved.is_hiding)


def _close_call(call: ToolCall, outcome: RecordedOutcome | None, handles: Handles, *, is_hiding: bool) -> Message:
    """Return the tool message of a call that a stopped run had begun: its result, if that is recorded.

    The result is delimited if it is untrusted.
    """
    if outcome is None:
        return tool_message(call, CANCELLED, label=DEVELOPER)
    shown = render_result(value_of(outcome))
    label = Label.from_dict(outcome.get("label"))
    if is_hiding and not outcome.get("own") and (label.is_untrusted or label.readers is not None):
        handle = handles.store(shown.text, label)
        failed = ", an error" if "error" in outcome else ""
        return tool_message(call, f"{describe_handle(handle, call.name, shown.text, None)}{failed}", label=TRUSTED)
    text = truncate_result(shown.text, most=MAX_RESULT_CHARS, store=handles.stored, origin=CallOrigin(own=label))
    text = delimit(text, new_delimiter_id(), call.name) if label.is_untrusted else text
    return tool_message(call, text, shown.images, label=label)


MAX_LOOP_ROUNDS = 50  # in which an abandoned stream can close itself


@dataclass(eq=False)
class Session:
    """One conversation: its messages (the system message first, after a run has begun) and the usage of its runs.

    Messages may come from elsewhere: a run repairs what a provider would refuse before it begins.
    """

    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cut: TruncatedResults = field(default_factory=TruncatedResults, repr=False)
    """The full texts of truncated results."""
    inbox: deque[Message] = field(default_factory=deque, repr=False)
    """Messages of `say` that are in no request yet."""
    inputs: PendingInputs = field(default_factory=PendingInputs, repr=False)
    """What the conversation waits for, and the decisions and answers so far."""
    handed: list[str] = field(default_factory=list, repr=False)
    """The names of the agents to which the last run was handed over, in order."""
    session_state: dict[str, Any] = field(default_factory=dict, repr=False)
    """JSON values that tools and extensions keep with the conversation, see `RunContext.session_state`."""
    model: str = field(default="", repr=False)
    """The name of the model that a function of the agent chose for the last run, "" where it had no such function."""
    journaled: JournaledConversation | None = field(default=None, repr=False)
    """The conversation in a journal, if there is one."""
    is_dry: bool = field(default=False, repr=False)
    """Whether it is the copy that a dry run works with; it continues in dry runs only."""
    cancellation: Cancellation = field(default_factory=Cancellation, repr=False)
    _busy: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _own: list[Message] = field(default_factory=list, repr=False)
    """The messages at the end of the last run."""
    _read: Origins | None = field(default=None, repr=False)
    """What the runs have read of the messages; None if another program may have changed them."""
    _call_ids: tuple[list[Message], set[str]] | None = field(default=None, repr=False)
    """The messages with the ids of all their calls, with the same meaning of None."""

    def __post_init__(self) -> None:
        self.messages = [*self.messages]  # the given list is not changed
        check_messages(self.messages, "Session(messages=...)")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "a session cannot be pickled or copied, because runs lock it. session.as_dict() returns its data, and "
            "Session.from_dict(data) makes a session of them; session.save(path) and Session.load(path) use a file"
        )

    def say(self, text: str, *, label: Label = USER) -> None:
        """Add a user message that the model gets with its next request, also during a run; from any thread."""
        self.inbox.append(make_addition(text, label))

    def stop(self, reason: str = "") -> None:
        """Stop the current run, from any thread; without one, or after a first `stop`, do nothing.

        The run raises `RunStopped`.  A request is abandoned and its connection closed.  Coroutine tools are cancelled,
        and a plain function is no longer waited for, as after a timeout.  The next query continues the conversation.
        """
        if self._busy.locked():
            self.cancellation.set(reason)

    def call_ids(self) -> set[str]:
        """Return the ids of all calls of the conversation, to which a run adds those of new calls."""
        if self._call_ids is None or self._call_ids[0] is not self.messages:
            self._call_ids = self.messages, list_call_ids(self.messages)
        return self._call_ids[1]

    def origins(self) -> Origins:
        """Return the origins of what the runs have read of the messages, which the next run continues."""
        if self._read is None or self._read.history is not self.messages:
            self._read = Origins(self.messages)
        return self._read

    @property
    def pending(self) -> list[Pending]:
        """What waits for a person: decisions about calls, then answers; the ids are the keys for `answers=`.

        What an agent inside a tool waits for has the id "outer/inner".
        """

        def show(call: ToolCall, digest: str) -> ToolCall:
            return show_waiting(call, digest, self.cut, self.messages)

        return self.inputs.list_open(pending_calls(self.messages), show)

    @property
    def waiting(self) -> list[ToolCall]:
        """The calls that wait for a decision, with the values of their references."""
        return [entry.call for entry in self.pending if entry.is_approval]

    @property
    def questions(self) -> list[Question]:
        """The questions of tools without an answer."""
        return [entry.question for entry in self.pending if not entry.is_approval]

    @property
    def begun(self) -> set[str]:
        """The ids of the pending calls that began in an earlier run, of any process: they may have had an effect."""
        known = {*self.inputs.asking, *(self.journaled.begun if self.journaled else ())}
        inside = [*self.inputs.nested, *self.inputs.inner_answers]
        return {call.id for call in pending_calls(self.messages) if call.id in known or has_key(inside, call.id)}

    @contextmanager
    def turn(
        self,
        instruction: str,
        query: QueryContent = None,
        answers: Given | None = None,
        *,
        model: str = "",
        is_hiding: bool = False,
    ) -> Iterator[list[Message]]:
        """Lock the conversation for one run, add the instruction and the query, and yield the messages.

        Args:
            instruction: The system message.
            query: The user message; it ends pending calls, and is removed again if the first request fails.
                Without one the run continues where it stopped, with the pending calls.
            answers: Decisions about pending calls and answers to open questions, by their ids.
            model: The name of the model that was chosen for the run.
            is_hiding: Whether the agent hides untrusted results.

        Raises:
            RunError: Another run has the session, or there is nothing to continue.
        """
        if not self._busy.acquire(blocking=False):
            remedy = "Wait for it (or close the stream that was left half-way), or give each run one of its own"
            raise RunError(f"the session is in use by another run. {remedy}: agent(query, session=Session())")
        self.cancellation = Cancellation()
        asked = user(query) if isinstance(query, str | list) else query
        try:
            unread = list(self.inbox) if asked is not None else []
            added = self._begin(instruction, asked, answers or {}, is_hiding=is_hiding)
            self.model = model
            try:
                yield self.messages
            except Paused as pause:
                pause.session = self
                pause.pending = tuple(self.pending)
                raise
            except BaseException:
                if added and self.messages[-1] is added[-1]:
                    del self.messages[-len(added) :]
                    self.inbox.extendleft(reversed(unread))
                raise
        finally:
            self._own = list(self.messages)
            self._busy.release()

    async def wait_until_free(self) -> None:
        """Wait, for a few rounds of the event loop, until an abandoned stream on this session has closed itself."""
        for _ in range(MAX_LOOP_ROUNDS):
            if not self._busy.locked():
                return
            await asyncio.sleep(0 if self.journaled is None else 0.004)  # a journal is closed in a thread

    def clear(self) -> None:
        """Remove all messages but the instruction, and reset the usage.  Raises `RunError` during a run."""
        if self._busy.locked():
            raise RunError("the session is in use by a run. Clear it when the run has ended.")
        self.messages[:] = [message for message in self.messages[:1] if message["role"] == "system"]
        self.usage = Usage()
        self.cut = TruncatedResults()
        self.session_state = {}
        self.inbox.clear()
        self._forget_pause()

    def _begin(self, instruction: str, query: Message | None, answers: Given, *, is_hiding: bool) -> list[Message]:
        """Prepare the messages for a run; return those that were added for the query."""
        if self.messages != self._own:
            self.messages[:] = repair_history(self.messages, pending="keep")
            self._read = None
            self._call_ids = None
        if query is None:
            self._accept(answers)
        elif answers:
            raise RunError(
                "answers= and approvals= are for pending calls. Leave the query out: agent.run(answers=...). What "
                "decides about the calls of a query is approve=function, of the agent or of the run."
            )
        has_old = bool(self.messages) and self.messages[0]["role"] == "system"
        if not has_old or text_of(self.messages[0]) != instruction.strip():
            self._read = None
        self.messages[:has_old] = [system(instruction)]
        if query is None:
            return []
        self.messages.extend([*self._close_pending(is_hiding=is_hiding)])
        sort_results(self.messages)
        self._forget_pause()
        added = [query]
        if unread := [self.inbox.popleft() for _ in range(len(self.inbox))]:
            added = [*merge_texts([*unread, query])]
        self.messages += added
        return added

    def _close_pending(self, *, is_hiding: bool) -> Iterator[Message]:
        """Yield the tool messages of the pending calls, without which the conversation continues."""
        begun = self.begun
        outcomes = self.journaled.begun if self.journaled else {}
        handles = Handles(self.cut, self.messages)
        for call in pending_calls(self.messages):
            if call.id in self.inputs.asking:
                yield tool_message(call, NOT_ANSWERED, label=DEVELOPER)
            elif self.inputs.held and call.id not in begun:
                yield tool_message(call, NOT_RUN_UNDECIDED, label=DEVELOPER)
            else:
                yield _close_call(call, outcomes.get(call.id), handles, is_hiding=is_hiding)

    def _accept(self, answers: Given) -> None:
        """Store decisions and answers; raise `RunError` where nothing waits for one, or nothing continues."""
        if self.journaled is not None and self.journaled.stored is not None:
            return  # the run has its answer already
        if not self.inbox and not is_open(self.messages):
            raise RunError(_nothing_open(answers))
        if answers:
            self.inputs.accept(answers, self.pending, pending_calls(self.messages))

    def _forget_pause(self) -> None:
        self.inputs = PendingInputs(grants=self.inputs.grants)
        self.handed = []

    def as_dict(self) -> dict[str, Any]:
        """Return the session as a JSON object; its messages are the session's own, so copy it before changing it.

        Calls that an interrupted run of a journal had begun get their recorded outcomes, because they would run again.
        """
        messages, cut = self._close_begun()
        return {
            "format": FORMAT,
            "version": SESSION_VERSION,
            "messages": messages,
            "usage": self.usage.as_dict(),
            "cut": cut.as_dict(),
            **self.state(),
        }

    def _close_begun(self) -> tuple[list[Message], TruncatedResults]:
        """Return the messages, with results of the calls that an interrupted run had begun, and the texts."""
        messages = [*self.messages]
        kept = self.journaled
        calls = [call for call in pending_calls(messages) if call.id in kept.begun] if kept else []
        if kept is None or not calls:
            return messages, self.cut
        cut = TruncatedResults.from_dict(self.cut.as_dict())
        handles = Handles(cut, messages)
        messages += [_close_call(call, kept.begun[call.id], handles, is_hiding=kept.is_hiding) for call in calls]
        sort_results(messages)
        return messages, cut

    def state(self) -> dict[str, Any]:
        """Return what a run leaves unfinished and what tools and extensions keep, as JSON data."""
        kept: dict[str, Any] = {"session_state": self.copy_state()} if self.session_state else {}
        if self.model:
            kept["model"] = self.model
        return {
            "inbox": [*self.inbox],
            "handed": [*self.handed],
            **self.inputs.as_dict(),
            **kept,
        }

    def copy_state(self) -> dict[str, Any]:
        """Return a copy of `session_state`; raise `RunError` if it is not JSON."""
        try:
            copied: dict[str, Any] = json.loads(json.dumps(self.session_state))
        except (TypeError, ValueError, RecursionError) as error:
            remedy = "Keep JSON values there, and other objects in the run's state."
            raise RunError(f"session_state {self.session_state!r:.80} is not JSON: {error}. {remedy}") from error
        return copied

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Session:
        """Return the session that `as_dict` described; raise `RunError` for anything else."""
        try:
            data = validate_saved(saved)
            unread = deque(user(entry) if isinstance(entry, str) else entry for entry in data["inbox"])  # older: texts
            session = cls(data["messages"], data["usage"], TruncatedResults.from_dict(data["cut"]), unread)
            session.inputs = PendingInputs.from_dict(data, cls.from_dict)
        except DAMAGE as error:
            raise RunError(f"the saved session is damaged: {error}. {REMEDY}") from error
        session.handed = data["handed"]
        session.session_state = data.get("session_state", {})
        session.model = data.get("model", "")
        return session

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session into a file of JSON lines, atomically; a run in progress continues when it is loaded.

        Secrets (see `agentkit.secrets`) are replaced by stars, also in the arguments of pending calls: give such a call
        new arguments when the session continues.  Raises `RunError` for a message that is not JSON serialisable.
        """
        try:
            closed, cut = self._close_begun()
            messages = (MessageWritten(place, write_json(message)) for place, message in enumerate(closed))
            texts = (TextStored(key, write_json(text)) for key, text in cut.as_dict().items())
            state = StateWritten(write_json(self.state()))
            write_lines(path, lines_of([begin_file(self.usage), *messages, *texts, state]))
        except (TypeError, ValueError, RecursionError) as error:
            raise RunError(f"the session cannot be saved: a message is not JSON serialisable ({error})") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Session:
        """Read a saved session, or the conversation of a recorded run.

        Raises `RunError` for a file with another content, and `OSError` if the file cannot be read.
        """
        with name_in_errors(path, "a saved session", REMEDY):
            return cls.from_dict(read_saved(Path(path).read_bytes()))

    @classmethod
    def open(cls, name: str, store: Place | Journal) -> Session:
        """Return the conversation `name` of a journal, or a new one; its runs are recorded there."""
        return cls._of(*open_named(Journal.of(store), name))

    @classmethod
    def resumed(
        cls,
        run_id: str,
        store: Place | Journal,
        *,
        on_uncertain: Uncertain = None,
        changed: Changed = "refuse",
    ) -> Session:
        """Return the conversation of a stopped run; a run on it without a query resumes that run."""
        conversation, state = open_run(Journal.of(store), run_id)
        conversation.set_decisions(on_uncertain, changed)
        return cls._of(conversation, state)

    @classmethod
    def _of(cls, kept: JournaledConversation, state: Mapping[str, Any]) -> Session:
        session = cls.from_dict({**cls().as_dict(), "usage": kept.base.as_dict(), **state})
        messages = state.get("messages", kept.written)
        session.messages = [*messages]
        session._own = [*messages]
        session.session_state = session.copy_state()  # what tools change in place differs from what was written
        session.journaled = kept
        return session

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the conversation as an HTML page with masked secrets; write it into `path`, if given."""
        messages = repair_history(self.messages, pending="keep")  # they may come from elsewhere
        page = display_with("agentkit.views.html:session_page")(messages, self.usage.as_dict())
        return str(display_with("agentkit.views.html:write_page")(page, path))

    _repr_html_ = display_with("agentkit.views.html:session_view")
    _repr_markdown_ = display_with("agentkit.views.html:session_markdown")


def conversation_in(session: Session, place: Place | Journal) -> JournaledConversation:
    """Return the conversation of the session in a journal; a new one for a session that is in none.

    Raises:
        RunError: The session has a name in another journal.
    """
    old = session.journaled
    journal = Journal.of(place)
    if old is not None and is_same_place(old.journal.path, journal.path):
        old.journal = journal
        return old
    if old is not None and old.name:
        raise RunError(
            f"journal={show_place(journal.path)!r}: the session {old.name!r} is in {show_place(old.journal.path)!r}. "
            "Leave journal= out."
        )
    return JournaledConversation(journal, begun={} if old is None else old.begun)


@contextmanager
def open_journal(
    session: Session, conversation: JournaledConversation, query: str | None, model: str, setup: Setup
) -> Iterator[JournalWriter]:
    """Yield what writes the run into the journal; an error that ends the run gets a note with the command to resume.

    Args:
        session: The session.
        conversation: Its conversation in the journal.
        query: The query, None for a run that continues.
        model: The name of the model.
        setup: The instruction and the tools of the agent.
    """
    session.journaled = conversation
    conversation.stored = None
    if query is not None or not conversation.run:
        conversation.base = session.usage
    writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup)
    writer.open(query, model)
    session.inputs.begun = writer.decided
    try:
        yield writer
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if not conversation.origin and (command := conversation.command_to_resume()):
            error.add_note(f"Resume this run: {command}")
        raise
    finally:
        writer.close()


@contextmanager
def open_recording(
    session: Session,
    path: str | os.PathLike[str],
    query: str | None,
    model: str,
    setup: Setup,
    *,
    run_id: str,
    about: Mapping[str, Any],
) -> Iterator[tuple[Listener, tuple[Policy, ...]]]:
    """Yield a listener and policies that write the rows of a run into a file, and what a replay needs beside them.

    Args:
        session: The session.
        path: The file.
        query: The query, None for a run that continues.
        model: The name of the model.
        setup: The instruction and the tools of the agent.
        run_id: The id of the run.
        about: More about the run, for the first line.
    """
    conversation = JournaledConversation(Journal(path, errors="raise"), next_run=run_id)
    with closing(RecordFile(path)) as file:
        file.append([begin_file(session.usage, versions=find_versions(), **about)])
        writer = JournalWriter(conversation, session.messages, session.state, session.cut, setup, append=file.append)
        writer.begin(query or "", model)
        recorder = RequestRecorder(writer, file)
        with closing(writer):
            yield recorder.listen, (recorder.policy, journal_policy(writer))


def _nothing_open(answers: Given) -> str:
    """Return the error text for a run without a query where the session has nothing to continue."""
    if answers:
        given = ", ".join(repr(entry.id if isinstance(entry, ToolCall | Pending) else entry) for entry in answers)
        return (
            f"answers: nothing waits for {given:.200}, because the session has no unfinished run. Give the session or "
            "the id of the run that paused: agent.run(session=..., answers=...), agent.resume(run_id, answers=...)"
        )
    return (
        'the query is empty, and the session has no unfinished run to continue. Give a query: agent("What is 2 + 3?")'
    )


@frozen
class StoredConversation:
    """A conversation of a journal with its runs, the oldest first.

    Attributes:
        session: Its session; a new one while a run of another process has the conversation.
        runs: Its runs.
        interrupted: The id of a last run that can be continued without a decision or an answer; "" without one.
        mark: Its state when it was read.
        name: Its name, "" without one.
    """

    session: Session
    runs: Sequence[JournaledRun]
    interrupted: str
    mark: Mark
    name: str

    def list_pending_of(self, run: JournaledRun) -> Sequence[Pending]:
        """Return what a run waits for, masked: nothing, unless it is the last one and paused."""
        if run is not self.runs[-1] or run.run.state != "paused":
            return ()
        return [entry.masked() for entry in self.session.pending]


def find_conversation(conversation: str | int, store: Place) -> StoredConversation | None:
    """Return a conversation of a journal by its name, or its key in `RunInfo`; None if the journal does not have it.

    Raises:
        JournalError: There is no journal, or the conversation is damaged.
    """
    if (mark := read_mark(conversation, store)) is None:
        return None
    own = show_conversation(mark.key, store=store)
    name = conversation if isinstance(conversation, str) else name_conversations(store).get(conversation, "")
    if mark.is_running:
        return StoredConversation(Session(), own, "", mark, name)
    if isinstance(conversation, str):
        session = Session.open(conversation, store)
    else:
        session = Session.resumed(own[-1].run.id, store) if own else Session()
    interrupted = own[-1].run.id if own and own[-1].run.state in ("interrupted", "failed") else ""
    return StoredConversation(session, own, interrupted, mark, name)


def frames_of_journaled_run(run: JournaledRun, pending: Sequence[Pending] = ()) -> Sequence[tuple[float, Frame]]:
    """Return the frames of a run of a journal with their seconds after its begin."""
    info = run.run
    return frames_of_stored_run(
        run.as_dict(), run_id=info.id, query=info.query, state=info.state, first=info.first, pending=pending
    )
