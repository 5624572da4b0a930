"""Names of tools that a model wrote almost right."""

import pytest

from agentkit import ToolRegistry, tool
from agentkit.core.flow import drive
from agentkit.core.messages import ToolCall, assistant, user
from agentkit.core.portable import to_portable_name
from agentkit.engine.loop import agent_loop
from agentkit.engine.model import Reply
from agentkit.testing import ScriptedModel
from agentkit.tools.arguments.fixes import match_tool_name
from agentkit.tools.final_answer import make_answer_tool


def get_weather(city: str) -> str:
    """Weather."""
    return f"sunny in {city}"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


REGISTRY = ToolRegistry(get_weather, add, answer=make_answer_tool())
ROME = '{"city": "Rome"}'


@pytest.mark.parametrize(
    "written",
    [
        "functions.get_weather", "function.get_weather", "tools.get_weather", "tool.get_weather",
        "default_api.get_weather", "functions:get_weather", "functions.get_weather:0", "get-weather", "getWeather",
        "GetWeather", "GET_WEATHER", " get_weather ", "get weather", "get_weather<|channel|>commentary",
        "functions.getWeather<|constrain|>json", "tools/get-weather", "get_weather<｜tool▁sep｜>",
    ],
)  # fmt: skip
def test_a_name_that_fits_one_tool_is_that_tool_with_a_repair_record(written):
    result = REGISTRY.execute(written, ROME)
    assert result.value == "sunny in Rome"
    assert result.call.name == "get_weather"
    assert [(repair.kind, repair.before, repair.after) for repair in result.repairs] == [
        ("name of the tool", written, "get_weather")
    ]


def test_the_right_name_has_no_repair_record_and_is_the_same_call():
    call = ToolCall("1", "get_weather", ROME)
    bound = REGISTRY.bind(call)
    assert bound.call is call
    assert bound.repairs == ()


@pytest.mark.parametrize(
    "written", ["weather", "get_wether", "my.get_weather", "get_weather2", "", "<|x|>", "functions.", "get_weather_now"]
)
def test_a_name_that_is_merely_similar_is_reported(written):
    result = REGISTRY.execute(written, ROME)
    assert result.error.name == "UnknownTool"
    assert "The tools are: final_answer, get_weather, add." in result.content
    assert result.repairs == ()


def test_of_two_tools_that_fit_none_is_taken():
    assert match_tool_name("getweather", ["get_weather", "getWeather"]) is None
    assert match_tool_name("functions.getWeather", ["get_weather", "getWeather"]) == "getWeather", "one fits exactly"
    assert match_tool_name("functions.x", ["x", "functions_x"]) == "x"


@pytest.mark.parametrize("written", ["multi_tool_use.parallel", "functions.multi_tool_use.parallel"])
def test_the_tool_for_parallel_calls_is_refused_with_what_to_do(written):
    result = REGISTRY.execute(written, '{"tool_uses": []}')
    assert "call the tools directly, several in one message" in result.content


def test_names_are_reported_where_repair_is_off():
    off = ToolRegistry(get_weather, repair="off")
    assert off.execute("functions.get_weather", ROME).error.name == "UnknownTool"
    assert off.execute("get_weather", ROME).error is None
    assert off.merged(add).repair == off.prefixed("x_").repair == off.filtered(bool).repair == "off"
    own = ToolRegistry(tool(repair="off")(get_weather))
    assert own.execute("getWeather", ROME).error.name == "UnknownTool"


def test_a_name_in_the_history_is_one_that_every_provider_takes_back():
    assert to_portable_name("multi_tool_use.parallel") == "multi_tool_use_parallel"
    assert to_portable_name("größe ") == "gr_e_"
    assert len(to_portable_name("x" * 500)) == 64
    assert to_portable_name("") == "unnamed_tool"


def test_the_history_holds_the_clean_names_and_untouched_messages_stay_the_same_object():
    fine = assistant(None, [ToolCall("1", "add", '{"a": 1,  "b": 2}')])
    slips = assistant(
        "Thinking.",
        [
            ToolCall("2", "functions.get_weather<|x|>", "{'city': 'Rome'}"),
            ToolCall("3", "add", '{"a":1,"b":2}'),
            ToolCall("4", "multi_tool_use.parallel", "oops"),
            ToolCall("5", "add", '{"a": 1'),
        ],
    )
    slips["thinking_blocks"] = [{"signature": "x"}]
    end = assistant(None, [ToolCall("6", "final_answer", '{"text": "Done."}')])
    history = [user("Go.")]
    replies = [Reply(message) for message in (fine, slips, end)]
    flow = agent_loop(ScriptedModel(replies), REGISTRY, history)
    for _ in drive(flow):
        pass
    assert history[1] is fine
    calls = [call["function"] for call in history[3]["tool_calls"]]
    assert calls == [
        {"name": "get_weather", "arguments": '{"city": "Rome"}'},
        {"name": "add", "arguments": '{"a":1,"b":2}'},
        {"name": "multi_tool_use_parallel", "arguments": "{}"},
        {"name": "add", "arguments": "{}"},
    ]
    assert history[3]["thinking_blocks"] == [{"signature": "x"}]
    assert history[3]["tool_calls"][1] is slips["tool_calls"][1]
    assert slips["tool_calls"][0]["function"]["name"] == "functions.get_weather<|x|>", "the reply itself is not changed"
    assert [message["name"] for message in history[4:8]] == ["get_weather", "add", "multi_tool_use_parallel", "add"]
    assert "cut off" in history[7]["content"]
