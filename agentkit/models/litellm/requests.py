"""Convert a history to the messages that one provider accepts.

The history holds every assistant message as it arrived, with extras that only its provider understands: thinking
blocks, signatures, provider-specific fields.  The key `provider` of a message names that provider.  The extras are sent
back to it alone, because it may require them and OpenAI-compatible servers refuse unknown keys.
The history is never changed and nothing is copied deeply: a message that needs no change is sent as it is.

Servers such as vLLM and llama.cpp render a chat template.  Templates of Mistral and Gemma require alternating user and
assistant messages and refuse all others.  Templates of Llama 3 refuse several calls in one assistant message.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import groupby, islice
from operator import is_, itemgetter
from threading import Lock
from typing import Any, Literal, TypeAlias

from ...core.messages import Message, assistant
from ...core.parts import join_contents
from ...core.portable import Json, copy_value, to_object_text
from ...core.values import frozen
from ...engine.history.tool_calls import split_groups
from .parameters import order_items
from .provider_tools import list_server_calls

_FILLER_TEXT = "Understood."
REFUSED_INSTRUCTION = re.compile(
    r"system role (?:is )?not supported|messages\[\d+\]\.role' does not support '(?:system|developer)'", re.IGNORECASE
)
"""The error of a server whose template has no place for an instruction.

Sources: the template of google/gemma-2-9b-it; OpenAI, of o1-mini.
"""
REFUSED_PARALLEL_CALLS = re.compile(
    r"single tool[- ]calls? at once|only (?:one|a single) tool[- _]calls?\b", re.IGNORECASE
)
"""The error of a server whose template accepts one call in a message only."""


def separate_results(messages: Iterable[Message]) -> Iterator[Message]:
    """Insert an assistant message between a tool message and a user message; Mistral's API requires it too."""
    before = None
    for message in messages:
        if before == "tool" and message["role"] == "user":
            yield assistant(_FILLER_TEXT)
        before = message["role"]
        yield message


def split_turns(messages: Sequence[Message], divide: Callable[[list[Json]], list[list[Json]]]) -> Iterator[Message]:
    """Divide the calls of each assistant message: each part, with its results, has a turn of its own."""
    for group in split_groups(messages):
        head, *results = messages[group]
        parts = divide(head.get("tool_calls") or []) if len(results) > 1 else []
        if len(parts) < 2:
            yield from messages[group]
            continue
        for number, calls in enumerate(parts):
            ids = {call["id"] for call in calls}
            yield {**(head if number == 0 else assistant()), "tool_calls": calls}
            yield from (result for result in results if result["tool_call_id"] in ids)


def _merge_users(messages: Sequence[Message]) -> Iterator[Message]:
    """Merge neighbouring user messages."""
    for role, group in groupby(messages, key=itemgetter("role")):
        if role != "user":
            yield from group
            continue
        merged, *others = group
        for other in others:
            merged = {**merged, "content": join_contents(merged["content"], other["content"])}
        yield merged


