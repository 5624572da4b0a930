"""Convert exceptions of litellm calls to `ModelError`: the kind of failure, and whether a retry can help.

litellm's own class and status are misleading: a closed connection and a missing key are both an
`InternalServerError(500)`, and some versions turn a provider's 401 into a 500. Three properties are reliable on every
measured route and version:

- the classes in the whole chain of causes (an `httpx.TransportError` anywhere means a transport failure),
- the innermost HTTP status in that chain, which is the status that the provider sent,
- the response headers, which are attached somewhere in the chain if and only if a response arrived.

This module imports neither litellm nor httpx; it recognises their errors by class name.
"""

import json
import re
import time
from ast import literal_eval
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import responses
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ...core.errors import ModelError, ModelErrorKind
from ...core.masking import iterate_causes, mask, mask_exception
from ...core.parts import shorten_data
from .limits import WebPage
from .requests import REFUSED_INSTRUCTION

_CONTEXT_ERROR = re.compile(
    r"context[ _](?:length|window|limit)|maximum (?:context|prompt length|model length)|too many (?:input )?tokens"
    r"|(?:prompt|input) is too (?:long|large)|(?:prompt|input) (?:token )?length\b.{0,80}exceed|reduce the length"
    r"|exceeds the maximum number of tokens|number of input tokens|token count (?:is|of) \d+ (?:but|exceeds)"
    r"|prompt tokens \(\d+\) exceed|prompt (?:has|contains) [\d,]+ tokens|prompt exceeds max length"
    r"|context size has been exceeded|context shift is disabled|available context size|cannot truncate prompt"
    r"|model token limit|range of input length|max_tokens must be at least 1, got -"
    r"|`max_new_tokens` must be|`inputs` must have less",
    re.IGNORECASE,
)
"""What providers and servers write of a conversation that is too long.

OpenAI, Azure, DeepSeek, OpenRouter, Anthropic, Gemini, Vertex AI, Bedrock, Mistral, Groq, Together, Fireworks, Cohere,
xAI, Cerebras, Moonshot, DashScope, Z.AI, watsonx, Databricks, vLLM, SGLang, TensorRT-LLM, text-generation-inference,
llama.cpp, Ollama and LM Studio.
"""
_REQUEST_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
"""OpenAI and Groq: a single request above the account's tokens per minute. A retry cannot succeed."""
_NO_QUOTA = re.compile(r"insufficient_quota|credit balance is too low", re.IGNORECASE)
_MISSING_KEY = re.compile(r"api[_ ]?key|credentials", re.IGNORECASE)
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"([\d.]+)s"')  # google.rpc.RetryInfo: Gemini sends no Retry-After header
_UNREADABLE_REPLY = re.compile(r"Error converting to valid response|Got unexpected response from Ollama")
_PREFIX = re.compile(
    r"^\s*(?:litellm\.)?(?:[A-Za-z_]*(?:Error|Exception|Timeout)(?: [A-Za-z]*Error)?(?::| -)|Error code: \d+ -)\s*"
)
_MAX_MESSAGE_CHARS = 500

