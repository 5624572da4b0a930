"""The tools of an agent: a mapping from name to tool, which binds a model's calls to them.

Beside them stand the tools that the provider of a model runs itself, a search of the web for example: their names and
their forms.  A form is the dict that one provider's API takes among the tools of a request.  Sources: OpenAI, "Using
tools" (Responses API); Anthropic, "Web search tool", "Web fetch tool", "Code execution tool"; Gemini, "Grounding with
Google Search", "URL context", "Code execution", and "Combine built-in tools and function calling" (from Gemini 3 on).
"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, Unpack, cast, get_args

from ..core.context import RunContext, find_injected
from ..core.errors import DefinitionError, ExceptionInfo, suggest
from ..core.lazy_names import display_with
from ..core.messages import CallOrigin, ToolCall
from ..core.portable import to_portable_name, truncate
from ..core.values import frozen
from ..schemas.annotations import unknown_name_error
from ..schemas.formats.structure import make_union
from ..schemas.walk import JsonSchema, rebuild
from .arguments.fixes import PARALLEL_MESSAGE, Repair, is_parallel_wrapper, match_tool_name
from .arguments.json_text import is_strict_object
from .definition import check_is_bound
from .execution.call import BoundCall, ToolResult
from .json_tool import JsonTool
from .settings import RepairMode, ToolSettings, check_choice

Form: TypeAlias = dict[str, Any]

_FORMS: dict[str, dict[str, Form]] = {
    "web_search": {
        "anthropic": {"type": "web_search_20250305", "name": "web_search"},
        "responses": {"type": "web_search"},
        "gemini": {"googleSearch": {}},
    },
    "web_fetch": {
        "anthropic": {"type": "web_fetch_20250910", "name": "web_fetch"},
        "gemini": {"urlContext": {}},
    },
    "code_execution": {
        "anthropic": {"type": "code_execution_20250825", "name": "code_execution"},
        "responses": {"type": "code_interpreter", "container": {"type": "auto"}},
        "gemini": {"codeExecution": {}},
    },
}
"""The forms of each tool, by the APIs that have it."""
_APIS = {
    "anthropic": "Anthropic's Messages API",
    "responses": "OpenAI's Responses API",
    "gemini": "Gemini's API",
}
_DATED = re.compile(r".+_20\d{6}")
"""The types of Anthropic's tools end with the date of a version."""


