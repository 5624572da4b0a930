"""Regular expressions from a JSON Schema, which may be hostile: they run in an engine of linear time.

The engine is that of Rust's regex crate, which pydantic contains.  It has no look-around and no back-references; a
pattern with these, or one that is too large, cannot be checked.
"""

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

MAX_PATTERNS_CACHED = 512


def matches(pattern: str, text: str) -> bool | None:
    """Return whether `pattern` occurs in `text`, in time linear in `text`; None if the pattern cannot be checked."""
    if (validator := _compile(pattern)) is None:
        return None
    try:
        validator.validate_python(text)
    except ValidationError:
        return False
    return True


def is_checkable(pattern: str) -> bool:
    """Return whether the linear engine supports `pattern`."""
    return _compile(pattern) is not None


@lru_cache(MAX_PATTERNS_CACHED)
def _compile(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return None
