"""Agents inside tools of a run that is kept: their runs are a part of that run, and continue with it."""

import asyncio
import json
import subprocess
import sys

import pytest
from journaled_runs import resume
from stores import change_rows, in_databases, patch_append
from waiting import wait_until

from agentkit import JsonAgent, Limits, Session, tool
from agentkit.core import background as workers
from agentkit.core import threads
from agentkit.core.errors import Paused
from agentkit.core.messages import ToolCall, Usage, assistant
from agentkit.engine.model import Reply
from agentkit.extend import FrameReader, RequestClosed, frames_of_journaled_run
from agentkit.journal import delete, runs, show
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.maintenance import find_problems, salvage
from agentkit.testing import ScriptedModel


def reply_with_cost(tokens: int, *calls: tuple[str, dict], at: str = "") -> Reply:
    made = [ToolCall(f"{at}{place}", name, json.dumps(given)) for place, (name, given) in enumerate(calls)]
    return Reply(assistant(None, made), Usage(1, tokens, cost=0.0))


def final(tokens: int, text: str) -> Reply:
    return reply_with_cost(tokens, ("final_answer", {"text": text}), at=text)


def clerk(pay, *replies) -> JsonAgent:
    return JsonAgent(pay, model=ScriptedModel(*replies), description="Pays bills.")


def outer(path, inner: JsonAgent, *replies) -> JsonAgent:
    return JsonAgent(inner.as_tool("clerk"), model=ScriptedModel(*replies), journal=path)


ASK = reply_with_cost(1, ("clerk", {"query": "Pay a and b"}), at="ask")


def stopped_in_b(world, path) -> list[str]:
    """A run that was stopped in the second call of its inner agent; the usage so far."""
    paid: list[str] = []

    def pay(bill: str) -> str:
        """Pays."""
        paid.append(bill)
        if bill == "b":
            raise KeyboardInterrupt
        return f"paid {bill}"

    inner = clerk(
        pay, reply_with_cost(10, ("pay", {"bill": "a"}), at="a"), reply_with_cost(100, ("pay", {"bill": "b"}), at="b")
    )
    with pytest.raises(KeyboardInterrupt) as caught:
        world.run(outer(path, inner, ASK), "Go")
    assert len(getattr(caught.value, "__notes__", ())) == 1
    return paid


def pay(bill: str) -> str:
    """Pays."""
    raise AssertionError(f"{bill} is paid twice")


@in_databases
def test_what_the_inner_agent_had_and_did_is_not_had_and_done_again(world, path):
    paid = stopped_in_b(world, path)
    (run,) = runs(path, unfinished=True)
    assert (run.last, run.usage.input_tokens) == ("calling clerk", 111)
    inner = clerk(pay, final(1000, "a is paid"))
    result = world.run(outer(path, inner, final(10_000, "done")), None, session=Session.resumed(run.id, path))
    assert (result.answer, result.run_id, paid) == ("done", run.id, ["a", "b"])
    told = [m["content"] for m in inner.model.requests[0].messages if m["role"] == "tool"]
    assert told[0] == "paid a"
    assert told[1].startswith("OutcomeUnknown")
    assert next(m["content"] for m in result.messages if m["role"] == "tool") == "a is paid"
    assert result.usage.input_tokens == 11_111
    assert [(run.state, run.usage) for run in runs(path)] == [("finished", result.usage)]
    delete(run.id, store=path)
    with opened_store(path) as store:
        for table in ("runs", "messages", "steps"):
            assert store.read(f"SELECT count(*) FROM {table}") == [(0,)]


def test_a_call_of_the_inner_agent_that_is_recalled_is_counted_once(world, path):
    stopped: list[str] = []

    @tool(effect="idempotent")
    def pay(bill: str) -> str:
        """Pays."""
        if bill == "b" and not stopped:
            stopped.append(bill)
            raise KeyboardInterrupt
        return "paid"

    def agent(replies, *outer_replies):
        inner = JsonAgent(pay, model=ScriptedModel(*replies), description="Pays bills.", sequential=True)
        limits = Limits(tool_calls=3)
        return JsonAgent(
            inner.as_tool("clerk"), model=ScriptedModel(*outer_replies), journal=path, limits=limits
        ), inner

    both = reply_with_cost(10, ("pay", {"bill": "a"}), ("pay", {"bill": "b"}), at="both")
    with pytest.raises(KeyboardInterrupt):
        world.run(agent([both], ASK)[0], "Go")
    again, inner = agent([final(1, "both are paid")], final(1, "done"))
    assert resume(world, again, runs(path)[0].id).answer == "done"
    assert [m["content"] for m in inner.model.requests[0].messages if m["role"] == "tool"] == ["paid", "paid"]


