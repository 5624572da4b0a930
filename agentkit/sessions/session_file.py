"""The data of a saved session."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..core.delimiters import delimit, new_delimiter_id
from ..core.errors import RunError
from ..core.labels import DEVELOPER, CallOrigin, Label
from ..core.messages import Message, Usage, pending_calls, tool_message
from ..engine.loop import CANCELLED
from ..policies.long_results import MAX_RESULT_CHARS, TruncatedResults, truncate_result
from ..tools.results.result_text import render_result
from .journal.reader import closed_state
from .journal.steps import value_of
from .recordings.file import OLD_FIRST, Recording
from .recordings.lines import FIRST_LINE, Line

FORMAT, VERSION = "agentkit session", 1
"""The name and version in the data of a session; files with the data itself can always be read."""
REMEDY = "Session.save writes sessions; messages from elsewhere become one with Session(messages=[...])."


class StoredText(TypedDict):
    """The whole text of a truncated result, with its label."""

    text: str
    label: dict[str, Any]


class SavedSession(TypedDict):
    """The content of a saved session, beside the name and the version of its format."""

    messages: list[Message]
    usage: Usage
    cut: dict[str, str | StoredText]
    inbox: list[str | Message]
    waiting: dict[str, str] | list[str]
    nested: dict[str, dict[str, Any]]
    handed: list[str]
    asked: NotRequired[dict[str, Any]]
    inner_answers: NotRequired[dict[str, dict[str, Any]]]


_ADAPTER = TypeAdapter(SavedSession)


def validate_saved(saved: Any) -> SavedSession:
    """Return the content of a saved session; raise `RunError` for anything else."""
    if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
        raise RunError(f"not a saved session. {REMEDY}")
    if saved.get("version") != VERSION:
        raise RunError(
            f"the session has version {saved.get('version')!r} of the format, and this agentkit reads version "
            f"{VERSION}. Update agentkit."
        )
    try:
        data = _ADAPTER.validate_python(saved)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"the saved session is damaged, at {where}: {first['msg']}. {REMEDY}") from None
    said = [message for message in data["inbox"] if not isinstance(message, str)]
    check_messages([*data["messages"], *said], "the saved session is damaged")
    return data


def check_messages(messages: Iterable[Any], of: str) -> None:
    """Raise `RunError` for the first entry that is no message with a role."""
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            example = '{"role": "user", "content": "Hello"}'
            raise RunError(f"{of}, at messages.{place}: a message without a role. Expected for example {example}")


def lines_of_session(data: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines of a file for the data of a session, and its `state`, which is a part of them."""
    yield {**FIRST_LINE, "usage": data["usage"]}
    for place, message in enumerate(data["messages"]):
        yield {"kind": "message", "place": place, "message": message}
    yield from ({"kind": "cut", "key": key, "text": text} for key, text in data["cut"].items())
    yield {"kind": "state", "state": state}


def read_saved(content: bytes) -> Any:
    """Return the data of a session from a saved one, or from a recorded run, then with its answer or error.

    Raises:
        ValueError: It is something else.
    """
    if not content.lstrip().startswith(b'{"kind"'):
        return json.loads(content)
    saved = Recording.parse(content)
    if saved.begin["kind"] == OLD_FIRST:
        raise ValueError("it is a recorded run of an older version, which has requests and no conversation")
    cut = TruncatedResults()
    messages = [*saved.messages, *_close_begun(saved, cut)]
    data = {"messages": messages, "usage": saved.usage.as_dict(), "cut": {**saved.cut, **cut.as_dict()}}
    end = {name: saved.end[name] for name in ("answer", "stopped", "error") if name in saved.end}
    state = {**closed_state([]), **saved.state}  # no state was written if the run was killed before its first request
    return {"format": FORMAT, "version": VERSION, **data, **state, **end}


def _close_begun(saved: Recording, cut: TruncatedResults) -> Iterator[Message]:
    """Yield the tool messages of the calls that began before the process of a run was killed: they run no second time.

    A result is delimited if it is untrusted; `cut` gets the whole text of one that is truncated.
    """
    for call in pending_calls(saved.messages):
        if saved.end or call.id not in saved.begun:  # a run that ended leaves calls that wait for a person
            continue
        outcome = saved.results.get(call.id)
        if outcome is None:
            yield tool_message(call, CANCELLED, label=DEVELOPER)
            continue
        shown, label = render_result(value_of(outcome)), Label.from_dict(outcome.get("label"))
        text = truncate_result(shown.text, most=MAX_RESULT_CHARS, store=cut, origin=CallOrigin(own=label))
        text = delimit(text, new_delimiter_id(), call.name) if label.is_untrusted else text
        yield tool_message(call, text, shown.images, label=label)
