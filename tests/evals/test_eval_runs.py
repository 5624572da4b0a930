"""Evaluations: trials, models, conversations, the journal that continues one, and recordings in the place of a model."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from evaluated_shop import RIGHT, TEA, WRONG, make_agent, price_of, scripted
from timing import takes_at_most

from agentkit import CodeMode, DefinitionError, JsonAgent, ModelError, journal, tool
from agentkit.evals import aevaluate, evaluate, list_evaluations, read_evaluation
from agentkit.testing import ScriptedModel, answer, call


@pytest.fixture
def run(world):
    """Evaluate in both worlds."""

    def start(agent, cases, **how):
        if world.name == "sync":
            return evaluate(agent, cases, progress=False, **how)
        return asyncio.run(aevaluate(agent, cases, progress=False, **how))

    return start


def test_a_trial_has_its_figures(run):
    replies = [call("price_of", item="tea"), {**answer("3.50 euros"), "usage": {"input_tokens": 9, "cost": 0.5}}]
    report = run(make_agent(*replies), [TEA])
    (trial,) = report.trials
    assert report.passed
    assert trial.passed
    assert not report.failed
    assert (trial.case, trial.model, trial.number) == ("What does tea cost?", "scripted", 1)
    assert (trial.answer, trial.steps, trial.tool_calls, trial.error) == ("3.50 euros", 2, 1, "")
    assert (trial.usage.requests, trial.usage.input_tokens, trial.usage.cost) == (2, 9, 0.5)
    assert trial.seconds > 0
    assert trial.results == []


def test_trials_and_models_run_side_by_side_and_do_not_share_a_history(run):
    def reply_with(text):
        def reply(request):
            assert len(request.messages) == 2
            return answer(text)

        return [reply] * 6

    good = ScriptedModel(reply_with("3.50"), name="good")
    bad = ScriptedModel(reply_with("?"), name="bad")
    cases = [{"query": "Tea?", "answer": "3.50"}, {"query": "Tea, please?", "answer": "3.50"}]
    report = run(make_agent(), cases, models=[good, bad], trials=3, concurrency=2)
    assert report.models == ["good", "bad"]
    assert [(trial.model, trial.case, trial.number) for trial in report.trials] == [
        (model, case, number) for model in ("good", "bad") for case in ("Tea?", "Tea, please?") for number in (1, 2, 3)
    ]
    assert report.count_passed("good") == {"Tea?": (3, 3), "Tea, please?": (3, 3)}
    assert report.count_passed("bad") == {"Tea?": (0, 3), "Tea, please?": (0, 3)}


def test_an_error_at_the_close_of_a_source_of_tools_does_not_replace_the_report(run):
    class Broken:
        name = "broken"

        async def open_tools(self):
            pass

        async def close_tools(self):
            raise ConnectionError("no way")

        def list_tools(self):
            return []

    agent = JsonAgent([price_of, Broken()], model=ScriptedModel(answer("3.50 euros")))
    with pytest.warns(RuntimeWarning, match=r"^broken was not closed: ConnectionError: no way\."):
        assert run(agent, [TEA]).trials[0].answer == "3.50 euros"


def test_a_function_makes_an_agent_for_each_case(run):
    seen = []

    def make(case):
        seen.append(case.name)
        return make_agent(answer(case.name))

    assert run(make, [{"query": "a", "answer": "a"}, {"query": "b", "answer": "b"}], trials=2).passed
    assert sorted(seen) == ["a", "a", "b", "b"]


def test_no_more_trials_run_at_a_time_than_concurrency(run):
    running = set()
    most = []

    @tool(effect="read")
    async def look(number: int) -> int:
        """Look."""
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.001)
        running.discard(number)
        return number

    def make(case):
        return JsonAgent(look, model=ScriptedModel(call("look", number=int(case.name)), answer("ok")))

    assert run(make, [{"query": str(number)} for number in range(12)], concurrency=3).passed
    assert 1 < max(most) <= 3


def test_the_user_says_what_the_case_lists(run):
    model = ScriptedModel(answer("Tea or coffee?"), call("price_of", item="tea"), answer("3.50"))
    case = {"query": "What does it cost?", "user": ["Tea."], "calls": ["price_of"], "answer": "3.50"}
    (trial,) = run(JsonAgent(price_of, model=model), [case]).trials
    assert (trial.failures, trial.steps, trial.usage.requests) == ([], 3, 3)
    assert [message["content"] for message in model.requests[-1].messages if message["role"] == "user"] == [
        "What does it cost?",
        "Tea.",
    ]


@pytest.mark.parametrize("turns", [1, 2, 9])
def test_a_simulated_user_speaks_until_it_is_over(run, turns):
    user = ScriptedModel(
        answer(text="Tea.", is_over=False), answer(text="Two of them.", is_over=False), answer(text="", is_over=True)
    )
    model = ScriptedModel([answer("Tea or coffee?"), answer("How many?"), answer("7.00")])
    case = {"query": "What does it cost?", "user": {"instruction": "You want two cups of tea.", "turns": turns}}
    (trial,) = run(JsonAgent(price_of, model=model), [case], judge=user).trials
    assert trial.failures == []
    assert trial.steps == min(turns, 3)
    assert len(user.requests) == min(turns - 1, 3)
    if turns > 1:
        asked = user.requests[-1].messages[-1]["content"]
        assert "You want two cups of tea." in asked
        assert "Tea or coffee?" in asked


def test_a_simulated_user_that_fails_is_named_and_its_use_is_not_counted(run):
    case = {"query": "What does it cost?", "user": {"instruction": "You want tea."}}
    agent = make_agent(answer("Tea or coffee?"))
    (trial,) = run(agent, [case], judge=ScriptedModel(ModelError("the provider is away"))).trials
    assert trial.error.startswith("RunError: the simulated user failed: ModelError: the provider is away")
    assert (trial.steps, trial.usage.requests, trial.answer) == (1, 1, "Tea or coffee?")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_speaks_as_the_user_until_it_returns_none(run, is_async):
    def speak(attempt):
        assert attempt.said[-1][1] == attempt.answer
        return {"Tea or coffee?": "Tea.", "How many?": "Two."}.get(attempt.answer)

    async def aspeak(attempt):
        await asyncio.sleep(0)
        return speak(attempt)

    model = ScriptedModel([answer("Tea or coffee?"), answer("How many?"), answer("7.00")])
    case = {"query": "What does it cost?", "user": {"function": aspeak if is_async else speak}, "answer": "7.00"}
    (trial,) = run(JsonAgent(price_of, model=model), [case]).trials
    assert (trial.failures, trial.steps) == ([], 3)
    assert [request.messages[-1]["content"] for request in model.requests] == ["What does it cost?", "Tea.", "Two."]


@pytest.mark.parametrize(
    ("speak", "text"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda _: 7, "expected a text, or None at the end, got 7"),
    ],
)
def test_a_function_that_cannot_speak_is_named(run, speak, text):
    case = {"query": "What does it cost?", "user": {"function": speak}}
    (trial,) = run(make_agent(answer("Tea or coffee?")), [case]).trials
    assert trial.error.startswith("RunError: the simulated user failed: ")
    assert text in trial.error


@pytest.mark.parametrize(
    ("approve", "text"), [(True, "4.0 euros of A"), (False, "Denied"), (None, "Paused: 1 of the model's calls waits")]
)
def test_a_case_decides_about_dangerous_calls(run, approve, text):
    agent = make_agent(call("refund", order="A", euros=4), lambda request: answer(request.messages[-1]["content"]))
    (trial,) = run(agent, [{"query": "Pay A back", "approve": approve, "calls": ["refund"]}]).trials
    assert trial.passed == (approve is not None)
    assert text in (trial.answer or trial.error)
    assert approve is not None or trial.error.endswith("The case can decide: approve: true.")


def test_a_run_without_an_answer_fails_its_trial_alone(run):
    cases = [{"query": "a"}, {"query": "b"}]
    report = run(scripted([ModelError("the provider is away")], WRONG), cases, concurrency=1)
    first, second = report.trials
    assert first.failures[0] == first.error
    assert first.error.startswith("ModelError: the provider is away")
    assert first.results[0]["messages"], "a failed trial has its conversation"
    assert (second.error, second.failures, second.results) == ("", [], [])


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"trials": 0}, DefinitionError, "trials must be an integer >= 1, got 0"),
        ({"concurrency": "8"}, DefinitionError, "concurrency must be an integer >= 1, got '8'"),
        ({"record": "a", "replay": "b"}, DefinitionError, "record= and replay= exclude each other"),
        ({"execute": True}, DefinitionError, "execute= runs the tools of a replay. Give replay=, too, or leave"),
        ({"model": "offline"}, TypeError, r"unexpected option 'model'. Use models=\[...\]"),
        ({"models": "offline"}, DefinitionError, r"models: expected a list, got 'offline'. Write models=\[...\]"),
        ({"models": [3]}, DefinitionError, 'models: expected names as "openai/gpt-4o-mini" or models, got 3'),
        ({"models": ["offline", "offline"]}, DefinitionError, "models: two have the name 'offline'"),
        ({"models": [ScriptedModel(), ScriptedModel()]}, DefinitionError, "models: two have the name 'scripted'"),
        ({"tirals": 1}, TypeError, "unexpected option 'tirals'. Did you mean 'trials'?"),
    ],
)
def test_a_wrong_option_is_refused(run, how, error, message):
    with pytest.raises(error, match=message):
        run(make_agent(), [TEA], **how)


def test_what_is_no_agent_is_refused(run):
    with pytest.raises(DefinitionError, match="expected a JsonAgent or a function that returns one, got 'agent'"):
        run("agent", [TEA])
    with pytest.raises(DefinitionError, match="the function must return a JsonAgent, got 3"):
        run(lambda: 3, [TEA])


def test_a_journal_has_the_runs_and_the_report(run, tmp_path):
    place = tmp_path / "evals.db"
    own = tmp_path / "own.db"
    agents = scripted(RIGHT, WRONG, journal=own)
    report = run(agents, [TEA], trials=2, concurrency=1, journal=place)
    (listed,) = list_evaluations(place)
    assert (listed["id"], listed["ended"]) == (report.id, True)
    assert not own.exists(), "the runs of an evaluation are not among those of the agent"
    stored = read_evaluation(report.id, place)
    assert stored.trials == report.trials
    assert [len(trial.results) for trial in stored.trials] == [0, 1]
    assert stored.trials[1].results[0]["messages"][-1]["content"] == "The answer was given."
    assert {info.id for info in journal.runs(place)} == {run for trial in report.trials for run in trial.runs}


def test_a_journal_has_a_case_and_a_failure_with_half_of_an_emoji(run, tmp_path):
    def judge(value):
        raise ValueError("it lacks a \ud83d")

    report = run(scripted(RIGHT), [{"query": "Tea \ud83d?", "answer": {"judge": judge}}], journal=tmp_path / "evals.db")
    (stored,) = read_evaluation(report.id, tmp_path / "evals.db").trials
    assert (stored.case, stored.failures) == ("Tea \ufffd?", ['answer: it lacks a \ufffd, got "3.50 euros"'])


def test_an_evaluation_that_has_ended_begins_anew(run, tmp_path):
    place = tmp_path / "evals.db"
    first = run(scripted(RIGHT), [TEA], journal=place)
    second = run(scripted(WRONG), [TEA], journal=place)
    assert first.id != second.id
    assert not second.passed


PROGRAM = """
import sys
from pathlib import Path
from agentkit import JsonAgent, tool
from agentkit.evals import evaluate
from agentkit.testing import ScriptedModel, answer, call

