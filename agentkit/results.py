"""What a tool returned -> the text that the model reads."""

from dataclasses import is_dataclass
from enum import Enum
from inspect import getmro
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json


def render(value: Any) -> str:
    """`value` as text for the model: a string as it is, data as compact JSON, other objects by their own `__str__`.

    A class that was given its own `__str__` (a `Weather` that can say itself) is shown by it; dataclasses, pydantic
    models, sets and the like are data.  None is said as `null`, a date or a number in words as the bare text.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if _says_itself(value):
        return str(value)
    text = to_json(value, fallback=_fallback, inf_nan_mode="strings").decode()
    return str(from_json(text)) if text.startswith('"') else text


def _says_itself(value: Any) -> bool:
    if not isinstance(value, BaseModel) and not is_dataclass(value):
        return False
    return any("__str__" in vars(cls) for cls in getmro(type(value)) if cls not in (object, BaseModel))


def _fallback(value: Any) -> str:
    own = any("__str__" in vars(cls) or "__repr__" in vars(cls) for cls in getmro(type(value)) if cls is not object)
    return str(value) if own else f"<{type(value).__name__}>"  # object's own repr would show an address
