"""A run or a conversation as a page: the query and the answer, the timeline, and every message.

The timeline has the spans as bars on one scale: requests in the first lane, calls below, overlapping calls side by
side, and paler below them the spans of agents inside tools.  Two runs are compared by their figures, their answers, and
their turns aligned by what they called.

An agent, and a run while it works, are HTML for a notebook's cell.  For places that show no HTML there is Markdown, in
which markup of a text has no effect.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Protocol
from zlib import crc32

from ...core.masking import mask, mask_data
from ...core.messages import Usage, remove_delimiters
from ...core.pending import WAITS_TITLE, Pending, hint_at_answers, list_waiting, suggest_answers
from ...core.portable import to_canonical_text, truncate
from ..history import Data
from .conversation import (
    MAX_PAGE_BYTES,
    MessageList,
    Turn,
    content_of,
    max_text_bytes,
    render_answer,
    render_prose,
    render_turn,
)
from .markup import (
    Html,
    build_page,
    format_cost,
    format_count,
    format_moment,
    format_seconds,
    format_tokens,
    join,
    render_block,
    render_figures,
    render_table,
    run_figures,
    tag,
    truncate_html,
    usage_figures,
    wrap_view,
    write_compact,
)
from .tool_catalogue import Tool, folded_tools, order_tools

MIN_ANSWER_BYTES = 8_000
"""Bytes of a long answer that are shown at least."""
MAX_CELL_BYTES = 40_000
"""Bytes of all texts in a notebook's cell."""


def result_page(result: Data) -> str:
    """Return the whole page for a result's plain data."""
    conversation = _conversation(result, max_text_bytes(result))
    return build_page(f"agentkit: {_query(conversation)}", *_result_parts(result, conversation))


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
    messages = session.messages
    max_bytes = max_text_bytes(session.messages, MAX_CELL_BYTES)
    return wrap_view(*_session_parts(messages, session.usage.as_dict(), max_bytes, _anchor_prefix(messages)))


def _session_parts(messages: Sequence[Data], usage: Data, max_bytes: int, anchor: str = "m") -> Iterator[Html]:
    queries = sum(message["role"] == "user" for message in messages)
    calls = sum(len(message.get("tool_calls") or ()) for message in messages)
    count = f"{format_count(len(messages), 'message')}, {queries} of them from the user"
    yield render_figures({"": count, "calls": calls, **usage_figures(usage)})
    yield from MessageList(messages, {}, max_bytes, anchor).render()


def _result_parts(result: Data, conversation: MessageList) -> Iterator[Html]:
    trace = conversation.trace
    yield tag("h1", truncate_html(_query(conversation), conversation.max_bytes))
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
    messages = conversation.messages[conversation.first_of_run :]
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
        for span in trace.get("spans", ())
        for repair in span.get("repairs", ())
    ]
    notes = [
        (note["at"], note["text"], links.get(str(note.get("place"))), "note" if note.get("level") == "WARNING" else "")
        for note in trace.get("notes", ())
    ]
    rows = []
    for at, text, link, kind in sorted(repairs + notes, key=lambda note: float(note[0])):
        moment = tag("a" if link else "span", format_seconds(at), href=link and f"#{link}")
        rows.append(tag("tr", tag("td", moment), tag("td", truncate_html(text, 400), class_=kind)))
    return join(tag("h2", "Notes"), tag("table", *rows)) if rows else Html("")


MIN_BAR_PERCENT = 0.15
MIN_LABEL_PERCENT = 4.0
"""Percent of the width: the width of the narrowest bar, and the width from which a bar shows its name."""


def render_timeline(spans: Sequence[Data], seconds: float, links: Mapping[str, str]) -> Html:
    """Return the bars; `links` are the anchors of the calls, by their ids, and of the messages, by their indices."""
    if not spans:
        return Html("")
    levels = [*_levels(spans)]
    whole = max([seconds, *(span["end"] for lanes in levels for lane in lanes for span in lane)]) or 1.0
    rows = []
    for depth, lanes in enumerate(levels):
        for lane in lanes:
            bars = (_bar(span, whole, {} if depth else links) for span in lane)
            rows.append(tag("div", *bars, class_=f"lane{' in' * bool(depth)}"))
    ends = [format_seconds(whole * part / 4) if part else "0" for part in range(5)]
    scale = tag("div", *(tag("span", end) for end in ends), class_="scale", data_seconds=whole)
    shown = tag("div", tag("div", *rows, scale, class_="time"), class_="lanes")
    return join(tag("h2", "Timeline"), shown, _sums(spans, whole))


def _levels(spans: Sequence[Data]) -> Iterator[list[list[Data]]]:
    """Yield the lanes of each level: of the run, of the agents inside its calls, of the agents inside theirs."""
    requests = [span for span in spans if span["kind"] != "tool"]
    yield [*([requests] if requests else []), *_lanes([span for span in spans if span["kind"] == "tool"])]
    while inner := [deeper for span in spans for deeper in span.get("inner", {}).get("spans", ())]:
        yield _lanes(inner)
        spans = inner


