"""What errors suggest for names that do not exist."""

import asyncio
import copy
import importlib
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

import agentkit
from agentkit import DefinitionError, JsonAgent, Limits, Paused, RunError, RunStopped, Session, tool
from agentkit.core.errors import explain_attributes, suggest
from agentkit.core.flow import around
from agentkit.engine.model import Reply
from agentkit.journal import JournalError
from agentkit.testing import ScriptedModel, call


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("retrys", "Did you mean 'retries'? All: retries, deps."),
        ("llm", "Use model All: retries, deps."),
        ("elephant", "All: retries, deps."),
    ],
)
def test_a_term_comes_before_a_close_name(name, hint):
    assert suggest(name, ["retries", "deps"], {"llm": "Use model"}, then="All: retries, deps.") == hint


@pytest.mark.parametrize("name", ["output", "data", "final_output", "value", "content", "new_messages"])
def test_a_result_explains_the_names_of_other_frameworks(name):
    result = JsonAgent(add, model="offline").run("What is 2 + 3?")
    with pytest.raises(AttributeError, match=rf"Result has no attribute '{name}'\. Use result\.(answer|messages)"):
        getattr(result, name)
    assert not hasattr(result, name)
    with pytest.raises(AttributeError, match=r"^'Result' object has no attribute 'elephant'$"):
        _ = result.elephant
    assert copy.copy(result) == result
    assert pickle.loads(pickle.dumps(result)).answer == result.answer


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("name", r"\.call\.name"),
        ("args", r"\.call\.arguments"),
        ("tool_call_id", r"\.call\.id"),
        ("output", r"\.value"),
    ],
)
def test_a_call_of_a_result_explains_the_names_of_other_frameworks(name, hint):
    called = JsonAgent(add, model="offline").run("What is 2 + 3?").calls[0]
    with pytest.raises(AttributeError, match=rf"ToolResult has no attribute '{name}'. Use {hint}"):
        getattr(called, name)
    assert copy.copy(called) == called
    assert pickle.loads(pickle.dumps(called)).content == called.content


@pytest.mark.parametrize(("name", "hint"), [("run_sync", r"agent\.run\(query\)"), ("ainvoke", "await agent.arun")])
def test_an_agent_explains_the_methods_of_other_frameworks(name, hint):
    with pytest.raises(AttributeError, match=f"JsonAgent has no attribute '{name}'. Use {hint}"):
        getattr(JsonAgent(add, model="offline"), name)


def test_an_error_inside_a_property_is_kept():
    @explain_attributes({"other": "Use own"})
    class Thing:
        @property
        def own(self):
            return [].missing

    with pytest.raises(AttributeError, match=r"'list' object has no attribute 'missing'"):
        _ = Thing().own


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Agent", "Use JsonAgent"),
        ("Tool", "Use JsonTool"),
        ("MCPServer", "from agentkit.mcp import MCPServer"),
        ("ScriptedModel", "from agentkit.testing import ScriptedModel"),
        ("instrument", "from agentkit.telemetry import instrument"),
        ("Sesion", "Did you mean 'Session'?"),
    ],
)
def test_the_package_explains_a_name_that_it_does_not_have(name, hint):
    for read in (lambda: getattr(agentkit, name), lambda: exec(f"from agentkit import {name}")):
        with pytest.raises((AttributeError, ImportError)) as caught:
            read()
        assert hint in str(caught.value)
    assert not hasattr(agentkit, name)


def test_the_home_of_a_name_is_found_without_an_import():
    code = "import agentkit, sys\nhasattr(agentkit, 'MCPServer')\nprint([n for n in sys.modules if 'mcp' in n])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_without_a_suggestion_is_reported_as_python_does():
    with pytest.raises(ImportError, match=r"^cannot import name 'elephant' from 'agentkit'"):
        exec("from agentkit import elephant")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("agentkit.Agent")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("dollar", "Did you mean 'dollars'?"), ("max_cost", "Use dollars="), ("elephant", "Keywords: steps, tokens, ")],
)
def test_a_limit_that_does_not_exist_is_explained(name, hint):
    with pytest.raises(TypeError) as caught:
        Limits(**{name: 1})
    assert str(caught.value).startswith(f"Limits() got an unexpected keyword '{name}'. {hint}")


