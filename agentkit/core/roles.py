"""Roles of a tool's parameters: `to: Annotated[str, Destination()]`."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Destination:
    """The parameter says where something goes, an address or a path, say; an untrusted value here needs a decision."""


@dataclass(frozen=True, slots=True)
class Content:
    """The parameter is the content that goes to the call's destination: a text, a title.

    It may be untrusted if the destination is trusted, except for the addresses in it.
    """


@dataclass(frozen=True, slots=True)
class Plain:
    """The parameter is neither a destination nor content: an amount, a date, a choice."""


Role: TypeAlias = Destination | Content | Plain
