"""The conversations of a server, by their ids: the session, the events that clients have got, and the run that works.

The runs of a journal are events of AG-UI too: the same page shows a run while it works and after years.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import quote

from .. import AgentkitError, JsonAgent, Pending, Question, Session, ToolCall
from ..events import Event, ModelAsked, QuestionAsked, RunStarted
from ..extend import (
    CallOpened,
    ConversationBusy,
    Frame,
    FrameReader,
    JournaledRun,
    JournalError,
    Json,
    LiveRespondent,
    Mark,
    Place,
    RunFilter,
    RunInfo,
    delete_conversation,
    enclose,
    explain_answer,
    find_conversation,
    frames_of_journaled_run,
    list_conversations,
    mask,
    mask_data,
    name_conversations,
    opened_store,
    read_mark,
    rename_conversation,
    runs,
    show,
)
from .encode import AguiEncoder
from .run_input import (
    BusyError,
    InputError,
    RunInput,
    echo_input,
    interrupt_id,
    join_facts,
    key_of_result,
    query_of_content,
    read_resume,
    share_state,
    with_client_tools,
    without_known_query,
)

PARTS_LATER = "messages: send the answers and the results of the client's tools first, then the message with parts"
ENDS_OF_RUN = ("RUN_FINISHED", "RUN_ERROR")


class Thread:
    """A conversation and its log of AG-UI events; the index of an event in the log is its id.

    Args:
        thread: Its id.
        session: Its session.
        draws: As in `AguiEncoder`.

    Attributes:
        thread: Its id.
        events: All events, those of earlier runs first.
        running: The id of the run that is working, as the client named it; "" if none is.
        interrupted: The id of a run that was stopped or failed, which can be continued: its id in the journal, or
            without a journal the one that the client gave it.
        state: The state of the last run in the journal, as in `RunInfo`, or "stopped".
        mark: The state of the conversation in the journal up to which `events` tell; None if that is not known.
    """

    def __init__(self, thread: str, session: Session | None = None, *, draws: bool = False) -> None:
        self.thread = thread
        self.session = session or Session()
        self._draws = draws
        self.events: list[Json] = []
        self.running = ""
        self.interrupted = ""
        self.state = ""
        self.mark: Mark | None = None
        self._loads = secrets.token_hex(4)
        self._refusal: BusyError | None = None
        self._stored_run = ""
        self._requests: dict[tuple[str, int], Json] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None  # kept here: an event loop keeps no task alive
        self._is_stopping = False
        self._is_unfollowed = False
        self._live: LiveRun | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no run works, not even one that waits for an answer in the middle of a call."""
        return not self.running and self._live is None

    @property
    def is_elsewhere(self) -> bool:
        """Whether a run of another process works on the conversation."""
        return self.mark is not None and self.mark.is_running

    @property
    def last_run(self) -> Json:
        """What the page shows of a last run without an answer."""
        return {"interrupted": self.interrupted, "state": self.state}

    @property
    def version(self) -> str:
        """A text that changes whenever there is something new to see."""
        return f"{self._loads} {len(self.events)} {self.running}" if self.events or self.running else ""

    def replace(self, other: "Thread") -> None:
        """Become what the journal has, after another process has continued the conversation."""
        self.session = other.session
        self.events = other.events
        self.interrupted = other.interrupted
        self.state = other.state
        self.mark = other.mark
        self._loads = other._loads
        self.extend([])

    def claim(self, run: str) -> None:
        """Reserve the conversation for a run that is about to start.

        Raises:
            BusyError: Another run has it.
        """
        if self.running:
            raise BusyError("a run of this conversation is still working: stop it, or wait for its end")
        if not self.is_idle:
            raise BusyError("the run waits for the answer to a question: resume it with the answer, or stop it")
        if self.is_elsewhere:
            raise BusyError("a run of this conversation is working in another process: wait for its end")
        self.running = run

    def release(self) -> None:
        """End what `claim` began, and wake the clients that follow."""
        self.running = ""
        self.extend([])

    def start(self, agent: JsonAgent[Any], given: RunInput, *, shares_state: bool = False, **how: Any) -> int:
        """Begin a run in a task of its own and return the id of its first event; `how` are options of the run."""
        self.running = given.run
        self.interrupted = ""
        self._refusal = None
        first = len(self.events)
        self._task = asyncio.create_task(self._work(agent, given, how, shares_state))
        return first

    def check_decisions(self, given: RunInput) -> None:
        """Check what the client sends for the calls that wait.

        Raises:
            BusyError: Nothing waits for a decision, an answer or a result.
            InputError: A query with parts comes together with an answer or a result, one of these is not valid, or the
                tool of a call that waits for its result is not among the client's tools.
        """
        waiting = {interrupt_id(entry) for entry in self.session.pending}
        results = self.find_results(given)
        for result in results.values():
            query_of_content(result["content"])
        if given.results and given.content is None and not given.resume and not results:
            raise BusyError(
                f"no call waits for the result of {', '.join(given.results)!r:.80}. It was given before, or the "
                "conversation has continued without it."
            )
        for identity in given.resume:
            if identity not in waiting:
                raise BusyError(
                    f"the decision comes too late: nothing waits for one under the id {identity!r:.80}. It was decided "
                    "or answered before, or the conversation has continued without it."
                )
        try:
            answers = self.find_answers(given)
        except AgentkitError as error:
            raise InputError(f"resume: {error}") from error
        if isinstance(given.content, list) and answers:
            raise InputError(PARTS_LATER)
        if given.content is None or answers:
            self._check_tools(given)
        for entry in self.session.pending:
            if not entry.is_approval and entry.id in answers and (problem := explain_answer(entry, answers[entry.id])):
                raise InputError(f"resume: {interrupt_id(entry)!r}: {problem}")

    def _check_tools(self, given: RunInput) -> None:
        """Raise `InputError` if the tool of a client's call that waits is not in the request."""
        names = {tool.name for tool in given.tools}
        for entry in self.session.pending:
            if not entry.is_for_person and entry.call.name not in names:
                raise InputError(
                    f"tools: the call {entry.call.id!r:.80} waits for its result, and its tool {entry.call.name!r:.80} "
                    "is not there. Send the client's tools with each request."
                )

    def find_results(self, given: RunInput) -> dict[str, Json]:
        """Return the results for which calls of the client's tools wait, by the ids of these calls."""
        waiting = {entry.call.id for entry in self.session.pending if not entry.is_for_person}
        return {call: result for call, result in given.results.items() if call in waiting}

    def find_answers(self, given: RunInput) -> Json:
        """Return `answers=` of the run: what the client answers, and the results of its tools.

        A query whose client cancels all that waits takes the place of the answers, as in any other run.
        """
        results = {key_of_result(call): result for call, result in self.find_results(given).items()}
        is_cancelling = all(status == "cancelled" for status, _ in given.resume.values())
        if given.content is not None and not results and is_cancelling:
            return {}
        return read_resume(given.resume, self.session.pending) | results

    def cancel(self, given: RunInput) -> int:
        """End a run whose client answers nothing, but cancels questions; return the id of its first event."""
        first = len(self.events)
        self.extend([*AguiEncoder(self.thread, given.run, given.echo).cancel()])
        self.release()
        return first

    async def wait_until_begun(self, first: int) -> None:
        """Wait for the first event of a run; raise `BusyError` if another process has taken the conversation before."""
        while len(self.events) <= first and self.running:
            await self._changed.wait()
        if self._refusal is not None:
            raise self._refusal

    def resume(self, given: RunInput) -> int | None:
        """Continue with the answer to the question of a run that works, and return the id of its next event.

        None if no such question waits, or the answer is for another.

        Raises:
            InputError: The answer does not match the schema of the question, or a message with parts comes with it.
        """
        live = self._live
        question = live.question if live is not None else None
        if live is None or question is None or (identity := interrupt_id(question)) not in given.resume:
            return None
        status, payload = given.resume[identity]
        value = payload if status == "resolved" else None
        if value is not None and (problem := explain_answer(question, value)):
            raise InputError(f"resume: {identity!r}: {problem}")
        if isinstance(given.content, list):
            raise InputError(PARTS_LATER)
        first = len(self.events)
        if given.content is not None:
            self.session.say(given.content)
        live.go_on(given.run, given.echo, value)
        return first

    async def follow(self, place: int) -> AsyncIterator[tuple[int, Json]]:
        """Yield the events from `place` on with their ids, to the end of the current run."""
        while True:
            changed = self._changed
            while place < len(self.events):
                yield place, self.events[place]
                place += 1
            if not self.running or self._is_unfollowed:
                return
            await changed.wait()

    def unfollow(self) -> None:
        """End what `follow` yields, now and later, because the server ends."""
        self._is_unfollowed = True
        self.extend([])

    def is_over(self, first: int) -> bool:
        """Return whether the run whose first event is `first` has told its end."""
        return any(event["type"] in ENDS_OF_RUN for event in self.events[first:])

    async def wait_until_released(self) -> None:
        """Wait until a run that is stopped, or whose end the clients have, is over for the next one too."""
        while self._live is not None and (self._live.is_told or self._is_stopping):
            await self._changed.wait()

    @property
    def is_waiting(self) -> bool:
        """Whether the last run waits for a person."""
        return bool(self.session.waiting or self.session.questions)

    @property
    def is_asking(self) -> bool:
        """Whether a run that works waits for an answer in the middle of a call."""
        return self._live is not None and self._live.question is not None

    def stop(self) -> None:
        """Stop the run that is working; do nothing without one."""
        self._is_stopping = self._live is not None
        self.session.stop("stopped by the person")

    def find_request(self, run: str, number: int) -> Json | None:
        """Return a request of a run of this process, masked; None for one that is not known."""
        request = self._requests.get((run, number))
        return None if request is None else mask_data(request)

    def extend(self, events: list[Json]) -> None:
        """Add events to the log and wake the clients."""
        self.events += events
        changed = self._changed
        self._changed = asyncio.Event()
        changed.set()

    async def _work(
        self, agent: JsonAgent[Any], given: RunInput, options: Mapping[str, Any], shares_state: bool
    ) -> None:
        results = self.find_results(given)
        encoder = AguiEncoder(
            self.thread,
            given.run,
            given.echo,
            draws=self._draws,
            answered=results,
            opened=find_begun_calls(self.session.pending),
        )
        live = LiveRun(self, encoder, given.run)
        self._live = live
        enclose([lambda: LiveRespondent(live.ask)])
        reader = FrameReader()
        number = 0

        def listen(event: Event) -> None:
            nonlocal number
            if isinstance(event, RunStarted):
                self._stored_run = event.run_id
            if isinstance(event, ModelAsked):
                number += 1
                self._requests[given.run, number] = _request_of(event)
            if not (isinstance(event, QuestionAsked) and not event.question.is_for_person):
                live.show(reader.read(event))

        try:
            answers = self.find_answers(given)
            query = query_of_content(given.content)
            if answers and isinstance(query, str):  # the calls are carried out first, then the model reads the query
                self.session.say(query)
                query = None
            policies = [join_facts(given.context)] if given.context else []
            if shares_state:
                policies.append(share_state(given.state, live.show))
            how: Any = {"answers": answers or None, "listeners": [listen], "policies": policies, **options}
            try:
                async with aclosing(
                    with_client_tools(agent, given.tools).astream(query, session=self.session, **how)
                ) as events:
                    async for _ in events:
                        pass
            finally:
                live.end()
        except ConversationBusy as error:
            if encoder.is_open:
                self._fail(encoder, str(error), type(error).__name__)
            else:
                self._refusal = BusyError(mask(str(error)))
        except AgentkitError as error:
            self._fail(encoder, str(error), type(error).__name__)
        except Exception as error:  # a tool with on_error="raise", or a listener
            self._fail(encoder, f"{type(error).__name__}: {error}", type(error).__name__)
        finally:
            try:
                await self._read_mark()
            finally:
                self._live = None
                self._is_stopping = False
                self.release()

    async def _read_mark(self) -> None:
        """Note how the run of this process ended, and the state of the journal, if no other one has continued it."""
        self.mark = None
        if self._refusal is not None:
            return
        end = self.events[-1] if self.events else {}
        is_error = end.get("type") == "RUN_ERROR"
        journaled = self.session.journaled
        if self.is_waiting:
            self.interrupted = ""
        elif journaled is not None:
            self.interrupted = journaled.run
        elif is_error or end.get("outcome", {}).get("type") == "cancelled":
            self.interrupted = self.running
        self.state = "" if not self.interrupted else "failed" if is_error else "stopped"
        if journaled is not None:
            with suppress(JournalError):
                mark = await asyncio.to_thread(read_mark, journaled.key, journaled.journal.path)
                if mark is not None and mark.run == self._stored_run and not mark.is_running:
                    self.mark = mark

    def _fail(self, encoder: AguiEncoder, text: str, kind: str) -> None:
        """Report an error unless the run itself has reported its end."""
        if not encoder.is_closed:
            self.extend([*encoder.fail(mask(text), kind)])


