"""The size of a conversation, and the window that an error of a provider names.

A size is counted incrementally: a conversation grows at its end, and only new messages are measured.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from ...core.messages import Message
from ...core.parts import parts_of, read_part
from ...core.values import frozen
from ..model import Request

IMAGE_CHARACTERS = 4_000
"""Characters that an image counts as: about 1,000 tokens, independent of the length of its address or data."""
IMAGE_TOKENS = 50_000
"""The most that an image costs (OpenAI "Images and vision": gpt-4o-mini with high detail; others cost a tenth)."""
_PAGE_CHARACTERS = 8_000
_PAGE_BYTES = 50_000
"""Characters that a page of a PDF counts as (Anthropic "PDF support": up to 3,000 tokens), and its usual size."""
_SECOND_CHARACTERS = 128
_SECOND_BYTES = 16_000
"""Characters that a second of sound counts as (Gemini "Audio understanding": 32 tokens), and its size as MP3."""
_FRAME = 16
"""The most tokens that a provider adds to a message or a call to mark its beginning and end."""
_PREAMBLE = 1_000
"""The most tokens of a provider's own instruction for tool use (Anthropic "Pricing", tool use: 313 to 804)."""
_MAX_CONVERSATIONS = 32


class RunningSize:
    """The sum of a measure over the messages of a growing conversation; counted messages are not measured again.

    A conversation counts as the continuation of the previous one while its first message and the last counted one are
    the same objects at the same indexes.
    """

    def __init__(self, measure: Callable[[Message], int]) -> None:
        self._measure = measure
        self._first: Message | None = None
        self._last: Message | None = None
        self._count = 0
        self._sum = 0

    def of(self, messages: Sequence[Message]) -> int:
        """Return the size of `messages`."""
        if not messages:
            return 0
        count = self._count
        if count > len(messages) or messages[0] is not self._first or messages[count - 1] is not self._last:
            count = self._sum = 0
        self._sum += sum(map(self._measure, messages[count:]))
        self._first = messages[0]
        self._last = messages[-1]
        self._count = len(messages)
        return self._sum


class TokenBounds:
    """Upper bounds for the tokens of requests, for the last few conversations; `measure` bounds those of a message."""

    def __init__(self, measure: Callable[[Message], int] | None = None) -> None:
        self._find_size = lru_cache(_MAX_CONVERSATIONS)(lambda _: RunningSize(measure or bound_tokens))
        self._tools: tuple[object, int] = (None, 0)
        self._lock = Lock()

    def tokens(self, request: Request) -> int:
        """Return an upper bound for the tokens that any provider counts for the request."""
        schemas = request.tools.schemas("openai")  # the same object from request to request
        key = id(request.messages[0]) if request.messages else 0
        with self._lock:
            if self._tools[0] is not schemas:
                self._tools = schemas, _bytes(schemas)
            return _PREAMBLE + self._tools[1] + self._find_size(key).of(request.messages)


def count_characters(message: Message) -> int:
    """Estimate how many characters of a message are sent to the model."""
    content = message.get("content")
    size = len(content) if isinstance(content, str) else 0
    if isinstance(content, list):
        size = sum(len(part["text"]) if part.get("type") == "text" else _count_part(part) for part in content)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        size += len(function["name"]) + len(function["arguments"]) + _FRAME
    for item in message.get("reasoning_items") or ():
        size += len(item.get("encrypted_content") or "")
    for block in message.get("thinking_blocks") or ():
        size += len(block.get("thinking") or block.get("data") or "")
    return size + _FRAME


def _count_part(part: Mapping[str, Any]) -> int:
    """Estimate the characters that an image, a document or a sound counts as; never those of its data."""
    _, size, _ = read_part(part)
    if part.get("type") == "file":
        return _PAGE_CHARACTERS * max(1, size // _PAGE_BYTES)
    return max(1, size // _SECOND_BYTES) * _SECOND_CHARACTERS if part.get("type") == "input_audio" else IMAGE_CHARACTERS


def bound_tokens(message: Message) -> int:
    """Return an upper bound for the tokens of a message: no token of a text stands for less than one byte."""
    images = [*parts_of(message)]
    if images:
        message = {**message, "content": [part for part in message["content"] if part.get("type") == "text"]}
    frames = _FRAME * (1 + len(message.get("tool_calls") or ()))
    documents = sum(read_part(part)[1] for part in images if part.get("type") != "image_url")
    return _bytes(message) + frames + IMAGE_TOKENS * len(images) + documents


def _bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))


