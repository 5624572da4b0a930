"""A conversation as HTML: every message, each call beside its result, and what each request took."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ...core.delimiters import is_delimited, remove_delimiters
from .figures import counted, dollars, duration, tokens
from .markup import LEAST, Html, block, cut, joined, tag, text_of

Data = Mapping[str, Any]

BUDGET = 90_000
"""Bytes that the texts of a page take together, as far as that can be had by cutting the long ones."""
INLINE = 100
"""Characters of arguments that stand beside the tool's name."""


@dataclass(frozen=True)
class Conversation:
    """Messages and what is known of them: the spans of requests, by the place of the reply, and of calls, by their ids.

    `most` is how many bytes of a text are shown; `anchor` begins the names of all places in the page.
    """

    messages: Sequence[Data]
    trace: Data = field(default_factory=dict)
    most: int = LEAST * 10
    anchor: str = "m"

    @property
    def links(self) -> dict[str, str]:
        """The anchors of the messages, by their places, and of the calls, by their ids."""
        found = {str(place): f"{self.anchor}{place}" for place in range(len(self.messages))}
        for place, message in enumerate(self.messages):
            for number, call in enumerate(message.get("tool_calls") or ()):
                found[call["id"]] = f"{self.anchor}{place}c{number}"
        return found

    @property
    def first(self) -> int:
        """The place of the query that the traced run began with."""
        places = [span["place"] for span in self.trace.get("spans", ()) if span.get("place")]
        asked = range(min(places, default=0))
        return max((place for place in asked if self.messages[place : place + 1] and _is_user(self.messages[place])),
                   default=0)  # fmt: skip

    def html(self) -> Iterator[Html]:
        """All of it; what was said before the traced run is folded up."""
        first, earlier = self.first, []
        for place, article in self._articles():
            if 0 < place < first:
                earlier.append(article)
                continue
            if earlier:
                told = f"earlier in this conversation: {counted(len(earlier), 'message')}"
                yield tag("details", tag("summary", told), *earlier)
                earlier = []
            yield article

    def _articles(self) -> Iterator[tuple[int, Html]]:
        results = {message.get("tool_call_id"): message for message in self.messages if message["role"] == "tool"}
        spans = self.trace.get("spans", ())
        calls = {span["call"]: span for span in spans if span.get("call")}
        requests: dict[int, list[Data]] = {}
        for span in spans:
            if span["kind"] == "model":
                requests.setdefault(span.get("place", 0), []).append(span)
        for place, message in enumerate(self.messages):
            asked = requests.pop(place, [])
            if message["role"] == "tool" and message.get("tool_call_id") in results:
                continue
            made = [
                self._call(call, results.get(call["id"]), calls.get(call["id"], {}), f"{self.anchor}{place}c{number}")
                for number, call in enumerate(message.get("tool_calls") or ())
            ]
            who = tag("div", tag("b", message["role"]), tag("div", *_requests(asked)), class_="who")
            yield (
                place,
                tag("article", who, self._said(message), *made, class_=message["role"], id=f"{self.anchor}{place}"),
            )
        if left := [span for asked in requests.values() for span in asked]:
            who = tag("div", tag("b", "no reply"), tag("div", *_requests(left)), class_="who")
            yield len(self.messages), tag("article", who, class_="assistant")

    def _said(self, message: Data) -> Html:
        text = content_of(message)
        said = tag("div", cut(text, self.most), class_="said") if text else None
        if message["role"] == "system":
            return tag("details", tag("summary", "the instruction"), said)
        thoughts = message.get("reasoning_content")
        return joined(
            tag("details", tag("summary", "thoughts"), block(str(thoughts), self.most, folded=False))
            if thoughts
            else None,
            said,
        )

    def _call(self, call: Data, result: Data | None, span: Data, anchor: str) -> Html:
        name, arguments = call["function"]["name"], span.get("raw") or _parsed(call["function"]["arguments"])
        plain = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        is_short = len(plain) <= INLINE and "\n" not in plain
        failed = bool(span.get("error"))
        spent = duration(span["end"] - span["start"]) if span else ""
        code = tag("code", plain) if is_short else None
        wrong = tag("span", " failed", class_="wrong") if failed else None
        head = tag("div", tag("b", name), " ", code, tag("span", f" {spent}", class_="dim"), wrong)
        repairs = [tag("div", "repaired ", text_of(repair), class_="note") for repair in span.get("repairs", ())]
        return tag(
            "div", head, None if is_short else block(arguments, self.most), *repairs, self._inner(span, anchor),
            self._result(result), class_=f"call{' failed' * failed}", id=anchor,
        )  # fmt: skip

    def _result(self, result: Data | None) -> Html:
        if result is None:
            return tag("div", "no result yet", class_="dim")
        text = content_of(result)
        outside = tag("div", "from outside: the model reads it as data", class_="dim") if is_delimited(text) else None
        return joined(
            outside, block(_parsed(remove_delimiters(text)), self.most) if text else tag("div", "no text", class_="dim")
        )

    def _inner(self, span: Data, anchor: str) -> Html | None:
        """What the agent inside of a tool did."""
        inner = span.get("inner")
        if not inner:
            return None
        requests = sum(inside["kind"] == "model" for inside in inner["spans"])
        calls = sum(inside["kind"] == "tool" for inside in inner["spans"])
        told = f"the agent's own run: {counted(requests, 'request')}, {counted(calls, 'call')}"
        conversation = Conversation(inner.get("messages", ()), inner, self.most, f"{anchor}m")
        notes = [tag("div", note["text"], class_="note") for note in inner.get("notes", ())]
        return tag("details", tag("summary", told), *notes, tag("div", *conversation.html(), class_="inner"))


def content_of(message: Data) -> str:
    """The text of a message; in the place of an image, say, what it is."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in content)


def longest(data: Any, budget: int = BUDGET) -> int:
    """How many bytes of each text in `data` can be shown so that all together stay within `budget`, or nearly."""
    sizes = sorted(_sizes(data))
    left = budget
    for place, size in enumerate(sizes):
        if size * (len(sizes) - place) > left:
            return max(LEAST, left // (len(sizes) - place))
        left -= size
    return budget


def _sizes(data: Any) -> Iterator[int]:
    if isinstance(data, str):
        yield len(escape(data, quote=False).encode(errors="replace"))
    elif isinstance(data, Mapping | list | tuple):
        for entry in data.values() if isinstance(data, Mapping) else data:
            yield from _sizes(entry)


def _requests(spans: Sequence[Data]) -> Iterator[Html]:
    """What each request took that led to a message, the failed ones too."""
    for span in spans:
        usage = span.get("usage") or {}
        told = [span["name"], duration(span["end"] - span["start"]), tokens(usage), dollars(usage), span.get("error")]
        yield tag("div", " · ".join(str(said) for said in told if said), class_="wrong" if span.get("error") else "")


def _parsed(text: str) -> Any:
    """The data that a text holds if it is an object or a list, else the text."""
    try:
        data = json.loads(text) if text.lstrip()[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        return text
    return data


def _is_user(message: Data) -> bool:
    return bool(message["role"] == "user")
