"""From a callable to the JSON Schemas of its arguments and of what it returns, and from arguments to a call.

Validation and execution are two steps with a value between them.  pydantic validates a *twin*: a function with the
original's parameters, all by keyword, that returns its arguments.  So an error that a tool raises is never mistaken
for bad arguments, positional-only parameters and `*args` need no special case, and every parameter name works.

A parameter whose type no model can write is left out or refused.  A function may have several signatures, by
`typing.overload` or `functools.singledispatch`.
"""

import inspect
import json
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property, partial, singledispatchmethod
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    SupportsIndex,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_overloads,
)

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import SchemaError, from_json

from ..core.context import is_injected, is_injected_inside
from ..core.errors import DefinitionError, plain_signature
from .annotations import (
    Documentation,
    FieldText,
    add_keywords,
    mark_required,
    read_docstring,
    read_field_text,
    read_metadata_text,
    read_returns,
    restrict,
    unknown_name_error,
)
from .generator import PlainJsonSchema, adapt_annotation, take_names
from .signature import MISSING, Parameter, docstring_of, name_of, read_signature, unwrap_function
from .walk import JsonSchema, iter_schemas

UNUSABLE_TYPE_ERRORS = (
    PydanticSchemaGenerationError,
    PydanticUserError,
    SchemaError,
    NameError,  # also of a reference inside an alias, which pydantic does not wrap
    AttributeError,
    TypeError,
    KeyError,  # of a dict, which pydantic takes for a schema of its own
)
"""What pydantic, or the hook of a type, raises for a type without a schema."""
Adapter: TypeAlias = "TypeAdapter[dict[str, Any]]"


def build_twin(
    function: Callable[..., Any], parameters: list[inspect.Parameter], omitted: dict[str, str]
) -> tuple[list[inspect.Parameter], Adapter, JsonSchema]:
    """Return the parameters as pydantic validates them, the validator, which returns arguments by name, and the schema.

    Types without a schema are added to `omitted`, by parameter: an alternative, or the whole parameter, which has a
    default.  Raises `DefinitionError` for a type that cannot be left out.
    """
    parameters = [parameter.replace(annotation=adapt_annotation(parameter.annotation)) for parameter in parameters]
    try:
        return parameters, *_build(parameters)
    except UNUSABLE_TYPE_ERRORS:
        reduced = [_reduce(function, parameter, omitted) for parameter in parameters]
        parameters = [parameter for parameter in reduced if parameter is not None]
        return parameters, *_build(parameters)


def _build(parameters: list[inspect.Parameter]) -> tuple[Adapter, JsonSchema]:
    def twin(**arguments: Any) -> dict[str, Any]:
        return arguments

    by_keyword = sorted(map(_make_keyword_only, parameters), key=lambda parameter: parameter.kind)
    twin.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    twin.__annotations__ = {parameter.name: parameter.annotation for parameter in by_keyword}
    adapter = TypeAdapter[dict[str, Any]](cast(Any, twin))
    return adapter, adapter.json_schema(schema_generator=PlainJsonSchema)


def _make_keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
        return parameter
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=[], annotation=list[parameter.annotation])  # type: ignore[name-defined]
    return parameter.replace(kind=Parameter.KEYWORD_ONLY)


def _reduce(
    function: Callable[..., Any], parameter: inspect.Parameter, omitted: dict[str, str]
) -> inspect.Parameter | None:
    """Return the parameter without the alternatives that have no schema; None to leave it at its default."""
    if (error := _find_error(parameter)) is None:
        return parameter
    place = f"{name_of(function)}: the parameter {parameter.name!r}"
    type_name = describe_type(parameter.annotation)
    if name := undefined_name(parameter.annotation):
        raise DefinitionError(explain_undefined(f"{place} has the type {type_name}, which", name)) from error
    if isinstance(error, SchemaError):
        raise DefinitionError(
            f"{place} has a type that pydantic refuses: {describe_type_error(error)}. Change the constraint; a pattern "
            "with look-around or back-references works as Field(pattern=re.compile(...))."
        ) from error
    if parameter.default is Parameter.empty:
        raise DefinitionError(
            f"{place} has the type {type_name}, which a model cannot write ({describe_type_error(error)}). Use a type "
            "that pydantic can validate from JSON (numbers, strings, lists, dataclasses, models), give it a default, "
            f"or hide it from the model: {parameter.name}: Injected[{type_name}]."
        ) from error
    alternatives, metadata = _split_union(parameter.annotation)
    usable = [entry for entry in alternatives if _find_error(parameter.replace(annotation=entry)) is None]
    usable = usable if {*usable} - {types.NoneType} else []  # null alone says nothing
    lost = [describe_type(entry) for entry in alternatives if entry not in usable]
    omitted[parameter.name] = " and ".join(lost) if usable else type_name
    if not usable:
        return None
    union: Any = Union[tuple(usable)]  # noqa: UP007 - built at run time
    return parameter.replace(annotation=Annotated[union, *metadata] if metadata else union)


