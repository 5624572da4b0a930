"""Mask secrets in logs, errors and files: known secret values, and texts with the form of a key, become `***`.

Known are the values of environment variables named `*_KEY`, `*_TOKEN`, `*_SECRET` or `*_PASSWORD`, the keys that models
get as options, for as long as a model has them, and the values passed to `hide`.  A value counts as secret by its name
if it has at least 8 characters, and is neither a plain word ("disabled") nor the path of an existing file; values that
`hide` received always count.

Requests to models and arguments of tools are data and are not masked.  Of a text that arrives in pieces, no part of a
secret is shown before the rest has arrived.

A known secret is masked in Python, JSON, HTML, URLs, hexadecimal digits and base64 too, there also over several lines.
"""

import html
import json
import os
import re
import string
from base64 import b64encode
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache, partial
from itertools import accumulate, chain
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit
from weakref import ref

from .values import frozen

MIN_ENCODED_BYTES = 6
"""The fewest bytes of a secret that is masked in base64 and hexadecimal digits too; shorter ones occur by chance."""
MAX_ESCAPED_CHARS = 500
"""Characters of a secret that are masked with any of them escaped."""
MIN_SECRET_CHARS = 8
"""The fewest characters of a value that counts as secret by its name."""
MAX_SECRET_CHARS = 5_000
"""Characters masked beyond the place where a text is truncated: a truncated secret would no longer match."""

_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_AUTHORIZATION")
_WORD = re.compile(r"[A-Za-z][a-z]{,14}|[A-Z]{,15}")
_PATH = re.compile(r"[/~.\\]|[A-Za-z]:\\")
HIDDEN_VALUES: set[str] = set()
"""The values that `hide` received."""
MAX_RELEASED_SECRETS = 100
"""Secrets of settings that stay known when the last of these is gone: an error or a result may still have them."""
MAX_TRIED_SPELLINGS = 250
"""Spellings that are looked for one by one; of more, those are of which a text has the first letters."""
_HEAD_CHARS = 4
_PART_CHARS = 50_000

