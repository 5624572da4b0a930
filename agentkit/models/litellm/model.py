"""The models of some hundred providers through litellm; the one file that imports it, inside the first request.

Each call makes exactly one request: litellm's retries and fallbacks are off, it prints nothing and fetches nothing.
The policies decide whether to repeat a request, and therefore need to see each failure.
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing, suppress
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from ...core.background import start_thread
from ...core.errors import ModelError
from ...core.masking import MaskedDict
from ...engine.history.size import TokenBounds
from ...engine.model import Delta, Reply, Request
from .errors import convert_error
from .fast_path import call_acompletion, call_completion, has_observers, silence_logging
from .importing import pause_gc
from .prices import find_prices
from .raw_reply import RawReply
from .replies import Route, read_reply
from .requests import build_account_headers, prepare_messages
from .stream_assembler import StreamAssembler
from .streams import ChunkSource, TimedClient
from .thinking import adjust_thinking
from .timeouts import PieceTimer, Signal, alimit_time, limit_time
from .tools import PreparedTools

_QUIET_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the price table is fetched from GitHub at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # and a list of headers at the first request to Anthropic
    "LITELLM_MODE": "PRODUCTION",  # else whatever .env lies near litellm's files is loaded
    # OpenAI over litellm's own HTTP client: 0.4 of the time, and less and less of it as the history grows, which the
    # OpenAI SDK walks with type look-ups at each request.
    "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER": "True",
}
_MODEL_NAMES = (
    'a model is named "provider/name", for example "openai/gpt-4o-mini", "groq/llama-3.1-8b-instant", '
    '"ollama_chat/phi4", or "offline" for the embedded one'
)
_importing = Lock()


@cache
def _load_litellm() -> Any:
    """The litellm module, imported without a word and without a request; what the user set stays as it is."""
    with _importing:
        for name, value in _QUIET_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with pause_gc():
            import litellm
        litellm.suppress_debug_info = True  # advertisements on stdout
        litellm.disable_hf_tokenizer_download = True  # else streams of Llama models wait for Hugging Face
        # What would be loaded in the first request, while the provider's time is measured.
        for name in ("encoding", "module_level_client"):
            getattr(litellm, name, None)
        with suppress(ImportError):  # by the first failure, maybe in a forgotten thread: an exit just then would hang
            import_module("litellm.proxy.guardrails.exception_utils")
        if "LITELLM_LOG" not in os.environ:
            for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        return litellm


def begin_import() -> None:
    """Import litellm in the background, some seconds of work; a failure is the first request's to tell."""

    def work() -> None:
        with suppress(Exception):
            _load_litellm()

    if "litellm" not in sys.modules:
        start_thread(work)


