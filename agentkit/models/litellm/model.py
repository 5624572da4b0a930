"""The models of about a hundred providers through litellm.  It is imported by the first request.

Each call makes exactly one request: litellm's retries and fallbacks are off, it prints nothing and fetches nothing.
The policies decide whether to repeat a request, and therefore need to see each failure.  The route to a model is its
provider, the address and the key of its server, and whether that renders a chat template.
"""

import asyncio
import math
import os
import re
import sys
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from functools import partial
from typing import Any, get_args
from urllib.parse import urlsplit

from ...core.errors import DefinitionError, ModelError, suggest
from ...core.masking import MaskedDict, mask
from ...core.messages import text_of
from ...core.parts import parts_of
from ...engine.history.size import TokenBounds
from ...engine.model import Delta, Reply, Request, split_deltas
from .calls import Calls, PlannedCall, has_observers
from .errors import convert_error, find_refused_parts
from .importing import is_loaded, load_litellm, own_call
from .limits import MAX_REPLY_BYTES, PieceTimer, ReplyGuard, Signal, alimit_time, limit_time, total_seconds
from .parameters import (
    ACCOUNT_OPTION,
    NO_TOOL_CALLING,
    RESPONSES_PREFIX,
    PreparedTools,
    adapt_arguments,
    adjust_thinking,
    check_body,
    is_bridged,
    spread_body,
)
from .prices import PRICE_OPTIONS, Prices, find_prices
from .provider_tools import render_provider_tools
from .replies import PartRules, Route, find_flags, find_query, read_reply
from .requests import (
    REFUSED_INSTRUCTION,
    REFUSED_PARALLEL_CALLS,
    REFUSED_REASONING,
    MessageForm,
    PromptCache,
    SentConversation,
    SentConversations,
    build_headers,
    caches_by_marks,
)
from .streams import NO_STREAM_OPTIONS, ChunkSource, StreamAssembler, TimedClient, aread_to_end, read_to_end

_MODEL_NAMES = (
    'a model is named "provider/name", for example "openai/gpt-4o-mini", "groq/llama-3.1-8b-instant", '
    '"ollama_chat/phi4", or "offline" for the embedded one'
)
_PROVIDER_TERMS = {
    **dict.fromkeys(("google", "google-gla", "google_ai_studio"), "Did you mean 'gemini'?"),
    **dict.fromkeys(("google-vertex", "vertex", "vertexai"), "Did you mean 'vertex_ai'?"),
    **dict.fromkeys(("llamacpp", "llama_cpp", "llama.cpp"), "Did you mean 'openai', with api_base=...?"),
    "claude": "Did you mean 'anthropic'?",
    "grok": "Did you mean 'xai'?",
}
"""Names of providers that litellm has other ones for."""
_MIN_PROVIDER_LIKENESS = 0.75
_MAX_NAMES_SHOWN = 3
"""Names of a model with its provider that the error for a name without one shows."""
_TEMPLATE_PROVIDERS = {"openai", "hosted_vllm", "vllm", "lm_studio", "llamafile", "openai_like", "custom_openai"}
"""Routes to servers in OpenAI's form, which may render a model's chat template."""
_CACHING_PROVIDERS = {"openai", "azure", "deepseek", "gemini", "xai"}
"""Providers whose models cache prompts by themselves, where litellm's table says that they do."""
_CHAT_ROUTES = {"ollama": "ollama_chat", "ai21": "ai21_chat"}
"""The routes of chats, in place of those of completions: Ollama's has no tools, and that of AI21 asks OpenAI."""
_UNREADABLE_STREAMS = {"cohere", "cohere_chat"}
"""Providers whose streams litellm cannot read: its reader fails at the first line.  Their replies come whole."""
_OWN_SERVERS = {
    "custom_openai": "OPENAI_API_BASE",
    "hosted_vllm": "HOSTED_VLLM_API_BASE",
    "litellm_proxy": "LITELLM_PROXY_API_BASE",
    "lm_studio": "LM_STUDIO_API_BASE",
}
"""Routes to a server of the user's own, and the variables of their addresses: without one litellm asks OpenAI."""
_OPENAI_ADDRESSES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
"""Variables whose address litellm uses for these routes too, but for that of vLLM."""
_ELSEWHERE = frozenset({"client", "litellm_credential_name"})
"""Options that hold an address."""
_SCHEMES = ("http", "https")
_OWN_HOSTS = ("openai.com", "azure.com")
"""Hosts of OpenAI's API itself, which has no such template."""


