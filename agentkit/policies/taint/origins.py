"""The origins of a call's arguments: the user and trusted tools, or untrusted sources and the model.

The values of the arguments are found in texts as a whole, spelled as they are.  A destination is compared letter by
letter, because each other spelling could tell its owner something; a host alone may be in another case.  Of other
values, the case of ASCII letters and white space do not matter.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ...core.masking import mask, mask_data
from ...core.messages import (
    DEVELOPER,
    TRUSTED,
    UNKNOWN,
    UNKNOWN_SOURCE,
    CallOrigin,
    Content,
    Destination,
    Label,
    Message,
    Role,
    calls_of,
    join_readers,
    label_of,
    remove_delimiters,
    text_of,
    tool_names,
)
from ...core.pending import UntrustedValue
from ...core.portable import parse_json, truncate
from ...core.values import frozen
from ...tools.execution.call import ANSWER_RESULT
from ...tools.json_tool import JsonTool
from ...tools.roles import find_role, may_have_effect

Value: TypeAlias = str | int | float
PASSAGE_CHARS = 40
"""Characters of an untrusted text that a reason shows before and after a value."""
MAX_PASSAGE_VALUE_CHARS = 80
"""Characters of a value that a passage shows."""
MAX_COMPARED_CHARS = 10_000_000
"""Characters of a text that are compared with a value; only in crafted texts a long value occurs at every place."""
MAX_PIECE_CHARS = 80
"""Characters of a result that another text may be put together from, such as a choice."""
_QUOTE = "\"'`\u2018-\u201f\u00ab\u00bb"
_LABEL = r"(?:[\w-]++\.)"
_TOP = r"(?:xn--[a-z0-9-]{1,59}|[^\W\d_]{2,63})"
_BYTE = r"(?:0x[0-9a-f]{1,8}|\d{1,10})"
_REST = rf"[^\s<>(){_QUOTE}]*"
_ADDRESS = re.compile(
    rf"""
      [a-z][a-z0-9+.-]{{0,19}}://[{_QUOTE}]?[^\s<>(){_QUOTE}]{_REST}        # with a scheme
    | https?:(?:[/\\]+[{_QUOTE}]?|[{_QUOTE}])[^\s<>(){_QUOTE}]{_REST}       # browsers do not count the slashes
    | //(?:[\w-]+\.|\[[0-9a-f:]+\])[^\s<>(){_QUOTE}]{_REST}                # with the scheme of the page around it
    | (?<![a-z0-9.-])www\.[{_QUOTE}]?[^\s<>(){_QUOTE}]{_REST}
    | (?<![\w.+-])[\w.+-]++@[{_QUOTE}]?[\w-]+(?:\.[\w-]+)*                 # a mail address
    | (?<=[!\#$%&*=?^|{{}}~){_QUOTE}])@{_LABEL}++{_TOP}                     # one with a quoted local part
    | (?<![\s/])@\[[0-9a-f.:]*(?:ipv6)?[0-9a-f.:]*\]                        # one with a number as its host
    | (?<![\w/\\-])(?<![\w/\\+-][.@]){_LABEL}++{_TOP}[{_QUOTE}]?(?:[/?\#\\]|:\d){_REST}  # a host with a path or a port
    | (?<![\w./\\-]){_BYTE}(?:\.{_BYTE}){{3}}(?:[/?\#]|:\d){_REST}          # a number with a path or a port
    | (?<![\w\])])\[(?=[0-9a-f.]*:[0-9a-f.]*:)[0-9a-f:.]+\](?:[/?\#]|:\d){_REST}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_INVISIBLE = str.maketrans(dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_PUBLIC_PAGE = re.compile(
    r"(?:https?://)?(?:[a-z0-9-]+\.)+(?!(?:local|localhost|localdomain|internal|intranet|lan|home|corp)\b)[a-z]{2,24}"
    r"(?::\d+)?(?:[/?#]\S*)?",
    re.IGNORECASE | re.ASCII,
)
_BEFORE = re.compile(r"[\w/\\@.+%&~*-]")
_AFTER = re.compile(r"[\w/\\@+&=#~*-]|[.,:;?!]\w")
"""Characters beside a value that make it a part of a longer word, path, address or number."""
_LONGER = re.compile(r"[\w/\\@+&=#~*%$|^-]|[.,:;?!()\[\]{}']{4}|[.,:;?!()\[\]{}']+[\w/\\@+&=#~*%$|^-]")
"""What follows a destination that is the beginning of a longer one; up to three signs end a sentence."""
_OUTSIDE = ("/", "\\")
_BORDERS = (" ", "\n", "\t", "\r", '"', "<", ">", "`", "\0")
MAX_LOOKBACK = 2_000
"""Characters before a destination in which the beginning of a longer one is searched."""
_FOLDED_HOST = re.compile(
    r"""
      (?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,19}://(?:[^\s/?\#"<>\\@]*+@)*+)([^\s/?\#"<>\\@]*+)([^\s"<>]*+)
    | (?<![^\s"'<>(),;:`])((?:mailto:)?[\w.+-]++@)((?:[\w-]++\.)++[\w-]++)(?![\w/\\@-])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_RUN_ON = re.compile(
    r"((?:https?://|(?<![\w.-])www\.|(?<![\w.+-])[\w.+-]++@)(?:[a-z0-9-]++\.){2,}+)(?=[A-Z][a-z]++\s)", re.ASCII
)
"""A host at the end of a sentence, without a blank before the next one: `www.our-company.com.They sent`."""
_WORDS = re.compile(r"(?:[^\W\d_]|[\s,'-])*")
_ENDS = ".,:;!?"
"""Signs after an address that end a sentence."""
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\[nrt]")


_DATE = re.compile(r"(\d{4}-(\d\d)-(\d\d))(?:[ t]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|[+-]\d\d:?\d\d)?)?")
"""A date of ISO 8601, with or without a time, in normalized text."""
_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTHS.split())


class Texts:
    """Texts that are normalized when a value is first searched in them."""

    def __init__(self) -> None:
        self._new: list[Callable[[], str]] = []
        self._originals: list[Callable[[], str]] = []
        self._normalized: list[str] = []
        self._unread: list[Callable[[], str]] = []
        self._exact: list[str] = []

    def add(self, text: str, prepare: Callable[[str], str] = str) -> None:
        """Add a text; `prepare` is applied to it first."""
        read = partial(prepare, text)
        self._new.append(read)
        self._unread.append(read)

    def add_result(self, message: Message) -> None:
        """Add the text of a tool message, in which JSON may have escaped line breaks."""
        self._new.append(lambda: _ESCAPED_SPACE.sub(" ", text_of(message)))
        self._unread.append(lambda: _decode(text_of(message)))

    def contain(self, value: Value) -> bool:
        """Return whether one of the texts contains a value as a whole."""
        spellings = spell(value)
        return any(find_token(spelling, text) >= 0 for text in self.read() for spelling in spellings)

    def contain_exactly(self, value: Value) -> bool:
        """Return whether one of the texts contains a destination as a whole, letter by letter but for its host."""
        if not isinstance(value, str):
            return self.contain(value)
        if not value or value != value.strip() or "\0" in value:
            return False
        unread = self._unread
        self._unread = []
        self._exact += [fold_hosts(form) for read in unread for form in _iterate_readings(read())]
        wanted = fold_hosts(value)
        return any(_has_destination(wanted, text) for text in self._exact)

    def find_passage(self, value: Value) -> str:
        """Return a value with the characters around it in the first text that contains it, secrets masked; else ""."""
        spellings = spell(value)
        for text, original in zip(self.read(), self._originals, strict=True):
            if any(find_token(spelling, text) >= 0 for spelling in spellings):
                return _find_passage(normalize(mask(original())), spell(mask_data(value))) or "***"
        return ""

    def read(self) -> Sequence[str]:
        """Return the normalized texts."""
        new = self._new
        self._new = []
        self._originals += new
        self._normalized += [normalize(read()) for read in new]
        return self._normalized


def iterate_values(arguments: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield the values of a call that need an origin, with their places in the arguments.

    Booleans and null need none.  Neither do the names of a tool's own parameters and fields, and a parameter's own
    choices and defaults.
    """
    data = parse_json(arguments)  # a text in a history from elsewhere
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
            end = start + min(len(spelling), MAX_PASSAGE_VALUE_CHARS)
            first = max(0, start - PASSAGE_CHARS)
            last = min(len(text), end + PASSAGE_CHARS)
            return f"{'... ' if first else ''}{text[first:last].strip()}{' ...' if last < len(text) else ''}"
    return ""


def find_addresses(text: str) -> list[str]:
    """Return the web and mail addresses in a text, each once; full-width letters and dots count as ASCII."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\N{IDEOGRAPHIC FULL STOP}", ".").translate(_INVISIBLE)
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


def _has_destination(wanted: str, text: str) -> bool:
    """Return whether a text contains a destination that is no part of a longer one."""
    start = -1
    for _ in range(MAX_COMPARED_CHARS // len(wanted)):
        if (start := text.find(wanted, start + 1)) < 0:
            return False
        if not (
            _BEFORE.match(text[start - 1 : start])
            or _LONGER.match(text, start + len(wanted))
            or _is_within_address(text, start)
        ):
            return True
    return False


def _is_within_address(text: str, start: int) -> bool:
    """Return whether the word that ends at a place contains a slash: `https://a.example/?to=` before an address."""
    first = max(0, start - MAX_LOOKBACK)
    begin = max(text.rfind(sign, first, start) for sign in _BORDERS)
    return any(text.rfind(sign, first, start) > begin for sign in _OUTSIDE)


def _iterate_readings(text: str) -> Iterator[str]:
    """Yield a text, and again with a blank between sentences where one ends with a host and lacks it."""
    yield text
    if (split := _RUN_ON.sub(r"\1 ", text)) != text:
        yield split


def _decode(text: str) -> str:
    """Return the texts and numbers in JSON data, between characters that occur in no value; else the text as it is."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return "\0".join(str(value) for _, value in iterate_leaves(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def fold_hosts(text: str) -> str:
    """Return a text with the hosts of its web and mail addresses in lower case, and all else as it is."""
    return _FOLDED_HOST.sub(_fold_host, text) if "://" in text or "@" in text else text


def _fold_host(match: re.Match[str]) -> str:
    before, host, after, name, domain = match.groups("")
    folded = (host + domain).encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    return f"{before}{name}{folded}{after}"  # bytes have ASCII letters alone


def spell_exactly(value: Value) -> set[str]:
    """Return the forms in which a trusted field may be a destination."""
    return {fold_hosts(value)} if isinstance(value, str) else spell(value)


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
    date = match[1]
    month = int(match[2])
    day = int(match[3])
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


_TRUSTED_DATA = TRUSTED.as_dict()


@dataclass
class Origins:
    """The trusted and untrusted texts of a conversation, by their labels, read message by message.

    Trusted are the texts of the developer, of the user and of trusted results.  A result whose label names sources was
    returned after these were read, by a tool that is not declared as trusted, which may have stored their values.  It
    makes a value trusted only if no untrusted text contains that value.

    `outer` is the call of another agent that encloses this conversation.  What that agent trusts is trusted here, its
    untrusted sources count as read, and a query without a label has the label of the call's arguments.
    """

    history: Sequence[Message]
    outer: "EnclosingCall | None" = None
    _read: int = 0
    _last: Message | None = None
    _label: Label = DEVELOPER
    _untrusted: dict[str, Texts] = field(default_factory=dict)
    _trusted: Texts = field(default_factory=Texts)
    _repeating: Texts = field(default_factory=Texts)
    """The texts of trusted results that may repeat untrusted values."""
    _names: tuple[int, dict[str, str]] = 0, {}
    """A number of messages, and the tools of the calls in them, by call id."""
    _answers: Label = DEVELOPER
    """The joined label of the values of answers; their messages, whose text is fixed, do not have them."""
    _vouched: set[str] = field(default_factory=set)
    """The values of trusted fields of untrusted results; a part of one is not trusted."""
    _vouched_exactly: set[str] = field(default_factory=set)
    """The same, as destinations."""

    def doubt(self, arguments: str, tool: JsonTool[..., Any], untrusted: Sequence[UntrustedValue]) -> str:
        """Return why a call with these untrusted values needs approval; "" if it needs none.

        A value is trusted if one trusted text contains it as a whole and verbatim, except for ASCII case, white space
        and the notation of numbers; a destination except for the case of its host.  Booleans, null, and the words of
        the parameter's own schema (choices, defaults, names of fields) need no origin; but a call without any other
        value needs approval.
        """
        if not self.sources():
            return ""
        if untrusted:
            return f"{self.introduce()}, and neither the user nor a trusted result says this: {describe(untrusted)}"
        if tool.effect == "read" or any(iterate_values(arguments, tool.parameters)):
            return ""
        return f"{self.introduce()}, and no argument of the call shows that it was asked for"

    def find_untrusted(self, arguments: str, tool: JsonTool[..., Any]) -> tuple[UntrustedValue, ...]:
        """Return the values of a call that need a decision, with their origins; none if nothing untrusted was read.

        A destination and a plain value need one unless they are trusted.  Content may be untrusted in a call with a
        trusted destination and in a read without any, except for the addresses in it.  In another call without a
        destination it needs one if it stands in an untrusted text, or if no value of the call is trusted.
        """
        if not self.sources():
            return ()
        values = [
            (where, value, self._knows_as(role, value), role)
            for where, value in iterate_values(arguments, tool.parameters)
            for role in [find_role(tool, where)]
        ]
        places = [known for _, _, known, role in values if isinstance(role, Destination)]
        is_directed = any(places) or (tool.effect == "read" and not places)  # what a read asks is fixed by its tool
        is_local = not places and any(known for _, _, known, _ in values)
        found: list[UntrustedValue] = []
        for where, value, known, role in values:
            if known:
                continue
            traced = self._trace(where, value, is_destination=isinstance(role, Destination))
            if isinstance(role, Content) and is_directed:
                unknown = self.find_unknown_addresses(str(value))
                found += (self._trace(where, one, is_destination=True) for one in unknown)
            elif not isinstance(role, Content) or not is_local or traced.origin:
                found.append(traced)
        return tuple(found)

    def introduce(self) -> str:
        """Return the beginning of a reason."""
        return f"text from outside ({', '.join(self.sources())}) has been read"

    def sources(self) -> tuple[str, ...]:
        """Return the names of the untrusted sources that have been read, those of enclosing agents first."""
        outer = self.outer.origins.sources() if self.outer else ()
        own = self.label.sources if self.label.is_untrusted else ()
        return tuple(dict.fromkeys((*outer, *own))) if outer else own

    def kept(self) -> tuple[str, ...]:
        """Return the names of the tools that may have kept what untrusted sources wrote."""
        outer = self.outer.origins.kept() if self.outer else ()
        own = self.label.kept if self.label.is_untrusted else ()
        return tuple(dict.fromkeys((*outer, *own))) if outer else own

    @property
    def label(self) -> Label:
        """The joined label of this conversation's messages."""
        length = len(self.history)
        if is_rearranged(self.history, self._read, self._last):
            self._read = 0
            self._label = DEVELOPER
            self._untrusted = {}
            self._trusted = Texts()
            self._repeating = Texts()
            self._vouched = set()
            self._vouched_exactly = set()
        if length > self._read:
            for message in self.history[self._read :]:
                if message.get("label") == _TRUSTED_DATA:
                    self._trusted.add_result(message)
                elif "label" in message or message["role"] != "assistant":
                    self._take(message)
            self._read = length
            self._last = self.history[-1]
        return self._label

    @property
    def whole_label(self) -> Label:
        """The joined label of this conversation's messages and of the values of its answers."""
        return self.label.join(self._answers)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing untrusted, and nothing with limited readers, was read here or around this run."""
        return self.label is DEVELOPER and self.outer is None

    @property
    def readers(self) -> tuple[str, ...] | None:
        """Who may read all that was read here and around this run; None for everyone."""
        return join_readers(self.label.readers, None if self.outer is None else self.outer.origins.readers)

    def label_inputs(self, arguments: str, tool: JsonTool[..., Any] | None) -> Label:
        """Return the label of a call's arguments; without a tool the call cannot run, and its result may quote it."""
        sources = self.sources()
        readers = self.readers
        if not sources:
            return TRUSTED if readers is None else Label("trusted", (), readers)
        if tool is None or not all(self._knows_input(value) for _, value in iterate_values(arguments, {})):
            return Label("untrusted", sources, readers, kept=self.kept())
        if tool.trust == "trusted":
            return Label("trusted", (), readers)
        kept = self.kept()
        return Label("untrusted" if kept else "trusted", sources, readers, kept=kept)

    def knows(self, value: Value) -> bool:
        """Return whether a value is trusted; one of ASCII punctuation alone, such as `/` and `*`, stands anywhere."""
        if _is_punctuation(value):
            return False
        if self._trusted.contain(value) or (self.outer is not None and self.outer.origins.knows(value)):
            return True
        if not self._vouched.isdisjoint(spell(value)):
            return True
        return self._repeating.contain(value) and not self._is_untrusted(value)

    def knows_exactly(self, value: Value) -> bool:
        """Return whether a value is trusted as a destination: letter by letter, but for the case of its host."""
        if _is_punctuation(value):
            return False
        if self._trusted.contain_exactly(value) or (self.outer is not None and self.outer.origins.knows_exactly(value)):
            return True
        if not self._vouched_exactly.isdisjoint(spell_exactly(value)):
            return True
        return self._repeating.contain_exactly(value) and not self._is_untrusted(value)

    def find_unknown_addresses(self, text: str) -> list[str]:
        """Return the web and mail addresses in a text that are not trusted, without the end of their sentence."""
        addresses = (address.rstrip(_ENDS) for address in find_addresses(text))
        return [address for address in dict.fromkeys(addresses) if not self.knows_exactly(address)]

    def _knows_as(self, role: Role, value: Value) -> bool:
        return self.knows_exactly(value) if isinstance(role, Destination) else self.knows(value)

    def _knows_input(self, value: Value) -> bool:
        """Return whether a value gives a tool nothing that it could repeat as a destination: a name may be folded."""
        return self.knows_exactly(value) or (_is_words(value) and self.knows(value))

    @property
    def has_extracts(self) -> bool:
        """Whether results were read that may repeat untrusted values, such as the answer of an extract."""
        self.sources()  # reads new messages
        return bool(self._repeating.read())

    def may_repeat(self, value: Value) -> bool:
        """Return whether results that may repeat untrusted values were read, and no other text has this value."""
        return self.has_extracts and not self._trusted.contain(value)

    def may_repeat_exactly(self, value: Value) -> bool:
        """Return the same for a destination, which another text must have letter by letter."""
        return self.has_extracts and not self._trusted.contain_exactly(value)

    def is_made_of_repeated(self, value: str) -> bool:
        """Return whether a text is nothing but short results that may repeat untrusted values, put together.

        A text that a trusted one contains is not.
        """
        if not self.may_repeat(value):
            return False
        left = normalize(value)
        pieces = {text.strip("\"' ") for text in self._repeating.read() if len(text) <= MAX_PIECE_CHARS}
        for piece in sorted(pieces - {""}, key=len, reverse=True):
            left = left.replace(piece, " ")
        return not any(map(str.isalnum, left))

    def _is_untrusted(self, value: Value) -> bool:
        return any(texts.contain(value) for texts in self._iterate_untrusted())

    def _iterate_untrusted(self) -> Iterator[Texts]:
        yield from self._untrusted.values()
        if self.outer is not None:
            yield from self.outer.origins._iterate_untrusted()

    def _take(self, message: Message) -> None:
        """Read one message; the model's own are nothing that it could refer to."""
        label = label_of(message)
        if message["role"] == "tool" and message.get("content") == ANSWER_RESULT:
            self._answers = self._answers.join(label)
            return
        if message["role"] == "assistant":
            self._label = self._label.join(label)
            self._take_provider_calls(message)
            return
        if message["role"] == "user" and self.outer is not None and "label" not in message:
            label = self.outer.origin.inputs
        if label.is_untrusted:
            if label is UNKNOWN:
                label = Label.untrusted(self._name_source(message))
            text = self._untrusted.setdefault(label.sources[0], Texts())
            text.add(text_of(message), remove_delimiters)
            self._vouched.update(spelling for value in label.vouched for spelling in spell(value))
            self._vouched_exactly.update(spelling for value in label.vouched for spelling in spell_exactly(value))
        elif message["role"] == "tool":
            (self._repeating if label.sources or label.kept else self._trusted).add_result(message)
        else:
            (self._repeating if label.sources or label.kept else self._trusted).add(text_of(message))
        if label.is_untrusted or label.readers is not None:
            self._label = self._label.join(label)

    def _take_provider_calls(self, message: Message) -> None:
        """Take a reply as untrusted, its calls included, if a tool of the provider read texts of others for it."""
        for name in list_reading_steps(message):
            texts = self._untrusted.setdefault(name, Texts())
            steps = message["provider_calls"]
            found = [source for step in steps for source in step.get("sources", ())] + (message.get("citations") or [])
            written = [value for entry in found for value in entry.values()]
            for text in (text_of(message), *(call.arguments for call in calls_of(message)), *written):
                texts.add(text)

    def _name_source(self, message: Message) -> str:
        """Return the tool of an unlabelled result: the call with its id decides, not the name in the message."""
        length, names = self._names
        if length != len(self.history):
            names = tool_names(self.history)
            self._names = len(self.history), names
        return names.get(message.get("tool_call_id", "")) or message.get("name") or UNKNOWN_SOURCE

    def _trace(self, where: str, value: Value, *, is_destination: bool) -> UntrustedValue:
        """Return the value with the first untrusted text that contains it, of this run or of an enclosing one."""
        for name, texts in self._untrusted.items():
            if passage := texts.find_passage(value):
                return UntrustedValue(where, value, name, passage, is_destination)
        if self.outer is not None:
            return self.outer.origins._trace(where, value, is_destination=is_destination)
        return UntrustedValue(where, value, is_destination=is_destination)


def _is_punctuation(value: Value) -> bool:
    return isinstance(value, str) and value.isascii() and not any(map(str.isalnum, value))


def _is_words(value: Value) -> bool:
    """Return whether a value is words or a date: nothing that is an address, a path or a code."""
    return not isinstance(value, str) or bool(_WORDS.fullmatch(value) or _DATE.fullmatch(normalize(value)))


def list_reading_steps(message: Message) -> list[str]:
    """Return the names of the provider's tools that read texts of others for a reply; running code reads none."""
    return [step["name"] for step in message.get("provider_calls") or () if "code" not in step["name"]]


def is_rearranged(history: Sequence[Message], read: int, last: Message | None) -> bool:
    """Return whether the `read` messages, `last` at their end, are not the first ones any more.

    When a paused turn continues, its further results are sorted in before those that it had.
    """
    return len(history) < read or (read > 0 and history[read - 1] is not last)


def name_keeper(tool: JsonTool[..., Any]) -> str:
    """Return the name of a tool that may keep untrusted values, which any tool may return later; "" for others."""
    return tool.name if tool.trust != "trusted" and may_have_effect(tool) else ""


def describe(untrusted: Sequence[UntrustedValue]) -> str:
    """Return the values with their places and origins."""
    shown = []
    for entry in untrusted:
        value = truncate(mask(json.dumps(entry.value, ensure_ascii=False)), MAX_PASSAGE_VALUE_CHARS)
        origin = f'(from {entry.origin}: "{entry.passage}")' if entry.origin else "(written by the model)"
        shown.append(f"{entry.where} = {value} {origin}")
    return "; ".join(shown)


@frozen(slots=False)
class EnclosingCall:
    """The tool call that encloses a run: the origins of its conversation, and the origin of its result.

    `is_strict` makes every consequential call in the run wait.
    """

    origins: Origins
    origin: CallOrigin
    is_strict: bool = False
