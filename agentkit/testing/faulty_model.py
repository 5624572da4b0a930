"""Chaos: a model that fails as models and networks do, at random, and with the same seed in the same way again.

agent = JsonAgent(tools, model=chaos(model, seed=7))     # comes to the same answer, or says why not

Nothing that the model says is lost or changed in what it means: a fault comes before a reply, stands in for one that
was never asked for, or garbles the form of one.  So a script stays in step, and every run over chaos must end with the
right answer or with a documented `RunError`, its history valid.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.errors import ModelError, ModelErrorKind
from ..core.messages import Message, ToolCall, assistant
from ..engine.model import Delta, Model, Reply, Request, TextDelta
from .scripted import split_deltas

Calls = list[dict[str, Any]]
"""A message's `tool_calls`."""
TEXT = "text instead of a call"
MAX_USELESS_REPLIES = 2
"""Replies in a row without any use that chaos adds; more would end a run, as they should."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault that was injected: into which request (from 1 on), and which."""

    request: int
    fault: str


def chaos(model: Model, seed: int, rate: float = 0.3) -> "ChaoticModel":
    """`model`, with a fault in about `rate` of its requests; `injected` of what comes back lists them.

    The faults: passing errors of the provider and the connection, silence, empty replies, text instead of a call,
    calls that are cut off, broken or of tools that do not exist, and real calls with odd names, odd arguments, odd
    finish reasons, with ids that are missing or used twice, or made twice.  With one request at a time the same seed
    gives the same faults.
    """
    return ChaoticModel(model, seed, rate)


class ChaoticModel:
    """What `chaos` makes of a model; `injected` lists the faults so far."""

    def __init__(self, model: Model, seed: int, rate: float) -> None:
        self.injected: list[InjectedFault] = []
        self._model = model
        self._rate = rate
        self._chance = random.Random(seed)
        self._asked = 0
        self._useless = 0

    @property
    def name(self) -> str:
        """The name of the model underneath."""
        return self._model.name

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request`, or fail to, blocking."""
        fault = self._draw_fault(request)
        if fault in INSTEAD:
            yield from self._play_fault(fault, request)
            return
        time.sleep(SILENCE_SECONDS if fault == "silence" else 0)
        with closing(self._model.ask(request)) as pieces:
            for piece in pieces:
                yield self._garble(fault, piece) if isinstance(piece, Reply) else piece

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request`, or fail to, on the running event loop."""
        fault = self._draw_fault(request)
        if fault in INSTEAD:
            for piece in self._play_fault(fault, request):
                yield piece
            return
        await asyncio.sleep(SILENCE_SECONDS if fault == "silence" else 0)
        async with aclosing(self._model.aask(request)) as pieces:
            async for piece in pieces:
                yield self._garble(fault, piece) if isinstance(piece, Reply) else piece

    def _draw_fault(self, request: Request) -> str:
        """The fault of this request; "" for none."""
        self._asked += 1
        if self._chance.random() >= self._rate:
            return ""
        fault = self._chance.choice(FAULTS)
        if fault in USELESS:
            talks = request.messages[-1]["role"] != "tool" or request.tool_choice != "auto"  # a text would be an answer
            if not request.tools or self._useless >= MAX_USELESS_REPLIES or (fault == TEXT and talks):
                return ""
            self._useless += 1
        if fault in INSTEAD or fault == "silence":
            self.injected.append(InjectedFault(self._asked, fault))
        return fault

    def _play_fault(self, fault: str, request: Request) -> Iterator[Delta | Reply]:
        """An error, or a reply that the model never wrote."""
        made = INSTEAD[fault](self._chance, request)
        if isinstance(made, ModelError):
            if request.stream:
                yield TextDelta("Let me")
            raise made
        if request.stream:
            yield from split_deltas(made.message)
        yield made

    def _garble(self, fault: str, reply: Reply) -> Reply:
        """The model's reply, its form garbled if it has calls."""
        self._useless = 0
        calls = reply.message.get("tool_calls")
        if not calls or fault not in GARBLED:
            return reply
        self.injected.append(InjectedFault(self._asked, fault))
        return GARBLED[fault](reply, [{**call, "function": dict(call["function"])} for call in calls])


def _make_error(kind: ModelErrorKind, status: int | None, _chance: random.Random, _request: Request) -> ModelError:
    return ModelError(f"chaos: {kind}", kind=kind, status=status, transient=True, retry_after=0.0)


def _make_reply(message: Message, finish_reason: str = "stop") -> Reply:
    return Reply(message, finish_reason=finish_reason)


def _make_call(name: str, arguments: str, finish_reason: str = "tool_calls") -> Reply:
    return _make_reply(assistant(None, [ToolCall("", name, arguments)]), finish_reason)


def _pick_tool(chance: random.Random, request: Request) -> str:
    return chance.choice(sorted(request.tools))


SILENCE_SECONDS = 0.02
Instead = Callable[[random.Random, Request], Reply | ModelError]
ERRORS: dict[str, Instead] = {
    "server error": partial(_make_error, "server", 503),
    "rate limit": partial(_make_error, "rate_limit", 429),
    "lost connection": partial(_make_error, "connection", None),
    "timeout": partial(_make_error, "timeout", None),
}
USELESS: dict[str, Instead] = {
    "empty reply": lambda *_: _make_reply(assistant()),
    TEXT: lambda *_: _make_reply(assistant("Let me think about that first.")),
    "unknown tool": lambda chance, _: _make_call(f"tool_{chance.randrange(1000)}_of_chaos", "{}"),
    "broken arguments": lambda chance, request: _make_call(_pick_tool(chance, request), '{"chaos": "'),
    "no object": lambda chance, request: _make_call(_pick_tool(chance, request), '[["chaos"], 7]'),
    "cut-off call": lambda chance, request: _make_call(_pick_tool(chance, request), '{"chaos": "', "length"),
}
INSTEAD = ERRORS | USELESS
"""What stands in for a reply."""


def _replace_calls(reply: Reply, calls: Sequence[dict[str, Any]]) -> Reply:
    return replace(reply, message={**reply.message, "tool_calls": list(calls)})


def _set_call_keys(reply: Reply, calls: Calls, **keys: Any) -> Reply:
    return _replace_calls(reply, [{**call, **keys} for call in calls])


def _format_function(reply: Reply, calls: Calls, key: str, form: str) -> Reply:
    for call in calls:
        call["function"][key] = form.format(call["function"][key])
    return _replace_calls(reply, calls)


GARBLED: dict[str, Callable[[Reply, Calls], Reply]] = {
    "same ids": partial(_set_call_keys, id="call_0"),
    "no ids": partial(_set_call_keys, id=None),
    "empty ids": partial(_set_call_keys, id=""),
    "calls made twice": lambda reply, calls: _replace_calls(reply, [*calls, *calls]),
    "prefixed names": partial(_format_function, key="name", form="functions.{}"),
    "fenced arguments": partial(_format_function, key="arguments", form="```json\n{}\n```"),
    "odd finish reason": lambda reply, _: replace(reply, finish_reason="eos"),
    "no finish reason": lambda reply, _: replace(reply, finish_reason=None),
}
"""What becomes of a reply's calls; the second argument is a copy of them."""
FAULTS = [*INSTEAD, *GARBLED, "silence"]
