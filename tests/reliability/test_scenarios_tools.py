"""Tools that misbehave, return odd values, or run in odd places."""

import asyncio
import dataclasses
import datetime
import decimal
import json
import pathlib
import threading
import time
from typing import Any

import pydantic
import pytest
from play import TEA, Play, call, calls, final, price_of
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, Limits, tool
from agentkit.core.flow import Event
from agentkit.engine.model import ModelReplied
from agentkit.testing import ScriptedModel

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c636060606000000005000157"
    "a5ab0f0000000049454e44ae426082"
)


def make_returning_tool(value: Any) -> Any:
    def give() -> Any:
        """Gives something."""
        return value() if callable(value) else value

    return give


def make_raising_tool(error: BaseException) -> Any:
    def give() -> Any:
        """Gives something."""
        raise error

    return give


GIVE = calls(call("give"))


def read_result(play: Play, function: Any, **options: Any) -> Any:
    """Return the text of the tool's result that the model reads."""
    outcome = play([GIVE, final()], tools=[function], **options)
    assert outcome.answer == "done"
    assert len(outcome.ran) == 1
    return outcome.tool_texts[0]


def test_tool_raises(play: Play):
    text = read_result(play, make_raising_tool(ValueError("no such item")))
    assert text == "ValueError: no such item"


def test_tool_raises_huge(play: Play):
    text = read_result(play, make_raising_tool(ValueError("x" * 5_000_000)))
    assert len(text) < 30_000
    assert "ValueError: xxx" in text
    assert "," in text or "characters" in text


def test_tool_returns_huge(play: Play):
    text = read_result(play, make_returning_tool("word " * 1_000_000))
    assert len(text) < 100_000
    assert "5000000" in text.replace(",", "")


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_tool_raises_odd(play: Play):
    assert "OddError" in read_result(play, make_raising_tool(OddError()))


def test_tool_raises_interrupt(play: Play):
    outcome = play([calls(call("give"), TEA)], tools=[make_raising_tool(KeyboardInterrupt()), price_of])
    assert isinstance(outcome.error, KeyboardInterrupt)
    assert len(outcome.tool_texts) == 2


def test_tool_raises_exit(play: Play):
    outcome = play([GIVE, final()], tools=[make_raising_tool(SystemExit(3))])
    assert outcome.answer == "done"
    assert "SystemExit" in outcome.tool_texts[0]


class Own:
    def __str__(self) -> str:
        return "my own words"


class Silent:
    pass


@dataclasses.dataclass
class Price:
    item: str
    euros: decimal.Decimal


class Offer(pydantic.BaseModel):
    item: str
    until: datetime.date


def cycle() -> Any:
    ring: list[Any] = [1]
    ring.append(ring)
    return ring


OBJECTS = {
    "day": datetime.date(2024, 1, 31),
    "price": decimal.Decimal("1.50"),
    "path": pathlib.PurePosixPath("a/b"),
    "set": {1},
    (1, 2): "pair",
    "own": Own(),
    "silent": Silent(),
}


@pytest.mark.parametrize(
    ("scenario", "value", "wanted", "unwanted"),
    [
        ("tool_returns_none", None, ["null"], []),
        ("tool_returns_bytes", bytes(range(256)), ["256"], ["\x00", "\\x00", "AAEC"]),
        ("tool_returns_objects", OBJECTS, ["2024-01-31", "1.50", "a/b", "[1]", "pair", "my own words"], ["0x", "object at"]),
        ("tool_returns_dataclass", Price("tea", decimal.Decimal("3.50")), ["item", "tea", "3.50"], ["Decimal"]),
        ("tool_returns_pydantic", Offer(item="tea", until=datetime.date(2024, 1, 31)), ["tea", "2024-01-31"], ["datetime"]),
        ("tool_returns_cycle", cycle, ["1"], ["Error"]),
        ("tool_returns_surrogate", "half \ud83d of a pair", ["half ", " of a pair"], ["\ud83d"]),
        ("tool_returns_generator", lambda: (n for n in range(3)), ["0", "1", "2"], ["generator"]),
    ],
)  # fmt: skip
def test_odd_results_can_be_read(play: Play, scenario: str, value: Any, wanted: list[str], unwanted: list[str]):
    text = read_result(play, make_returning_tool(value))
    assert all(word in text for word in wanted)
    assert not any(word in text for word in unwanted)


def test_tool_returns_generator_without_end(play_whole: Play):
    def numbers() -> Any:
        while True:
            yield 1

    assert len(read_result(play_whole, make_returning_tool(numbers))) < 100_000


def test_tool_returns_coroutine(play: Play):
    async def later() -> str:
        return "in the end"

    assert read_result(play, make_returning_tool(later)) == "in the end"


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])
def test_tool_returns_image(play_whole: Play, wire: str):
    outcome = play_whole([GIVE, final()], tools=[make_returning_tool(PIXEL)], wire=wire)
    assert outcome.answer == "done"
    assert "image/png" in json.dumps(outcome.bodies[1])