def find_route(litellm: Any, name: str, options: Mapping[str, Any], *, is_cached_long: bool = False) -> Route:
    """Return the route; raise `ModelError` for an unknown provider, a missing key or an address without a scheme."""
    prefix, _, rest = name.partition("/")
    full = f"{_CHAT_ROUTES[prefix]}/{rest}" if rest and prefix in _CHAT_ROUTES else name
    try:
        model, provider, _, address = litellm.get_llm_provider(
            full, custom_llm_provider=options.get("custom_llm_provider"), api_base=options.get("api_base")
        )
    except Exception as error:
        raise _explain_name(litellm, name, error) from error
    _check_key(litellm, full, options)
    _check_address(litellm, name, provider, options, address)
    is_own = renders_template(litellm, provider, options)
    known = model.removeprefix(RESPONSES_PREFIX)
    prices = find_prices(litellm, provider, known, options, is_own=is_own, is_cached_long=is_cached_long)
    flags = find_flags(litellm.model_cost, provider, known, options.get("model_info"))
    return Route(full, provider, model, prices, flags)


def _explain_name(litellm: Any, name: str, error: Exception) -> ModelError:
    """Return the error for a name that litellm cannot resolve, with the provider that may be meant."""
    prefix = re.split("[/:]", name, maxsplit=1)[0]
    meant = prefix.strip().lower()
    providers = [str(getattr(provider, "value", provider)) for provider in litellm.provider_list]
    if prefix in providers and name.startswith(f"{prefix}/"):  # its login failed, or its models have another form
        return convert_error(error, model=name)
    known = providers if prefix != name else ["offline"]
    named = [] if "/" in name else [repr(key) for key in litellm.model_cost if key.partition("/")[2] == name]
    hint = f"Did you mean {' or '.join(named[:_MAX_NAMES_SHOWN])}?" if named else ""
    hint = hint or suggest(meant, known, _PROVIDER_TERMS, likeness=_MIN_PROVIDER_LIKENESS)
    text = f"{name!r} names no provider that litellm knows; {_MODEL_NAMES}"
    return ModelError(f"{text}. {hint}" if hint else text, kind="not_found")


def renders_template(litellm: Any, provider: str, options: Mapping[str, Any]) -> bool:
    """Return whether the server may render a chat template: one in OpenAI's form that is not OpenAI's."""
    if provider not in _TEMPLATE_PROVIDERS:
        return False
    if provider != "openai":
        return True
    base = next(_list_addresses(litellm, provider, options), "")
    host = base.partition("://")[2].partition("/")[0].partition(":")[0]
    return bool(host) and not host.endswith(_OWN_HOSTS)


def _check_address(litellm: Any, name: str, provider: str, options: Mapping[str, Any], found: str | None) -> None:
    """Raise `ModelError` for an address that no retry can reach, or for a server of the user's own without one.

    `found` is the address that litellm found.
    """
    base = next(_list_addresses(litellm, provider, options), "")
    given = base or found or not _ELSEWHERE.isdisjoint(options)
    if provider != "hosted_vllm":
        given = given or any(map(os.environ.get, _OPENAI_ADDRESSES))
    if provider in _OWN_SERVERS and not given:
        text = f"{name}: no address of the server: pass api_base='http://host:port/v1', or set {_OWN_SERVERS[provider]}"
        raise ModelError(text, kind="bad_request")
    if not base or _is_url(base):
        return
    if "://" in base or not base[0].isalnum():
        text = f"the address {base!r} is not one. Write it as 'http://host:port/path' (or https), without spaces."
    else:
        text = f"the address {base!r} has no scheme. Write api_base='http://{base}' (or https)."
    raise ModelError(f"{name}: {mask(text)}", kind="bad_request")


