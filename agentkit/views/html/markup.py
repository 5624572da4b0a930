"""HTML by function: everything that is not HTML already is text, whatever stands in it.

Whatever becomes text is masked, before it is cut: what is left of a secret that was cut is none that could be found.
"""

import json
import os
import re
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

from ...core.masking import MAX_SECRET_CHARS, mask

SHORT, FEW = 400, 8
"""Characters and lines of a block that stands open; a longer one is folded up."""
DEEPEST = 12
"""Levels of data that are shown in lines of their own."""
LEAST = 400
"""Bytes of a long text that are shown in any case."""

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
"""What HTML cannot hold, and what turns the direction of the writing around it."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text_of(given: Any) -> Html:
    """`given` as HTML that shows exactly this text."""
    return given if isinstance(given, Html) else Html(escape(_seen(str(given)), quote=False))


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element; children that are not `Html` are escaped, as all attributes are (`class_` stands for `class`).

    A child that is None or "" is left out, and so is such an attribute; of an attribute that is True, the name stands.
    """
    said = "".join(
        f" {key.rstrip('_')}" + ("" if value is True else f'="{escape(_seen(str(value)))}"')
        for key, value in attributes.items()
        if value not in (None, "", False)
    )
    return Html(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: Any) -> Html:
    """The children one after the other."""
    return Html("".join(text_of(child) for child in children if child not in (None, "")))


def cut(text: str, most: int) -> Html:
    """The text as HTML of about `most` bytes: of a longer one the head and the tail, and how much is left out."""
    half = most // 2
    if len(text) > most + 2 * MAX_SECRET_CHARS:  # to mask all of it would take long
        before = text_of(mask(text[: half + MAX_SECRET_CHARS])[:-MAX_SECRET_CHARS]).encode()
        after = text_of(mask(text[-half - MAX_SECRET_CHARS :])[MAX_SECRET_CHARS:]).encode()
    else:
        before = after = text_of(text).encode()
        if len(before) <= most:
            return text_of(text)
    head = re.sub(r"&[a-z#0-9]{0,6}$", "", before[:half].decode(errors="ignore"))
    tail = re.sub(r"^[a-z#0-9]{0,6};", "", after[-half:].decode(errors="ignore"))
    left_out = max(0, len(text) - len(unescape(head)) - len(unescape(tail)))
    return Html(f"{head}\n\n[... {left_out:,} of {len(text):,} characters are left out ...]\n\n{tail}")


def block(given: Any, most: int = LEAST * 10, *, folded: bool = True) -> Html:
    """A value in its own lines: text as it is, data as JSON; of a long one the head and the tail, folded up."""
    compact = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    is_short = len(compact) <= SHORT and compact.count("\n") < FEW
    text = compact if (is_short and folded) or isinstance(given, str) else pretty(given, compact)
    shown = tag("pre", cut(text, most))
    if is_short or not folded:
        return shown
    first = mask(compact[: 80 + MAX_SECRET_CHARS]).strip()[:80].partition("\n")[0]
    return tag("details", tag("summary", f"{first} ... ({len(compact):,} characters)"), shown)


def pretty(data: Any, compact: str) -> str:
    """Data as JSON, in lines of their own if that does not make it much longer than it is in one line."""
    if len(compact) <= 60 or not isinstance(data, dict | list) or _depth(data) > DEEPEST:
        return compact
    lines = json.dumps(data, ensure_ascii=False, indent=2, default=str)
    return lines if len(lines) <= len(compact) * 3 // 2 + 100 else compact


def view(*children: Any) -> Html:
    """A part of a page (a notebook's cell, say), with its style."""
    return tag("div", Html(f"<style>{style()}</style>"), *children, class_="agentkit")


def page(title: str, *children: Any) -> str:
    """A whole page that needs nothing else."""
    head = joined(
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"),
        Html('<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'),
        tag("title", " ".join(mask(title).split())[:100]),
        Html(f"<style>{style()}</style>"),
    )
    body = tag("body", tag("main", *children), class_="agentkit")
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'


def write_page(page: str, path: str | os.PathLike[str] | None) -> str:
    """The page, which is also written into the file `path`, if one is given."""
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


@cache
def style() -> str:
    """The style of everything here, in one line."""
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8").replace("\n", "")


def _seen(text: str) -> str:
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", mask(text).replace("\r\n", "\n"))


def _depth(data: Any, most: int = DEEPEST) -> int:
    """How deeply data are nested, as far as `most` and one more."""
    entries = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + max((_depth(entry, most - 1) for entry in entries), default=0) if most else 1
