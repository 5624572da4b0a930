"""A recorded run is resumed: replies and results are not requested twice, a changed agent is refused."""

import asyncio
from contextlib import suppress

import pytest
from journaled_runs import ADD, add, agent_of, interrupt, resume, stop_run

from agentkit import DefinitionError, JsonAgent, ModelError, RunError, Session, tool
from agentkit.engine.history import check_history
from agentkit.events import ToolFinished, ToolStarted
from agentkit.journal import Journal, JournalError, runs
from agentkit.sessions.journal.connections import opened_store
from agentkit.testing import ScriptedModel, answer, call, calls

DOWN = ModelError("down", kind="authentication")


class TestCancelledRuns:
    """A task that awaits a run is cancelled."""

    def cancel_many(self, path, numbers, delay):
        """Cancel a run after each delay; return whether its session was busy or changed after the cancellation."""

        @tool(effect="write")
        async def act(number: int) -> str:
            """Acts."""
            await asyncio.sleep(0.005)
            return "done"

        async def one(number):
            session = Session()
            agent = JsonAgent(act, model=ScriptedModel(*[call("act", number=n) for n in range(9)]), journal=path)
            task = asyncio.ensure_future(agent.arun("Go", session=session))
            await asyncio.sleep(number * delay)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            kept = [*session.messages]
            with suppress(RunError):
                session.clear()
                session.messages[:] = kept
                await asyncio.sleep(0.02)
                return session.messages != kept
            return True

        async def main():
            return [await one(number) for number in range(numbers)]

        return asyncio.run(main())

    def test_its_session_is_free_and_unchanged_afterwards(self, path):
        assert not any(self.cancel_many(path, 20, 0.003))

    def test_one_that_was_cancelled_before_its_first_step_is_not_listed(self, path):
        self.cancel_many(path, 20, 0.0005)
        with opened_store(path):  # the journal exists, whatever was recorded
            listed = runs(path, unfinished=True)
        assert [run.last for run in listed if run.last.startswith("had not asked")] == []
        for run in listed:
            tools = [tool(effect="write")(act_again)]
            assert JsonAgent(tools, model=ScriptedModel(answer("3")), journal=path).resume(run.id, changed="go on")


def act_again(number: int) -> str:
    """Acts."""
    return "done"


