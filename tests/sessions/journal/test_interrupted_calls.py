"""Calls that a stop interrupts: repeated if they may be, otherwise of unknown outcome; approvals are not asked twice."""

import json
from contextlib import suppress

import pytest
from journaled_runs import agent_of, resume, stop_run
from stores import change_rows, in_databases, patch_append

from agentkit import JsonAgent, Limits, Paused, RunError, Session, ToolError, tool
from agentkit.engine.history import check_history
from agentkit.journal import Journal, JournalError, delete, runs
from agentkit.testing import ScriptedModel, answer, call, calls


class TestCallsUnderWay:
    """The call that was running when the run was stopped."""

    def stop_in_second(self, world, path, effect, **settings):
        made: list[str] = []

        @tool(effect=effect)
        def act(what: str) -> str:
            """Acts."""
            made.append(what)
            if what == "second" and len(made) <= 2:
                raise KeyboardInterrupt
            return f"{what} done"

        turn = calls(call("act", what="first"), call("act", what="second"), call("act", what="third"))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=[act], sequential=True), "Go", **settings)
        return made, act, runs(path)[0].id

    @pytest.mark.parametrize("effect", [None, "write"])
    def test_the_outcome_of_a_call_that_may_have_had_an_effect_is_unknown(self, world, path, effect):
        made, act, run_id = self.stop_in_second(world, path, effect)
        result = resume(world, agent_of(path, answer("ok"), tools=[act], sequential=True), run_id)
        assert made == ["first", "second", "third"]
        shown = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert shown[0] == "first done"
        assert shown[1].startswith("OutcomeUnknown: the run was stopped while this call was under way")
        assert shown[2] == "third done"

    @pytest.mark.parametrize("effect", ["read", "idempotent"])
    def test_a_call_that_can_be_repeated_is_made_again(self, world, path, effect):
        made, act, run_id = self.stop_in_second(world, path, effect)
        resume(world, agent_of(path, answer("ok"), tools=[act], sequential=True), run_id)
        assert made == ["first", "second", "second", "third"]

    @pytest.mark.parametrize(
        ("decision", "shown"),
        [(True, "second done"), ("it was done", "it was done"), (None, "OutcomeUnknown"), (False, "OutcomeUnknown")],
    )
    def test_a_function_decides_about_an_unknown_outcome(self, world, path, decision, shown):
        made, act, run_id = self.stop_in_second(world, path, None)
        asked = []

        def decide(call):
            asked.append((call.name, json.loads(call.arguments)))
            return decision

        agent = agent_of(path, answer("ok"), tools=[act], sequential=True)
        result = resume(world, agent, run_id, on_uncertain=decide)
        assert asked == [("act", {"what": "second"})]
        assert result.messages[4]["content"].startswith(shown)
        assert made.count("second") == (2 if decision is True else 1)

    def test_a_person_decides_about_an_unknown_outcome(self, path, monkeypatch, world):
        _, act, run_id = self.stop_in_second(world, path, None)
        monkeypatch.setattr("builtins.input", lambda text: "y" if "second" in text else "n")
        agent = agent_of(path, answer("ok"), tools=[act], sequential=True)
        assert resume(world, agent, run_id, on_uncertain="ask").messages[4]["content"] == "second done"

    def test_of_hidden_values_the_model_reads_that_the_outcome_is_unknown_and_what_was_refused(self, world, path):
        @tool(effect="read", trust="untrusted")
        def look() -> str:
            """Looks."""
            return "a note of others"

        @tool(effect="write")
        def act(what: str) -> str:
            """Acts."""
            raise KeyboardInterrupt

        def decide(call):
            return "not now" if "twice" in call.arguments else True

        settings = {"tools": [look, act], "sequential": True, "untrusted": "hidden", "approve": decide}
        turn = calls(call("act", what="{#1} twice"), call("act", what="Send {#1}"))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, call("look"), turn, **settings), "Go")
        result = resume(world, agent_of(path, answer("ok"), **settings), runs(path)[0].id)
        shown = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert shown[1] == "Denied: not now"
        assert shown[2].startswith("OutcomeUnknown: the run was stopped while this call was under way")

    @pytest.mark.parametrize("untrusted", ["values", "hidden"])
    def test_a_new_query_in_the_place_of_a_resume_tells_what_is_recorded(self, world, path, untrusted):
        @tool(effect="read", trust="untrusted")
        def look(at: str) -> str:
            """Looks."""
            return f"a note of {at}"

        @tool(effect="write")
        def act(what: str) -> str:
            """Acts."""
            if what == "second":
                raise KeyboardInterrupt
            return f"{what} done"

        settings = {"tools": [look, act], "sequential": True, "untrusted": untrusted}
        turn = calls(call("look", at="Ada"), call("act", what="first"), call("act", what="second"))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, **settings), "Go", session=Session.open("ada", path))
        session = Session.open("ada", path)
        agent = agent_of(path, answer("ok"), **settings)
        result = world.run(agent, "What did you do?", session=session)
        looked, first, second, _ = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert ("a note of Ada" in looked) == (untrusted == "values")
        assert looked.startswith("<untrusted" if untrusted == "values" else "#1")
        assert first == "first done"
        assert second.endswith("it is not known whether it had an effect.")
        assert check_history(result.messages) == []
        assert Session.open("ada", path).messages == session.messages

    @pytest.mark.parametrize("effect", [None, "write", "idempotent"])
    @pytest.mark.parametrize("how", ["asking", "interrupt", "approval", "write 1", "write 2", "write 3", "write 4"])
    def test_a_resume_that_fails_does_not_make_it_one_that_was_not_run(self, world, path, effect, how, monkeypatch):
        made, act, run_id = self.stop_in_second(world, path, effect)
        writes = []

        def fail(*_):
            raise KeyboardInterrupt if how == "interrupt" else ConnectionError("Slack is down")

        def write_or_fail(write, _, statements):
            writes.append(statements)
            if how == f"write {len(writes)}":
                raise JournalError("the disk is full")
            write(statements)

        agent = agent_of(
            Journal(path, errors="raise"),
            answer("ok"),
            tools=[act],
            sequential=True,
            approve=(lambda call: fail() if "third" in call.arguments else True) if how == "approval" else None,
        )
        with monkeypatch.context() as patched:
            patch_append(patched, write_or_fail)
            with suppress(ConnectionError, KeyboardInterrupt, JournalError):
                resume(world, agent, run_id, on_uncertain=fail if how in ("asking", "interrupt") else None)
        result = resume(world, agent_of(path, answer("ok"), tools=[act], sequential=True), run_id)
        texts = [message["content"] for message in result.messages if message["role"] == "tool"]
        assert texts[0] == "first done"
        assert texts[1].startswith("second done" if effect == "idempotent" else "OutcomeUnknown")
        assert made.count("first") == 1
        assert made.count("third") <= 1
        if effect != "idempotent":
            assert made.count("second") == 1
        assert check_history(result.messages) == []

    @in_databases
    @pytest.mark.parametrize("effect", ["write", "idempotent"])
    @pytest.mark.parametrize("limits", [Limits(tool_calls=1), Limits(seconds=0.05)])
    def test_a_limit_does_not_make_it_one_that_was_not_run(self, world, path, effect, limits):
        _, act, run_id = self.stop_in_second(world, path, effect)
        slow = agent_of(path, answer("ok"), tools=[act], sequential=True, limits=limits)
        if limits.seconds:
            change_rows(path, "UPDATE steps SET begun = begun - 10 WHERE ended IS NOT NULL")
        with suppress(RunError):
            resume(world, slow, run_id)
        result = resume(world, agent_of(path, answer("ok"), tools=[act], sequential=True), run_id)
        texts = [message["content"] for message in result.messages if message["role"] == "tool"]
        assert texts[0] == "first done"
        assert texts[1].startswith("OutcomeUnknown")

    @pytest.mark.parametrize("name", ["", "kolkata"])
    def test_a_new_query_beside_a_waiting_call_does_not_report_it_as_not_run(self, world, path, name):
        made: list[str] = []

        @tool(effect="write")
        def charge(customer: str) -> str:
            """Charges."""
            made.append(customer)
            raise KeyboardInterrupt

        @tool(effect="danger")
        def wire(to: str) -> str:
            """Wires."""
            return f"wired {to}"

        tools = [charge, wire]
        turn = calls(call("charge", customer="Ada"), call("wire", to="Bo"))
        session = Session.open(name, path) if name else Session()
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=tools, approve=lambda _: True), "Go", session=session)
        run_id = runs(path)[0].id
        with pytest.raises(Paused):
            resume(world, agent_of(path, tools=tools), run_id)
        session = Session.open(name, path) if name else Session.resumed(run_id, path)
        result = world.run(agent_of(path, answer("ok"), tools=tools), "Never mind", session=session)
        texts = [message["content"] for message in result.messages if message["role"] == "tool"]
        assert texts[0].endswith("it is not known whether it had an effect.")
        assert texts[1].startswith("Not run: the call waited")
        assert made == ["Ada"]