def find_begun_calls(pending: Iterable[Pending]) -> set[str]:
    """Return the ids of the calls that ended for what waits, and run again: those that ask, and those around agents."""
    paths = [(entry.call.id.split("/"), entry.is_approval) for entry in pending]
    return {"/".join(path[:depth]) for path, is_held in paths for depth in range(1, len(path) + (not is_held))}


MAX_QUESTION_SECONDS = 600.0
"""The time in which a question in the middle of a call must be answered."""


class LiveRun:
    """The events of a run that works, and its questions in the middle of a call, one after the other.

    A client's run ends with the question, and its next run begins with the answer: what happens between is kept.

    Args:
        conversation: Where the events go.
        encoder: Encodes the frames of the run.
        run: The id of the run, as the client named it.

    Attributes:
        question: The question that waits for its answer.
    """

    def __init__(self, conversation: Thread, encoder: AguiEncoder, run: str) -> None:
        self._conversation = conversation
        self._encoder = encoder
        self._run = run
        self._kept: list[Frame | Json] = []
        self._asked = 0
        self._is_over = False
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.question: Pending | None = None

    @property
    def is_told(self) -> bool:
        """Whether the clients have the end of the run."""
        return self._encoder.is_closed

    def show(self, happened: Iterable[Frame | Json]) -> None:
        """Add events, and those of frames; while a question waits, keep both."""
        if self.question is not None:
            self._kept += happened
            return
        events = list[Json]()
        for one in happened:
            events += [one] if isinstance(one, dict) else self._encoder.encode(one)
        if events:
            self._conversation.extend(events)

    async def ask(self, question: Question) -> Any:
        """Return the person's answer; None without one in time, or if the run ends before."""
        async with self._turn:
            if self._is_over:
                return None
            self._asked += 1
            self._answer = asyncio.get_running_loop().create_future()
            asking = ToolCall(question.id, "")
            self.question = Pending(f"{self._run}-question-{self._asked}", asking, question.text, question.schema)
            self._conversation.extend([*self._encoder.interrupt(self.question.masked())])
            self._conversation.release()
            await asyncio.wait([self._answer], timeout=MAX_QUESTION_SECONDS)
            self._go_on_alone()
            return self._answer.result()

    def go_on(self, run: str, given: Json | None, answer: Any) -> None:
        """Begin the client's next run with the answer to the question, and add what happened meanwhile."""
        self.question = None
        kept = self._kept
        self._kept = []
        self._conversation.running = run
        self._conversation.extend([*self._encoder.resume(run, given)])
        self.show(kept)
        self._answer.set_result(answer)

    def end(self) -> None:
        """End the wait for an answer, because the run has ended."""
        self._is_over = True
        self._go_on_alone()

    def _go_on_alone(self) -> None:
        if self.question is not None:
            self.go_on(f"{self._run}-{self._asked}", None, None)