_KEYS = re.compile(
    r"""(?<!(?<!\\)[A-Za-z0-9])  # not inside a word or base64; but behind the "n" of a "\n" in JSON
    (?: sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,}            # OpenAI, Anthropic, DeepSeek, OpenRouter
      | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}                      # Stripe
      | AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,}          # Google
      | gh[pousr]_[A-Za-z0-9]{30,} | github_pat_[A-Za-z0-9_]{22,} | glpat-[A-Za-z0-9_-]{20,}
      | (?:hf|gsk|npm|r8)_[A-Za-z0-9]{30,}                        # Hugging Face, Groq, npm, Replicate
      | (?:xai|pplx|tvly)-[A-Za-z0-9-]{30,}                       # xAI, Perplexity, Tavily
      | xox[abeoprs]-[A-Za-z0-9-]{10,}                            # Slack
      | A(?:KIA|SIA)[A-Z0-9]{16}                                  # AWS
      | (?<![_-])eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*)?  # JSON web tokens
      | (?P<bearer>[Bb]earer[ ])[A-Za-z0-9._~+/-]{20,}=*
    )
    | (?:(?<=://)|(?<=:\\/\\/))(?P<user>[^\s/@:?#"'<>\\]{0,100}:)  # the password in a URL, which may have an "@"
      [^\s/@"'<>\\]{1,500}+(?:@[^\s/@?#"'<>\\]{1,500}+(?=@)){0,9}(?=@)
    | (?P<begin>-----BEGIN[ ][A-Z ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)
      (?: (?:[^-]|-(?!----))*+(?P<end>-----END[ ][A-Z ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)
        | (?:(?:\s|\\++[nr])*+[A-Za-z0-9+/]{32,}+=*+)++           # a truncated one
      )
    """,
    re.VERBOSE,
)
_KEY_MARKS = (
    *("sk-", "k_live_", "k_test_", "AIza", "ya29.", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("hf_", "gsk_", "npm_", "r8_", "xai-", "pplx-", "tvly-", "xox", "AKIA", "ASIA", "eyJ", "earer ", "-----BEGIN"),
)
"""One of these is in every text with the form of a key, but for a password in a URL; each is the same in JSON."""
_MIN_KEY_CHARS = len("://:x@")
"""The shortest text with the form of a key: a password in a URL."""
_REPLACEMENT = r"\g<bearer>\g<user>\g<begin>***\g<end>"
_SCHEME = re.compile(r"(?:basic|bearer|digest|negotiate|token|apikey) +(\S+)", re.IGNORECASE)
"""The value of an Authorization header: the scheme is no secret."""
_JSON_LEVELS = 3
"""How often a text is looked for inside JSON: in JSON, in a text in JSON that is itself JSON, and once more."""


def hide(*values: str) -> None:
    """Mask `values` in logs, errors and files from now on; shorter ones than 4 characters are ignored."""
    HIDDEN_VALUES.update(value for value in values if len(value) >= 4)


def hide_named(settings: Mapping[str, Any]) -> None:
    """Hide the values in `settings`, and in what is inside, that have the name of a secret.

    Inside are mappings, lists, pairs of a name and a value, the parameters of web addresses, and cookies.
    """
    hide(*_find_secrets("", settings))


def _find_secrets(name: str, value: Any) -> Iterator[str]:
    """Yield the secrets in a setting and in what is inside."""
    is_cookie = name.replace("-", "_").upper().endswith(("COOKIE", "COOKIES"))
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _find_secrets("cookie" if is_cookie else str(key), part)
    elif isinstance(value, list | tuple | set | frozenset):
        if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str):  # a header or a field
            yield from _find_secrets(value[0], value[1])
        for part in value:
            yield from _find_secrets(name, part)
    elif isinstance(value, bytes):
        yield from _find_secrets(name, value.decode(errors="replace"))
    elif isinstance(value, str) and is_cookie:
        yield from filter(_is_secret, (part.strip().partition("=")[2] or part.strip() for part in value.split(";")))
    elif isinstance(value, str | int) and not isinstance(value, bool) and _is_named(name):
        found = _SCHEME.fullmatch(str(value))
        yield from filter(_is_secret, [found[1] if found else str(value)])
    elif isinstance(value, str) and "?" in value and "=" in value:
        with suppress(ValueError):
            for key, part in parse_qsl(urlsplit(value).query):
                yield from _find_secrets(key, part)


