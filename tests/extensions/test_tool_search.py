"""Of many tools a request offers a few, and `find_tools` adds those that are found."""

import json
import math

import pytest

from agentkit import DefinitionError, JsonAgent, JsonTool, Paused, RunContext, Session, ToolSearch, tool
from agentkit.extend import Extension
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.lint import estimate_tokens

THINGS = ["invoice", "ticket", "branch", "meeting", "recipe", "rocket", "violin", "passport", "glacier", "tractor"]
ACTIONS = ["create", "delete", "list", "rename", "archive"]
ANSWER = answer("done")


def make(name, text, **settings):
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return JsonTool.from_schema(
        name=name, description=text, parameters=parameters, call=lambda name: f"{name}: ok", **settings
    )


def make_tools(things=THINGS):
    return [make(f"{action}_{thing}", f"Will {action} one {thing}.") for thing in things for action in ACTIONS]


TOOLS = make_tools()


def offered(model):
    return [[*request.tools] for request in model.requests]


def find(query):
    return call("find_tools", query=query)


def test_a_request_offers_few_tools_and_those_that_are_found_stand_behind_them(world):
    model = ScriptedModel(find("rename a violin"), call("rename_violin", name="x"), find("tractor delete"), ANSWER)
    agent = JsonAgent(TOOLS, model=model, extensions=[ToolSearch(always=["list_ticket"], limit=2)])
    result = world.run(agent, "Rename it.")
    assert result.calls[1].content == "x: ok"
    first = ["final_answer", "list_ticket", "find_tools"]
    second = offered(model)[1]
    third = offered(model)[3]
    assert offered(model)[0] == first
    assert second[:4] == [*first, "rename_violin"]
    assert offered(model)[2] == second
    assert third[:5] == second
    assert third[5] == "delete_tractor"
    assert model.requests[1].tools is model.requests[2].tools  # the same tools: nothing is made anew
    assert result.calls[0].content.splitlines()[:2] == [
        "These tools can be called now:",
        "rename_violin(name): Will rename one violin.",
    ]
    assert [*agent.tools][1:] == [tool.name for tool in TOOLS]  # the agent itself has all of them


def test_the_search_tool_names_the_groups_of_tools():
    model = ScriptedModel(ANSWER)
    JsonAgent(TOOLS, make("buy_tea", "Buys tea."), model=model)("Hello.")
    text = model.requests[0].tools["find_tools"].description
    assert "- create_* (10): invoice, ticket, branch, meeting, recipe, rocket, violin, passport, ..." in text
    assert "- 1 others: buy, tea" in text


def test_a_tool_that_was_not_offered_runs_and_is_offered_from_then_on(world):
    model = ScriptedModel(call("archive_rocket", name="x"), ANSWER)
    result = world.run(JsonAgent(TOOLS, model=model), "Archive it.")
    assert result.calls[0].content == "x: ok"
    assert offered(model)[1] == ["final_answer", "find_tools", "archive_rocket"]


def test_an_unknown_name_is_looked_up(world):
    model = ScriptedModel(call("rocket_launch", name="x"), ANSWER)
    result = world.run(JsonAgent(TOOLS, model=model), "Launch it.")
    assert (
        "there is no tool 'rocket_launch'. With such a name there are, and can be called: " in result.calls[0].content
    )
    assert "create_rocket" in offered(model)[1]


@pytest.mark.parametrize(
    ("count", "window", "search", "is_searched"),
    [
        (40, None, None, False),
        (41, None, None, True),
        (16, 2_000, None, True),
        (16, 200_000, None, False),
        (15, 100, None, False),
        (3, None, 0, True),
        (50, None, 50, False),
        (50, None, math.inf, False),
    ],
)
def test_tools_are_searched_when_they_are_many_or_large(world, count, window, search, is_searched):
    model = ScriptedModel(ANSWER)
    model.context_window = window
    extensions = [] if search is None else [ToolSearch(above=search)]
    world.run(JsonAgent(TOOLS[:count], model=model, extensions=extensions), "Hello.")
    assert ("find_tools" in offered(model)[0]) is is_searched
    assert len(offered(model)[0]) == (2 if is_searched else count + 1)


