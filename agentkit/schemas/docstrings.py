"""What a docstring says: the description of a function and of each of its parameters."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from docstring_parser import Docstring, DocstringStyle, ParseError, parse

STYLES = (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST, DocstringStyle.EPYDOC)
SECTION = re.compile(r"(?m)^(?P<indent>[ \t]*)(?P<title>Args|Arguments|Parameters|Params)[ \t]*:[ \t]*$")


@dataclass(frozen=True, slots=True)
class Documentation:
    """A docstring taken apart: the text about the whole, and the text about each parameter by its name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None, names: Collection[str]) -> Documentation:
    """Take a docstring apart, in Google, NumPy, Sphinx or Epydoc style, whichever tells most about `names`.

    `text` is the docstring as `inspect.getdoc` gives it; `names` are the parameters that exist.
    """
    if not text or not text.strip():
        return Documentation()
    text = SECTION.sub(r"\n\g<0>", text)  # a section must stand apart, or the parser takes it for prose
    readings = [reading for style in STYLES if (reading := _read(text, style, names)) is not None]
    return max(readings, key=lambda reading: len(reading.parameters), default=Documentation(text.strip()))


def _read(text: str, style: DocstringStyle, names: Collection[str]) -> Documentation | None:
    try:
        parsed = parse(text, style=style)
    except ParseError:
        return None
    parameters = {
        name: " ".join(entry.description.split())
        for entry in parsed.params
        if entry.description
        for name in re.findall(r"\w+", entry.arg_name)
        if name in names
    }
    return Documentation(_description(parsed), parameters)


def _description(parsed: Docstring) -> str:
    return (parsed.description or "").strip()
