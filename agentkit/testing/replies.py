"""The scripted replies of a `ModelServer`.

A scripted reply is a text, the status of an error, a dict, or a function of the request's body that returns one.

The keys of a dict, all optional: `content`, `tool_calls` (each with `name`, and `id` and `arguments`: an object, or
text that is sent unchanged), `finish_reason` in the provider's own form, `usage` (`input_tokens`, `output_tokens`,
`cached_tokens`), and the keys that the files of `wires/` document. The value `...` omits a key of the provider's
format, for example a call's `id`. A dict may also have the keys of a fault:

- `status` (with `message`, `code`, `headers`): an HTTP error;
- `body` (text, bytes or JSON, with `headers`): sent unchanged;
- `error`: an error with this text in a reply of status 200, halfway in a stream;
- `reset`: True closes the connection without a reply, "halfway" after half;
- `cut`: True ends a stream, or a body, halfway;
- `delay`, `pace`, `stall`: seconds of silence before the reply, between the pieces of a stream, halfway;
- `wait`: a `threading.Event` to wait for before the reply;
- `after`: the number of pieces of a stream before `error`, `reset`, `cut` or `stall`; default: half of them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from .wires import Json

ScriptedReply: TypeAlias = str | int | Json | Callable[[Json], Any]


def flatten(replies: Iterable[ScriptedReply | list[ScriptedReply]]) -> Iterator[ScriptedReply]:
    """Yield the replies one by one, including the members of lists."""
    for reply in replies:
        yield from reply if isinstance(reply, list) else [reply]


def to_dict(reply: str | int | Json) -> Json:
    """Return the reply as a dict."""
    if isinstance(reply, str):
        return {"content": reply}
    return {"status": reply} if isinstance(reply, int) else reply
