"""Search in the conversations of a journal: by the words of their messages, their titles and their tags."""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from ...core.errors import DefinitionError
from ...core.masking import mask
from ...core.messages import Message, calls_of, text_of
from ..records import ConversationTagged, ConversationTitled, fold
from .store import DAMAGE, JournalError, RunFilter, Store, reading

MAX_INDEXED_CHARS = 100_000
"""Characters of a message whose words are found."""
EXCERPT_CHARS = 160
"""Characters around the first found word that are shown."""
HITS_PER_CONVERSATION = 8
_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"[\w.:/-]{1,40}")


class SearchHit(NamedTuple):
    """A message that a search found: its conversation, its place there, and its JSON text."""

    conversation: int
    place: int
    body: str


class SearchStore(Protocol):
    """A store of runs that finds messages by their words; a store needs this method for searches alone."""

    named: str

    def search(self, words: Sequence[str], limit: int) -> list[SearchHit]:
        """Return the messages that have, for each of the words, a word that begins with it; the best first.

        Only conversations of runs count that are not inside calls of other runs.  Upper and lower case are the same.
        """
        ...


@dataclass(frozen=True, slots=True)
class FoundConversation:
    """A conversation that a search found; texts are masked.

    Attributes:
        key: Its key, as in `RunInfo.conversation`.
        name: The name under which `Session.open` opens it; "" without one.
        run: The id of its last run, for `agent.resume` and `agentkit.journal.show`.
        title: The title that a person gave it, else its first query.
        tags: Its tags.
        begun: When its last run began, in seconds since 1970.
        role: The role of the best message; "" if the title or the tags were found alone.
        excerpt: The text around the first found word of that message.
    """

    key: int
    name: str
    run: str
    title: str
    tags: tuple[str, ...]
    begun: float
    role: str = ""
    excerpt: str = ""


def searchable_text(body: str) -> str:
    """Return the text of a message in which words are found, in lower case and without accents; "" if it is damaged."""
    try:
        message = json.loads(body)
        return "" if message["role"] == "system" else _plain(_text(message)[:MAX_INDEXED_CHARS])
    except DAMAGE:
        return ""


def _text(message: Message) -> str:
    """Return the text of a message, and the values in its calls, the answer's among them."""
    calls = [" ".join(_leaves(_read(call.arguments))) for call in calls_of(message)]
    return "\n".join(filter(None, [text_of(message), *calls]))


def _read(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _leaves(entry)
    elif value is not None:
        yield str(value)


def find_in(store: Store, words: str, *, tag: str = "", limit: int = 20) -> list[FoundConversation]:
    """Return the conversations of a store that have all words in a message or in their titles, the best first.

    Args:
        store: The store, which must be a `SearchStore`.
        words: The words, which may be the beginnings of words; "" for the conversations with the tag.
        tag: Only conversations with this tag.
        limit: The most conversations.

    Raises:
        DefinitionError: There are neither words nor a tag.
        JournalError: The store cannot search.
    """
    wanted = _WORD.findall(_plain(words))
    if not (wanted or tag):
        raise DefinitionError(f"find: {words!r:.80} has no words. Give words of the conversation, or a tag.")
    if not hasattr(store, "search"):
        raise JournalError(
            f"{store.named}: the store has no method search(), which finds conversations. Add the method of "
            "agentkit.extend.SearchStore to it, or record the runs in a SQLite file or in PostgreSQL."
        )
    with reading(store, "the conversations"):
        runs = {run.conversation: run for run in reversed(store.runs(RunFilter(is_inner=False))) if not run.damage}
        first = {run.conversation: run.query for run in store.runs(RunFilter(is_inner=False)) if not run.damage}
        stored = fold(store.records(*runs, kinds=(ConversationTitled, ConversationTagged))) if runs else fold(())
        names = {key: name for name, key in store.names().items()}
        hits = _best_hits(cast(SearchStore, store), wanted, limit)
        found = []
        for key in [*hits, *(key for key in sorted(runs, key=lambda key: -runs[key].begun) if key not in hits)]:
            conversation = stored.conversation(key)
            tags = tuple(conversation.tags.split())
            if key not in runs or (tag and tag not in tags):
                continue
            if key in hits or _has_words(f"{conversation.title} {conversation.tags}", wanted):
                title = mask(conversation.title or first[key] or "")
                shown = _excerpt(hits[key], wanted) if key in hits else ("", "")
                found.append(
                    FoundConversation(key, names.get(key, ""), runs[key].id, title, tags, runs[key].begun, *shown)
                )
        return found[:limit]


def _best_hits(store: SearchStore, words: Sequence[str], limit: int) -> dict[int, SearchHit]:
    """Return the best message of each conversation, the best first."""
    best = dict[int, SearchHit]()
    for hit in store.search(words, limit * HITS_PER_CONVERSATION) if words else ():
        best.setdefault(hit.conversation, hit)
    return best


def _plain(text: str) -> str:
    """Return a text in lower case without accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _has_words(text: str, words: Sequence[str]) -> bool:
    there = _WORD.findall(_plain(text))
    return all(any(word.startswith(wanted) for word in there) for wanted in words)


def _excerpt(hit: SearchHit, words: Sequence[str]) -> tuple[str, str]:
    """Return the role of a message and the text around the first of the words."""
    message = json.loads(hit.body)
    text = " ".join(mask(_text(message)).split())
    start = next((match.start() for match in _WORD.finditer(text) if _plain(match[0]).startswith((*words,))), 0)
    begin = max(0, start - EXCERPT_CHARS // 3)
    end = begin + EXCERPT_CHARS
    dots = "... " if begin else "", " ..." if end < len(text) else ""
    return message["role"], f"{dots[0]}{text[begin:end].strip()}{dots[1]}"


def check_tags(tags: Sequence[str]) -> str:
    """Return tags as a record has them.

    Raises:
        DefinitionError: One is no word.
    """
    for tag in (tags,) if isinstance(tags, str) else tags:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise DefinitionError(f"tag {tag!r:.80}: expected up to 40 letters, digits and . : / - _, without spaces")
    return " ".join(dict.fromkeys((tags,) if isinstance(tags, str) else tags))
