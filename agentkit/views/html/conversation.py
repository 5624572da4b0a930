"""A conversation as HTML: every message, each call beside its result, and the usage of each request.

The turns of a run are a tree that folds.  The text of a model is Markdown without HTML, images and scripts.  Images,
documents and sounds of a message are shown; nothing is loaded from an address.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from html import escape, unescape
from typing import Any

from ...core.messages import Usage, is_delimited, remove_delimiters
from ...core.parts import Audio, Document, Image, data_url_of, describe_part, parts_of, read_part
from ...core.portable import parse_json
from ...core.values import frozen
from ...tools.execution.call import ANSWER_RESULT
from ...tools.final_answer import FINAL_ANSWER
from ...tools.results.tables import parse_table
from ..history import ROLES, Data, read_answer
from ..markdown import Node, parse_markdown
from .markup import (
    MIN_TEXT_BYTES,
    Html,
    escape_text,
    format_cost,
    format_count,
    format_seconds,
    format_tokens,
    join,
    render_block,
    render_data,
    tag,
    truncate_html,
    write_compact,
)


@frozen(slots=False)
class Turn:
    """A reply of the model with its calls and their results.

    Attributes:
        body: The turn as HTML.
        names: The names of the called tools.
        requests: The spans of its requests.
        calls: The spans of its calls.
    """

    body: Html
    names: Sequence[str]
    requests: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]

    @property
    def failures(self) -> int:
        """How many calls and requests failed."""
        return sum(bool(span.get("error")) for span in (*self.requests, *self.calls))

    @property
    def seconds(self) -> float:
        """From the beginning of the first request to the end of the last call."""
        spans = (*self.requests, *self.calls)
        return max((span["end"] for span in spans), default=0.0) - min((span["start"] for span in spans), default=0.0)

    @property
    def usage(self) -> Usage:
        """The tokens and the cost of its requests."""
        return sum((Usage(**request.get("usage") or {}) for request in self.requests), Usage())


MAX_PAGE_BYTES = 90_000
"""Bytes of all texts of a page, as far as truncating the long ones can achieve it."""
MAX_INLINE_CHARS = 100
"""Characters of arguments that are shown beside the tool's name."""


