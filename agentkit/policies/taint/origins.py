"""The origins of a call's arguments: the user and trusted tools, or untrusted results and the model."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ...core.approval_question import UntrustedValue
from ...core.delimiters import is_delimited, remove_delimiters
from ...core.messages import Message, calls_of, text_of, tool_names
from ...core.roles import Content, Destination
from ...tools.arguments.repair import truncate
from ...tools.json_tool import JsonTool
from .roles import Roles

MAX_SHOWN_CHARS = 80
"""Characters of an argument that a reason shows."""
PASSAGE_CHARS = 40
"""Characters of an untrusted text that a reason shows before and after a value."""


@dataclass
class Origins:
    """The trusted and untrusted texts of a conversation, read lazily, message by message.

    `untrusted_tools` are the names of the tools whose results are untrusted; a delimited result is untrusted, too.
    Trusted are the system and user messages and the results of all other tools, if their call was made before anything
    untrusted was read, or if its own arguments are trusted.  (Otherwise a tool that repeats its arguments would make
    them trusted.)  `outer` is the call of another agent that encloses this conversation: what that agent trusts is
    trusted here, its untrusted results count as read, and the query is its text.
    """

    history: Sequence[Message]
    untrusted_tools: set[str]
    outer: "EnclosingCall | None" = None
    roles: Roles = field(default_factory=Roles)
    _read: int = 0
    _sources: dict[str, list[str]] = field(default_factory=dict)
    _trusted: list[str] = field(default_factory=list)
    _clean: set[str] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    """The tools of the calls so far, by call id."""

    def doubt(self, arguments: str, tool: JsonTool[..., Any]) -> str:
        """Return why a call needs approval; "" if nothing untrusted was read, or all its arguments are trusted.

        A value is trusted if one trusted text contains it as a whole and verbatim, except for case, white space and the
        notation of numbers.  Booleans, null, and the words of the tool's own schema (choices, defaults, names of
        properties) need no origin; but a call without any other value needs approval.
        """
        if not self.sources():
            return ""
        if untrusted := self.find_untrusted(arguments, tool):
            shown = [f"{entry.where} = {_format_value(entry.value)} {_describe_origin(entry)}" for entry in untrusted]
            return f"{self._introduce()}, and neither the user nor a trusted result says this: {'; '.join(shown)}"
        if any(_values(arguments, tool.parameters)):
            return ""
        return f"{self._introduce()}, and no argument of the call shows that it was asked for"

    def find_untrusted(self, arguments: str, tool: JsonTool[..., Any]) -> tuple[UntrustedValue, ...]:
        """Return the values of a call that need a decision, with their origins; none if nothing untrusted was read.

        Those are values that are not trusted.  Content may be untrusted in a call with a trusted destination, except
        for the addresses in it.
        """
        if not self.sources():
            return ()
        values = [
            (where, value, self._knows(value), self.roles.find(tool, where))
            for where, value in _values(arguments, tool.parameters)
        ]
        is_directed = any(known and isinstance(role, Destination) for _, _, known, role in values)
        found: list[UntrustedValue] = []
        for where, value, known, role in values:
            if isinstance(role, Content) and is_directed:
                addresses = dict.fromkeys(_ADDRESS.findall(str(value))) if not known else ()
                found += (self._trace(where, one, is_destination=True) for one in addresses if not self._knows(one))
            elif not known:
                found.append(self._trace(where, value, is_destination=isinstance(role, Destination)))
        return tuple(found)

    def _introduce(self) -> str:
        return f"text from outside ({', '.join(self.sources())}) has been read"

    def sources(self) -> list[str]:
        """Return the names of the tools with untrusted results so far, those of enclosing agents first."""
        if len(self.history) < self._read:
            self._read = 0
            self._sources, self._trusted, self._clean, self._names = {}, [], set(), {}
        for message in self.history[self._read :]:
            self._take(message)
        self._read = len(self.history)
        return list(dict.fromkeys([*(self.outer.origins.sources() if self.outer else ()), *self._sources]))

    def is_clean(self, arguments: str) -> bool:
        """Return whether all arguments of a call are trusted."""
        return not self.sources() or self._all_known(arguments)

    def is_untrusted(self, message: Message) -> bool:
        """Whether a message is the result of an untrusted tool, or of a call that is unknown."""
        self.sources()
        return self._is_untrusted(message)

    def _is_untrusted(self, message: Message) -> bool:
        name = self._names.get(message.get("tool_call_id", ""))
        is_result = message["role"] == "tool"
        return is_result and (name is None or name in self.untrusted_tools or is_delimited(text_of(message)))

    def _take(self, message: Message) -> None:
        text = text_of(message)
        if self._is_untrusted(message):
            stated = message.get("name") or "an unknown tool"
            name = self._names.get(message.get("tool_call_id", ""), str(stated))
            self._sources.setdefault(name, []).append(_normalize(remove_delimiters(text)))
        elif message["role"] == "tool":
            if message["tool_call_id"] in self._clean and not text.startswith(_REFUSALS):
                self._trusted.append(_normalize(_ESCAPED_SPACE.sub(" ", text)))
        elif message["role"] == "assistant":
            self._names |= tool_names([message])
            known = not self._sources and not (self.outer and self.outer.origins.sources())
            self._clean |= {call.id for call in calls_of(message) if known or self._all_known(call.arguments)}
        elif message["role"] != "user" or self.outer is None or self.outer.origins.is_clean(self.outer.arguments):
            self._trusted.append(_normalize(text))

    def _all_known(self, arguments: str) -> bool:
        return all(self._knows(value) for _, value in _values(arguments, {}))

    def _knows(self, value: str | int | float) -> bool:
        return _any_contains(self._trusted, value) or (self.outer is not None and self.outer.origins._knows(value))

    def _trace(self, where: str, value: str | int | float, *, is_destination: bool) -> UntrustedValue:
        """Return the value with the first untrusted result that contains it, of this run or of an enclosing one."""
        for name, texts in self._sources.items():
            for text in texts:
                if passage := _find_passage(text, value):
                    return UntrustedValue(where, value, name, passage, is_destination)
        if self.outer is not None:
            return self.outer.origins._trace(where, value, is_destination=is_destination)
        return UntrustedValue(where, value, is_destination=is_destination)


@dataclass(frozen=True)
class EnclosingCall:
    """The tool call that encloses a run: the origins of its conversation, and its arguments."""

    origins: Origins
    arguments: str


ENCLOSING_CALL: ContextVar[EnclosingCall | None] = ContextVar("outer", default=None)

_ADDRESS = re.compile(r"(?<![\w.+-])(?:https?://[^\s\"'<>()]+|www\.[^\s\"'<>()]+|[\w.+-]++@[\w-]+(?:\.[\w-]+)*)")
"""Web and mail addresses in content."""
_REFUSALS = ("UnknownTool: ", "ValidationError: ")
"""The beginnings of results that quote the model's own call, which the call in the history may differ from."""
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\[nrt]")
_BEFORE, _AFTER = re.compile(r"[\w/\\@.+%&~*-]"), re.compile(r"[\w/\\@+&=#~*-]|[.,:;?!]\w")
"""Characters beside a value that make it a part of a longer word, path, address or number."""


