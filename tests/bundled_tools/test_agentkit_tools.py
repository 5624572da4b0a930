import inspect
import json
import subprocess
import sys
from typing import get_type_hints

import pytest
from docstring_parser import parse

import agentkit_tools
from agentkit import JsonAgent, JsonTool, Paused, ToolRegistry, tool
from agentkit.models.litellm.importing import load_litellm
from agentkit.testing import ScriptedModel, call
from agentkit_tools import (
    ALL_TOOLS,
    ask_user,
    files_tools,
    get_forecast,
    get_weather,
    http_json_tool,
    read_wikipedia,
    search_text,
    shell_tool,
    table_tools,
)

IMPORTED = "import sys, agentkit_tools; print(*(sys.modules.keys() & {'requests', 'ddgs', 'urllib3', 'litellm', 'pydantic', 'trafilatura', 'lxml', 'pypdf'}))"


def test_the_import_loads_no_package_that_only_a_call_needs():
    loaded = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert loaded.stdout.strip() == ""


def test_all_tools_are_exported_by_name():
    assert {function.__name__ for function in ALL_TOOLS} == set(agentkit_tools.__all__) - {
        "ALL_TOOLS",
        "FetchSettings",
        "ask_user",  # only where a person can answer
        "files_tools",  # only with a folder
        "http_json_tool",  # only with declared hosts
        "settings",
        "shell_tool",
        "table_tools",
    }


@pytest.mark.parametrize("function", [*ALL_TOOLS, ask_user], ids=lambda function: function.__name__)
def test_the_docstring_names_every_parameter_and_every_parameter_has_a_type(function):
    docstring = parse(function.__doc__)
    parameters = list(inspect.signature(function).parameters)
    assert docstring.short_description
    assert [parameter.arg_name for parameter in docstring.params] == parameters
    assert all(parameter.description for parameter in docstring.params)
    assert set(get_type_hints(function)) == {*parameters, "return"}


@pytest.mark.parametrize("function", [*ALL_TOOLS, ask_user], ids=lambda function: function.__name__)
def test_it_is_declared_that_it_only_reads(function):
    assert JsonTool(function).effect == "read"


def test_a_question_after_untrusted_text_needs_no_decision(world):
    page = tool(lambda: "text", name="page", description="Reads.", effect="read", trust="untrusted")
    model = ScriptedModel(call("page"), call("ask_user", question="Which one?"))
    with pytest.raises(Paused) as pause:
        world.run(JsonAgent(page, ask_user, model=model, untrusted="context"), "Go.")
    assert ([*pause.value.calls], [question.text for question in pause.value.questions]) == ([], ["Which one?"])


@pytest.mark.parametrize(
    ("missing", "fetch"), [("ddgs", lambda: search_text("x")), ("requests", lambda: get_weather("x"))]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(missing, fetch, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"needs the package {missing}: pip install {missing}$"):
        fetch()


def test_the_kit_is_small_for_a_model(tmp_path):
    tools = ToolRegistry(
        *files_tools(tmp_path),
        *table_tools(tmp_path),
        shell_tool(tmp_path),
        http_json_tool(["api.example.com"]),
        *(get_forecast, read_wikipedia),
    )
    assert len(tools) == 14
    tokens = load_litellm().token_counter("gpt-4o", text=json.dumps(tools.schemas("openai")))
    assert tokens <= 2_500
