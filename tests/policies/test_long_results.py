"""Long results: cut to head and tail, and read on."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import ContextWindow, RunContext, ToolError, ToolRegistry, tool
from agentkit.core.masking import mask
from agentkit.core.messages import CallOrigin, user
from agentkit.policies.final_request import request_final_answer
from agentkit.policies.limits import limit
from agentkit.policies.long_results import (
    MAX_RESULT_CHARS,
    READ_MORE,
    TruncatedResults,
    read_more,
    truncate_result,
    truncate_results,
)
from agentkit.policies.text_tool_mode import run_text_calls, use_text_mode
from agentkit.testing import ScriptedModel, call
from agentkit.tools.final_answer import make_answer_tool

LONG = "".join(f"line {number:05}\n" for number in range(5_000))
"""55,000 characters."""


def long() -> str:
    """Gives a long text."""
    return LONG


def short() -> str:
    """Gives a short text."""
    return "short"


def fail() -> None:
    """Fails at length."""
    raise ValueError("x" * 100_000)


def explain() -> None:
    """Explains at length."""
    raise ToolError("y" * 3_000)


def endless():
    """Counts."""
    number = 0
    while True:
        yield number
        number += 1


async def aendless():
    """Counts, awaiting."""
    for number in range(20_000):
        yield number


TOOLS = ToolRegistry(long, short, fail, explain, endless, aendless, answer=make_answer_tool())


FINAL = call("final_answer", text="ok")


def loop_truncating(world, *replies, tools=TOOLS, policies=None, history=None):
    model = ScriptedModel(*replies)
    history = [user("?")] if history is None else history
    world.loop(model, tools, history, *(policies or reading(TruncatedResults())))
    return history, model


def reading(kept, **settings):
    """The policies that truncate results and offer what reads on."""
    return *ContextWindow().policies(RunContext(None, texts=kept)), truncate_results(kept, **settings)


def read_id(text: str) -> str:
    return text.split('at="')[1].split(":")[0]


def test_a_long_result_is_cut_to_its_head_and_tail(world):
    history, _ = loop_truncating(world, call("long"), FINAL)
    shown = history[2]["content"]
    assert len(shown) < MAX_RESULT_CHARS + 200
    assert shown.startswith("line 00000\n")
    assert shown.endswith("line 04999\n")
    assert "35000 of 55000 characters are left out" in shown


def test_reading_on_is_offered_only_when_something_was_cut(world):
    _, model = loop_truncating(world, call("short"), call("long"), FINAL)
    assert [READ_MORE in request.tools for request in model.requests] == [False, False, True]


def test_the_model_reads_on_to_the_end(world):
    kept = TruncatedResults()
    history, _ = loop_truncating(world, call("long"), FINAL, policies=reading(kept))
    identity = read_id(history[2]["content"])
    offset = 15_000
    parts = [LONG[:15_000]]
    while offset:
        following = [user("on")]
        loop_truncating(
            world,
            call(READ_MORE, at=f"{identity}:{offset}"),
            FINAL,
            policies=reading(kept),
            history=following,
        )
        text, _, note = following[2]["content"].rpartition("\n[characters ")
        parts.append(text)
        offset = int(note.split(":")[2].removesuffix('"]')) if "at=" in note else 0
    assert "".join(parts) == LONG


def test_a_model_that_writes_its_calls_as_text_can_read_on_too(world):
    kept = TruncatedResults()
    identity = kept.store(LONG)
    for written in (
        f'read_more(at="{identity}:15000")',
        f'{{"name": "read_more", "arguments": {{"at": "{identity}:15000"}}}}',
    ):
        replies = (
            {"tool_calls": [{"name": "long", "arguments": {}, "id": "call_1"}]},
            written,
            'final_answer(text="ok")',
        )
        history, _ = loop_truncating(world, *replies, policies=(*reading(kept), run_text_calls(), use_text_mode()))
        assert "[characters 15000 to 35000 of 55000" in history[4]["content"]


def test_reading_beyond_the_end_is_reported(world):
    history, _ = loop_truncating(
        world,
        call("long"),
        call(READ_MORE, at="nothing:0"),
        call(READ_MORE),
        FINAL,
    )
    identity = read_id(history[2]["content"])
    assert history[4]["content"] == f"there is no text at 'nothing:0'. There are: m1 to m3, {identity}."
    assert "at" in history[6]["content"]


def test_without_a_cut_the_tool_does_not_exist(world):
    history, _ = loop_truncating(world, call(READ_MORE, at="x"), FINAL)
    assert "UnknownTool" in history[2]["content"]


def test_a_tool_of_that_name_keeps_it(world):
    def read_more() -> str:
        """The user's own."""
        return "mine"

    tools = ToolRegistry(read_more, long, answer=make_answer_tool())
    kept = TruncatedResults()
    context = RunContext(None, texts=kept, tools=lambda: tools)
    policies = *ContextWindow().policies(context), truncate_results(kept, context=context)
    history, model = loop_truncating(world, call("long"), call("read_more"), FINAL, tools=tools, policies=policies)
    assert "read on" not in history[2]["content"]
    assert history[4]["content"] == "mine"
    assert list(model.requests[2].tools) == ["final_answer", "read_more", "long"]


