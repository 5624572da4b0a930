"""What a model wrote almost right: put right where it is certain what was meant, else told in words that teach."""

from .explain import explain, explain_kind, explain_text
from .fixes import WRAPPERS, Mended, Target, copied, fix_nulls, mended, mended_in_place
from .json_reader import Unreadable
from .json_text import Reading, is_sound, not_finite, read, strictly
from .problem import Finding
from .problems import findings
from .repair import Repair, clipped
from .schema_places import at, types
from .tool_names import PARALLEL, is_parallel, meant

__all__ = [
    "PARALLEL",
    "WRAPPERS",
    "Finding",
    "Mended",
    "Reading",
    "Repair",
    "Target",
    "Unreadable",
    "at",
    "clipped",
    "copied",
    "explain",
    "explain_kind",
    "explain_text",
    "findings",
    "fix_nulls",
    "is_parallel",
    "is_sound",
    "meant",
    "mended",
    "mended_in_place",
    "not_finite",
    "read",
    "strictly",
    "types",
]
