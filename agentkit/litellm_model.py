"""The models of some hundred providers through litellm; the one file that imports it, inside the first request.

litellm is asked for exactly one request at a time: no retries, no fallbacks, nothing printed, nothing fetched.  Whether
and when to ask again is for the policies, who need to know each failure.
"""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, closing
from functools import cache
from threading import Lock
from typing import Any

from .errors import ModelError
from .model import Delta, Reply, Request
from .wire.errors import model_error
from .wire.replies import Route, whole_reply
from .wire.requests import conversation, tool_parameters
from .wire.streams import Assembler, Source, TimedClient

_QUIET_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the price table is fetched from GitHub at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # and a list of headers at the first request to Anthropic
    "LITELLM_MODE": "PRODUCTION",  # else whatever .env lies near litellm's files is loaded
    # OpenAI over litellm's own HTTP client: 0.4 of the time, and less and less of it as the history grows, which the
    # OpenAI SDK walks with type look-ups at each request.
    "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER": "True",
}
_ACCOUNT_HEADERS = {
    "OpenAI-Organization": ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID"),
    "OpenAI-Project": ("OPENAI_PROJECT_ID",),
}
"""What the SDK would send for these environment variables (OpenAI API reference, "Authentication")."""
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
        collecting = gc.isenabled()
        gc.disable()  # 2,600 modules: without collections in between a third faster
        try:
            import litellm
        finally:
            if collecting:
                gc.enable()
        litellm.suppress_debug_info = True  # advertisements on stdout
        litellm.disable_hf_tokenizer_download = True  # else streams of Llama models wait for Hugging Face
        if "LITELLM_LOG" not in os.environ:
            for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        return litellm


class LiteLLMModel:
    """A model by litellm's name for it: `LiteLLMModel("groq/llama-3.1-8b-instant", temperature=0)`.

    `timeout` is in seconds: for the whole reply, or for each piece of a streamed one.  `strict` asks OpenAI to hold the
    model to the tools' schemas.  `options` go to
    `litellm.completion` as they are: `api_key`, `api_base`, `temperature`, `max_tokens`, `reasoning_effort`, ...; what
    a provider does not take is dropped.  Without `api_key` the key is read from the provider's environment variable.
    """

    def __init__(self, name: str, /, *, timeout: float = 120.0, strict: bool = False, **options: Any) -> None:
        self._name = name
        self._timeout = timeout
        self._strict = strict
        self._options = options
        self._known_route: Route | None = None

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"  # without the options: one of them may be the key

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Answer `request`, blocking: deltas if it asks for a stream, then the `Reply`; raises `ModelError`.

        The connection is closed as soon as this generator is, also when nobody reads on.
        """
        outer, answer = sys.exception(), None
        try:
            answer = _litellm().completion(**self._arguments(request))
            if not request.stream:
                yield whole_reply(answer, self._route())
                return
            source, assembler = self._opened(answer)
            with closing(source):
                for chunk in source.chunks():
                    yield from assembler.take(chunk)
                yield assembler.reply(source)
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error, outer, streaming=answer is not None) from error

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Answer `request` on the running event loop, as `ask` does."""
        outer, answer = sys.exception(), None
        try:
            if "litellm" not in sys.modules:
                await asyncio.to_thread(_litellm)  # some seconds that would stop everything else on this event loop
            async with asyncio.timeout(self._timeout):
                answer = await _litellm().acompletion(**self._arguments(request))
            if not request.stream:
                yield whole_reply(answer, self._route())
                return
            source, assembler = self._opened(answer)
            async with aclosing(source):
                async with asyncio.timeout(self._timeout):
                    chunks = await source.achunks()
                while (chunk := await self._next(chunks)) is not _END:
                    for delta in assembler.take(chunk):
                        yield delta
                yield assembler.reply(source)
        except ModelError:
            raise
        except Exception as error:
            raise self._failure(error, outer, streaming=answer is not None) from error

    async def _next(self, chunks: AsyncIterator[Any]) -> Any:
        async with asyncio.timeout(self._timeout):
            return await anext(chunks, _END)

    def _opened(self, stream: Any) -> tuple[Source, Assembler]:
        litellm, route = _litellm(), self._route()
        callbacks = [*litellm.callbacks, *litellm.success_callback, *litellm.failure_callback]
        observed = any(callback != "cache" for callback in callbacks)  # litellm adds this one by itself
        timed = TimedClient(litellm.module_level_client, self._timeout)
        return Source(stream, route.provider, timed=timed, observed=observed), Assembler(route)

    def _arguments(self, request: Request) -> dict[str, Any]:
        """What litellm is asked; raises `ModelError` where it is certain that no provider can answer that."""
        route = self._route()
        account = _account_headers(self._options) if route.provider == "openai" else {}
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if request.stream else {}
        return {
            **self._options,
            **account,
            **tool_parameters(request, route.provider, route.model, strict=self._strict),
            **streaming,
            "model": route.shown,
            "messages": conversation(request.messages, route.provider),
            "timeout": self._timeout,
            "drop_params": True,
            "max_retries": 0,
            "_skip_mcp_handler": True,  # else tools drag litellm's MCP gateway in, which some versions cannot import
        }

    def _route(self) -> Route:
        """Where the requests go, found once; raises `ModelError` for an unknown provider or a missing key."""
        if self._known_route is None:
            name = "ollama_chat/" + self._name[7:] if self._name.startswith("ollama/") else self._name
            try:
                model, provider, _, _ = _litellm().get_llm_provider(
                    name,
                    custom_llm_provider=self._options.get("custom_llm_provider"),
                    api_base=self._options.get("api_base"),
                )
            except Exception as error:
                text = f"{self._name!r} names no provider that litellm knows; {_MODEL_NAMES}"
                raise ModelError(text, kind="not_found") from error
            self._require_key(name)
            self._known_route = Route(name, provider, model, self._prices(provider, model))
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

    @staticmethod
    def _prices(provider: str, model: str) -> dict[str, Any] | None:
        """The row of litellm's bundled price table (dollars per token), which is kept by either name."""
        table = _litellm().model_cost
        for key in (f"{provider}/{model}", model):
            row: dict[str, Any] = table.get(key, {})
            if "input_cost_per_token" in row and str(row.get("litellm_provider", "")).startswith(provider):
                return row
        return None

    def _failure(self, error: Exception, outer: BaseException | None, *, streaming: bool) -> ModelError:
        secrets = {str(self._options[key]) for key in self._options if key.endswith(("_key", "_token", "secret"))}
        secrets |= {value for name, value in os.environ.items() if name.endswith("_API_KEY")}
        secrets = {text for text in secrets if len(text) > 5}
        return model_error(error, model=self._name, streaming=streaming, secrets=secrets, outer=outer)


def _account_headers(options: dict[str, Any]) -> dict[str, Any]:
    """The option `extra_headers` with the account's organization and project, which litellm's own client leaves out."""
    found = {
        header: next(filter(None, map(os.environ.get, variables)), None)
        for header, variables in _ACCOUNT_HEADERS.items()
    }
    found["OpenAI-Organization"] = options.get("organization") or found["OpenAI-Organization"]
    headers = {header: value for header, value in found.items() if value} | (options.get("extra_headers") or {})
    return {"extra_headers": headers} if headers else {}


_END = object()
