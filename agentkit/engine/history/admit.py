"""A model's reply as a conversation can hold it."""

from ...core.messages import Message
from .tool_calls import CallIds, shaped


def admit(message: Message, known_ids: set[str]) -> Message:
    """A reply with calls that all have a unique id, a name, and arguments that are text; the same object if they do.

    Providers answer 400 for ever after when two calls share an id or an id is empty, and some models write such calls.
    Names and arguments stay as the model wrote them.  `known_ids` (the ids of the conversation so far) learns the new
    ones.
    """
    calls = message.get("tool_calls")
    if not calls:
        return message
    ids = CallIds(known_ids)
    admitted = [_under(ids, shaped(call)) for call in calls]
    if all(new is old for new, old in zip(admitted, calls, strict=True)):
        return message
    return {**message, "tool_calls": admitted}


def _under(ids: CallIds, call: Message) -> Message:
    identity = ids.unique(call["id"])
    return call if identity == call["id"] else {**call, "id": identity}
