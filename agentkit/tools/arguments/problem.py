"""One thing that validation found wrong."""

from dataclasses import dataclass
from typing import Literal

from .json_text import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: where, whether a value is wrong, a key is missing or a key is unknown, and what the validator says.

    The path of a missing key ends with that key.
    """

    path: Path
    kind: Literal["value", "missing", "unknown"]
    message: str = ""