def test_a_user_can_give_the_outcomes_of_its_calls(world, path):
    stopped_in_b(world, path)
    inner = clerk(pay, final(0, "both are paid"))
    asked: list[str] = []
    session = Session.resumed(
        runs(path)[0].id, path, on_uncertain=lambda call: asked.append(call.arguments) or "paid b"
    )
    assert world.run(outer(path, inner, final(0, "done")), None, session=session).answer == "done"
    assert asked == ['{"bill": "b"}']
    assert [m["content"] for m in inner.model.requests[0].messages if m["role"] == "tool"] == ["paid a", "paid b"]


def test_a_changed_inner_agent_is_refused_until_a_user_decides(world, path):
    def pay(bill: int) -> str:
        """Pays."""
        return "paid"

    stopped_in_b(world, path)
    (run,) = runs(path)
    for _ in range(2):
        with pytest.raises(
            Paused, match=r"clerk: run \w+ began with another agent\. pay\.bill: type string -> integer"
        ):
            world.run(outer(path, clerk(pay)), None, session=Session.resumed(run.id, path))
    session = Session.resumed(run.id, path, changed="go on")
    assert world.run(outer(path, clerk(pay, final(0, "ok")), final(0, "done")), None, session=session).answer == "done"


def test_a_paused_inner_agent_continues_in_another_process(world, path):
    paid: list[str] = []

    @tool(effect="danger")
    def pay(bill: str) -> str:
        """Pays."""
        paid.append(bill)
        return "paid"

    with pytest.raises(Paused):
        world.run(outer(path, clerk(pay, reply_with_cost(10, ("pay", {"bill": "a"}), at="a")), ASK), "Go")
    (run,) = runs(path)
    assert (run.state, run.usage.input_tokens) == ("paused", 11)
    session = Session.resumed(run.id, path)
    agent = outer(path, clerk(pay, final(100, "ok")), final(1000, "done"))
    result = world.run(agent, None, session=session, approvals={session.waiting[0].id: True})
    assert (paid, result.usage.input_tokens) == (["a"], 1111)


@in_databases
def test_agents_at_any_depth_are_saved_from_a_damaged_file(path, tmp_path):
    deep = clerk(pay, final(1, "deep"))
    asked = reply_with_cost(1, ("deep", {"query": "?"}), at="d")
    inner = JsonAgent(deep.as_tool("deep"), model=ScriptedModel(asked, final(1, "ok")), description="Asks.")
    outer(path, inner, ASK, final(1, "done")).run("Go")
    assert salvage(path, tmp_path / "saved.db") == 1
    tables = []
    for place in (path, tmp_path / "saved.db"):
        with opened_store(place) as store:
            tables.append(
                [store.read(f"SELECT count(*) FROM {table}")[0][0] for table in ("runs", "messages", "steps")]
            )
    assert tables[0] == tables[1]
    assert tables[0][0] == 3


@in_databases
@pytest.mark.parametrize(
    "statement", ["UPDATE steps SET name = 'other' WHERE run", "DELETE FROM messages WHERE place = 1 AND conversation"]
)
def test_a_damaged_agent_inside_does_not_keep_other_runs_from_being_saved(path, tmp_path, statement):
    outer(path, clerk(pay, final(1, "ok")), ASK, final(1, "done")).run("lost")
    column = "id" if statement.endswith("run") else "conversation"
    change_rows(path, f"{statement} IN (SELECT {column} FROM runs WHERE origin > '')")
    outer(path, clerk(pay, final(1, "ok")), ASK, final(1, "done")).run("kept")
    _, lost = runs(path)
    (problem,) = find_problems(path)
    assert problem.startswith(f"run {lost.id}: the journal ")
    assert salvage(path, tmp_path / "saved.db") == 1
    (run,) = runs(tmp_path / "saved.db")
    assert (run.query, run.state, run.answer) == ("kept", "finished", "done")


class Death(BaseException):
    pass