def _lanes(spans: Sequence[Data]) -> list[list[Data]]:
    """Put each span into the first lane that is free at its start."""
    lanes: list[list[Data]] = []
    for span in sorted(spans, key=lambda span: float(span["start"])):
        free = next((lane for lane in lanes if lane[-1]["end"] <= span["start"]), None)
        if free is None:
            lanes.append(free := [])
        free.append(span)
    return lanes


def _bar(span: Data, whole: float, links: Mapping[str, str]) -> Html:
    length = max(0.0, span["end"] - span["start"])
    title = f"{'waiting ' if span['kind'] == 'wait' else ''}{span['name']}  {format_seconds(length)}"
    title += f": {span['error']}" if span.get("error") else ""
    width = max(100 * length / whole, MIN_BAR_PERCENT)
    left = min(100 * max(0.0, span["start"]) / whole, 100 - width)
    kind = span["kind"] if span["kind"] in ("model", "tool", "wait") else "tool"
    has_label = width >= MIN_LABEL_PERCENT and kind != "wait"
    label = f"{str(span['name']).rpartition('/')[2]} {format_seconds(length)}" if has_label else None
    link = links.get(span["call"] if span.get("call") else str(span.get("place", "")))
    return tag(
        "a" if link else "div",
        label,
        class_=f"bar {kind}{' bad' if span.get('error') else ''}",
        style=f"left:{left:.2f}%;width:{width:.2f}%",
        title=title,
        href=link and f"#{link}",
        tabindex="-1" if link else None,  # hundreds of bars would be as many stops of the Tab key
    )


def _sums(spans: Sequence[Data], whole: float) -> Html:
    """Return the total duration of each kind; overlapping spans are counted once."""
    totals: dict[str, str] = {}
    for kind, name in (("model", "model"), ("tool", "tools"), ("wait", "waiting")):
        total = 0.0
        end = 0.0
        for span in sorted((span for span in spans if span["kind"] == kind), key=lambda span: float(span["start"])):
            total += max(0.0, span["end"] - max(span["start"], end))
            end = max(end, span["end"])
        if end:
            totals[name] = f"{format_seconds(total)} ({100 * total / whole:.0f} %)"
    return render_figures(totals)


LABELS = {
    "equal": "the same calls and results",
    "results": "the same calls, different results",
    "replace": "different",
    "delete": "only in the first",
    "insert": "only in the second",
}


