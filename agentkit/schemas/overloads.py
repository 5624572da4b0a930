"""Functions with several signatures: `typing.overload` and `functools.singledispatch`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, singledispatchmethod
from typing import Any, TypeAlias, get_overloads

from pydantic import ValidationError

from ..core.errors import DefinitionError
from .docstrings import Documentation, read_docstring
from .functions import FunctionSchema
from .signature import docstring_of, name_of, read_signature, unwrap_function
from .walk import JsonSchema

Choice: TypeAlias = int | Sequence[Any] | Callable[[inspect.Signature], bool]
"""A signature: its index, the types of its parameters, or a predicate of the signature."""


def signatures_of(function: Callable[..., Any]) -> list[inspect.Signature]:
    """Return the signatures of an overloaded or dispatching function, in source order; else an empty list."""
    if (registry := _registry_of(function)) is not None:
        is_method = _dispatching_method(function) is not None
        cases = {implementation: type_ for type_, implementation in registry.items() if type_ is not object}
        return [_signature_of_case(implementation, type_, is_method) for implementation, type_ in cases.items()]
    inner = unwrap_function(function)
    return [read_signature(variant) for variant in get_overloads(inner)] if inspect.isfunction(inner) else []


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the function's own signature.

    A singledispatch function takes its first argument by position.  A method is without `self`, which Python before
    3.14 lists.
    """
    signature = read_signature(function)
    if _registry_of(function) is None:
        return signature
    method, parameters = _dispatching_method(function), [*signature.parameters.values()]
    if method is not None and len(parameters) == len(inspect.signature(method.func).parameters):
        del parameters[0]
    parameters[:1] = [first.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for first in parameters[:1]]
    return signature.replace(parameters=parameters)


def _registry_of(function: Callable[..., Any]) -> Mapping[type, Callable[..., Any]] | None:
    """Return the implementations of a singledispatch function or method by type; None for any other callable."""
    method = _dispatching_method(function)
    dispatcher = function if method is None else method.dispatcher
    registry = getattr(dispatcher, "registry", None)
    return registry if callable(getattr(dispatcher, "dispatch", None)) and isinstance(registry, Mapping) else None


def _dispatching_method(function: Callable[..., Any]) -> "singledispatchmethod[Any] | None":
    """Return the `singledispatchmethod` behind a bound method; functools offers it only through `register`."""
    owner = getattr(getattr(function, "register", None), "__self__", None)
    return owner if isinstance(owner, singledispatchmethod) else None


def _signature_of_case(implementation: Callable[..., Any], type_: type, is_method: bool) -> inspect.Signature:
    """Return the signature of one case of a singledispatch function: no `self`, and the case's type first."""
    signature = read_signature(implementation)
    first, *rest = [*signature.parameters.values()][is_method:]
    annotated = first.replace(
        annotation=type_ if first.annotation is Any else first.annotation, kind=inspect.Parameter.POSITIONAL_ONLY
    )
    return signature.replace(parameters=[annotated, *rest])


def choose_signature(
    function: Callable[..., Any], signatures: Sequence[inspect.Signature], choice: Choice
) -> inspect.Signature:
    """Return the signature that `choice` selects; raise `DefinitionError` unless it selects exactly one."""
    if isinstance(choice, int):
        found = list(signatures[choice : choice + 1]) if choice >= 0 else []
    elif callable(choice):
        found = [signature for signature in signatures if choice(signature)]
    else:
        types = [[parameter.annotation for parameter in signature.parameters.values()] for signature in signatures]
        found = [signature for signature, own in zip(signatures, types, strict=True) if own == list(choice)]
    if len(found) != 1:
        listed = "; ".join(f"{place}: {signature}" for place, signature in enumerate(signatures)) or "none"
        raise DefinitionError(
            f"{name_of(function)}: overload={choice!r} selects {len(found)} signatures, not 1. Signatures: {listed}"
        )
    return found[0]


class OverloadSchema:
    """Several signatures of one function, offered together: an object that is any of them."""

    def __init__(self, function: Callable[..., Any], signatures: Sequence[inspect.Signature]) -> None:
        self.function = function
        self._variants = [FunctionSchema(function, signature=signature) for signature in signatures]
        names = [name for signature in signatures for name in signature.parameters]
        self.documentation: Documentation = read_docstring(docstring_of(function), names)
        self.injected: Mapping[str, inspect.Parameter] = {
            name: parameter for variant in self._variants for name, parameter in variant.injected.items()
        }

    @cached_property
    def parameters(self) -> JsonSchema:
        """An object with the properties of all signatures, and `anyOf` with what each requires."""
        properties: dict[str, JsonSchema] = {}
        branches: list[JsonSchema] = []
        definitions: dict[str, JsonSchema] = {}
        for variant in self._variants:
            schema = dict(variant.parameters)
            definitions |= schema.pop("$defs", {})
            branches.append(schema)
            for name, place in schema["properties"].items():
                known = properties.setdefault(name, place)
                if known != place:
                    options = known["anyOf"] if set(known) == {"anyOf"} else [known]
                    properties[name] = {"anyOf": [*options, *([place] if place not in options else [])]}
        required = [name for name in properties if all(name in branch.get("required", ()) for branch in branches)]
        schema = {"type": "object", "properties": properties, "required": required, "anyOf": branches}
        return {**schema, "$defs": definitions} if definitions else schema

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Return the call by the first signature that fits; else raise the error with the fewest problems."""
        errors: list[ValidationError] = []
        for variant in self._variants:
            try:
                own = {name: value for name, value in (injected or {}).items() if name in variant.injected}
                return variant.bind(arguments, own)
            except ValidationError as error:
                errors.append(error)
        raise min(errors, key=lambda error: error.error_count())