def list_tasks() -> set[asyncio.Task]:
    return {task for loop in workers._loops.values() for task in asyncio.all_tasks(loop.result())}


def until_nothing_else_is_under_way(abandoned: int, tasks: set[asyncio.Task]) -> None:
    """Wait for what a death in one thread leaves to the others, which the death of a process ends."""
    wait_until(lambda: threads.count_abandoned() <= abandoned and list_tasks() <= tasks)


def test_at_whatever_write_it_dies_nothing_is_done_or_paid_twice(world, new_journal):
    did = []

    def act(what: str) -> str:
        """Acts."""
        did.append(what)
        return f"{what} done"

    turns = [reply_with_cost(1, ("clerk", {"query": "x"}), ("act", {"what": "outer"}), at="o"), final(2, "done")]
    inner_turns = [reply_with_cost(10, ("act", {"what": "inner"}), at="i"), final(20, "inner")]

    def agent(place):
        def said(turns):
            return lambda request: turns[sum(m["role"] == "assistant" for m in request.messages)]

        inner = clerk(act, *[said(inner_turns)] * 2)
        return JsonAgent(inner.as_tool("clerk"), act, model=ScriptedModel(*[said(turns)] * 2), journal=place)

    for deadly in range(1, 40):
        place = new_journal()
        left = [deadly]
        did.clear()
        before = threads.count_abandoned(), list_tasks()  # of other tests

        def dying(write, _, statements, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Death
            write(statements)

        with pytest.MonkeyPatch.context() as patched:
            patch_append(patched, dying)
            try:
                world.run(agent(place), "Go")
                break
            except Death:
                until_nothing_else_is_under_way(*before)
        if not (found := runs(place)):  # it died before the run had begun
            assert not did
            continue
        (run,) = found
        result = world.run(agent(place), None, session=Session.resumed(run.id, place))
        told = [str(m["content"]) for m in result.messages if m["role"] == "tool"]
        unknown = [text.startswith("OutcomeUnknown") for text in told]
        assert result.answer == "done"
        assert did.count("outer") == (not unknown[1]) or unknown[1]
        assert did.count("inner") <= 1
        assert result.usage.input_tokens == (3 if unknown[0] and "inner" not in did else 33), (deadly, told)
    assert deadly > 8


def closed_requests(frames):
    return [(frame.agent, frame.usage["input_tokens"]) for frame in frames if isinstance(frame, RequestClosed)]


def test_a_request_of_the_journal_has_its_own_tokens_as_in_the_live_run(world, path):
    live: list = []
    reader = FrameReader()

    def pay_bill(bill: str) -> str:
        """Pays."""
        return f"paid {bill}"

    inner = clerk(pay_bill, reply_with_cost(10, ("pay_bill", {"bill": "a"}), at="a"), final(20, "paid"))
    replies = [ASK, reply_with_cost(3, ("pay_bill", {"bill": "c"}), at="c"), final(4, "done")]
    model = ScriptedModel(*replies)
    agent = JsonAgent(inner.as_tool("clerk"), pay_bill, model=model, journal=path)
    world.run(agent, "Go", listeners=[lambda event: live.extend(reader.read(event))])
    assert [tokens for _, tokens in closed_requests(live)] == [1, 10, 20, 3, 4]
    (run,) = runs(path)
    stored = closed_requests(frame for _, frame in frames_of_journaled_run(show(run.id, store=path)))
    assert stored == closed_requests(live)


CLERK = """
import os
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

def look() -> str:
    "Looks."
    return "seen"

def agent_of(path, dies):
    describe = lambda run: os._exit(9) if dies else "Looks."
    clerk = JsonAgent(look, model=ScriptedModel(call("look"), answer("done")), description=describe)
    replies = [call("clerk", query="Look.")] if dies else []
    return JsonAgent(clerk.as_tool("clerk", "Looks."), model=ScriptedModel(*replies, answer("ok")), journal=path)
"""


def test_an_agent_that_was_killed_before_it_was_recorded_runs_again(world, tmp_path):
    path = tmp_path / "runs.db"
    code = f"{CLERK}\nagent_of({str(path)!r}, True)('go')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    names = {}
    exec(CLERK, names)
    result = resume(world, names["agent_of"](path, False), runs(path)[0].id)
    assert result.calls[0].content == "done"