class TestStoppedRuns:
    """A run that was stopped continues where it was."""

    def test_replies_and_results_are_not_requested_twice(self, world, path):
        run_id = stop_run(world, path, ADD, call("add", a=3, b=4))
        assert [(run.id, run.state, run.steps) for run in runs(path, unfinished=True)] == [(run_id, "interrupted", 3)]
        model = ScriptedModel(answer("10"))
        result = resume(world, JsonAgent([add], model=model, journal=path), run_id)
        assert (result.answer, result.steps, result.usage.requests, result.run_id) == ("10", 3, 3, run_id)
        assert [m["content"] for m in model.requests[0].messages if m["role"] == "tool"] == ["3", "7"]
        assert check_history(result.messages) == []

    def test_a_run_is_resumed_as_a_stream_beside_the_agents_own_conversation(self, world, path):
        run_id = stop_run(world, path, ADD)
        agent = agent_of(path, answer("3"))
        events = world.stream(agent, None, session=Session.resumed(run_id, path))
        assert events[-1].result.answer == "3"
        assert not agent.session.messages

    def test_the_agent_continues_the_resumed_conversation(self, world, path):
        run_id = stop_run(world, path, ADD)
        agent = agent_of(path, answer("3"), answer("still 3"))
        resume(world, agent, run_id)
        assert world.run(agent, "And now?").answer == "still 3"
        assert [m["content"] for m in agent.history if m["role"] == "user"] == ["Go", "And now?"]
        assert sorted((run.query, run.state) for run in runs(path)) == [("And now?", "finished"), ("Go", "finished")]

    def test_a_failed_run_is_resumed_with_another_model(self, world, path):
        with pytest.raises(ModelError) as caught:
            world.run(agent_of(path, ADD, DOWN), "Go")
        (run,) = runs(path)
        assert (run.state, run.error) == ("failed", "ModelError: down")
        assert f"agentkit resume {run.id} --journal {path}" in "\n".join(caught.value.__notes__)
        assert resume(world, agent_of(path), run.id, model=ScriptedModel(answer("3"))).answer == "3"

    def test_in_the_same_process_a_run_continues_under_its_id(self, world, path):
        agent = agent_of(path, ADD, DOWN, answer("3"))
        with pytest.raises(ModelError):
            world.run(agent, "Go")
        result = world.run(agent, None)
        assert (result.answer, result.usage.requests, agent.session.usage.requests) == ("3", 2, 2)
        assert [(run.id, run.state) for run in runs(path)] == [(result.run_id, "finished")]

    def test_the_error_that_stops_a_run_shows_the_command_that_resumes_it(self, world, path):
        with pytest.raises(KeyboardInterrupt) as caught:
            world.run(agent_of(path, ADD, interrupt), "Go")
        run_id = runs(path)[0].id
        assert f"agentkit resume {run_id} --journal {path}" in "\n".join(getattr(caught.value, "__notes__", []))

    def test_a_call_that_was_abandoned_before_it_began_is_made(self, path):
        made: list[int] = []

        def act(number: int) -> int:
            """Acts."""
            made.append(number)
            return number

        events = agent_of(path, call("act", number=7), tools=[act]).stream("Go")
        assert any(isinstance(event, ToolStarted) for event in events)
        events.close()
        assert made == []
        result = agent_of(path, answer("ok"), tools=[act]).resume(runs(path)[0].id)
        assert (made, result.messages[3]["content"]) == ([7], "7")

    def test_a_call_that_was_no_json_is_not_made_with_the_defaults(self, world, path):
        made = []

        def note(text: str = "a default") -> str:
            """Notes."""
            made.append(text)
            return "noted"

        def stop_at_call(event):
            if isinstance(event, ToolStarted):
                raise KeyboardInterrupt

        agent = agent_of(path, {"tool_calls": [{"name": "note", "arguments": '{"text": "cut'}]}, tools=(note,))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent, "Go", listeners=[stop_at_call])
        result = resume(world, agent_of(path, answer("done"), tools=(note,)), runs(path)[0].id)
        assert "not valid JSON: cut off" in result.messages[3]["content"]
        assert made == []

    def test_an_abandoned_stream_can_be_resumed(self, path):
        for event in agent_of(path, ADD, answer("3")).stream("Go"):
            if isinstance(event, ToolFinished):
                break
        del event
        (run,) = runs(path)
        assert run.state in ("interrupted", "running")
        assert agent_of(path, answer("3")).resume(run.id).answer == "3"

    def test_a_run_that_ends_elsewhere_while_it_is_opened_gives_its_answer(self, world, path, monkeypatch):
        run_id = stop_run(world, path, ADD)
        finished = []
        with opened_store(path) as store:
            read_together = store.read_together

            def finish_elsewhere(read):
                if not finished:
                    finished.append(run_id)
                    assert agent_of(path, answer("three")).resume(run_id).answer == "three"
                return read_together(read)

            monkeypatch.setattr(store, "read_together", finish_elsewhere)
            assert resume(world, agent_of(path), run_id).answer == "three"
        assert finished == [run_id]


