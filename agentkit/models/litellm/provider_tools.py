"""Tools that a provider runs, on the wire: their forms in a request, their steps and citations in a reply.

In a history, `provider_calls` of an assistant message lists the steps, each with `id`, `name`, `arguments` (a text) and
`sources` (`url`, `title`), and `citations` what the text cites.  Both are the same for all providers.  What a provider
needs back stands in `provider_specific_fields`, as litellm reads it there.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...core.errors import DefinitionError
from ...core.messages import Message
from ...core.portable import Json, to_valid_text
from ...tools.registry import ProviderTool

_GEMINI_VERSION = re.compile(r"gemini-(\d+)")
_COMBINING_GEMINI = 3
SERVER_CALL_PREFIX = "srvtoolu_"
"""The begin of the id of a call that Anthropic runs itself; litellm returns it among the calls of the reply."""
_SERVER_CALLS = "server_tool_calls"
"""litellm's field for these calls since 1.110, in place of the calls of the reply."""
_RESULT_FIELDS = ("web_search_results", "tool_results")
_DERIVED_FIELDS = ("web_search_calls", "code_interpreter_results")
"""What litellm derives from the results for other APIs."""
_TAKEN_FIELDS = frozenset({"citations", _SERVER_CALLS, *_DERIVED_FIELDS})
"""Fields whose content stands elsewhere in a message of a history."""
GROWING_FIELDS = frozenset({_SERVER_CALLS, *_RESULT_FIELDS, *_DERIVED_FIELDS})
"""Fields of which each chunk of a stream has the whole list so far."""
_INVOCATIONS = "server_side_tool_invocations"
"""litellm's field for the calls that Gemini ran, which it sends back from there."""
_GROUNDINGS = {"web": "google_search_web", "maps": "google_maps", "retrievedContext": "file_search"}
"""Gemini's tools by the kind of what they found, where only the metadata of a reply shows them."""
_OWN_ITEMS = ("function_call", "custom_tool_call")
"""Items of the Responses API that are calls of the user's tools."""


def render_provider_tools(tools: Sequence[ProviderTool], wire: str, model: str, name: str) -> Json:
    """Return litellm's arguments for tools that the provider runs.

    Args:
        tools: The tools.
        wire: litellm's provider, or "responses".
        model: The provider's name of the model.
        name: The full name, for the error.

    Raises:
        DefinitionError: The model's API does not have one of them.
    """
    api = "gemini" if wire == "vertex_ai" and "gemini" in model else wire
    forms = [tool.render(api, name) for tool in tools]
    if api == "gemini" and (found := _GEMINI_VERSION.search(model)) and int(found[1]) < _COMBINING_GEMINI:
        raise DefinitionError(
            f"{name}: before Gemini {_COMBINING_GEMINI}, the API refuses {tools[0].name!r} beside functions. "
            f'Name a newer model: model="gemini/gemini-{_COMBINING_GEMINI}-...".'
        )
    return {"tools": forms, **({"include_server_side_tool_invocations": True} if api == "gemini" else {})}


def take_steps(message: Message) -> None:
    """Move the steps of the provider out of the calls and the fields of a reply, and unite what it cites."""
    fields = message.get("provider_specific_fields") or {}
    calls = message.get("tool_calls") or ()
    hosted = [call for call in calls if call["id"].startswith(SERVER_CALL_PREFIX)]
    hosted += fields.get(_SERVER_CALLS) or ()
    steps = [_read_call(call, fields) for call in hosted]
    if invocations := _join_invocations(fields.get(_INVOCATIONS) or ()):
        fields = {**fields, _INVOCATIONS: invocations}
        steps += map(_read_invocation, invocations)
    citations = [*_read_citations(fields.get("citations") or ()), *_read_annotations(message.get("annotations") or ())]
    fields = {key: value for key, value in fields.items() if key not in _TAKEN_FIELDS}
    others = [call for call in calls if call not in hosted]
    values = {"tool_calls": others, "provider_specific_fields": fields, "annotations": None}
    for key in values.keys() & message.keys():
        if values[key]:
            message[key] = values[key]
        else:
            del message[key]
    _add(message, steps, citations)


