"""What changed between two locks."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["breaking", "compatible"]


@dataclass(frozen=True)
class Change:
    """What changed in a tool.

    Attributes:
        tool: Its name.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        kind: "breaking" if arguments that were valid may not be any more, else "compatible".
        message: What became of it: "removed", "renamed to place", "no longer takes 'b'".
    """

    tool: str
    path: str
    kind: Kind
    message: str


@dataclass(frozen=True)
class Difference:
    """What changed in a schema, at the place to which the steps `at` lead: (".lines", "[]", ".quantity")."""

    at: tuple[str, ...]
    kind: Kind
    message: str


def joined(at: tuple[str, ...]) -> str:
    """The steps as one path: `lines[].quantity`."""
    return "".join(at).lstrip(".")
