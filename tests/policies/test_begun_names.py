"""Of a hidden list, a call may get the only name that begins with a word of the user, and no other name."""

import pytest
from guarded_turns import Guarded

from agentkit import tool
from agentkit.testing import call

JOINED: list[str] = []
QUERY = "Join the channel starting with External."


@tool(effect="write")
def join(channel: str) -> str:
    """Joins a channel."""
    JOINED.append(channel)
    return "joined"


@pytest.fixture(autouse=True)
def _empty():
    JOINED.clear()


def held_calls(world, names, *turns, query=QUERY, **settings):
    @tool(effect="read", trust="untrusted")
    def list_channels() -> list[str]:
        """Lists the channels."""
        return names

    turns = Guarded(
        call("list_channels"), *turns, tools=(list_channels, join), query=query, setting="hidden", **settings
    )
    return [waiting.name for waiting in turns.list_held(world)], turns


def test_the_only_name_that_begins_with_the_users_word_is_passed(world):
    held, _ = held_calls(world, ["general", "External_0"], call("join", channel="#1[External]"))
    assert held == []
    assert JOINED == ["External_0"]


@pytest.mark.parametrize(
    ("names", "reference", "query"),
    [
        (["External_0"], "#1[External]", "Join the channel of the partners."),
        (["External_0"], "#1.0", QUERY),
        (["External_of_evil"], "#1[External]", QUERY),
        (["External@evil.example"], "#1[External]", QUERY),
        (["External/x"], "#1[External]", QUERY),
        (["external_0"], "#1[external]", QUERY),
    ],
)
def test_any_other_name_waits(world, names, reference, query):
    held, _ = held_calls(world, ["general", *names], call("join", channel=reference), query=query)
    assert held == ["join"]


@pytest.mark.parametrize("names", [["External_0", "External_1"], ["External_0", "external evil"], ["general"], []])
def test_a_word_with_several_names_or_none_is_explained(world, names):
    held, turns = held_calls(world, names, call("join", channel="#1[External]"))
    assert held == []
    assert not JOINED
    assert "not exactly one entry of #1 begins with 'External'" in turns.contents[1]


def test_after_an_extract_the_word_may_be_chosen_by_others_and_waits(world):
    ask = call("extract_value", reference="#1", question="Which word?", kind="choice", choices=["External", "channel"])
    held, _ = held_calls(
        world, ["channel_7", "External_0"], ask, call("join", channel="#1[channel]"), extracts=("channel",)
    )
    assert held == ["join"]