@frozen(slots=False)
class MessageList:
    """Messages and their trace, as plain data.

    The trace has spans of requests, by the index of the reply, and of calls, by their ids. `max_bytes` of a text are
    shown. `anchor` is the prefix of all anchors in the page.
    """

    messages: Sequence[Data]
    trace: Data = field(default_factory=dict)
    max_bytes: int = MIN_TEXT_BYTES * 10
    anchor: str = "m"
    answer: str = ""

    @property
    def links(self) -> dict[str, str]:
        """The anchors of the messages, by their indices, and of the calls, by their ids."""
        found = {str(place): f"{self.anchor}{place}" for place in range(len(self.messages))}
        for place, message in enumerate(self.messages):
            for number, call in enumerate(message.get("tool_calls") or ()):
                found[call["id"]] = f"{self.anchor}{place}c{number}"
        return found

    @property
    def first_of_run(self) -> int:
        """The index of the query of the traced run."""
        places = [span["place"] for span in self.trace.get("spans", ()) if span.get("place")]
        before = self.messages[: min(places, default=0)]
        return max((place for place, message in enumerate(before) if message["role"] == "user"), default=0)

    def render(self) -> Iterator[Html]:
        """Yield all messages; those before the traced run are folded, and each reply with its calls is a turn."""
        first = self.first_of_run
        earlier = list[Html]()
        parts: list[Html | Turn] = []
        for place, part in self.parts():
            if 0 < place < first:
                earlier.append(part.body if isinstance(part, Turn) else part)
                continue
            if earlier:
                count = f"earlier in this conversation: {format_count(len(earlier), 'message')}"
                parts.append(tag("details", tag("summary", count), *earlier))
                earlier = []
            parts.append(part)
        yield from render_turns(parts)

    def parts(self) -> Iterator[tuple[int, Html | Turn]]:
        """Yield the index of each message with the message as HTML, or as a turn with its calls and their results."""
        results = {message.get("tool_call_id"): message for message in self.messages if message["role"] == "tool"}
        spans = self.trace.get("spans", ())
        calls = {span["call"]: span for span in spans if span.get("call")}
        requests: dict[int, list[Data]] = {}
        for span in spans:
            if span["kind"] == "model":
                requests.setdefault(span.get("place", 0), []).append(span)
        last = max((place for place, message in enumerate(self.messages) if message["role"] == "assistant"), default=-1)
        for place, message in enumerate(self.messages):
            own_requests = requests.pop(place, [])
            if message["role"] == "tool" and message.get("tool_call_id") in results:
                continue
            anchor = f"{self.anchor}{place}"
            is_last = place == last
            own_calls = message.get("tool_calls") or ()
            shown_calls = [
                self._call(call, results.get(call["id"]), calls.get(call["id"], {}), f"{anchor}c{number}", is_last)
                for number, call in enumerate(own_calls)
            ]
            role = ROLES.get(message["role"], message["role"])
            head = tag("div", tag("b", role), tag("div", *_request_rows(own_requests)), class_="who")
            content = self._content(message, is_last and not own_calls)
            article = tag("article", head, content, *shown_calls, class_=message["role"], id=anchor)
            if message["role"] == "assistant":
                called = [call["function"]["name"] for call in own_calls]
                names = ["answer" if name == FINAL_ANSWER else name for name in called]
                spans_of_calls = [calls[call["id"]] for call in own_calls if call["id"] in calls]
                yield place, Turn(article, names, own_requests, spans_of_calls)
            else:
                yield place, article
        if left := [span for own_requests in requests.values() for span in own_requests]:
            head = tag("div", tag("b", "no reply"), tag("div", *_request_rows(left)), class_="who")
            yield len(self.messages), Turn(tag("article", head, class_="assistant"), ["no reply"], left, [])

    def _content(self, message: Data, is_answer: bool) -> Html:
        text = _text_of(message)
        parts = join(*render_parts(message))
        if is_answer and self.answer:
            shown: Html | None = self._link_to_answer()
        elif message["role"] == "assistant":
            shown = render_prose(text, self.max_bytes) if text else None
        else:
            shown = tag("div", truncate_html(text, self.max_bytes), class_="text") if text else None
        if message["role"] == "system":
            return tag("details", tag("summary", "the instruction"), shown)
        cited = [*map(_render_source, message.get("citations") or ())]
        citations = tag("div", tag("div", "cites"), *cited, class_="dim") if cited else None
        shown = join(*map(_render_provider_call, message.get("provider_calls") or ()), shown, citations)
        if not (thoughts := message.get("reasoning_content")):
            return join(shown, parts)
        block = render_block(str(thoughts), self.max_bytes, folded=False)
        return join(tag("details", tag("summary", "thoughts"), block), shown)

    def _link_to_answer(self) -> Html:
        return tag("a", "the answer, shown above", href=f"#{self.answer}")

    def _call(self, call: Data, result: Data | None, span: Data, anchor: str, is_last: bool) -> Html:
        name = call["function"]["name"]
        arguments = span.get("raw") or _parse_json(call["function"]["arguments"])
        shown_result = self._result(result)
        with suppress(ValueError):
            if name == FINAL_ANSWER and content_of(result or {}) == ANSWER_RESULT:
                arguments = read_answer(call["function"]["arguments"])
                name = "answer"
                shown_result = Html("")
                if is_last and self.answer:
                    return tag("div", self._link_to_answer(), class_="call", id=anchor)
        plain = write_compact(arguments)
        is_short = len(plain) <= MAX_INLINE_CHARS and "\n" not in plain
        failed = bool(span.get("error"))
        seconds = format_seconds(span["end"] - span["start"]) if span else ""
        code = tag("code", plain) if is_short else None
        wrong = tag("span", " failed", class_="wrong") if failed else None
        head = tag("div", tag("b", name), " ", code, tag("span", f" {seconds}", class_="dim"), wrong)
        repairs = [tag("div", "repaired ", escape_text(repair), class_="note") for repair in span.get("repairs", ())]
        return tag(
            "div",
            head,
            None if is_short else render_block(arguments, self.max_bytes),
            *repairs,
            self._inner_run(span, anchor),
            shown_result,
            class_=f"call{' failed' * failed}",
            id=anchor,
        )

    def _result(self, result: Data | None) -> Html:
        if result is None:
            return tag("div", "no result yet", class_="dim")
        text = _text_of(result)
        parts = join(*render_parts(result))
        if not text:
            return parts or tag("div", "no text", class_="dim")
        note = tag("div", "untrusted: the model reads it as data", class_="dim") if is_delimited(text) else None
        return join(note, render_data(_parse_data(remove_delimiters(text)), self.max_bytes), parts)

    def _inner_run(self, span: Data, anchor: str) -> Html | None:
        """Return the run of the agent inside a tool."""
        inner = span.get("inner")
        if not inner:
            return None
        requests = sum(entry["kind"] == "model" for entry in inner["spans"])
        calls = sum(entry["kind"] == "tool" for entry in inner["spans"])
        count = f"the agent's own run: {format_count(requests, 'request')}, {format_count(calls, 'call')}"
        conversation = MessageList(inner.get("messages", ()), inner, self.max_bytes, f"{anchor}m")
        notes = [tag("div", note["text"], class_="note") for note in inner.get("notes", ())]
        return tag("details", tag("summary", count), *notes, tag("div", *conversation.render(), class_="inner"))


