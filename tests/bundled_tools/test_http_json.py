import json

import pytest

from agentkit import DefinitionError, JsonAgent, ToolError
from agentkit.testing import ScriptedModel, answer, call
from agentkit_tools import http_json_tool


@pytest.fixture
def api(allowed):
    """An API on this machine, and the tool for it."""
    allowed.answer("/items", json.dumps({"items": [{"id": 1, "name": "tea"}, {"id": 2}], "next": None}))
    allowed.answer("/long", json.dumps({"items": ["x" * 100] * 500, "count": 500}))
    allowed.tool = http_json_tool([allowed.url], headers={"X-Key": "secret"})
    return allowed


@pytest.mark.parametrize(
    ("pick", "value"),
    [
        ("", {"items": [{"id": 1, "name": "tea"}, {"id": 2}], "next": None}),
        ("items.0.name", "tea"),
        ("items.1", {"id": 2}),
        ("next", None),
    ],
)
def test_an_answer_or_a_part_is_returned_and_the_headers_are_sent(api, pick, value):
    assert api.tool.call({"url": f"{api.url}/items?q=1", "pick": pick}) == value
    path, headers = api.requests[0]
    assert (path, headers["X-Key"], headers["Accept"]) == ("/items?q=1", "secret", "application/json")


def test_a_long_answer_states_its_parts(api):
    shown = api.tool.call({"url": f"{api.url}/long"})
    assert shown.endswith("\n[12,000 of 52,025 characters; pick= reads a part: the keys items, count]")
    assert api.tool.call({"url": f"{api.url}/long", "pick": "items.499"}) == "x" * 100


def test_a_key_with_dots_is_picked(api):
    """The versions of a package are such keys, in the registries of npm and PyPI."""
    api.answer("/package", json.dumps({"versions": {"1.10.0": {"size": 7}, "1": {"10": 8}}, "a": {"b": 1}, "a.c": 2}))

    def pick(path):
        return api.tool.call({"url": f"{api.url}/package", "pick": path})

    assert [pick(path) for path in ("versions.1.10.0.size", "versions.1.10", "a.b", "a.c")] == [7, 8, 1, 2]
    with pytest.raises(ToolError, match=r"versions has no '2'\. It has the keys 1\.10\.0, 1\."):
        pick("versions.2.0.0")


@pytest.mark.parametrize(
    ("pick", "problem"),
    [
        ("item", "the answer has no 'item'. It has the keys items, next"),
        ("items.2", "items has no '2'. It has the items 0 to 1"),
        ("items.0.id.x", r"items\.0\.id has no 'x'. It has no parts"),
    ],
)
def test_a_part_that_does_not_exist_is_answered_with_those_that_do(api, pick, problem):
    with pytest.raises(ToolError, match=problem):
        api.tool.call({"url": f"{api.url}/items", "pick": pick})


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ("<html>", 200, "did not answer with JSON"),
        ("[" * 100_000, 200, "did not answer with JSON"),
        ('{"error": "no such item"}', 404, "answered 404 Not Found"),
    ],
)
def test_what_is_not_an_answer_is_reported(api, body, status, problem):
    api.answer("/bad", body, status=status)
    with pytest.raises(ToolError, match=problem):
        api.tool.call({"url": f"{api.url}/bad"})


def test_a_redirect_is_followed_to_declared_hosts_so_no_other_one_gets_the_headers(api):
    api.answer("/moved", "", status=302, Location="/items")
    api.answer("/away", "", status=302, Location="https://evil.example/")
    assert api.tool.call({"url": f"{api.url}/moved", "pick": "items.1.id"}) == 2
    with pytest.raises(ToolError, match=r"https://evil\.example may not be asked. Allowed: http://127"):
        api.tool.call({"url": f"{api.url}/away"})


@pytest.mark.parametrize("hosts", ["api.example.com", [], ["ftp://x"], ["api.example.com/v1"], ["user@host"], [""]])
def test_hosts_must_be_hosts(hosts):
    with pytest.raises(DefinitionError, match="hosts: "):
        http_json_tool(hosts)


def test_the_model_reads_the_hosts_and_not_the_headers(world, api):
    assert api.tool.description == f"Read JSON by a GET request from: {api.url}."
    assert "secret" not in repr(api.tool.function.__self__)
    model = ScriptedModel(
        call("http_get_json", url=f"{api.url}/items"),
        call("http_get_json", url=f"{api.url}/items?id=1"),
        answer("Tea."),
    )
    assert world.run(JsonAgent(api.tool, model=model), "What is there?").answer == "Tea."