def _request_of(event: ModelAsked) -> Json:
    """Return a request as data; the messages are shared with the history, so keeping many requests is cheap."""
    request = event.request
    return {
        "model": event.model,
        "messages": [*request.messages],
        "tools": [*request.tools],
        "tool_choice": request.tool_choice,
    }


LIST_LENGTH = 200
"""The runs and the conversations that are listed, unless the page asks for more."""
RUN_PREFIX = "run:"
"""Begins the id of a conversation that has no name: the id of one of its runs follows."""


def name_thread(user: str, thread: str) -> str:
    """Return the name that a conversation has in the journal; those of two users never have the same."""
    return f"{quote(user, safe='')}/{thread}" if user else thread


def keys_of_user(store: Place, user: str) -> set[int]:
    """Return the keys of a user's conversations, as in `RunInfo.conversation`."""
    return {key for key, name in name_conversations(store).items() if name.startswith(name_thread(user, ""))}


def list_stored_runs(store: Place, user: str = "", limit: int = LIST_LENGTH) -> list[Json]:
    """Return what the page lists of the runs of a journal, or of those of a user, the newest first.

    These are the newest ones up to the limit, and older ones that wait for a person.
    """
    own = keys_of_user(store, user) if user else None
    found = runs(store, conversations=own, limit=limit, checked=False)
    if len(found) == limit:
        known = {run.id for run in found}
        with opened_store(store) as opened:
            unfinished = opened.runs(RunFilter(conversations=own, is_inner=False, is_unfinished=True))
        older = [run.conversation for run in unfinished if run.status == "paused" and run.id not in known]
        listed = runs(store, unfinished=True, conversations=older[:limit], checked=False) if older else []
        found += [run for run in listed if run.state == "paused" and run.id not in known]
    return [describe_run(run) for run in found]


