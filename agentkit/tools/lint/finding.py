"""What the linter has to say."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "hint"]


@dataclass(frozen=True)
class Finding:
    """Something to mend in a tool.

    Attributes:
        tool: Its name; "" for what concerns all tools together.
        path: The parameter, as `lines[].quantity`; "" for the tool itself.
        rule: The name of the rule: "parameter-description", "enum-in-text" and the like.
        message: What is wrong, and what to write instead.
        severity: "error" (cannot be used), "warning" (a model will do worse) or "hint".
    """

    tool: str
    path: str
    rule: str
    message: str
    severity: Severity