class TestCallsUnderWayElsewhere:
    """The calls of an interrupted run whose session continues where that run cannot."""

    stop_in_second = TestCallsUnderWay.stop_in_second

    def opened(self, world, path, **settings):
        made, act, run_id = self.stop_in_second(world, path, "write", **settings)
        return made, act, Session.resumed(run_id, path)

    def change(self, session, path):
        session.messages[1] = {"role": "user", "content": "Go on"}

    def delete(self, session, path):
        delete(session.journaled.run, store=path)

    @pytest.mark.parametrize(("end", "is_alone"), [(change, True), (delete, True), (delete, False)])
    def test_a_run_that_is_not_in_the_journal_any_more_repeats_no_call(self, world, path, end, is_alone):
        if not is_alone:
            world.run(agent_of(path, answer("Hello.")), "Hello", session=Session.open("ada", path))
        made, act, session = self.opened(world, path, session=Session.open("ada", path))
        end(self, session, path)
        agent = agent_of(path, answer("ok"), tools=[act], sequential=True)
        with pytest.raises(JournalError, match="would be repeated: act, act"):
            world.run(agent, None, session=session)
        result = world.run(agent, "What happened?", session=session)
        assert made == ["first", "second"]
        shown = [m["content"] for m in result.messages if m.get("name") == "act"]
        assert shown[0] == "first done"
        assert "it is not known whether it had an effect" in shown[1]

    def test_nor_does_one_that_is_to_be_continued_in_another_journal(self, world, path, new_journal):
        made, act, session = self.opened(world, path)
        agent = agent_of(new_journal(), answer("ok"), tools=[act], sequential=True)
        with pytest.raises(JournalError, match="it is not in this journal any more"):
            world.run(agent, None, session=session)
        world.run(agent, "What happened?", session=session)
        assert made == ["first", "second"]

    @pytest.mark.parametrize("how", ["save", "as_dict"])
    def test_nor_does_a_saved_session(self, world, path, tmp_path, how):
        made, act, session = self.opened(world, path)
        before = [*session.messages]
        if how == "save":
            session.save(tmp_path / "session.json")
            copy = Session.load(tmp_path / "session.json")
        else:
            copy = Session.from_dict(session.as_dict())
        assert session.messages == before
        agent = JsonAgent(act, model=ScriptedModel(answer("ok")), sequential=True)
        result = world.run(agent, None, session=copy)
        assert made == ["first", "second", "third"]
        shown = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert shown[0] == "first done"
        assert "it is not known whether it had an effect" in shown[1]
        assert shown[2] == "third done"

    @pytest.mark.parametrize("untrusted", ["hidden", "values"])
    def test_a_saved_result_is_as_hidden_as_the_agent_wants_it(self, path, tmp_path, untrusted):
        @tool(effect="write", trust="untrusted")
        def look() -> str:
            """Looks."""
            return "a note of others"

        @tool(effect="write")
        def act() -> str:
            """Acts."""
            raise KeyboardInterrupt

        settings = {"tools": [look, act], "sequential": True, "untrusted": untrusted}
        with pytest.raises(KeyboardInterrupt):
            agent_of(path, calls(call("look"), call("act")), **settings).run("Go")
        session = Session.resumed(runs(path)[0].id, path)
        session.save(tmp_path / "session.json")
        copy = Session.load(tmp_path / "session.json")
        is_shown = "a note of others" in copy.messages[3]["content"]
        assert is_shown == (untrusted == "values")
        assert session.cut.as_dict() == {}


