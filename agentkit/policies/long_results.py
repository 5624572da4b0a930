"""Long results are cut to their head and tail; the model can read on with a tool that is there only then."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import Lock
from typing import Any

from ..core.errors import ToolError
from ..core.flow import Effect, Flow, Policy, ask, interpret
from ..engine.model import AskModel
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry

MAX_RESULT_CHARS = 20_000
"""Characters of a result that the model reads, if nobody says otherwise."""
MAX_STORED_RESULTS = 20
"""How many cut results of a conversation can be read on; the oldest is forgotten first."""
MAX_STORED_CHARS = 10_000_000
"""Characters of one cut result that are kept."""
READ_MORE = "read_more"


@dataclass(eq=False)
class TruncatedResults:
    """The whole texts of the results that were cut in one conversation, by a short id."""

    texts: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def keep(self, text: str) -> str:
        """Keep `text`; returns its id."""
        identity = hashlib.blake2s(text.encode(errors="replace"), digest_size=3).hexdigest()
        with self._lock:
            self.texts.pop(identity, None)  # cut again, it is the newest
            self.texts[identity] = text[:MAX_STORED_CHARS]
            while len(self.texts) > MAX_STORED_RESULTS:
                del self.texts[next(iter(self.texts))]
        return identity

    def read(self, result_id: str, offset: int, length: int) -> str:
        """`length` characters of a kept text from `offset` on, and where they stand; `ToolError` if it is not kept."""
        text = self.texts.get(result_id.strip())
        if text is None:
            raise ToolError(f"There is no cut result {result_id!r:.40}. There are: {', '.join(self.texts) or 'none'}.")
        start = max(0, offset)
        if start >= len(text):
            raise ToolError(f"The result {result_id} has {len(text):,} characters; offset must be below {len(text)}.")
        end = min(len(text), start + length)
        rest = f"read on with {READ_MORE}: {_format_position(result_id, end)}" if end < len(text) else "the end"
        return f"{text[start:end]}\n[characters {start} to {end} of {len(text)}; {rest}]"


def truncate_results(kept: TruncatedResults | None = None, max_result: int = MAX_RESULT_CHARS) -> Policy:
    """Show the model `max_result` characters of a result, more or less where a tool has a `max_result` of its own.

    `kept` holds the whole texts; a conversation that goes on from run to run gives the same one each time.  The tool
    `read_more` is offered as soon as there are some, unless another tool has its name.
    """
    kept = kept or TruncatedResults()
    reader = cache(partial(_make_read_more, kept, max_result))  # few runs ever need it

    def policy(flow: Flow[Any]) -> Flow[Any]:
        readable = True
        offered: tuple[ToolRegistry, ToolRegistry] | None = None

        def shortened(bound: BoundCall) -> BoundCall:
            if bound.tool is None and bound.call.name == READ_MORE and kept.texts and readable:
                return ToolRegistry(reader()).bind(bound.call)
            if readable and bound.call.name == READ_MORE:
                return bound
            own = bound.tool.max_result if bound.tool else None
            store = kept if readable else None
            shorten = partial(_truncate, most=max_result if own is None else own, kept=store)
            return replace(bound, shorten=shorten)

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal readable, offered
            if isinstance(effect, CallTools):
                effect = replace(effect, calls=tuple(map(shortened, effect.calls)))
            elif isinstance(effect, AskModel):
                tools = effect.request.tools
                readable = READ_MORE not in tools
                if kept.texts and readable:
                    if offered is None or offered[0] is not tools:
                        offered = tools, tools.merged(reader())
                    effect = replace(effect, request=replace(effect.request, tools=offered[1]))
            return (yield from ask(effect))

        return interpret(flow, handle, (AskModel, CallTools))

    return policy


def _make_read_more(kept: TruncatedResults, length: int) -> JsonTool[..., str]:
    def read_more(result_id: str, offset: int) -> str:
        """Reads on in a tool's result that was too long to be shown whole.

        Args:
            result_id: The id that stands where the result was cut.
            offset: The character to begin with, from 0 on.
        """
        return kept.read(result_id, offset, length)

    return JsonTool(read_more)


def _truncate(text: str, *, most: int, kept: TruncatedResults | None) -> str:
    """`text` if it is short enough, else its head and tail, with how much is left out and how to read on."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 4, most // 4
    how = f"; read on with {READ_MORE}: {_format_position(kept.keep(text), head)}" if kept else ""
    note = f"[... {len(text) - head - tail} of {len(text)} characters are left out here{how} ...]"
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def _format_position(result_id: str, offset: int) -> str:
    """The arguments that read on; not in the form of a call, for a call that a tool's result holds is never run."""
    return f'result_id="{result_id}", offset={offset}'