def list_threads(store: Place, user: str = "", limit: int = LIST_LENGTH) -> list[Json]:
    """Return the named conversations of a journal or of a user, each with its first query, the newest first."""
    prefix = name_thread(user, "")
    return [
        {"id": info.name.removeprefix(prefix), "title": info.title, "at": info.seen, "state": info.state}
        for info in list_conversations(store, beginning=prefix, limit=limit)
    ]


def describe_run(run: RunInfo) -> Json:
    """Return what the page shows of a run in a list."""
    shown = {name: getattr(run, name) for name in ("id", "model", "state", "begun", "stopped", "seen", "steps")}
    return {**shown, "query": mask(run.query), "error": mask(run.error), "usage": run.usage.as_dict()}


def find_stored_run(store: Place, user: str, identity: str) -> JournaledRun:
    """Return a run of a user in a journal.

    Raises:
        JournalError: There is no such run, it is another user's, or the journal cannot be read.
    """
    found = show(identity, store=store)
    if user and found.run.conversation not in keys_of_user(store, user):
        raise JournalError("not found")
    return found


def read_run(store: Place, user: str, identity: str) -> Json:
    """Return a run with its events, as `find_stored_run` finds it, and the id of the conversation that continues it."""
    found = find_stored_run(store, user, identity)
    run = found.run
    pending: Sequence[Pending] = ()
    thread = ""
    stored = find_conversation(run.conversation, store) if run.is_unfinished and "/" not in run.origin else None
    if stored is not None and stored.mark.run == run.id:  # no other run has continued the conversation
        name = stored.name
        thread = name.removeprefix(name_thread(user, "")) if name else f"{RUN_PREFIX}{run.id}"
        pending = stored.list_pending_of(stored.runs[-1])
    return {**describe_run(run), "thread": thread, "events": [*_events(found, run.id, pending, draws=True)]}