def test_options_are_explained():
    agent = JsonAgent(add, model="offline")
    with pytest.raises(DefinitionError, match=r"'retrys'. Did you mean 'retries'?"):
        JsonAgent(add, retrys=3)
    with pytest.raises(TypeError, match=r"'tool_format'. The model's backend chooses the format of the tools"):
        agent("x", tool_format="openai")
    with pytest.raises(DefinitionError, match=r"'tool_format'. The model's backend chooses the format of the tools"):
        JsonAgent(add, tool_format="openai")
    with pytest.raises(
        TypeError, match=r"'system_prompt'. It is an option of the agent: JsonAgent\(\.\.\., description="
    ):
        agent("x", system_prompt="Be brief.")
    with pytest.raises(TypeError, match=r"'llm'. Use model=\.\.\."):
        agent("x", llm="offline")


class TestStreams:
    """A stream that is used as if it was the result."""

    agent = JsonAgent(add, model="offline")

    @pytest.mark.parametrize(("method", "instead"), [("stream", "agent.run"), ("astream", "await agent.arun")])
    def test_the_answer_is_not_an_attribute_of_a_stream(self, method, instead):
        stream = getattr(self.agent, method)("What is 2 + 3?")
        with pytest.raises(AttributeError, match=rf"For the result alone: {instead}\(query\)"):
            _ = stream.answer
        with pytest.warns(RuntimeWarning, match=r"never requested"):
            del stream

    def test_a_plain_loop_over_the_stream_of_an_event_loop_is_explained(self):
        with (
            pytest.warns(RuntimeWarning, match=r"never requested"),
            pytest.raises(TypeError, match=r"Write: async for event in agent.astream"),
        ):
            for _ in self.agent.astream("x"):
                pass

    def test_await_on_the_stream_of_an_event_loop_is_explained(self):
        async def use():
            await self.agent.astream("x")

        with pytest.raises(TypeError, match=r"Write: async for event in agent.astream.* await agent.arun\(query\)"):
            asyncio.run(use())

    def test_a_forgotten_await_is_named(self):
        with pytest.warns(RuntimeWarning, match=r"coroutine 'JsonAgent.arun' was never awaited"):
            self.agent.arun("x")

    @pytest.mark.parametrize("method", ["stream", "astream"])
    def test_a_stream_without_a_loop_warns_that_nothing_has_run(self, method):
        with pytest.warns(RuntimeWarning, match=rf"nothing has run. Write: .*for event in agent.{method}\(query\)"):
            getattr(self.agent, method)("x")


class TestFunctionsOfSettings:
    """Functions that do not take what they are given are refused where the agent is made."""

    @pytest.mark.parametrize(
        ("setting", "value", "text"),
        [
            ("approve", lambda: True, "approve: <lambda> must take one argument, the call .* Write lambda call: "),
            ("on_question", lambda: 1, "on_question: <lambda> must take one argument, the question"),
            ("listeners", [lambda: 1], "listeners: <lambda> must take one argument, the event"),
            ("policies", [lambda a, b: a], "policies: <lambda> must take one argument, the flow"),
        ],
    )
    def test_the_number_of_arguments_is_checked(self, setting, value, text):
        with pytest.raises(DefinitionError, match=text):
            JsonAgent(add, model="offline", **{setting: value})

    @pytest.mark.parametrize("approve", [print, lambda *calls: True, lambda call, again=False: True, "ask", None])
    def test_functions_that_take_it_are_accepted(self, approve):
        JsonAgent(add, model="offline", approve=approve)

    def test_a_policy_that_returns_no_flow(self, world):
        def nothing(flow):
            return None

        with pytest.raises(DefinitionError, match="nothing must return a generator, got a NoneType"):
            world.run(JsonAgent(add, model="offline", policies=[nothing]), "What is 2 + 3?")

    def test_a_handler_without_yield(self, world):
        def handle(effect):
            return effect

        agent = JsonAgent(add, model="offline", policies=[around(handle)])
        with pytest.raises(DefinitionError, match=r"handle must return a generator.*yield from ask\(effect\)"):
            world.run(agent, "What is 2 + 3?")

    def test_a_backend_that_returns_the_reply(self, world):
        class Returns:
            name = "mine"

            def ask(self, request):
                return Reply({"role": "assistant", "content": "x"})

            async def aask(self, request):
                return Reply({"role": "assistant", "content": "x"})

        with pytest.raises(DefinitionError, match=r"mine\.a?ask must be a generator function.* yield Reply\(message\)"):
            world.run(JsonAgent(add, model=Returns()), "What is 2 + 3?")

    @pytest.mark.parametrize("piece", ["x", {"role": "assistant", "content": "x"}, Reply("x")])
    def test_a_backend_that_yields_no_reply(self, world, piece):
        class Yields:
            name = "mine"

            def ask(self, request):
                yield piece

            async def aask(self, request):
                yield piece

        with pytest.raises(DefinitionError, match=r"'mine' must yield deltas and last a Reply, it yielded .*'x'"):
            world.run(JsonAgent(add, model=Yields()), "What is 2 + 3?")

    def test_a_backend_without_an_async_method(self):
        class Blocks:
            name = "mine"

            def ask(self, request):
                yield Reply({"role": "assistant", "content": "x"})

        with pytest.raises(DefinitionError, match="the model 'mine' has no method aask, which async runs need"):
            asyncio.run(JsonAgent(add, model=Blocks()).arun("What is 2 + 3?"))


