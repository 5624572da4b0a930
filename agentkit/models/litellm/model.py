"""The models of some hundred providers through litellm; the one file that imports it, inside the first request.

litellm is asked for exactly one request at a time: no retries, no fallbacks, nothing printed, nothing fetched.  Whether
and when to ask again is for the policies, who need to know each failure.
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
from .errors import model_error
from .fast_path import acompletion, completion, is_observed, unlogged
from .importing import uncollected
from .prices import prices_of
from .raw_reply import Overheard
from .replies import Route, whole_reply
from .requests import account_headers, conversation
from .stream_assembler import Assembler
from .streams import Source, TimedClient
from .thinking import compatible
from .timeouts import Clock, Sign, awithin, within
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
def _litellm() -> Any:
    """The litellm module, imported without a word and without a request; what the user set stays as it is."""
    with _importing:
        for name, value in _QUIET_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with uncollected():
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
            _litellm()

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
        self._known_route: Route | None = None
        self._bounds = TokenBounds()

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
        _litellm()
        clock = Clock(self._timeout, request.timeout)
        try:
            yield from within(self._pieces(request), clock)
        except TimeoutError as error:
            raise self._late(request, clock) from error

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request` on the running event loop, as `ask` does."""
        if "litellm" not in sys.modules:
            await asyncio.to_thread(_litellm)  # some seconds that would stop everything else on this event loop
        clock = Clock(self._timeout, request.timeout)
        try:
            async with aclosing(awithin(self._apieces(request), clock)) as pieces:
                async for piece in pieces:
                    yield piece
        except TimeoutError as error:
            raise self._late(request, clock) from error

    def _pieces(self, request: Request) -> Generator[Delta | Reply | Sign, None, None]:
        """What comes in answer to `request`."""
        outer, answer, heard = sys.exception(), None, Overheard()
        try:
            provider = self._route().provider
            answer = completion(_litellm(), self._arguments(request, heard, awaited=False), provider)
            if not request.stream:
                yield whole_reply(answer, self._route(), heard.body)
                return
            source, assembler = self._opened(answer, request)
            with closing(source):
                for chunk in source.chunks():
                    yield from assembler.take(chunk)
                yield assembler.reply(source)
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error, outer, heard, begun=answer is not None) from error

    async def _apieces(self, request: Request) -> AsyncGenerator[Delta | Reply | Sign, None]:
        outer, answer, heard = sys.exception(), None, Overheard()
        try:
            provider = self._route().provider
            answer = await acompletion(_litellm(), self._arguments(request, heard, awaited=True), provider)
            if not request.stream:
                yield whole_reply(answer, self._route(), heard.body)
                return
            source, assembler = self._opened(answer, request)
            async with aclosing(source):
                async for chunk in await source.achunks():
                    for piece in assembler.take(chunk):
                        yield piece
                yield assembler.reply(source)
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error, outer, heard, begun=answer is not None) from error

    def worst_case(self, request: Request) -> float | None:
        """The dollars that `request` can cost at most; None where a price, or the longest reply, is not known.

        Nobody counts tokens as the provider does.  But no token stands for less than a byte of the text, so the bytes
        of messages and tools are a bound; it lies some four times too high for English, less for code and other
        scripts.  The reply is taken to be as long as it may be: say `max_tokens` to make that less.
        """
        try:
            prices = self._route().prices
        except ModelError:  # the request itself will tell why
            return None
        if prices is None:
            return None
        longest = next(iter(self._length(request).values()), prices.max_output_tokens)
        return None if longest is None else prices.most(self._bounds.tokens(request), longest)

    def _late(self, request: Request, clock: Clock) -> ModelError:
        text = f"nothing came for {self._timeout:g} s"
        if clock.is_over:
            text = f"no complete answer within {request.timeout:g} s"
        return ModelError(f"{self._name}: {text}", kind="timeout", transient=True)

    def _opened(self, stream: Any, request: Request) -> tuple[Source, Assembler]:
        litellm, route = _litellm(), self._route()
        timed = TimedClient(litellm.module_level_client, self._seconds(request))
        return Source(stream, route.provider, timed=timed, observed=is_observed(litellm)), Assembler(route)

    def _arguments(self, request: Request, heard: Overheard, *, awaited: bool) -> dict[str, Any]:
        """What litellm is asked; raises `ModelError` where it is certain that no provider can answer that."""
        route = self._route()
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if request.stream else {}
        length = self._length(request)
        request, options = compatible(request, self._options, route.provider, route.model, *length.values())
        asked = {
            **options,
            **(account_headers(self._options) if route.provider == "openai" else {}),
            **self._tools.parameters(request, route.provider, route.model),
            **streaming,
            **length,
            "model": route.shown,
            "messages": conversation(request.messages, route.provider),
            "timeout": self._seconds(request),
            "drop_params": True,
            "max_retries": 0,
            "logger_fn": heard.listener(self._options.get("logger_fn")),
            "_skip_mcp_handler": True,  # else tools drag litellm's MCP gateway in, which some versions cannot import
        }
        return {**asked, **unlogged(_litellm(), asked, awaited=awaited)}

    def _seconds(self, request: Request) -> float:
        return self._timeout if request.timeout is None else min(self._timeout, request.timeout)

    def _length(self, request: Request) -> dict[str, int]:
        """The option that limits the reply: the backend's own, or the request's where that is less."""
        key = "max_completion_tokens" if "max_completion_tokens" in self._options else "max_tokens"
        limits = [limit for limit in (self._options.get(key), request.max_tokens) if limit is not None]
        return {key: min(limits)} if limits else {}

    def _route(self) -> Route:
        """Where the requests go, found once; raises `ModelError` for an unknown provider or a missing key."""
        if self._known_route is None:
            litellm = _litellm()
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
            self._known_route = Route(name, provider, model, prices_of(litellm.model_cost, provider, model))
        return self._known_route

    def _require_key(self, name: str) -> None:
        """Refuse a request that lacks its key before it is sent; credentials other than keys are litellm's concern."""
        litellm = _litellm()
        if {"api_key", "api_base", "base_url"} & self._options.keys() or litellm.api_key:
            return
        missing = litellm.validate_environment(name)["missing_keys"]
        if missing and all(variable.endswith("_API_KEY") for variable in missing):
            text = f"{self._name}: no API key: set {' or '.join(missing)}, or pass api_key="
            raise ModelError(text, kind="authentication")

    def _failure(self, error: Exception, outer: BaseException | None, heard: Overheard, *, begun: bool) -> ModelError:
        return model_error(error, model=self._name, begun=begun or heard.anything, body=heard.body, outer=outer)