def test_the_cap_of_the_agent_and_of_the_tool(world):
    tools = ToolRegistry(tool(long), short, answer=make_answer_tool())
    tools["long"].max_result = 60_000
    history, _ = loop_truncating(
        world, call("long"), call("short"), FINAL, tools=tools, policies=(truncate_results(max_result=4),)
    )
    assert history[2]["content"] == LONG
    assert history[4]["content"].startswith("sho\n[... 1 of 5 characters")


def test_at_the_limit_only_the_answer_is_offered(world):
    _, model = loop_truncating(
        world,
        call("long"),
        FINAL,
        policies=(*reading(TruncatedResults()), request_final_answer(), limit(max_steps=1)),
    )
    assert list(model.requests[1].tools) == ["final_answer"]


def test_a_long_exception_is_cut_and_a_tools_own_words_are_not(world):
    history, _ = loop_truncating(world, call("fail"), call("explain"), FINAL)
    assert len(history[2]["content"]) < 2_100
    assert "98012 more characters" in history[2]["content"].replace(",", "")
    assert history[4]["content"] == "y" * 3_000


@pytest.mark.parametrize("name", ["endless", "aendless"])
def test_an_endless_iterator_is_taken_up_to_a_limit(world, name):
    history, _ = loop_truncating(world, call(name), FINAL, policies=(truncate_results(max_result=10**6),))
    items = json.loads(history[2]["content"])
    assert items[:2] == [0, 1]
    assert len(items) == 10_001
    assert items[-1] == "... (only the first 10,000 items were taken)"


SECRET = f"sk-{16 * 'a1'}"


@pytest.mark.parametrize("before", [0, 70, 74, 75, 100, 875, 879, 900])
def test_a_secret_is_in_one_part_of_a_truncated_result(before):
    text = f"{before * '.'}{SECRET}{(1000 - before) * '.'}"
    stored = TruncatedResults()
    shown = truncate_result(text, most=100, store=stored, origin=CallOrigin())
    assert "a1" not in mask(shown)
    head, _, tail = shown.split("\n")
    (left_out, at) = re.search(r"(\d+) of \d+ characters .*:(\d+)\"", shown).groups()
    assert (int(left_out), int(at)) == (len(text) - len(head) - len(tail), len(head))


def test_a_secret_is_in_one_page():
    kept = TruncatedResults()
    identity = kept.store(f"{990 * '.'}{SECRET}{990 * '.'}")
    kept.page_chars = 1000
    run = RunContext(None, texts=kept)
    pages = [read_more(f"{identity}:0", run), read_more(f"{identity}:990", run)]
    assert [page.count("***") for page in map(mask, pages)] == [0, 1]
    assert "a1" not in mask("".join(pages))
    assert f'{identity}:990"' in pages[0]


def test_no_text_is_dropped():
    kept = TruncatedResults()
    ids = [kept.store(f"text {number}") for number in range(1_000)]
    assert read_more(ids[0], RunContext(None, texts=kept)).startswith("text 0\n")
    with pytest.raises(ToolError, match="there is no text at 'other'"):
        read_more("other", RunContext(None, texts=kept))
    with pytest.raises(ToolError, match="begin below 8"):
        read_more(f"{ids[-1]}:10000", RunContext(None, texts=kept))
    assert kept.store("text 1") == ids[1]


@given(st.text(min_size=1, max_size=300), st.integers(1, 50))
def test_pages_join_to_the_whole(text, length):
    kept = TruncatedResults(page_chars=length)
    key = kept.store(text)
    addresses = [f"{key}:{offset}" for offset in range(0, len(text), length)]
    pages = [read_more(at, RunContext(None, texts=kept)).rpartition("\n[characters ")[0] for at in addresses]
    assert "".join(pages) == text