class HeldSecret:
    """A secret of settings: it is known while one of them holds this, and while it is one of the last ones."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: str) -> None:
        self.value = value

    def __reduce__(self) -> Any:  # also of a copy, which is the same object
        return hold_secret, (self.value,)


_HELD: dict[str, "ref[HeldSecret]"] = {}
_LAST_HELD: deque[HeldSecret] = deque(maxlen=MAX_RELEASED_SECRETS)
_HOLDING = RLock()  # a release may come at any place, also where a secret is held


def hold_secret(value: str) -> HeldSecret:
    """Mask a secret for as long as the object that is returned is kept, and until 100 others were held."""
    with _HOLDING:
        known = _HELD.get(value)
        held = known() if known is not None else None
        if held is None:
            held = HeldSecret(value)
            _HELD[value] = ref(held, partial(_release, value))
        _LAST_HELD.append(held)
    return held


def _release(
    value: str,
    known: "ref[HeldSecret]",
    *,
    all_held: dict[str, "ref[HeldSecret]"] = _HELD,  # bound here: at the end of the process the names are gone
    holding: Any = _HOLDING,
) -> None:
    with holding:
        if all_held.get(value) is known:
            del all_held[value]


def mask(text: str) -> str:
    """Mask every known secret in `text` (verbatim, in JSON or in a URL), and everything with the form of a key."""
    return _mask_text(text, _known_secrets())


def mask_pieces(pieces: Sequence[str]) -> list[str]:
    """Mask the pieces of one text, also where a secret is spread over several of them."""
    whole = "".join(pieces)
    if (masked := mask(whole)) == whole:
        return [*pieces]
    ends = [*accumulate(map(len, pieces[:-1])), len(masked)]
    return [masked[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def mask_data(data: Any) -> Any:
    """Mask the texts, numbers and keys of JSON data; data without a secret is returned as the same object.

    Mask data before it is written as JSON: the text of a secret in JSON can differ from the secret.
    """
    return _mask_value(data, _known_secrets())


def mask_json(texts: Iterable[str]) -> Iterator[str]:
    """Mask the data in each of several JSON texts as `mask_data` does; the secrets are looked up once for all of them.

    A text that cannot have a secret is returned as it is, unread.  The texts are as `json.dumps` writes them.
    """
    known = _known_secrets()
    written = tuple(json.dumps(secret, ensure_ascii=False)[1:-1] for secret in known.texts)
    return (_mask_json_text(text, known) if _may_have_secret(text, known, written) else text for text in texts)


def mask_exception(error: BaseException, *, outer: BaseException | None = None) -> None:
    """Mask the texts, notes and attributes of `error` and of its causes, in place.

    An attribute that shows a secret and is not plain data, a request with its headers, say, becomes None.  Neither
    `outer`, an exception that was already being handled, nor its causes are changed.
    """
    known = _known_secrets()
    for link in iterate_causes(error, outer):
        link.args = tuple(_mask_argument(part, known) for part in link.args)
        for name, value in list(vars(link).items()):
            if not isinstance(value, BaseException):
                vars(link)[name] = _mask_value(value, known) if _is_plain(value) else _drop_if_secret(value, known)
        for name in ("strerror", "filename", "msg"):  # kept beside `args` by OSError, ImportError and SyntaxError
            if isinstance(text := getattr(link, name, None), str):
                with suppress(AttributeError):
                    setattr(link, name, _mask_text(text, known))


def iterate_causes(error: BaseException | None, outer: BaseException | None = None) -> Iterator[BaseException]:
    """Yield an exception and, recursively, its causes, members and attributes that are exceptions; except `outer`."""
    seen: set[int] = {id(outer)}
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            waiting += [link.__cause__, link.__context__]
            waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
            waiting += [value for value in vars(link).values() if isinstance(value, BaseException)]
            yield link


class MaskedDict(dict[str, Any]):
    """A dict whose `repr` masks secrets; values with the name of a secret are hidden everywhere while it is kept.

    After that they are hidden until 100 other values were held: a server may make agents with the keys of its users.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._held = tuple(map(hold_secret, _find_secrets("", settings)))

    def __repr__(self) -> str:
        return mask(super().__repr__())


def masked_repr(value: Any) -> str:
    """Return the `repr` of a dataclass, its secrets masked."""
    shown = (f"{entry.name}={getattr(value, entry.name)!r}" for entry in fields(value) if entry.repr)
    return mask(f"{type(value).__qualname__}({', '.join(shown)})")


@frozen
class _Secrets:
    """The known secrets.

    Attributes:
        texts: All spellings, the longest first.
        heads: The spellings by their first letters, if they are many; short ones by "".
        numbers: Those of them that are numbers.
        spaced: Those with blanks or other letters than ASCII, at which a stream could be cut.
        plain: As they are, the longest first, for spellings with any of the letters escaped.
    """

    texts: tuple[str, ...]
    heads: Mapping[str, Sequence[str]]
    numbers: frozenset[str]
    spaced: tuple[str, ...]
    plain: tuple[str, ...]


def _mask_text(text: str, known: _Secrets) -> str:
    for secret in _list_texts(text, known):
        text = text.replace(secret, "***")  # faster than a regular expression of them all
    for pattern in _list_patterns(text, known):
        text = pattern.sub("***", text)
    if len(text) < _MIN_KEY_CHARS or not _KEYS.search(text):
        return text
    return _KEYS.sub(_REPLACEMENT, text)


