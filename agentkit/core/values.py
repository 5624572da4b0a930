"""Values: frozen dataclasses whose classes are made in a fraction of the time of the standard decorator's.

`dataclasses.dataclass` compiles six methods for each frozen class; for the classes of this package that was a third of
the time up to the first answer.  Here the classes share all methods but `__init__`.  In all else they are dataclasses:
`fields`, `replace`, `asdict`, patterns, copies, pickle, and frozen dataclasses that are derived from them.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")

_set = object.__setattr__


@overload
def frozen(kind: type[T], /) -> type[T]: ...
@overload
def frozen(
    *, slots: bool = True, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    kind: Any = None, /, *, slots: bool = True, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> Any:
    """Make a class a frozen dataclass.

    Args:
        kind: The class.
        slots: Whether the instances have slots.  Without slots, `copy_with` copies them.
        kw_only: Whether all parameters are keywords.
        eq: Whether instances with equal fields are equal.
        repr: Whether the text of an instance shows its fields.

    Returns:
        The class, a new one with slots; without `kind` a decorator.
    """

    def decorate(kind: Any) -> Any:
        if any(hasattr(base, "__dataclass_fields__") for base in kind.__mro__[1:]):
            return dataclass(frozen=True, slots=slots, kw_only=kw_only, eq=eq, repr=repr)(kind)
        own = dict(vars(kind))
        made: Any = dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(kind)
        made.__init__ = _make_init(made)
        made.__setattr__ = _refuse_assignment
        made.__delattr__ = _refuse_deletion
        if repr and "__repr__" not in own:
            made.__repr__ = _show
        if eq:
            made._compared = staticmethod(_make_key([entry.name for entry in fields(made) if entry.compare]))
            if "__eq__" not in own:
                made.__eq__ = _are_equal
            if "__hash__" not in own or ("__eq__" in own and own["__hash__"] is None):  # Python sets None for `__eq__`
                made.__hash__ = _hash
        if slots:
            made.__getstate__ = _list_state
            made.__setstate__ = _take_state
        parameters = made.__dataclass_params__
        parameters.init = True
        parameters.repr = repr
        parameters.eq = eq
        parameters.frozen = True
        return made

    return decorate if kind is None else decorate(kind)


def copy_with(instance: T, changes: dict[str, Any]) -> T:
    """Return a copy of an instance without slots, with these fields changed; a fraction of the time of `replace`."""
    copied = object.__new__(type(instance))
    _set(copied, "__dict__", instance.__dict__ | changes)
    return copied


class _Factory:
    """The default of a parameter whose value a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _make_init(kind: Any) -> Any:
    """Compile the `__init__` of a class.

    It fills each slot with the slot's own setter, or the dict of the instance: `object.__setattr__` takes twice the
    time.
    """
    known: dict[str, Any] = {"_FACTORY": _FACTORY}
    entries: tuple[Field[Any], ...] = fields(kind)
    positional = [_declare(entry, known) for entry in entries if entry.init and not entry.kw_only]
    keywords = [_declare(entry, known) for entry in entries if entry.init and entry.kw_only]
    has_slots = "__slots__" in vars(kind)
    body = [] if has_slots else [" _fields = self.__dict__"]
    for entry in entries:
        name = entry.name
        if not (text := _fill(entry, known)):
            continue
        if has_slots:
            known[f"_set_{name}"] = vars(kind)[name].__set__
        body.append(f" _set_{name}(self, {text})" if has_slots else f" _fields[{name!r}] = {text}")
    if hasattr(kind, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    exec("\n".join([f"def __init__({parameters}):", *(body or [" pass"])]), known)
    init = known["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__module__ = kind.__module__
    init.__annotations__ = {entry.name: entry.type for entry in entries if entry.init} | {"return": None}
    return init


def _declare(entry: Field[Any], known: dict[str, Any]) -> str:
    """Return the parameter of a field."""
    if entry.default is not MISSING:
        known[f"_default_{entry.name}"] = entry.default
        return f"{entry.name}=_default_{entry.name}"
    return f"{entry.name}=_FACTORY" if entry.default_factory is not MISSING else entry.name


def _fill(entry: Field[Any], known: dict[str, Any]) -> str:
    """Return the expression of a field's value; "" if nothing fills it."""
    name = entry.name
    if entry.default_factory is not MISSING:
        known[f"_make_{name}"] = entry.default_factory
        return f"_make_{name}() if {name} is _FACTORY else {name}" if entry.init else f"_make_{name}()"
    if entry.init:
        return name
    if entry.default is MISSING:
        return ""
    known[f"_default_{name}"] = entry.default
    return f"_default_{name}"


def _make_key(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the fields of an instance that are compared."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _is_own(instance: Any, name: str) -> bool:
    """Return whether an attribute of an instance may not change: all may not, but for those that a subclass adds."""
    kind: Any = type(instance)
    return "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__


def _refuse_assignment(self: object, name: str, value: object) -> None:
    if _is_own(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    _set(self, name, value)


def _refuse_deletion(self: object, name: str) -> None:
    if _is_own(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


@recursive_repr()
def _show(self: Any) -> str:
    shown = ", ".join(f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self) if entry.repr)
    return f"{type(self).__qualname__}({shown})"


def _are_equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _list_state(self: Any) -> list[Any]:
    return [getattr(self, entry.name) for entry in fields(self)]


def _take_state(self: Any, state: list[Any]) -> None:
    for entry, value in zip(fields(self), state, strict=True):
        _set(self, entry.name, value)