def _check_defaults(function: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> None:
    """Raise `DefinitionError` for a default, a JSON value, that its type does not take; None is always accepted."""
    for parameter in parameters:
        default = parameter.default
        if type(default) is parameter.annotation or type(default) not in _JSON_TYPES:
            continue
        try:
            TypeAdapter(parameter.annotation).validate_python(default)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise DefinitionError(
                f"{name_of(function)}: the parameter {parameter.name!r} has the default {default!r:.80}, which is no "
                f"{describe_type(parameter.annotation)} ({reason}). Change the default or the type."
            ) from None
        except UNUSABLE_TYPE_ERRORS:
            continue  # `build_twin` reports the type


_JSON_TYPES = (str, int, float, bool, list, dict)


def _find_error(parameter: inspect.Parameter) -> Exception | None:
    try:
        _build([parameter])
    except UNUSABLE_TYPE_ERRORS as error:
        return error
    return None


def _split_union(annotation: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the alternatives of an annotation, if it is a union, and the metadata around it."""
    metadata = getattr(annotation, "__metadata__", ())
    inner = annotation.__origin__ if metadata else annotation
    alternatives = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else ()
    return alternatives, metadata


def undefined_name(annotation: Any) -> str:
    """Return the name that a type refers to and that is not defined; "" if all are."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.rebuild(force=True, raise_errors=True)
    except NameError as error:
        return error.name or ""
    except UNUSABLE_TYPE_ERRORS:
        return ""
    return ""


def explain_undefined(place: str, name: str) -> str:
    """Return the message for a type that refers to an undefined name."""
    return f"{place} refers to the undefined name {name!r}. Define or import {name} in the module of that type."


def describe_type(annotation: Any) -> str:
    """Return the name of a type for a message to the developer."""
    is_plain_class = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if is_plain_class else str(annotation).replace("typing.", "")


def describe_type_error(error: Exception) -> str:
    """Return the first sentence of pydantic's error; of an invalid constraint the last line, which holds the reason."""
    if isinstance(error, SchemaError):
        return str(error).splitlines()[-1].strip()
    return str(error).splitlines()[0].partition(". ")[0].rstrip(".")


def choose_extra_keys(schema: JsonSchema, *classes: type) -> Literal["forbid"] | None:
    """Return how to validate undeclared keys: "forbid", unless a class decides otherwise.

    A class with `extra="allow"` shows in pydantic's `schema`, one of `classes` with `extra="ignore"` does not.
    """
    says_ignore = any(getattr(entry, "model_config", {}).get("extra") == "ignore" for entry in classes)
    return None if says_ignore or _takes_any_keys(schema) else "forbid"


def _takes_any_keys(node: Any) -> bool:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict) and node.get("additionalProperties"):
            return True
        return any(map(_takes_any_keys, node.values()))
    return isinstance(node, list) and any(map(_takes_any_keys, node))


class FunctionSchema:
    """The arguments of a callable: their JSON Schema, and the binding of a model's arguments to a call.

    Args:
        function: Any callable with a signature.
        texts: Descriptions of parameters, which replace those of the function: a string, or a mapping with
            `description` and `enum`.
        signature: The signature to use instead of the function's own, of an overload for example.

    Attributes:
        injected: The parameters that the agent fills.
        annotations: The annotations of the other parameters, by their names.
        omitted: The types without a schema, by parameter: an alternative, or the whole parameter with its default.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        texts: Mapping[str, FieldText] | None = None,
        signature: inspect.Signature | None = None,
    ) -> None:
        self.function = function
        signature = signature or read_signature(function)
        self.injected: Mapping[str, inspect.Parameter] = {
            name: parameter for name, parameter in signature.parameters.items() if is_injected(parameter.annotation)
        }
        shown = [parameter for parameter in signature.parameters.values() if parameter.name not in self.injected]
        _refuse_inner_marks(function, shown)
        _check_defaults(function, shown)
        self.annotations: Mapping[str, Any] = {parameter.name: parameter.annotation for parameter in shown}
        self.documentation: Documentation = read_docstring(docstring_of(function), [entry.name for entry in shown])
        self._texts = _read_texts(function, texts or {}, shown)
        shown = [_restrict_to_enum(parameter, self._texts.get(parameter.name, {})) for parameter in shown]
        self.omitted: dict[str, str] = {}
        self._shown, self._adapter, schema = build_twin(function, shown, self.omitted)
        self._raw, self._read_names = take_names(schema)
        self._extra = choose_extra_keys({**self._raw, "additionalProperties": False})
        validate_json = text_validator(self._adapter, self._read_names)
        self._validate_json = partial(validate_json, extra=self._extra) if "$defs" in self._raw else validate_json
        self._order = list(signature.parameters.values())
        kinds = {parameter.kind for parameter in self._order}
        self._by_position = bool(kinds & {Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL})
        self._leaves_out = any(parameter.default is MISSING for parameter in (*self._shown, *self.injected.values()))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{name_of(self.function)}: a tool cannot be pickled. Import it where it is used, or make it there: "
            "JsonTool(function)"
        )

    def __deepcopy__(self, memo: object) -> "FunctionSchema":
        return self  # it never changes

    @cached_property
    def parameters(self) -> JsonSchema:
        """The plain JSON Schema (draft 2020-12) of the arguments: always an object."""
        schema = drop_titles(self._raw)
        properties = schema.setdefault("properties", {})
        annotated = {parameter.name: read_metadata_text(parameter.annotation) for parameter in self._shown}
        for name, place in properties.items():
            if text := annotated.get(name) or self.documentation.parameters.get(name):
                place.setdefault("description", text)
            add_keywords(place, self._texts.get(name, {}))
        mark_required(schema, self._texts, name_of(self.function))
        self._describe_extra_keys(schema)
        return schema

    def _describe_extra_keys(self, schema: JsonSchema) -> None:
        """Put the text of `**kwargs` into the schema of the keys that are not declared."""
        extra = next((entry for entry in self._shown if entry.kind is Parameter.VAR_KEYWORD), None)
        if extra is None:
            return
        given = self._texts.get(extra.name, {}).get("description") or read_metadata_text(extra.annotation)
        if text := given or self.documentation.parameters.get(extra.name):
            values = schema.get("additionalProperties")
            schema["additionalProperties"] = {**(values if isinstance(values, dict) else {}), "description": text}

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> "partial[Any]":
        """Validate `arguments` (JSON text or a mapping) and return the call; raise `pydantic.ValidationError`."""
        if isinstance(arguments, str):
            given: dict[str, Any] = self._validate_json(arguments)
        else:
            given = self._adapter.validate_python(name_values(dict(arguments), self._read_names), extra=self._extra)
        if injected:
            given |= injected
        if self._leaves_out:
            given = {name: value for name, value in given.items() if value is not MISSING}
        if not self._by_position:
            return partial(self.function, **given)
        return self._bind_by_position(given)

    def _bind_by_position(self, given: dict[str, Any]) -> "partial[Any]":
        args: list[Any] = []
        for parameter in self._order:
            if parameter.kind is Parameter.VAR_POSITIONAL:
                args.extend(given.pop(parameter.name))
            elif parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
                args.append(given.pop(parameter.name, parameter.default))  # one that is left out has a default
        return partial(self.function, *args, **given)


def _refuse_inner_marks(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    for parameter in parameters:
        if is_injected_inside(parameter.annotation):
            raise DefinitionError(
                f"{name_of(function)}: the parameter {parameter.name!r} has Injected inside another type, where it has "
                "no effect. Mark the whole parameter: Injected[...]."
            )


def _read_texts(
    function: Callable[..., Any], texts: Mapping[str, FieldText], parameters: list[inspect.Parameter]
) -> dict[str, JsonSchema]:
    names = [parameter.name for parameter in parameters]
    for name in texts:
        if name not in names:
            raise unknown_name_error(name_of(function), "parameter", name, names)
    return {name: read_field_text(f"{name_of(function)}: {name}", text) for name, text in texts.items()}


def _restrict_to_enum(parameter: inspect.Parameter, text: JsonSchema) -> inspect.Parameter:
    """Return the parameter with the given enum values in its type, where that is possible."""
    if "enum" not in text:
        return parameter
    return parameter.replace(annotation=restrict(parameter.annotation, text["enum"], parameter.name))


def build_type_schema(type_: Any, mode: Literal["validation", "serialization"] = "validation") -> JsonSchema:
    """Return the plain JSON Schema of a type, as it is read or written; raise `DefinitionError` if it has none."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(adapt_annotation(type_))
        return drop_titles(take_names(adapter.json_schema(schema_generator=PlainJsonSchema, mode=mode))[0])
    except UNUSABLE_TYPE_ERRORS as error:
        raise DefinitionError(f"{describe_type(type_)} has no JSON Schema: {describe_type_error(error)}.") from error


def validate_value(type_: Any, value: Any) -> Any:
    """Return JSON data that follows `build_type_schema(type_)` as a value of the type; raise `ValueError` otherwise."""
    adapter: TypeAdapter[Any] = TypeAdapter(adapt_annotation(type_))
    _, read_names = take_names(adapter.json_schema(schema_generator=PlainJsonSchema))
    return adapter.validate_python(name_values(value, read_names))


ReadNames: TypeAlias = Callable[[Any], Any] | None
"""The function of `take_names`."""


def name_values(data: Any, read_names: ReadNames) -> Any:
    """Return JSON data with the values in place of the names that a schema offers for them."""
    return data if read_names is None else read_names(data)


def text_validator(adapter: "TypeAdapter[Any]", read_names: ReadNames) -> Callable[..., Any]:
    """Return a function that validates JSON text, which may have the names that a schema offers for values."""
    if read_names is None:
        return adapter.validator.validate_json  # without its wrapper, because every call uses it

    def validate(text: str, **how: Any) -> Any:
        try:
            written = from_json(text)
        except ValueError:
            return adapter.validate_json(text, **how)  # which raises its own error
        given = read_names(written)
        if given == written:
            return adapter.validate_json(text, **how)
        try:
            named = json.dumps(given)
            is_json = from_json(named) == given
        except TypeError:
            is_json = False
        if not is_json:  # JSON cannot hold a member, or a key that is a number
            return adapter.validate_python(given, **how)
        return adapter.validate_json(named, **how)

    return validate


def drop_titles(schema: JsonSchema) -> JsonSchema:
    """Remove the titles of a schema and of those in it, in place, and return it; a property called title stays."""
    for node in iter_schemas(schema):
        if isinstance(node.get("title"), str):
            del node["title"]
    return schema


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
    method = _dispatching_method(function)
    parameters = [*signature.parameters.values()]
    if method is not None and len(parameters) == len(plain_signature(method.func).parameters):
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


ITERATORS = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)
"""What is collected into a list when a tool returns it."""
SCALAR_SCHEMAS = ({"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"})
UNKNOWN_RETURNS = (Any, None, type(None), inspect.Signature.empty)


