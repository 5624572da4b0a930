"""A model with scripted replies, for deterministic tests without a key or network."""

import json
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import replace
from typing import Any

from ..core.messages import Message, ToolCall, Usage, assistant
from ..engine.model import Delta, Reply, Request, split_deltas


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
        value: The answer of an agent whose answer is one value: `answer("Go north.")`, `answer(5)`.
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
        self._name = name

    @property
    def name(self) -> str:
        """The name that was passed."""
        return self._name

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
        self.requests.append(replace(request, messages=list(request.messages)))
        if place >= len(self.script):
            raise AssertionError(f"the script has {len(self.script)} replies, but the model got request {place + 1}")
        entry = self.script[place]
        if callable(entry):
            entry = entry(request)
        if isinstance(entry, BaseException):
            raise entry
        if isinstance(entry, Reply):
            return entry
        message = _build_message(entry, place)
        extra = entry if isinstance(entry, Mapping) else {}
        usage = Usage(**{"requests": 1, **extra.get("usage", {})})
        return Reply(message, usage, extra.get("finish_reason"), self.name)


def _build_message(entry: Any, place: int) -> Message:
    if isinstance(entry, str):
        return assistant(entry)
    if not isinstance(entry, Mapping):
        raise TypeError(f"a scripted reply must be a string, a dict, a Reply or an exception, got {entry!r:.80}")
    if unknown := entry.keys() - _KEYS:
        hint = "ModelServer plays faults of a provider; an exception is a failed request here."
        raise TypeError(f"a scripted reply has no key {min(unknown)!r}. Its keys are: {', '.join(_KEYS)}. {hint}")
    calls = [
        ToolCall(
            call.get("id", f"call_{place + 1}_{number}"),
            call["name"],
            call["arguments"] if isinstance(call.get("arguments"), str) else json.dumps(call.get("arguments", {})),
        )
        for number, call in enumerate(entry.get("tool_calls") or (), 1)
    ]
    return assistant(entry.get("content"), calls)
