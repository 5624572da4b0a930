"""A server that asks for input pauses the run; the answer continues the call, also in another process."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servers import ANSWER, contents, scripted, wait_until_nothing_is_left

from agentkit import DefinitionError, JsonAgent, Limits, Paused, RunError, Session
from agentkit.events import ServerLogged
from agentkit.extend import LiveRespondent, enclose
from agentkit.testing import ScriptedModel, call, calls


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    wait_until_nothing_is_left()


BOOK = call("book", room="12")


def pause(world, agent: JsonAgent, query: str | None = "q", **settings) -> Paused:
    with pytest.raises(Paused) as caught:
        world.run(agent, query, **settings)
    return caught.value


def test_a_question_pauses_the_run_and_the_answer_continues_the_call(world, tmp_path):
    notes = tmp_path / "notes"
    agent = JsonAgent(scripted("Modern", notes=notes), model=ScriptedModel(BOOK, ANSWER))
    paused = pause(world, agent)
    (question,) = paused.questions
    assert question.text == "The server 'scripted' asks: Which day?"
    assert question.schema["required"] == ["date"]
    path = tmp_path / "session.json"
    paused.session.save(path)
    again = JsonAgent(scripted("Modern", notes=notes), model=ScriptedModel(ANSWER))
    session = Session.load(path)
    paused = pause(world, again, None, session=session, answers={question.id: {"date": "Monday"}})
    assert "https://pay.example.com/1" in paused.questions[0].text
    result = world.run(again, None, session=session, answers={paused.questions[0].id: True})
    assert contents(result) == ["asked 12 Monday accept"]
    assert notes.read_text().count('"booked"') == 1


def test_an_answer_must_match_the_servers_schema(world):
    agent = JsonAgent(scripted("Modern"), model=ScriptedModel(BOOK, ANSWER))
    paused = pause(world, agent)
    with pytest.raises(RunError, match="'date' is a required property"):
        world.run(agent, None, session=paused.session, answers={paused.questions[0].id: {}})


def test_a_function_answers_at_once(world):
    asked = []

    def respond(question):
        asked.append(question.text)
        return {"date": "Tuesday"} if "day" in question.text else False

    agent = JsonAgent(scripted("Modern"), model=ScriptedModel(BOOK, ANSWER), on_question=respond)
    assert contents(world.run(agent, "q")) == ["asked 12 Tuesday decline"]
    assert len(asked) == 2


def test_a_call_that_needs_a_visit_to_an_address_is_made_again_after_it(world):
    with scripted("WantsVisit") as server:
        agent = JsonAgent(server, model=ScriptedModel(call("pay"), ANSWER))
        paused = pause(world, agent)
        (question,) = paused.questions
        assert "Log in." in question.text
        assert "https://pay.example.com/1" in question.text
        paused = pause(world, agent, None, session=paused.session, answers={question.id: True})  # it was not opened
        result = world.run(agent, None, session=paused.session, answers={paused.questions[0].id: True})
    assert contents(result) == ["paid"]


def test_a_visit_that_a_person_refuses_fails_the_call(world):
    model = ScriptedModel(call("pay"), call("broken"), ANSWER)
    agent = JsonAgent(scripted("WantsVisit"), model=model, on_question=lambda _: False)
    refused, broken = contents(world.run(agent, "q"))
    assert refused == "refused: the person did not do what the server 'scripted' asks for before this call"
    assert broken == "the server 'scripted' refused the call: This request requires authorization."


def test_a_request_that_is_not_a_question_fails_the_call(world):
    agent = JsonAgent(scripted("Modern"), model=ScriptedModel(call("model"), ANSWER))
    assert "asks for 'sampling/createMessage', which this client does not offer" in contents(world.run(agent, "q"))[0]


SAMPLED = {"content": "4 m", "usage": {"input_tokens": 7, "output_tokens": 1}}


def test_a_server_asks_the_model_of_the_run_without_its_conversation_and_its_tools(world):
    model = ScriptedModel(call("think"), SAMPLED, ANSWER)
    result = world.run(JsonAgent(scripted("Samples", sampling=True), model=model), "secret")
    (found,) = json.loads(contents(result)[0])
    assert (found["content"]["text"], found["model"]) == ("4 m", "scripted")
    asked = model.requests[1]
    assert [message["content"] for message in asked.messages] == ["Be brief.", "How deep?"]
    assert (len(asked.tools), asked.max_tokens) == (0, 9)
    assert (result.usage.requests, result.usage.input_tokens) == (3, 7)


def test_the_model_replies_to_a_server_of_the_stateless_era(world):
    agent = JsonAgent(scripted("Modern", sampling=True), model=ScriptedModel(call("model"), SAMPLED, ANSWER))
    assert contents(world.run(agent, "q")) == ["s 4 m"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("Forgets", "s 4 m"), ("ForgetsAll", "the server 'scripted' refused its own state of the call, twice")],
)
def test_a_server_that_refuses_its_state_with_a_reply_of_the_model_gets_the_call_anew_once(world, kind, text):
    model = ScriptedModel(call("model"), SAMPLED, SAMPLED, ANSWER)
    assert contents(world.run(JsonAgent(scripted(kind, sampling=True), model=model), "q")) == [text]


def test_a_server_that_asks_with_results_of_tools_reads_what_is_expected(world):
    model = ScriptedModel(call("think", uses_tools=True), ANSWER)
    result = world.run(JsonAgent(scripted("Samples", sampling=True), model=model), "q")
    assert contents(result) == ['["expected messages without tools: the client offers no others"]']


def test_requests_of_a_server_have_a_budget_in_each_call(world):
    model = ScriptedModel(call("think", times=2), SAMPLED, call("think"), SAMPLED, ANSWER)
    result = world.run(JsonAgent(scripted("Samples", sampling=Limits(tokens=5)), model=model), "q")
    first, second, third = [entry for text in contents(result) for entry in json.loads(text)]
    assert first["content"]["text"] == third["content"]["text"] == "4 m"
    assert second.startswith("the model gave no reply: ")
    assert "5 tokens" in second


def test_requests_of_a_server_count_in_the_limits_of_the_run(world):
    agent = JsonAgent(scripted("Samples", sampling=True), model=ScriptedModel(call("think"), SAMPLED, ANSWER))
    result = world.run(agent, "q", limits=Limits(tokens=8))
    assert result.stopped


def test_a_server_may_not_ask_the_model_by_default(world):
    model = ScriptedModel(call("think"), ANSWER)
    assert contents(world.run(JsonAgent(scripted("Samples"), model=model), "q")) == ['["Sampling not supported"]']


def test_a_server_gets_the_folders(world, tmp_path):
    model = ScriptedModel(call("look"), ANSWER)
    result = world.run(JsonAgent(scripted("Samples", roots=[tmp_path]), model=model), "q")
    assert json.loads(contents(result)[0])[0]["roots"] == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]


@pytest.mark.parametrize("setting", [{"roots": "x"}, {"sampling": 3}])
def test_what_a_server_is_offered_is_checked(setting):
    with pytest.raises(DefinitionError, match="must be"):
        scripted(**setting)


def test_a_server_that_only_wants_its_state_back_gets_it(world):
    agent = JsonAgent(scripted("Modern"), model=ScriptedModel(call("later"), ANSWER))
    assert contents(world.run(agent, "q")) == ["3 rounds"]


def test_the_stateless_era_needs_no_handshake(world, tmp_path):
    notes = tmp_path / "notes"
    agent = JsonAgent(scripted("Modern", notes=notes), model=ScriptedModel(call("echo"), ANSWER))
    meta = json.loads(contents(world.run(agent, "q"))[0])
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert '"initialize"' not in notes.read_text()


def ask_in_the_middle(world, **settings) -> dict:
    agent = JsonAgent(scripted("Asks"), model=ScriptedModel(call("book"), ANSWER), **settings)
    return json.loads(contents(world.run(agent, "q"))[0])


def test_a_question_in_the_middle_of_a_call_is_answered_by_a_function(world):
    found = ask_in_the_middle(world, on_question=lambda question: {"date": question.text[-11:]})
    assert found == {"action": "accept", "content": {"date": " Which day?", "guests": 2}}

    async def answer(question):
        return {"date": "Monday", "guests": 3}

    assert ask_in_the_middle(world, on_question=answer)["content"] == {"date": "Monday", "guests": 3}


@pytest.mark.parametrize("given", [{"date": "Monday"}, Paused], ids=["a person", "nobody"])
def test_a_question_in_the_middle_of_a_call_is_put_to_the_integration_on_the_loop_of_the_run(given):
    asked = []

    async def work():
        loop = asyncio.get_running_loop()

        async def ask(question):
            asked.append((question.id, question.text))
            assert asyncio.get_running_loop() is loop
            return given

        enclose([lambda: LiveRespondent(ask)])
        agent = JsonAgent(scripted("Asks"), model=ScriptedModel(call("book"), ANSWER))
        return contents(await agent.arun("q"))[0]

    text = asyncio.run(work())
    assert asked == [("call_1_1", "The server 'scripted' asks: Which day?")]
    assert ("no person could be asked" if given is Paused else '"date": "Monday"') in text


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (None, "no person could be asked in the middle of the call"),
        (lambda question: None, "the person was asked and gave no answer"),
        (lambda question: {}, "the answer was not valid: 'date' is a required property"),
    ],
    ids=["nobody", "no answer", "wrong answer"],
)
def test_a_question_in_the_middle_of_a_call_that_has_no_answer_is_dismissed_and_the_model_reads_why(
    world, respond, reason
):
    agent = JsonAgent(scripted("Asks"), model=ScriptedModel(call("book"), ANSWER), on_question=respond)
    (text,) = contents(world.run(agent, "q"))
    assert reason in text
    assert '{"action": "cancel"}' in text


def test_the_server_does_not_read_the_error_of_a_function_that_answers_in_the_middle_of_a_call(world):
    def respond(question):
        raise ValueError("no such user: ada")

    agent = JsonAgent(scripted("Asks"), model=ScriptedModel(call("book"), ANSWER), on_question=respond)
    (text,) = contents(world.run(agent, "q"))
    assert "the function that answers questions failed with ValueError: no such user: ada" in text
    assert '{"action": "cancel"}' in text


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_who_ends_the_program_when_a_server_asks_in_the_middle_of_a_call_does_what_any_tool_does(world, kind):
    answers = [kind("enough"), {"date": "Monday"}]

    def respond(question):
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    model = ScriptedModel(call("book"), *([ANSWER] if kind is SystemExit else []), call("book"), ANSWER)
    agent = JsonAgent(scripted("Asks"), model=model, on_question=respond)
    if kind is SystemExit:
        assert contents(world.run(agent, "q")) == ["SystemExit: enough"]
    else:
        with pytest.raises(KeyboardInterrupt, match="enough"):
            world.run(agent, "q")
    (text,) = contents(world.run(agent, "q", session=Session()))
    assert "Monday" in text


def test_a_person_is_not_asked_a_question_that_may_belong_to_another_run():
    """Two runs share an open server: it logs and asks during both calls, and does not say whose question it is."""
    asked = []
    events: list = []

    def answer_of(name):
        return lambda question: (asked.append(name), {"date": name})[1]

    async def both():
        server = scripted("AsksOneOfTwo")
        runs = {"book": "Ada", "wait": "Bob"}
        async with server:
            agents = [
                JsonAgent(
                    server,
                    model=ScriptedModel(call(tool), ANSWER),
                    on_question=answer_of(name),
                    listeners=[events.append],
                )
                for tool, name in runs.items()
            ]
            return await asyncio.gather(*(agent.arun("q") for agent in agents))

    results = asyncio.run(both())
    texts = [contents(result)[0] for result in results]
    assert asked == []
    assert all("calls of several runs were open" in text for text in texts)
    assert texts[0].startswith('{"action": "cancel"}')
    assert texts[1].startswith("waited"), "the call of the other run has succeeded"
    assert not [event for event in events if isinstance(event, ServerLogged)], "it may be about the other one"
    assert [result.calls[0].error for result in results] == [None, None]


def test_a_question_for_a_call_that_was_abandoned_reaches_no_other_run():
    asked = []
    with scripted("AsksOneOfTwo") as server:
        gone = JsonAgent(server, model=ScriptedModel(call("wait"), ANSWER), limits=Limits(tool_seconds=0.2))
        assert "TimedOut" in contents(gone.run("q"))[0]
        agent = JsonAgent(server, model=ScriptedModel(call("book"), ANSWER), on_question=asked.append)
        (text,) = contents(agent.run("q"))
    assert asked == []
    assert "calls of several runs were open" in text


def test_a_question_during_two_calls_of_one_run_is_answered_by_its_person():
    model = ScriptedModel(calls(call("book"), call("wait")), ANSWER)
    agent = JsonAgent(scripted("AsksOneOfTwo"), model=model, on_question=lambda question: {"date": "Monday"})
    events: list = []
    booked, waited = contents(agent.run("q", listeners=[events.append]))
    assert [event.text for event in events if isinstance(event, ServerLogged)] == ["the card of Ada"]
    assert json.loads(booked)["content"] == {"date": "Monday", "guests": 2}
    assert waited == "waited"


KILLED = """
import sys, time
sys.path[:0] = {tests!r}
from servers import ANSWER, scripted
from pathlib import Path
from agentkit import JsonAgent, Paused
from agentkit.testing import ScriptedModel, call
def wait() -> str:
    '''Has an effect.'''
    with open({effects!r}, "a") as file:
        file.write("effect\\n")
    return "ok"
