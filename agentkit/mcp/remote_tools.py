"""A server's tools as tools of an agent: their names, schemas, effects, and what a call of them does.

The result becomes the value of a tool: data, text, and parts of images and audio.
"""

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from inspect import Parameter
from typing import Any, TypeAlias, get_args

import mcp_types as types
from loguru import logger

from .. import DefinitionError, JsonTool, RunContext, ToolError
from ..extend import (
    Definition,
    JsonSchema,
    Part,
    RawSchema,
    RenderedResult,
    StoredResult,
    ToolEffect,
    Trust,
    find_free_name,
    make_defined_tool,
    read_image,
    to_portable_name,
    to_valid_text,
)
from .lock import Locked, compare_tool, describe_tools

MAX_REMOTE_DESCRIPTION_CHARS = 10_000
DEFAULT_EFFECT: ToolEffect = "write"
"""The effect of a tool without hints: calls run alone, and after untrusted text they need approval."""
_STRICTNESS = get_args(ToolEffect)

Invoke: TypeAlias = Callable[[str, dict[str, Any], RunContext[Any] | None], Coroutine[Any, Any, Any]]
"""Calls a tool of the server by the server's own name for it."""


class RemoteArguments:
    """The arguments of a server's tool: its own JSON Schema; `call` gets them as a dict, with the run."""

    injected: Mapping[str, Parameter] = {"run": Parameter("run", Parameter.KEYWORD_ONLY, annotation=RunContext)}

    def __init__(self, name: str, parameters: Mapping[str, Any], call: Callable[[dict[str, Any], Any], Any]) -> None:
        self._raw = RawSchema(name, parameters, dict)
        self.parameters = self._raw.parameters
        """The plain JSON Schema of the arguments."""
        self._call = call

    def bind(self, arguments: str | Mapping[str, Any], injected: Mapping[str, Any] | None = None) -> Callable[[], Any]:
        """Validate `arguments` and return the prepared call; raises `ValueError`."""
        return partial(self._call, self._raw.bind(arguments).keywords, (injected or {}).get("run"))


