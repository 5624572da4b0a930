"""Anthropic's messages API: flat, the schema under `input_schema`.

Sources: Anthropic API reference, messages, `tools` (`input_schema` is draft 2020-12 with `type: object`); no oneOf,
allOf or anyOf at its root (anthropics/claude-code#40075); one property key that does not match the pattern below fails
the whole request (anthropics/claude-code#79418, ComposioHQ/composio#3500).
"""

import re

from .declaration import Declaration, Loss, RenderedTool, alias_names, rewrite
from .structure import make_object_root, make_portable

ANTHROPIC_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def to_anthropic(declaration: Declaration) -> RenderedTool:
    """Return the client tool of the messages API."""
    losses: list[Loss] = []
    schema, aliases = alias_names(make_object_root(declaration.parameters, losses), ANTHROPIC_PROPERTY_NAME, losses)
    schema = rewrite(schema, losses, make_portable)
    text = {"description": declaration.description} if declaration.description else {}
    return RenderedTool({"name": declaration.name, **text, "input_schema": schema}, tuple(losses), aliases)
