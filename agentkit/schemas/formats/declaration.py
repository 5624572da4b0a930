"""Input and output of a format: a tool in plain form, and the tool as one provider takes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .. import JsonSchema


@dataclass(frozen=True)
class Declaration:
    """A tool (or the form of an answer) in plain form; `parameters` is JSON Schema, draft 2020-12.

    `output` returns the JSON Schema of what the tool returns, or None; the dialects that state it call it.
    """

    name: str
    description: str
    parameters: JsonSchema
    output: Callable[[], JsonSchema | None] = lambda: None


@dataclass(frozen=True)
class Loss:
    """A keyword that a dialect cannot express.

    Attributes:
        path: The schema with the keyword, from the root, with references inlined: `parameters.properties.n.items`.
        keyword: The JSON Schema keyword, or "strict" for a tool that cannot be strict.
        value: The keyword's value.
        moved_to: Where it went: "description" (written into that schema's description), "replaced by ...",
            "dropped: ..." with the reason, or "renamed to ...".
    """

    path: str
    keyword: str
    value: Any
    moved_to: str


@dataclass(frozen=True)
class RenderedTool:
    """A tool in one dialect.

    Attributes:
        schema: The tool as the provider takes it; plain JSON, no two parts of it the same object.
        losses: What the dialect cannot express, and where it went.
        aliases: Replacements of property names that the provider refuses: alias -> real name, at any depth.  No alias
            is the real name of another property of the tool.
    """

    schema: dict[str, Any]
    losses: tuple[Loss, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def restore_names(self, arguments: Any) -> Any:
        """Return `arguments` as the model wrote them, with the real names in place of the aliases."""
        if not self.aliases:
            return arguments
        if isinstance(arguments, dict):
            return {self.aliases.get(key, key): self.restore_names(value) for key, value in arguments.items()}
        return [self.restore_names(item) for item in arguments] if isinstance(arguments, list) else arguments


Format: TypeAlias = Callable[[Declaration], RenderedTool]
"""A pure function from a tool in plain form to the tool as one provider takes it."""