def _list_texts(text: str, known: _Secrets) -> Sequence[str]:
    """Return the spellings that a text may have, the longest first: all of them, or of many those whose head it has."""
    if not known.heads:
        return known.texts
    heads = {""}
    for start in range(0, len(text), _PART_CHARS):
        part = text[start : start + _PART_CHARS + _HEAD_CHARS - 1]
        heads |= known.heads.keys() & {part[place : place + _HEAD_CHARS] for place in range(len(part))}
    return sorted(chain.from_iterable(known.heads.get(head, ()) for head in heads), key=len, reverse=True)


def _list_patterns(text: str, known: _Secrets) -> list[re.Pattern[str]]:
    """Return the expressions for spellings of the known secrets that a text may have and the list of texts lacks."""
    patterns = [*map(_escaped, known.plain)] if any(mark in text for mark in _ESCAPES) else []
    if known.plain and _WRAPPED.search(text):
        patterns += map(_wrapped, known.plain)
    return patterns


def find_secret(text: str, place: int) -> tuple[int, int]:
    """Return the begin and the end of the secret around a place where a text is cut; twice the place without one."""
    known = _known_secrets()
    first = max(0, place - MAX_SECRET_CHARS)
    window = text[first : place + MAX_SECRET_CHARS]
    middle = place - first
    spans = [(middle, middle)]
    for form in _list_texts(window, known):
        begin = window.find(form, max(0, middle - len(form) + 1), middle + len(form) - 1)
        spans += [(begin, begin + len(form))] if begin >= 0 else []
    for pattern in [*_list_patterns(window, known), _KEYS]:
        spans += [found.span() for found in pattern.finditer(window) if found.start() < middle < found.end()]
    return first + min(begin for begin, _ in spans), first + max(end for _, end in spans)


def _mask_json_text(text: str, known: _Secrets) -> str:
    data = json.loads(text)
    masked = _mask_value(data, known)
    return text if masked is data else json.dumps(masked, ensure_ascii=False)


def _may_have_secret(text: str, known: _Secrets, written: Sequence[str]) -> bool:
    """Whether the data of a JSON text may have a secret; `written` are the known secrets' texts in JSON."""
    for mark in _KEY_MARKS:  # faster than a regular expression of them all
        if mark in text:
            return True
    if "@" in text and ("://" in text or "\\/" in text):
        return True
    for secret in written:
        if secret in text:
            return True
    return bool(_list_patterns(text, known))


def _mask_value(data: Any, known: _Secrets) -> Any:
    if isinstance(data, str):
        masked = _mask_text(data, known)
        return data if masked == data else masked
    if isinstance(data, dict):
        return _mask_object(data, known)
    if isinstance(data, int | float):
        return "***" if known.numbers and str(data) in known.numbers else data
    if isinstance(data, list | tuple):
        members = [_mask_value(member, known) for member in data]
        same = all(old is new for old, new in zip(data, members, strict=True))
        return data if same else type(data)(members)
    return data


def _mask_object(data: dict[Any, Any], known: _Secrets) -> dict[Any, Any]:
    changed: dict[Any, Any] = {}
    is_same = True
    for key, value in data.items():
        masked = _mask_value(key, known)
        entry = _mask_value(value, known)
        is_same = is_same and masked is key and entry is value
        name = masked
        number = 1
        while name in changed:  # two keys that are secrets
            number += 1
            name = f"{masked} ({number})"
        changed[name] = entry
    return data if is_same else changed


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list | dict) or type(value) is tuple


def _mask_argument(part: Any, known: _Secrets) -> Any:
    """Mask an argument of an exception; an object that shows a secret becomes its masked `repr`."""
    if _is_plain(part) or isinstance(part, BaseException):
        return _mask_value(part, known)
    return part if _drop_if_secret(part, known) is part else _mask_text(repr(part), known)