@frozen
class ProviderTool:
    """A tool that the provider of the model runs: a name with options, or a `form` of one API; see `provider_tool`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    form: Mapping[str, Any] | None = None

    def render(self, api: str, model: str) -> Form:
        """Return the tool as an API takes it.

        Args:
            api: "anthropic", "responses" or "gemini"; any other name is an API without such tools.
            model: The name of the model, for the error.

        Raises:
            DefinitionError: The API does not have the tool.
        """
        forms = {self._own_api: dict(self.form)} if self.form is not None else _FORMS[self.name]
        if api not in forms:
            known = " and ".join(_APIS[one] for one in forms)
            remedy = f'{known} have it: model="anthropic/...", "openai/responses/..." or "gemini/gemini-3...".'
            raise DefinitionError(f"{model}: its API has no tool {self.name!r} that the provider runs. {remedy}")
        found = forms[api]
        if api == "gemini":
            return {key: {**value, **self.options} for key, value in found.items()}
        return {**found, **self.options}

    @property
    def _own_api(self) -> str:
        form = self.form or {}
        if "type" not in form:
            return "gemini"
        return "anthropic" if _DATED.fullmatch(str(form["type"])) else "responses"


def provider_tool(name: str, **options: Any) -> ProviderTool:
    """Return a tool that the provider of the model runs, for the tools of an agent.

    Args:
        name: "web_search", "web_fetch" or "code_execution".
        **options: Options of the provider's tool, `max_uses=3` on Anthropic for example.

    Raises:
        DefinitionError: There is no such tool.
    """
    if name not in _FORMS:
        remedy = suggest(name, _FORMS, then=f"The tools are: {', '.join(_FORMS)}.")
        raise DefinitionError(
            f"provider_tool: there is no tool {name!r}. {remedy} Any other one is given as the dict of its API."
        )
    return ProviderTool(name, options)


def read_provider_form(form: Mapping[str, Any]) -> ProviderTool:
    """Return the tool of a dict that stands among tools; raise `DefinitionError` for the schema of a function."""
    kind = form.get("type")
    if kind == "function" or "function" in form or "parameters" in form or "input_schema" in form:
        raise DefinitionError(
            f"a tool: got dict: {form!r:.80}. The schema of a function cannot be called. Pass the function itself, or "
            "JsonTool.from_schema(name=, description=, parameters=, call=)."
        )
    if any(map(callable, form.values())):
        raise DefinitionError(
            f"a tool: got dict: {form!r:.80}. Pass functions in a list; a name: tool(function, name=...)"
        )
    if not (isinstance(kind, str) or (len(form) == 1 and isinstance(next(iter(form.values())), Mapping))):
        raise DefinitionError(
            f"{form!r:.80}: expected the dict of a tool that a provider runs, "
            '{"type": "web_search"} or {"googleSearch": {}} for example.'
        )
    return ProviderTool(str(form.get("name") or kind or next(iter(form))), form=form)


F = TypeVar("F", bound=Callable[..., Any])

MAX_NAMES_SHOWN = 20
"""Tool names in the error for an unknown tool."""
MAX_REPLY_CALLS = 16
"""Calls in one reply under the schema of all calls."""


class ToolRegistry(Mapping[str, JsonTool[..., Any]]):
    """Tools by name, in the order of registration (providers' prompt caches depend on a stable order).

    Args:
        tools: Functions, tools, or iterables of them; a registry adds its tools.
        answer: The tool whose result ends a run.
        repair: "off" repairs no name and no arguments, whatever the tools' own settings are.
    """

    def __init__(self, *tools: Any, answer: JsonTool[..., Any] | None = None, repair: RepairMode = "safe") -> None:
        check_choice("repair", repair, get_args(RepairMode))
        if answer is not None and not isinstance(answer, JsonTool):
            raise DefinitionError(f"answer must be a JsonTool, got {answer!r:.80}. Pass JsonTool(function).")
        self.repair: RepairMode = repair
        self._tools: dict[str, JsonTool[..., Any]] = {}
        self._schemas: dict[str, list[dict[str, Any]]] = {}
        self.answer = answer
        self.provider_tools: tuple[ProviderTool, ...] = ()
        """The tools that the provider of the model runs; they are no part of the mapping."""
        if answer is not None:
            self._tools[answer.name] = answer
        for entry in _flatten(tools):
            if isinstance(entry, ProviderTool | Mapping):
                self._add_provider_tool(entry)
            else:
                self.register(entry)

    def register(self, function: F) -> F:
        """Add a function or a tool, as a method or as a decorator, and return it.

        Raises:
            DefinitionError: the name is taken, or the object cannot be a tool.
        """
        tool = make_tool(function)
        if self.answer is not None and tool.name == self.answer.name:
            raise DefinitionError(
                f"the tool name {tool.name!r} is taken: the agent's own tool with that name ends its run. Rename "
                'yours, @tool(name="..."), or give the type of the answer: JsonAgent(..., answer=Report).'
            )
        if tool.name in self._tools or any(tool.name == other.name for other in self.provider_tools):
            raise DefinitionError(
                f"two tools are called {tool.name!r}. Rename one, @tool(name='...'), or give one of the registries a "
                "prefix: registry.prefixed('web_')."
            )
        self._tools[tool.name] = tool
        self._schemas.clear()
        return function

    def _add_provider_tool(self, entry: "ProviderTool | Mapping[str, Any]") -> None:
        tool = entry if isinstance(entry, ProviderTool) else read_provider_form(entry)
        if tool.name in self._tools or any(tool.name == other.name for other in self.provider_tools):
            raise DefinitionError(
                f"two tools are called {tool.name!r}, and the provider runs one of them. Rename yours."
            )
        self.provider_tools += (tool,)

    def __getitem__(self, name: str) -> JsonTool[..., Any]:
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def own_tools(self) -> list[JsonTool[..., Any]]:
        """The tools without the answer tool."""
        return [tool for tool in self._tools.values() if tool is not self.answer]

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(self._tools)})"

    _repr_html_ = display_with("agentkit.views.html:registry_view")
    _repr_markdown_ = display_with("agentkit.views.html:tools_markdown")

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the tools, with every provider's schemas, as a self-contained page; written to `path` if given."""
        page = display_with("agentkit.views.html:catalogue_page")(self)
        return str(display_with("agentkit.views.html:write_page")(page, path))

    def schemas(self, format: str = "openai") -> list[dict[str, Any]]:
        """Return all tools in a provider's dialect; the list is shared, so copy it before changing it."""
        if format not in self._schemas:
            self._schemas[format] = [tool.schema(format) for tool in self._tools.values()]
        return self._schemas[format]

    def call_schema(self, name: str = "") -> JsonSchema:
        """Return the JSON Schema of a reply that is `{"calls": [{"name": ..., "arguments": {...}}, ...]}`.

        A list has calls of any of the tools, or one call of the answer tool alone.  The schema is shared: copy it
        before changing it.

        Args:
            name: The only tool to call, if it is one of them.
        """
        key = f"calls:{name if name in self._tools else ''}"
        if key not in self._schemas:
            chosen = [self._tools[name]] if name in self._tools else self._tools.values()
            self._schemas[key] = [_make_call_schema(chosen, self.answer)]
        return self._schemas[key][0]

    def bind(self, call: ToolCall, context: RunContext[Any] | None = None) -> BoundCall:
        """Return the call with its tool and validated arguments.  Never fails: an error becomes the call's result.

        Args:
            call: The call as the model wrote it.
            context: Fills the parameters that the model does not see.

        Returns:
            A call with the tool's own name and a JSON object as arguments, as the history should hold it.  Its `call`
            is the given one if nothing was repaired.
        """
        tool = self._tools.get(call.name) or self._find_meant(call.name)
        if tool is None:
            raw = "" if is_strict_object(call.arguments) else call.arguments
            refused = replace(call, name=to_portable_name(call.name), arguments="{}" if raw else call.arguments)
            return BoundCall.impossible(refused, self._explain_unknown(call.name), raw=raw)
        bound = tool.bind(call.arguments, context, repair="off" if self.repair == "off" else None)
        renamed = () if tool.name == call.name else (Repair("", "name of the tool", truncate(call.name), tool.name),)
        raw = call.arguments
        if renamed or bound.arguments != raw:
            call = replace(call, name=tool.name, arguments=bound.arguments)
        repairs = (*renamed, *bound.repairs)
        if isinstance(bound.ready, ExceptionInfo):
            lost = bound.arguments == "{}" and not is_strict_object(raw)
            return BoundCall.impossible(call, bound.ready, tool, repairs, raw if lost else "")
        origin = CallOrigin() if context is None else context.origin
        origin.add(tool.label)
        is_answer = tool is self.answer
        return BoundCall(call, bound.ready, tool, is_answer=is_answer, repairs=repairs, context=context, origin=origin)

    def _find_meant(self, name: str) -> JsonTool[..., Any] | None:
        """Return the tool that an unknown name certainly means, where names are repaired."""
        tool = None if self.repair == "off" else self._tools.get(match_tool_name(name, self._tools) or "")
        return tool if tool is not None and tool.repair != "off" else None

    def execute(self, name: str, arguments: str = "{}") -> ToolResult:
        """Call the tool `name` with JSON text; an unknown name or invalid arguments give a result as well."""
        return self.bind(ToolCall("call_1", name, arguments)).invoke()

    async def aexecute(self, name: str, arguments: str = "{}") -> ToolResult:
        """Like `execute`, awaiting: coroutine functions run on this event loop, others in a thread."""
        return await self.bind(ToolCall("call_1", name, arguments)).ainvoke()

    def check_injected(self, context: RunContext[Any]) -> None:
        """Raise `DefinitionError` for a tool that needs a value which `context` does not have."""
        for tool in self._tools.values():
            for parameter in tool.arguments.injected.values():
                find_injected(parameter, context)

    @classmethod
    def from_object(
        cls, instance: Any, *, include: Iterable[str] | None = None, exclude: Iterable[str] = ()
    ) -> "ToolRegistry":
        """Return a registry of the public methods of an object, or of the class and static methods of a class.

        Args:
            instance: The object or class.
            include: Names of the only methods to take.
            exclude: Names of methods to omit.

        Raises:
            DefinitionError: a name is not a public method, or a class has neither class nor static methods.
        """
        names = [name for name in dir(instance) if not name.startswith("_") and _is_method(instance, name)]
        if not names and isinstance(instance, type):
            remedy = f"For those of an object: ToolRegistry.from_object({instance.__name__}(...))"
            raise DefinitionError(f"{instance.__name__}: the class has no class methods or static methods. {remedy}")
        for name in (*(include or ()), *exclude):
            if name not in names:
                raise unknown_name_error(type(instance).__name__, "public method", name, names)
        chosen = names if include is None else [*include]
        return cls(getattr(instance, name) for name in chosen if name not in set(exclude))

    @classmethod
    def from_openapi(
        cls,
        document: "Mapping[str, Any] | str | os.PathLike[str]",
        *,
        base_url: str | None = None,
        auth: Any = None,
        include: Iterable[str] | None = None,
        **settings: Unpack[ToolSettings],
    ) -> "ToolRegistry":
        """Return a registry with a tool for each operation of an OpenAPI document (3.0 to 3.2, or Swagger 2.0).

        GET is a tool with `effect="read"`, every method that may change something one with `effect="write"`.
        Parameters and body are one object of arguments.  An error status is a failed call with the start of the body.
        Results are untrusted, unless `trust=` is given.

        Args:
            document: The document, or the path of a JSON or YAML file, which may refer to other files below its folder.
            base_url: The address of the API for all operations, which may be inside your network; default: the first
                server of the operation or the document, which must be on the public internet.
            auth: A token, `(user, password)`, headers, or a function that returns headers for each request.  A token
                is sent as the document's security scheme says, else as a bearer token.
            include: Names, operation ids, tags, or `"GET /path"`; default: all operations.
            **settings: Settings for all tools, which take precedence; see `ToolSettings`.

        Raises:
            DefinitionError: the document is not usable, or an entry of `include` is unknown.
        """
        from .openapi.tools import make_operation_tools  # imports jsonschema and the HTTP client

        source = document if isinstance(document, Mapping) else os.fspath(document)
        return cls(make_operation_tools(source, base_url=base_url, auth=auth, include=include, **settings))

    def prefixed(self, prefix: str) -> "ToolRegistry":
        """Return a registry of the same tools with `prefix` before their names; the answer tool keeps its own."""
        renamed = (tool.renamed(f"{prefix}{tool.name}") for tool in self.own_tools)
        return ToolRegistry(renamed, self.provider_tools, answer=self.answer, repair=self.repair)

    def filtered(self, keep: Callable[[JsonTool[..., Any]], bool]) -> "ToolRegistry":
        """Return a registry of the tools for which `keep(tool)` is true; the answer tool always stays."""
        kept = filter(keep, self.own_tools)
        return ToolRegistry(kept, self.provider_tools, answer=self.answer, repair=self.repair)

    def merged(self, *others: Any) -> "ToolRegistry":
        """Return a registry of these tools and the others' (functions, tools or registries)."""
        return ToolRegistry(self.own_tools, self.provider_tools, *others, answer=self.answer, repair=self.repair)

    def _explain_unknown(self, name: str) -> ExceptionInfo:
        if is_parallel_wrapper(name):
            return ExceptionInfo("UnknownTool", PARALLEL_MESSAGE)
        names = list(self._tools)
        rest = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
        known = f"The tools are: {', '.join(names[:MAX_NAMES_SHOWN])}{rest}."
        return ExceptionInfo(
            "UnknownTool",
            f"there is no tool {name[:64]!r}. {suggest(name, self._tools, then=known)}",
        )


def _make_call_schema(tools: Iterable[JsonTool[..., Any]], answer: JsonTool[..., Any] | None) -> JsonSchema:
    definitions: JsonSchema = {}
    forms: dict[int, list[JsonSchema]] = {}
    for tool in tools:
        longest = 1 if tool is answer else MAX_REPLY_CALLS
        forms.setdefault(longest, []).append(make_call_form(tool, definitions))
    lists = [
        {"type": "array", "items": make_union(entries), "minItems": 1, "maxItems": longest}
        for longest, entries in sorted(forms.items(), reverse=True)
    ]
    found = _make_object(calls=make_union(lists))
    return {**found, "$defs": definitions} if definitions else found


def make_call_form(tool: JsonTool[..., Any], definitions: JsonSchema) -> JsonSchema:
    """Return the JSON Schema of a call, `{"name": ..., "arguments": {...}}`, and add its `$defs` to `definitions`."""
    parameters = _rename_definitions(tool.schema("mcp")["inputSchema"], f"{tool.name}_")
    definitions |= parameters.pop("$defs", {})
    return _make_object(name={"type": "string", "enum": [tool.name]}, arguments=parameters)


def _make_object(**properties: JsonSchema) -> JsonSchema:
    required = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _rename_definitions(schema: JsonSchema, prefix: str) -> JsonSchema:
    """Return a copy whose definitions have names with `prefix`: those of several tools stand beside each other."""

    def rename(node: JsonSchema) -> JsonSchema:
        if isinstance(reference := node.get("$ref"), str):
            node["$ref"] = reference.replace("#/$defs/", f"#/$defs/{prefix}")
        if "$defs" in node:
            node["$defs"] = {f"{prefix}{name}": inner for name, inner in node["$defs"].items()}
        return node

    return rebuild(schema, rename)


def make_tool(entry: Any) -> JsonTool[..., Any]:
    """Return `entry` if it is a tool, else a tool made from it; raises `DefinitionError` if it cannot be one."""
    check_is_bound(entry.function if isinstance(entry, JsonTool) else entry)
    return entry if isinstance(entry, JsonTool) else JsonTool(entry)


def _is_method(instance: Any, name: str) -> bool:
    """Return whether a name is a method callable on `instance`; of a class, its class and static methods."""
    static = inspect.getattr_static(instance, name)
    if inspect.isclass(instance):
        return isinstance(static, classmethod | staticmethod)
    if isinstance(static, cached_property):  # a routine for inspect, since it has no __set__
        return False
    return inspect.isroutine(static) or isinstance(static, JsonTool)


def _flatten(entries: Iterable[Any]) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, ToolRegistry):
            yield from entry.own_tools
            yield from cast("Iterable[Any]", entry.provider_tools)
        elif isinstance(entry, Iterable) and not callable(entry) and not isinstance(entry, str | Mapping):
            yield from _flatten(entry)
        else:
            yield entry