def build_output_schema(function: Callable[..., Any]) -> JsonSchema | None:
    """Return the plain JSON Schema of what `function` returns; None if neither its type nor a text is known.

    Iterators are lists, and awaitables are what they result in.  A type without a schema leaves the text alone.  A
    schema in the function's attribute `__output_schema__` takes precedence.
    """
    if declared := getattr(function, "__output_schema__", None):
        return dict(declared)
    text = read_returns(docstring_of(function))
    try:
        annotation = _unwrap(read_signature(function).return_annotation)
        schema = {} if annotation in UNKNOWN_RETURNS else build_type_schema(annotation, "serialization")
    except DefinitionError:
        schema = {}
    if text:
        schema["description"] = text
    return schema or None


def describe_returns(schema: JsonSchema | None) -> str:
    """Return an output schema in words for a tool's description: its text, and its JSON where the type is no scalar."""
    if schema is None:
        return ""
    kind = {key: value for key, value in schema.items() if key != "description"}
    written = json.dumps(kind, ensure_ascii=False, separators=(",", ":"))
    parts = [schema.get("description", ""), "" if not kind or kind in SCALAR_SCHEMAS else f"JSON Schema: {written}"]
    if kind in SCALAR_SCHEMAS and not parts[0]:
        parts = [f"{'an' if kind['type'] == 'integer' else 'a'} {kind['type']}"]
    return f"Returns: {' '.join(filter(None, parts))}"


def _unwrap(annotation: Any) -> Any:
    origin = get_origin(annotation)
    inside = get_args(annotation)
    if origin in ITERATORS and inside:
        return list[_unwrap(inside[0])]  # type: ignore[misc]
    if origin is Awaitable or origin is Coroutine:
        return _unwrap(inside[-1])
    return annotation