def _drop_if_secret(value: Any, known: _Secrets) -> Any:
    """Return the object, or None if its `repr`, URL or headers, or those of its request, show a secret."""
    try:
        for held in (value, getattr(value, "request", None)):
            shown = (repr(held), str(getattr(held, "url", "")), str(dict(getattr(held, "headers", None) or {})))
            if any(_mask_text(text, known) != text for text in shown):
                return None
    except Exception:  # of a foreign class
        return None
    return value


def _known_secrets() -> _Secrets:
    values = tuple(os.environ.get(name, "") for name in os.environ if _is_named(name))
    return _spellings(values, frozenset(HIDDEN_VALUES).union(_HELD))


@lru_cache(maxsize=512)
def _is_named(name: str) -> bool:
    return f"_{name}".replace("-", "_").upper().endswith(_NAMES)


@lru_cache(maxsize=64)
def _is_secret(value: str) -> bool:
    """Whether a value with the name of a secret is one: neither a plain word nor the path of an existing file."""
    if len(value) < MIN_SECRET_CHARS or _WORD.fullmatch(value):
        return False
    return not (_PATH.match(value) and os.path.exists(os.path.expanduser(value)))


@lru_cache(maxsize=4)
def _spellings(values: tuple[str, ...], hidden: frozenset[str]) -> _Secrets:
    """Return the known secrets in all their spellings, the longest first: one may be a part of another."""
    known = {*hidden, *filter(_is_secret, values)}
    forms = set(chain.from_iterable(map(_list_spellings, known)))
    ordered = tuple(sorted(filter(None, forms), key=len, reverse=True))
    heads = defaultdict[str, list[str]](list)
    for form in ordered if len(ordered) > MAX_TRIED_SPELLINGS else ():
        heads[form[:_HEAD_CHARS] if len(form) >= _HEAD_CHARS else ""].append(form)
    numbers = frozenset(form for form in forms if _NUMBER.fullmatch(form))
    spaced = tuple(form for form in ordered if form.strip(_KEY_CHARS))
    return _Secrets(ordered, heads, numbers, spaced, tuple(sorted(filter(None, known), key=len, reverse=True)))


@lru_cache(maxsize=512)
def _escaped(secret: str) -> re.Pattern[str]:
    """Return an expression for a secret in which any letter may be escaped, for a URL, for HTML or in JSON."""
    return re.compile("".join(map(_escaped_letter, secret[:MAX_ESCAPED_CHARS])))


@lru_cache(maxsize=512)
def _escaped_letter(letter: str) -> str:
    number = ord(letter)
    data = letter.encode("utf-8", "surrogatepass")
    forms = [re.escape(letter), f"(?i:{''.join(f'%(?:25){{0,3}}{byte:02x}' for byte in data)})"]
    forms += [f"&#0{{0,5}}{number};", f"(?i:&#x0{{0,5}}{number:x};)"]
    forms += [r"\+", "(?i:%(?:25){0,3}2b)"] if letter == " " else []
    forms += [re.escape(f"&{name}") for name in _ENTITIES.get(letter, ())]
    forms += [rf"\\\\{{0,7}}+(?:(?i:u{number:04x}){f'|{letter}' if letter in _JSON_ESCAPED else ''})"]
    forms += [rf"\\\\{{0,7}}+(?i:x{number:02x})"] if number < 256 else []
    forms += [f"(?i:{''.join(rf'{_BACKSLASHES}x{byte:02x}' for byte in data)})"] if len(data) > 1 else []
    return f"(?:{'|'.join(forms)})"


@lru_cache(maxsize=512)
def _wrapped(secret: str) -> re.Pattern[str]:
    """Return an expression for a secret in base64 with line breaks, as in MIME and PEM; one without breaks matches."""
    data = secret[:MAX_ESCAPED_CHARS].encode("utf-8", "surrogatepass")
    forms = [_encode_part(data, before, b"+/") for before in range(3)] if len(data) >= MIN_ENCODED_BYTES else []
    return re.compile("|".join(_LINE_BREAK.join(map(re.escape, form)) for form in forms) or "(?!)")


@lru_cache(maxsize=1024)
def _list_spellings(secret: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_iterate_spellings(secret)))


