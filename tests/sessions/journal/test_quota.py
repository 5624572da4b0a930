"""What the runs of an owner may cost in a period, in all processes together, and what runs cost."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from paying import Priced, agent_of, look
from stores import in_databases
from waiting import wait_until

from agentkit import CodeMode, DefinitionError, JsonAgent, LimitExceeded, Quota, RunError, Session
from agentkit.cli import main
from agentkit.journal import costs
from agentkit.policies.quota import Account
from agentkit.sessions.journal.connections import opened_store
from agentkit.testing import ScriptedModel, answer, call

PROGRAM = [sys.executable, str(Path(__file__).with_name("paying.py"))]
NOON = datetime(2026, 12, 31, 12, tzinfo=UTC).timestamp()


def start(path, runs: int, seed: int = 0) -> subprocess.Popen:
    return subprocess.Popen([*PROGRAM, str(path), str(runs), str(seed)], stdout=subprocess.PIPE, text=True)


def rows(path) -> list[tuple]:
    with opened_store(path) as store:
        return store.read("SELECT run, spent, held FROM spending ORDER BY run")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"dollars": 0}, "dollars must be a number > 0, got 0"),
        ({"dollars": True}, "dollars must be"),
        ({"dollars": float("nan")}, "dollars must be"),
        ({"owner": " "}, "owner must be a text that is not empty"),
        ({"per": "week"}, 'per must be "hour", "day" or "month", got \'week\''),
        ({"unknown_price": "ignore"}, 'unknown_price must be "refuse" or "allow"'),
    ],
)
def test_a_senseless_quota_is_refused(values, named):
    with pytest.raises(DefinitionError, match=f"Quota: {named}"):
        Quota(**{"owner": "ada", "dollars": 1, **values})


def test_something_else_is_no_quota():
    with pytest.raises(DefinitionError, match=r"quota must be Quota\(owner=..., dollars=...\) or None, got 5"):
        JsonAgent(look, quota=5)


def test_without_a_journal_the_error_names_it(world):
    with pytest.raises(DefinitionError, match="quota: the sums of all processes are in a journal"):
        world.run(agent_of(None, Priced()), "Go")


def test_a_store_that_keeps_no_sums_is_named_with_the_missing_method(world):
    store = SimpleNamespace(named="the store 'mine'", records=list)
    with pytest.raises(DefinitionError, match=r"the store 'mine': the store has no method reserve\(\)"):
        world.run(agent_of(store, Priced()), "Go")


@in_databases
def test_a_model_of_unknown_price_is_refused_unless_the_quota_allows_it(world, path):
    agent = agent_of(path, ScriptedModel(answer("done"), answer("done")))
    with pytest.raises(RunError, match=r"Quota\(dollars=...\) cannot hold.*Quota\(dollars=..., unknown_price"):
        world.run(agent, "Go")
    allowing = replace(agent.spec.settings.quota, unknown_price="allow")
    assert world.run(agent, "Go", quota=allowing).answer == "done"


class TestOneProcess:
    @in_databases
    def test_runs_of_an_owner_share_the_dollars_and_other_owners_have_their_own(self, world, path):
        model = Priced(looks=0)
        caught = None
        while caught is None:
            try:
                assert world.run(agent_of(path, model, 0.5), "Go").answer == "done"
            except LimitExceeded as error:
                caught = error
        assert caught.reason == "quota"
        assert str(caught).startswith("no final answer after the last dollars of the quota of 'ada' (0.5 dollars")
        assert 0.5 - 0.04 - 1.5 * 0.04 < model.spent <= 0.5, "what is left does not pay a request and a final one"
        assert world.run(agent_of(path, model, 0.5, owner="bob"), "Go").answer == "done"
        ((run, spent, held),) = [row for row in rows(path) if abs(row[1] - model.spent) < 0.11 and row[1] > 0.2]
        assert (run, held) == ("", 0.0)
        assert spent <= 0.5

    @in_databases
    def test_a_run_makes_its_final_request_from_what_it_kept(self, world, path):
        model = Priced(looks=1000)
        result = world.run(agent_of(path, model, 0.5), "Go")
        assert (result.answer, result.stopped) == ("done", "quota")
        assert model.spent <= 0.5
        assert rows(path) == [("", pytest.approx(model.spent), 0.0)]

    @in_databases
    def test_a_function_of_the_run_names_the_owner(self, world, path):
        agent = agent_of(path, Priced(looks=0), owner=lambda run: run.deps["user"])
        for user in ("ada", "bob", "ada"):
            world.run(agent, "Go", deps={"user": user})
        users = {one.name: one.requests for one in costs(path) if one.kind == "user"}
        assert users == {"ada": 2, "bob": 1}
        with pytest.raises(DefinitionError, match="owner must be a text that is not empty, got None"):
            world.run(agent, "Go", deps={"user": None})

    @in_databases
    def test_an_agent_inside_a_tool_draws_from_it(self, world, path):
        inner = Priced(looks=1000)
        helper = JsonAgent(look, model=inner, memory=False)
        outer = Priced(looks=0)
        model = ScriptedModel(call("help", query="Go"), answer("done"))
        model.worst_case = outer.worst_case
        agent = JsonAgent(
            helper.as_tool("help", "Help."), model=model, journal=path, quota=Quota(owner="ada", dollars=0.5)
        )
        assert world.run(agent, "Go").answer == "done"
        assert inner.spent <= 0.5
        assert rows(path) == [("", pytest.approx(inner.spent), 0.0)]

    @in_databases
    @pytest.mark.parametrize(("inside", "most"), [(0.5, 0.3), (0.3, 0.5)])
    def test_agents_with_the_same_quota_inside_each_other_count_a_request_once(self, world, path, inside, most):
        inner = Priced(looks=1000)
        helper = agent_of(path, inner, inside)
        model = ScriptedModel(call("help", query="Go"), answer("done"))
        model.worst_case = lambda request: 0.0
        quota = Quota(owner="ada", dollars=most, per="month")
        agent = JsonAgent(helper.as_tool("help", "Help."), model=model, journal=path, quota=quota)
        assert world.run(agent, "Go").answer == "done"
        assert 0.3 - 0.11 * 1.5 < inner.spent <= 0.3
        assert rows(path) == [("", pytest.approx(inner.spent), 0.0)]

    @in_databases
    def test_a_request_that_failed_sets_nothing_aside(self, world, path):
        model = Priced()
        model.ask = lambda _: 1 / 0
        with pytest.raises(RunError):
            world.run(agent_of(path, model), "Go")
        assert rows(path) == [("", 0.0, 0.0)]

    @in_databases
    def test_a_new_period_begins_with_nothing_spent(self, path):
        now = [NOON]
        with opened_store(path) as store:
            for per, seconds in {"hour": 3_600, "day": 86_400, "month": 86_400}.items():
                account = Account(Quota(owner=per, dollars=1, per=per), per, store, lambda: now[0])
                assert account.hold(0.1, 0.7, is_last=False) == pytest.approx(0.7)
                account.settle(0.7)
                assert account.hold(0.1, 0.7, is_last=False) == pytest.approx(0.15), "0.15 are for the final request"
                account.settle(0.1)
                assert "1 dollar per" in str(account.make_error())
                now[0] = NOON + seconds
                assert account.hold(0.1, 0.7, is_last=False) == pytest.approx(0.7)
                account.close()
                now[0] = NOON
        spent = [spent for _, spent, _ in rows(path)]
        assert sorted(spent) == [0.0, 0.0, 0.0, *[pytest.approx(0.8)] * 3]

    @in_databases
    def test_what_was_settled_is_settled_once_if_the_write_is_repeated(self, path):
        with opened_store(path) as store:
            assert store.reserve("ada", "run", 0.0, (0.1, 0.5), 1.0) == 0.5
            for _ in range(2):
                store.settle("ada", "run", 0.3, 0.2)
            assert store.reserve("ada", "other", 0.0, (0.1, 1.0), 1.0) == pytest.approx(0.5)
            store.settle("ada", "run", 0.3, 0.0)
        assert sorted(spent for _, spent, _ in rows(path)) == [0.0, 0.3]


class TestProcesses:
    @in_databases
    def test_together_they_spend_no_more_than_the_quota(self, path):
        with opened_store(path):
            children = [start(path, 12, seed) for seed in range(4)]
            spent = sum(float(line) for child in children for line in child.communicate()[0].split())
        assert [child.returncode for child in children] == [0] * 4
        assert 0.85 < spent <= 1.0
        assert rows(path) == [("", pytest.approx(spent), 0.0)]

    @in_databases
    def test_what_a_killed_process_had_set_aside_is_free_again(self, path):
        child = start(path, 0)
        try:
            assert child.stdout.readline() == "asked\n"
            assert [held for _, _, held in rows(path)] == [0.0, pytest.approx(0.11 + 1.5 * 0.0356)]
            with opened_store(path) as store:
                account = agent_account(path, store)
                assert account.hold(0.9, 0.9, is_last=True) is None
                child.kill()
                child.wait()
                wait_until(lambda: account.hold(0.9, 0.9, is_last=True) == 0.9)
                account.close()
        finally:
            child.kill()
            child.communicate()
        assert sum(held for _, _, held in rows(path)) == 0


def agent_account(path, store) -> Account:
    return Account(agent_of(path, Priced()).spec.settings.quota, "ada", store)


class TestCosts:
    @in_databases
    def test_they_are_summed_by_user_tool_and_model(self, world, path):
        model = Priced(looks=2)
        for owner in ("ada", "bob"):
            world.run(agent_of(path, model, owner=owner), "Go")
        world.run(JsonAgent(look, model=ScriptedModel(answer("hi")), journal=path), "Go")
        found = {(one.kind, one.name): one for one in costs(path)}
        assert {kind for kind, _ in found} == {"user", "tool", "model"}
        assert found["model", "priced"].cost == pytest.approx(model.spent)
        assert found["user", "ada"].cost + found["user", "bob"].cost == pytest.approx(model.spent)
        assert (found["user", "ada"].runs, found["user", "ada"].requests) == (1, 3)
        looked = found["tool", "look"]
        assert (looked.runs, looked.calls, looked.requests) == (2, 4, 4)
        assert looked.cost + found["tool", "(answer)"].cost == pytest.approx(model.spent)
        assert found["user", ""].requests == 1

    @in_databases
    def test_an_agent_inside_a_call_has_the_user_of_the_enclosing_run(self, world, path):
        helper = JsonAgent(look, model=ScriptedModel(call("look"), answer("found")), memory=False)
        model = ScriptedModel(call("help", query="Go"), answer("done"))
        agent = JsonAgent(helper.as_tool("help", "Helps."), model=model, memory=False)
        world.run(agent, "Go", session=Session.open("ada/1", path))
        assert {one.name: one.requests for one in costs(path) if one.kind == "user"} == {"ada": 4}

    @in_databases
    def test_a_call_in_a_program_is_a_call_of_its_tool(self, world, path):
        model = ScriptedModel(call("run_code", code="look()\nlook()"), answer("done"))
        world.run(JsonAgent(look, model=model, journal=path, extensions=[CodeMode()]), "Go")
        found = {one.name: (one.runs, one.calls, one.requests) for one in costs(path) if one.kind == "tool"}
        assert found == {"run_code": (1, 1, 1), "look": (1, 2, 0), "(answer)": (1, 0, 1)}

    def test_the_command_prints_them(self, file):
        agent_of(file, Priced(looks=1)).run("Go")
        printed = CliRunner().invoke(main, ["runs", "--journal", str(file), "--sum"]).output
        assert [line for line in printed.splitlines() if not line.startswith(" ")] == ["by user", "by tool", "by model"]
        assert "ada" in printed
        listed = CliRunner().invoke(main, ["runs", "--journal", str(file), "--sum", "--json"]).output
        assert {one["name"] for one in json.loads(listed)} == {"ada", "look", "(answer)", "priced"}

    def test_a_journal_that_does_not_exist_is_named(self, file):
        with pytest.raises(RunError, match="does not exist"):
            costs(file)