def read_request(store: Place, user: str, identity: str, number: int) -> Json:
    """Return the messages of a request of a run, masked; raise `JournalError` if the run has no such request.

    A journal keeps messages, not requests: what a policy changed in a request, a shortened result, say, is not shown.
    """
    found = find_stored_run(store, user, identity)
    messages = found.messages
    places = [place for place in range(found.run.first, len(messages)) if messages[place]["role"] == "assistant"]
    if not 0 < number <= len(places):
        raise JournalError("not found")
    return {"model": found.run.model, "messages": mask_data(messages[: places[number - 1]])}


def locate(user: str, thread: str, store: Place) -> str | int:
    """Return the name of a conversation in the journal, or its key if the id names a run."""
    if user or not thread.startswith(RUN_PREFIX):
        return name_thread(user, thread)
    return show(thread.removeprefix(RUN_PREFIX), store=store).run.conversation


def delete_stored(user: str, thread: str, store: Place) -> None:
    """Delete a conversation of a user from a journal, if it has it."""
    if (mark := read_mark(locate(user, thread, store), store)) is not None:
        delete_conversation(mark.key, store=store)


def rename_stored(user: str, thread: str, title: str, store: Place) -> None:
    """Give a conversation of a user a title.

    Raises:
        InputError: The journal has no such conversation.
    """
    if (mark := read_mark(locate(user, thread, store), store)) is None:
        raise InputError("a conversation has a title when its first run has begun")
    rename_conversation(mark.key, title, store=store)


