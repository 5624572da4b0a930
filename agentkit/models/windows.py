"""What the errors of providers tell about a model's context window."""

from __future__ import annotations

import re

from ..core.values import frozen

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