_THINKING_KEYS = ("thinking_blocks", "reasoning_content", "provider_specific_fields")
_WRITER_KEYS: dict[str, tuple[str, ...]] = {
    "anthropic": _THINKING_KEYS,
    "bedrock": _THINKING_KEYS,
    "vertex_ai": _THINKING_KEYS,
    "gemini": _THINKING_KEYS,
    "deepseek": ("reasoning_content",),
    "moonshot": ("reasoning_content",),
    "zai": ("reasoning_content",),
    "groq": ("reasoning_content",),
    "ollama_chat": ("reasoning_content",),
    "minimax": ("reasoning_content", "reasoning_details"),
    "openrouter": ("reasoning_details",),
}
"""The extra keys of an assistant message that its provider needs in the next turn of a tool loop.

Sources: Anthropic, "Extended thinking", preserving thinking blocks; Gemini, "Thought signatures"; DeepSeek, "Thinking
mode", tool calls; Moonshot, "Use Kimi K2 thinking", multi-step tool calls; Z.AI, "Thinking mode", preserved thinking;
MiniMax, "Tool use and interleaved thinking"; OpenRouter, "Reasoning tokens", preserving reasoning; Ollama, "Thinking".
Other providers accept text and calls only.
"""
_CLAUDE_KEYS = {"azure_ai": _THINKING_KEYS, "litellm_proxy": ("thinking_blocks", "reasoning_content")}
"""The same for Claude on other providers."""
_TEMPLATE_EXTRAS = {"reasoning_content": ("reasoning_content", "reasoning")}
"""The same for servers with a chat template, which decides about earlier thinking; the second name is of new vLLMs."""
_SENT_NAMES = {("groq", "reasoning_content"): ("reasoning",)}
"""The names in a request, where they differ: Groq refuses others."""
_RESPONSES_KEYS = ("reasoning_items", "item_order")
"""The extra keys for OpenAI's Responses API (OpenAI, "Reasoning models", keeping reasoning items in context)."""
_REASONING = r"\breasoning(?:_content|_details)?\b"
REFUSED_REASONING = re.compile(
    rf"{_REASONING}[^.]{{0,40}}(?:unsupported|not supported|not permitted|not allowed|unknown|unrecognized|unexpected)"
    rf"|(?:unsupported|unknown|unrecognized|unexpected|extra)\b[^.]{{0,40}}[^_]{_REASONING}"
    rf"|{_REASONING}.{{0,9}}extra inputs",
    re.IGNORECASE,
)
"""The error of a server whose messages have no field for reasoning."""

_NAMED_RESULT_PROVIDERS = {"gemini", "vertex_ai", "mistral", "ollama_chat"}
"""Their tool results carry the tool's name; OpenAI's schema of a tool message has no such key."""

_ID_PATTERNS = {
    provider: re.compile(pattern)
    for provider, pattern in {
        "anthropic": r"[a-zA-Z0-9_-]+",
        "vertex_ai": r"[a-zA-Z0-9_-]+",
        "bedrock": r"[a-zA-Z0-9_-]{1,64}",
        "mistral": r"[a-zA-Z0-9]{9}",
    }.items()
}
_DEFAULT_ID_PATTERN = re.compile(r"\S{1,40}")
"""Valid ids of tool calls where nothing else is known: OpenAI's rule, which many servers copy."""

_ACCOUNT_HEADERS = {
    "OpenAI-Organization": ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID"),
    "OpenAI-Project": ("OPENAI_PROJECT_ID",),
}
"""Headers that the OpenAI SDK sends for these environment variables (OpenAI API reference, "Authentication")."""

_CACHE_MARKS = {"auto": {"type": "ephemeral"}, "1h": {"type": "ephemeral", "ttl": "1h"}}
"""The marks of cached prefixes; without `ttl` an entry lives for five minutes (Anthropic, "Prompt caching")."""
_MARKED_PROVIDERS = {"openrouter", "azure_ai", "vertex_ai", "litellm_proxy"}
_MAX_MARKS = 4
_BLOCKS_BETWEEN_MARKS = 20
"""The blocks at which Anthropic looks for an entry, the marked one included (Anthropic, "Prompt caching")."""
_MAX_CACHED_CHARS = 1_000
_PLAIN_KEYS = {"role", "content", "name", "cache_control"}
_TOOL_KEYS = {"role", "content", "tool_call_id", "cache_control"}
_NAMED_KEYS = _TOOL_KEYS | {"name"}
_CALL_KEYS = {"id", "type", "function"}
_FUNCTION_KEYS = {"name", "arguments"}


Extras: TypeAlias = Mapping[str, tuple[str, ...]]
"""The extra keys of a message that go back to its writer, each with its names in a request."""
PromptCache: TypeAlias = Literal["auto", "off", "1h"]
_MAX_CONVERSATIONS = 32