def test_the_first_request_of_500_tools_has_at_most_3000_tokens():
    words = [f"{thing}{number}" for number in range(10) for thing in THINGS]
    model = ScriptedModel(ANSWER)
    agent = JsonAgent(make_tools(words), model=model)
    agent("Hello.")
    assert len(agent.tools) == 501
    assert sum(estimate_tokens(agent.tools).values()) > 15_000
    request = model.requests[0]
    assert len(json.dumps([*request.messages, request.tools.schemas("openai")])) / 4 < 3_000


def test_found_tools_belong_to_the_conversation(world, tmp_path):
    model = ScriptedModel(find("rename violin"), ANSWER, ANSWER, ANSWER, ANSWER)
    agent = JsonAgent(TOOLS, model=model, extensions=[ToolSearch(limit=1)])
    world.run(agent, "Hello.")
    world.run(agent, "And?")
    world.run(agent, "Other.", session=Session())
    agent.session.save(tmp_path / "session.jsonl")
    world.run(agent, "Again.", session=Session.load(tmp_path / "session.jsonl"))
    found = ["final_answer", "find_tools", "rename_violin"]
    assert offered(model) == [found[:2], found, found, found[:2], found]


def test_a_resumed_run_offers_what_it_had_found(world, tmp_path):
    path = tmp_path / "runs.db"
    erase = make("erase_disk", "Erases a disk.", effect="danger")
    model = ScriptedModel(find("erase disk"), call("erase_disk", name="x"), ANSWER)
    with pytest.raises(Paused) as pause:
        world.run(JsonAgent(TOOLS, erase, model=model, journal=path), "Erase it.")
    second = JsonAgent(TOOLS, erase, model=model, journal=path)
    result = second.resume(pause.value.run_id, approvals={pause.value.pending[0].id: True})
    assert result.calls[-2].content == "x: ok"
    assert offered(model)[1] == offered(model)[2]


def test_a_search_in_the_turn_that_a_run_resumes_with_is_made(tmp_path):
    path = tmp_path / "runs.db"
    erase = make("erase_disk", "Erases a disk.", effect="danger")
    model = ScriptedModel(calls(call("erase_disk", name="x"), find("rename violin")), ANSWER)
    with pytest.raises(Paused) as pause:
        JsonAgent(TOOLS, erase, model=model, journal=path, sequential=True)("Erase it.")
    second = JsonAgent(TOOLS, erase, model=model, journal=path)
    result = second.resume(pause.value.run_id, approvals={pause.value.pending[0].id: True})
    assert "rename_violin" in next(made.content for made in result.calls if made.call.name == "find_tools")
    assert "rename_violin" in offered(model)[-1]


@pytest.mark.parametrize("kept", ["file", "journal"])
def test_a_replay_makes_the_same_requests(world, tmp_path, kept):
    model = ScriptedModel(find("rename violin"), call("delete_rocket", name="x"), ANSWER)
    place = {"record": tmp_path / "run.jsonl"} if kept == "file" else {"journal": tmp_path / "runs.db"}
    world.run(JsonAgent(TOOLS, model=model), "Rename.", **place)
    asked = []
    replaying = JsonAgent(TOOLS, model=ScriptedModel(), listeners=[asked.append])
    if kept == "file":
        replaying.replay(tmp_path / "run.jsonl")
    else:
        replaying.replay(runs(tmp_path / "runs.db")[0].id, journal=tmp_path / "runs.db")
    again = [[*event.request.tools] for event in asked if type(event).__name__ == "ModelAsked"]
    assert again == offered(model)


class Server:
    """A source of tools with as many as there are."""

    name = "shop"

    def __init__(self, tools):
        self.own = tools
        self.listed = ()

    async def open_tools(self):
        self.listed = self.own

    async def close_tools(self):
        self.listed = ()

    def list_tools(self):
        return self.listed


def test_tools_of_a_server_and_of_a_function_of_the_run_are_searched(world):
    model = ScriptedModel(find("rename violin"), call("rename_violin", name="x"), ANSWER)
    result = world.run(JsonAgent(Server(TOOLS), model=model), "Rename it.")
    assert result.calls[1].content == "x: ok"
    assert offered(model)[0] == ["final_answer", "find_tools"]

    def select(run: RunContext):
        return TOOLS if run.usage().requests else TOOLS[:3]

    model = ScriptedModel(call("create_invoice", name="x"), find("rename violin"), ANSWER)
    world.run(JsonAgent(tools=select, model=model), "Rename it.")
    assert offered(model)[0] == ["final_answer", "create_invoice", "delete_invoice", "list_invoice"]
    assert offered(model)[1] == ["final_answer", "find_tools"]
    assert offered(model)[2][:3] == ["final_answer", "find_tools", "rename_violin"]