log = Path("log.txt")

@tool(effect="write")
def note(text: str) -> str:
    "Note a text."
    with log.open("a") as file:
        file.write(text + chr(10))
    return "noted"

def make(case):
    def reply(request):
        last = request.messages[-1]
        asked = [message["content"] for message in request.messages if message["role"] == "user"][-1]
        with log.open("a") as file:
            file.write(f"asked {asked}" + chr(10))
        if asked == DIES:
            print("waiting", flush=True)
            sys.stdin.readline()
        if last["role"] == "user":
            return call("note", text=asked)
        return answer(f"noted {asked}")

    return JsonAgent(note, model=ScriptedModel([reply] * 9))

DIES = sys.argv[1]
cases = [
    {"query": "a", "answer": "noted a"},
    {"query": "b", "user": ["c", "d"], "calls": [{"note": {"text": text}} for text in "bcd"], "answer": "noted d"},
    {"query": "e", "answer": "noted e"},
]
report = evaluate(make, cases, journal="evals.db", concurrency=1, progress=False)
print(report.passed, [trial.steps for trial in report.trials], [len(trial.runs) for trial in report.trials])
"""


@pytest.mark.parametrize("dies", ["a", "b", "c", "d", "e"])
def test_a_killed_evaluation_continues(tmp_path, dies):
    (tmp_path / "program.py").write_text(PROGRAM)

    def start(word):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "program.py", word], cwd=tmp_path, text=True, **pipes)

    killed = start(dies)
    assert killed.stdout.readline() == "waiting\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    said = start("").communicate()[0]
    assert said == "True [2, 6, 2] [1, 3, 1]\n"
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert sorted(line for line in lines if not line.startswith("asked")) == [*"abcde"], "each effect once"
    assert len([line for line in lines if line.startswith("asked")]) == 11, "the request that was open is made again"
    assert len(list_evaluations(tmp_path / "evals.db")) == 1


def test_evaluations_of_one_second_are_listed_with_the_newest_first(run, tmp_path):
    place = tmp_path / "evals.db"
    made = [run(scripted([answer("3.50")]), [TEA], journal=place, fresh=True).id for _ in range(4)]
    assert [entry["id"] for entry in list_evaluations(place)] == made[::-1]


def test_fresh_begins_anew_and_another_plan_does_not_continue(run, tmp_path):
    place = tmp_path / "evals.db"

    def interrupt(request):
        raise KeyboardInterrupt

    def begin(**how):
        with pytest.raises(KeyboardInterrupt):
            evaluate(make_agent(interrupt), [TEA], progress=False, journal=place, **how)

    begin()
    begin()
    assert len(list_evaluations(place)) == 1
    begin(fresh=True)
    assert len(list_evaluations(place)) == 2
    begin(trials=2)
    assert len(list_evaluations(place)) == 3
    assert [entry["ended"] for entry in list_evaluations(place)] == [False] * 3


def test_the_trials_of_a_case_named_after_a_secret_stay_together_after_an_interrupt(run, tmp_path):
    def interrupt(request):
        raise KeyboardInterrupt

    cases = [{"query": "What does tea cost? My key is sk-proj-" + "a1B2" * 10}]
    how = {"trials": 2, "concurrency": 1, "journal": tmp_path / "evals.db"}
    with pytest.raises(KeyboardInterrupt):
        evaluate(make_agent(answer("3.50"), interrupt), cases, progress=False, **how)
    report = run(make_agent(answer("3.50")), cases, **how)
    assert report.count_passed("scripted") == {"What does tea cost? My key is ***": (2, 2)}


def test_recorded_runs_take_the_place_of_the_model(run, tmp_path):
    case = {**TEA, "user": ["Thank you."]}
    assert run(make_agent(*RIGHT, answer("3.50, you are welcome")), [case], record=tmp_path / "runs").passed
    assert len(list((tmp_path / "runs").iterdir())) == 2
    report = run(make_agent(AssertionError("a model was asked")), [case], replay=tmp_path / "runs")
    assert report.passed, report.failed
    assert report.trials[0].steps == 3


@pytest.mark.parametrize("interrupted", [1, 2])
def test_a_run_that_was_interrupted_is_recorded_as_a_whole(run, tmp_path, interrupted):
    def interrupt(request):
        raise KeyboardInterrupt

    how = {"journal": tmp_path / "evals.db", "record": tmp_path / "runs"}
    replies = [*RIGHT, call("price_of", item="tea"), answer("3.50, as I said")]
    case = {**TEA, "user": ["Are you sure?"], "calls": ["price_of", "price_of"]}
    places = {1: 1, 2: 3}
    with pytest.raises(KeyboardInterrupt):
        evaluate(make_agent(*replies[: places[interrupted]], interrupt), [case], progress=False, **how)
    assert run(make_agent(*replies[places[interrupted] :]), [case], **how).passed
    (trial,) = run(make_agent(), [case], replay=tmp_path / "runs").trials
    assert (trial.failures, trial.steps) == ([], 4)


def changed_shop(name="price_of", price=3.5, about="Look up the price of an item of the shop, in euros."):
    def look_up(item: str, pieces: int = 1) -> float:
        return price * pieces

    return tool(effect="read", name=name, description=about)(look_up)


@pytest.mark.parametrize(
    ("changes", "execute", "message"),
    [
        ({}, True, ""),
        ({"price": 4.0}, False, ""),
        ({"price": 4.0}, True, "request 2 differs: message 3 (tool), content: recorded '3.5'"),
        ({"about": "Look up a price."}, False, "the tools: "),
    ],
)
def test_a_change_of_code_is_evaluated_without_a_model(run, tmp_path, changes, execute, message):
    agent = JsonAgent(changed_shop(), model=ScriptedModel(*RIGHT))
    assert run(agent, [TEA], record=tmp_path).passed
    agent = JsonAgent(changed_shop(**changes), model=ScriptedModel())
    (trial,) = run(agent, [TEA], replay=tmp_path, execute=execute).trials
    assert trial.passed == (not message), trial.failures
    if message:
        assert trial.error.startswith("ReplayDiffers: ")
        assert message in trial.error


def test_what_is_not_recorded_is_named(run, tmp_path):
    (trial,) = run(make_agent(), [TEA], replay=tmp_path).trials
    assert trial.error.startswith(f"RunError: no run is recorded in {tmp_path}")
    assert trial.error.endswith(f"Record it: --record {tmp_path}")
    run(make_agent(), [TEA], record=tmp_path)
    changed = {**TEA, "name": TEA["query"], "query": "What does coffee cost?"}
    (trial,) = run(make_agent(), [changed], replay=tmp_path).trials
    assert "the recorded query is 'What does tea cost?', not that of the case" in trial.error


def test_a_recorded_conversation_with_a_simulated_user_needs_no_model(run, tmp_path):
    user = ScriptedModel(answer(text="Tea.", is_over=False), answer(text="", is_over=True))
    case = {"query": "What does it cost?", "user": {"instruction": "You want tea."}, "answer": "3.50"}
    agent = make_agent(answer("Tea or coffee?"), answer("3.50"))
    assert run(agent, [case], judge=user, record=tmp_path).passed
    (trial,) = run(make_agent(), [case], judge=ScriptedModel(), replay=tmp_path).trials
    assert (trial.failures, trial.steps) == ([], 2)


def test_the_files_of_several_models_and_of_similar_names_are_apart(run, tmp_path):
    models = [ScriptedModel([answer("x")] * 2, name=name) for name in ("a/b", "a b")]
    run(make_agent(), [{"query": "hi?"}, {"query": "hi!"}], models=models, record=tmp_path, concurrency=1)
    files = list(Path(tmp_path).rglob("*.jsonl"))
    assert len(files) == 4


PRICES = "print(price_of('tea'))\ntry:\n    price_of(2, 3, 4)\nexcept TypeError:\n    price_of('tea', pieces='2')"


def programming(*replies):
    return make_agent(call("run_code", code=PRICES), *replies, extensions=[CodeMode()])


def test_calls_inside_a_program_are_calls_of_the_trial(run, tmp_path):
    wanted = {**TEA, "calls": [{"price_of": {"item": "tea", "pieces": 2}}, "price_of"], "answer": "3.5"}
    forbidden = {"query": "Tea?", "not_called": ["price_of"], "limits": {"tool_calls": 2}}
    right, wrong = run(lambda: programming(answer("3.5")), [wanted, forbidden], record=tmp_path).trials
    assert right.failures == []
    assert right.tool_calls == 3
    assert wrong.failures == [
        'calls: price_of must not be called, got price_of(item="tea")',
        'calls: price_of must not be called, got price_of(item="tea", pieces="2")',
        "limits.tool_calls: at most 2, got 3",
    ]
    (trial,) = run(programming, [wanted], replay=tmp_path, execute=True).trials
    assert trial.failures == []
    (trial,) = run(programming, [wanted], replay=tmp_path).trials
    assert "the calls inside a program are not recorded. Run the tools: --execute" in trial.error


def test_calls_inside_a_program_before_an_interrupt_are_counted(run, tmp_path):
    def interrupt(request):
        raise KeyboardInterrupt

    case = {**TEA, "calls": ["price_of", "price_of", "run_code"], "answer": "3.5"}
    with pytest.raises(KeyboardInterrupt):
        evaluate(programming(interrupt), [case], progress=False, journal=tmp_path / "evals.db")
    (trial,) = run(make_agent(answer("3.5"), extensions=[CodeMode()]), [case], journal=tmp_path / "evals.db").trials
    assert trial.failures == []
    assert trial.tool_calls == 3


def test_an_evaluation_costs_little_beside_its_runs(run):
    cases = [{**TEA, "query": f"What does tea cost ({number})?", "limits": {"steps": 2}} for number in range(200)]
    run(scripted(RIGHT), cases[:5])
    with takes_at_most(150):
        assert run(scripted(RIGHT), cases).passed