@frozen
class MessageForm:
    """How messages are sent to one model.

    Attributes:
        provider: litellm's name of the provider.
        cache: Which messages have cache marks, on Anthropic.
        model: The provider's name of the model.
        has_template: Whether the server may render a chat template that requires alternating roles.
        one_call: Whether each call has an assistant message of its own.
        instruction_in_query: Whether the instruction begins the first message of the user.
        for_responses: Whether the reasoning items are kept, which only OpenAI's Responses API accepts.
        keeps_reasoning: Whether the reasoning of earlier replies is sent.
        flags: The row of the model in litellm's table.
    """

    provider: str
    cache: PromptCache = "auto"
    model: str = ""
    has_template: bool = False
    one_call: bool = False
    instruction_in_query: bool = False
    for_responses: bool = False
    keeps_reasoning: bool = True
    flags: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def mark(self) -> dict[str, str] | None:
        """The mark of cached prefixes; None if the model caches by itself, or nothing."""
        if self.has_template or self.for_responses or not caches_by_marks(self.provider, self.model, self.flags):
            return None
        return _CACHE_MARKS.get(self.cache)

    def convert(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with known keys only, without empty assistant messages and without cache marks."""
        extras = self._find_extras()
        provider = self.provider
        sent = [known for message in messages if (known := _clean_message(message, provider, extras)) is not None]
        if self.for_responses:
            return list(order_items(sent))
        if self.one_call:
            sent = list(split_turns(sent, lambda calls: [[call] for call in calls]))
        if self.instruction_in_query and sent and sent[0]["role"] == "system":
            sent[0] = {**sent[0], "role": "user"}
        if self.has_template:
            return list(separate_results(_merge_users(sent)))
        if provider == "mistral":
            return list(separate_results(sent))
        return list(split_turns(sent, _divide_equal_calls)) if provider in ("gemini", "vertex_ai") else sent

    def _find_extras(self) -> Extras:
        if self.for_responses:
            return _name_extras(self.provider, _RESPONSES_KEYS)
        if not self.keeps_reasoning:
            return {}
        if self.has_template:
            return _TEMPLATE_EXTRAS
        keys = _CLAUDE_KEYS.get(self.provider) if "claude" in self.model else None
        return _name_extras(self.provider, keys or _WRITER_KEYS.get(self.provider, ()))


class SentConversation:
    """The messages of one conversation as they are sent: each is converted once, although all are sent each time.

    What stands before an assistant message is converted independently of what follows. So the conversion of all
    messages before the last assistant message is kept, and that of new messages is added to it.
    """

    def __init__(self, form: MessageForm) -> None:
        self.form = form
        self._start()

    def _start(self) -> None:
        self._sources: list[Message] = []
        self._sent: list[Message] = []
        self._copies: list[Message] = []
        self._is_marked = False

    def prepare_texts(self, messages: Sequence[Message]) -> list[Message] | None:
        """Return the messages to send; None if one of them has parts, which have rules of their own."""
        if not self._is_continued(messages):
            self._start()
        new = messages[len(self._sources) :]
        return None if any(isinstance(message.get("content"), list) for message in new) else self.prepare(new)

    def prepare(self, new: Sequence[Message]) -> list[Message]:
        """Return the messages to send: those that are converted, and new ones."""
        places = () if self.form.for_responses else range(len(new) - 1, 0, -1)
        settled = next((place for place in places if _is_reply(new[place])), 0)
        if settled:
            self._keep(new[:settled])
        rest = self.form.convert(new[settled:])
        sent = [*self._sent, *rest]
        mark = self.form.mark
        if mark is None or self._is_marked or any(map(_has_mark, rest)):
            return sent
        return _add_cache_marks(sent, mark)

    def _is_continued(self, messages: Sequence[Message]) -> bool:
        """Return whether the messages begin with the converted ones, which are unchanged."""
        return (
            len(self._sources) <= len(messages)
            and all(map(is_, self._sources, messages))
            and self._sources == self._copies
        )

    def _keep(self, messages: Sequence[Message]) -> None:
        converted = self.form.convert(messages)
        self._sources += messages
        self._copies += map(copy_value, messages)
        self._sent += converted
        self._is_marked = self._is_marked or any(map(_has_mark, converted))


class SentConversations:
    """The messages that were sent to one model, for the last few conversations."""

    def __init__(self) -> None:
        self._find = lru_cache(_MAX_CONVERSATIONS)(lambda _, form: SentConversation(form))
        self._lock = Lock()

    def prepare_texts(self, messages: Sequence[Message], form: MessageForm) -> list[Message] | None:
        """Return the messages to send in `form`, those of an earlier request as they were; None if one has parts."""
        with self._lock:
            return self._find(tuple(map(id, messages[:2])), form).prepare_texts(messages)


def _is_reply(message: Message) -> bool:
    return message["role"] == "assistant" and bool(message.get("content") or message.get("tool_calls"))


@lru_cache(64)
def _name_extras(provider: str, keys: tuple[str, ...]) -> Extras:
    return {key: _SENT_NAMES.get((provider, key), (key,)) for key in keys}


def _add_cache_marks(messages: list[Message], mark: dict[str, str]) -> list[Message]:
    """Add cache marks to the system message and to ends of requests, of which no message has a mark.

    Anthropic caches the part of a request before a mark, tools included, and charges a tenth for it in the next
    request. Without marks it caches nothing (Anthropic, "Prompt caching").
    """
    if not messages:
        return messages
    has_system = messages[0]["role"] == "system" and len(messages) > 1
    for place in islice(_find_cached_ends(messages), _MAX_MARKS - has_system):
        messages[place] = _mark_message(messages[place], mark)
    if has_system:
        messages[0] = _mark_message(messages[0], mark)
    return messages


def _find_cached_ends(messages: Sequence[Message]) -> Iterator[int]:
    """Yield the places of marks, the newest first: this request's end, the last one's, and older ones further apart.

    An entry of the cache is found at a mark, or at most 20 blocks before it. So a turn with many calls needs the mark
    where the last request ended, and a model that returns after turns of another one needs those further back.
    """
    marked = candidate = -1
    distance = passed = number = 0  # blocks from the last mark to the place, and to the candidate
    for place in reversed(range(len(messages))):
        message = messages[place]
        is_last = place + 1 == len(messages)
        if message["role"] != "assistant" and (is_last or messages[place + 1]["role"] == "assistant"):
            if number >= 2 and distance > _BLOCKS_BETWEEN_MARKS and candidate != marked:
                yield candidate
                marked = candidate
                distance -= passed
                number += 1
            if number < 2 or distance > _BLOCKS_BETWEEN_MARKS:
                yield place
                marked = place
                distance = 0
                number += 1
            candidate = place
            passed = distance
        distance += _count_blocks(message)


def _count_blocks(message: Message) -> int:
    """Return how many blocks a message is at Anthropic; all parts of a tool's result are in one."""
    content = message.get("content")
    blocks = len(content) if isinstance(content, list) and message["role"] != "tool" else bool(content)
    return blocks + len(message.get("tool_calls") or ()) + len(message.get("thinking_blocks") or ())


def _mark_message(message: Message, mark: dict[str, str]) -> Message:
    """Return the message with a mark at its end: that of a list of parts is in the last of them."""
    content = message.get("content")
    if message["role"] != "tool" and isinstance(content, list) and content:
        return {**message, "content": [*content[:-1], {**content[-1], "cache_control": mark}]}
    return {**message, "cache_control": mark}


def caches_by_marks(provider: str, model: str, flags: Mapping[str, Any]) -> bool:
    """Return whether a model caches what is marked: Claude, at any provider that passes the marks on.

    Bedrock refuses them for models without a cache, which litellm's table tells.
    """
    if provider == "bedrock":
        return "claude" in model and bool(flags.get("supports_prompt_caching"))
    return provider == "anthropic" or (provider in _MARKED_PROVIDERS and "claude" in model.lower())


def _has_mark(message: Message) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return "cache_control" in message or any("cache_control" in part for part in parts)


def _divide_equal_calls(calls: Sequence[Json]) -> list[list[Json]]:
    """Divide the calls of one turn such that no part has equal ones.

    For models before Gemini 3, litellm drops all but one of the equal calls but keeps their results, and Gemini refuses
    that request.
    """
    parts: dict[int, list[Json]] = {}
    seen: Counter[str] = Counter()
    for call in calls:
        function = call["function"]
        key = json.dumps([function["name"], json.loads(function["arguments"])], sort_keys=True)
        parts.setdefault(seen[key], []).append(call)
        seen[key] += 1
    return [*parts.values()]


def _clean_message(message: Message, provider: str, extras: Extras) -> Message | None:
    if message["role"] == "assistant":
        return _clean_assistant(message, provider, extras)
    if message["role"] != "tool":
        keys = _PLAIN_KEYS
    else:
        keys = _NAMED_KEYS if provider in _NAMED_RESULT_PROVIDERS else _TOOL_KEYS
        if (identity := convert_call_id(message["tool_call_id"], provider)) != message["tool_call_id"]:
            message = {**message, "tool_call_id": identity}
    if message.keys() <= keys and None not in message.values():
        return message
    return {key: value for key, value in message.items() if key in keys and value is not None}


def _clean_assistant(message: Message, provider: str, extras: Extras) -> Message | None:
    calls = message.get("tool_calls")
    content = message.get("content")
    if "provider_calls" in message and message.get("provider") == provider == "anthropic":
        calls = [*list_server_calls(message), *(calls or ())]
    if not calls and not content:
        return None
    is_own = message.get("provider") == provider and ("reasoning_items" in extras or "reasoning_items" not in message)
    returned = extras if is_own else {}
    sent: Message = {"role": "assistant"}
    if content:  # with calls, some routes send '' as text, and litellm removes None
        sent["content"] = content
    if calls:
        with_extras = "provider_specific_fields" in returned
        sent["tool_calls"] = [_clean_call(call, provider, with_extras) for call in calls]
    for key, names in returned.items():
        if key in message:
            sent.update(dict.fromkeys(names, message[key]))
    return sent


def _clean_call(call: Json, provider: str, with_extras: bool) -> Json:
    function = call["function"]
    identity = convert_call_id(call["id"], provider)
    arguments = _object_text(function["arguments"])
    is_clean = call.keys() == _CALL_KEYS and function.keys() == _FUNCTION_KEYS
    if is_clean and identity == call["id"] and arguments == function["arguments"]:
        return call
    sent: Json = {
        "id": identity,
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }
    if with_extras and "provider_specific_fields" in call:
        sent["provider_specific_fields"] = call["provider_specific_fields"]
    return sent


@lru_cache(4096)
def convert_call_id(identity: str, provider: str) -> str:
    """Return the id itself if `provider` accepts it, or else a valid id that is always the same for it."""
    if _ID_PATTERNS.get(provider, _DEFAULT_ID_PATTERN).fullmatch(identity):
        return identity
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()
    return digest[:9] if provider == "mistral" else f"call_{digest[:32]}"


_cached_object_text = lru_cache(4096)(to_object_text)


def _object_text(arguments: str) -> str:
    """Return `to_object_text(arguments)`, cached: the same arguments are sent again with every request."""
    return _cached_object_text(arguments) if len(arguments) < _MAX_CACHED_CHARS else to_object_text(arguments)


def build_headers(options: dict[str, Any], added: Mapping[str, str] | None, provider: str) -> dict[str, Any]:
    """Return litellm's `headers`, if there are any: the account's, those of the options and of the request.

    `extra_headers` is cleared: old versions of litellm send OpenAI its content in the body as well.
    """
    headers = {
        **(_account_headers(options) if provider == "openai" else {}),
        **(options.get("headers") or {}),
        **(options.get("extra_headers") or {}),
        **(added or {}),
    }
    return {"headers": headers, "extra_headers": None} if headers else {}


def _account_headers(options: dict[str, Any]) -> dict[str, str]:
    """Return the headers with the account's organization and project, which litellm's client omits."""
    found = {
        header: next(filter(None, map(os.environ.get, variables)), None)
        for header, variables in _ACCOUNT_HEADERS.items()
    }
    found["OpenAI-Organization"] = options.get("organization") or found["OpenAI-Organization"]
    return {header: value for header, value in found.items() if value}
