"""The runs of a journal, as events of AG-UI: the same page shows a run while it works and after years."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..core.masking import mask, mask_data
from ..sessions.journal import JournaledRun, RunInfo, runs, show
from ..sessions.journal.connections import opened_store
from ..sessions.journal.location import Place
from ..sessions.stored_conversation import find_conversation, frames_of_journaled_run, list_conversations
from ..views.frames import PendingInput
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
    found = list_conversations(store)
    return [{"id": info.name, "title": info.title, "at": info.seen, "state": info.state} for info in found]


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
    return {**describe_run(found.run), "events": [*_events(found, found.run.id, found.run.id, (), draws=True)]}


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


def open_conversation(thread: str, store: Place, *, draws: bool = False) -> Thread:
    """Return a conversation of a journal with the events of its runs; `draws` as in `AguiEncoder`.

    One whose name is new is written with its first run, so that opening the page leaves no trace.
    """
    if (stored := find_conversation(thread, store)) is None:
        return Thread(thread, draws=draws)
    conversation = Thread(thread, stored.session, draws=draws)
    for run in stored.runs:
        conversation.extend([*_events(run, thread, run.run.id, stored.list_pending_of(run), draws=draws)])
    conversation.interrupted = stored.interrupted
    return conversation


def _events(
    run: JournaledRun, thread: str, identity: str, pending: Sequence[PendingInput], *, draws: bool
) -> Iterator[Json]:
    info, first = run.run, run.run.first
    query = {"id": f"{identity}-query", "role": "user", "content": mask(info.query)}
    if first < len(run.messages) and run.messages[first]["role"] == "user":
        query["content"] = mask_data(run.messages[first]["content"])
    given = {"threadId": thread, "runId": identity, "messages": [query] if info.query else []}
    encoder = AguiEncoder(thread, identity, given, draws=draws)
    for seconds, frame in frames_of_journaled_run(run, pending):
        yield from encoder.encode(frame, info.begun + seconds)
