"""The tools that the conformance suite of servers calls, served by agentkit: python conformance_server.py PORT."""

import asyncio
import base64
import sys

from agentkit import JsonTool, RunContext, ask_question, tool
from agentkit.mcp import serve

RED_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
TITLED = [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}]
OPTIONS = ["option1", "option2", "option3"]


@tool(effect="read")
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(effect="read")
def test_image_content() -> bytes:
    """Return an image."""
    return RED_DOT


@tool(effect="read")
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool(effect="read")
async def test_tool_with_progress(run: RunContext) -> str:
    """Report progress."""
    for number in (0, 50, 100):
        run.emit(number)
        await asyncio.sleep(0.05)
    return "done"


@tool(effect="read")
def test_elicitation(message: str) -> str:
    """Ask the person for a name and an address."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answer = ask_question(message, {"type": "object", "properties": fields, "required": ["username", "email"]})
    return f"User response: {answer}"


@tool(effect="read")
def test_elicitation_sep1034_defaults() -> str:
    """Ask the person with a form that has default values."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {ask_question('Who?', {'type': 'object', 'properties': fields})}"


@tool(effect="read")
def test_elicitation_sep1330_enums() -> str:
    """Ask the person with a form of choices."""
    names = ["Option One", "Option Two", "Option Three"]
    fields = {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    }
    return f"Elicitation completed: {ask_question('Which?', {'type': 'object', 'properties': fields})}"


ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": ADDRESS},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
TOOLS = [
    test_simple_text, test_image_content, test_error_handling, test_tool_with_progress, test_elicitation,
    test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums,
    JsonTool.from_schema(
        name="json_schema_2020_12_tool", description="Tool with a schema of draft 2020-12.", parameters=SCHEMA,
        call=lambda **arguments: arguments, effect="read",
    ),
]  # fmt: skip

if __name__ == "__main__":
    serve(TOOLS, http=True, port=int(sys.argv[1]))