class RemoteTools:
    """Makes the tools of a server; a tool that did not change stays the same object.

    Args:
        invoke: Calls a tool.
        prefix: Put before each name.
        trust: "trusted" to believe the server's hints, and to show its results as they are.
        effects: Effects by patterns of the server's names; the first pattern that fits takes precedence.
        locked: The tools as a person reviewed them; None without a lock.
        offered: Patterns of the server's names; a tool that none fits is not offered, nor one that fits a pattern after
            "!".
    """

    def __init__(
        self,
        invoke: Invoke,
        prefix: str,
        trust: Trust,
        effects: Mapping[str, ToolEffect],
        locked: Locked | None = None,
        offered: Sequence[str] = ("*",),
    ) -> None:
        self._invoke = invoke
        self._offered = [pattern for pattern in offered if not pattern.startswith("!")]
        self._left_out = [pattern[1:] for pattern in offered if pattern.startswith("!")]
        self._prefix = prefix
        self._trust = trust
        self._effects = effects
        self._locked = locked
        self._made: dict[str, tuple[types.Tool, JsonTool[..., Any]]] = {}

    def make(self, listed: Sequence[types.Tool]) -> list[JsonTool[..., Any]]:
        """Return the tools that the server lists; one that cannot be used is logged and left out."""
        made: dict[str, tuple[types.Tool, JsonTool[..., Any]]] = {}
        names: set[str] = set()
        for tool in listed:
            if not self.offers(tool.name):
                continue
            if reason := self._find_fault(tool):
                logger.warning("MCP tool {!r} is left out: {}", tool.name, reason)
                continue
            name = find_free_name(to_portable_name(f"{self._prefix}{tool.name}"), names)
            known = self._made.get(tool.name)
            try:
                same = known is not None and known[0] == tool and known[1].name == name
                made[tool.name] = known if same and known else (tool, self._make_one(tool, name))
                names.add(name)
            except (DefinitionError, RecursionError) as error:
                logger.warning("MCP tool {!r} is left out: {}", tool.name, str(error)[:500])
        self._made = made
        return [tool for _, tool in made.values()]

    def offers(self, name: str) -> bool:
        """Return whether a tool with this name of the server's is wanted."""
        is_left_out = any(fnmatchcase(name, pattern) for pattern in self._left_out)
        return not is_left_out and any(fnmatchcase(name, pattern) for pattern in self._offered)

    def _find_fault(self, tool: types.Tool) -> str:
        """Return why a tool is not offered; "" if it is."""
        if self._locked is not None and tool.name not in self._locked:
            return "it is not in the lock"
        if tool.execution is not None and tool.execution.task_support == "required":
            return "it runs only as a task of the protocol, and this client has no tasks"
        if not _is_for_models(tool):
            return "it is for the page that the server shows in a client, not for a model"
        return ""

    def make_own(self, name: str, description: str, parameters: JsonSchema, invoke: Invoke) -> JsonTool[..., Any]:
        """Return a reading tool that the client itself offers; its requests go to the server and nowhere else."""
        tool = types.Tool(name=name, description=description, input_schema=parameters)
        effect = self._find_override(name) or "read"
        return self._build(tool, to_portable_name(f"{self._prefix}{name}"), effect, partial(invoke, name), egress=False)

    def _make_one(self, tool: types.Tool, name: str) -> JsonTool[..., Any]:
        if self._locked is not None:
            locked = self._locked[tool.name]
            if changes := compare_tool(locked, describe_tools([tool])[tool.name]):
                return self._make_refused(tool.name, name, locked, changes)
        effect = self._find_override(tool.name) or decide_effect(tool.annotations, self._trust)
        egress = True if tool.annotations is not None and tool.annotations.open_world_hint else None
        return self._build(tool, name, effect, partial(self._invoke, tool.name), egress=egress)

    def _make_refused(
        self, own: str, name: str, locked: Mapping[str, Any], changes: Sequence[str]
    ) -> JsonTool[..., Any]:
        """Return a tool as it was locked, whose calls fail with what has changed since."""
        text = (
            f"refused: the tool {own!r} of this server has changed since it was locked: {'; '.join(changes)}. "
            "A person must review it, and run: agentkit lock --mcp"
        )
        logger.warning("MCP: {}", text)

        async def refuse(_: dict[str, Any], __: Any) -> Any:
            raise ToolError(text)

        shown = types.Tool(
            name=own,
            title=locked.get("title"),
            description=locked.get("description"),
            input_schema=locked.get("inputSchema", {"type": "object"}),
        )
        return self._build(shown, name, "read", refuse)

    def _build(
        self,
        tool: types.Tool,
        name: str,
        effect: ToolEffect,
        call: Callable[[dict[str, Any], Any], Any],
        *,
        egress: bool | None = None,
    ) -> JsonTool[..., Any]:
        async def remote(**arguments: Any) -> Any:
            value = await call(arguments, None)
            return value.value if isinstance(value, StoredResult) else value

        remote.__name__ = remote.__qualname__ = name
        if tool.output_schema is not None:
            remote.__output_schema__ = tool.output_schema  # type: ignore[attr-defined]
        text = to_valid_text(tool.description or tool.title or tool.name)[:MAX_REMOTE_DESCRIPTION_CHARS]
        definition = Definition(remote, RemoteArguments(name, tool.input_schema, call), name, text)
        return make_defined_tool(definition, {"effect": effect, "trust": self._trust, "egress": egress})

    def _find_override(self, name: str) -> ToolEffect | None:
        return next((effect for pattern, effect in self._effects.items() if fnmatchcase(name, pattern)), None)


def _is_for_models(tool: types.Tool) -> bool:
    """Return whether a model may call a tool.  Source: the extension MCP Apps, `_meta.ui.visibility`."""
    page = (tool.meta or {}).get("ui")
    visible = page.get("visibility") if isinstance(page, Mapping) else None
    return not isinstance(visible, list) or not visible or "model" in visible


def decide_effect(hints: types.ToolAnnotations | None, trust: Trust) -> ToolEffect:
    """Return the effect of a tool; the hints of an untrusted server can only make it stricter than the default."""
    hinted = _read_hints(hints)
    if trust == "trusted":
        return hinted
    return max(hinted, DEFAULT_EFFECT, key=_STRICTNESS.index)


def _read_hints(hints: types.ToolAnnotations | None) -> ToolEffect:
    if hints is None:
        return DEFAULT_EFFECT
    if hints.read_only_hint:
        return "read"
    if hints.destructive_hint:
        return "danger"
    return "idempotent" if hints.idempotent_hint else DEFAULT_EFFECT


AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""Media types of audio that chat completions accept, and their names there."""
MAX_AUDIO_BYTES = 10_000_000


def read_result(result: types.CallToolResult) -> Any:
    """Return what a call returned: its structured content, or its text.

    It is a `StoredResult` where the model reads more than that: images, audio, or a text beside the structured content.

    Raises:
        ToolError: The server reports that the call failed.
    """
    shown = render_blocks(result.content)
    if result.is_error:
        raise ToolError(shown.text or "the call failed, and the server gives no reason")
    data = result.structured_content
    if data is None:
        return StoredResult(shown.text, shown) if shown.images else shown.text
    texts = [*map(_render_block, result.content)]
    read = _describe_media(data, dict(zip(map(_data_of, result.content), texts, strict=True)))
    rest = [] if _repeat_items(texts, read) else [text for text in texts if not _repeats(text, read)]
    inside = _unwrap(read)
    is_text = isinstance(inside, str) and inside != ""
    if not rest and not is_text and not shown.images:
        return data
    first = inside if is_text and not rest else json.dumps(read, ensure_ascii=False, separators=(",", ":"))
    text = "\n".join([first, *rest])
    return StoredResult(data, RenderedResult(text, shown.images))


def render_blocks(blocks: Sequence[Any]) -> RenderedResult:
    """Return the text of content blocks, a note in the place of each image and audio, and these as content parts."""
    parts = [part for block in blocks for part in _list_parts(block)]
    return RenderedResult.with_parts("\n".join(map(_render_block, blocks)), parts)


def read_contents(contents: Iterable[Any]) -> Any:
    """Return the contents of a resource: text, or its images as parts."""
    blocks = [types.EmbeddedResource(resource=entry) for entry in contents]
    if len(blocks) == 1 and isinstance(blocks[0].resource, types.TextResourceContents):
        return blocks[0].resource.text
    shown = render_blocks(blocks)
    return StoredResult(shown.text, shown) if shown.images else shown.text


def close_link(block: Any) -> Any:
    """Return a block for a reader who has no tool that reads resources: a link becomes its description."""
    if not isinstance(block, types.ResourceLink):
        return block
    return types.TextContent(text=f"[{_describe_link(block)}]")


def _describe_link(block: types.ResourceLink) -> str:
    about = ": ".join(filter(None, [block.title or block.name, block.description]))
    return f"resource {block.uri} ({about})"


def _render_block(block: Any) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        return f"[{block.mime_type}, {len(_decode(block.data)):,} bytes]"
    if isinstance(block, types.ResourceLink):
        return f"[{_describe_link(block)}; read_resource reads it]"
    resource = block.resource
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "binary data"
    return f"[resource {resource.uri}: {kind}, {len(_decode(resource.blob)):,} bytes]"


def _list_parts(block: Any) -> Iterable[Part]:
    if isinstance(block, types.AudioContent):
        name = AUDIO_FORMATS.get(block.mime_type)
        if name and len(_decode(block.data)) <= MAX_AUDIO_BYTES:
            yield {"type": "input_audio", "input_audio": {"data": block.data, "format": name}}
        return
    if part := read_image(_decode(_data_of(block))):
        yield part


def _decode(text: str) -> bytes:
    try:
        return b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def _data_of(block: Any) -> str:
    """Return the base64 of an image, audio or other binary data; "" for another block."""
    return getattr(block, "data", "") or getattr(getattr(block, "resource", None), "blob", "")


def _describe_media(data: Any, notes: Mapping[str, str]) -> Any:
    """Return structured content with notes in the place of binary data that the content blocks have too."""
    if isinstance(data, str):
        return notes.get(data, data) if data else data
    if isinstance(data, dict):
        return {key: _describe_media(entry, notes) for key, entry in data.items()}
    return [_describe_media(entry, notes) for entry in data] if isinstance(data, list) else data


def _repeats(text: str, data: Any) -> bool:
    """Return whether a text is the structured content again, as servers add it for older clients."""
    if isinstance(data, dict) and text in data.values():
        return True
    try:
        return json.loads(text) in (data, _unwrap(data))
    except (ValueError, RecursionError):
        return False


def _repeat_items(texts: Sequence[str], data: Any) -> bool:
    """Return whether texts are the items of a list, as the SDK's servers add one: item by item, without None."""
    items = [item for item in _flatten(_unwrap(data)) if item is not None]
    return len(texts) == len(items) and all(
        _repeats(text, {"item": item}) for text, item in zip(texts, items, strict=True)
    )


def _flatten(data: Any) -> Iterator[Any]:
    if not isinstance(data, list):
        yield data
        return
    for item in data:
        yield from _flatten(item)


def _unwrap(data: Any) -> Any:
    """Return the value of an object that has one entry."""
    return next(iter(data.values())) if isinstance(data, dict) and len(data) == 1 else data