_PART_WORDS = {
    "image_url": r"(?:image(?:[_ ]?urls?)?s?|vision|multi-?modal)",
    "file": r"(?:files?|pdfs?|documents?)",
    "input_audio": r"(?:(?:input[_ ])?audios?)",
}
_PART_REFUSAL = r"""
    (?:does\ not|doesn't|do\ not|don't|endpoints\ found\ that)\ support\ (?:the\ )?{0}\b(?!\ (?:format|type|size|url))
    | \b{0}['"`]?(?:\ (?:content|inputs?|modality|parts?|blocks?))*\ (?:is|are)\ (?:not|only)\ (?:supported|enabled)
    | (?:unsupported|unknown)\ (?:content\ )?(?:part\ |block\ )?type[^{{}}:]{{0,40}}:\s*['"`]*{0}\b
    | unknown\ variant\ ['"`]{0}\b
    | missing\ data\ required\ for\ {0}\b
    | at\ most\ 0\ {0}
"""
_PART_REFUSALS = {
    kind: re.compile(_PART_REFUSAL.format(words), re.IGNORECASE | re.VERBOSE) for kind, words in _PART_WORDS.items()
}
_TEXT_ONLY = re.compile(r"not a multimodal model|requires (?:a )?multimodal|content must be a string", re.IGNORECASE)
"""Refusals of content parts: OpenAI, Gemini, Bedrock, DeepSeek, Groq, OpenRouter, Ollama, vLLM, SGLang, llama.cpp.

llama.cpp sends it with status 500, but no retry can succeed.
"""
_TEXT_OR_IMAGE = re.compile("expected to be either text or image_url type")
"""OpenAI, of a message with a document or audio."""
_REFUSED_REQUEST = re.compile(r"roles must alternate|tools param requires --jinja", re.IGNORECASE)
"""Refusals of a chat template, and of tools without one, which llama.cpp and others send with status 500."""
_BAD_KEY = re.compile(r"""["']reason["']:\s*["']API_KEY_INVALID["']""")
"""Gemini, of an unknown key, with status 400."""
_NO_PATH = re.compile(
    r"""["']detail["']:\s*["'](?:Not Found|Method Not Allowed)["']|404 page not found|["']File Not Found["']"""
    r"|Unexpected endpoint or method"
)
"""Servers without the path of the request: vLLM and others on FastAPI, Ollama, llama.cpp, LM Studio (status 200)."""
_FILTERED = re.compile(
    r"""["']code["']:\s*["'](?:content_filter|(?:image_)?content_policy_violation)["']"""
    r"|blocked by content filtering policy"
)
"""The codes of Azure OpenAI and of OpenAI for a request that their filter stopped, which many servers copy.

And the words of Anthropic.
"""
_NO_MODEL = re.compile(r"""["']code["']:\s*["']model_not_found["']|provided model identifier is invalid""")
"""An unknown model, which OpenAI's Responses API and Bedrock answer with status 400."""
_FAILED_CALL = re.compile(r"""["']code["']:\s*["'](?:tool_use_failed|output_parse_failed)["']""")
"""The codes of Groq for a reply of the model that it cannot read; it sends them with status 400."""
_REFUSED = re.compile(
    r"connection refused|\[Errno 111\]|\[Errno 61\]|WinError 10061|all connection attempts failed", re.I
)
_UNKNOWN_HOST = re.compile(
    r"\[Errno -[235]\]|\[Errno 8\]|\[Errno 11001\]|name or service not known|name resolution|nodename nor servname"
    r"|getaddrinfo failed|no address associated",
    re.I,
)
_UNTRUSTED_CERTIFICATE = re.compile(r"self[- ]signed certificate|unable to get (?:local )?issuer certificate", re.I)
_NO_TLS = re.compile(r"\[SSL: (?:WRONG_VERSION_NUMBER|UNKNOWN_PROTOCOL|PACKET_LENGTH_TOO_LONG)")
"""OpenSSL, of a server that answers without TLS."""
_LASTING = re.compile(rf"CERTIFICATE_VERIFY_FAILED|{_NO_TLS.pattern}")
"""Faults of a connection that another attempt has too."""
_BAD_PROXY = re.compile(r"Invalid port: |Unknown scheme for proxy URL")
"""httpx, of the environment: the addresses of models are checked before."""
_SSL_SETTING = re.compile(r" ssl:(?:<[^>]*>|\w+)")
"""A part of aiohttp's errors that says nothing to a reader."""
_TIMEOUT_CLASSES = {"Timeout", "APITimeoutError", "TimeoutException", "TimeoutError"}
_TRANSPORT_CLASSES = {
    "TransportError", "ClientConnectionError", "ClientPayloadError", "ClientResponseError", "ConnectionError"
}  # fmt: skip
"""Of httpx, aiohttp and Python; the third of aiohttp's is a response that is no HTTP."""

_UNREAD_CLASSES = {"AttributeError", "IndexError", "KeyError", "TypeError", "ValidationError"}
"""What reading a reply raises that has not the form of the provider's API."""
_PAGE = "the server sent a web page, not a reply of a model. Is api_base the address of an API?"
_UNSENDABLE = re.compile(
    r"illegal header value|(?:control character|null byte) detected in headers|'ascii' codec can't encode",
    re.IGNORECASE,
)
_BAD_HEADER = (
    "a header cannot be sent: the API key, or one of extra_headers, is empty, or holds a line break, a space at an end "
    "or a character that is not ASCII. Set it anew, as in key.strip()."
)
_TRACEBACK = "Traceback (most recent call last)"
"""Where litellm's own text begins in some messages."""

