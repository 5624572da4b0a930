"""What a notebook shows of an object: IPython's own formatters read it."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def _formatter(name: str) -> Any:
    """Return a formatter; IPython takes long to import, so only the tests that need it do."""
    return getattr(import_module("IPython.core.formatters"), name)()


def html_of(thing: Any) -> str:
    """Return the HTML that a notebook shows; "" if the object has none."""
    return _formatter("HTMLFormatter")(thing) or ""


def markdown_of(thing: Any) -> str:
    """Return the Markdown of an object, which a notebook shows where it shows no HTML; "" if it has none."""
    return _formatter("MarkdownFormatter")(thing) or ""
