"""How large a strict schema may be.

Source: OpenAI guide "Structured model outputs", Supported schemas: 5000 properties, 10 levels of objects, 1000 enum
values, 120000 characters of names and values, 15000 characters in one enum of more than 250 values.
"""

from collections.abc import Iterator

from .. import JsonSchema, children

PROPERTIES = 5000
LEVELS = 10
VALUES = 1000
CHARACTERS = 120_000
LONG_ENUM, LONG_ENUM_CHARACTERS = 250, 15_000


def excess(schema: JsonSchema) -> str:
    """Which limit `schema` exceeds, in words; "" if none."""
    nodes = list(_nodes(schema))
    names = [name for node in nodes for key in ("properties", "$defs") for name in node.get(key, ())]
    enums = [[str(value) for value in node["enum"]] for node in nodes if "enum" in node]
    values = [value for enum in enums for value in enum]
    properties = sum(len(node.get("properties", ())) for node in nodes)
    lengths = [sum(map(len, enum)) for enum in enums if len(enum) > LONG_ENUM]
    depth = levels(schema, schema.get("$defs", {}))
    for count, limit, what in (
        (properties, PROPERTIES, "properties"),
        (depth, LEVELS, "levels of objects"),
        (len(values), VALUES, "enum values"),
        (sum(map(len, names)) + sum(map(len, values)), CHARACTERS, "characters of names and values"),
        (max(lengths, default=0), LONG_ENUM_CHARACTERS, f"characters in an enum of more than {LONG_ENUM} values"),
    ):
        if count > limit:
            return f"{count} {what}, {limit} are allowed"
    return ""


def levels(schema: JsonSchema, definitions: dict[str, JsonSchema], within: frozenset[str] = frozenset()) -> int:
    """How many objects lie one in another; what contains itself counts once."""
    inner = [part for place, part in children(schema) if place[0] != "$defs"]
    if isinstance(reference := schema.get("$ref"), str) and reference not in within:
        within |= {reference}
        inner.append(definitions[reference.removeprefix("#/$defs/")])
    deepest = max((levels(part, definitions, within) for part in inner), default=0)
    return deepest + ("properties" in schema)


def _nodes(schema: JsonSchema) -> Iterator[JsonSchema]:
    yield schema
    for _, inner in children(schema):
        yield from _nodes(inner)