HANG = threading.Event()


def hang() -> None:
    """Hangs."""
    HANG.wait(HANGS)


async def hang_async() -> None:
    """Hangs."""
    await asyncio.sleep(HANGS)


@pytest.fixture
def _hanging():
    """Hang until the end of the test, and no longer."""
    HANG.clear()
    yield
    HANG.set()


@pytest.mark.usefixtures("_hanging")
@pytest.mark.parametrize(("scenario", "function"), [("tool_hangs", hang), ("tool_hangs_async", hang_async)])
def test_a_hung_tool_is_answered_with_a_timeout_and_the_run_continues(play: Play, scenario: str, function: Any):
    patient = tool(timeout=HANGS)(price_of)
    outcome = play(
        [calls(call(function.__name__), TEA), final()], tools=[function, patient], limits=Limits(tool_seconds=0.15)
    )
    assert outcome.answer == "done"
    assert "0.15" in outcome.tool_texts[0] or "time" in outcome.tool_texts[0].lower()
    assert outcome.tool_texts[1] == "3.5"


@pytest.mark.usefixtures("_hanging")
def test_a_tool_has_a_timeout_of_its_own(play_whole: Play):
    slow = tool(timeout=0.1)(hang)
    outcome = play_whole([calls(call("hang"), TEA), final()], tools=[slow, price_of])
    assert outcome.answer == "done"
    assert outcome.tool_texts[1] == "3.5"


def test_tool_blocks_loop(play_whole: Play):
    if not play_whole.is_async:
        pytest.skip("there is no loop to block")
    begun = threading.Event()
    free = threading.Event()

    def give() -> bool:
        """Gives back whether the loop ran meanwhile."""
        begun.set()
        return free.wait(60)

    async def tick() -> None:
        while not begun.is_set():
            await asyncio.sleep(0.005)
        free.set()

    async def both() -> None:
        agent = JsonAgent(give, model=ScriptedModel(GIVE, final()))
        result, _ = await asyncio.gather(agent.arun("Go"), tick())
        assert result.calls[0].value is True

    asyncio.run(both())


def test_tool_async_in_sync_run(play: Play):
    async def give() -> str:
        """Gives something."""
        await asyncio.sleep(0)
        return "awaited"

    assert read_result(play, give) == "awaited"


def test_tool_sync_run_in_loop(play_whole: Play):
    async def within() -> Any:
        return Play("sync", play_whole.slept)([calls(TEA), final("3.5")])

    assert asyncio.run(within()).answer == "3.5"


def test_tool_mutates_args(play: Play):
    def empty(items: list[str], options: dict[str, int]) -> int:
        """Empties."""
        found = len(items)
        items.clear()
        options.clear()
        return found

    arguments = {"items": ["a", "b"], "options": {"x": 1}}
    outcome = play([calls(call("empty", arguments)), calls(call("empty", arguments)), final()], tools=[empty])
    assert outcome.answer == "done"
    assert outcome.tool_texts[:2] == ["2", "2"]
    sent = outcome.bodies[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == arguments


def test_tool_calls_agent(play: Play):
    inner = JsonAgent(price_of, model=ScriptedModel([calls(TEA), final("3.5")] * 2))

    def give() -> str:
        """Gives what another agent says."""
        return inner("What does tea cost?")

    assert read_result(play, give) == "3.5"
    assert len(inner.history) > 3


def test_tool_not_thread_safe(play: Play):
    inside = 0

    @tool(effect="write")
    def touch(place: int) -> int:
        """Touches what only one may touch at a time."""
        nonlocal inside
        inside += 1
        assert inside == 1
        time.sleep(0.03)
        inside -= 1
        return place

    outcome = play([calls(*[call("touch", {"place": n}) for n in range(4)]), final()], tools=[touch])
    assert outcome.answer == "done"
    assert outcome.tool_texts[:4] == ["0", "1", "2", "3"]


def test_tool_not_thread_safe_whatever_it_is(play: Play):
    inside: list[int] = []

    def touch(place: int) -> int:
        """Touches what only one may touch at a time."""
        inside.append(place)
        assert inside == [place]
        time.sleep(0.03)
        inside.remove(place)
        return place

    made = calls(*[call("touch", {"place": n}) for n in range(4)])
    outcome = play([made, final()], tools=[touch], sequential=True)
    assert outcome.answer == "done"
    assert outcome.tool_texts[:4] == ["0", "1", "2", "3"]


def test_tool_same_name_twice():
    def other() -> None:
        """Does something else."""

    with pytest.raises(DefinitionError, match="price_of"):
        JsonAgent(price_of, tool(name="price_of")(other))


def test_what_is_shown_of_a_run_are_events(play_streamed: Play):
    outcome = play_streamed([calls(TEA), final("3.5")])
    assert all(isinstance(event, Event) for event in outcome.events)
    assert len([event for event in outcome.events if isinstance(event, ModelReplied)]) == 2
