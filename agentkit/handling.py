"""How a tool's calls are treated, beyond what its function says."""

from typing import Literal, TypeAlias, TypedDict

Repairing: TypeAlias = Literal["safe", "off"]
"""Whether slips of the model are put right where it is certain what was meant, or told to it like any mistake."""
OnError: TypeAlias = Literal["tell", "raise"]
"""Who gets what a tool raises: the model, as a message, or the caller of the run, as the exception."""


class Handling(TypedDict, total=False):
    """The settings of a tool's calls; what they mean, `JsonTool` says."""

    repair: Repairing
    on_error: OnError
    max_result: int | None
