"""Handles of hidden results: `#3` is the third one, `#3.body` its field, `{#3.body}` that field inside a text."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.labels import UNKNOWN, Label
from ...tools.json_tool import JsonTool
from ...tools.results.result_text import render_text
from ..long_results import TruncatedResults
from .origins import is_keeper
from .values import find_token, is_public_page, iterate_leaves, normalize

MAX_FIELDS_SHOWN = 20
_PATH = r"#\d+(?:\.\w+)*"
_NAME = re.compile(r"\w{1,40}")
_WHOLE, _INSIDE = re.compile(_PATH), re.compile(rf"\{{({_PATH})\}}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in the arguments of a call: its place, what was written, its value and its label."""

    where: str
    written: str
    value: Any
    label: Label


class UnknownHandle(Exception):
    """A reference to a result or a field that does not exist."""


@dataclass(frozen=True, slots=True)
class Handles:
    """The hidden results of a conversation, stored beside its truncated results, by their handles."""

    stored: TruncatedResults

    def store(self, text: str, label: Label) -> str:
        """Store the text of a result and return its handle."""
        return self.stored.store_next(text, label)

    def find(self, reference: str) -> tuple[Any, Label]:
        """Return the value of a reference, and its label; raise `UnknownHandle` if it does not exist."""
        handle, *path = reference.split(".")
        if handle not in self.stored.texts:
            known = ", ".join(key for key in self.stored.texts if key.startswith("#")) or "none"
            raise UnknownHandle(f"there is no result {handle}. There are: {known}.")
        value, label = _read(self.stored.texts[handle]), self.stored.labels.get(handle, UNKNOWN)
        for key in path:
            try:
                value = value[int(key) if isinstance(value, list) else key]
            except (LookupError, TypeError, ValueError):
                raise UnknownHandle(f"{reference}: the result {handle} has no field {key!r} there.") from None
        return value, label

    def list_kept(self) -> list[Label]:
        """Return the labels of what tools may have kept of hidden results."""
        return [label for label in self.stored.labels.values() if any(map(is_keeper, label.sources))]

    def is_vouched(self, reference: Reference) -> bool:
        """Return whether the value is one of a trusted field."""
        return isinstance(reference.value, str | int | float) and reference.value in reference.label.vouched

    def is_quoted(self, reference: Reference) -> bool:
        """Return whether a value is a public web address that stands whole in one text: its author wrote it.

        Texts that come from several sources may have been put together.
        """
        value = reference.value
        if not isinstance(value, str) or not is_public_page(value):
            return False
        wanted = normalize(value)
        texts = (
            (text, self.stored.labels.get(key, UNKNOWN)) for key, text in self.stored.texts.items() if key[0] == "#"
        )
        return any(
            find_token(wanted, normalize(part)) >= 0
            for text, label in texts
            if len(label.sources) == 1
            for where, part in iterate_leaves(_read(text))
            if isinstance(part, str) and not where.startswith("a name in ")
        )

    def label_of(self, reference: Reference, tool: JsonTool[..., Any]) -> Label:
        """Return the label that a reference gives to what the tool returns."""
        label = reference.label
        if not self.is_vouched(reference):
            return label
        return Label("trusted", () if tool.trust == "trusted" else label.sources, label.readers)

    def resolve(self, arguments: Any) -> tuple[Any, list[Reference]]:
        """Return the arguments with values for references, and the references; raise `UnknownHandle`."""
        found: list[Reference] = []
        return self._resolve(arguments, "", found.append), found

    def _resolve(self, data: Any, where: str, note: Callable[[Reference], None]) -> Any:
        if isinstance(data, dict):
            return {key: self._resolve(value, f"{where}.{key}".lstrip("."), note) for key, value in data.items()}
        if isinstance(data, list):
            return [self._resolve(value, f"{where}[{place}]", note) for place, value in enumerate(data)]
        if not isinstance(data, str) or "#" not in data:
            return data
        if _WHOLE.fullmatch(data):
            return self._take(data, where, note)
        return _INSIDE.sub(lambda match: render_text(self._take(match[1], where, note)), data)

    def _take(self, written: str, where: str, note: Callable[[Reference], None]) -> Any:
        value, label = self.find(written)
        note(Reference(where, written, value, label))
        return value


def is_reference(value: Any) -> bool:
    """Return whether an argument is a reference and nothing else."""
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None


def describe_handle(handle: str, name: str, text: str, tool: JsonTool[..., Any] | None) -> str:
    """Return what the model reads of a hidden result: nothing that others have written.

    The fields are those that the tool's output schema declares; a trusted one is named as such.
    """
    declared = set(_declared_fields(tool.output_schema)) if tool is not None else set()
    value, shape = _read(text), f"{len(text):,} characters"
    if isinstance(value, list):
        shape += f", a list of {len(value):,}"
        value = value[0] if value else None
    trusted = tool.trust if tool is not None and isinstance(tool.trust, Mapping) else ()
    keys = [key for key in value if key in declared and _NAME.fullmatch(key)] if isinstance(value, dict) else []
    fields = [f"{key} (trusted)" if key in trusted else key for key in keys[:MAX_FIELDS_SHOWN]]
    if "" in trusted:
        shape += ", trusted values"
    return f"{handle} from {name}, {shape}{', fields: ' if fields else ''}{', '.join(fields)}"


def _declared_fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for entry in schema:
            yield from _declared_fields(entry)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                yield from value
            yield from _declared_fields(list(value.values()) if key in ("properties", "$defs") else value)


def _read(text: str) -> Any:
    """Return the JSON value of a result that is an object or a list, else the text."""
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