_NUMBER = r"(?P<{}>\d{{1,12}}+)"
_ROOM, _USED, _REPLY = map(_NUMBER.format, ("room", "used", "reply"))
_MESSAGES = (
    # OpenAI, Azure, DeepSeek, OpenRouter, vLLM
    rf"maximum context length (?:is|of) {_ROOM}.*?(?:resulted in|requested) (?:about )?{_USED} tokens"
    rf"(?:[^)]*?{_REPLY} (?:in|for) the (?:completion|output))?",
    rf"too large: {_REPLY}\..*?maximum context length is {_ROOM}.*?{_USED} input tokens",
    rf"maximum context length (?:is|of) {_ROOM}.*?{_USED} input tokens",
    rf"\(length {_USED}\).*?maximum model length of {_ROOM}",
    # OpenAI and Groq, where the account's tokens per minute are less than the window
    rf"\bLimit {_ROOM}, Requested {_USED}",
    # Anthropic
    rf"prompt is too long: {_USED} tokens > {_ROOM}",
    rf"exceed context limit: {_USED} \+ {_REPLY} > {_ROOM}",
    # Gemini
    rf"token count \(?{_USED}\)? exceeds the maximum number of tokens allowed \(?{_ROOM}",
    # llama.cpp, LM Studio
    rf"\({_USED} tokens\) exceeds the available context size \({_ROOM}",
    rf"first {_USED} tokens.*?context length of only {_ROOM}",
    # Mistral, xAI, Cohere, Fireworks, text-generation-inference and Together
    rf"contains {_USED} tokens.*?with {_ROOM} maximum context length",
    rf"maximum prompt length is {_ROOM}.*?contains {_USED} tokens",
    rf"cannot exceed {_ROOM} - received {_USED}",
    rf"too long: {_USED}, model maximum context length: {_ROOM}",
    rf"(?:less than|must be <=) {_ROOM}(?: tokens)?\. Given: {_USED}(?:.*?{_REPLY} `max_new_tokens`)?",
    # Vertex AI, Bedrock, Moonshot, Cerebras, watsonx, SGLang, TensorRT-LLM, LM Studio
    rf"token count (?:is|of) {_USED} (?:but|exceeds)[a-z ]*{_ROOM}",
    rf"max input tokens: {_ROOM}.*?count: {_USED}",
    rf"prompt tokens \({_USED}\) exceed[a-z ]*\({_ROOM}",
    rf"token limit: {_ROOM} \(requested: {_USED}",
    rf"current length is {_USED} while limit is {_ROOM}",
    rf"input tokens {_USED} cannot exceed[a-z ]*{_ROOM}",
    rf"length \({_USED}(?: tokens)?\) exceeds[a-z ]*\({_ROOM}",
    rf"n_keep \({_USED}\) >= n_ctx \({_ROOM}",
    # OpenAI, and DashScope; messages with the window alone
    rf"configured limit of {_ROOM} tokens.*?resulted in {_USED}",
    rf"input length should be \[1, {_ROOM}\]",
    r"(?:context (?:length|window|size)|maximum number of tokens)"
    rf"(?:[ :=(]|is|of|only|limit|this model|allowed)*{_ROOM}\b",
)
MAX_ERROR_MESSAGE_CHARS = 4_000
"""Characters of an error message that are read."""
_SEPARATORS = re.compile(r"(?<=\d)[,_](?=\d{3})")


@frozen
class Window:
    """The tokens that a conversation may have (without the reply), and those that it had, if the message names them."""

    room: int
    used: int | None = None


def parse_window(text: str) -> Window | None:
    """Return the window that an error message names, if it names one."""
    text = _SEPARATORS.sub("", text[:MAX_ERROR_MESSAGE_CHARS])
    for pattern in _MESSAGES:
        if found := re.search(pattern, text, re.IGNORECASE | re.DOTALL):  # compiled at the first error, not before
            numbers = {name: int(number) for name, number in found.groupdict().items() if number}
            reply = numbers.get("reply", 0)
            used = numbers.get("used")
            if used is not None and "requested" in found[0].lower():
                used -= reply  # this form counts the reply in
            return Window(numbers["room"] - reply, used) if numbers["room"] > reply else None
    return None
