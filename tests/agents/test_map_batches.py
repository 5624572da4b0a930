"""Many queries through a provider's batches: a step of all runs is one batch, and a killed process finds it again."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from batch_providers import CREATION, LISTS, MODELS, provider_of
from batch_server import BatchServer, look_twice, reply_of, serving
from children import interrupted

from agentkit import Batch, DefinitionError, JsonAgent, ModelError, Result, RunError, tool
from agentkit.journal import costs, runs, show
from agentkit.models.litellm.importing import load_litellm
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.records import RunReopened
from agentkit.testing import ScriptedModel, answer

MEMORY = Path("/dev/shm")
QUERIES = ["ada", "bob", "eve"]
QUICK = Batch(poll_seconds=0.02)
PRICES = {
    "openai": (0.075, 0.3), "azure": (0.075, 0.3), "mistral": (0.075, 0.3), "xai": (1.0, 2.0),
    "vertex_ai": (0.15, 1.25), "bedrock": (0.55, 2.75),
}  # fmt: skip
"""Dollars for a million input and output tokens of a batch."""


@pytest.fixture(autouse=True)
def _litellm_on_httpx(monkeypatch):
    """Asynchronous calls through httpx, which closes its sockets; clients of this test alone."""
    litellm = load_litellm()
    monkeypatch.setattr(litellm, "disable_aiohttp_transport", True)
    litellm.in_memory_llm_clients_cache.flush_cache()
    yield
    litellm.in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # litellm does not close the clients that it makes for files
        gc.collect()


@pytest.fixture
def server():
    return BatchServer()


@pytest.fixture
def base(server):
    with serving(server) as address:
        yield address


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return f"found {place}"


def agent_of(base, tmp_path, model="openai/gpt-4o-mini", **settings) -> JsonAgent:
    options = {"api_key": "none", "api_base": base, "journal": tmp_path / "runs.db", **settings}
    return JsonAgent(look, model=model, **options)


def mapped(world, agent, queries=QUERIES, batch=QUICK):
    if world.name == "async":
        return asyncio.run(agent.amap(queries, batch=batch))
    return agent.map(queries, batch=batch)


def found(query: str) -> str:
    return f"{query}: found {query} 0, found {query} 1"


class TestSteps:
    def test_the_requests_of_each_step_are_one_batch(self, world, server, base, tmp_path):
        outcomes = mapped(world, agent_of(base, tmp_path))
        assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert (len(server.batches), len(server.lines), server.live) == (3, 9, 0)
        assert all(len(batch["metadata"]["agentkit"]) == 16 for batch in server.batches.values())
        listed = runs(tmp_path / "runs.db")
        assert [(run.state, run.query[:9], run.usage.requests) for run in listed] == [("finished", "3 queries", 9)]
        assert show(f"{listed[0].id}-1", store=tmp_path / "runs.db").run.answer == found("bob")

    def test_a_line_is_the_body_of_the_live_request_and_costs_half(self, world, server, base, tmp_path):
        live = []
        server.answer = lambda body: (live.append(body), look_twice(body))[1]
        agent = agent_of(base, tmp_path, temperature=0.5, max_tokens=500, memory=False)
        result = world.run(agent, "ada")
        asked = [*live]
        (outcome,) = mapped(world, agent, ["ada"])
        assert [line["body"] for line in server.lines] == asked
        assert outcome.messages == result.messages
        assert outcome.usage.cost == pytest.approx(result.usage.cost / 2)
        assert outcome.usage.input_tokens == result.usage.input_tokens == 3000
        models = {one.name: one.cost for one in costs(tmp_path / "runs.db") if one.kind == "model"}
        assert models["openai/gpt-4o-mini (batch)"] == pytest.approx(models["openai/gpt-4o-mini"] / 2)
        tools = {one.name: one.calls for one in costs(tmp_path / "runs.db") if one.kind == "tool"}
        assert tools == {"look": 4, "(answer)": 0}

    def test_runs_of_other_lengths_do_not_wait_for_each_other_for_ever(self, server, base, tmp_path):
        def some(body):
            if "ada" not in str(body["messages"]):
                return look_twice(body)
            return reply_of(body, None, ("end", "final_answer", {"text": "at once"}))

        server.answer = some
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        assert [outcome.answer for outcome in outcomes] == ["at once", found("bob"), found("eve")]
        assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [3, 2, 2]

    def test_the_same_query_twice_is_two_lines(self, server, base, tmp_path):
        outcomes = agent_of(base, tmp_path).map(["ada"] * 3, batch=QUICK)
        assert [outcome.answer for outcome in outcomes] == [found("ada")] * 3
        assert len(server.lines) == 9

    def test_many_lines_are_several_batches(self, server, base, tmp_path):
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=Batch(poll_seconds=0.02, max_lines=2))
        assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert [batch["request_counts"]["total"] for batch in server.batches.values()] == [2, 1] * 3

    def test_an_empty_query_fails_alone(self, server, base, tmp_path):
        first, second = agent_of(base, tmp_path).map(["", "ada"], batch=QUICK)
        assert "the query is empty" in str(first)
        assert second.answer == found("ada")

    def test_no_queries_are_no_batch(self, server, base, tmp_path):
        assert agent_of(base, tmp_path).map([], batch=QUICK) == []
        assert server.batches == {}

    def test_progress_is_shown_with_counts(self, server, base, tmp_path, capsys):
        server.fates["bob"] = [429]
        agent_of(base, tmp_path).map(QUERIES, batch=QUICK, progress=True)
        shown = capsys.readouterr().err
        assert "batch 1: 0 of 3 requests, uploading" in shown
        assert "batch 1: 2 of 3 requests, 1 failed, completed" in shown
        assert "batch 4: 1 of 1 requests, completed" in shown


class TestFailures:
    @pytest.mark.parametrize("fate", ["expired", 429, 500])
    def test_a_line_that_failed_for_the_moment_is_in_the_next_batch(self, server, base, tmp_path, fate):
        server.fates["bob"] = [fate]
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert server.steps == {(query, n): 1 + ((query, n) == ("bob", 0)) for query in QUERIES for n in range(3)}
        assert len(server.batches) == 4

    @pytest.mark.parametrize(("fate", "kind"), [(400, "bad_request"), ("lost", "bad_request"), (401, "authentication")])
    def test_a_line_that_was_refused_is_the_failure_of_its_run(self, server, base, tmp_path, fate, kind):
        server.fates["bob"] = [fate]
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        assert [isinstance(outcome, Result) for outcome in outcomes] == [True, False, True]
        assert isinstance(outcomes[1], ModelError)
        assert outcomes[1].kind == kind
        assert len(server.batches) == 3

    @pytest.mark.parametrize("row", ['{"custom_id": "cut', "[1]", '{"custom_id": "x", "error": "boom"}'])
    def test_a_row_that_is_no_result_costs_the_others_nothing(self, server, base, tmp_path, row):
        create_file = server.create_file

        def damage(content):
            lines = content.decode().splitlines()
            if damaged or "response" not in json.loads(lines[0]):
                return create_file(content)
            damaged.append(content)
            return create_file("\n".join([row, *lines[1:]]).encode())

        damaged = []
        server.create_file = damage
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        (lost,) = (outcome for outcome in outcomes if not isinstance(outcome, Result))
        assert "no result: the batch is completed" in str(lost)

    def test_a_batch_whose_creation_had_no_answer_is_found_and_not_created_again(self, server, base, tmp_path):
        server.faults = {"POST /v1/batches": ["drop after", "drop before", 503], "GET /v1/batches": [503]}
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert set(server.steps.values()) == {1}
        assert len(server.batches) == 3

    def test_a_server_that_refuses_the_file_fails_the_runs_with_its_reason(self, server, base, tmp_path):
        server.faults["POST /v1/files"] = [None, 401]
        outcomes = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        assert {outcome.kind for outcome in outcomes} == {"authentication"}
        assert "the batch failed" in str(outcomes[0])
        again = agent_of(base, tmp_path).map(QUERIES, batch=QUICK)
        assert [outcome.answer for outcome in again] == [found(query) for query in QUERIES]
        assert set(server.steps.values()) == {1}, "the second call continues what is left of the first"
        assert len(runs(tmp_path / "runs.db")) == 1

    @pytest.mark.parametrize("end", ["failed", "cancelled"])
    def test_a_batch_that_ends_as_a_whole_without_results_leaves_its_map_open(self, world, server, base, tmp_path, end):
        server.ends = ["", end]
        outcomes = mapped(world, agent_of(base, tmp_path), batch=Batch(poll_seconds=0.02, max_lines=2))
        (lost,) = (query for query, outcome in zip(QUERIES, outcomes, strict=True) if not isinstance(outcome, Result))
        assert "The enqueued token limit is reached." in str(outcomes[QUERIES.index(lost)])
        again = mapped(world, agent_of(base, tmp_path), batch=Batch(poll_seconds=0.02, max_lines=2))
        assert [outcome.answer for outcome in again] == [found(query) for query in QUERIES]
        assert server.steps == {(query, n): 1 + ((query, n) == (lost, 0)) for query in QUERIES for n in range(3)}
        assert [run.state for run in runs(tmp_path / "runs.db")] == ["finished"]


@pytest.mark.parametrize("provider", MODELS)
class TestProviders:
    @pytest.fixture
    def agent(self, provider, server, monkeypatch, tmp_path):
        with provider_of(provider, server, monkeypatch) as account:
            yield JsonAgent(look, model=MODELS[provider], journal=tmp_path / "runs.db", **account)

    def test_each_step_is_a_batch(self, world, provider, server, agent, tmp_path):
        outcomes = mapped(world, agent)
        assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert (len(server.batches), len(server.lines), server.live) == (3, 9, 0)
        assert set(server.steps.values()) == {1}
        if (prices := PRICES.get(provider)) is not None:
            assert outcomes[0].usage.cost == pytest.approx(3 * (1000 * prices[0] + 100 * prices[1]) / 1e6)

    @pytest.mark.parametrize("fate", ["expired", 429, 400])
    def test_a_line_without_a_result_is_repeated_and_a_refused_one_is_not(self, server, agent, fate):
        server.fates["bob"] = [fate]
        outcomes = agent.map(QUERIES, batch=QUICK)
        if fate == 400:
            assert [getattr(outcome, "kind", None) for outcome in outcomes] == [None, "bad_request", None]
            assert len(server.batches) == 3
        else:
            assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
            assert server.steps["bob", 0] == 2
            assert len(server.batches) == 4

    def test_a_batch_whose_creation_had_no_answer_is_found_and_not_created_again(self, provider, server, agent):
        server.faults[CREATION.get(provider, "POST /v1/batches")] = ["drop after", "drop before", 503]
        outcomes = agent.map(QUERIES, batch=QUICK)
        assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert set(server.steps.values()) == {1}
        assert len(server.batches) == 3

    def test_a_batch_is_found_behind_many_others_or_the_runs_fail(self, provider, server, agent):
        def crowd(what: str) -> None:
            if what in LISTS and len(server.batches) == 1:
                for number in range(120):
                    other = server.create_file(server.files[server.batches["batch_0"]["input_file_id"]])
                    server.batches[f"other-{number}"] = {**server.batches["batch_0"], "id": f"other-{number}"}
                    server.batches[f"other-{number}"] |= {"input_file_id": other["id"], "metadata": {"name": "other"}}

        server.asked = crowd
        server.faults[CREATION.get(provider, "POST /v1/batches")] = ["drop after"]
        outcomes = agent.map(QUERIES, batch=QUICK)
        if provider == "azure":
            assert "litellm lists only the newest of 'azure'" in str(outcomes[0])
            assert len(server.lines) == 3
        else:
            assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
            assert set(server.steps.values()) == {1}


def test_a_model_that_litellm_has_no_batches_of_at_vertex_is_refused(server, monkeypatch, tmp_path):
    with provider_of("vertex_ai", server, monkeypatch) as account:
        agent = JsonAgent(look, model="vertex_ai/claude-sonnet-4-5", journal=tmp_path / "runs.db", **account)
        (outcome,) = agent.map(["ada"], batch=QUICK)
    assert outcome.kind == "bad_request"
    assert "litellm has no batches for requests to " in str(outcome)
    assert "Use another model of vertex_ai" in str(outcome)
    assert not server.files


def test_a_batch_begins_when_its_file_is_processed(server, monkeypatch, tmp_path):
    server.file_states = ["pending", "running"]
    with provider_of("azure", server, monkeypatch) as account:
        agent = JsonAgent(look, model=MODELS["azure"], journal=tmp_path / "runs.db", **account)
        server.asked = lambda what: asked.append((what, len(server.file_states)))
        asked = []
        (outcome,) = agent.map(["ada"], batch=QUICK)
    assert outcome.answer == found("ada")
    assert next(left for what, left in asked if what == "POST /openai/batches") == 0


class TestNames:
    def test_the_same_call_later_is_a_new_map(self, server, base, tmp_path):
        for _ in range(2):
            assert agent_of(base, tmp_path).map(QUERIES, batch=QUICK)[0].answer == found("ada")
        assert len(server.batches) == 6
        assert [run.id.partition(".")[2] for run in runs(tmp_path / "runs.db")] == ["2", "1"]

    def test_a_named_map_returns_its_outcomes_again(self, world, server, base, tmp_path):
        named = Batch(name="nightly", poll_seconds=0.02)
        for _ in range(2):
            outcomes = mapped(world, agent_of(base, tmp_path), batch=named)
            assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
        assert len(server.batches) == 3
        with pytest.raises(
            DefinitionError, match=r"began with other queries, or with another agent\. Give another name"
        ):
            mapped(world, agent_of(base, tmp_path), ["other"], named)

    @pytest.mark.parametrize(
        ("settings", "batch", "named"),
        [
            ({"journal": None}, True, "map: batch= needs a journal"),
            (
                {"model": "anthropic/claude-sonnet-4-5"},
                True,
                "'anthropic'.*azure, bedrock, hosted_vllm, litellm_proxy, mistral",
            ),
            ({}, 3, r"map: batch must be True, False or Batch\(...\), got 3"),
        ],
    )
    def test_what_cannot_be_a_batch_is_named(self, base, tmp_path, settings, batch, named):
        with pytest.raises(DefinitionError, match=named):
            agent_of(base, tmp_path, **settings).map(QUERIES, batch=batch)

    def test_a_model_without_batches_is_named(self, tmp_path):
        agent = JsonAgent(look, model=ScriptedModel(answer("a")), journal=tmp_path / "runs.db")
        with pytest.raises(DefinitionError, match="the model 'scripted' has no batches"):
            agent.map(QUERIES, batch=True)
        with pytest.raises(DefinitionError, match="batch= and workers= exclude each other"):
            agent.map(QUERIES, batch=True, workers="postgresql://x/y")
        with pytest.raises(DefinitionError, match="Batch: poll_seconds must be a number > 0, got 0"):
            Batch(poll_seconds=0)

    def test_its_run_in_the_journal_is_continued_by_a_map_alone(self, server, base, tmp_path):
        agent = agent_of(base, tmp_path)
        agent.map(QUERIES, batch=QUICK)
        (listed,) = runs(tmp_path / "runs.db")
        with opened_store(tmp_path / "runs.db") as store:
            store.append([RunReopened(listed.id, listed.conversation)])
        with pytest.raises(
            RunError, match=r"is a map. Continue it with the same call: agent.map\(queries, batch=...\)"
        ):
            agent.resume(listed.id)


INTERRUPTED = """
import asyncio, os, sys
from types import SimpleNamespace
sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
from agentkit import Batch, JsonAgent, tool

