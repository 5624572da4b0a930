"""A question of a tool as text or as a form, and the value that its schema wants of what a person enters."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from .questions import Question

WORDS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
SIMPLE_TYPES = ("string", "number", "integer", "boolean")
ANSWER_KEY = "answer"
"""The field of a form for an answer that is not an object."""


def is_form(schema: Mapping[str, Any]) -> bool:
    """Return whether an answer is an object with properties, so that each is a field of a form."""
    return schema.get("type") == "object" and bool(schema.get("properties"))


def to_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a form for an answer; one that is not an object becomes its only field."""
    if is_form(schema):
        return schema
    return {"type": "object", "properties": {ANSWER_KEY: schema}, "required": [ANSWER_KEY]}


def read_form(schema: Mapping[str, Any], content: Mapping[str, Any]) -> Any:
    """Return the answer, for which `schema` was asked, that the fields of its form hold."""
    return content if is_form(schema) else content.get(ANSWER_KEY)


def read_value(question: Question, ask: Callable[[str], str], problem: str = "") -> Any:
    """Ask a question with `ask`, which shows a prompt and returns a line; return the value, not yet validated.

    An object of simple properties is asked for property by property.
    """
    lead = f"\n{question.text}" + (f"\n{problem}" if problem else "")
    properties = question.schema.get("properties", {})
    if not is_form(question.schema) or not all(map(_is_simple, properties.values())):
        return read_entry(question.schema, ask(f"{lead}\n{describe_schema(question.schema)}: "))
    values, required = {}, question.schema.get("required", ())
    for name, schema in properties.items():
        note = schema.get("description") or schema.get("title") or ""
        optional = "" if name in required else " (may be left empty)"
        entry = ask(f"{lead}\n{name}{f' - {note}' if note else ''}, {describe_schema(schema)}{optional}: ")
        lead = ""
        if entry or name in required:
            values[name] = read_entry(schema, entry)
    return values


def _is_simple(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (schema.get("type") in SIMPLE_TYPES or "enum" in schema)


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Return in a few words what an answer must be."""
    if isinstance(choices := schema.get("enum"), list):
        return f"one of {', '.join(str(choice) for choice in choices)}"
    kind = schema.get("type")
    if kind == "string":
        return f"text ({schema['format']})" if "format" in schema else "text"
    return {"boolean": "y or n", "number": "a number", "integer": "a whole number"}.get(str(kind), "JSON")


def read_entry(schema: Mapping[str, Any], entry: str) -> Any:
    """Return what the person entered as the value that the schema describes; a text where it is nothing else."""
    if isinstance(choices := schema.get("enum"), list):
        return next((choice for choice in choices if str(choice) == entry), entry)
    if schema.get("type") == "string":
        return entry
    if schema.get("type") == "boolean":
        return WORDS.get(entry.lower(), entry)
    try:
        return json.loads(entry)
    except ValueError:
        return entry
