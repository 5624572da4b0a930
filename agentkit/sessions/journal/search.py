"""What a search in conversations finds: the words of messages, of titles and of tags."""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...core.errors import DefinitionError
from ...core.masking import mask
from ...core.messages import Message, calls_of, text_of
from ...core.portable import iterate_scalars, parse_json
from ...core.values import frozen
from ..records import DAMAGE

MAX_INDEXED_CHARS = 100_000
"""Characters of a message whose words are found."""
EXCERPT_CHARS = 160
"""Characters around the first found word that are shown."""
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
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

        A word of a script without spaces is found anywhere in a text, see `is_unspaced`.
        Only conversations of runs count that are not inside calls of other runs.  Upper and lower case are the same.
        """
        ...


@frozen
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
    values = [iterate_scalars(parse_json(call.arguments)) for call in calls_of(message)]
    calls = [" ".join(str(value) for value in given if value is not None) for given in values]
    return "\n".join(filter(None, [text_of(message), *calls]))


def _plain(text: str) -> str:
    """Return a text in lower case without accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case and without accents."""
    return _WORD.findall(_plain(text))


def is_unspaced(word: str) -> bool:
    """Return whether a word has letters of a script without spaces between words, such as Chinese."""
    return _UNSPACED.search(word) is not None


def has_words(text: str, wanted: Sequence[str]) -> bool:
    """Return whether a text has, for each of the wanted words, a word that begins with it, or has it; `is_unspaced`."""
    there = words_of(text)
    return all(any(_find_word(word, start) >= 0 for word in there) for start in wanted)


def _find_word(word: str, start: str) -> int:
    """Return where a word of a text has a wanted one, -1 if nowhere."""
    return word.find(start) if is_unspaced(start) else int(word.startswith(start)) - 1


def excerpt_of(hit: SearchHit, words: Sequence[str]) -> tuple[str, str]:
    """Return the role of a message and the text around the first of the words."""
    message = json.loads(hit.body)
    text = " ".join(mask(_text(message)).split())
    places = ((match.start(), _find_word(_plain(match[0]), word)) for match in _WORD.finditer(text) for word in words)
    start = next((begin + place for begin, place in places if place >= 0), 0)
    begin = max(0, start - EXCERPT_CHARS // 3)
    end = begin + EXCERPT_CHARS
    dots = "... " if begin else "", " ..." if end < len(text) else ""
    return message["role"], f"{dots[0]}{text[begin:end].strip()}{dots[1]}"


def check_tags(tags: Sequence[str]) -> str:
    """Return tags as a record has them.

    Raises:
        DefinitionError: One is no word.
    """
    for tag in tags:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise DefinitionError(f"tag {tag!r:.80}: expected up to 40 letters, digits and . : / - _, without spaces")
    return " ".join(dict.fromkeys(tags))
