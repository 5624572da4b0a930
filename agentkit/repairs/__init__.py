"""What a model wrote almost right: put right where it is certain what was meant, else told in words that teach."""

from .explain import explain, explain_kind, explain_text
from .finding import Finding
from .findings import findings
from .fixes import fix_nulls
from .mending import Mended, Target, copied, mended, mended_in_place
from .names import PARALLEL, is_parallel, meant
from .places import at, types
from .reader import Unreadable
from .receipt import Repair, clipped
from .shapes import WRAPPERS
from .text import Reading, is_sound, not_finite, read, strictly

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
