"""A run or a conversation as HTML: the query and the answer, the timeline, and every message."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from zlib import crc32

from ...core.messages import Usage
from .comparison import render_comparison
from .conversation import MAX_PAGE_BYTES, MessageList, content_of, max_text_bytes
from .figures import format_count, format_moment, format_seconds, render_figures, run_figures, usage_figures
from .markup import Html, build_page, join, tag, truncate, wrap_view
from .prose import render_answer
from .timeline import render_timeline

Data = Mapping[str, Any]

MIN_ANSWER_BYTES = 8_000
"""Bytes of a long answer that are shown at least."""
MAX_CELL_BYTES = 40_000
"""Bytes of all texts in a notebook's cell."""


def result_page(result: Data) -> str:
    """Return the whole page for a result's plain data."""
    conversation = _conversation(result, max_text_bytes(result))
    return build_page(f"agentkit: {_query(conversation)}", *_result_parts(result, conversation))


def compare_page(result: Data, other: Data) -> str:
    """Return the whole page for the plain data of two results, side by side."""
    first = _conversation(result, max_text_bytes(result, MAX_PAGE_BYTES // 2), "a")
    second = _conversation(other, max_text_bytes(other, MAX_PAGE_BYTES // 2), "b")
    heads = tag("h1", "Two runs"), render_comparison((result, first), (other, second))
    return build_page(f"agentkit: {_query(first)} (two runs)", *heads)


def result_view(result: Data) -> Html:
    """Return the view of a result's plain data for a notebook."""
    conversation = _conversation(result, max_text_bytes(result, MAX_CELL_BYTES), _anchor_prefix(result))
    return wrap_view(*_result_parts(result, conversation))


def session_page(messages: Sequence[Data], usage: Data | None = None) -> str:
    """Return the whole page for a conversation."""
    parts = _session_parts(messages, usage or {}, max_text_bytes(messages))
    return build_page("agentkit: a conversation", tag("h1", "A conversation"), *parts)


class SessionLike(Protocol):
    """The attributes of a session that a view reads."""

    messages: list[dict[str, Any]]
    usage: Usage


def session_view(session: SessionLike) -> Html:
    """Return the view of a conversation for a notebook."""
    messages, max_bytes = session.messages, max_text_bytes(session.messages, MAX_CELL_BYTES)
    return wrap_view(*_session_parts(messages, session.usage.as_dict(), max_bytes, _anchor_prefix(messages)))


def _session_parts(messages: Sequence[Data], usage: Data, max_bytes: int, anchor: str = "m") -> Iterator[Html]:
    queries = sum(message["role"] == "user" for message in messages)
    calls = sum(len(message.get("tool_calls") or ()) for message in messages)
    count = f"{format_count(len(messages), 'message')}, {queries} of them from the user"
    yield render_figures({"": count, "calls": calls, **usage_figures(usage)})
    yield from MessageList(messages, {}, max_bytes, anchor).render()


def _result_parts(result: Data, conversation: MessageList) -> Iterator[Html]:
    trace = conversation.trace
    yield tag("h1", truncate(_query(conversation), conversation.max_bytes))
    max_bytes = max(conversation.max_bytes, MIN_ANSWER_BYTES)
    yield render_answer(result.get("error"), result.get("answer"), max_bytes, conversation.answer)
    yield render_figures(run_figures(result))
    yield _settings(result)
    links = conversation.links
    yield render_timeline(trace.get("spans", ()), result.get("seconds", 0.0), links)
    yield _notes(trace, links)
    yield tag("h2", "Turns", id=f"{conversation.anchor.removesuffix('m')}turns")
    yield from conversation.render()


def _conversation(result: Data, max_bytes: int, anchor: str = "m") -> MessageList:
    answer = "" if result.get("error") or result.get("answer") is None else f"{anchor}-answer"
    return MessageList(result.get("messages", ()), result.get("trace") or {}, max_bytes, anchor, answer)


def _anchor_prefix(data: Any) -> str:
    """Return a prefix for the anchors of a view, because other views of a notebook are on the same page."""
    return f"m{crc32(json.dumps(data, default=str).encode()):x}-"


def _query(conversation: MessageList) -> str:
    messages, first = conversation.messages, conversation.first_of_run
    if messages[first : first + 1] and messages[first]["role"] == "user":
        return content_of(messages[first])
    return next((content_of(message) for message in messages if message["role"] == "user"), "a run")


def _settings(result: Data) -> Html:
    """Return when the run began, with which limits and versions."""
    limits = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in (result.get("limits") or {}).items())
    versions = ", ".join(f"{name} {number}" for name, number in (result.get("versions") or {}).items())
    return render_figures({"started": format_moment(result), "limits": limits, "with": versions})


def _notes(trace: Data, links: Mapping[str, str]) -> Html:
    """Return repairs and notices as a table: the moment, which links to the message, and the text."""
    repairs = [
        (span["start"], f"{span['name']}: repaired {repair}", links.get(span.get("call", "")), "note")
        for span in trace.get("spans", ()) for repair in span.get("repairs", ())
    ]  # fmt: skip
    notes = [
        (note["at"], note["text"], links.get(str(note.get("place"))), "note" if note.get("level") == "WARNING" else "")
        for note in trace.get("notes", ())
    ]
    rows = []
    for at, text, link, kind in sorted(repairs + notes, key=lambda note: float(note[0])):
        moment = tag("a" if link else "span", format_seconds(at), href=link and f"#{link}")
        rows.append(tag("tr", tag("td", moment), tag("td", truncate(text, 400), class_=kind)))
    return join(tag("h2", "Notes"), tag("table", *rows)) if rows else Html("")
