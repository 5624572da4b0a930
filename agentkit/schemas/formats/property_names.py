"""Aliases for property names that a provider refuses."""

import re
import unicodedata
from collections.abc import Iterator

from ...core.portable import find_free_name
from .. import JsonSchema, iter_children
from .declaration import Loss
from .rewriting import ROOT, as_json, map_schemas

MAX_ALIAS_CHARS = 64


def alias_names(schema: JsonSchema, pattern: re.Pattern[str], losses: list[Loss]) -> tuple[JsonSchema, dict[str, str]]:
    """Return `schema` with property names that fit `pattern`, and the aliases: new name -> real name.

    The real name is added to the property's description.  A real name has the same alias throughout.
    """
    names = list(dict.fromkeys(_iter_names(schema)))
    refused = [name for name in names if not pattern.fullmatch(name)]
    if not refused:
        return schema, {}
    taken = set(names)
    aliases: dict[str, str] = {}
    for name in refused:
        aliases[name] = _choose_alias(name, pattern, taken)
        taken.add(aliases[name])
    return _rename(schema, ROOT, aliases, losses), {alias: name for name, alias in aliases.items()}


def _iter_names(schema: JsonSchema) -> Iterator[str]:
    yield from schema.get("properties", ())
    for _, inner in iter_children(schema):
        yield from _iter_names(inner)


def _choose_alias(name: str, pattern: re.Pattern[str], taken: set[str]) -> str:
    """Return ASCII letters as near to the name as possible, and not in `taken`."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", letters).strip("_")[: MAX_ALIAS_CHARS - 6]
    stem = stem if pattern.fullmatch(stem) else f"p_{stem}".rstrip("_")
    return find_free_name(stem, taken)


def _rename(schema: JsonSchema, path: str, aliases: dict[str, str], losses: list[Loss]) -> JsonSchema:
    copy = map_schemas(schema, path, lambda inner, at: _rename(inner, at, aliases, losses))
    for name in [name for name in copy.get("properties", ()) if name in aliases]:
        losses.append(Loss(path, "properties", name, f"renamed to {aliases[name]}"))
        inner = copy["properties"][name]
        text = inner.get("description")
        inner["description"] = f"{text} (named {as_json(name)})" if text else f"named {as_json(name)}"
    for keyword in ("properties", "required"):
        if keyword in copy:
            renamed = [aliases.get(name, name) for name in copy[keyword]]
            values = copy[keyword]
            copy[keyword] = dict(zip(renamed, values.values(), strict=True)) if keyword == "properties" else renamed
    return copy
