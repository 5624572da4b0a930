"""The final answer: what the tools said, as readable text or in the shape that a schema asks for."""

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .fill import rows
from .scene import Scene
from .tools import read_tool, resolve
from .values import scan
from .words import concepts, tokens

LONGEST = 2000
"""How many characters of one result an answer quotes."""

_ERROR = re.compile(
    r"[A-Z]\w*(?:Error|Exception|Timeout|Exceeded|Refused|Denied|Interrupt|Cancelled)\b(?:: |$)|Cancelled: "
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that has its answer: the tool's name, the arguments, and the text that came back."""

    name: str
    arguments: Mapping[str, Any]
    content: str

    @property
    def failed(self) -> bool:
        return bool(_ERROR.match(self.content))


def answer_text(answered: Sequence[Answered], lacking: Mapping[str, Sequence[str]], names: Sequence[str]) -> str:
    """The answer in words: the results, one line each when there are several; without any, why no tool was called."""
    lines = [_line(one, alone=len(answered) == 1) for one in answered]
    lines += [
        f"I could not call {name}: the query does not say {', '.join(missing)}." for name, missing in lacking.items()
    ]
    if lines:
        return "\n".join(lines)
    known = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"I found no tool that fits this query. The tools I have: {known or 'none'}."


def _line(one: Answered, *, alone: bool) -> str:
    content = one.content if len(one.content) <= LONGEST else one.content[:LONGEST].rsplit(" ", 1)[0] + " ..."
    about = ", ".join(map(str, one.arguments.values()))
    if one.failed:
        return f"{one.name} could not answer{' for ' + about if about else ''}: {content}"
    return content if alone else f"{one.name}{f' ({about})' if about else ''}: {content}"


def answer_value(schema: Mapping[str, Any], answered: Sequence[Answered], text: str) -> Any:
    """A value in the shape of `schema`, taken from the results; None where they do not hold it."""
    good = [one for one in answered if not one.failed]
    if not good and answered:
        return None
    data: Any = [_parsed(one.content) for one in good]
    said = [
        {**one.arguments, **(value if isinstance(value, dict) else {})} for one, value in zip(good, data, strict=True)
    ]
    definitions = schema.get("$defs") or {}
    shape = resolve(schema, definitions)
    if shape["type"] == "string" and not shape.get("enum"):
        return text
    if not good:
        return None
    if shape["type"] == "object":
        data = [{**arguments, "": value} for arguments, value in zip(said, data, strict=True)]
    return _shaped(shape, data[0] if len(data) == 1 else data, definitions)


def _parsed(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content


def _shaped(schema: Mapping[str, Any], data: Any, definitions: Mapping[str, Any]) -> Any:
    """`data` as a value of `schema`, or None."""
    shape = resolve(schema, definitions)
    kind = shape["type"]
    if kind in ("integer", "number"):
        return _as_number(kind, data)
    if kind == "boolean":
        return data if isinstance(data, bool) else {"true": True, "false": False}.get(str(data).strip().lower())
    if kind == "array":
        members = [
            _shaped(shape.get("items") or {}, one, definitions) for one in (data if isinstance(data, list) else [data])
        ]
        return None if None in members else members
    if kind == "object" and shape.get("properties"):
        return _as_object(shape, data, definitions)
    if kind == "string":
        options = shape.get("enum")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return next((o for o in options if str(o).lower() in text.lower()), None) if options else text
    return data


def _as_number(kind: str, data: Any) -> Any:
    if isinstance(data, dict):
        numbers = [v for v in data.values() if isinstance(v, int | float) and not isinstance(v, bool)]
        data = numbers[0] if len(numbers) == 1 else None
    if isinstance(data, str) and len(found := _NUMBER.findall(data.replace(",", ""))) == 1:
        data = float(found[0])
    if isinstance(data, bool) or not isinstance(data, int | float):
        return None
    return data if kind == "number" else int(data) if float(data).is_integer() else None


def _as_object(shape: Mapping[str, Any], data: Any, definitions: Mapping[str, Any]) -> dict[str, Any] | None:
    """An object whose properties are the members of `data` of the same name, or are read from its text."""
    if isinstance(data, list):
        merged: dict[str, Any] = {}
        for one in data:
            merged |= one if isinstance(one, dict) else {}
        merged["rest"] = data
        data = merged
    members = data if isinstance(data, dict) else {"": data}
    by_words = {frozenset(concepts(key)): value for key, value in members.items()}
    text = members.get("", data)
    read = _read(shape, text, definitions) if isinstance(text, str) else {}
    found: dict[str, Any] = {}
    for name, part in shape["properties"].items():
        words = frozenset(concepts(name))
        value = by_words.get(words, read.get(name))
        value = _shaped(part, value, definitions) if value is not None else None
        if value is not None:
            found[name] = value
    return found if found and all(name in found for name in shape.get("required", ())) else None


def _read(shape: Mapping[str, Any], text: str, definitions: Mapping[str, Any]) -> dict[str, Any]:
    loose = {"name": "answer", "parameters": {**shape, "required": [], "$defs": definitions}}
    mentions = scan(text, datetime.date.today())
    calls, _ = rows(read_tool(loose), Scene(text, tokens(text), mentions, 0, len(text)))
    return calls[0] if calls else {}
