"""Anthropic's messages API: flat, the schema under `input_schema`.

Sources: Anthropic API reference, messages, `tools` (`input_schema` is draft 2020-12 with `type: object`); no oneOf,
allOf or anyOf at its root (anthropics/claude-code#40075); one property key that does not match the pattern below fails
the whole request (anthropics/claude-code#79418, ComposioHQ/composio#3500).
"""

import re

from .common_subset import portable
from .declaration import Declaration, Loss, Rendering
from .property_names import aliased
from .rewriting import rewritten
from .structure import object_root

KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def anthropic(declaration: Declaration) -> Rendering:
    """The client tool of the messages API."""
    losses: list[Loss] = []
    schema, aliases = aliased(object_root(declaration.parameters, losses), KEY, losses)
    schema = rewritten(schema, losses, portable)
    text = {"description": declaration.description} if declaration.description else {}
    return Rendering({"name": declaration.name, **text, "input_schema": schema}, tuple(losses), aliases)
