"""The root of a tool's schema: every provider wants an object there, without alternatives.

Sources: OpenAI refuses oneOf, anyOf, allOf, enum and not at the root (langchainjs#9804), Anthropic oneOf, allOf and
anyOf (anthropics/claude-code#40075), MCP wants `type: object` (specification, Tool.inputSchema).
"""

from copy import deepcopy

from .. import JsonSchema
from .common_subset import union
from .declaration import Loss
from .rewriting import ROOT, VALIDATED
from .words import LONGEST

ANSWER = "answer"
"""The one property under which a schema that is no object is wrapped."""


def dereferenced(schema: JsonSchema) -> JsonSchema:
    """A copy whose root is no mere reference: what it refers to, with the keywords beside it on top."""
    definitions = schema.get("$defs", {})
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[reference.removeprefix("#/$defs/")], **beside}
    return deepcopy(schema)


def object_root(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """A copy with an object at its root: alternatives are merged into one, what is no object is wrapped."""
    schema = dereferenced(schema)
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = [dereferenced({"$defs": schema.get("$defs", {}), **branch}) for branch in schema.get(keyword, ())]
        if branches and all(_is_object(branch, schema) for branch in branches):
            schema = _merged(schema, keyword, branches, losses)
    if not _is_object(schema, {}) or {"allOf", "anyOf", "oneOf", "$ref"} & set(schema):
        return wrapped(schema, losses)
    for keyword in ("enum", "const", "not"):
        if keyword in schema:
            losses.append(Loss(ROOT, keyword, schema.pop(keyword), VALIDATED))
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def answer_root(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """A copy with an object at its root; alternatives, and what is no object, are wrapped as they are."""
    schema = dereferenced(schema)
    if schema.get("type") == "object" and not {"allOf", "anyOf", "oneOf", "enum", "const", "not"} & set(schema):
        return {**schema, "properties": schema.get("properties", {})} if _is_closed(schema) else schema
    return wrapped(schema, losses)


def wrapped(schema: JsonSchema, losses: list[Loss]) -> JsonSchema:
    """An object with the one required property "answer", which is `schema`."""
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    losses.append(Loss(ROOT, "type", schema.get("type"), f"replaced by an object with the property {ANSWER}"))
    root: JsonSchema = {"type": "object", "properties": {ANSWER: inner}, "required": [ANSWER]}
    root["additionalProperties"] = False
    return {**root, "$defs": schema["$defs"]} if "$defs" in schema else root


def _is_closed(schema: JsonSchema) -> bool:
    return schema.get("additionalProperties", True) is False


def _is_object(schema: JsonSchema, around: JsonSchema) -> bool:
    told = "properties" in schema or (around.get("type") == "object" and "required" in schema)
    return schema.get("type", "object" if told else None) == "object"


def _merged(schema: JsonSchema, keyword: str, branches: list[JsonSchema], losses: list[Loss]) -> JsonSchema:
    """The root and its branches as one object: all properties; required is what every alternative requires."""
    own = {key: value for key, value in schema.items() if key not in (keyword, "discriminator")}
    every = keyword == "allOf"
    properties: dict[str, list[JsonSchema]] = {}
    for part in (own, *branches):
        for name, inner in part.get("properties", {}).items():
            properties.setdefault(name, []).append(inner)
    required = [set(branch.get("required", ())) for branch in branches]
    needed = set().union(*required) if every else set.intersection(*required)
    closed = all(_is_closed(branch) for branch in branches) and (_is_closed(own) or "properties" not in own)
    losses.append(Loss(ROOT, keyword, schema[keyword], "description" if not every else "replaced by properties"))
    if "discriminator" in schema:
        losses.append(Loss(ROOT, "discriminator", schema["discriminator"], "dropped: the alternatives are merged"))
    for branch in branches:
        lost = set(branch) - {"type", "properties", "required", "additionalProperties", "description", "title", "$defs"}
        losses.extend(Loss(ROOT, key, branch[key], VALIDATED) for key in sorted(lost))
    texts = [own.get("description", ""), *([] if every else [_alternatives(branches)])]
    merged: JsonSchema = {
        **own,
        "type": "object",
        "properties": {name: _one(found, every) for name, found in properties.items()},
        "required": [name for name in properties if name in needed | set(own.get("required", ()))],
    }
    if text := "\n".join(filter(None, texts)):
        merged["description"] = text
    merged.pop("additionalProperties", None)
    return {**merged, "additionalProperties": False} if closed else merged


def _one(found: list[JsonSchema], every: bool) -> JsonSchema:
    together = union(found)
    return {"allOf": together["anyOf"]} if every and len(found) > 1 and set(together) == {"anyOf"} else together


def _alternatives(branches: list[JsonSchema]) -> str:
    """The ways to give the arguments, each with its names; what may be left out in brackets."""

    def names(branch: JsonSchema) -> str:
        required: list[str] = branch.get("required", [])
        optional = [f"[{name}]" for name in branch.get("properties", {}) if name not in required]
        return ", ".join([*required, *optional]) or "nothing"

    text = "either " + " or ".join(map(names, branches))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