_KIND_BY_STATUS: dict[int, ModelErrorKind] = {
    401: "authentication",
    403: "authentication",
    404: "not_found",
    407: "authentication",
    408: "timeout",
    413: "context",
    429: "rate_limit",
    504: "timeout",
}
_STATUS_BY_CODE = (
    ("image|prompt", 400),
    ("server_error|internal", 500),
    ("authentication|invalid_api_key", 401),
    ("billing", 402),
    ("permission", 403),
    ("not_?found", 404),
    ("request_too_large", 413),
    ("rate_limit|insufficient_quota", 429),
    ("timeout", 504),
    ("overloaded", 529),
    ("invalid|bad_?request|context_length|content_filter|content_policy", 400),
)
"""The statuses that codes and types of errors stand for, in replies of status 200.

Sources: Anthropic, "Errors"; OpenAI, "Error codes", and the codes of a failed response of the Responses API.
"""
_CUT_STREAM = re.compile("Stream ended before a finish_reason was received")
"""The message of litellm since 1.109 for a stream without an end."""
_TRANSIENT_STATUS = {408, 409, 425, 429}


class ErrorInReply(Exception):
    """An error that a provider sent in a reply of status 200, streamed or not.

    Some versions of litellm skip it, and most make up a status. `status_code` is the one that it stands for, or None.
    """

    def __init__(self, error: Any) -> None:
        super().__init__(json.dumps({"error": error}, ensure_ascii=False))
        self.status_code = _read_status(error)


def _read_status(error: Any) -> int | None:
    names = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
    for name in map(str, names):
        if name.isdecimal() and len(name) == 3:
            return int(name)
        for pattern, status in _STATUS_BY_CODE:
            if re.search(pattern, name, re.IGNORECASE):
                return status
    return None


def find_error(text: str) -> ErrorInReply | None:
    """Return the error that a line of a stream holds, or a whole reply; None without one.

    Some servers send an error without contents with each reply. llama.cpp sends a line that begins with "error:".
    """
    is_error_line = text.startswith("error:")
    if not is_error_line and '"error"' not in text:
        return None
    try:
        data, _ = json.JSONDecoder().raw_decode(text, text.find("{"))
        error = data.get("error")
        if data.get("type") == "response.failed":  # an event of the Responses API
            error = data["response"]["error"]
        elif is_error_line or (not error and "error" in (data.get("object"), data.get("type"))):  # vLLM, Responses API
            error = data
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    has_contents = any(error.values()) if isinstance(error, dict) else bool(error)
    return ErrorInReply(error) if has_contents else None


def convert_error(
    error: BaseException,
    *,
    model: str,
    begun: bool = False,
    body: str = "",
    is_accepted: bool = False,
    outer: BaseException | None = None,
) -> ModelError:
    """Return the `ModelError` for `error`, which a litellm call raised; the caller raises it from `error`.

    The causes keep their class and their masked text, but lose their tracebacks: the local variables of litellm's
    frames hold the API key, and some loggers print the variables of every frame.

    Args:
        error: The exception that the litellm call raised.
        model: The model's name, for the message.
        begun: Whether the provider had started to reply.
        body: The body of the reply as far as it is known.
        is_accepted: Whether the reply has a status of success.
        outer: The exception that was being handled when the call began. Python adds it to the chain of causes,
            although it is not a cause.
    """
    chain = list(_iter_chain(error, outer))
    links = [link for link in chain if type(link).__name__ != "MidStreamFallbackError"] or chain  # only a wrapper
    if is_accepted and (found := find_error(body)):
        links = [found]
    whole = "\n".join([*map(str, links), *_iter_bodies(links)])
    kind, transient = _classify(links, whole, begun)
    status = None if _is_unsent(links, begun) else _find_status(links)  # litellm's own errors have invented ones
    if _find_headers(links) is None and _UNSENDABLE.search(whole):
        kind = "authentication"
        transient = False
        links = [ValueError(_BAD_HEADER)]
    is_page = any(isinstance(link, WebPage) for link in links) or (is_accepted and body.lstrip().startswith("<"))
    text = _PAGE if is_page else mask(shorten_data(_explain(links, body, begun, status)))[:_MAX_MESSAGE_CHARS]
    if remedy := _find_remedy(links, whole, kind, status, model):
        text = text.rstrip(".") + remedy
    retry_after = _find_retry_after(links, whole)
    mask_exception(error, outer=outer)
    for link in iterate_causes(error, outer):
        link.__traceback__ = None
    text = f"{model}: {text}" + (f" (HTTP {status})" if status else "")
    return ModelError(text, kind=kind, status=status, transient=transient, retry_after=retry_after)


