"""What an agent does with everything wired together: repairs, written calls, long results, checks, typed answers."""

import json

import pytest

from agentkit import JsonAgent, JsonTool, Limits, ToolError, tool
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.policies.evidence import evidence
from agentkit.testing import ModelServer, ScriptedModel


def price_of(item: str, count: int = 1) -> float:
    """Looks up a price."""
    return 3.5 * count


def final(**arguments):
    return {"tool_calls": [{"name": "final_answer", "arguments": arguments}]}


def written_call(arguments, name="price_of"):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def test_a_malformed_call_is_repaired_and_recorded_and_the_history_holds_the_repaired_one(world):
    model = ScriptedModel(written_call("{'item': 'tea', 'Count': '2',}", "functions.priceOf"), final(text="7"))
    result = world.run(JsonAgent(price_of, model=model), "price?")
    assert [outcome.content for outcome in result.calls[:1]] == ["7.0"]
    assert len(result.repairs) >= 2
    function = result.messages[2]["tool_calls"][0]["function"]
    assert function["name"] == "price_of"
    assert json.loads(function["arguments"])["item"] == "tea"


def test_repair_off_tells_the_model_instead(world):
    for agent in (
        JsonAgent(price_of, model=ScriptedModel(written_call('{"Item": "tea"}'), final(text="?")), repair="off"),
        JsonAgent(
            JsonTool(price_of, repair="off"), model=ScriptedModel(written_call('{"Item": "tea"}'), final(text="?"))
        ),
    ):
        result = world.run(agent, "price?")
        assert "ValidationError" in result.messages[3]["content"]
        assert result.repairs == ()


def test_a_call_written_as_text_is_run_and_kept_as_a_call(world):
    model = ScriptedModel(
        '<tool_call>{"name": "price_of", "arguments": {"item": "tea"}}</tool_call>', final(text="3.5")
    )
    result = world.run(JsonAgent(price_of, model=model), "price?")
    assert result.messages[3]["content"] == "3.5"
    assert result.messages[2]["tool_calls"][0]["function"]["name"] == "price_of"


def test_a_model_without_function_calling_works_in_text_mode(world):
    with ModelServer(
        'Let me see. <tool_call>{"name": "price_of", "arguments": {"item": "tea"}}</tool_call>',
        '<tool_call>{"name": "final_answer", "arguments": {"text": "3.5"}}</tool_call>',
    ) as server:
        agent = JsonAgent(price_of, model="ollama_chat/llama3.1", api_base=server.api_base("ollama"), tool_mode="text")
        assert world.run(agent, "price?").answer == "3.5"
        assert not server.requests[0].body.get("tools")
        assert "price_of" in server.requests[0].body["messages"][0]["content"]
        assert "price_of" not in agent.instruction


def test_a_long_result_is_cut_and_can_be_read_on(world):
    @tool
    def read() -> str:
        """Reads."""
        return "a" * 900 + "needle" + "b" * 900

    @tool(max_result=10_000)
    def read_all() -> str:
        """Reads all."""
        return read.function()

    model = ScriptedModel(written_call({}, "read"), written_call({}, "read_all"), final(text="done"))
    agent = JsonAgent(read, read_all, model=model, limits=Limits(result_chars=200))
    result = world.run(agent, "read")
    assert "needle" not in result.messages[3]["content"]
    assert "read_more" in result.messages[3]["content"]
    assert "needle" in result.messages[5]["content"]
    assert ["read_more" in request.tools for request in model.requests] == [False, True, True]
    where = result.messages[3]["content"].partition('at="')[2].partition(":")[0]
    again = ScriptedModel(written_call({"at": f"{where}:880"}, "read_more"), final(text="found"))
    assert "needle" in world.run(agent, "go on", model=again).calls[0].content


def test_a_check_returns_an_answer_with_its_doubt(world):
    def is_short(answer: str) -> None:
        if len(answer) > 5:
            raise ToolError("At most five characters.")

    model = ScriptedModel(final(text="much too long"), final(text="short"))
    result = world.run(JsonAgent(price_of, model=model, checks=[is_short]), "?")
    assert (result.answer, result.doubts) == ("short", ())
    assert result.messages[3]["content"] == "At most five characters."
    stubborn = ScriptedModel([final(text="much too long") for _ in range(3)])
    result = world.run(JsonAgent(price_of, model=stubborn, checks=[is_short]), "?")
    assert result.answer == "much too long"
    assert result.doubts


def test_an_answer_needs_evidence(world):
    model = ScriptedModel(written_call({"item": "tea"}), final(text="It costs 4.80."), final(text="It costs 3.50."))
    result = world.run(JsonAgent(price_of, model=model, checks=[evidence()]), "What does tea cost?")
    assert result.answer == "It costs 3.50."
    assert "4.80" in result.messages[5]["content"]


def test_a_function_may_make_the_answer(world):
    def report(title: str, points: list[int]) -> str:
        """Writes a report."""
        if not points:
            raise ToolError("A report needs points.")
        return f"{title}: {sum(points)}"

    model = ScriptedModel(final(title="T", points=[]), final(title="T", points=[1, 2]))
    assert world.run(JsonAgent(price_of, model=model, answer=report), "?").answer == "T: 3"


def test_a_tool_may_raise_to_the_caller(world):
    @tool(on_error="raise")
    def fail() -> None:
        """Fails."""
        raise KeyError("mine")

    agent = JsonAgent(fail, model=ScriptedModel(written_call({}, "fail"), final(text="after")))
    with pytest.raises(KeyError, match="mine"):
        world.run(agent, "?")
    assert world.run(agent, "again").answer == "after"


@pytest.mark.parametrize(
    ("provider", "model"), [("gemini", "gemini/gemini-2.5-flash"), ("anthropic", "anthropic/claude-sonnet-4-5")]
)
def test_names_that_a_provider_refuses_are_replaced_on_the_way_out_and_back(world, provider, model):
    def measure(größe: int) -> str:
        """Measures."""
        return f"{größe} cm"

    offered = JsonTool(measure).schema(provider)
    (alias,) = (offered.get("parameters") or offered["input_schema"])["properties"]
    assert alias.isascii()
    with ModelServer(written_call({alias: 4}, "measure"), final(text="4 cm")) as server:
        agent = JsonAgent(measure, model=LiteLLMModel(model, api_base=server.api_base(provider), api_key="test-key"))
        result = world.run(agent, "measure")
        assert result.calls[0].content == "4 cm"
        assert "größe" not in [key for key in json.dumps(server.requests[0].body["tools"]).split('"') if key == "größe"]
