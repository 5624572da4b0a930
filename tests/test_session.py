"""A conversation that goes on."""

import pytest

from agentkit import RunError, Session, Usage
from agentkit.messages import ToolCall, assistant, pending_calls, system, user


def test_a_turn_puts_the_instruction_first_and_the_query_last():
    session = Session()
    with session.turn("be kind", "hello") as messages:
        assert messages == [system("be kind"), user("hello")]
        messages.append(assistant("hi"))
    with session.turn("be brief", "and?") as messages:
        assert messages == [system("be brief"), user("hello"), assistant("hi"), user("and?")]


def test_messages_from_outside_get_the_instruction():
    session = Session([user("earlier"), assistant("yes")])
    with session.turn("be kind", "hello") as messages:
        assert messages[0] == system("be kind")


def test_calls_left_open_are_answered_before_a_new_query():
    session = Session([user("q"), assistant(None, [ToolCall("c", "f")])])
    with session.turn("s", "and now?") as messages:
        assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]
        assert pending_calls(messages) == []


def test_a_query_without_any_reply_is_taken_out_again():
    session = Session()
    with pytest.raises(ValueError, match="down"), session.turn("s", "hello"):
        raise ValueError("down")
    assert session.messages == [system("s")]
    with session.turn("s", "hello"):
        pass


def test_one_run_at_a_time():
    session = Session()
    with session.turn("s", "a"), pytest.raises(RunError, match="in the middle of a run"), session.turn("s", "b"):
        pass
    with session.turn("s", "c"):
        pass


def test_clear_keeps_only_the_instruction():
    session = Session([system("s"), user("a")], Usage(requests=3))
    session.clear()
    assert (session.messages, session.usage) == ([system("s")], Usage())
    bare = Session([user("a")])
    bare.clear()
    assert bare.messages == []