def _iterate_spellings(secret: str) -> Iterator[str]:
    """Yield a secret verbatim, without surrounding and with single blanks, in Python, in URLs and in nested JSON."""
    for text in {secret, secret.strip(), " ".join(secret.split())}:
        yield text
        yield repr(text)[1:-1]
        data = text.encode("utf-8", "surrogatepass")
        for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
            yield quoted
            yield _ESCAPE.sub(lambda found: found[0].lower(), quoted)
        yield html.escape(text)
        yield html.escape(text, quote=False)
        yield from _iterate_encodings(data)
        for is_ascii in (True, False):
            written = text
            for _ in range(_JSON_LEVELS):
                written = json.dumps(written, ensure_ascii=is_ascii)[1:-1]
                yield written


def _iterate_encodings(data: bytes) -> Iterator[str]:
    """Yield a secret in hexadecimal digits and base64, there also as a part of longer data."""
    if len(data) < MIN_ENCODED_BYTES:
        return
    yield data.hex()
    yield data.hex().upper()
    for altchars in (b"+/", b"-_"):
        whole = b64encode(data, altchars).decode()
        yield whole
        yield whole.rstrip("=")
        for before in range(3):
            yield _encode_part(data, before, altchars)


def _encode_part(data: bytes, before: int, altchars: bytes) -> str:
    """Return data behind other bytes in base64, without the letters in which other bytes have a part."""
    written = b64encode(b"\0" * before + data, altchars).decode()
    return written[-(-before * 4 // 3) : (before + len(data)) * 4 // 3]


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_ESCAPES = ("%", "&", "\\u", "\\x", "\\/")
"""One of these is in every text in which a secret has escapes that are not in its spellings."""
_BACKSLASHES = r"\\\\{0,7}+"
_WRAPPED = re.compile(r"[\\\r\n](?<=[A-Za-z0-9+/]{60}.)", re.DOTALL)
"""A line break behind as many letters as a line of base64 has at least."""
_LINE_BREAK = r"(?:(?:\\{1,8}+[rn]|[\r\n]){1,2}+[ \t]{0,40}+)?+"
_JSON_ESCAPED = ('"', "/")
"""What JSON may have behind a backslash and stands for itself."""
_ENTITIES = {"&": ("amp;",), "<": ("lt;",), ">": ("gt;",), '"': ("quot;",), "'": ("apos;",), "\xa0": ("nbsp;",)}


_KEY_CHARS = string.ascii_letters + string.digits + string.punctuation


class MaskedStream:
    """Masks a stream.  Withholds the last word, which may begin a secret, and a private key until it is complete.

    At most `MAX_SECRET_CHARS` are withheld.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add `piece` and return the masked text that can be shown."""
        text = self._held + piece
        cut = len(text.rstrip(_KEY_CHARS))
        if (begin := text.rfind("-----BEGIN")) >= 0:
            rest = text[begin:].split("-----", 4)[4:]  # after the dashes around BEGIN ... and END ...
            if not rest or len(text) - len(rest[0]) > cut:
                cut = min(cut, begin)
        cut = _cut_before_secret(text, cut)
        if len(text) - cut > MAX_SECRET_CHARS:
            text = mask(text)
            cut = len(text) - MAX_SECRET_CHARS // 2
        self._held = text[cut:]
        return mask(text[:cut])

    def flush(self) -> str:
        """Return the withheld text, masked, at the end of the stream."""
        text = self._held
        self._held = ""
        return mask(text)


def _cut_before_secret(text: str, cut: int) -> int:
    """Return the place, not behind `cut`, where a text can be cut without cutting a secret with blanks in it."""
    forms = _known_secrets().spaced
    earlier = -1
    while earlier != cut:
        earlier = cut
        for form in forms:
            first = max(0, cut - len(form) + 1)
            while (first := text.find(form[0], first, cut)) >= 0:
                if form.startswith(text[first : first + len(form)]):
                    cut = first
                    break
                first += 1
    return cut
