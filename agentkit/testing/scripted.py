"""Models of tests, without a key or network: one with scripted replies, and one that fails at random.

`chaos` fails as models and networks do, reproducibly for a given seed:

    agent = JsonAgent(tools, model=chaos(model, seed=7))     # reaches the same answer or raises a `RunError`

No reply of the model is lost or changed in its meaning: a fault precedes a reply, replaces an additional one, or
garbles the form of a reply.  A scripted model therefore stays in step, and each run must end with the right answer or
with a documented `RunError` and a valid history.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.errors import ModelError, ModelErrorKind
from ..core.messages import Message, ToolCall, Usage, assistant
from ..core.values import copy_with, frozen
from ..engine.model import Delta, Model, Reply, Request, TextDelta, split_deltas
from ..tools.final_answer import ANSWER_KEY, FINAL_ANSWER


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the scripted reply that calls one tool.

    Args:
        name: The tool.
        arguments: The tool's arguments, any values that JSON can hold.

    Returns:
        A reply for `ScriptedModel` and `ModelServer`: `{"tool_calls": [{"name": ..., "arguments": {...}}]}`.
    """
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def calls(*replies: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scripted reply that makes the calls of several replies at once: `calls(call("a"), call("b", x=1))`."""
    return {"tool_calls": [each for reply in replies for each in reply["tool_calls"]]}


def answer(value: Any = ..., /, **fields: Any) -> dict[str, Any]:
    """Return the scripted reply that gives the final answer.

    Args:
        value: The answer of an agent whose answer is one value: `answer("Go north.")`, `answer(5)`. In a reply of
            `ModelServer`, a text for another type than `str`, such as an Enum or a date, is `answer(answer="red")`.
        fields: The fields of the answer, for an agent with `answer=` a class: `answer(city="Kolkata", degrees=29)`.

    Returns:
        A reply like that of `call`, for the tool `final_answer`.
    """
    if value is not ...:
        fields = {"text" if isinstance(value, str) else "answer": value, **fields}
    return call("final_answer", **fields)


_KEYS = ("tool_calls", "content", "finish_reason", "usage")


class ScriptedModel:
    """A model whose replies are given as data, one for each request.

    Args:
        replies: The replies in order, or one list of them. A string is a text reply. A dict
            `{"tool_calls": [{"name": ..., "arguments": {...}}], "content": ..., "finish_reason": ..., "usage": {...}}`
            is a reply with calls; each may have an `id`, and `arguments` may also be a string, which is sent unchanged.
            `usage` has fields of `Usage`. An exception is raised, a `Reply` is returned unchanged, and a function of
            the `Request` returns one of these.
        name: The model's name in logs and results.

    The attribute `requests` lists the requests, each with a copy of its messages. A request after the last reply raises
    `AssertionError`.
    """

    def __init__(self, *replies: Any, name: str = "scripted") -> None:
        self.script: list[Any] = list(replies[0]) if len(replies) == 1 and isinstance(replies[0], list) else [*replies]
        self.requests: list[Request] = []
        self.name = name

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Yield the next reply of the script."""
        reply = self._next_reply(request)
        if request.stream:
            yield from split_deltas(reply.message)
        yield reply

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the next reply of the script."""
        for piece in self.ask(request):
            yield piece

    def assert_done(self) -> None:
        """Raise `AssertionError` if the script has unused replies."""
        rest = self.script[len(self.requests) :]
        if rest:
            raise AssertionError(f"the script has {len(rest)} unused replies; the next is {rest[0]!r}")

    def _next_reply(self, request: Request) -> Reply:
        place = len(self.requests)
        self.requests.append(copy_with(request, {"messages": [*request.messages]}))
        if place >= len(self.script):
            raise AssertionError(f"the script has {len(self.script)} replies, but the model got request {place + 1}")
        entry = self.script[place]
        if callable(entry):
            entry = entry(request)
        if isinstance(entry, BaseException):
            raise entry
        if isinstance(entry, Reply):
            return entry
        message = _build_message(entry, place, request.tools)
        extra = {} if isinstance(entry, str) else entry
        usage = Usage(**{"requests": 1, **extra.get("usage", {})})
        return Reply(message, usage, extra.get("finish_reason"), self.name)


def _build_message(entry: Any, place: int, tools: Mapping[str, Any]) -> Message:
    if isinstance(entry, str):
        return assistant(entry)
    if not isinstance(entry, Mapping):
        raise TypeError(f"a scripted reply must be a string, a dict, a Reply or an exception, got {entry!r:.80}")
    if unknown := entry.keys() - _KEYS:
        hint = "ModelServer plays faults of a provider; an exception is a failed request here."
        raise TypeError(f"a scripted reply has no key {min(unknown)!r}. Its keys are: {', '.join(_KEYS)}. {hint}")
    calls = []
    for number, given in enumerate(entry.get("tool_calls") or (), 1):
        if not isinstance(given, Mapping) or "name" not in given:
            what = 'a scripted call is {"name": ..., "arguments": {...}}'
            raise TypeError(
                f'{what}, got {given!r:.80}. agentkit.testing.call("name", key=value) writes a reply with one.'
            )
        identity = given.get("id", f"call_{place + 1}_{number}")
        calls.append(ToolCall(identity, given["name"], _write_arguments(given, tools)))
    return assistant(entry.get("content"), calls)


def _write_arguments(call: Mapping[str, Any], tools: Mapping[str, Any]) -> str:
    """Return the arguments of a scripted call as text; those of `answer("...")` under the name in the schema."""
    given = call.get("arguments", {})
    if isinstance(given, str):
        return given
    if call["name"] == FINAL_ANSWER and [*given] == ["text"] and (tool := tools.get(FINAL_ANSWER)):
        given = {ANSWER_KEY: given["text"]} if [*tool.parameters["properties"]] == [ANSWER_KEY] else given
    return json.dumps(given)


Calls = list[dict[str, Any]]
"""A message's `tool_calls`."""
TEXT = "text instead of a call"
MAX_USELESS_REPLIES = 2
"""The maximum number of consecutive useless replies that chaos adds; more would end a run, as intended."""


@frozen
class InjectedFault:
    """An injected fault: the number of the request (from 1) and the name of the fault."""

    request: int
    fault: str


def chaos(model: Model, seed: int, rate: float = 0.3) -> "ChaoticModel":
    """Return `model` with faults; the attribute `injected` of the returned model lists them.

    The faults are transient errors of the provider and the connection, silence, empty replies, text instead of a call,
    truncated or invalid calls, calls of unknown tools, and real calls with unusual names, arguments or finish reasons,
    with missing or duplicate ids, or made twice. With one request at a time the same seed gives the same faults.

    Args:
        model: The model to wrap.
        seed: The seed of the random choices.
        rate: The share of requests with a fault, 0 to 1.
    """
    return ChaoticModel(model, seed, rate)


class ChaoticModel:
    """A model with random faults; `injected` lists the faults so far."""

    def __init__(self, model: Model, seed: int, rate: float) -> None:
        self.injected: list[InjectedFault] = []
        self._model = model
        self._rate = rate
        self._chance = random.Random(seed)
        self._asked = 0
        self._useless = 0

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request` or inject a fault, blocking."""
        fault = self._draw_fault(request)
        if fault in INSTEAD:
            yield from self._play_fault(fault, request)
            return
        time.sleep(SILENCE_SECONDS if fault == "silence" else 0)
        with closing(self._model.ask(request)) as pieces:
            for piece in pieces:
                yield self._garble(fault, piece) if isinstance(piece, Reply) else piece

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request` or inject a fault, on the running event loop."""
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
        """Draw the fault of this request; "" means no fault."""
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
        """Raise an error, or yield an invented reply."""
        made = INSTEAD[fault](self._chance, request)
        if isinstance(made, ModelError):
            if request.stream:
                yield TextDelta("Let me")
            raise made
        if request.stream:
            yield from split_deltas(made.message)
        yield made

    def _garble(self, fault: str, reply: Reply) -> Reply:
        """Return the model's reply, garbled if it has calls."""
        self._useless = 0
        calls = reply.message.get("tool_calls")
        if not calls or fault not in GARBLED:
            return reply
        self.injected.append(InjectedFault(self._asked, fault))
        return GARBLED[fault](reply, [{**call, "function": dict(call["function"])} for call in calls])


def _make_error(kind: ModelErrorKind, status: int | None, _chance: random.Random, _request: Request) -> ModelError:
    return ModelError(f"chaos: {kind}", kind=kind, status=status, transient=True, retry_after=0.0)


def _make_call(name: str, arguments: str, finish_reason: str = "tool_calls") -> Reply:
    return Reply(assistant(None, [ToolCall("", name, arguments)]), finish_reason=finish_reason)


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
    "empty reply": lambda *_: Reply(assistant(), finish_reason="stop"),
    TEXT: lambda *_: Reply(assistant("Let me think about that first."), finish_reason="stop"),
    "unknown tool": lambda chance, _: _make_call(f"tool_{chance.randrange(1000)}_of_chaos", "{}"),
    "broken arguments": lambda chance, request: _make_call(_pick_tool(chance, request), '{"chaos": "'),
    "no object": lambda chance, request: _make_call(_pick_tool(chance, request), '[["chaos"], 7]'),
    "cut-off call": lambda chance, request: _make_call(_pick_tool(chance, request), '{"chaos": "', "length"),
}
INSTEAD = ERRORS | USELESS
"""Faults that replace a reply."""


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
"""Faults that change a reply's calls; the second argument is a copy of the calls."""
FAULTS = [*INSTEAD, *GARBLED, "silence"]