class Grounding:
    """What a reply of Gemini is grounded on: the searches, the pages and the citations in its metadata.

    The metadata may come in several chunks of a stream.  litellm keeps one source of a cited passage, and none of the
    first passage.
    """

    def __init__(self) -> None:
        self._queries: dict[str, dict[str, None]] = {}
        self._sources: dict[str, dict[str, Json]] = {}
        self._citations: dict[str, Json] = {}
        self._pages: dict[str, Json] = {}

    def add(self, response: Any) -> None:
        """Add what litellm has read of the metadata of a whole reply."""
        for one in getattr(response, "vertex_ai_grounding_metadata", None) or ():
            self._add_search(one)
        for one in getattr(response, "vertex_ai_url_context_metadata", None) or ():
            self._add_pages(one)

    def add_chunk(self, data: Json) -> None:
        """Add the metadata in a chunk of a stream; litellm skips one without content."""
        with suppress(AttributeError, TypeError):
            for candidate in data.get("candidates") or ():
                self._add_search(candidate.get("groundingMetadata") or {})
                self._add_pages(candidate.get("urlContextMetadata") or {})

    def count_searches(self, usage: Any) -> None:
        """Set the paid searches in the usage of a stream, where litellm counts those of its last chunk alone."""
        details = getattr(usage, "prompt_tokens_details", None)
        queries = self._queries.get("web")
        if details is not None and queries and not getattr(details, "web_search_requests", None):
            details.web_search_requests = len(queries)

    def _add_pages(self, one: Mapping[str, Any]) -> None:
        for page in one.get("urlMetadata") or ():
            if url := page.get("retrievedUrl"):
                self._pages[url] = _make_source({"url": url})

    def _add_search(self, one: Mapping[str, Any]) -> None:
        nothing: tuple[str, Json] = ("", {})
        chunks = [next(iter(chunk.items()), nothing) for chunk in one.get("groundingChunks") or ()]
        sources = [_make_source({"url": found.get("uri"), "title": found.get("title")}) for _, found in chunks]
        for (kind, _), source in zip(chunks, sources, strict=True):
            if source:
                self._sources.setdefault(kind, {})[json.dumps(source)] = source
        kinds = {kind for kind, _ in chunks}
        if queries := dict.fromkeys(map(str, one.get("webSearchQueries") or ())):
            self._queries.setdefault("web" if "web" in kinds or not kinds else min(kinds), {}).update(queries)
        for support in one.get("groundingSupports") or ():
            text = to_valid_text((support.get("segment") or {}).get("text") or "")
            for place in support.get("groundingChunkIndices") or ():
                if place < len(sources) and sources[place]:
                    citation = sources[place] | ({"text": text} if text else {})
                    self._citations[json.dumps(citation)] = citation

    def put(self, message: Message) -> None:
        """Put the citations and the steps into a message; a search that the reply shows gets the sources."""
        steps = message.get("provider_calls") or []
        for kind, name in _GROUNDINGS.items():
            sources = [*self._sources.get(kind, {}).values()]
            queries = [*self._queries.get(kind, ())]
            shown = next((step for step in steps if step["name"].startswith(name.removesuffix("_web"))), None)
            if shown is None and (sources or queries):
                shown = _make_step("", name, _write({"queries": queries} if queries else {}), ())
                steps.append(shown)
            if sources and shown is not None:
                shown["sources"] = sources
        if self._pages and not any(step["name"].startswith("url_context") for step in steps):
            steps.append(_make_step("", "url_context", "{}", self._pages.values()))
        every = [source for found in self._sources.values() for source in found.values()]
        _add(message, steps, self._citations.values() or every)


def take_items(message: Message, items: Sequence[Json]) -> list[Json]:
    """Set the steps among the items of the Responses API, and return the items to send back.

    The API refuses reasoning without the item that follows it, so what precedes such a step is left out with it.
    """
    steps: list[Json] = []
    kept: list[Json] = []
    for item in items:
        if item["type"].endswith("_call") and item["type"] not in _OWN_ITEMS:
            steps.append(_read_item(item))
            while kept and kept[-1]["type"] == "reasoning":
                kept.pop()
        else:
            kept.append(item)
    if steps and not any(item["type"] == "reasoning" for item in kept):
        message.pop("reasoning_items", None)
    parts = [part for item in items if item["type"] == "message" for part in item.get("content") or ()]
    found = [note for part in parts for note in part.get("annotations") or ()]
    _add(message, steps, _read_annotations(found) if "citations" not in message else ())
    return kept


