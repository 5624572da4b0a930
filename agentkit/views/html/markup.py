"""HTML by functions: every value that is not `Html` is escaped as text.

Text is masked before it is truncated, because a truncated secret no longer matches.  Seconds, tokens and dollars have
one form each.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

from ...core.masking import MAX_SECRET_CHARS, mask
from ...core.private_files import open_private

MAX_OPEN_CHARS = 400
MAX_OPEN_LINES = 8
"""Characters and lines of a block that is shown open; a longer block is folded."""
MAX_INDENT_DEPTH = 12
"""Levels of data that are indented."""
MIN_TEXT_BYTES = 400
"""Bytes of a long text that are shown at least."""

_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
"""Characters that HTML cannot hold or that change the direction of the surrounding text."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape_text(value: Any) -> Html:
    """Return `value` as HTML that shows exactly this text."""
    return value if isinstance(value, Html) else Html(escape(_clean(str(value)), quote=False))


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """Return an element; children that are not `Html` are escaped, None and "" are left out.

    Attributes are escaped (`class_` stands for `class`, `data_x` for `data-x`); None, "" and False are left out, and
    True writes the name alone.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(_clean(str(value)))}"')
        for key, value in attributes.items()
        if value not in (None, "", False)
    )
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: Any) -> Html:
    """Return the children one after the other."""
    return Html("".join(escape_text(child) for child in children if child not in (None, "")))


def truncate_html(text: str, max_bytes: int) -> Html:
    """Return the text as HTML of about `max_bytes`: of a longer text its head, its tail and the number left out."""
    half = max_bytes // 2
    if len(text) > max_bytes + 2 * MAX_SECRET_CHARS:  # masking the whole text would be slow
        before = escape_text(mask(text[: half + MAX_SECRET_CHARS])[:-MAX_SECRET_CHARS]).encode()
        after = escape_text(mask(text[-half - MAX_SECRET_CHARS :])[MAX_SECRET_CHARS:]).encode()
    else:
        before = after = escape_text(text).encode()
        if len(before) <= max_bytes:
            return escape_text(text)
    head = re.sub(r"&[a-z#0-9]{0,6}$", "", before[:half].decode(errors="ignore"))
    tail = re.sub(r"^[a-z#0-9]{0,6};", "", after[-half:].decode(errors="ignore"))
    left_out = max(0, len(text) - len(unescape(head)) - len(unescape(tail)))
    return Html(f"{head}\n\n[... {left_out:,} of {len(text):,} characters are left out ...]\n\n{tail}")


def render_block(value: Any, max_bytes: int = MIN_TEXT_BYTES * 10, *, folded: bool = True) -> Html:
    """Return a value as a block: a text unchanged, data as JSON; `truncate_html` shortens it from `max_bytes` on.

    With `folded`, a long block is folded behind its first line.
    """
    compact = write_compact(value)
    is_short = len(compact) <= MAX_OPEN_CHARS and compact.count("\n") < MAX_OPEN_LINES
    text = compact if (is_short and folded) or isinstance(value, str) else format_json(value, compact)
    shown = tag("pre", truncate_html(text, max_bytes))
    if is_short or not folded:
        return shown
    first = mask(compact[: 80 + MAX_SECRET_CHARS]).strip()[:80].partition("\n")[0]
    return tag("details", tag("summary", f"{first} ... ({len(compact):,} characters)"), shown)


MAX_TABLE_ROWS = 20
MAX_TABLE_COLUMNS = 20
MAX_CELL_CHARS = 100
"""Rows, columns and characters of a value that a table shows; what it leaves out stands below it as JSON."""


def render_data(value: Any, max_bytes: int = MIN_TEXT_BYTES * 10, *, folded: bool = True) -> Html:
    """Return a value as a compact table if it is rows with the same names, as a data frame is, else as a block."""
    rows = _rows_of(value)
    if not rows:
        return render_block(value, max_bytes, folded=folded)
    cells = [[mask(write_compact(cell)) for cell in row.values()] for row in rows[:MAX_TABLE_ROWS]]
    shown = [[text[:MAX_CELL_CHARS] for text in line] for line in cells]
    while len(shown) > 1 and sum(len(text) for line in shown for text in line) > max_bytes:
        shown.pop()
    table = render_table(rows[0], shown)
    if shown == cells and len(shown) == len(value):
        return table
    left = len(rows) - len(shown)
    label = f"{left:,} more rows, and all as JSON" if left else "all as JSON"
    whole = tag("pre", truncate_html(write_compact(value), max_bytes))
    return join(table, tag("details", tag("summary", label), whole))


def render_table(head: Iterable[Any], rows: Iterable[Iterable[Any]], first: str = "td") -> Html:
    """Return a table in a box that scrolls; `first` is "th" where the first cell of each row is the name of the row."""
    lines = [tag("tr", *(tag("th" if name else "td", name) for name in head))]  # a screen reader reads each "th"
    lines += [tag("tr", tag(first, start), *(tag("td", cell) for cell in cells)) for start, *cells in rows]
    return tag("div", tag("table", *lines), class_="wide")


def _rows_of(value: Any) -> list[dict[str, Any]]:
    """Return the rows of a table; none if a value is not one."""
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    if not rows or not 0 < len(rows[0]) <= MAX_TABLE_COLUMNS:
        return []
    if not all(isinstance(row, dict) for row in value[:-1]):  # the last may say how many rows are left out
        return []
    names = [*rows[0]]
    is_table = all([*row] == names and not any(isinstance(cell, dict | list) for cell in row.values()) for row in rows)
    return rows if is_table else []


def write_compact(value: Any) -> str:
    """Return a text unchanged, data as JSON in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def format_json(data: Any, compact: str) -> str:
    """Return data as indented JSON, or `compact` where indentation would make it much longer."""
    if len(compact) <= 60 or not isinstance(data, dict | list) or _depth(data) > MAX_INDENT_DEPTH:
        return compact
    lines = json.dumps(data, ensure_ascii=False, indent=2, default=str)
    return lines if len(lines) <= len(compact) * 3 // 2 + 100 else compact


