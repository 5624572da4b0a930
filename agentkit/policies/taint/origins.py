"""Where the arguments of a call come from: from the person and trusted tools, or from outside and out of thin air."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ...core.delimiters import is_delimited, remove_delimiters
from ...core.messages import Message, calls_of, text_of, tool_names
from ...tools.arguments.repair import truncate
from ...tools.json_tool import JsonTool

MAX_SHOWN_CHARS = 80
"""Characters of an argument in a reason."""


@dataclass
class Origins:
    """What a conversation says by whom, read from message to message, and only when it is asked for.

    `outside` are the names of the tools whose results come from outside; a fenced result does too, whoever's it is.
    Trusted is what the system and the user messages say, and the results of all other tools: those of calls that were
    made before anything came from outside, and of calls whose own arguments are trusted.  (Else a call of any tool that
    repeats its arguments would make them so.)  `outer` is the call of another agent in which this conversation is held:
    what that agent has read from outside was read, and what it trusts is trusted; the query is its word.
    """

    history: Sequence[Message]
    outside: set[str]
    outer: "EnclosingCall | None" = None
    _read: int = 0
    _sources: dict[str, list[str]] = field(default_factory=dict)
    _trusted: list[str] = field(default_factory=list)
    _clean: set[str] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    """The tools of the calls so far, by call id."""

    def doubt(self, arguments: str, tool: JsonTool[..., Any]) -> str:
        """Why a call should not be made unasked; "" if nothing came from outside, or all its arguments are trusted.

        A value is trusted when it stands in one trusted text, as a whole and verbatim but for case, white space and the
        way a number is written.  Booleans, null, and what the tool's own schema says (choices, defaults, names of
        properties) need no origin; but a call that has nothing else is doubted.
        """
        if not self.sources():
            return ""
        values = list(_values(arguments, tool.parameters))
        doubted = [(where, value) for where, value in values if not self._knows(value)]
        if values and not doubted:
            return ""
        came = f"text from outside ({', '.join(self.sources())}) has been read"
        if not values:
            return f"{came}, and no argument of the call shows that it was asked for"
        told = [f"{where} = {_format_value(value)} {self._origin(value)}" for where, value in doubted]
        return f"{came}, and neither the user nor a trusted result says this: {'; '.join(told)}"

    def sources(self) -> list[str]:
        """The tools whose results came from outside by now, those of the agents around this one first."""
        if len(self.history) < self._read:
            self._read = 0
            self._sources, self._trusted, self._clean, self._names = {}, [], set(), {}
        for message in self.history[self._read :]:
            self._take(message)
        self._read = len(self.history)
        return list(dict.fromkeys([*(self.outer.origins.sources() if self.outer else ()), *self._sources]))

    def is_clean(self, arguments: str) -> bool:
        """Whether a call with these arguments tells nothing but what is trusted."""
        return not self.sources() or self._all_known(arguments)

    def is_from_outside(self, message: Message) -> bool:
        """Whether a message is the result of an untrusted tool, or of a call that is unknown."""
        self.sources()
        return self._is_untrusted(message)

    def _is_untrusted(self, message: Message) -> bool:
        name = self._names.get(message.get("tool_call_id", ""))
        is_result = message["role"] == "tool"
        return is_result and (name is None or name in self.outside or is_delimited(text_of(message)))

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

    def _origin(self, value: str | int | float) -> str:
        found = next((name for name, texts in self._sources.items() if _any_contains(texts, value)), None)
        return f"(from {found})" if found else "(written by the model)"


@dataclass(frozen=True)
class EnclosingCall:
    """The call of an agent in which another agent runs: what that agent knows, and the call's arguments."""

    origins: Origins
    arguments: str


ENCLOSING_CALL: ContextVar[EnclosingCall | None] = ContextVar("outer", default=None)

_REFUSALS = ("UnknownTool: ", "ValidationError: ")
"""How results begin that quote what the model wrote, which the call in the history need not do."""
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\[nrt]")
_BEFORE, _AFTER = re.compile(r"[\w/\\@.+%&~*-]"), re.compile(r"[\w/\\@+&=#~*-]|[.,:;?!]\w")
"""What a value is no whole with: the rest of a word, path, address or number."""


def _values(arguments: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str | int | float]]:
    """The values of a call that must come from somewhere, and where in its arguments they stand."""
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
    """What a schema says by itself: choices, defaults, names of properties."""
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


def _any_contains(texts: Sequence[str], value: str | int | float) -> bool:
    """Whether one of these plain texts holds a value as a whole."""
    spellings = _spellings(value)
    return any(_contains_token(spelling, text) for text in texts for spelling in spellings)


def _contains_token(spelling: str, text: str) -> bool:
    start = text.find(spelling)
    while start >= 0:
        if not _BEFORE.match(text[start - 1 : start]) and not _AFTER.match(text, start + len(spelling)):
            return True
        start = text.find(spelling, start + 1)
    return False


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