def content_of(message: Data) -> str:
    """Return the text of a message; parts such as images are replaced by their type and size."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(map(describe_part, content))


def _text_of(message: Data) -> str:
    """Return the text of a message without its other parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(describe_part(part) for part in content if part.get("type") == "text")


def max_text_bytes(data: Any, budget: int = MAX_PAGE_BYTES) -> int:
    """Return how many bytes of each text in `data` can be shown so that all together take about `budget` bytes."""
    sizes = sorted(_text_sizes(data))
    left = budget
    for place, size in enumerate(sizes):
        if size * (len(sizes) - place) > left:
            return max(MIN_TEXT_BYTES, left // (len(sizes) - place))
        left -= size
    return budget


def _text_sizes(data: Any) -> Iterator[int]:
    if isinstance(data, str):
        yield len(escape(data, quote=False).encode(errors="replace"))
    elif isinstance(data, Mapping) and data.get("type") in ("image_url", "file", "input_audio"):
        return  # shown whole or not at all
    elif isinstance(data, Mapping | list | tuple):
        for entry in data.values() if isinstance(data, Mapping) else data:
            yield from _text_sizes(entry)


def _request_rows(spans: Sequence[Data]) -> Iterator[Html]:
    """Yield a row for each request of a message, failed requests included."""
    for span in spans:
        usage = span.get("usage") or {}
        error = span.get("error")
        seconds = format_seconds(span["end"] - span["start"])
        parts = [span["name"], seconds, format_tokens(usage), format_cost(usage), error]
        yield tag("div", " · ".join(str(part) for part in parts if part), class_="wrong" if error else "")


def _parse_data(text: str) -> Any:
    """Return the data in a text that is a table or JSON, else the text."""
    if (table := parse_table(text)) is None or not table.rows or len({*table.columns}) < len(table.columns):
        return _parse_json(text)
    rows: list[Any] = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return rows if table.row_count is not None else [*rows, text.rpartition("\n")[2]]


def _parse_json(text: str) -> Any:
    """Return the data in a text that is a JSON object or list, else the text."""
    return parse_json(text) if text.lstrip()[:1] in ("{", "[") else text


EMPTY_ELEMENTS = {"hr", "br"}
_HEADINGS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}
"""Headings of a text stand below the two levels of the page."""


def render_prose(text: str, max_bytes: int) -> Html:
    """Return a text as HTML.

    Args:
        text: Markdown.
        max_bytes: Bytes that are shown; of a longer text its head, its tail and the number of characters left out.
    """
    return tag("div", *map(_render, parse_markdown(unescape(truncate_html(text, max_bytes)))), class_="prose")


def render_answer(error: Any, answer: Any, max_bytes: int, anchor: str = "") -> Html:
    """Return the answer of a run, a text as Markdown; or the error of a run that has none."""
    if error:
        return tag("div", truncate_html(str(error), max_bytes), class_="answer wrong")
    is_text = isinstance(answer, str)
    shown = render_prose(answer, max_bytes) if is_text else render_data(answer, max_bytes, folded=False)
    return tag("div", shown, class_="answer", id=anchor)


def _render(node: Node) -> Html | str:
    if isinstance(node, str):
        return node
    name, attributes, children = node
    inner = join(*map(_render, children))
    if name in EMPTY_ELEMENTS:
        return Html(f"<{name}>")
    if name == "a":
        return tag("a", inner, href=attributes["href"], title=attributes["href"], rel="noopener noreferrer nofollow")
    if name == "table":
        return tag("div", tag("table", inner), class_="wide")
    align = attributes.get("align")
    return tag(_HEADINGS.get(name, name), inner, start=attributes.get("start"), style=align and f"text-align:{align}")