class TestRunsWithoutPlace:
    agent = JsonAgent(add, model="offline")

    def test_a_session_saved_in_a_folder_that_does_not_exist(self, tmp_path):
        file = tmp_path / "none" / "x.json"
        with pytest.raises(FileNotFoundError, match=r"the folder .*none does not exist. Create it") as caught:
            self.agent.session.save(file)
        assert caught.value.filename == str(file)

    def test_a_session_saved_as_a_folder(self, tmp_path):
        with pytest.raises(IsADirectoryError, match=r"it is a folder\. Name a file in it") as caught:
            self.agent.session.save(tmp_path)
        assert caught.value.filename == str(tmp_path)

    def test_resume_where_no_journal_is_named(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(JournalError, match=r"no journal is named, and 'runs.db', the default, does not exist"):
            self.agent.resume("abc")

    def test_answers_where_nothing_waits(self):
        with pytest.raises(RunError, match=r"answers: nothing waits for 'x', because the session has no unfinished"):
            self.agent.run(approvals={"x": True})

    def test_a_stopped_run_has_a_text(self):
        assert str(RunStopped()) == "the run was stopped"
        assert str(RunStopped("enough")) == "enough"

    def test_neither_an_agent_nor_a_tool_can_be_pickled(self):
        with pytest.raises(TypeError, match=r"^an agent cannot be pickled .* agent\.map\(queries\)"):
            pickle.dumps(self.agent)
        with pytest.raises(TypeError, match=r"add: a tool cannot be pickled\. Import it where it is used"):
            pickle.dumps(tool(add))
        assert copy.deepcopy(tool(add))(1, 2) == 3
        assert copy.copy(self.agent).spec is self.agent.spec

    @pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_a_session_is_copied_by_its_data(self, duplicate):
        with pytest.raises(TypeError, match=r"^a session cannot be pickled or copied.* Session\.from_dict\(data\)"):
            duplicate(Session())


class TestDefaults:
    """The default of a parameter is a value of its type."""

    @pytest.mark.parametrize(("hint", "default"), [(int, "a"), (list[int], "a"), (Literal["a"], "b"), (bool, 7)])
    def test_a_default_of_another_type_is_refused(self, hint, default):
        def look(x: hint = default) -> str:
            """Looks."""
            return str(x)

        with pytest.raises(DefinitionError, match=r"look: the parameter 'x' has the default .*, which is no "):
            tool(look)

    @pytest.mark.parametrize(
        ("hint", "default"), [(int, None), (float, 1), (Path, "a"), (list[int], []), (int, 5), (Decimal, 0), (Any, "a")]
    )
    def test_a_default_that_the_type_takes_is_accepted(self, hint, default):
        def look(x: hint = default) -> str:
            """Looks."""
            return str(x)

        assert tool(look).call({}) == str(default)


@pytest.mark.parametrize("name", ["reveal_result", "extract_value", "extract_text"])
def test_a_tool_with_the_name_of_one_that_hidden_results_need(name):
    taken = tool(name=name)(add)
    with pytest.raises(DefinitionError, match=rf"the tool name '{name}' is taken: untrusted=.hidden. offers a tool"):
        JsonAgent(taken, model="offline", untrusted="hidden")
    assert name in JsonAgent(taken, model="offline").tools


def test_one_call_that_waits_is_one():
    @tool(effect="danger")
    def erase(path: str) -> str:
        """Erases a file."""
        return path

    model = ScriptedModel(call("erase", path="a"))
    with pytest.raises(Paused, match=r"^1 of the model's calls waits for a decision: "):
        JsonAgent(erase, model=model)("Erase a")


def test_a_run_that_a_journal_does_not_have_names_the_list_of_that_journal(tmp_path):
    file = tmp_path / "other.db"
    agent = JsonAgent(add, model="offline", journal=file)
    agent("What is 2 + 3?")
    with pytest.raises(JournalError, match=rf"agentkit runs --journal '{file}' lists them"):
        agent.resume("elephant")
