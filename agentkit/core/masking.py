"""Mask secrets in logs, errors and files: known secret values, and texts with the form of a key, become `***`.

Known are the values of environment variables named `*_KEY`, `*_TOKEN`, `*_SECRET` or `*_PASSWORD`, the keys that models
get as options, and the values passed to `hide`.  A value counts as secret by its name if it has at least 8 characters,
and is neither a plain word ("disabled") nor the path of an existing file; values passed to `hide` always count.

Requests to models and arguments of tools are data and are not masked.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import quote

MIN_SECRET_CHARS = 8
"""The fewest characters of a value that counts as secret by its name."""
MAX_SECRET_CHARS = 5_000
"""Characters masked beyond the place where a text is truncated: a truncated secret would no longer match."""

_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_AUTHORIZATION")
_WORD = re.compile(r"[A-Za-z][a-z]{,14}|[A-Z]{,15}")
_PATH = re.compile(r"[/~.\\]|[A-Za-z]:\\")
_hidden: set[str] = set()

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
    | (?P<begin>-----BEGIN[ ][A-Z ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)
      (?: (?:[^-]|-(?!----))*+(?P<end>-----END[ ][A-Z ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)
        | (?:(?:\s|\\[nr])*+[A-Za-z0-9+/]{32,}+=*+)++             # a truncated one
      )
    """,
    re.VERBOSE,
)
_REPLACEMENT = r"\g<bearer>\g<begin>***\g<end>"


def hide(*values: str) -> None:
    """Mask `values` in logs, errors and files from now on; shorter ones than 4 characters are ignored."""
    _hidden.update(value for value in values if len(value) >= 4)


def hide_named(settings: Mapping[str, Any]) -> None:
    """Hide the values in `settings`, and in mappings inside it, that have the name of a secret."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            hide_named(value)
        elif isinstance(value, str) and _is_named(str(name)) and _is_secret(last := value.rpartition(" ")[2]):
            hide(last)  # of "Bearer abc", the second word


def mask(text: str) -> str:
    """Mask every known secret in `text` (verbatim, in JSON or in a URL), and everything with the form of a key."""
    return _mask_text(text, _known_secrets())


def mask_data(data: Any) -> Any:
    """Mask the texts in JSON data, except the keys of objects; data without a secret is returned as the same object."""
    return _mask_value(data, _known_secrets())


def mask_exception(error: BaseException, *, outer: BaseException | None = None) -> None:
    """Mask the texts, notes and attributes of `error` and of its causes, in place.

    An attribute that shows a secret and is not plain data, a request with its headers, say, becomes None.

    Args:
        error: The exception to mask.
        outer: An exception that was already being handled; neither it nor its causes are changed.
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
    """A dict whose `repr` masks secrets; values with the name of a secret are hidden everywhere from now on."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        hide_named(settings)

    def __repr__(self) -> str:
        return mask(super().__repr__())


def _mask_text(text: str, known: Iterable[str]) -> str:
    for secret in known:
        text = text.replace(secret, "***")  # faster than a regular expression of them all
    return _KEYS.sub(_REPLACEMENT, text)


def _mask_value(data: Any, known: tuple[str, ...]) -> Any:
    if isinstance(data, str):
        masked = _mask_text(data, known)
        return data if masked == data else masked
    if isinstance(data, dict):
        changed = {key: _mask_value(value, known) for key, value in data.items()}
        return data if all(changed[key] is value for key, value in data.items()) else changed
    if isinstance(data, list | tuple):
        members = [_mask_value(member, known) for member in data]
        same = all(old is new for old, new in zip(data, members, strict=True))
        return data if same else type(data)(members)
    return data


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list | dict) or type(value) is tuple


def _mask_argument(part: Any, known: tuple[str, ...]) -> Any:
    """Mask an argument of an exception; an object that shows a secret becomes its masked `repr`."""
    if _is_plain(part) or isinstance(part, BaseException):
        return _mask_value(part, known)
    return part if _drop_if_secret(part, known) is part else _mask_text(repr(part), known)


def _drop_if_secret(value: Any, known: tuple[str, ...]) -> Any:
    """Return the object, or None if its `repr`, URL or headers, or those of its request, show a secret."""
    try:
        for held in (value, getattr(value, "request", None)):
            shown = (repr(held), str(getattr(held, "url", "")), str(dict(getattr(held, "headers", None) or {})))
            if any(_mask_text(text, known) != text for text in shown):
                return None
    except Exception:  # of a foreign class
        return None
    return value


def _known_secrets() -> tuple[str, ...]:
    return _spellings(_environment_values(), frozenset(_hidden))


def _environment_values() -> tuple[str, ...]:
    return tuple(os.environ.get(name, "") for name in os.environ if _is_named(name))


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
def _spellings(values: tuple[str, ...], hidden: frozenset[str]) -> tuple[str, ...]:
    """Return the known secrets in all their spellings, the longest first: one may be a part of another."""
    known = {*hidden, *filter(_is_secret, values)}
    forms = (str, _in_json, _in_ascii_json, quote, _in_query)
    return tuple(sorted({form(value) for value in known for form in forms}, key=len, reverse=True))


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _in_ascii_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _in_query(text: str) -> str:
    return quote(text, safe="")