def wrap_view(*children: Any) -> Html:
    """Return a part of a page, such as a notebook's cell, with its style."""
    return tag("div", Html(f"<style>{load_style()}</style>"), *children, class_="agentkit")


def build_page(title: str, *children: Any) -> str:
    """Return a whole page that loads nothing else; its script filters and unfolds, and the page is complete without."""
    script = load_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; script-src 'sha256-{digest}'"
    )
    head = join(
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'),
        tag("title", " ".join(mask(title).split())[:100]),
        Html(f"<style>{load_style()}</style>"),
    )
    body = tag("body", tag("main", *children), Html(f"<script>{script}</script>"), class_="agentkit")
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'


def write_page(page: str, path: str | os.PathLike[str] | None) -> str:
    """Return the page; write it to the file `path` if it is given, see `open_private`."""
    if path is not None:
        with open_private(path, encoding="utf-8") as file:
            file.write(page)
    return page


@cache
def load_style() -> str:
    """Return the style sheet in one line."""
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8").replace("\n", "")


@cache
def load_script() -> str:
    """Return the script of a page."""
    return Path(__file__).with_name("page.js").read_text(encoding="utf-8")


def _clean(text: str) -> str:
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", mask(text).replace("\r\n", "\n"))


def _depth(data: Any, limit: int = MAX_INDENT_DEPTH) -> int:
    """Return the number of nested levels, counted up to `limit` + 1."""
    entries = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + max((_depth(entry, limit - 1) for entry in entries), default=0) if limit else 1


def format_seconds(seconds: float) -> str:
    """Return a duration in about three digits, with its unit."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{1 if seconds >= 0.001 else 2}f} ms"


def format_moment(result: Mapping[str, Any]) -> str:
    """Return when a run began, in UTC; "" if it is not known."""
    return str(result.get("started", "")).replace("T", " ").replace("+00:00", " UTC")


def format_cost(usage: Mapping[str, Any]) -> str:
    """Return the cost of requests; "" without requests."""
    cost = usage.get("cost", 0)
    if cost is None:
        return "price unknown"
    if not cost:
        return "$0" if usage.get("input_tokens") else ""
    return f"${cost:.4f}" if cost >= 0.01 else f"${cost:.3g}" if cost >= 0.0001 else f"${cost:.8f}".rstrip("0")


def format_tokens(usage: Mapping[str, Any]) -> str:
    """Return the tokens that requests read and wrote; "" if the backend reported none."""
    read = usage.get("input_tokens", 0)
    written = usage.get("output_tokens", 0)
    if not (read or written):
        return ""
    cache = _list_tokens(usage, {"cached_tokens": "cached", "cache_creation_tokens": "written to the cache"})
    return f"{read:,} tokens in{cache}, {written:,} out{_list_tokens(usage, {'reasoning_tokens': 'thinking'})}"


def _list_tokens(usage: Mapping[str, Any], names: Mapping[str, str]) -> str:
    shown = ", ".join(f"{usage[key]:,} {name}" for key, name in names.items() if usage.get(key))
    return f" ({shown})" if shown else ""


def usage_figures(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return requests, tokens and cost for `render_figures`."""
    tokens = format_tokens(usage).replace("tokens ", "")
    return {"requests": usage.get("requests"), "tokens": tokens, "cost": format_cost(usage)}


def run_figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a result's plain data for `render_figures`."""
    spans = (result.get("trace") or {}).get("spans", ())
    calls = [span for span in spans if span["kind"] == "tool"]
    return {
        "model": result.get("model"),
        "stopped": result.get("stopped"),
        "time": format_seconds(result.get("seconds", 0.0)),
        **usage_figures(result.get("usage") or {}),
        "calls": len(calls),
        "failed calls": sum(bool(span.get("error")) for span in calls),
        "repairs": sum(len(span.get("repairs", ())) for span in calls),
        "failed requests": sum(bool(span.get("error")) for span in spans if span["kind"] == "model"),
    }


def format_count(number: int, noun: str) -> str:
    """Return "1 call", "2 calls"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def render_figures(values: Mapping[str, Any]) -> Html:
    """Return names and values in a row, without empty values."""
    entries = (tag("li", f"{name} ", tag("b", value)) for name, value in values.items() if value)
    return tag("ul", *entries, class_="figures")
