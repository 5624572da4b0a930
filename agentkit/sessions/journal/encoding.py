"""Rows of a journal as text: JSON, digests, and errors for damaged rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from .location import JournalError, show_place
from .store import Store

_write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest(place: object, text: str) -> int:
    """Return a number that changes with every bit of `text` and with its place."""
    data = f"{place}\0{text}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest()) >> 1


def step_digest(run: str, step: int, call: str, *values: Any) -> int:
    """Return the digest of a row of `steps`: of its name, input, arguments and outcome."""
    return digest(f"{run}/{step}/{call}", repr(values))


@contextmanager
def reading(store: Store, what: str) -> Iterator[None]:
    """Raise `JournalError` with the table and the run (`what`) if rows that are read in the block are damaged."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        raise damage_error(store, f"table {what}: {error}") from error


def damage_error(store: Store, what: str) -> JournalError:
    """Return the error for rows that are not as they were written."""
    return JournalError(f"the journal {show_place(store.place)!r} is damaged: {what}")


def check_messages(store: Store, *keys: int) -> Iterator[tuple[int, str, int, str]]:
    """Yield the messages of conversations: the key, the text, its digest, and the damage, "" for a sound message."""
    places = dict.fromkeys(keys, 0)
    where = f"conversation IN ({', '.join('?' * len(keys))}) ORDER BY conversation, place"
    rows = store.read(f"SELECT conversation, place, body, digest FROM messages WHERE {where}", *keys) if keys else ()
    for key, place, body, number in rows:
        is_sound = place == places[key] and digest(place, body) == number
        error = "" if is_sound else str(damage_error(store, f"message {places[key]} of a run is incomplete"))
        yield key, body, number, error
        places[key] += 1


def encode_json(value: Any) -> str:
    """Return `value` as JSON; raise `JournalError` if it is not JSON serialisable."""
    try:
        text = _write_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"the run cannot be journaled: a message is not JSON serialisable ({error})") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