@tool(effect="read")
def look(place: str) -> str:
    "Look."
    os.write(1, b"looked\\n")
    return f"found {place}"

agent = JsonAgent(look, model="openai/gpt-4o-mini", api_key="none", api_base="BASE", journal="PLACE")
try:
    METHOD
except KeyboardInterrupt as error:
    print(*getattr(error, "_render_traceback_", list)())  # a task gets a CancelledError, and asyncio.run a new error
"""
METHODS = {
    "sync": "agent.map(['ada', 'bob', 'eve'], batch=Batch(poll_seconds=0.02), progress=False)",
    "async": "asyncio.run(agent.amap(['ada', 'bob', 'eve'], batch=Batch(poll_seconds=0.02), progress=False))",
}


def test_an_interrupted_map_is_continued_by_the_same_call(world, server, base, tmp_path):
    def hold(what: str) -> None:
        if what == "POST /v1/batches" and len(server.batches) == 1:
            server.polls = 10**9

    server.asked = hold
    code = INTERRUPTED.replace("METHOD", METHODS[world.name]).replace("BASE", base)
    shown = interrupted(code.replace("PLACE", f"{tmp_path}/runs.db"), after="looked", times=3)
    assert shown.splitlines()[3:] == [
        ""
        if world.name == "async"
        else "Interrupted. The journal keeps the runs, and the provider its batches: the same agent.map(queries, batch=...) "
        "continues them."
    ]
    server.polls = 2
    server.asked = lambda _: None
    outcomes = mapped(world, agent_of(base, tmp_path))
    assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
    assert set(server.steps.values()) == {1}
    assert len(server.batches) == 3
    assert len(runs(tmp_path / "runs.db")) == 1


def killed(server: BatchServer, base: str, runs: int, places: int) -> None:
    """Kill maps at places, and check what the processes after them return and submit."""
    server.lines = None
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        words = [sys.executable, Path(__file__).with_name("killed_batches.py"), folder, base, str(runs), str(places)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert len(made["deaths"]) == places
    queries = {name: [f"{name}: {number}" for number in range(runs)] for name in made["outcomes"]}
    assert made["outcomes"] == {name: [found(query) for query in listed] for name, listed in queries.items()}
    wanted = {(query, number): 1 for listed in queries.values() for query in listed for number in range(3)}
    assert server.steps == wanted, "no request is submitted twice, and none is lost"
    assert len(server.batches) == 3 * len(queries)
    print(f"{runs:,} runs, {places} kills at {made['boundaries']:,} boundaries, {len(server.batches)} batches")


def test_a_map_that_is_killed_continues(server, base):
    killed(server, base, runs=2, places=3)


@pytest.mark.integration
def test_a_map_has_its_batches_in_postgresql(server, base, tmp_path, postgres_url):
    agent = agent_of(base, tmp_path, journal=postgres_url)
    server.faults["POST /v1/files"] = [None, 401]
    assert {outcome.kind for outcome in agent.map(QUERIES, batch=QUICK)} == {"authentication"}
    outcomes = agent.map(QUERIES, batch=QUICK)
    assert [outcome.answer for outcome in outcomes] == [found(query) for query in QUERIES]
    assert set(server.steps.values()) == {1}


@pytest.mark.integration
@pytest.mark.timeout(7200)
def test_a_map_that_is_killed_at_many_places_submits_no_request_twice(server, base):
    """`make kills RUNS=1000` takes maps of a thousand runs, killed at 50 places."""
    places = int(os.environ.get("AGENTKIT_BATCH_PLACES", "25"))
    killed(server, base, runs=int(os.environ.get("AGENTKIT_BATCH_RUNS", "4")), places=places)


@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_a_thousand_runs_of_three_steps_are_three_batches(server, base, tmp_path):
    queries = [f"query {number}" for number in range(1000)]
    outcomes = agent_of(base, tmp_path).map(queries, batch=Batch(poll_seconds=0.2))
    assert [outcome.answer for outcome in outcomes] == [found(query) for query in queries]
    assert (len(server.batches), len(server.lines), server.live) == (3, 3000, 0)
    assert set(server.steps.values()) == {1}