class TestFinishedCalls:
    """The results of calls that had ended."""

    def test_errors_pictures_and_truncated_results_are_restored(self, world, path):
        picture = b"\x89PNG\r\n\x1a\n" + bytes(20)
        turns = []

        def paint() -> bytes:
            """Paints."""
            turns.append("paint")
            return picture

        def fail() -> str:
            """Fails."""
            turns.append("fail")
            raise ToolError("not today")

        def tell() -> str:
            """Tells."""
            turns.append("tell")
            return "x" * 500

        def stop() -> str:
            """Stops."""
            if turns[-1] != "stop":
                turns.append("stop")
                raise KeyboardInterrupt
            return "stopped"

        tools = [paint, fail, tell, stop]
        turn = calls(call("paint"), call("fail"), call("tell"), call("stop"))
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=tools, sequential=True, limits=Limits(result_chars=100)), "Go")
        agent = agent_of(path, answer("ok"), tools=tools, sequential=True, limits=Limits(result_chars=100))
        result = resume(world, agent, runs(path)[0].id)
        assert turns == ["paint", "fail", "tell", "stop"]
        shown = [m["content"] for m in result.messages if m["role"] == "tool"]
        assert shown[0][1]["type"] == "image_url"
        assert shown[1] == "not today"
        assert "300 of 500 characters" not in shown[2]
        assert "400 of 500 characters are left out" in shown[2]
        assert [*agent.session.cut.texts.values()][:1] == ["x" * 500]

    def test_the_whole_text_of_a_truncated_result_is_restored(self, world, path):
        def tell() -> str:
            """Tells."""
            return "x" * 500

        run_id = stop_run(world, path, call("tell"), tools=[tell], limits=Limits(result_chars=100))
        session = Session.resumed(run_id, path)
        assert [*session.cut.texts.values()] == ["x" * 500]