def compare_page(result: Data, other: Data) -> str:
    """Return the whole page for the plain data of two results: figures, answers, and the turns of both in rows."""
    first = _conversation(result, max_text_bytes(result, MAX_PAGE_BYTES // 2), "a")
    second = _conversation(other, max_text_bytes(other, MAX_PAGE_BYTES // 2), "b")
    sides = ((result, first), (other, second))
    figures = [{"started": format_moment(data), **run_figures(data)} for data, _ in sides]
    rows = ([name, *(side[name] for side in figures)] for name in figures[0])
    answers = (render_answer(data.get("error"), data.get("answer"), shown.max_bytes) for data, shown in sides)
    return build_page(
        f"agentkit: {_query(first)} (two runs)",
        tag("h1", "Two runs"),
        render_table(("", "first", "second"), (row for row in rows if any(row[1:])), "th"),
        tag("h2", "Answers"),
        tag("div", *(tag("div", answer, class_="side") for answer in answers), class_="pair"),
        tag("h2", "Turns", id="turns"),
        *_pairs(first, second),
    )


def _pairs(first: MessageList, second: MessageList) -> Iterator[Html]:
    """Yield a row for each pair of turns; turns with the same calls and arguments stand beside each other."""
    turns = [[part for _, part in side.parts() if isinstance(part, Turn)] for side in (first, second)]
    replies = [[*_compared(side)] for side in (first, second)]
    before, after = ([key for key, _ in side] for side in replies)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        for offset in range(max(a_end - a, b_end - b)):
            places = (a + offset if a + offset < a_end else None, b + offset if b + offset < b_end else None)
            both = all(place is not None for place in places)
            label: str = kind if kind == "equal" or both else "delete" if places[0] is not None else "insert"
            if label == "equal" and replies[0][a + offset] != replies[1][b + offset]:
                label = "results"
            cells = (
                tag("div", None if place is None else render_turn(side[place], place + 1, is_open=False), class_="side")
                for place, side in zip(places, turns, strict=True)
            )
            yield tag("div", tag("div", LABELS[label], class_="dim"), *cells, class_=f"pair {label}")


def _compared(side: MessageList) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what each turn called with which arguments, or the text of a turn without calls; and its results."""
    texts = _results_by_call(side.messages)
    for message in side.messages:
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or ()
            called = [(call["function"]["name"], to_canonical_text(call["function"]["arguments"])) for call in calls]
            results = [texts.get(call["id"], "") for call in calls]
            yield json.dumps(called) if called else content_of(message), results


def agent_view(
    model: str,
    instruction: str,
    tools: Mapping[str, Tool],
    messages: Sequence[Any],
    usage: Mapping[str, Any],
    pending: Sequence[Pending] = (),
) -> Html:
    """Return the view of an agent; `messages`, `usage` and `pending` are those of its own conversation."""
    counts = {"model": model, "tools": len(tools), "messages so far": len(messages)}
    folded = tag("details", tag("summary", "the instruction"), render_block(instruction, folded=False))
    figures = render_figures({**counts, **usage_figures(usage)})
    return wrap_view(_waiting(pending), figures, folded, *folded_tools(tools))


def _waiting(pending: Sequence[Pending]) -> Html | None:
    """Return what a conversation waits for, with the line that continues it."""
    if not pending:
        return None
    lines = "\n".join(list_waiting(pending))
    line = f"agent.run(answers={suggest_answers(pending)!r})"
    return join(
        tag("div", WAITS_TITLE, class_="note"),
        render_block(lines, folded=False),
        tag("div", hint_at_answers(pending), class_="dim"),
        render_block(line, folded=False),
    )


def live_view(past: Sequence[tuple[str, str]], running: Sequence[str], usage: str) -> Html:
    """Return the view of the last lines (role, text), the running operations, and the usage in one line."""
    rows = [tag("div", tag("b", role), " ", text, class_="wrong" if role == "error" else "") for role, text in past]
    now = [tag("div", "\N{BLACK RIGHT-POINTING TRIANGLE} ", text, class_="note") for text in running]
    return wrap_view(tag("div", *rows, *now, class_="live"), tag("div", usage, class_="dim"))


def prose_view(text: str, max_bytes: int) -> Html:
    """Return the view of the first `max_bytes` of a text of the model, which is Markdown."""
    return wrap_view(render_prose(text, max_bytes))


MAX_MARKDOWN_VALUE_CHARS = 300
"""Characters of a value in a line."""
_MARKS = re.compile(r"([\\`*_\[\]<>#|~$&!]|^[-+=:]|(?<=^\d)[.)])")


def result_markdown(result: Mapping[str, Any]) -> str:
    """Return the answer, the figures and the calls of a result's plain data."""
    result = mask_data(result)
    text = write_compact(result.get("error") or result.get("answer"))
    usage = result.get("usage") or {}
    parts = (
        str(result.get("model", "")),
        f"stopped: {result.get('stopped')}",
        format_seconds(result.get("seconds", 0.0)),
        f"{usage.get('requests', 0)} requests",
        format_tokens(usage),
        format_cost(usage),
    )
    messages = result.get("messages", ())
    figures = escape_markdown(", ".join(filter(None, parts)))
    calls = _call_lists(messages, _results_by_call(messages))
    return "\n\n".join([*map(escape_markdown, text.split("\n\n")), f"*{figures}*", *calls])


def session_markdown(session: SessionLike) -> str:
    """Return the conversation without the instruction."""
    messages = mask_data([*session.messages])
    results = _results_by_call(messages)
    parts = []
    for message in messages:
        if message["role"] in ("user", "assistant"):
            text = [escape_markdown(content_of(message)[:MAX_MARKDOWN_VALUE_CHARS])] if content_of(message) else []
            parts.append("\n\n".join([f"**{message['role']}**", *text, *_call_lists([message], results)]))
    return "\n\n".join(parts)


def tools_markdown(tools: Mapping[str, Tool]) -> str:
    """Return a list of tools with the first lines of their descriptions."""
    first_lines = ((tool.name, mask(tool.description).splitlines()[0]) for tool in order_tools(tools))
    return "\n".join(f"- {code_span(name)} {escape_markdown(line)}" for name, line in first_lines)


def _results_by_call(messages: Sequence[Data]) -> dict[str, str]:
    return {message.get("tool_call_id", ""): content_of(message) for message in messages if message["role"] == "tool"}


def _call_lists(messages: Sequence[Mapping[str, Any]], results: Mapping[str, str]) -> Iterator[str]:
    """Yield one list of all calls with their results, if there are calls."""
    lines = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            result = remove_delimiters(results.get(call["id"], ""))
            texts = (call["function"]["name"], call["function"]["arguments"], result)
            lines.append("- " + " ".join(code_span(text) for text in texts if text))
    if lines:
        yield "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Return the text as one paragraph without markup."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def code_span(text: str) -> str:
    """Return a span of code with exactly this text, truncated to `MAX_MARKDOWN_VALUE_CHARS`."""
    line = truncate(" ".join(text.split()), MAX_MARKDOWN_VALUE_CHARS)
    ticks = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{ticks} {line} {ticks}" if line else ""
