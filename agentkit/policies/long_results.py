"""Truncation of long results to head and tail; a tool that is only offered then reads the rest."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from threading import Lock
from typing import Any

from ..core.context import RunContext
from ..core.errors import ToolError
from ..core.flow import Flow, Hooks, Policy, interpret
from ..core.labels import UNKNOWN, CallOrigin, Label
from ..engine.model import AskModel
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry

MAX_RESULT_CHARS = 20_000
"""Characters of a result that the model reads by default."""
MAX_STORED_RESULTS = 20
"""Truncated results of a conversation that stay readable; the oldest is dropped first."""
MAX_STORED_HANDLES = 1_000
"""Hidden results of a conversation that stay available; the oldest is dropped first."""
MAX_STORED_CHARS = 10_000_000
"""Stored characters of one truncated result."""
READ_MORE = "read_more"


@dataclass(eq=False)
class TruncatedResults:
    """The whole texts of the truncated results of one conversation, and their labels, by short ids.

    A text without a label is untrusted.
    """

    texts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def store(self, text: str, label: Label = UNKNOWN) -> str:
        """Store `text` and return its id."""
        identity = hashlib.blake2s(text.encode(errors="replace"), digest_size=3).hexdigest()
        with self._lock:
            self.texts.pop(identity, None)  # truncated again, it is the newest
            self.texts[identity] = text[:MAX_STORED_CHARS]
            self.labels[identity] = label.join(self.labels.get(identity, label))
            truncated = [key for key in self.texts if not key.startswith("#")]
            for oldest in truncated[:-MAX_STORED_RESULTS]:
                del self.texts[oldest]
                self.labels.pop(oldest, None)
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
        return stored

    def read(self, result_id: str, offset: int, length: int) -> str:
        """Return `length` characters of a stored text from `offset` on; raise `ToolError` for a wrong id or offset."""
        text = self.texts.get(result_id.strip())
        if text is None:
            raise ToolError(f"There is no cut result {result_id!r:.40}. There are: {', '.join(self.texts) or 'none'}.")
        start = max(0, offset)
        if start >= len(text):
            raise ToolError(f"The result {result_id} has {len(text):,} characters; offset must be below {len(text)}.")
        end = min(len(text), start + length)
        rest = f"read on with {READ_MORE}: {_format_position(result_id, end)}" if end < len(text) else "the end"
        return f"{text[start:end]}\n[characters {start} to {end} of {len(text)}; {rest}]"


def truncate_results(stored: TruncatedResults | None = None, max_result: int | None = MAX_RESULT_CHARS) -> Policy:
    """Truncate results; the tool `read_more` is offered as soon as there is one, unless another tool has its name.

    Args:
        stored: The whole texts; pass the same object for each run of a conversation.
        max_result: Characters of a result that the model reads, where its tool has no `max_result` of its own; None for
            all.
    """
    max_result = sys.maxsize if max_result is None else max_result
    stored = stored or TruncatedResults()
    reader = cache(partial(_make_read_more, stored, max_result))  # few runs need it

    def policy(flow: Flow[Any]) -> Flow[Any]:
        readable = True
        offered: tuple[ToolRegistry, ToolRegistry] | None = None

        def truncate(bound: BoundCall) -> BoundCall:
            if bound.tool is None and bound.call.name == READ_MORE and stored.texts and readable:
                return ToolRegistry(reader()).bind(bound.call, bound.context or RunContext(None))
            if readable and bound.call.name == READ_MORE:
                return bound
            own = bound.tool.max_result if bound.tool else None
            store = stored if readable else None
            most = max_result if own is None else own
            return bound.change(shorten=partial(truncate_result, most=most, store=store, origin=bound.origin))

        def truncate_calls(effect: CallTools) -> CallTools:
            return effect.with_calls(map(truncate, effect.calls))

        def offer(effect: AskModel) -> AskModel:
            nonlocal readable, offered
            tools = effect.request.tools
            readable = READ_MORE not in tools
            if not (readable and stored.texts and any(not key.startswith("#") for key in stored.texts)):
                return effect
            if offered is None or offered[0] is not tools:
                offered = tools, tools.merged(reader())
            return replace(effect, request=replace(effect.request, tools=offered[1]))

        return interpret(interpret(flow, Hooks(truncate_calls), CallTools), Hooks(offer), AskModel)

    return policy


def _make_read_more(stored: TruncatedResults, length: int) -> JsonTool[..., str]:
    def read_more(result_id: str, offset: int, run: RunContext[Any]) -> str:
        """Reads on in a tool's result that was too long to be shown whole.

        Args:
            result_id: The id that stands where the result was cut.
            offset: The character to begin with, from 0 on.
        """
        run.origin.add(stored.labels.get(result_id.strip(), UNKNOWN))
        return stored.read(result_id, offset, length)

    return JsonTool(read_more, effect="read", trust="trusted")


def truncate_result(text: str, *, most: int, store: TruncatedResults | None, origin: CallOrigin) -> str:
    """Return `text` if it is short enough, else its head and tail with a note on the rest, which `store` gets."""
    if len(text) <= most:
        return text
    head = most * 3 // 4
    tail = most // 4
    how = f"; read on with {READ_MORE}: {_format_position(store.store(text, origin.label), head)}" if store else ""
    note = f"[... {len(text) - head - tail} of {len(text)} characters are left out here{how} ...]"
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def _format_position(result_id: str, offset: int) -> str:
    """Return the arguments of `read_more`; not in the form of a call, because calls quoted from results are not run."""
    return f'result_id="{result_id}", offset={offset}'