def _iter_chain(error: BaseException | None, outer: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first, up to the response that the provider sent.

    What came before a response is an earlier attempt: after a lost connection litellm sends the request once more.
    """
    seen: set[int] = set()
    while error is not None and error is not outer and id(error) not in seen:
        seen.add(id(error))
        yield error
        if "HTTPStatusError" in type(error).__name__:
            return
        wrapped = getattr(error, "original_exception", None)  # litellm's MidStreamFallbackError
        inner = wrapped if isinstance(wrapped, BaseException) and id(wrapped) not in seen else None
        error = inner or error.__cause__ or error.__context__


def _classify(links: list[BaseException], text: str, begun: bool) -> tuple[ModelErrorKind, bool]:
    """Return the kind of failure, and whether the same request can succeed later."""
    status = _find_status(links)
    names = {base.__name__ for link in links for base in type(link).__mro__}
    # First lines only: litellm puts tracebacks into its messages, and their source lines mention context windows.
    headlines = "\n".join([*(str(link).partition("\n")[0] for link in links), *_iter_bodies(links)])
    is_overflow = _REQUEST_TOO_LARGE.search(headlines) or (status != 429 and _CONTEXT_ERROR.search(headlines))
    if is_overflow or "ContextWindowExceededError" in names:
        return "context", False
    if "ReplyTooLarge" in names:
        return "server", False
    if find_refused_parts(headlines) or _REFUSED_REQUEST.search(headlines) or REFUSED_INSTRUCTION.search(headlines):
        return "bad_request", False
    if _FAILED_CALL.search(text):
        return "server", True
    if "ContentPolicyViolationError" in names or (status is not None and status < 500 and _FILTERED.search(text)):
        return "refused", False
    if names & _TIMEOUT_CLASSES:
        return "timeout", True
    if refused := _find_proxy_refusal(links):
        return "authentication" if refused == 407 else "connection", refused >= 500
    if names & _TRANSPORT_CLASSES or _CUT_STREAM.search(headlines):
        return "connection", not _LASTING.search(text)
    if _BAD_KEY.search(text):
        return "authentication", False
    if _NO_PATH.search(text) and (status or 404) in (200, 404, 405):
        return "not_found", False
    if "JSONDecodeError" in names and _is_unsent(links, begun) and _MISSING_KEY.search(text):
        return "authentication", False  # a file of credentials of Vertex AI
    if "JSONDecodeError" in names or _UNREADABLE_REPLY.search(text):
        return "server", True
    if _is_unsent(links, begun):
        if "AuthenticationError" in names or _MISSING_KEY.search(text):
            return "authentication", False
        return "bad_request" if "BadRequestError" in names else "internal", False
    if status is None or status >= 500 or status < 300:
        return _KIND_BY_STATUS.get(status or 0, "server"), True
    if _NO_MODEL.search(text):
        return "not_found", False
    transient = status in _TRANSIENT_STATUS and not _NO_QUOTA.search(text)
    return _KIND_BY_STATUS.get(status, "server" if transient else "bad_request"), transient


def find_refused_parts(error: str) -> frozenset[str]:
    """Return the types of content parts that the model does not take, by a server's error."""
    if _TEXT_ONLY.search(error):
        return frozenset(_PART_REFUSALS)
    if _TEXT_OR_IMAGE.search(error):
        return frozenset(_PART_REFUSALS) - {"image_url"}
    return frozenset(kind for kind, refusal in _PART_REFUSALS.items() if refusal.search(error))


def _is_unsent(links: list[BaseException], begun: bool) -> bool:
    """Return whether no response arrived."""
    return not begun and _find_headers(links) is None and not any(map(_is_error_in_reply, links))


def _find_status(links: list[BaseException]) -> int | None:
    """Return the innermost HTTP status, which the provider sent; None without a response."""
    found = None
    for link in links:
        status = getattr(_get_response(link) or link, "status_code", None)
        if isinstance(status, int) and 100 <= status < 600:
            found = status
    return None if found == 500 and _find_headers(links) is None else found  # litellm's default is 500


def _find_headers(links: list[BaseException]) -> dict[str, str] | None:
    """Return the headers of the provider's response, in lower case; None without a response."""
    for link in links:
        if type(link).__name__ == "ClientHttpProxyError":  # its headers are those of the proxy
            continue
        for holder, name in ((link, "litellm_response_headers"), (link, "headers"), (_get_response(link), "headers")):
            headers: Any = getattr(holder, name, None)
            if headers:  # provider errors without a response hold empty ones
                return {str(key).lower(): str(value) for key, value in dict(headers).items()}
    return None


def _get_response(link: BaseException) -> Any:
    """Return the response of an httpx or OpenAI SDK error. The `response` of litellm's own errors is invented."""
    is_real = type(link).__module__.startswith("openai") or "HTTPStatusError" in type(link).__name__
    return getattr(link, "response", None) if is_real else None


def _is_error_in_reply(link: BaseException) -> bool:
    """Return whether `link` is litellm's plain exception for a reply with status 200 and an error in its body."""
    return type(link) is Exception and hasattr(link, "status_code")


def _iter_bodies(links: list[BaseException]) -> Iterator[str]:
    """Yield the bodies of the provider's responses that were read."""
    for link in links:
        try:
            yield str(_get_response(link).text)
        except (AttributeError, RuntimeError):  # no response, or an unread stream
            continue


def _find_retry_after(links: list[BaseException], text: str) -> float | None:
    """Return the seconds to wait: `Retry-After` (RFC 9110, 10.2.3: seconds or a date), its ms variant, or the body."""
    headers = _find_headers(links) or {}
    try:
        if (milliseconds := headers.get("retry-after-ms", ""))[:1].isdecimal():
            return float(milliseconds) / 1000
        wait = headers.get("retry-after", "") or headers.get("llm_provider-retry-after", "")  # of a LiteLLM proxy
        if wait[:1].isdigit():
            return float(wait)
        if wait:
            return max(0.0, parsedate_to_datetime(wait).timestamp() - time.time())
    except ValueError:
        return None
    in_body = _RETRY_DELAY.search(text)
    return float(in_body[1]) if in_body else None


def _explain(links: list[BaseException], body: str, begun: bool, status: int | None) -> str:
    """Return one line about the failure, quoting the provider if it sent a message."""
    bodies = [*_iter_bodies(links)]
    for text in [*bodies, body, *map(str, links)]:
        if message := _extract_message(text):
            return message
    names = _TRANSPORT_CLASSES | _TIMEOUT_CLASSES
    faults = [link for link in links if any(base.__name__ in names for base in type(link).__mro__)]
    source = faults[-1] if faults else next(filter(_is_error_in_reply, links), links[0])
    text = str(source) or str(getattr(source, "message", ""))
    if bodies and not faults and (status or 0) >= 400:
        text = bodies[0]
    while stripped := _PREFIX.match(text):
        text = text[stripped.end() :]
    if text.startswith(("b'", 'b"')):  # some of litellm's routes quote the bytes of the body
        with suppress(ValueError, SyntaxError):
            text = literal_eval(text).decode(errors="replace")
    text = _SSL_SETTING.sub("", next(iter(text.partition(_TRACEBACK)[0].strip().splitlines()), ""))
    if not text or text.startswith("<"):  # a page says nothing in its first line
        is_timeout = type(source).__name__ in _TIMEOUT_CLASSES
        text = "no reply in time" if is_timeout else responses.get(status or 0, type(source).__name__)
    unread = begun and not faults and any(type(link).__name__ in _UNREAD_CLASSES for link in links)
    return f"the reply cannot be read: {text}" if unread else text


def _find_remedy(links: list[BaseException], text: str, kind: ModelErrorKind, status: int | None, model: str) -> str:
    """Return what to do about the failure, as a further sentence; "" if unknown."""
    if kind == "authentication" and status is None and model.startswith("gemini-"):
        return f". litellm takes this name for a model of Vertex AI. With a key of the Gemini API: 'gemini/{model}'."
    if kind == "bad_request" and "image_url" in find_refused_parts(text):
        return ". The model takes no images: remove them, or choose a model with vision."
    if kind == "not_found" and _NO_PATH.search(text):
        usual = "That of a server in OpenAI's form ends in /v1, that of Ollama in its port."
        return f". The server has no such path: is api_base right? {usual}"
    if kind == "internal" and _BAD_PROXY.search(text):
        return ". This stands in HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY, where an IPv6 address has no brackets."
    if "No module named 'vllm'" in text:
        return '. This runs vLLM in the process. For a server of vLLM write "hosted_vllm/..." and api_base=.'
    address = next(filter(None, map(_find_address, links)), "its address")
    proxy = _find_proxy(address)
    place = f"{proxy} for {address}" if proxy else address
    if 407 in (status, _find_proxy_refusal(links)):
        return f". Write the login of {proxy or 'the proxy'} into its address: http://user:password@host:port."
    is_page = any(body.lstrip().startswith("<") for body in _iter_bodies(links))
    if proxy and (_find_proxy_refusal(links) or (address.startswith("http://") and is_page)):
        host = urlsplit(address).hostname
        return f". This came from {proxy}: does it serve {host}? Set NO_PROXY={host} to go past it."
    if kind == "connection" and _REFUSED.search(text):
        return f". No server accepts connections at {place}: is it running?"
    if kind == "connection" and _UNKNOWN_HOST.search(text):
        return f". The host of {place} was not found: is this machine online, and is the address right?"
    if kind == "connection" and _UNTRUSTED_CERTIFICATE.search(text):
        return f". For a certificate of your own at {place}, set SSL_CERT_FILE to the file of its authority."
    if kind == "connection" and _NO_TLS.search(text):
        return f". The server at {place} answers without TLS: is its address one with http://?"
    return ""


def _find_proxy(address: str) -> str:
    """Return the proxy of the environment or of the system for an address, without its login; "" if it has none."""
    scheme, _, host = address.partition("://")
    proxies = getproxies()
    url = proxies.get(scheme) or proxies.get("all") if host else None
    if not url or proxy_bypass(host):
        return ""
    place = url.rpartition("@")[2].rpartition("://")[2].rstrip("/")
    return f"the proxy {place} ({scheme.upper() if scheme in proxies else 'ALL'}_PROXY)"


def _find_proxy_refusal(links: list[BaseException]) -> int | None:
    """Return the status with which a proxy refused to connect to the host; None without one."""
    for link in links:
        status = getattr(link, "status", None) if type(link).__name__ == "ClientHttpProxyError" else None
        if found := re.match(r"\d{3}\b", str(link)) if type(link).__name__ == "ProxyError" else None:
            status = int(found[0])
        if isinstance(status, int):
            return status
    return None


def _find_address(link: BaseException) -> str:
    """Return "host:port" of an error of httpx or aiohttp, with its scheme where known; "" for other errors."""
    is_real = type(link).__module__.startswith(("httpx", "httpcore", "aiohttp")) or _get_response(link) is not None
    if not is_real:  # litellm's own hold invented requests
        return ""
    with suppress(RuntimeError):  # httpx: no request was set
        if (url := getattr(getattr(link, "request", None), "url", None)) is not None and url.host:
            host = f"[{url.host}]" if ":" in url.host else url.host
            return f"{url.scheme}://{host}:{url.port or (443 if url.scheme == 'https' else 80)}"
    host = getattr(link, "host", None)
    port = getattr(link, "port", None)
    return f"{host}:{port}" if host and port else ""


def _extract_message(text: str) -> str:
    """Return the message in a provider's JSON error body; "" if `text` holds none."""
    start = text.find("{")
    if start < 0:
        return ""
    try:
        body, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return ""
    found = body.get("error", body)
    inner = found if isinstance(found, dict) else {"message": found}
    message = inner.get("message")
    if not isinstance(message, str):
        return ""
    details = inner.get("metadata")
    cause = details.get("raw") if isinstance(details, dict) else None  # OpenRouter: "Provider returned error"
    if isinstance(cause, str):
        message += f": {_extract_message(cause) or cause}"
    return " ".join(message.split())