def _is_url(base: str) -> bool:
    """Return whether an address has a scheme of HTTP, a host and, if any, a number as its port, and no spaces."""
    try:
        parts = urlsplit(base)
        has_host = bool(parts.hostname) and parts.hostname not in _SCHEMES and (parts.port or 1) > 0
    except ValueError:  # the port is no number, or too large
        return False
    return parts.scheme in _SCHEMES and has_host and not re.search(r"[\s\x00-\x1f]", base)


def _check_key(litellm: Any, name: str, options: Mapping[str, Any]) -> None:
    """Raise `ModelError` for a missing API key before a request is sent; litellm checks other credentials."""
    if {"api_key", "api_base", "base_url"} & options.keys() or litellm.api_key:
        return
    missing = litellm.validate_environment(name)["missing_keys"]
    if missing and all(variable.endswith("_API_KEY") for variable in missing):
        provider = name.partition("/")[0]
        own = any(_list_addresses(litellm, provider, options))
        hint = '; a server of your own that needs no key takes any: api_key="none"' if own else ""
        text = f"{name}: no API key: set {' or '.join(missing)}, or in Python pass api_key={hint}"
        raise ModelError(text, kind="authentication")


def _list_addresses(litellm: Any, provider: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the configured addresses, the decisive one first."""
    for given in (options.get("api_base"), options.get("base_url"), getattr(litellm, "api_base", None)):
        if isinstance(given, str) and given:
            yield given
    prefix = provider.removesuffix("_chat").upper()
    for variable in (f"{prefix}_API_BASE", f"{prefix}_BASE_URL"):
        if found := os.environ.get(variable):
            yield found


_REST = r"\b[^.!?\n]*[.!]?$"
_ANNOUNCEMENTS = {
    "English": (
        r"(?:(?:ok|okay|now|next|then|first|so),?\s)?"
        r"(?:let me|let[’']s|i[’']ll|i will|i(?:[’']m| am) going to)\s(?:(?:now|also|then|first|next|quickly)\s)?"
        r"(?:add|calculate|call|check|compute|fetch|find|get|look|query|read|retrieve|run|search|try|use|verify)"
        + _REST
    ),
    "German": (
        r"(?:(?:ok|okay|gut|gerne?)[,.]\s)?(?:"
        r"(?:(?:ich werde|lassen? sie mich|lass mich)|(?:jetzt|nun|dann|zuerst|zunächst|als nächstes) werde ich)\b"
        r"[^.!?\n]*(?:abfragen|abrufen|addieren|aufrufen|ausführen|berechnen|ausrechnen|ermitteln|finden|holen|laden|"
        r"lesen|nachlesen|nachschauen|nachschlagen|nachsehen|nutzen|prüfen|suchen|verwenden|versuchen)[.!]?$|"
        r"(?:ich (?:berechne|ermittle|frage|führe|hole|lese|prüfe|rufe|schaue|schlage|sehe|suche|überprüfe|verwende)|"
        r"lass(?:en sie)? uns)\b[^.!?\n]*\b(?:jetzt|nun|zuerst|zunächst|kurz|als nächstes)" + _REST + ")"
    ),
    "French": (
        r"(?:(?:d[’']accord|bien|maintenant|ensuite|d[’']abord),?\s)?"
        r"(?:je vais|nous allons|laisse[zs]?-moi|permettez-moi de)\s(?:(?:maintenant|d[’']abord|ensuite|donc)\s)?"
        r"(?:(?:le|la|les|y)\s|l[’'])?(?:ajouter|appeler|calculer|chercher|consulter|essayer|exécuter|interroger|lire|"
        r"obtenir|rechercher|récupérer|regarder|trouver|utiliser|vérifier)" + _REST
    ),
    "Spanish": (
        r"(?:(?:de acuerdo|bien|vale|ahora|primero|luego),?\s)?"
        r"(?:voy a|vamos a|d[ée]j[ae]me|perm[íi]t[ae]me)\s(?:(?:ahora|primero|también)\s)?"
        r"(?:añadir|buscar|calcular|comprobar|consultar|ejecutar|encontrar|intentar|leer|llamar|mirar|obtener|revisar|"
        r"sumar|usar|utilizar|verificar)(?:l[oae]s?)?" + _REST
    ),
    "Italian": (
        r"(?:(?:ok|bene|ora|adesso|prima|poi),?\s)?(?:"
        r"(?:vado a|sto per|fammi|lasciami|mi lasci|permettimi di|mi permetta di)\s"
        r"(?:aggiungere|calcolare|cercare|chiamare|consultare|controllare|eseguire|leggere|ottenere|provare|recuperare|"
        r"sommare|trovare|usare|utilizzare|verificare|controllarl[oae]|cercarl[oae]|verificarl[oae])|"
        r"(?:lo |la )?(?:calcolerò|cercherò|consulterò|controllerò|eseguirò|leggerò|recupererò|userò|utilizzerò|"
        r"verificherò))" + _REST
    ),
    "Portuguese": (
        r"(?:(?:ok|certo|bem|agora|primeiro|depois),?\s)?"
        r"(?:vou|vamos|deix[ae]-me|deixa eu|permita-me)\s(?:(?:agora|primeiro|também)\s)?"
        r"(?:adicionar|buscar|calcular|chamar|checar|conferir|consultar|encontrar|executar|ler|obter|olhar|pesquisar|"
        r"procurar|somar|tentar|usar|utilizar|verificar)(?:-l?[oa]s?)?" + _REST
    ),
    "Chinese": (
        r"(?:好的?|现在|現在|接下来|接下來|首先|那么|那麼)?[，,、]?\s*(?:现在|現在|首先)?"
        r"(?:让我们?|讓我們?|我来|我來|我将|我將|我会|我會|我先|我现在|我現在|我这就|我這就)[^。！？，\n]{0,8}?"
        r"(?:查|搜|检索|檢索|检查|檢查|计算|計算|获取|獲取|调用|調用|读取|讀取|使用|看看|看一下|运行|執行|执行|确认|確認)"
        r"[^。！？\n]*[。！]?$"
    ),
    "Japanese": (
        r"(?:(?:それでは|では|今から|これから|まずは?|次に|最初に|続いて)[^。！？\n]*"
        r"(?:確認|検索|計算|取得|調査|実行|参照|使用|調べ)(?:して|て)?(?:み|いき|し)?(?:ます|ましょう)ね?[。！]?$|"
        r"[^。！？\n]*(?:調べ|見|探し|確認し|検索し|計算し|取得し)て(?:み|き|いき)ま(?:す|しょう)ね?[。！]?$)"
    ),
}
"""How the last sentence of a text announces a further step, by language."""
_ANNOUNCING = re.compile(
    rf"(?:[:：…]|\.\.\.)$|(?:^|[.!?。！？\n])[^\S\n]*+(?:{'|'.join(_ANNOUNCEMENTS.values())})", re.IGNORECASE
)
_MAX_ANNOUNCING_CHARS = 400
"""The characters at the end of a text that are read for it."""


def _announces_more(text: str) -> bool:
    """Return whether the end of a text announces a further step of the work: "Let me check the price of milk."."""
    return _ANNOUNCING.search(text.rstrip()[-_MAX_ANNOUNCING_CHARS:]) is not None


_TIMEOUT_GRACE_SECONDS = 1.0


class LiteLLMModel:
    """A model under litellm's name: `LiteLLMModel("groq/llama-3.1-8b-instant", temperature=0)`.

    Args:
        name: "provider/model".
        timeout: Seconds for the whole reply, or for each piece of a streamed one; keep-alive chunks do not count. None
            for no limit.
        strict: Use OpenAI's strict mode, which makes the model obey the tools' schemas.
        cache: Prompt caching of Claude, which caches only what is marked: "auto" marks the instruction and the ends of
            this and earlier requests for five minutes, "1h" for an hour at a higher price, "off" marks nothing. Other
            models cache by themselves. `usage.cached_tokens` counts the tokens read from a cache. A dict goes to
            litellm's own cache.
        max_reply_bytes: Bytes of one reply on the wire; a larger one is cancelled.
        options: Passed to `litellm.completion` unchanged: `api_key`, `api_base`, `temperature`, `max_tokens`,
            `reasoning_effort`, ... Options that the provider does not support are dropped. Without `api_key` the key
            is read from the provider's environment variable.
    """

    keeps_time = True
    takes_provider_tools = True

    def __init__(
        self,
        name: str,
        /,
        *,
        timeout: float | None = 120.0,
        strict: bool = False,
        cache: PromptCache | Mapping[str, Any] = "auto",
        max_reply_bytes: int = MAX_REPLY_BYTES,
        **options: Any,
    ) -> None:
        if not isinstance(cache, str):
            options = {**options, "cache": cache}
            cache = "auto"
        if cache not in get_args(PromptCache):
            raise DefinitionError(f'cache must be "auto", "off" or "1h", got {cache!r}')
        check_body(options)
        self.name = name
        self._cache: PromptCache = cache
        self._timeout = math.inf if timeout is None else timeout
        self._max_reply_bytes = max_reply_bytes
        self._tools = PreparedTools(strict=strict)
        self.options = MaskedDict(options)
        self._cached_route: Route | None = None
        self._one_call = False
        self._instruction_in_query = False
        self._calls_tools = False
        self._keeps_reasoning = True
        self._refused_parts: set[str] = set()
        self._token_bounds = TokenBounds()
        self._calls = Calls()
        self._conversations = SentConversations()

    @property
    def tool_calling(self) -> str:
        """Return "none" for a provider without tool calling, "unknown" on an address of the user, else "native"."""
        prefix, slash, _ = self.name.partition("/")
        provider = str(self.options.get("custom_llm_provider") or (prefix if slash else "openai"))
        if provider in NO_TOOL_CALLING:
            return "none"
        is_own = provider.startswith("ollama") or renders_template(sys.modules.get("litellm"), provider, self.options)
        return "unknown" if is_own else "native"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"  # without the options: one of them may be the key

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Yield the deltas of a stream, if requested, then the `Reply`; block, and raise `ModelError` on failure.

        Closing the generator closes the connection.
        """
        load_litellm()
        timer = PieceTimer(self._timeout, total_seconds(request))
        while True:
            guard = ReplyGuard(self._max_reply_bytes)
            try:
                yield from limit_time(self._iter_pieces(request, guard), timer, guard.abandoned)
            except TimeoutError as error:
                raise self._timeout_error(request, timer) from error
            except ModelError as error:
                if not self._can_adapt(error, request):
                    raise
            else:
                return

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield what `ask` yields, on the running event loop."""
        if not is_loaded():
            await asyncio.to_thread(load_litellm)  # takes seconds that would block the event loop
        timer = PieceTimer(self._timeout, total_seconds(request))
        while True:
            guard = ReplyGuard(self._max_reply_bytes)
            try:
                async with aclosing(alimit_time(self._aiter_pieces(request, guard), timer)) as pieces:
                    async for piece in pieces:
                        yield piece
            except TimeoutError as error:
                raise self._timeout_error(request, timer) from error
            except ModelError as error:
                if not self._can_adapt(error, request):
                    raise
            else:
                return

    def _can_adapt(self, error: ModelError, request: Request) -> bool:
        """Return whether the request can be repeated at once in another form, which later requests have too."""
        if not self._one_call and REFUSED_PARALLEL_CALLS.search(str(error)):
            self._one_call = True
            return True
        if not self._instruction_in_query and REFUSED_INSTRUCTION.search(str(error)):
            self._instruction_in_query = True
            return True
        if self._keeps_reasoning and REFUSED_REASONING.search(str(error)):
            self._keeps_reasoning = False
            return any("reasoning_content" in message or "reasoning_details" in message for message in request.messages)
        sent = {part["type"] for message in request.messages for part in parts_of(message)}
        refused = (find_refused_parts(str(error)) & sent) - self._refused_parts
        self._refused_parts |= refused
        return bool(refused) and refused.isdisjoint(part["type"] for part in parts_of(find_query(request.messages)))

    def _iter_pieces(self, request: Request, guard: ReplyGuard) -> Generator[Delta | Reply | Signal, None, None]:
        """Send the request; yield deltas, signals and the reply."""
        outer = sys.exception()
        answer = None
        litellm = load_litellm()
        try:
            route = self.find_route()
            answer = self._plan(request, is_async=False).complete(guard)
            if not request.stream or route.provider in _UNREADABLE_STREAMS:
                reply = self._mark_end(read_reply(answer, route, guard.body), request)
                yield from split_deltas(reply.message) if request.stream else ()
                yield reply
                return
            source, assembler = self._open_stream(answer, request)
            with closing(source):
                with own_call(litellm, guard, is_async=False):
                    chunks = source.chunks()
                for chunk in read_to_end(chunks, partial(assembler.is_complete, source)):
                    yield from assembler.add(chunk)
                yield self._mark_end(assembler.build_reply(source), request)
        except (ModelError, DefinitionError):
            raise
        except Exception as error:
            raise self._convert(error, guard, answer, outer) from error

    async def _aiter_pieces(self, request: Request, guard: ReplyGuard) -> AsyncGenerator[Delta | Reply | Signal, None]:
        outer = sys.exception()
        answer = None
        litellm = load_litellm()
        try:
            route = self.find_route()
            answer = await self._plan(request, is_async=True).acomplete(guard)
            if not request.stream or route.provider in _UNREADABLE_STREAMS:
                reply = self._mark_end(read_reply(answer, route, guard.body), request)
                for delta in split_deltas(reply.message) if request.stream else ():
                    yield delta
                yield reply
                return
            source, assembler = self._open_stream(answer, request)
            async with aclosing(source):
                with own_call(litellm, guard, is_async=True):
                    chunks = await source.achunks()
                async for chunk in aread_to_end(chunks, partial(assembler.is_complete, source)):
                    for piece in assembler.add(chunk):
                        yield piece
                yield self._mark_end(assembler.build_reply(source), request)
        except (ModelError, DefinitionError):
            raise
        except Exception as error:
            raise self._convert(error, guard, answer, outer) from error

    def _convert(self, error: Exception, guard: ReplyGuard, answer: Any, outer: BaseException | None) -> ModelError:
        begun = bool(guard.responses) or answer is not None
        return convert_error(
            error, model=self.name, begun=begun, body=guard.body, is_accepted=guard.is_accepted, outer=outer
        )

    def _mark_end(self, reply: Reply, request: Request) -> Reply:
        """Mark a text that ends the model's turn as the answer (`ends_turn`), if the model is known to call tools.

        It is if it has made a call before, or if litellm's table says so of a model at its provider's own address.  A
        text that announces more is no end.
        """
        message = reply.message
        if message.get("tool_calls"):
            self._calls_tools = self._calls_tools or bool(request.tools)
        elif request.tools and reply.finish_reason == "stop" and not _announces_more(text_of(message)):
            is_listed = self.find_route().flags.get("supports_function_calling")
            if self._calls_tools or (is_listed and self.tool_calling == "native"):
                message["ends_turn"] = True
        return reply

    @property
    def context_window(self) -> int | None:
        """The tokens of the context window: `num_ctx`, else those that litellm lists; None for an unknown model."""
        if isinstance(given := self.options.get("num_ctx"), int):
            return given
        with suppress(ModelError):  # the request itself raises it
            return self._find_keyless_prices().max_input_tokens
        return None

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of texts, by litellm's tokenizer for the model."""
        litellm = load_litellm()
        return [litellm.token_counter(model=self.name, text=text) for text in texts]

    def _find_keyless_prices(self) -> Prices:
        """Return the prices; without a key, too: a replay needs none, and has the same window."""
        try:
            return self.find_route().prices
        except ModelError:
            return find_route(load_litellm(), self.name, {**self.options, "api_key": "none"}).prices

    @property
    def account(self) -> dict[str, Any]:
        """The options of the provider's account; those that litellm finds in the environment for some servers, too."""
        given = {name: value for name, value in self.options.items() if ACCOUNT_OPTION.fullmatch(name)}
        if "base_url" in given:
            given.setdefault("api_base", given.pop("base_url"))
        route = self.find_route()
        if route.provider in ("hosted_vllm", "litellm_proxy"):  # else litellm's functions of files ask OpenAI
            _, _, key, base = load_litellm().get_llm_provider(
                route.name, api_base=given.get("api_base"), api_key=given.get("api_key")
            )
            given |= {name: value for name, value in {"api_key": key, "api_base": base}.items() if value}
        return given

    def find_route(self) -> Route:
        """Return the route, resolved once; raise `ModelError` for an unknown provider or a missing key."""
        if self._cached_route is None:
            is_cached_long = self._cache == "1h"
            self._cached_route = find_route(load_litellm(), self.name, self.options, is_cached_long=is_cached_long)
        return self._cached_route

    def for_client(self, client: Any, name: str = "") -> "LiteLLMModel":
        """Return the model with an HTTP client of its own, which may take any time.

        With `name` it is another route to the model.
        """
        return LiteLLMModel(
            name or self.name,
            timeout=math.inf,
            strict=self._tools.strict,
            cache=self._cache,
            max_reply_bytes=self._max_reply_bytes,
            **{**self.options, "client": client},
        )

    @property
    def caches_prompts(self) -> bool:
        """Whether the provider reads the begin of a request from a cache, by itself or because it is marked."""
        try:
            route = self.find_route()
        except ModelError:  # the request itself raises it
            return False
        if self.tool_calling != "native" or not route.flags.get("supports_prompt_caching"):
            return False
        if caches_by_marks(route.provider, route.model, route.flags):
            return self._cache != "off"
        return route.provider in _CACHING_PROVIDERS

    def worst_case(self, request: Request) -> float | None:
        """Return an upper bound of the request's cost in dollars; None if a price or the reply's limit is unknown.

        Each token stands for at least one byte of text, so the number of bytes of messages and tools bounds the input
        tokens. The bound is about four times too high for English text, less for code and other scripts. The reply
        is counted with its maximum length; pass `max_tokens` to lower it. Each token has the highest price that can
        apply to it: of a long prompt, of writing a cache, of the service tier. OpenAI's projects may have the tier
        "priority" by default; pass `service_tier="default"` to exclude it.
        """
        if request.tools.provider_tools:  # what they read is not in the request
            return None
        try:
            prices = self.find_route().prices
        except ModelError:  # the request itself raises it
            return None
        longest = next(iter(self._reply_limit(request).values()), prices.max_output_tokens)
        if longest is None:
            return None
        has_audio = any(part["type"] == "input_audio" for message in request.messages for part in parts_of(message))
        return prices.max_cost(self._token_bounds.tokens(request), longest, has_audio=has_audio)

    def _timeout_error(self, request: Request, timer: PieceTimer) -> ModelError:
        late = f"no complete answer within {total_seconds(request):g} s"
        text = f"{self.name}: {late if timer.is_over else f'no data for {self._timeout:g} s'}"
        return ModelError(text, kind="timeout", transient=True)

    def _open_stream(self, stream: Any, request: Request) -> tuple[ChunkSource, StreamAssembler]:
        litellm = load_litellm()
        route = self.find_route()
        client = TimedClient(litellm, self._timeout_for(request))
        source = ChunkSource(stream, route.provider, timed_client=client, has_observers=has_observers(litellm))
        return source, StreamAssembler(route)

    def _arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments of litellm's call; raise `ModelError` for a request that cannot succeed."""
        route = self.find_route()
        usage = {} if route.provider in NO_STREAM_OPTIONS else {"stream_options": {"include_usage": True}}
        streaming = {"stream": True, **usage} if request.stream and route.provider not in _UNREADABLE_STREAMS else {}
        length = self._reply_limit(request)
        given = spread_body(self.options, route.provider)
        request, options = adjust_thinking(request, dict(given), route.provider, route.model, *length.values())
        return {
            **{key: value for key, value in options.items() if key not in PRICE_OPTIONS},  # it keeps them for all calls
            **build_headers(self.options, request.headers, route.provider),
            **self._tools.parameters(request, route.provider, route.model),
            **self._tools.reply_format(request, route.provider, is_own=self.tool_calling == "unknown"),
            **streaming,
            **length,
            "model": route.name,
            "timeout": self._timeout_for(request),
            "drop_params": True,
            "max_retries": 0,
            "_skip_mcp_handler": True,  # else tools import litellm's MCP gateway, which fails in some versions
        }

    def _plan(self, request: Request, *, is_async: bool) -> PlannedCall:
        """Return the call of litellm for a request; raise `ModelError` for a request that cannot succeed."""
        litellm = load_litellm()
        route = self.find_route()
        arguments = self._arguments(request)
        call = self._calls.plan(litellm, arguments, route.provider, is_async=is_async)
        for_responses = call.prepared is None and is_bridged(litellm, route.provider, route.model, arguments)
        wire = "responses" if for_responses else route.provider
        if for_responses:
            arguments = adapt_arguments(litellm, route.provider, route.model, arguments)
        if hosted := request.tools.provider_tools:
            added = render_provider_tools(hosted, wire, route.model, self.name)
            arguments = {**arguments, **added, "tools": [*arguments.get("tools", ()), *added["tools"]]}
        if for_responses or hosted:
            call = call.adapt(arguments)
        form = MessageForm(
            route.provider,
            self._cache,
            route.model,
            has_template=not for_responses and renders_template(litellm, route.provider, self.options),
            one_call=self._one_call,
            instruction_in_query=self._instruction_in_query,
            for_responses=for_responses,
            keeps_reasoning=self._keeps_reasoning,
            flags=route.flags,
        )
        messages = self._conversations.prepare_texts(request.messages, form)
        if messages is not None:
            return call.send(messages)
        rules = PartRules(self.name, wire, route.flags, self._refused_parts)
        messages = SentConversation(form).prepare(rules.apply(request.messages))
        return call.adapt({**call.arguments, "messages": messages})  # one may link to an image, which litellm fetches

    def _timeout_for(self, request: Request) -> float:
        """Return litellm's timeout, which is later than the own one: that one's error names the limit."""
        return min(self._timeout, total_seconds(request)) + _TIMEOUT_GRACE_SECONDS

    def _reply_limit(self, request: Request) -> dict[str, int]:
        """Return the option that limits the reply: the lesser of the backend's and the request's limit."""
        key = "max_completion_tokens" if "max_completion_tokens" in self.options else "max_tokens"
        return {key: min(limits)} if (limits := [*filter(None, (self.options.get(key), request.max_tokens))]) else {}
