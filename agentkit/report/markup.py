"""HTML by function: everything that is not HTML already is text, whatever stands in it."""

import json
from html import escape
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
LONGEST = 3_000
"""Characters of one value that are shown: head and tail."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str | None, **attributes: str | float) -> Html:
    """An element; children that are not `Html` are escaped, as all attributes are (`class_` stands for `class`)."""
    said = "".join(f' {key.rstrip("_")}="{escape(str(value))}"' for key, value in attributes.items() if value != "")
    return Html(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: str | None) -> Html:
    """The children one after the other."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children if child))


def value(given: Any) -> Html:
    """A value as a block: text as it is, data as JSON; of a long one the head and the tail."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2, default=str)
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = (
            f"{text[:half]}\n... {len(text) - 2 * half:,} of {len(text):,} characters are left out ...\n{text[-half:]}"
        )
    return tag("pre", visible(text))


def visible(text: str) -> str:
    """The text with a sign in the place of control characters, which HTML cannot hold."""
    return "".join(mark if mark >= " " or mark in "\n\t" else "\N{REPLACEMENT CHARACTER}" for mark in text)


def view(*children: str | None) -> Html:
    """A part of a page (a notebook's cell, say), with its style."""
    return tag("div", Html(f"<style>{STYLE}</style>"), *children, class_="agentkit")


def page(title: str, *children: str | None) -> str:
    """A whole page that needs nothing else."""
    head = joined(
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        Html('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", visible(title)),
        Html(f"<style>body{{margin:0}}html{{background:Canvas}}{STYLE}</style>"),
    )  # fmt: skip
    body = tag("body", tag("main", *children, class_="agentkit page"))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'
