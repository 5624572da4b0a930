"""The format of a saved session, and how a file is replaced atomically."""

import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..core.errors import RunError
from ..core.messages import Message, Usage, user

FORMAT, VERSION = "agentkit session", 1
"""The name and version in a saved session; files of earlier versions can always be read."""
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
    for place, message in enumerate([*data["messages"], *said]):
        if not isinstance(message.get("role"), str):
            raise RunError(f"the saved session is damaged, at messages.{place}: a message without a role. {REMEDY}")
    return data


def inbox_of(data: SavedSession) -> deque[Message]:
    """Return the unread messages of a saved session; those of older files are texts."""
    return deque(user(entry) if isinstance(entry, str) else entry for entry in data["inbox"])


@contextmanager
def name_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise the errors of reading a saved session as `RunError` with the path of its file."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise RunError(f"{os.fspath(path)!r} is damaged, or not a saved session: {error}. {REMEDY}") from error
    except RunError as error:
        raise RunError(f"{os.fspath(path)!r}: {error}") from error


def encode_session(data: Mapping[str, Any]) -> bytes:
    """Return `data` as a line of JSON; ASCII only if a text is not valid Unicode."""
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(data).encode()


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file, so that it has the whole old or the whole new content, even if the process dies.

    A new file is readable by its owner only; an existing one keeps its permissions.
    """
    path = path.resolve()  # replace the target of a link, not the link
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