def open_conversation(user: str, thread: str, store: Place, *, draws: bool = False) -> Thread:
    """Return a conversation of a user in a journal with the events of its runs; `draws` as in `AguiEncoder`.

    One whose name is new is written with its first run, so that opening the page leaves no trace.
    """
    if (stored := find_conversation(locate(user, thread, store), store)) is None:
        return Thread(thread, draws=draws)
    conversation = Thread(thread, stored.session, draws=draws)
    for run in stored.runs:
        pending = stored.list_pending_of(run)
        held = {entry.call.id for entry in pending if entry.is_approval}  # they begin with the decision
        conversation.extend([*_events(run, thread, pending, draws=draws, without=held)])
        conversation.state = run.run.stopped or run.run.state
    conversation.interrupted = stored.interrupted
    conversation.mark = stored.mark
    return conversation


def _events(
    run: JournaledRun, thread: str, pending: Sequence[Pending], *, draws: bool, without: Collection[str] = ()
) -> Iterator[Json]:
    """Yield the events of a run, without those of some calls."""
    info = run.run
    first = info.first
    query = {"id": f"{info.id}-query", "role": "user", "content": mask(info.query)}
    if first < len(run.messages) and run.messages[first]["role"] == "user":
        query["content"] = mask_data(run.messages[first]["content"])
    given = echo_input(thread, info.id, [query] if info.query else [])
    encoder = AguiEncoder(thread, info.id, given, draws=draws)
    for seconds, frame in frames_of_journaled_run(run, pending):
        if not (isinstance(frame, CallOpened) and frame.id in without):
            yield from encoder.encode(frame, info.begun + seconds)


MAX_CONVERSATIONS = 200
"""Conversations of a journal that are kept in memory too; the oldest idle ones are read from the journal again."""
MAX_UNSTORED_CONVERSATIONS = 1_000
"""Conversations without a journal; beyond them the oldest idle one of the user who has the most is lost."""


