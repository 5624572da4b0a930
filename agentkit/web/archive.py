"""The runs of a journal, as events of AG-UI: the same page shows a run while it works and after years."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..core.masking import mask, mask_data
from ..sessions.journal import JournaledRun, RunInfo, runs, show
from ..sessions.journal.connections import opened_store
from ..sessions.journal.location import Place
from ..sessions.journal.maintenance import name_conversations
from ..sessions.session import Session
from ..views.frames import PendingInput
from ..views.pending_inputs import list_pending
from ..views.stored_frames import frames_of_stored_run
from .encode import AguiEncoder
from .thread import Thread

Json = dict[str, Any]
MAX_LISTED_RUNS = 200


def create_journal(store: Place) -> None:
    """Create the journal if it does not exist."""
    with opened_store(store):
        pass


def list_runs(store: Place) -> list[Json]:
    """Return what the page lists of the runs of a journal, the newest first."""
    return [describe_run(run) for run in runs(store, limit=MAX_LISTED_RUNS)]


def list_threads(store: Place) -> list[Json]:
    """Return the named conversations of a journal, each with its first query, the newest first."""
    names = name_conversations(store)
    found: dict[str, Json] = {}
    for run in sorted(runs(store), key=lambda run: run.begun):
        if name := names.get(run.conversation):
            old = found.get(name, {"id": name, "title": mask(run.query)})
            found[name] = {**old, "at": run.seen, "state": run.state}
    return sorted(found.values(), key=lambda thread: thread["at"], reverse=True)


def describe_run(run: RunInfo) -> Json:
    """Return what the page shows of a run in a list."""
    usage = run.usage.as_dict()
    shown = {"id": run.id, "query": mask(run.query), "model": run.model, "state": run.state, "begun": run.begun}
    return {**shown, "seen": run.seen, "steps": run.steps, "error": mask(run.error), "usage": usage}


def read_run(store: Place, identity: str) -> Json:
    """Return a run of a journal with its events.

    Raises:
        JournalError: There is no such run, or the journal cannot be read.
    """
    found = show(identity, store=store)
    return {**describe_run(found.run), "events": [*_events(found, found.run.id, found.run.id, ())]}


def read_request(store: Place, identity: str, number: int) -> Json | None:
    """Return the messages of a request of a run, masked; None if the run has no such request.

    A journal keeps messages, not requests: what a policy changed in a request, a shortened result, say, is not shown.
    """
    found = show(identity, store=store)
    messages = found.messages
    places = [place for place in range(found.run.first, len(messages)) if messages[place]["role"] == "assistant"]
    if not 0 < number <= len(places):
        return None
    return {"model": found.run.model, "messages": mask_data(messages[: places[number - 1]])}


def open_conversation(thread: str, store: Place) -> Thread:
    """Return a conversation of a journal with the events of its runs.

    One whose name is new is written with its first run, so that opening the page leaves no trace.
    """
    if thread not in name_conversations(store).values():
        return Thread(thread)
    session = Session.open(thread, store)
    conversation = Thread(thread, session)
    key = session.journaled.key if session.journaled is not None else None
    own = sorted((run for run in runs(store) if run.conversation == key), key=lambda run: run.begun)
    for run in own:
        is_last = run is own[-1]
        pending = list_pending(session.waiting, session.questions, {}) if is_last and run.state == "paused" else ()
        conversation.extend([*_events(show(run.id, store=store), thread, run.id, pending)])
    if own and own[-1].state == "interrupted":
        conversation.interrupted = own[-1].id
    return conversation


def _events(run: JournaledRun, thread: str, identity: str, pending: Sequence[PendingInput]) -> Iterator[Json]:
    info, first = run.run, run.run.first
    query = {"id": f"{identity}-query", "role": "user", "content": mask(info.query)}
    if first < len(run.messages) and run.messages[first]["role"] == "user":
        query["content"] = mask_data(run.messages[first]["content"])
    given = {"threadId": thread, "runId": identity, "messages": [query] if info.query else []}
    encoder = AguiEncoder(thread, identity, given)
    frames = frames_of_stored_run(
        run.as_dict(), run_id=info.id, query=info.query, state=info.state, first=first, pending=pending
    )
    for seconds, frame in frames:
        yield from encoder.encode(frame, info.begun + seconds)