class TestApprovals:
    """Calls that wait for a decision."""

    def tools(self, made):
        """Return a tool that pays, and adds to `made`."""

        @tool(effect="danger")
        def pay(to: str) -> str:
            """Pays."""
            made.append(to)
            return f"paid {to}"

        return [pay]

    def test_a_paused_run_is_resumed_with_a_decision(self, world, path):
        made: list[str] = []
        with pytest.raises(Paused):
            world.run(agent_of(path, call("pay", to="me"), tools=self.tools(made)), "Go")
        (run,) = runs(path)
        assert run.state == "paused"
        (waiting,) = Session.resumed(run.id, path).waiting
        agent = agent_of(path, answer("ok"), tools=self.tools(made))
        assert resume(world, agent, run.id, approvals={waiting.id: {"to": "you"}}).answer == "ok"
        assert made == ["you"]

    @pytest.mark.parametrize("name", ["", "kolkata"])
    def test_a_call_that_had_begun_is_not_decided_again(self, world, path, name):
        made: list[str] = []
        asked: list[str] = []

        def decide(call):
            asked.append(call.arguments)
            return {"to": "you"} if len(asked) == 1 else True

        @tool(effect="read")
        def stop() -> str:
            """Stops."""
            if len(made) == 1 and "stopped" not in made:
                made.append("stopped")
                raise KeyboardInterrupt
            return "continued"

        tools = [*self.tools(made), stop]
        turn = calls(call("pay", to="me"), call("stop"))
        session = Session.open(name, path) if name else Session()
        with pytest.raises(KeyboardInterrupt):
            world.run(agent_of(path, turn, tools=tools, approve=decide), "Go", session=session)
        before = len(asked)
        agent = agent_of(path, answer("ok"), tools=tools, approve=decide)
        if name:
            result = world.run(agent, None, session=Session.open(name, path))
        else:
            result = resume(world, agent, runs(path)[0].id)
        assert made == ["you", "stopped"]
        assert asked[before:] == ["{}"], "only the read, which is repeated, is decided again"
        assert next(m["content"] for m in result.messages if m["role"] == "tool").endswith("paid you")
