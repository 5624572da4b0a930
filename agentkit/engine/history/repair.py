"""A conversation from anywhere -> what is wrong with it, and one that every provider takes.

What is wrong is what the repair would change, and the thinking that nobody can bring back: each rule stands once.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from ...core.messages import Message, ToolCall, tool_message, user
from .alternation import merge_neighbours
from .single_messages import repair_message
from .thinking import find_lost_thinking
from .tool_calls import CallIds
from .tool_results import CallTurn, IndexedMessage, match_results
from .violations import ANTHROPIC, GEMINI, MATCHING_BY_NAME, Findings, Violation, is_from_anthropic

INTERRUPTED = "Interrupted: this call had no result when the run ended; it is not known whether it had an effect."
OPENING = "(The conversation begins here.)"
"""Opens a conversation that does not begin with the user."""
CONTINUE = "Go on."
"""Stands between two replies that would be one on the wire, with thinking in the midst of it."""
_NOWHERE = -1
"""The place of a message that did not come."""


def check_history(messages: Sequence[Message], provider: str | None = None) -> list[Violation]:
    """What `provider` ("openai", "anthropic", "gemini", ...) would refuse in a conversation, in its order.

    Without a provider: what is broken for everyone.  An empty list says that the conversation can go on: with the next
    query or, if it ends in results, as it is.
    """
    found = Findings()
    _repair(messages, "answer", found)
    find_lost_thinking(messages, found)
    return found.for_provider(provider)


def repair_history(messages: list[Message], *, pending: Literal["answer", "keep"] = "answer") -> list[Message]:
    """The conversation as every provider takes it, changed as little as possible; the same list if nothing is amiss.

    Results are put behind their calls, in call order; calls without a result are told to be interrupted; ids are made
    unique; what cannot be read is made readable; a result whose call is nowhere is left out, and a message that says
    nothing; texts of one role in a row become one.  With `pending="keep"` the calls at the very end stay open: the
    conversation is that of a paused run.  Messages that are not amiss are the same objects, the list and the messages
    that came are never changed.
    """
    found = Findings()
    repaired = _repair(messages, pending, found)
    return repaired if found.entries else messages


def _repair(messages: Sequence[Message], pending: Literal["answer", "keep"], found: Findings) -> list[Message]:
    entries: list[IndexedMessage] = []
    for place, message in enumerate(messages):
        if (sound := repair_message(message, place, found)) is not None:
            entries.append((place, sound))
    turns = match_results(entries, found)
    said = [entry for entry in entries if entry[1]["role"] != "tool"]
    last = turns.get(said[-1][0]) if said else None
    exchanges = _Exchanges(turns.values(), last, found, keep=pending == "keep")
    repaired: list[Message] = []
    for place, message in merge_neighbours(_order_roles(said, found), found):
        if (turn := turns.get(place)) is None:
            repaired.append(message)
        else:
            repaired += exchanges.written(turn, message)
    return repaired


def _order_roles(said: Sequence[IndexedMessage], found: Findings) -> Iterator[IndexedMessage]:
    """The messages but for those of tools: system messages at the top only, then the user, then whoever speaks."""
    before = "system"
    for place, message in said:
        role = message["role"]
        if role == "system" and before != "system":
            found.add(place, "late_system", "a system message stands behind the beginning: let the user say it")
            message, role = {**message, "role": "user"}, "user"
        if role == "assistant" and before == "system":
            found.add(place, "first_user", "the first to speak must be the user", ANTHROPIC | GEMINI)
            yield _NOWHERE, user(OPENING)
        elif role == "assistant" == before and is_from_anthropic(message) and message.get("thinking_blocks"):
            text = "behind another reply, without the user between them, the thinking is in the midst of one message"
            found.add(place, "split_reply", text, ANTHROPIC)
            yield _NOWHERE, user(CONTINUE)
        yield place, message
        before = "tool" if message.get("tool_calls") else role


class _Exchanges:
    """Replies with their calls and, behind them, their results; the ids of all calls are different ones.

    `last` is the turn at the end of the conversation, if it ends in one, whose open calls may be kept open.
    """

    def __init__(self, turns: Collection[CallTurn], last: CallTurn | None, found: Findings, *, keep: bool) -> None:
        self._last, self._found, self._keep = last, found, keep
        self._ids = CallIds(set(), {call["id"] for turn in turns for call in turn.calls})

    def written(self, turn: CallTurn, message: Message) -> Iterator[Message]:
        """The message of a turn and one result for each of its calls, in call order."""
        calls = [self._identified(call, turn.place) for call in turn.calls]
        is_same = all(new is old for new, old in zip(calls, turn.calls, strict=True))
        yield message if is_same else {**message, "tool_calls": calls}
        for call, answer in zip(calls, turn.answers, strict=True):
            name = call["function"]["name"]
            if answer is not None:
                yield self._fitting(answer, call["id"], name)
            elif turn is not self._last or not self._keep:
                text = f"the call {call['id']!r:.80} of {name} has no result"
                self._found.add(turn.place, "pending_call" if turn is self._last else "dangling_call", text)
                yield tool_message(ToolCall(call["id"], name), INTERRUPTED)

    def _identified(self, call: Message, place: int) -> Message:
        old = call["id"]
        if (identity := self._ids.unique(old)) == old:
            return call
        if old:
            self._found.add(place, "duplicate_id", f"the id {old!r:.80} is that of an earlier call")
        return {**call, "id": identity}

    def _fitting(self, answer: IndexedMessage, identity: str, name: str) -> Message:
        """The result under the id and the name of its call."""
        place, message = answer
        if message.get("name", name) != name:
            text = f"the result says it is of {message['name']!r:.80}, and its call is of {name}"
            self._found.add(place, "bad_name", text, MATCHING_BY_NAME)
            message = {**message, "name": name}
        return message if message["tool_call_id"] == identity else {**message, "tool_call_id": identity}
