"""Truncation of long results to head and tail; the whole texts stay with the conversation, each under an address."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from threading import Lock
from typing import Any

from ..core.context import RunContext
from ..core.errors import ToolError
from ..core.flow import Hooks, Policy, around
from ..core.masking import find_secret
from ..core.messages import UNKNOWN, CallOrigin, Label, calls_of, label_of_words
from ..core.parts import parts_of
from ..engine.history.moved import Moved, find_passages, read_message
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.results.result_text import RenderedResult, StoredResult

MAX_RESULT_CHARS = 20_000
"""Characters of a result that the model reads by default."""
MAX_STORED_HANDLES = 1_000
"""Hidden results of a conversation that stay available; the oldest is dropped first."""
MAX_STORED_CHARS = 10_000_000
"""Stored characters of one truncated result."""
READ_MORE = "read_more"
SEARCH = "search_conversation"
"""The tools that read what has left a conversation (see `extensions.context_window`)."""
KEPT = "ContextWindow"
"""The key of the conversation's state with what has left it."""
PAGE_KEY = "_ContextWindow.page"
"""The key of the run's state with the characters that are read at once."""
MIN_PAGE_CHARS = 1_000
MAX_PASSAGES = 8
MAX_LISTED = 10
"""Addresses that an error lists."""
_ADDRESS = re.compile(r"\[?(#?\w+)(?::(\d+))?\]?")


