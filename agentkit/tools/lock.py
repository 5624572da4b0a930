"""Tool schemas in a file, and what changed since: the contract that callers, prompts and saved runs rely on.

Two versions of a JSON Schema are compared: what was added, removed or changed, and at which path.  Texts, defaults, and
what was added without being required are compatible.  Every other change is breaking, a wider bound included: whether
one schema accepts all that another accepts cannot be decided in general.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from ..core.errors import DefinitionError
from ..core.values import frozen
from ..schemas.walk import JsonSchema, rebuild
from .registry import ToolRegistry

ChangeKind: TypeAlias = Literal["breaking", "compatible"]
Difference: TypeAlias = tuple[str, ChangeKind, str]
"""The path (`lines[].quantity`, "" for the root), the kind, and what changed."""
TEXTS = ("default", "description", "examples", "deprecated", "readOnly", "writeOnly", "title", "$comment")
WALKED = frozenset({"properties", "required", "$defs", "$schema", "$id", "discriminator"})
UNORDERED = ("enum", "anyOf", "oneOf", "required")
STEPS = {"items": "[]", "additionalProperties": ".*"}
MAX_CHANGED_VALUE_CHARS = 60


def compare_schemas(old: JsonSchema, new: JsonSchema) -> list[Difference]:
    """Return the differences of two versions of a schema, each once, breaking ones first."""
    found = dict.fromkeys(_Comparison(old.get("$defs", {}), new.get("$defs", {})).compare(old, new, ""))
    return sorted(found, key=lambda difference: difference[1])


class _Comparison:
    """The definitions of both sides, and the pairs of references that were compared."""

    def __init__(self, old: JsonSchema, new: JsonSchema) -> None:
        self._old = old
        self._new = new
        self._compared: set[tuple[Any, Any]] = set()

    def compare(self, old: Any, new: Any, path: str) -> Iterator[Difference]:
        """Compare texts, then pair equal alternatives, then the one left on each side."""
        before = _resolve(old, self._old)
        after = _resolve(new, self._new)
        pair = (old.get("$ref"), new.get("$ref")) if isinstance(old, dict) and isinstance(new, dict) else (None, None)
        if all(pair) and pair in self._compared:  # a type that contains itself, or occurs again
            return
        self._compared.add(pair)
        for keyword in TEXTS[:-2]:
            if before.get(keyword) != after.get(keyword):
                yield path, "compatible", f"{keyword} {_shorten(before, keyword)} -> {_shorten(after, keyword)}"
        lost = _alternatives_of(before)
        added = _alternatives_of(after)
        for branch in list(lost):
            shape = _shape(_resolve(branch, self._old))
            same = next((other for other in added if _shape(_resolve(other, self._new)) == shape), None)
            if same is not None:
                lost.remove(branch)
                added.remove(same)
                yield from self._compare_keywords(branch, same, path)
        if len(lost) == len(added) == 1:
            yield from self._compare_keywords(lost[0], added[0], path)
        else:
            for branch in lost:
                yield path, "breaking", f"removed: {_summarize(_resolve(branch, self._old))}"
            for branch in added:
                yield path, "compatible", f"added: {_summarize(_resolve(branch, self._new))}"

    def _compare_keywords(self, old: JsonSchema, new: JsonSchema, path: str) -> Iterator[Difference]:
        if "$ref" in old or "$ref" in new:
            yield from self.compare(old, new, path)
            return
        yield from self._compare_properties(old, new, path)
        for keyword in sorted({*old, *new} - WALKED):
            before = old.get(keyword)
            after = new.get(keyword)
            if keyword == "type" and "enum" in old and "enum" in new:
                continue
            if keyword in STEPS and isinstance(before, dict) and isinstance(after, dict):
                yield from self.compare(before, after, f"{path}{STEPS[keyword]}".lstrip("."))
            elif keyword == "prefixItems" and before and after and len(before) == len(after):
                for place, (one, other) in enumerate(zip(before, after, strict=True)):
                    yield from self.compare(one, other, f"{path}[{place}]")
            elif keyword == "enum" and before and after:
                olds = [*map(_to_json, before)]
                news = [*map(_to_json, after)]  # as text, because 1 == True
                if removed := [value for value in olds if value not in news]:
                    yield path, "breaking", f"removed: {', '.join(removed)}"
                if added := [value for value in news if value not in olds]:
                    yield path, "compatible", f"added: {', '.join(added)}"
            elif _shape({keyword: before}) != _shape({keyword: after}):
                yield path, "breaking", f"{keyword} {_shorten(old, keyword)} -> {_shorten(new, keyword)}"

    def _compare_properties(self, old: JsonSchema, new: JsonSchema, path: str) -> Iterator[Difference]:
        before = old.get("properties", {})
        after = new.get("properties", {})
        for name in {**before, **after}:
            here = f"{path}.{name}".lstrip(".")
            is_required = name in new.get("required", ())
            kind: ChangeKind = "breaking" if is_required else "compatible"
            if name not in after:
                yield here, "breaking", "removed"
            elif name not in before:
                yield here, kind, f"added, {'required' if is_required else 'optional'}"
            else:
                if is_required != (name in old.get("required", ())):
                    yield here, kind, f"now {'required' if is_required else 'optional'}"
                yield from self.compare(before[name], after[name], here)


def _resolve(schema: Any, definitions: JsonSchema) -> JsonSchema:
    """Return what a schema refers to, with the keywords beside the reference; true and false as schemas."""
    if not isinstance(schema, dict):
        return {} if schema else {"not": {}}
    if (name := str(schema.get("$ref", "")).removeprefix("#/$defs/")) not in definitions:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return _resolve({**definitions[name], **beside}, {key: definitions[key] for key in definitions if key != name})


def _alternatives_of(schema: JsonSchema) -> list[JsonSchema]:
    """Return the alternatives of a union or of a list of types, without their texts."""
    bare = {key: value for key, value in schema.items() if key not in TEXTS}
    if "const" in bare:
        bare["enum"] = [bare.pop("const")]
    for union in ("anyOf", "oneOf"):
        if branches := bare.pop(union, None):
            return [part for branch in branches for part in _alternatives_of({**bare, **_resolve(branch, {})})]
    kinds = bare.get("type")
    return [{**bare, "type": kind} for kind in kinds] if isinstance(kinds, list) and "enum" not in bare else [bare]


def _shape(schema: JsonSchema) -> JsonSchema:
    """Return `schema` without texts, and with what has no order sorted."""

    def strip(node: JsonSchema) -> JsonSchema:
        kept = {key: value for key, value in node.items() if key not in TEXTS}
        unordered = {key: sorted(kept[key], key=_to_json) for key in UNORDERED if isinstance(kept.get(key), list)}
        return {**kept, **unordered}

    return rebuild(schema, strip)


def _summarize(schema: JsonSchema) -> str:
    """Return a schema in a few words: "null", "object with kind, lives"."""
    if "enum" in schema:
        return ", ".join(map(_to_json, schema["enum"]))
    names = ", ".join(schema.get("properties", ()))
    return f"{schema.get('type', 'anything')} with {names}" if names else str(schema.get("type", "anything"))


def _shorten(schema: JsonSchema, keyword: str) -> str:
    if keyword not in schema:
        return "anything" if keyword == "type" else "none"
    text = schema[keyword] if keyword == "type" else _to_json(schema[keyword])
    return text if len(text) <= MAX_CHANGED_VALUE_CHARS else f"{text[:MAX_CHANGED_VALUE_CHARS]}..."


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


LOCK_VERSION = 1


@frozen(slots=False)
class Change:
    """What changed in a tool.

    Attributes:
        tool: Its name.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        kind: "breaking" if arguments that were valid may be invalid now, else "compatible".
        message: What changed: "removed", "added, optional", "type integer -> string".
    """

    tool: str
    path: str
    kind: ChangeKind
    message: str


def lock(tools: Any) -> dict[str, Any]:
    """Return the plain schemas of tools as plain JSON: `{"version": 1, "tools": {name: schema}}`, sorted by name.

    Args:
        tools: A registry, a function, a tool, or an iterable of them.  An agent's own answer tool is left out.
    """
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
    entries = {tool.name: tool.schema("json") for tool in sorted(registry.own_tools, key=lambda tool: tool.name)}
    return {"version": LOCK_VERSION, "tools": json.loads(json.dumps(entries))}


def format_lock(locked: Mapping[str, Any]) -> str:
    """Return the text of a lock file: keys are sorted, so that a diff shows changes only."""
    return json.dumps(locked, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def read_lock(text: str, key: str = "tools") -> dict[str, Any]:
    """Parse the text of a lock file.

    Args:
        text: The text.
        key: What is locked.

    Raises:
        DefinitionError: The text is no lock file, or has another version.
    """
    command = "agentkit lock" if key == "tools" else f"agentkit lock --{key}"
    try:
        locked = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"not a lock file: invalid JSON ({error}). Write it with `{command}`.") from error
    if not isinstance(locked, dict) or not isinstance(locked.get(key), dict):
        raise DefinitionError(f'not a lock file: it has no object "{key}". Write it with `{command}`.')
    if locked.get("version") != LOCK_VERSION:
        found = locked.get("version")
        raise DefinitionError(
            f"the lock file has version {found!r}, not {LOCK_VERSION}. Write it again with `{command}`."
        )
    return locked


def compare_locks(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return what was added, removed or changed in the tools of two locks, sorted by tool, breaking changes first.

    Compatible are: other texts and defaults, an added tool, an added optional parameter, an added enum value or
    alternative, and a parameter that is no longer required.  Every other change is breaking, a wider type or bound
    included: review it, and write the lock again.

    Args:
        old: The lock of before, as `lock` or `read_lock` returns it.
        new: The lock of now.
    """
    before = old["tools"]
    after = new["tools"]
    changes: list[Change] = []
    for name in sorted({*before, *after}):
        if name not in after:
            changes.append(Change(name, "", "breaking", "removed"))
        elif name not in before:
            changes.append(Change(name, "", "compatible", "added"))
        else:
            try:
                changes += [Change(name, *difference) for difference in compare_schemas(before[name], after[name])]
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise DefinitionError(f"the lock of the tool {name!r} is damaged: {error}. Write it again.") from error
    return changes


def compare_digests(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield what became of each file that is not as its digest in a lock: "scripts/run.py changed"."""
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            yield f"{path} {'changed' if path in old and path in new else 'removed' if path in old else 'added'}"
