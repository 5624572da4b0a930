"""Two versions of one schema compared: what a caller can no longer write, and what is new.

A union is compared branch by branch: an old branch is kept if some new branch takes all that it took.  Keywords that
this module does not understand count as narrower when they appear or change.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from .. import JsonSchema
from .changes import Difference, Kind
from .values import LOWER, UPPER, At, in_short, type_words, types_of, value_changes

UNIONS = ("anyOf", "oneOf")
TEXTS = ("description", "default", "examples", "deprecated", "readOnly", "writeOnly", "title", "$comment")
UNDERSTOOD = frozenset({
    *TEXTS, *UNIONS, *LOWER, *UPPER, "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "uniqueItems", "properties", "required", "additionalProperties", "items",
    "prefixItems", "discriminator", "$defs", "$ref", "$schema", "$id",
})  # fmt: skip


def schema_changes(old: JsonSchema, new: JsonSchema) -> Iterator[Difference]:
    """What changed from one version of a tool's schema to the next; a changed name (`title`) is no change."""
    yield from _Comparison(old.get("$defs", {}), new.get("$defs", {})).whole(old, new, ())


class _Comparison:
    """A comparison under way: the definitions of both sides, and the pairs of references that are being compared."""

    def __init__(self, old: JsonSchema, new: JsonSchema) -> None:
        self._old = old
        self._new = new
        self._open: set[tuple[Any, Any]] = set()

    def whole(self, old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
        """Texts, then the values that each takes."""
        pair = (old.get("$ref"), new.get("$ref"))
        if pair in self._open:  # a type that contains itself: what is compared already
            return
        if all(pair):
            self._open.add(pair)
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        yield from _texts(old, new, at)
        befores, afters = _branches(old, self._old), _branches(new, self._new)
        if len(befores) == len(afters) == 1:
            yield from self._single(_resolved(befores[0], self._old), _resolved(afters[0], self._new), at)
        else:
            yield from self._union(befores, afters, at)
        self._open.discard(pair)

    def _single(self, old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
        common = types_of(old) & types_of(new)
        yield from value_changes(old, new, at)
        if "object" in common:
            yield from self._properties(old, new, at)
        if "array" in common:
            yield from self._items(old, new, at)
        yield from _others(old, new, at)

    def _union(self, befores: list[JsonSchema], afters: list[JsonSchema], at: At) -> Iterator[Difference]:
        """Pairs those branches first that lost nothing, then what is left by type."""
        free, lost = list(afters), []
        for before in befores:
            nearest, differences = self._nearest(before, afters, at)
            if _breaks(differences):
                lost.append(before)
            else:
                yield from differences
                free = [branch for branch in free if branch is not nearest]
        for before in lost:
            kinds = types_of(_resolved(before, self._old))
            alike = [branch for branch in free if kinds & types_of(_resolved(branch, self._new))]
            if not alike:
                yield Difference(at, "breaking", f"no longer takes {_words(_resolved(before, self._old))}")
                continue
            nearest, differences = self._nearest(before, alike, at)
            yield from differences
            free = [branch for branch in free if branch is not nearest]
        for branch in free:
            yield Difference(at, "compatible", f"now also takes {_words(_resolved(branch, self._new))}")

    def _nearest(self, before: JsonSchema, afters: list[JsonSchema], at: At) -> tuple[JsonSchema, list[Difference]]:
        """The branch that differs least, with the differences."""
        candidates = [(after, [*self.whole(before, after, at)]) for after in afters]
        return min(candidates, key=lambda candidate: (_breaks(candidate[1]), len(candidate[1])))

    def _properties(self, old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed, needs = set(old.get("required", ())), set(new.get("required", ()))
        renamed = _renamed(before, after)
        for name, place in before.items():
            here = (*at, f".{name}")
            if name in renamed:
                yield Difference(here, "breaking", f"renamed to {renamed[name]}")
            elif name not in after:
                yield Difference(here, "breaking", "removed")
            else:
                if name in needs and name not in needed:
                    yield Difference(here, "breaking", "is required now")
                elif name in needed and name not in needs:
                    yield Difference(here, "compatible", "may be left out now")
                yield from self.whole(_schema(place), _schema(after[name]), here)
        for name in [name for name in after if name not in before and name not in renamed.values()]:
            kind: Kind = "breaking" if name in needs else "compatible"
            yield Difference((*at, f".{name}"), kind, f"added, {'required' if name in needs else 'optional'}")
        yield from self._rest(old, new, "additionalProperties", (*at, ".*"))

    def _items(self, old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
        before, after = old.get("prefixItems", []), new.get("prefixItems", [])
        for place in range(max(len(before), len(after))):
            one = before[place] if place < len(before) else old.get("items", True)
            other = after[place] if place < len(after) else new.get("items", True)
            yield from self.whole(_schema(one), _schema(other), (*at, f"[{place}]"))
        if not before or not after or "items" in old or "items" in new:
            yield from self._rest(old, new, "items", (*at, "[]"))

    def _rest(self, old: JsonSchema, new: JsonSchema, keyword: str, at: At) -> Iterator[Difference]:
        """What the keys or items have to be that are not listed one by one."""
        before, after = old.get(keyword, True), new.get(keyword, True)
        if before is False and after is not False:
            yield Difference(at, "compatible", "now also takes others")
        elif before is not False and after is False:
            yield Difference(at, "breaking", "no longer takes others")
        elif _schema(before) or _schema(after):
            yield from self.whole(_schema(before), _schema(after), at)


def _resolved(schema: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    if not isinstance(reference := schema.get("$ref"), str):
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return _resolved({**definitions.get(reference.removeprefix("#/$defs/"), {}), **beside}, definitions)


def _branches(schema: JsonSchema, definitions: JsonSchema) -> list[JsonSchema]:
    """The alternatives of a schema, each with what stands beside them; a list of types is such a union, too."""
    bare = {key: value for key, value in schema.items() if key not in (*UNIONS, *TEXTS)}
    inner = [_schema(branch) for key in UNIONS for branch in schema.get(key, ())]
    if not inner:
        kinds = bare.get("type")
        return [{**bare, "type": kind} for kind in kinds] if isinstance(kinds, list) and "enum" not in bare else [bare]
    branches: list[JsonSchema] = []
    for branch in inner:
        is_union = any(key in _resolved(branch, definitions) for key in UNIONS) and "$ref" not in branch
        branches += _branches({**bare, **branch}, definitions) if is_union else [{**bare, **branch}]
    return branches


def _schema(value: Any) -> JsonSchema:
    """A schema that may be written as true or false."""
    return value if isinstance(value, dict) else {} if value else {"not": {}}


def _breaks(differences: list[Difference]) -> int:
    return sum(difference.kind == "breaking" for difference in differences)


def _words(schema: JsonSchema) -> str:
    names = ", ".join(schema.get("properties", ()))
    return f"{type_words(schema)} with {names}" if names else type_words(schema)


def _texts(old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
    if old.get("description") != new.get("description"):
        yield Difference(at, "compatible", "another description")
    if old.get("default") != new.get("default") or ("default" in old) != ("default" in new):
        shown = [in_short(schema["default"]) if "default" in schema else "none" for schema in (old, new)]
        yield Difference(at, "compatible", f"default {' -> '.join(shown)}")
    for keyword in TEXTS[2:]:
        if old.get(keyword) != new.get(keyword):
            yield Difference(at, "compatible", f"another {keyword}")


def _others(old: JsonSchema, new: JsonSchema, at: At) -> Iterator[Difference]:
    for keyword in sorted({*old, *new} - UNDERSTOOD):
        if keyword not in new:
            yield Difference(at, "compatible", f"{keyword} {in_short(old[keyword])} -> none")
        elif old.get(keyword) != new[keyword]:
            before = in_short(old[keyword]) if keyword in old else "none"
            yield Difference(at, "breaking", f"{keyword} {before} -> {in_short(new[keyword])}")


def _renamed(before: JsonSchema, after: JsonSchema) -> dict[str, str]:
    """Old name -> new name: of the same shape, and told the same, alike in name, or the only change."""
    removed = [name for name in before if name not in after]
    added = [name for name in after if name not in before]
    renamed: dict[str, str] = {}
    for name in removed:
        same = [new for new in added if _shape(after[new]) == _shape(before[name]) and new not in renamed.values()]
        told = [new for new in same if (text := _text(before[name])) and _text(after[new]) == text]
        near = told or get_close_matches(name, same, 1, 0.6) or (same if len(removed) == len(added) == 1 else [])
        if near:
            renamed[name] = near[0]
    return renamed


def _shape(value: Any) -> JsonSchema:
    return {key: inner for key, inner in _schema(value).items() if key not in TEXTS}


def _text(value: Any) -> Any:
    return _schema(value).get("description")