model = ScriptedModel(call("wait"), call("book", room="7"), ANSWER)
agent = JsonAgent(wait, scripted("Modern", notes=Path({notes!r})), model=model, journal={journal!r})
try:
    agent.run("q")
except Paused as paused:
    print(paused.session.journaled.run, flush=True)
    time.sleep(60)
"""


def test_a_process_that_is_killed_while_a_server_waits_for_input_repeats_nothing(tmp_path):
    notes, effects, journal = (tmp_path / name for name in ("notes", "effects", "journal.db"))
    places = {"notes": str(notes), "effects": str(effects), "journal": str(journal)}
    script = KILLED.format(tests=[str(folder) for folder in Path(__file__).parents[:2]], **places)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    run_id = process.stdout.readline().strip()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(0.1)

    def wait() -> str:
        """Has an effect."""
        raise AssertionError("it has run already")

    agent = JsonAgent(wait, scripted("Modern", notes=notes), model=ScriptedModel(ANSWER), journal=str(journal))
    session = Session.resumed(run_id, str(journal))
    with pytest.raises(Paused) as caught:
        agent.run(session=session, answers={session.questions[0].id: {"date": "Friday"}})
    result = agent.run(session=session, answers={caught.value.questions[0].id: True})
    assert contents(result)[-1] == "asked 7 Friday accept"
    assert effects.read_text() == "effect\n"
    assert notes.read_text().count('"booked"') == 1
