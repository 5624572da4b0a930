"""Rewriting a schema from the inside out, with an account of what each part lost."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .. import JsonSchema
from ..walk import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS
from .declaration import Loss
from .words import LONGEST, said

ROOT = "parameters"
VALIDATED = "dropped: validated by agentkit all the same"
LISTED = "dropped: the enum says it"
SILENT = "dropped: says nothing to a model"
CONDITIONS = frozenset({
    "not", "if", "then", "else", "contains", "propertyNames", "patternProperties", "dependentSchemas",
    "unevaluatedProperties", "unevaluatedItems", "prefixItems",
})  # fmt: skip
"""Keywords whose schemas narrow what stands beside them, told in words where a dialect has none of them."""


class Node:
    """One schema on its way into a dialect; the schemas inside it are there already.

    Attributes:
        schema: The keywords, to be changed in place.
        original: What it was before.
        path: Where it stands, as in `Loss.path`.
    """

    def __init__(self, original: JsonSchema, schema: JsonSchema, path: str, losses: list[Loss]) -> None:
        self.schema = schema
        self.path = path
        self.original = original
        self._losses = losses
        self._text: str = schema.get("description") or ""
        self._notes: list[str] = []

    def lose(self, keyword: str, moved_to: str) -> Any:
        """Take the keyword away, note where it went, and return what it held."""
        held = self.schema.pop(keyword)
        self.report(keyword, deepcopy(self.original.get(keyword, held)), moved_to)
        return held

    def report(self, keyword: str, value: Any, moved_to: str) -> None:
        """Note a loss."""
        self._losses.append(Loss(self.path, keyword, value, moved_to))

    def describe(self, keyword: str, text: str | None = None) -> None:
        """Move the keyword into the description, in words; what would be too long there is dropped."""
        text = said(keyword, self.original.get(keyword, self.schema[keyword])) if text is None else text
        if not text:
            self.lose(keyword, SILENT)
        elif len(text) > LONGEST:
            self.lose(keyword, VALIDATED)
        else:
            self.lose(keyword, "description")
            self.say(text)

    def say(self, text: str) -> None:
        """Add a few words to the description, once."""
        if text not in self._notes and text not in self._text:
            self._notes.append(text)
        if self._notes:
            notes = "; ".join(self._notes)
            self.schema["description"] = f"{self._text} ({notes})" if self._text else notes


def mapped(
    schema: JsonSchema, path: str, inner: Callable[[JsonSchema, str], Any], sealed: frozenset[str] = frozenset()
) -> JsonSchema:
    """A copy of `schema` with `inner(schema, path)` in place of every schema directly inside it.

    What stands under the keywords `sealed` is copied as it is.
    The schemas `true` and `false` are written out as `{}` and `{"not": {}}` where they stand for a value.
    """

    def entry(value: Any, at: str) -> Any:
        return inner(({} if value else {"not": {}}) if isinstance(value, bool) else value, at)

    copy: JsonSchema = {}
    for key, value in schema.items():
        at = f"{path}.{key}"
        if key in sealed:
            copy[key] = deepcopy(value)
        elif key in SCHEMA_MAPS and isinstance(value, dict):
            copy[key] = {name: entry(item, f"{at}.{name}") for name, item in value.items()}
        elif key in SCHEMA_LISTS and isinstance(value, list):
            copy[key] = [entry(item, f"{at}.{place}") for place, item in enumerate(value)]
        elif key in SCHEMAS and isinstance(value, dict):
            copy[key] = inner(value, at)
        else:
            copy[key] = deepcopy(value)
    return copy


def rewritten(
    schema: JsonSchema,
    losses: list[Loss],
    *changes: Callable[[Node], None],
    sealed: frozenset[str] = frozenset(),
    path: str = ROOT,
) -> JsonSchema:
    """A copy of `schema` in which every schema, innermost first, went through all `changes`.

    What was lost is added to `losses`.  What stands under the keywords `sealed` is left as it is.
    """

    def inner(part: JsonSchema, at: str) -> JsonSchema:
        return rewritten(part, losses, *changes, sealed=sealed, path=at)

    node = Node(schema, mapped(schema, path, inner, sealed), path, losses)
    for change in changes:
        change(node)
    return node.schema
