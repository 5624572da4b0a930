"""Rules about what a tool does outside: which of its parameters say where, and whether it sends data out."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..json_tool import JsonTool
from ..roles import list_roles, may_have_effect, sends_outside
from ..settings import ORDERED_EFFECTS
from .finding import LintFinding


def check_effects(tools: Sequence[JsonTool[..., Any]]) -> Iterator[LintFinding]:
    """Yield the tools without a declared effect, if another one returns untrusted text."""
    source = next((tool.name for tool in tools if tool.is_untrusted), "")
    message = (
        f"the effect is not declared: after {source} was called, destinations need a decision, and with "
        'untrusted="context" or "hidden" all calls; declare effect="read", "idempotent", "write" or "danger"'
    )
    undeclared = [tool for tool in tools if tool.effect is None and may_have_effect(tool)] if source else []
    yield from (LintFinding(tool.name, "", "no-effect", message, "hint") for tool in undeclared)


def check_consequences(tool: JsonTool[..., Any]) -> Iterator[LintFinding]:
    """Yield what is not declared of a tool that changes something or sends data out."""
    roles = list_roles(tool)
    if tool.effect in ORDERED_EFFECTS and roles and "destination" not in roles.values():
        message = (
            "no parameter is a destination, so each value from untrusted text needs a decision: mark the one that says "
            "where, Annotated[str, Destination()]"
        )
        yield LintFinding(tool.name, "", "no-destination", message, "hint")
    if tool.egress is None and tool.effect not in ORDERED_EFFECTS and sends_outside(tool):
        message = "takes a web address and counts as sending data outside: declare egress=True, or egress=False"
        yield LintFinding(tool.name, "", "egress", message, "hint")
