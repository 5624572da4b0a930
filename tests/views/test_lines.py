"""One line for each event and each message: its level, its role and its text."""

from dataclasses import dataclass

import pytest

from agentkit import ExceptionInfo, ModelError, ToolCall, Usage
from agentkit.core.flow import Event
from agentkit.core.pending import Pending
from agentkit.events import (
    AnswerDoubted,
    ApprovalAsked,
    ApprovalGiven,
    CacheMissed,
    Compacted,
    FallenBack,
    FinalRequest,
    HandedOver,
    PriceUnknown,
    Progress,
    ReplyDropped,
    RunStarted,
    SubRun,
    TextCallFound,
    Throttled,
    ToolAbandoned,
    ToolBlockedLoop,
    ToolRetried,
    ToolsWithdrawn,
    WarningEvent,
)
from agentkit.tools.execution.call import BoundCall
from agentkit.views.history import render_messages
from agentkit.views.lines import Line, format_call, format_usage, render_event

CALL = ToolCall("c", "send", '{"to": "me"}')


INFO = ExceptionInfo("Busy", "no time")


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (RunStarted("", "m"), "INFO", "continuing the stopped run"),
        (ApprovalAsked(Pending.decision(CALL, "it is dangerous")), "WARNING", "send waits for a decision: it is dangerous"),
        (ApprovalGiven(Pending.decision(CALL), True), "INFO", "send: allowed"),
        (ApprovalGiven(Pending.decision(CALL), False), "INFO", "send: refused"),
        (ApprovalGiven(Pending.decision(CALL), "not now"), "INFO", "send: refused: not now"),
        (ApprovalGiven(Pending.decision(CALL), {"to": "you"}), "INFO", 'send: allowed with other arguments: {"to": "you"}'),
        (HandedOver("billing", "money"), "INFO", "handed over to billing: money"),
        (Progress(CALL, {"done": 3}), "INFO", 'send: {"done":3}'),
        (Progress(None, "half"), "INFO", "a tool: half"),
        (FallenBack(ModelError("down"), "other"), "WARNING", "down; continuing with other"),
        (Throttled("m"), "INFO", "waiting until m may be asked"),
        (Compacted("m", 3, 2, (100, 50)), "WARNING", "too long for m: 3 messages left out, 2 results shrunk"),
        (PriceUnknown("m"), "WARNING", "price of m"),
        (CacheMissed("m", 2, 12_345), "WARNING", "m read none of 12,345 input tokens from its cache"),
        (ReplyDropped("empty"), "WARNING", "the reply was empty; asking again"),
        (ToolRetried(CALL, INFO, 1), "WARNING", "send: Busy: no time; retrying"),
        (FinalRequest("max_steps"), "WARNING", "(max_steps); asking for the final answer"),
        (ToolsWithdrawn(("find", "search")), "WARNING", "find, search: withdrawn for the rest of the run"),
        (TextCallFound((CALL,)), "WARNING", "written as text, run as a call: send"),
        (AnswerDoubted("no source"), "WARNING", "although a check failed: no source"),
        (ToolAbandoned(BoundCall.impossible(CALL, INFO), 2), "WARNING", "send still runs after its timeout; 2 such threads"),
        (ToolBlockedLoop(BoundCall.impossible(CALL, INFO), 2.5), "WARNING", "send blocked the event loop for 2.5 seconds"),
    ],
)  # fmt: skip
def test_each_event_has_its_line(event, level, text):
    (line,) = render_event(event)
    assert line.level == level
    assert text in line.text
    if not isinstance(event, Progress) and event != RunStarted("", "m"):
        assert event.notice == line.text, "what a report and a live view show is the same"


@dataclass(frozen=True)
class Sampled(WarningEvent):
    """An event of a user's own policy."""

    @property
    def notice(self) -> str:
        return "asked\ntwice"


def test_an_event_of_a_users_own_policy_is_shown_by_its_notice():
    assert list(render_event(Sampled())) == [Line("WARNING", "warning", "asked twice")]
    assert (SubRun("inner", CALL, Sampled()).notice, SubRun("inner", CALL, Event()).notice) == (
        "inner: asked\ntwice",
        "",
    )
    assert SubRun("inner", CALL, Sampled()).level == "WARNING"


def test_a_line_names_the_agents_that_it_comes_from():
    line = Line("INFO", "query", "query", agents=("outer", "inner"))
    assert line.format() == "[outer] [inner] query"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('{"answer": {"item": "tea"}}', ("answer", '{"item":"tea"}')),
        ('{"text": "two\\nlines"}', ("answer", "two\nlines")),
        ('{"a": 1, "b": 2}', ("call", "final_answer(a=1, b=2)")),
        ('{"text": "cu', ("call", 'final_answer({"text": "cu)')),
    ],
)
def test_the_answer_in_a_stored_conversation_is_shown_as_an_answer(arguments, line):
    call = {"id": "1", "type": "function", "function": {"name": "final_answer", "arguments": arguments}}
    refused = {"role": "tool", "tool_call_id": "1", "name": "final_answer", "content": "no"}
    (first, second) = render_messages([{"role": "assistant", "content": None, "tool_calls": [call]}, refused])
    assert (first.role, first.text) == line
    assert (second.role, second.text) == ("result", "final_answer: no")


def test_calls_are_written_like_python_calls():
    assert format_call(ToolCall("1", "f", '{"a": 2, "b": "x", "c": null}')) == 'f(a=2, b="x", c=null)'
    assert format_call(ToolCall("1", "f", "{}")) == "f()"
    assert format_call(ToolCall("1", "f", "[1")) == "f([1)"


@pytest.mark.parametrize(
    ("usage", "seconds", "text"),
    [
        (Usage(), None, ""),
        (Usage(1), 0.04, "1 request, 0.0 s"),
        (Usage(2, 1000, 200, cost=0.0123), 3.21, "2 requests, 1,200 tokens, $0.0123, 3.2 s"),
        (Usage(2, 1000, 200, cost=None), None, "2 requests, 1,200 tokens, price unknown"),
    ],
)
def test_the_total_shows_the_figures_that_are_known(usage, seconds, text):
    assert format_usage(usage, seconds) == text
