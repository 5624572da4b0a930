"""Check a conversation from any source, and repair it so that every provider accepts it.

A violation is what the repair would change, or thinking that is lost: each rule is written once, for both.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from ...core.labels import DEVELOPER
from ...core.messages import Message, ToolCall, tool_message, user
from .alternation import merge_neighbours
from .single_messages import repair_message
from .tool_calls import CallIds
from .tool_results import CallTurn, IndexedMessage, match_results
from .violations import ANTHROPIC, GEMINI, MATCHING_BY_NAME, Findings, Violation, is_from_anthropic

INTERRUPTED = "Interrupted: this call had no result when the run ended; it is not known whether it had an effect."
OPENING = "(The conversation begins here.)"
"""The user message in front of a conversation that does not begin with one."""
CONTINUE = "Go on."
"""The user message between two replies that the wire would merge, with thinking in the middle."""
_NOWHERE = -1
"""The index of a message that was inserted."""


def check_history(messages: Sequence[Message], provider: str | None = None) -> list[Violation]:
    """Return what `provider` would reject in a conversation, in the order of its messages.

    Args:
        messages: The conversation; any values, JSON or not.
        provider: "openai", "anthropic", "gemini", ...; default: only what every provider rejects.

    Returns:
        The violations; [] if the conversation can continue with the next query or, if it ends in results, as it is.

    Raises:
        TypeError: `messages` is not a list; its entries may be any values.
    """
    found = Findings()
    _repair(messages, "answer", found)
    find_lost_thinking(messages, found)
    return found.for_provider(provider)


def repair_history(messages: list[Message], *, pending: Literal["answer", "keep"] = "answer") -> list[Message]:
    """Return the conversation so that every provider accepts it, changed as little as possible.

    Results are moved behind their calls, in call order; calls without a result are answered as interrupted.  Ids are
    made unique, and broken parts are converted to valid ones.  Results without a call and empty messages are removed.
    Consecutive texts of one role are merged.

    Args:
        messages: The conversation; neither the list nor its messages are changed.
        pending: "keep" leaves the calls at the very end open, for the conversation of a paused run.

    Returns:
        The same list if it is valid; valid messages are the same objects.

    Raises:
        TypeError: `messages` is not a list; its entries may be any values.
    """
    found = Findings()
    repaired = _repair(messages, pending, found)
    return repaired if found.entries else messages


def _repair(messages: Sequence[Message], pending: Literal["answer", "keep"], found: Findings) -> list[Message]:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise TypeError(f"messages: expected a list of messages, got {type(messages).__name__}")
    entries: list[IndexedMessage] = []
    for place, message in enumerate(messages):
        if (sound := repair_message(message, place, found)) is not None:
            entries.append((place, sound))
    turns = match_results(entries, found)
    spoken = [entry for entry in entries if entry[1]["role"] != "tool"]
    last = turns.get(spoken[-1][0]) if spoken else None
    exchanges = _Exchanges(turns.values(), last, found, keep=pending == "keep")
    repaired: list[Message] = []
    for place, message in merge_neighbours(_order_roles(spoken, found), found):
        if (turn := turns.get(place)) is None:
            repaired.append(message)
        else:
            repaired += exchanges.write(turn, message)
    return repaired


def _order_roles(entries: Sequence[IndexedMessage], found: Findings) -> Iterator[IndexedMessage]:
    """Put system messages first, then a user message; `entries` are the messages other than those of tools."""
    before = "system"
    for place, message in entries:
        role = message["role"]
        if role == "system" and before != "system":
            found.add(place, "late_system", "a system message is not at the beginning: make it a user message")
            message, role = {**message, "role": "user"}, "user"
        if role == "assistant" and before == "system":
            found.add(place, "first_user", "the first message must be the user's", ANTHROPIC | GEMINI)
            yield _NOWHERE, user(OPENING)
        elif role == "assistant" == before and is_from_anthropic(message) and message.get("thinking_blocks"):
            text = "two replies in a row are merged, and the thinking of the second must be first in a message"
            found.add(place, "split_reply", text, ANTHROPIC)
            yield _NOWHERE, user(CONTINUE)
        yield place, message
        before = "tool" if message.get("tool_calls") else role


class _Exchanges:
    """Write replies with calls and their results; all calls have different ids.

    `last` is the turn that the conversation ends in, if any; with `keep`, its open calls stay open.
    """

    def __init__(self, turns: Collection[CallTurn], last: CallTurn | None, found: Findings, *, keep: bool) -> None:
        self._last, self._found, self._keep = last, found, keep
        self._ids = CallIds(set(), {call["id"] for turn in turns for call in turn.calls})

    def write(self, turn: CallTurn, message: Message) -> Iterator[Message]:
        """Yield the message of a turn and one result for each of its calls, in call order."""
        calls = [self._with_id(call, turn.place) for call in turn.calls]
        is_same = all(new is old for new, old in zip(calls, turn.calls, strict=True))
        yield message if is_same else {**message, "tool_calls": calls}
        for call, answer in zip(calls, turn.answers, strict=True):
            name = call["function"]["name"]
            if answer is not None:
                yield self._with_name(answer, call["id"], name)
            elif turn is not self._last or not self._keep:
                text = f"the call {call['id']!r:.80} of {name} has no result"
                self._found.add(turn.place, "pending_call" if turn is self._last else "dangling_call", text)
                yield tool_message(ToolCall(call["id"], name), INTERRUPTED, label=DEVELOPER)

    def _with_id(self, call: Message, place: int) -> Message:
        old = call["id"]
        if (identity := self._ids.unique(old)) == old:
            return call
        if old:
            self._found.add(place, "duplicate_id", f"an earlier call has the id {old!r:.80}, too")
        return {**call, "id": identity}

    def _with_name(self, answer: IndexedMessage, identity: str, name: str) -> Message:
        """Return the result with the id and the name of its call."""
        place, message = answer
        if message.get("name", name) != name:
            text = f"the result names the tool {message['name']!r:.80}, but its call is of {name}"
            self._found.add(place, "bad_name", text, MATCHING_BY_NAME)
            message = {**message, "name": name}
        return message if message["tool_call_id"] == identity else {**message, "tool_call_id": identity}


def find_lost_thinking(messages: Sequence[Any], found: Findings) -> None:
    """Report replies of the tool loop at the end that lost their thinking blocks, which Anthropic requires first.

    The loss is certain where the thinking is there as text alone (litellm writes both), or without its signature
    (Anthropic, "Extended thinking", preserving thinking blocks).  A reply without any thinking may never have had some.
    """
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if not isinstance(message, dict) or message.get("role") == "user":
            return
        if not is_from_anthropic(message) or not message.get("tool_calls"):
            continue
        blocks = message.get("thinking_blocks")
        if not blocks and not message.get("reasoning_content"):
            continue
        if not isinstance(blocks, list) or not blocks or not all(_is_signed(block) for block in blocks):
            text = "the signed thinking blocks in front of the calls are lost"
            found.add(place, "lost_thinking", text, ANTHROPIC)


def _is_signed(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    return bool(block.get("data") if block.get("type") == "redacted_thinking" else block.get("signature"))