class Threads:
    """The conversations with one agent.

    Args:
        agent: The agent.
        journal: The journal in which each conversation is kept under its id; None keeps them in memory alone.
        draws: As in `AguiEncoder`.
        shares_state: Whether the state of a run is the client's, as in `agui`.
    """

    def __init__(
        self, agent: JsonAgent[Any], journal: Place | None = None, *, draws: bool = False, shares_state: bool = False
    ) -> None:
        self.agent = agent
        self._shares_state = shares_state
        self.journal = journal
        self._draws = draws
        if journal is not None:
            with opened_store(journal):  # creates it
                pass
        self._open: dict[tuple[str, str], Thread] = {}
        """The conversations in memory, by their users and ids; the one that was used last is the last."""

    async def find(self, user: str, thread: str) -> Thread:
        """Return a conversation: the one in memory, the one in the journal, or a new one, which is not kept yet."""
        known = self._open.get((user, thread))
        if self.journal is None:
            return known or Thread(thread, draws=self._draws)
        if known is not None:
            mark = known.mark
            if not known.is_idle or (mark and await asyncio.to_thread(read_mark, mark.key, self.journal) == mark):
                return known  # no other process has continued it
        found = await asyncio.to_thread(open_conversation, user, thread, self.journal, draws=self._draws)
        if (known := self._open.get((user, thread))) is None:
            return self._keep(user, found) if found.events else found
        if known.is_idle:
            known.replace(found)
        return known

    async def _find_released(self, user: str, thread: str) -> Thread:
        """Return a conversation, kept: one whose last run has told its end is free for the next at once."""
        if (known := self._open.get((user, thread))) is not None:
            await known.wait_until_released()
        return self._keep(user, await self.find(user, thread))

    async def start(
        self, given: RunInput, user: str = "", session: Session | None = None, **how: Any
    ) -> tuple[Thread, int]:
        """Begin a run and return its conversation with the id of the first event.

        Args:
            given: What the client asks for.
            user: The id of the user.
            session: Takes the place of that of the conversation.
            **how: Options of the run.

        Raises:
            BusyError: A run of the conversation is working, or a decision comes too late.
            InputError: Nothing is interrupted, or the query, an answer or a part has no valid content.
        """
        query = query_of_content(given.content)
        if isinstance(query, str) and not query.strip():
            raise InputError("messages: the last one is empty")
        if given.state and not self._shares_state:
            raise InputError("state: this app shares none with a client. Leave it out, or agui(..., share_state=True)")
        if taken := [tool.name for tool in given.tools if tool.name in self.agent.spec.tools]:
            raise InputError(f"tools: {taken[0]!r} is a tool of the agent. Give the client's tool another name.")
        conversation = await self._find_released(user, given.thread)
        known = conversation.session if session is None else session
        given = without_known_query(given, known.messages)
        if (first := conversation.resume(given)) is not None:
            return conversation, first
        conversation.claim(given.run)
        try:
            if session is not None:
                conversation.session = session
            if given.is_continuation:
                if not conversation.interrupted:
                    raise InputError("no run of this conversation was interrupted")
                if self.journal is not None:
                    resumed = asyncio.to_thread(Session.resumed, conversation.interrupted, self.journal)
                    conversation.session = await resumed
            elif self.journal is not None and conversation.session.journaled is None:
                name = name_thread(user, given.thread)
                conversation.session = await asyncio.to_thread(Session.open, name, self.journal)
            conversation.check_decisions(given)
            if given.resume and given.content is None and not conversation.find_answers(given):
                return conversation, conversation.cancel(given)
            first = conversation.start(self.agent, given, shares_state=self._shares_state, **how)
        except BaseException:
            conversation.release()
            raise
        await conversation.wait_until_begun(first)
        return conversation, first

    async def delete(self, user: str, thread: str) -> None:
        """Delete a user's conversation, with its runs in the journal; do nothing if it does not exist.

        Raises:
            BusyError: A run of the conversation is working.
        """
        conversation = await self._find_released(user, thread)
        conversation.claim("deletion")
        try:
            if self.journal is not None:
                await asyncio.to_thread(delete_stored, user, thread, self.journal)
            del self._open[user, thread]
        except ConversationBusy as error:
            raise BusyError(str(error)) from error
        finally:
            conversation.release()

    async def rename(self, user: str, thread: str, title: str) -> None:
        """Give a user's conversation a title; "" for its first query.

        Raises:
            InputError: It does not exist, or no journal keeps it.
            DefinitionError: The title is not valid.
        """
        if self.journal is None:
            raise InputError("without a journal a conversation has no title of its own")
        await asyncio.to_thread(rename_stored, user, thread, title, self.journal)

    async def list(self, user: str = "", limit: int = LIST_LENGTH) -> list[dict[str, Any]]:
        """Return the user's conversations in the journal and in this process, the newest first."""
        stored = [] if self.journal is None else await asyncio.to_thread(list_threads, self.journal, user, limit)
        own = {thread: conversation for (owner, thread), conversation in self._open.items() if owner == user}
        known = {thread["id"] for thread in stored}
        for thread, conversation in reversed(own.items()):
            if thread not in known and conversation.events:
                given = conversation.events[0].get("input") or {}
                messages = given.get("messages") or [{}]
                stored.insert(0, {"id": thread, "title": _title(messages[0].get("content")), "at": None})
        running = {thread for thread, conversation in own.items() if conversation.running}
        asking = {thread for thread, conversation in own.items() if conversation.is_asking}
        if self.journal is None:  # else it has the state of what waits
            asking |= {thread for thread, conversation in own.items() if conversation.is_waiting}
        return [{**thread, "running": thread["id"] in running, "isAsking": thread["id"] in asking} for thread in stored]

    def unfollow(self) -> None:
        """End the streams of all conversations, because the server ends."""
        for conversation in self._open.values():
            conversation.unfollow()

    def _keep(self, user: str, conversation: Thread) -> Thread:
        """Keep a conversation in memory, unless one of its id is there, and return the one that is kept."""
        key = (user, conversation.thread)
        kept = self._open[key] = self._open.pop(key, conversation)
        most = MAX_UNSTORED_CONVERSATIONS if self.journal is None else MAX_CONVERSATIONS
        if len(self._open) > most:
            idle = [known for known, one in self._open.items() if one.is_idle and known != key]
            users = Counter(owner for owner, _ in self._open)
            if self.journal is None and idle:
                busiest = max({owner for owner, _ in idle}, key=users.__getitem__)
                idle = sorted(
                    (known for known in idle if known[0] == busiest), key=lambda known: self._open[known].is_waiting
                )
            for known in idle[: len(self._open) - most]:
                del self._open[known]
        return kept


def _title(content: Any) -> str:
    texts = content if isinstance(content, list) else [{"text": content}]
    return " ".join(str(part.get("text") or "") for part in texts if isinstance(part, dict)).strip()[:200]