class TestFinishedRuns:
    """A finished run is listed, and gives its answer again."""

    def test_a_finished_run_is_listed_with_its_answer_and_usage(self, world, path):
        result = world.run(agent_of(path, ADD, answer("3")), "1 + 2?")
        (run,) = runs(path)
        assert (run.id, run.state, run.query, run.answer, run.steps) == (result.run_id, "finished", "1 + 2?", "3", 2)
        assert not run.is_unfinished
        assert run.usage == result.usage

    def test_a_finished_run_gives_its_answer_again(self, world, path):
        result = world.run(agent_of(path, ADD, answer("3")), "Go")
        again = resume(world, agent_of(path), result.run_id)
        assert (again.answer, again.messages[1:], again.usage) == ("3", result.messages[1:], result.usage)

    def test_an_answer_beside_it_that_failed_a_check_is_not_given(self, world, path):
        def check(text: str) -> None:
            if text == "wrong":
                raise ValueError("it is wrong")

        result = world.run(agent_of(path, calls(answer("wrong"), answer("right")), checks=[check]), "Go")
        assert (result.answer, resume(world, agent_of(path), result.run_id).answer) == ("right", "right")

    def test_a_finished_run_gives_a_typed_answer_and_a_text_again(self, world, path):
        typed = world.run(agent_of(path, call("final_answer", answer=[1, 2]), answer=list[int]), "Go")
        assert resume(world, agent_of(path, answer=list[int]), typed.run_id).answer == [1, 2]
        text = world.run(agent_of(path, "It is 3.", "It is 3."), "Go")
        assert text.stopped == "text"
        for _ in range(2):
            assert resume(world, agent_of(path), text.run_id).answer == "It is 3."

    def test_an_id_may_be_shortened_and_an_unknown_one_is_named(self, path, new_journal):
        agent = agent_of(path, answer("3"))
        agent("Go")
        assert agent.resume(runs(path)[0].id[:5]).answer == "3"
        with pytest.raises(JournalError, match="no run has the id 'nothing'"):
            agent.resume("nothing")
        with pytest.raises(
            JournalError, match=r"(does not exist|has no journal.*)\. JsonAgent\(\.\.\., journal=place\)"
        ):
            agent.resume("nothing", journal=new_journal())


class TestChangedAgents:
    """An agent whose tools or instruction are not those of the run."""

    @staticmethod
    def change(description: str):
        """Return other settings of an agent, of which one parameter of `add` is new."""

        def add(a: int, b: int, c: int) -> int:
            """Adds."""
            return a + b + c

        return {"tools": [add], "description": description}

    def test_an_agent_is_refused_with_the_names_of_what_changed(self, world, path):
        run_id = stop_run(world, path, ADD)
        with pytest.raises(JournalError) as caught:
            resume(world, agent_of(path, **self.change("You are new.")), run_id)
        for part in ("add.c: ", "instruction: recorded '", "now 'You are new.", 'changed="go on"'):
            assert part in str(caught.value), part
        assert resume(world, agent_of(path, answer("3")), run_id).answer == "3"

    def test_a_caller_may_accept_the_changes(self, world, path):
        run_id = stop_run(world, path, ADD)
        agent = agent_of(path, answer("3"), **self.change("You are new."))
        result = resume(world, agent, run_id, changed="go on")
        assert result.messages[0]["content"].startswith("You are new.")

    def test_a_call_of_a_tool_that_was_removed_keeps_its_result(self, world, path):
        made: list[str] = []

        def act(what: str) -> str:
            """Acts."""
            made.append(what)
            if what == "stop":
                raise KeyboardInterrupt
            return "done"

        turn = calls(call("act", what="go"), call("act", what="stop"))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=[act], sequential=True), "Go")
        result = resume(world, agent_of(path, answer("ok")), runs(path)[0].id, changed="go on")
        assert result.messages[3]["content"] == "done"
        assert result.messages[4]["content"].startswith("OutcomeUnknown")


class TestSettings:
    """Where and how runs are recorded."""

    def test_a_journal_that_is_given_for_one_call_records_the_conversation_from_then_on(self, world, path):
        agent = JsonAgent(add, model=ScriptedModel(answer("3"), answer("4")))
        world.run(agent, "Go", journal=path)
        world.run(agent, "And?")
        assert len(runs(path)) == 2

    def test_the_settings_of_a_journal_are_checked(self, world, path):
        assert world.run(agent_of(Journal(path, sync="full"), ADD, answer("3")), "Go").answer == "3"
        with pytest.raises(DefinitionError, match="sync"):
            Journal(path, sync="sometimes")
        with pytest.raises(DefinitionError, match="errors"):
            Journal(path, errors="ignore")
