"""The values in a call's arguments, and how they are found in texts: as a whole, spelled as they are."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ...core.messages import Message, text_of

Value: TypeAlias = str | int | float
PASSAGE_CHARS = 40
"""Characters of an untrusted text that a reason shows before and after a value."""
MAX_VALUE_CHARS = 80
"""Characters of a value that a passage shows."""
MAX_COMPARED_CHARS = 10_000_000
"""Characters of a text that are compared with a value; only in crafted texts a long value occurs at every place."""
_ADDRESS = re.compile(
    r"""
      [a-z][a-z0-9+.-]{0,19}://[^\s"'<>()]+                             # with a scheme
    | //[\w-]+\.[^\s"'<>()]+                                           # with that of the page around it
    | (?<![a-z0-9.-])www\.[^\s"'<>()]+
    | (?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)*                        # a mail address
    | (?<![\w./@-])(?:[\w-]++\.)++[a-z]{2,24}(?:[/?\#]|:\d)[^\s"'<>()]*  # a host with a path or a port
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PUBLIC_PAGE = re.compile(
    r"(?:https?://)?(?:[a-z0-9-]+\.)+(?!(?:local|localhost|localdomain|internal|intranet|lan|home|corp)\b)[a-z]{2,24}"
    r"(?::\d+)?(?:[/?#]\S*)?",
    re.IGNORECASE | re.ASCII,
)
_BEFORE, _AFTER = re.compile(r"[\w/\\@.+%&~*-]"), re.compile(r"[\w/\\@+&=#~*-]|[.,:;?!]\w")
"""Characters beside a value that make it a part of a longer word, path, address or number."""
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\[nrt]")


_DATE = re.compile(r"(\d{4}-(\d\d)-(\d\d))(?:[ t]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|[+-]\d\d:?\d\d)?)?")
"""A date of ISO 8601, with or without a time, in normalized text."""
_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTHS.split())


class Texts:
    """Texts that are normalized when a value is first searched in them."""

    def __init__(self) -> None:
        self._new: list[tuple[str, Callable[[str], str]]] = []
        self._results: list[Message] = []
        self._normalized: list[str] = []

    def add(self, text: str, prepare: Callable[[str], str] = str) -> None:
        """Add a text; `prepare` is applied to it first."""
        self._new.append((text, prepare))

    def add_result(self, message: Message) -> None:
        """Add the text of a tool message, in which JSON may have escaped line breaks."""
        self._results.append(message)

    def contain(self, value: Value) -> bool:
        """Return whether one of the texts contains a value as a whole."""
        spellings = spell(value)
        return any(find_token(spelling, text) >= 0 for text in self.read() for spelling in spellings)

    def find_passage(self, value: Value) -> str:
        """Return a value with the characters around it in the first text that contains it; "" if no text does."""
        spellings = spell(value)
        return next(filter(None, (_find_passage(text, spellings) for text in self.read())), "")

    def read(self) -> Sequence[str]:
        """Return the normalized texts."""
        new, results, self._new, self._results = self._new, self._results, [], []
        self._normalized += [normalize(prepare(text)) for text, prepare in new]
        self._normalized += [normalize(_ESCAPED_SPACE.sub(" ", text_of(message))) for message in results]
        return self._normalized


def iterate_values(arguments: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield the values of a call that need an origin, with their places in the arguments.

    Booleans and null need none.  Neither do the names of a tool's own parameters and fields, and a parameter's own
    choices and defaults.
    """
    try:
        data = json.loads(arguments)
    except ValueError:  # in a history from elsewhere
        data = {"arguments": arguments}
    if not isinstance(data, dict):
        data = {"arguments": data}
    own: Mapping[str, Any] = schema.get("properties", {})
    for name, value in data.items():
        if schema and name not in own:  # the tool takes any names
            yield "a name in the arguments", name
        part = own.get(name, {})
        words = [*_words(part, schema.get("$defs", {}), frozenset())]
        for where, inner in iterate_leaves(value, name):
            is_own = (where.startswith("a name in "), inner) in words
            if inner != "" and not is_own:
                yield where, inner


def iterate_leaves(data: Any, where: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the texts and numbers in JSON data, and the names in it, with their places."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield f"a name in {where}", key
            yield from iterate_leaves(value, f"{where}.{key}")
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from iterate_leaves(value, f"{where}[{place}]")
    elif data is not None and not isinstance(data, bool):
        yield where, data


def _words(schema: Any, definitions: Mapping[str, Any], seen: frozenset[str]) -> Iterator[tuple[bool, Value]]:
    """Yield the words of a parameter's schema: whether it is a name, and the name, the choice or the default."""
    if isinstance(schema, list):
        for entry in schema:
            yield from _words(entry, definitions, seen)
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key == "properties":
            yield from ((True, name) for name in value)
            yield from _words(list(value.values()), definitions, seen)
        elif key in ("enum", "const", "default"):
            yield from ((where.startswith("a name in "), entry) for where, entry in iterate_leaves(value, "-"))
        elif key == "$ref" and value not in seen:
            yield from _words(definitions.get(str(value).rpartition("/")[2]), definitions, seen | {value})
        else:
            yield from _words(value, definitions, seen)


def _find_passage(text: str, spellings: set[str]) -> str:
    for spelling in spellings:
        if (start := find_token(spelling, text)) >= 0:
            end = start + min(len(spelling), MAX_VALUE_CHARS)
            first, last = max(0, start - PASSAGE_CHARS), min(len(text), end + PASSAGE_CHARS)
            return f"{'... ' if first else ''}{text[first:last].strip()}{' ...' if last < len(text) else ''}"
    return ""


def find_addresses(text: str) -> list[str]:
    """Return the web and mail addresses in a text, each once; full-width letters and dots count as ASCII."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\N{IDEOGRAPHIC FULL STOP}", ".")
    return [*dict.fromkeys(_ADDRESS.findall(text))]


def is_public_page(text: str) -> bool:
    """Return whether a text is one web address whose host has a public name: no number, none of the own network."""
    return find_addresses(text) == [text] and _PUBLIC_PAGE.fullmatch(text) is not None


def find_token(spelling: str, text: str) -> int:
    """Return where a text contains a spelling as a whole; -1 if it does not."""
    start = -1
    for _ in range(MAX_COMPARED_CHARS // max(1, len(spelling))):
        if (start := text.find(spelling, start + 1)) < 0:
            return -1
        if not _BEFORE.match(text[start - 1 : start]) and not _AFTER.match(text, start + len(spelling)):
            return start
    return -1


def spell(value: Value) -> set[str]:
    """Return the normalized forms in which a text may contain a value."""
    if isinstance(value, str):
        plain = normalize(value)
        return {plain, json.dumps(plain, ensure_ascii=False)[1:-1], *_spell_date(plain)}
    if isinstance(value, float) and not value.is_integer():
        return {str(value), f"{value:,}", *([f"{value:.2f}", f"{value:,.2f}"] if round(value, 2) == value else [])}
    return {form + decimals for form in (f"{int(value)}", f"{int(value):,}") for decimals in ("", ".0", ".00")}


def _spell_date(text: str) -> Iterator[str]:
    """Yield other notations of an ISO date: its day alone, and with the month's name, as people write it."""
    if not (match := _DATE.fullmatch(text)):
        return
    date, month, day = match[1], int(match[2]), int(match[3])
    if not 1 <= month <= 12:
        return
    yield date
    ordinal = f"{day}{'th' if 10 <= day % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    for name in (MONTHS[month - 1], MONTHS[month - 1][:3]):
        for number in (f"{day}", ordinal):
            yield from (f"{name} {number}", f"{number} {name}", f"{number} of {name}")


def normalize(text: str) -> str:
    """Return a text without differences that do not make another value: ASCII case, white space, composed letters.

    Ligatures, full-width letters and letters that fold to others remain: "ﬁle" is another path than "file".
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    encoded = text.encode("utf-8", "surrogatepass")  # bytes have ASCII letters and ASCII white space alone
    return b" ".join(encoded.lower().split()).decode("utf-8", "surrogatepass")