@dataclass(eq=False)
class TruncatedResults:
    """The whole texts of the truncated results of one conversation, and their labels, by short ids.

    A text without a label is untrusted.
    """

    texts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    page_chars: int = MAX_RESULT_CHARS
    """The most characters that are read at once."""
    version: int = field(default=0, repr=False)
    """A number that changes with the texts."""
    has_truncated: bool = field(default=False, repr=False)
    """Whether there are other texts than hidden ones."""
    _lock: Lock = field(default_factory=Lock, repr=False)

    def store(self, text: str, label: Label = UNKNOWN) -> str:
        """Store `text` and return its id."""
        identity = hashlib.blake2s(text.encode(errors="replace"), digest_size=3).hexdigest()
        with self._lock:
            self.texts.pop(identity, None)  # truncated again, it is the newest
            self.texts[identity] = text[:MAX_STORED_CHARS]
            self.labels[identity] = label.join(self.labels.get(identity, label))
            self.has_truncated = True
            self.version += 1
        return identity

    def store_next(self, text: str, label: Label, taken: Container[str] = ()) -> str:
        """Store a text under the next number, and return it: `#1`, `#2`; numbers are never used twice.

        Those in `taken` are left out.
        """
        with self._lock:
            numbers = [int(key[1:]) for key in self.texts if key.startswith("#")]
            following = count(max(numbers, default=0) + 1)
            identity = next(key for number in following if (key := f"#{number}") not in taken)
            self.texts[identity] = text[:MAX_STORED_CHARS]
            self.labels[identity] = label
            self.version += 1
            if len(numbers) >= MAX_STORED_HANDLES:
                oldest = f"#{min(numbers)}"
                del self.texts[oldest], self.labels[oldest]
        return identity

    def add(self, other: TruncatedResults) -> None:
        """Add the texts of another conversation, with their ids."""
        with self._lock:
            self.texts.update(other.texts)
            self.labels.update(other.labels)

    def as_dict(self) -> dict[str, Any]:
        """Return the texts with their labels as JSON data."""
        return {key: self.encode(key) for key in [*self.texts]}

    def encode(self, key: str) -> dict[str, Any]:
        """Return one text with its label as JSON data."""
        return {"text": self.texts[key], "label": self.labels.get(key, UNKNOWN).as_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TruncatedResults:
        """Return the texts that `as_dict` described; those of older files are strings and have no label."""
        stored = cls()
        for key, entry in data.items():
            stored.texts[key] = entry if isinstance(entry, str) else entry["text"]
            stored.labels[key] = UNKNOWN if isinstance(entry, str) else Label.from_dict(entry.get("label"))
        stored.has_truncated = any(not key.startswith("#") for key in stored.texts)
        return stored


def truncate_results(
    stored: TruncatedResults | None = None,
    max_result: int | None = MAX_RESULT_CHARS,
    context: RunContext[Any] | None = None,
) -> Policy:
    """Truncate results to their heads and tails.

    Args:
        stored: Gets the whole texts, which the tool `read_more` of an agent reads; without it they are lost.
        max_result: Characters of a result that the model reads, where its tool has no `max_result` of its own; None for
            all.
        context: The run.  Where it has another tool that is called `read_more`, nothing is stored.
    """
    max_result = sys.maxsize if max_result is None else max_result
    if stored is not None:
        stored.page_chars = max_result

    def truncate(store: TruncatedResults | None, bound: BoundCall) -> BoundCall:
        own = bound.tool.max_result if bound.tool else None
        most = max_result if own is None else own
        return bound.change(shorten=partial(truncate_result, most=most, store=store, origin=bound.origin))

    def truncate_calls(effect: CallTools) -> CallTools:
        is_readable = context is None or READ_MORE not in context.tools()
        return effect.with_calls(map(partial(truncate, stored if is_readable else None), effect.calls))

    return around(Hooks(truncate_calls), CallTools)


def truncate_result(text: str, *, most: int, store: TruncatedResults | None, origin: CallOrigin) -> str:
    """Return `text` if it is short enough, else its head and tail with a note on the rest, which `store` gets.

    A secret is in one of the three as a whole, since a truncated one would not be masked where the result is shown.
    """
    if len(text) <= most:
        return text
    head = find_secret(text, most * 3 // 4)[0]
    tail = len(text) - find_secret(text, len(text) - most // 4)[1]
    how = format_address(f"{store.store(text, origin.label)}:{head}") if store is not None else ""
    note = f"[... {len(text) - head - tail} of {len(text)} characters are left out here{how} ...]"
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def format_address(address: str) -> str:
    """Return how the text at an address is read; not in the form of a call: calls quoted from results are not run."""
    return f'; read on with {READ_MORE}: at="{address}"'


@dataclass
class ReadingTools:
    """The tools of one run that read and search what has left its conversation."""

    offered: tuple[object, bool, ToolRegistry] | None = None

    def offer(self, tools: ToolRegistry, texts: TruncatedResults, *, has_moved: bool) -> ToolRegistry:
        """Return the tools of a request with those that read what has left, if anything has.

        A run that has another tool called `read_more` keeps its own.
        """
        if READ_MORE in tools or not (has_moved or texts.has_truncated):
            return tools
        if self.offered is None or self.offered[0] is not tools or self.offered[1] is not has_moved:
            own = [tool for tool in _make_tools() if tool.name not in tools and (has_moved or tool.name == READ_MORE)]
            self.offered = tools, has_moved, tools.merged(own)
        return self.offered[2]

    def bind(self, effect: CallTools, context: RunContext[Any]) -> CallTools:
        """Return the calls of a turn; those of these tools are bound to them."""
        return effect.with_calls([_bind(bound, context) for bound in effect.calls])


def _bind(bound: BoundCall, context: RunContext[Any]) -> BoundCall:
    if bound.tool is not None or bound.call.name not in (READ_MORE, SEARCH) or bound.is_stored:
        return bound
    again = ToolRegistry(*_make_tools()).bind(bound.call, context.for_call(bound.call))
    return again.change(began_before=bound.began_before)


@cache
def _make_tools() -> Sequence[JsonTool[..., Any]]:
    settings: Any = {"effect": "read", "trust": "trusted", "max_result": sys.maxsize}
    return [JsonTool(function, **settings).offered() for function in (read_more, search_conversation)]


def read_more(at: str, run: RunContext[Any]) -> Any:
    """Reads a text that left the conversation because it was too long.

    Args:
        at: The address that stands in its place, such as "m12", or "m12:500" to read on from its character 500.
    """
    match = _ADDRESS.fullmatch(at.strip())
    key = match[1] if match else ""
    number = int(key[1:]) if re.fullmatch(r"m\d{1,9}", key) else 0
    images: list[Any] = []
    if key in run.texts.texts:
        text = run.texts.texts[key]
        label = run.texts.labels.get(key, UNKNOWN)
    elif 0 < number < len(run.messages) and run.messages[number]["role"] != "system":
        message = run.messages[number]
        text = read_message(message)
        label = label_of_words(message)
        images = [*parts_of(message)]
    else:
        known = [f"m1 to m{len(run.messages) - 1}", *(key for key in run.texts.texts if key[0] != "#")]
        raise ToolError(
            f"there is no text at {at!r:.40}. There are: {', '.join([known[0], *known[1:][-MAX_LISTED:]])}."
        )
    run.origin.add(label)
    begin = int(match[2] or 0) if match else 0
    if begin and begin >= len(text):
        raise ToolError(f"the text at {key} has {len(text):,} characters; begin below {len(text)}.")
    end = min(len(text), begin + min(run.texts.page_chars, max(run.state.get(PAGE_KEY, sys.maxsize), MIN_PAGE_CHARS)))
    end = cut if end < len(text) and (cut := find_secret(text, end)[0]) > begin else end
    rest = format_address(f"{key}:{end}") if end < len(text) else "; the end"
    shown = f"{text[begin:end]}\n[characters {begin} to {end} of {len(text)}{rest}]"
    return StoredResult(shown, RenderedResult.with_parts(shown, images)) if images and not begin else shown


def search_conversation(query: str, run: RunContext[Any]) -> str:
    """Searches what left the conversation because it was too long; returns passages with their addresses.

    Args:
        query: Words that stand in the text, such as names.
    """
    moved = Moved(**run.session_state.get(KEPT, {}).get("moved", {}))
    own = {call.id for message in run.messages for call in calls_of(message) if call.name in (READ_MORE, SEARCH)}
    sources = {key: run.texts.labels.get(key, UNKNOWN) for key in run.texts.texts if key[0] != "#"}
    texts = {key: run.texts.texts[key] for key in sources}
    for place, message in enumerate(run.messages):
        is_own = message.get("tool_call_id") in own or any(call.id in own for call in calls_of(message))
        if moved.has_left(place) and message["role"] != "system" and not is_own:
            texts[f"m{place}"] = read_message(message)
            sources[f"m{place}"] = label_of_words(message)
    found = find_passages(texts, query, MAX_PASSAGES)
    for passage in found:
        run.origin.add(sources[passage.key])
    lines = [f"[{passage.key}:{passage.begin}] {passage.text}" for passage in found]
    return "\n\n".join(lines) or "No text that left the conversation has these words. Search with other words."
