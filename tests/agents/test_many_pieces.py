"""Very many pieces of a stream: the time of a run is linear in their number."""

import json
import time
from types import SimpleNamespace

import pytest

from agentkit import JsonAgent
from agentkit.core.messages import ToolCall, assistant
from agentkit.engine.model import Reply, TextDelta, ThinkingDelta, ToolCallDelta
from agentkit.events import EventEncoder
from agentkit.models.litellm.streams import ArgumentPieces, StreamAssembler

MAX_RATIO = 30
"""Growth of the time where the number of pieces grows tenfold: 10 is linear, 100 quadratic."""


def one(a: int) -> int:
    """Returns it."""
    return a


class Stream:
    """A model whose answer comes letter by letter, after as many letters of text or thoughts."""

    name = "stream"

    def __init__(self, kind, count: int) -> None:
        self.kind = kind
        self.count = count

    def ask(self, request):
        arguments = json.dumps({"text": "a" * self.count})
        if self.kind is ToolCallDelta:
            yield from (ToolCallDelta(0, "final_answer", letter) for letter in arguments)
        else:
            yield from (self.kind("a") for _ in range(self.count))
        yield Reply(assistant("a" * self.count, [ToolCall("1", "final_answer", arguments)]))

    async def aask(self, request):
        for piece in self.ask(request):
            yield piece


def ratio(action) -> float:
    """How many times as long `action` takes for 20,000 pieces as for 2,000; the best of three tries."""
    found = []
    for _ in range(3):
        times = []
        for count in (2_000, 20_000):
            began = time.process_time()
            action(count)
            times.append(time.process_time() - began)
        found.append(times[1] / times[0])
        if found[-1] < MAX_RATIO:
            break
    return min(found)


@pytest.mark.parametrize("kind", [TextDelta, ThinkingDelta, ToolCallDelta])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_streamed_run_is_linear_in_its_pieces(kind, encoded):
    def run(count):
        encoder = EventEncoder()
        listeners = [lambda event: list(encoder.encode(event))] if encoded else []
        for _ in JsonAgent(one, model=Stream(kind, count), listeners=listeners).stream("Go"):
            pass

    assert ratio(run) < MAX_RATIO


@pytest.mark.parametrize("name", [None, "f"])
def test_the_pieces_of_a_call_are_put_together_in_linear_time(name):
    def assemble(count):
        assembler = StreamAssembler(SimpleNamespace(name="m"))
        for place in range(count):
            function = SimpleNamespace(name=name if place else "f", arguments="1," if place else "[")
            call = SimpleNamespace(index=0, id=None if place else "c", function=function)
            delta = SimpleNamespace(content=None, tool_calls=[call])
            choice = SimpleNamespace(delta=delta, finish_reason=None)
            list(assembler.add(SimpleNamespace(model="m", id="r", choices=[choice], usage=None)))

    assert ratio(assemble) < MAX_RATIO


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("text", ['{"a": "}\\\\\\"{", "b": [{}]}', "[]", '{"a": {"b": "\\\\"}}'])
def test_a_call_is_complete_with_its_last_bracket(text, size):
    arguments = ArgumentPieces()
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    for piece in pieces:
        assert not arguments.is_complete
        arguments.add(piece)
    assert arguments.is_complete
    assert json.loads("".join(arguments.pieces)) == json.loads(text)
    arguments.add(" ")
    assert arguments.is_complete
    arguments.add("x")
    assert not arguments.is_complete