class Greeter(Extension):
    def __init__(self):
        self.tools = [self.greet]

    def greet(self, name: str) -> str:
        """Greets a person."""
        return f"Hello {name}."


def test_tools_of_extensions_and_hand_offs_are_always_offered(world):
    clerk = JsonAgent(TOOLS[:2], model=ScriptedModel(), description="A clerk.")
    model = ScriptedModel(call("greet", name="Ada"), ANSWER)
    agent = JsonAgent(TOOLS, model=model, extensions=[Greeter()], handoffs={"clerk": clerk})
    assert world.run(agent, "Greet.").calls[0].content == "Hello Ada."
    assert offered(model)[0] == ["final_answer", "transfer_to_clerk", "greet", "find_tools"]


def test_an_agent_with_a_tool_of_that_name_is_not_searched(world):
    model = ScriptedModel(ANSWER)
    world.run(JsonAgent(TOOLS, make("find_tools", "Finds hammers."), model=model), "Hello.")
    assert len(offered(model)[0]) == len(TOOLS) + 2


def test_a_model_that_cannot_search_is_offered_the_best_tools_for_the_question(world):
    model = ScriptedModel(call("rename_violin", name="x"), ANSWER, ANSWER)
    model.finds_tools = False
    agent = JsonAgent(TOOLS, model=model)
    world.run(agent, "Please rename my violin.")
    world.run(agent, "Now archive the glacier.")
    first, _, last = offered(model)
    assert len(first) == 11
    assert "rename_violin" in first
    assert "find_tools" not in first
    assert last[: len(first)] == first
    assert "archive_glacier" in last


@tool
def price_of(item: str) -> float:
    """Looks up the price of an item.

    Args:
        item: The item, "coffee" for example.
    """
    return {"coffee": 4.25}[item]


def test_the_offline_model_finds_a_tool_among_many(world):
    result = world.run(JsonAgent(TOOLS, price_of, model="offline"), "What is the price of the item coffee?")
    assert result.answer == "4.25"
    assert next(made.call.name for made in result.calls) == "price_of"


@pytest.mark.parametrize("mode", ["text", "schema"])
def test_models_without_tool_calling_search_as_well(world, mode):
    replies = {
        "text": ['```json\n{"name": "find_tools", "arguments": {"query": "rename violin"}}\n```'],
        "schema": ['{"calls": [{"name": "find_tools", "arguments": {"query": "rename violin"}}]}'],
    }
    last = json.dumps({"calls": [answer("done")["tool_calls"][0]]})
    model = ScriptedModel(*replies[mode], last if mode == "schema" else "done", "done")
    result = world.run(JsonAgent(TOOLS, model=model, tool_mode=mode), "Rename it.")
    assert "rename_violin" in result.calls[0].content
    sent = [str([message["content"] for message in request.messages]) for request in model.requests]
    assert "archive_rocket" not in sent[0]
    assert result.answer == "done"


@pytest.mark.parametrize(
    ("make_search", "message"),
    [
        (lambda: ToolSearch("look_up"), r"always=\.\.\.\) must be a list of tools or names, got 'look_up'"),
        (lambda: ToolSearch([3]), "expected tools or their names, got 3"),
        (lambda: ToolSearch(limit=0), r"limit=\.\.\.\) must be an integer >= 1, got 0"),
        (lambda: ToolSearch(above="many"), r"above=\.\.\.\) must be a number or None, got 'many'"),
    ],
)
def test_wrong_settings_are_refused(make_search, message):
    with pytest.raises(DefinitionError, match=message):
        make_search()


def test_functions_are_named_by_their_name(world):
    model = ScriptedModel(ANSWER)
    world.run(JsonAgent(TOOLS, price_of, model=model, extensions=[ToolSearch([price_of, TOOLS[0]])]), "Hello.")
    assert offered(model)[0] == ["final_answer", "create_invoice", "price_of", "find_tools"]