def _values(arguments: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str | int | float]]:
    """Yield the values of a call that need an origin, with their places in the arguments."""
    own = set(_schema_words(schema))
    try:
        data = json.loads(arguments)
    except ValueError:  # in a history from elsewhere
        data = {"arguments": arguments}
    for where, value in _leaves(data, ""):
        if value not in own and value != "":
            yield where, value


def _leaves(data: Any, where: str) -> Iterator[tuple[str, str | int | float]]:
    if isinstance(data, dict):
        for key, value in data.items():
            if where:  # the names of the parameters themselves are the tool's
                yield f"a name in {where}", key
            yield from _leaves(value, f"{where}.{key}" if where else key)
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from _leaves(value, f"{where}[{place}]")
    elif data is not None and not isinstance(data, bool):
        yield where, data


def _schema_words(schema: Any) -> Iterator[str | int | float]:
    """Yield the words of a schema: choices, defaults, names of properties."""
    if isinstance(schema, list):
        for entry in schema:
            yield from _schema_words(entry)
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key == "properties":
            yield from value
            yield from _schema_words(list(value.values()))
        elif key in ("enum", "const", "default"):
            yield from (entry for _, entry in _leaves(value, "-"))
        else:
            yield from _schema_words(value)


def _find_passage(text: str, value: str | int | float) -> str:
    """Return a value that stands in a normalized text as a whole, with the characters around it; "" if it does not."""
    for spelling in _spellings(value):
        if (start := _find_token(spelling, text)) >= 0:
            end = start + min(len(spelling), MAX_SHOWN_CHARS)
            first, last = max(0, start - PASSAGE_CHARS), min(len(text), end + PASSAGE_CHARS)
            return f"{'... ' if first else ''}{text[first:last].strip()}{' ...' if last < len(text) else ''}"
    return ""


def _describe_origin(value: UntrustedValue) -> str:
    return f'(from {value.origin}: "{value.passage}")' if value.origin else "(written by the model)"


def _any_contains(texts: Sequence[str], value: str | int | float) -> bool:
    """Return whether one of these normalized texts contains a value as a whole."""
    spellings = _spellings(value)
    return any(_find_token(spelling, text) >= 0 for text in texts for spelling in spellings)


MAX_COMPARED_CHARS = 10_000_000
"""Characters of a text that are compared with a value; only in crafted texts a long value occurs at every place."""


def _find_token(spelling: str, text: str) -> int:
    """Return where a text contains a spelling as a whole; -1 if it does not."""
    start = -1
    for _ in range(MAX_COMPARED_CHARS // max(1, len(spelling))):
        if (start := text.find(spelling, start + 1)) < 0:
            return -1
        if not _BEFORE.match(text[start - 1 : start]) and not _AFTER.match(text, start + len(spelling)):
            return start
    return -1


def _spellings(value: str | int | float) -> set[str]:
    if isinstance(value, str):
        plain = _normalize(value)
        return {plain, json.dumps(plain, ensure_ascii=False)[1:-1]}
    if isinstance(value, float) and not value.is_integer():
        return {str(value), f"{value:,}", *([f"{value:.2f}", f"{value:,.2f}"] if round(value, 2) == value else [])}
    return {form + decimals for form in (f"{int(value)}", f"{int(value):,}") for decimals in ("", ".0", ".00")}


def _normalize(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _format_value(value: str | int | float) -> str:
    return truncate(json.dumps(value, ensure_ascii=False), MAX_SHOWN_CHARS)
