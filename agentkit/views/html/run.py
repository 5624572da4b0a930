"""A run, or a conversation, as HTML: what it was asked and came to, where the time went, and every word of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from zlib import crc32

from ...core.messages import Usage
from .conversation import Conversation, content_of, longest
from .figures import counted, duration, figures, spent
from .markup import Html, block, cut, joined, page, tag, view
from .timeline import timeline

Data = Mapping[str, Any]

ANSWER = 8_000
"""Bytes of the answer that are shown in any case."""
CELL = 40_000
"""Bytes that the texts in a notebook's cell take together."""


def result_page(result: Data) -> str:
    """The whole page for a result's plain data."""
    conversation = _conversation(result, longest(result))
    return page(f"agentkit: {_query(conversation)}", *_parts(result, conversation))


def result_view(result: Data) -> Html:
    """The result for a notebook."""
    return view(*_parts(result, _conversation(result, longest(result, CELL), _unique(result))))


def session_page(messages: Sequence[Data], usage: Data | None = None) -> str:
    """The whole page for a conversation."""
    return page(
        "agentkit: a conversation", tag("h1", "A conversation"), *_session(messages, usage or {}, longest(messages))
    )


class Talked(Protocol):
    """What this file needs of a session."""

    messages: list[dict[str, Any]]
    usage: Usage


def session_view(session: Talked) -> Html:
    """A conversation for a notebook."""
    messages = session.messages
    return view(*_session(messages, session.usage.as_dict(), longest(messages, CELL), _unique(messages)))


def _session(messages: Sequence[Data], usage: Data, most: int, anchor: str = "m") -> Iterator[Html]:
    said = sum(message["role"] == "user" for message in messages)
    called = sum(len(message.get("tool_calls") or ()) for message in messages)
    yield figures(
        {"": f"{counted(len(messages), 'message')}, {said} of them from the user", "calls": called, **spent(usage)}
    )
    yield from Conversation(messages, {}, most, anchor).html()


def _parts(result: Data, conversation: Conversation) -> Iterator[Html]:
    trace = conversation.trace
    yield tag("h1", cut(_query(conversation), conversation.most))
    if error := result.get("error"):
        yield tag("div", cut(str(error), conversation.most), class_="answer wrong")
    else:
        answer, most = result.get("answer"), max(conversation.most, ANSWER)
        shown = cut(answer, most) if isinstance(answer, str) else block(answer, most, folded=False)
        yield tag("div", shown, class_="answer")
    yield _figures(result, trace)
    links = conversation.links
    yield timeline(trace.get("spans", ()), result.get("seconds", 0.0), links)
    yield _notes(trace, links)
    yield tag("h2", "What was said")
    yield from conversation.html()


def _conversation(result: Data, most: int, anchor: str = "m") -> Conversation:
    return Conversation(result.get("messages", ()), result.get("trace") or {}, most, anchor)


def _unique(data: Any) -> str:
    """What the names of places begin with: other views of a notebook have others."""
    return f"m{crc32(json.dumps(data, default=str).encode()):x}-"


def _query(conversation: Conversation) -> str:
    """What the run was asked."""
    messages = conversation.messages
    if messages[conversation.first : conversation.first + 1] and messages[conversation.first]["role"] == "user":
        return content_of(messages[conversation.first])
    return next((content_of(message) for message in messages if message["role"] == "user"), "a run")


def _figures(result: Data, trace: Data) -> Html:
    spans = trace.get("spans", ())
    calls = [span for span in spans if span["kind"] == "tool"]
    return figures({
        "model": result.get("model"),
        "stopped": result.get("stopped"),
        "time": duration(result.get("seconds", 0.0)),
        **spent(result.get("usage") or {}),
        "calls": len(calls),
        "failed calls": sum(bool(span.get("error")) for span in calls),
        "repairs": sum(len(span.get("repairs", ())) for span in calls),
        "failed requests": sum(bool(span.get("error")) for span in spans if span["kind"] == "model"),
    })  # fmt: skip


def _notes(trace: Data, links: Mapping[str, str]) -> Html:
    """What a person should know, with the moment it came up and a link to the place."""
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
        moment = tag("a" if link else "span", duration(at), href=link and f"#{link}")
        rows.append(tag("tr", tag("td", moment), tag("td", cut(text, 400), class_=kind)))
    return joined(tag("h2", "Worth knowing"), tag("table", *rows)) if rows else Html("")
