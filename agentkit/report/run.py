"""A run, or a conversation, as HTML: what it was asked and came to, where the time went, and every word of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .markup import Html, joined, page, tag, value, view, visible
from .timeline import timeline

Data = Mapping[str, Any]


def result_page(result: Data) -> str:
    """The whole page for a result's plain data."""
    return page(f"agentkit: {_query(result['messages'])[:80]}", *_parts(result))


def result_view(result: Data) -> Html:
    """The result for a notebook."""
    return view(*_parts(result))


def session_page(messages: Sequence[Data]) -> str:
    """The whole page for a conversation."""
    return page("agentkit: a conversation", *_conversation(messages, {}))


def session_view(messages: Sequence[Data]) -> Html:
    """A conversation for a notebook."""
    return view(*_conversation(messages, {}))


def _parts(result: Data) -> Iterator[Html]:
    messages, spans = result["messages"], result.get("trace", [])
    yield tag("h1", visible(_query(messages)))
    answer = result["answer"]
    yield tag("div", visible(answer), class_="answer") if isinstance(answer, str) else value(answer)
    yield _figures(result)
    for note in result.get("notes", []):
        yield tag("div", visible(f"{note['at']:.2f} s  {note['text']}"), class_="note")
    yield timeline(spans, result.get("seconds", 0.0))
    yield tag("h2", "What was said")
    yield from _conversation(messages, {span["call"]: span for span in spans if span.get("call")})


def _query(messages: Sequence[Data]) -> str:
    """What the last run was asked."""
    said = [message for message in messages if message["role"] == "user"]
    return _text(said[-1]) if said else "a run"


def _figures(result: Data) -> Html:
    usage = result["usage"]
    cost = usage.get("cost")
    told = {
        "model": result["model"],
        "stopped": result["stopped"],
        "requests": f"{usage['requests']:,}",
        "tokens": f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out",
        "cached": f"{usage['cached_tokens']:,}" if usage.get("cached_tokens") else "",
        "cost": "unknown" if cost is None else f"${cost:.6f}".rstrip("0").rstrip("."),
        "time": f"{result['seconds']:.2f} s",
    }
    return tag(
        "ul", *(tag("li", f"{name} ", tag("b", visible(text))) for name, text in told.items() if text), class_="figures"
    )


def _conversation(messages: Sequence[Data], spans: Mapping[str, Data]) -> Iterator[Html]:
    results = {message.get("tool_call_id"): message for message in messages if message["role"] == "tool"}
    for message in messages:
        if message["role"] == "tool":
            continue
        calls = [
            _call(call, results.get(call["id"]), spans.get(call["id"])) for call in message.get("tool_calls") or ()
        ]
        said = _said(message)
        yield tag("article", tag("div", message["role"], class_="who"), said, *calls)


def _said(message: Data) -> Html:
    text = tag("div", visible(_text(message)), class_="said") if _text(message) else Html("")
    if message["role"] == "system":
        return tag("details", tag("summary", "the instruction"), text)
    thoughts = message.get("reasoning_content")
    thinking = tag("details", tag("summary", "thoughts"), value(thoughts)) if thoughts else None
    return joined(thinking, text)


def _call(call: Data, result: Data | None, span: Data | None) -> Html:
    span = span or {}
    seconds = f"  {span['end'] - span['start']:.2f} s" if span else ""
    notes = [tag("div", visible(note), class_="note") for note in span.get("repairs", ())]
    return tag(
        "div",
        tag("b", visible(call["function"]["name"])), tag("span", seconds, class_="dim"),
        value(_json(call["function"]["arguments"])), *notes,
        value(_text(result)) if result else tag("div", "no result yet", class_="dim"),
        class_="call failed" if span.get("error") else "call", id=call["id"],
    )  # fmt: skip


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(message: Data) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in content)
