"""The roles of parameters, and which tools send data outside."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import BaseModel, HttpUrl

from agentkit import JsonAgent, JsonTool, ToolExecutor, ToolRegistry, lint, tool
from agentkit.policies import Content, Destination, Plain
from agentkit.tools.roles import find_role, is_consequential, is_destination, list_roles, sends_outside


class Envelope(BaseModel):
    """Where a letter goes."""

    name: Annotated[str, Destination()]
    stamp: str


@dataclass
class Letter:
    """A letter."""

    envelope: Envelope
    lines: Annotated[list[str], Content()]


def forward(
    letter: Letter,
    where: Annotated[str, Destination()],
    copies: list[Annotated[str, Destination()]] | None = None,
    page: HttpUrl | None = None,
    title: Annotated[str, Plain()] = "",
    path: Annotated[str, Content()] = "",
    *,
    body: str = "",
    weight: int = 0,
) -> str:
    """Forwards a letter."""
    return "sent"


def plan(day: str, slot: int, note: str = "", extras: Annotated[list[str] | None, Plain()] = None) -> str:
    """Plans."""
    return "planned"


def double(number: int) -> int:
    """Doubles the number."""
    return 2 * number


def look(page_url: str) -> str:
    """Looks at a page."""
    return page_url


class TestRoles:
    """The marker decides, then the type, then the name and the effect."""

    @pytest.mark.parametrize(
        ("where", "role"),
        [
            ("letter.envelope.name", Destination),
            ("letter.envelope.stamp", Content),
            ("letter.lines[0]", Content),
            ("where", Destination),
            ("copies[1]", Destination),
            ("page", Destination),
            ("title", Plain),
            ("path", Content),
            ("body", Content),
            ("weight", Content),
            ("a name in letter", Content),
        ],
    )
    def test_a_role_comes_from_the_marker_then_the_type_then_the_name(self, where, role):
        assert type(find_role(JsonTool(forward), where)) is role

    @pytest.mark.parametrize(
        ("where", "of_write", "of_read"),
        [
            ("day", Plain, Content),
            ("slot", Plain, Content),
            ("note", Content, Content),
            ("extras[0]", Plain, Plain),
        ],
    )
    def test_without_a_destination_the_name_and_the_effect_decide(self, where, of_write, of_read):
        assert type(find_role(tool(effect="write")(plan), where)) is of_write
        assert type(find_role(tool(effect="read")(plan), where)) is of_read

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ("to", True),
            ("to[0]", True),
            ("mail.recipient_email", True),
            ("recipientEmail", True),
            ("url", True),
            ("path", True),
            ("accountIBAN", True),
            ("body", False),
            ("text", False),
            ("amount", False),
            ("total", False),
            ("items[3].title", False),
        ],
    )
    def test_destinations_are_recognised_by_their_names(self, where, expected):
        assert is_destination(JsonTool(double), where) is expected


class TestKindsOfTools:
    """Tools of every kind have roles."""

    def test_a_tool_with_a_schema_of_its_own(self):
        def post(**arguments: object) -> str:
            return "posted"

        schema = {"type": "object", "properties": {"site": {"type": "string", "format": "uri"}}}
        raw = JsonTool.from_schema(name="raw", description="Posts.", parameters=schema, call=post)
        assert list_roles(raw) == {"site": "destination"}

    def test_a_tool_whose_arguments_are_a_model(self):
        class Post(ToolExecutor[Envelope]):
            """Posts an envelope."""

            def execute(self, arguments: Envelope) -> str:
                """Posts."""
                return "posted"

        (executor,) = ToolRegistry(Post).values()
        assert list_roles(executor) == {"name": "destination", "stamp": "content"}

    def test_a_renamed_tool(self):
        assert list_roles(JsonTool(forward).renamed("other"))["where"] == "destination"

    def test_a_function_without_a_signature(self):
        schema = {"properties": {"to": {"type": "string"}}}
        raw = JsonTool.from_schema(name="raw", description="Does it.", parameters=schema, call=dict)
        assert list_roles(raw) == {"to": "destination"}

    def test_a_class_with_a_type_that_cannot_be_resolved_has_no_markers(self):
        class Hidden(BaseModel):
            """A class that only this function knows."""

        @dataclass
        class Order:
            """An order."""

            item: "Annotated[Hidden, Destination()]"

        def order(order: Order) -> str:
            return "ordered"

        schema = {"properties": {"order": {"type": "object", "properties": {"item": {"type": "string"}}}}}
        raw = JsonTool.from_schema(name="order", description="Orders.", parameters=schema, call=order, effect="write")
        assert list_roles(raw) == {"order": "plain"}
        assert type(find_role(raw, "order.item")) is Plain


class TestSendingOutside:
    """A tool with a web address sends data outside, unless it is declared otherwise."""

    def test_a_web_address_in_a_name_or_a_tuple_counts(self):
        @tool(effect="read")
        def fetch(page: tuple[int, HttpUrl]) -> str:
            """Fetches."""
            return "a page"

        assert sends_outside(fetch)
        assert list_roles(fetch) == {"page": "destination"}
        assert sends_outside(JsonTool(look))
        assert is_consequential(JsonTool(look, effect="read"))

    def test_the_declaration_decides(self):
        assert not sends_outside(JsonTool(look, egress=False))
        assert not is_consequential(JsonTool(double))
        assert JsonTool(JsonTool(look, egress=True)).egress is True

    def test_a_type_that_contains_itself_sends_nothing_outside(self):
        tree = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/tree"}}]}
        schema = {"type": "object", "properties": {"data": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
        count = JsonTool.from_schema(name="count", description="Counts.", parameters=schema, call=print, effect="read")
        assert not sends_outside(count)
        assert list_roles(count) == {"data": "content"}


class TestLint:
    """`lint` names tools whose declarations the policy for untrusted text misses."""

    def test_a_write_without_a_destination_and_an_undeclared_egress(self):
        @tool(effect="write")
        def send(to: str) -> str:
            """Sends a mail."""
            return "sent"

        @tool(effect="read", egress=True, trust="untrusted")
        def fetch(url: str) -> str:
            """Fetches a page."""
            return "a page"

        found = {(entry.tool, entry.rule) for entry in lint([JsonTool(double, effect="write"), look, send, fetch])}
        of_roles = {entry for entry in found if entry[1] in ("no-destination", "egress")}
        assert of_roles == {("double", "no-destination"), ("look", "egress")}

    def test_an_undeclared_effect_beside_a_tool_that_returns_untrusted_text(self):
        @tool(trust="untrusted", effect="read")
        def read_page() -> str:
            """Reads a page."""
            return "a page"

        @tool(effect="read")
        def find() -> str:
            """Finds."""
            return "found"

        tools = [double, find, JsonAgent(find, description="Finds.").as_tool("clerk")]
        assert [entry.tool for entry in lint([read_page, *tools]) if entry.rule == "no-effect"] == ["double"]
        assert [entry.tool for entry in lint(tools) if entry.rule == "no-effect"] == []