def list_server_calls(message: Message) -> list[Json]:
    """Return the calls of a message that Anthropic ran, as litellm takes them back beside their results."""
    fields = message.get("provider_specific_fields") or {}
    done = {block.get("tool_use_id") for key in _RESULT_FIELDS for block in fields.get(key) or ()}
    return [
        {"id": step["id"], "type": "function", "function": {"name": step["name"], "arguments": step["arguments"]}}
        for step in message.get("provider_calls") or ()
        if step["id"] in done
    ]


def _add(message: Message, steps: Sequence[Json], citations: Any) -> None:
    if steps:
        message["provider_calls"] = [*steps]
    if cited := [*citations]:
        message["citations"] = cited


def _read_call(call: Json, fields: Mapping[str, Any]) -> Json:
    """Return the step of a call of Anthropic, with the sources in its result."""
    results = [block for key in _RESULT_FIELDS for block in fields.get(key) or ()]
    found = next((block.get("content") for block in results if block.get("tool_use_id") == call["id"]), None)
    entries = found if isinstance(found, list) else [found] if isinstance(found, Mapping) else []
    function = call["function"]
    return _make_step(call["id"], function["name"], function.get("arguments") or "{}", entries)


def _join_invocations(invocations: Sequence[Json]) -> list[Json]:
    """Return the calls of Gemini with their responses, which stand apart where they came in pieces of a stream."""
    joined: dict[Any, Json] = {}
    for one in invocations:
        if (known := joined.setdefault(one.get("id"), one)) is not one and "response" in one:
            signature = one.get("response_thought_signature") or one.get("thought_signature")
            more = {"response_thought_signature": signature} if signature else {}
            joined[one.get("id")] = {**known, "response": one["response"], **more}
    return [*joined.values()]


def _read_invocation(one: Mapping[str, Any]) -> Json:
    """Return the step of a call that Gemini ran."""
    name = str(one.get("tool_type") or "tool").lower()
    return _make_step(str(one.get("id") or ""), name, _write(one.get("args")), ())


def _read_item(item: Json) -> Json:
    """Return the step of an item of the Responses API: a search has an `action`, an interpreter has `code`."""
    given = {key: item[key] for key in ("action", "queries", "code", "arguments") if item.get(key)}
    action = given.get("action")
    entries = (action.get("sources") if isinstance(action, Mapping) else None) or item.get("results") or ()
    shown = {key: value for key, value in action.items() if key != "sources"} if isinstance(action, Mapping) else given
    return _make_step(str(item.get("id") or ""), item["type"].removesuffix("_call"), _write(shown), entries)


def _make_step(identity: str, name: str, arguments: str, entries: Any) -> Json:
    step: Json = {"id": identity, "name": name, "arguments": to_valid_text(arguments)}
    sources = [_make_source(entry) for entry in entries if isinstance(entry, Mapping) and entry.get("url")]
    errors = [entry["error_code"] for entry in entries if isinstance(entry, Mapping) and entry.get("error_code")]
    return step | ({"sources": sources} if sources else {}) | ({"error": errors[0]} if errors else {})


def _make_source(entry: Mapping[str, Any]) -> Json:
    return {key: to_valid_text(str(entry[key])) for key in ("url", "title") if entry.get(key)}


def _read_citations(groups: Any) -> Iterator[Json]:
    """Yield the citations of Anthropic, which stand in a list for each part of the text."""
    for group in groups:
        for one in group if isinstance(group, list) else [group]:
            source = _make_source({"url": one.get("url"), "title": one.get("title") or one.get("document_title")})
            yield source | ({"text": to_valid_text(one["cited_text"])} if one.get("cited_text") else {})


def _read_annotations(annotations: Any) -> Iterator[Json]:
    """Yield the citations of OpenAI's annotations, whose fields stand in an object of their own in Chat Completions."""
    for one in annotations:
        if one.get("type") == "url_citation":
            yield _make_source(one.get("url_citation") or one)
        elif name := one.get("filename") or one.get("file_id"):
            yield {"title": str(name)}


def _write(value: Any) -> str:
    return json.dumps(value if isinstance(value, Mapping) else {}, ensure_ascii=False, default=str)