class LiteLLMModel:
    """A model by litellm's name for it: `LiteLLMModel("groq/llama-3.1-8b-instant", temperature=0)`.

    `timeout` is in seconds: for the whole reply, or for each piece of a streamed one (a server that merely keeps the
    connection alive sends none).  `strict` asks OpenAI to hold the model to the tools' schemas.  `options` go to
    `litellm.completion` as they are: `api_key`, `api_base`, `temperature`, `max_tokens`, `reasoning_effort`, ...; what
    a provider does not take is dropped.  Without `api_key` the key is read from the provider's environment variable.
    """

    keeps_time = True

    def __init__(self, name: str, /, *, timeout: float = 120.0, strict: bool = False, **options: Any) -> None:
        self._name = name
        self._timeout = timeout
        self._tools = PreparedTools(strict=strict)
        self._options = MaskedDict(options)
        self._cached_route: Route | None = None
        self._token_bounds = TokenBounds()

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"  # without the options: one of them may be the key

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request`, blocking: deltas if it asks for a stream, then the `Reply`; raises `ModelError`.

        The connection is closed when this generator is, also when nobody reads on.
        """
        _load_litellm()
        timer = PieceTimer(self._timeout, request.timeout)
        try:
            yield from limit_time(self._iter_pieces(request), timer)
        except TimeoutError as error:
            raise self._timeout_error(request, timer) from error

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request` on the running event loop, as `ask` does."""
        if "litellm" not in sys.modules:
            await asyncio.to_thread(_load_litellm)  # some seconds that would stop everything else on this event loop
        timer = PieceTimer(self._timeout, request.timeout)
        try:
            async with aclosing(alimit_time(self._aiter_pieces(request), timer)) as pieces:
                async for piece in pieces:
                    yield piece
        except TimeoutError as error:
            raise self._timeout_error(request, timer) from error

    def _iter_pieces(self, request: Request) -> Generator[Delta | Reply | Signal, None, None]:
        """What comes in answer to `request`."""
        outer, answer, raw = sys.exception(), None, RawReply()
        try:
            provider = self._resolve_route().provider
            answer = call_completion(_load_litellm(), self._arguments(request, raw, is_async=False), provider)
            if not request.stream:
                yield read_reply(answer, self._resolve_route(), raw.body)
                return
            source, assembler = self._open_stream(answer, request)
            with closing(source):
                for chunk in source.chunks():
                    yield from assembler.add(chunk)
                yield assembler.build_reply(source)
        except ModelError:
            raise
        except Exception as error:
            raise self._convert_error(error, outer, raw, begun=answer is not None) from error

    async def _aiter_pieces(self, request: Request) -> AsyncGenerator[Delta | Reply | Signal, None]:
        outer, answer, raw = sys.exception(), None, RawReply()
        try:
            provider = self._resolve_route().provider
            answer = await call_acompletion(_load_litellm(), self._arguments(request, raw, is_async=True), provider)
            if not request.stream:
                yield read_reply(answer, self._resolve_route(), raw.body)
                return
            source, assembler = self._open_stream(answer, request)
            async with aclosing(source):
                async for chunk in await source.achunks():
                    for piece in assembler.add(chunk):
                        yield piece
                yield assembler.build_reply(source)
        except ModelError:
            raise
        except Exception as error:
            raise self._convert_error(error, outer, raw, begun=answer is not None) from error

    def worst_case(self, request: Request) -> float | None:
        """The dollars that `request` can cost at most; None where a price, or the longest reply, is not known.

        Nobody counts tokens as the provider does.  But no token stands for less than a byte of the text, so the bytes
        of messages and tools are a bound; it lies some four times too high for English, less for code and other
        scripts.  The reply is taken to be as long as it may be: say `max_tokens` to make that less.
        """
        try:
            prices = self._resolve_route().prices
        except ModelError:  # the request itself will tell why
            return None
        if prices is None:
            return None
        longest = next(iter(self._reply_limit(request).values()), prices.max_output_tokens)
        return None if longest is None else prices.max_cost(self._token_bounds.tokens(request), longest)

    def _timeout_error(self, request: Request, timer: PieceTimer) -> ModelError:
        text = f"nothing came for {self._timeout:g} s"
        if timer.is_over:
            text = f"no complete answer within {request.timeout:g} s"
        return ModelError(f"{self._name}: {text}", kind="timeout", transient=True)

    def _open_stream(self, stream: Any, request: Request) -> tuple[ChunkSource, StreamAssembler]:
        litellm, route = _load_litellm(), self._resolve_route()
        timed_client = TimedClient(litellm.module_level_client, self._timeout_for(request))
        return ChunkSource(
            stream, route.provider, timed_client=timed_client, has_observers=has_observers(litellm)
        ), StreamAssembler(route)

    def _arguments(self, request: Request, raw: RawReply, *, is_async: bool) -> dict[str, Any]:
        """What litellm is arguments; raises `ModelError` where it is certain that no provider can answer that."""
        route = self._resolve_route()
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if request.stream else {}
        length = self._reply_limit(request)
        request, options = adjust_thinking(request, self._options, route.provider, route.model, *length.values())
        arguments = {
            **options,
            **(build_account_headers(self._options) if route.provider == "openai" else {}),
            **self._tools.parameters(request, route.provider, route.model),
            **streaming,
            **length,
            "model": route.name,
            "messages": prepare_messages(request.messages, route.provider),
            "timeout": self._timeout_for(request),
            "drop_params": True,
            "max_retries": 0,
            "logger_fn": raw.make_logger(self._options.get("logger_fn")),
            "_skip_mcp_handler": True,  # else tools drag litellm's MCP gateway in, which some versions cannot import
        }
        return {**arguments, **silence_logging(_load_litellm(), arguments, is_async=is_async)}

    def _timeout_for(self, request: Request) -> float:
        return self._timeout if request.timeout is None else min(self._timeout, request.timeout)

    def _reply_limit(self, request: Request) -> dict[str, int]:
        """The option that limits the reply: the backend's own, or the request's where that is less."""
        key = "max_completion_tokens" if "max_completion_tokens" in self._options else "max_tokens"
        limits = [limit for limit in (self._options.get(key), request.max_tokens) if limit is not None]
        return {key: min(limits)} if limits else {}

    def _resolve_route(self) -> Route:
        """Where the requests go, found once; raises `ModelError` for an unknown provider or a missing key."""
        if self._cached_route is None:
            litellm = _load_litellm()
            name = "ollama_chat/" + self._name[7:] if self._name.startswith("ollama/") else self._name
            try:
                model, provider, _, _ = litellm.get_llm_provider(
                    name,
                    custom_llm_provider=self._options.get("custom_llm_provider"),
                    api_base=self._options.get("api_base"),
                )
            except Exception as error:
                text = f"{self._name!r} names no provider that litellm knows; {_MODEL_NAMES}"
                raise ModelError(text, kind="not_found") from error
            self._require_key(name)
            self._cached_route = Route(name, provider, model, find_prices(litellm.model_cost, provider, model))
        return self._cached_route

    def _require_key(self, name: str) -> None:
        """Refuse a request that lacks its key before it is sent; credentials other than keys are litellm's concern."""
        litellm = _load_litellm()
        if {"api_key", "api_base", "base_url"} & self._options.keys() or litellm.api_key:
            return
        missing = litellm.validate_environment(name)["missing_keys"]
        if missing and all(variable.endswith("_API_KEY") for variable in missing):
            text = f"{self._name}: no API key: set {' or '.join(missing)}, or pass api_key="
            raise ModelError(text, kind="authentication")

    def _convert_error(
        self, error: Exception, outer: BaseException | None, raw: RawReply, *, begun: bool
    ) -> ModelError:
        return convert_error(error, model=self._name, begun=begun or raw.has_arrived, body=raw.body, outer=outer)