MAX_SHOWN_BYTES = 1_000_000
"""Bytes of an image, a document or a sound that a page holds; of a larger one it shows type and size."""
_AUDIO_TYPES = {*Audio.media_types, "audio/mp3"}


def render_parts(message: Mapping[str, Any]) -> Iterator[Html]:
    """Yield the parts of a message that are not text."""
    for part in parts_of(message):
        media, size, _ = read_part(part)
        label = describe_part(part)
        address = data_url_of(part)
        shown: Html | str = label
        if address and size <= MAX_SHOWN_BYTES:
            if media in Image.media_types:
                shown = Html(tag("img", src=address, alt=label).removesuffix("</img>"))
            elif media in _AUDIO_TYPES:
                shown = tag("audio", src=address, controls=True, title=label)
            elif media in Document.media_types:
                shown = tag("a", label, href=address, download=str(part["file"].get("filename") or "document.pdf"))
        yield tag("div", shown, class_="part")


MAX_OPEN_TURNS = 10
"""Turns that are shown open; of a longer run the turns are folded."""
MAX_UNGROUPED_TURNS = 30
"""Turns that stand beside each other; more are put into groups."""
TURNS_OF_GROUP = 20
MAX_NAMED_CALLS = 4
"""Calls that the line of a turn names."""


def render_turns(parts: Iterable[Html | Turn]) -> Iterator[Html]:
    """Yield messages and turns in their order; turns are numbered from 1, and folded where there are many."""
    rows = [*parts]
    count = sum(isinstance(row, Turn) for row in rows)
    number = 0
    group = []
    turns = []
    for row in rows:
        if not isinstance(row, Turn):
            group.append(row)
            continue
        number += 1
        turns.append(row)
        group.append(render_turn(row, number, is_open=count <= MAX_OPEN_TURNS))
        if count > MAX_UNGROUPED_TURNS and len(turns) == TURNS_OF_GROUP:
            yield _render_group(group, turns, number)
            group = []
            turns = []
    if count > MAX_UNGROUPED_TURNS and len(turns) > 1:
        yield _render_group(group, turns, number)
    else:
        yield from group


def render_turn(turn: Turn, number: int, *, is_open: bool) -> Html:
    """Return a turn that folds behind its line: its number, its calls, failures, time, tokens and cost."""
    shown = [*turn.names[:MAX_NAMED_CALLS]]
    if len(turn.names) > MAX_NAMED_CALLS:
        shown.append(f"and {len(turn.names) - MAX_NAMED_CALLS} more")
    head = tag(
        "summary",
        tag("b", f"{number}"),
        " ",
        tag("span", ", ".join(shown) or "text", class_="names"),
        " ",
        _failures(turn.failures),
        tag("span", _figures(turn.seconds, turn.usage), class_="dim"),
    )
    return tag(
        "details",
        head,
        turn.body,
        open=is_open,
        class_=f"turn{' bad' * bool(turn.failures)}",
        data_tools=" ".join(sorted(set(turn.names))),
    )


def _render_group(rows: Sequence[Html], turns: Sequence[Turn], last: int) -> Html:
    failures = sum(turn.failures for turn in turns)
    seconds = sum(turn.seconds for turn in turns)
    calls = format_count(sum(len(turn.names) for turn in turns), "call")
    figures = _figures(seconds, sum((turn.usage for turn in turns), Usage()))
    head = tag(
        "summary",
        tag("b", f"turns {last - len(turns) + 1}\N{EN DASH}{last}"),
        f" {calls} ",
        _failures(failures),
        tag("span", figures, class_="dim"),
    )
    return tag("details", head, *rows, class_=f"group{' bad' * bool(failures)}")


def _failures(count: int) -> Html:
    return join(tag("span", f"{count} failed", class_="wrong"), " ") if count else Html("")


def _figures(seconds: float, used: Usage) -> str:
    usage = used.as_dict()
    parts = (format_seconds(seconds) if seconds else "", format_tokens(usage), format_cost(usage))
    return " · ".join(part for part in parts if part)


def _render_provider_call(step: Data) -> Html:
    """Return a step of a tool that the provider ran, with its sources."""
    note = f" run by the provider{', failed: ' + step['error'] if step.get('error') else ''}"
    head = tag("div", tag("b", step["name"]), " ", tag("code", step["arguments"]), tag("span", note, class_="dim"))
    return tag("div", head, *map(_render_source, step.get("sources") or ()), class_="call")


def _render_source(source: Data) -> Html:
    return tag("div", " ".join(filter(None, [source.get("title"), source.get("url")])), class_="dim")
