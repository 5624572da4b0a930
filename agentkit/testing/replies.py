"""What a test lets a model provider say.

A scripted reply is a text, the status of an error, a dict, or a function of the request's body that returns one.

A dict is a reply: `content`, `tool_calls` (each with `name`, and `id`, `arguments`: an object, or text as it is to go
out), `finish_reason` in the provider's words, `usage` (`input_tokens`, `output_tokens`, `cached_tokens`), and what the
files of `wires/` say; every key may be missing.  `...` as a value leaves a key of the provider's format out, a call's
`id` for example.  A dict may be, or hold, a fault:

- `status` (with `message`, `code`, `headers`): an HTTP error;
- `body` (text, bytes or JSON, with `headers`): sent as it is;
- `error`: an error with this text in a reply of status 200, in a stream after half of it;
- `reset`: True closes the connection without a reply, "halfway" in the middle of it;
- `cut`: True ends a stream, or a body, halfway;
- `delay`, `pace`, `stall`: seconds of silence before the reply, between the pieces of a stream, halfway;
- `wait`: a `threading.Event` that is waited for before the reply;
- `after`: the number of pieces of a stream after which `error`, `reset`, `cut` and `stall` come, instead of halfway.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from .wires import Json

ScriptedReply: TypeAlias = str | int | Json | Callable[[Json], Any]


def flatten(replies: Iterable[ScriptedReply | list[ScriptedReply]]) -> Iterator[ScriptedReply]:
    """The replies one by one, also those that stand in a list."""
    for reply in replies:
        yield from reply if isinstance(reply, list) else [reply]


def to_dict(reply: str | int | Json) -> Json:
    """The reply in its long form."""
    if isinstance(reply, str):
        return {"content": reply}
    return {"status": reply} if isinstance(reply, int) else reply
