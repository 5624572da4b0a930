"""Import litellm: lazily, without output, and without network requests.  Only this file imports it.

A host that imported litellm before agentkit keeps its settings: agentkit changes no log level and does not freeze the
garbage collector's objects then, unless the host calls `tune()`.
"""

import ast
import gc
import inspect
import logging
import math
import os
import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache, partial, wraps
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from operator import attrgetter
from threading import Lock, get_ident
from types import MethodType, ModuleType
from typing import Any, cast

from pydantic import VERSION

from ...core.errors import DefinitionError
from ...core.lazy_names import paused_gc
from ...core.threads import Work, capture, parse_python, take
from .limits import ReplyGuard, watch_response

_QUIET_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the price table is fetched from GitHub at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # and a list of headers at the first request to Anthropic
    "LITELLM_MODE": "PRODUCTION",  # else a .env file near litellm's files is loaded
}
HANDLER_FLAG = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"
"""OpenAI through litellm's own HTTP client: 0.4 of the CPU, and less as the history grows.

The OpenAI SDK walks all messages with type look-ups at each request. litellm reads the flag in each call.
"""
_FASTAPI_ERRORS = "fastapi.exceptions"
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_log = logging.getLogger("agentkit")


HANDLERS = ("base_llm_http_handler", "anthropic_chat_completions", "vertex_chat_completion")
"""The objects in `litellm.main` that `completion` ends in: each transforms the messages and sends the request."""
Recorder = Callable[[Any, Callable[..., Any], dict[str, Any]], Any]
"""What is called in place of a handler's `completion`: with the handler, the method, and its arguments."""


@dataclass(slots=True)
class _OwnCall:
    """A call of agentkit's own; `thread` is that of a blocking one, which litellm makes in one thread."""

    guard: ReplyGuard
    uses_handler: bool
    recorder: Recorder | None
    thread: int | None
    is_over: bool = False


_own_call: ContextVar[_OwnCall | None] = ContextVar("agentkit_own_litellm_call", default=None)


def _find_own_call() -> _OwnCall | None:
    """Return agentkit's own call that the caller is a part of.

    litellm copies the context for the host's callbacks, which run in threads and tasks of their own. The calls that
    these make are the host's.
    """
    own = _own_call.get()
    if own is None or own.is_over or own.thread not in (None, get_ident()):
        return None
    return own


_importing = Lock()


@cache
def load_litellm() -> Any:
    """Return the litellm module, imported without output and without a request; the user's settings are kept.

    A thread of its own imports it: after an import that an interrupt or a time limit of the host ends half-way, litellm
    cannot be imported in the process again.
    """
    if is_loaded():
        return _import_litellm()
    imported: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
    Work(lambda: imported.put(capture(_import_litellm)))
    return take(imported, math.inf)()


def is_loaded() -> bool:
    """Whether the import is complete."""
    return bool(_import_litellm.cache_info().currsize)


@cache
def _import_litellm() -> Any:
    with _importing:
        is_host = "litellm" in sys.modules
        levels = {name: logging.getLogger(name).level for name in _LOGGERS}
        for name, value in _QUIET_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        # without collections 2,600 modules load a third faster; later ones of their objects would take a fifth of the
        # CPU of many concurrent agents
        with paused_gc(freeze=not is_host), _defer_models(), _defer_packages(), _naming_certificates():
            import litellm
        litellm.suppress_debug_info = True  # advertisements on stdout
        litellm.disable_hf_tokenizer_download = True  # else streams of Llama models wait for Hugging Face
        # Load now what the first request would load while its time is measured.
        with suppress(Exception):  # a wrong proxy or certificate in the environment: the request raises it
            getattr(litellm, "module_level_client", None)
        if not is_host and "LITELLM_LOG" not in os.environ:
            for name in (name for name, level in levels.items() if level == logging.NOTSET):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        _install_encoding(litellm)
        _install_exception_check(litellm)
        _install_switch(litellm)
        _install_ollama_fields(litellm)
        _install_guards(litellm)
        _install_recorders(litellm)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_leave_clients, litellm))
        return litellm


@contextmanager
def _naming_certificates() -> Iterator[None]:
    """Name the file of certificates that a client cannot read, which litellm makes when it is imported."""
    try:
        yield
    except OSError as error:
        if (place := os.environ.get("SSL_CERT_FILE")) is None:
            raise
        raise DefinitionError(
            f"litellm cannot be imported: {error}. Is SSL_CERT_FILE={place} a file of certificates (PEM)?"
        ) from error


_inherited: list[Any] = []
"""The clients of a parent process; closing one of an event loop would remove its sockets from the parent's selector."""


def _leave_clients(litellm: Any) -> None:
    """Leave litellm's clients to the parent process: two processes on one connection read each other's replies."""
    clients = litellm.in_memory_llm_clients_cache
    _inherited.extend(clients.cache_dict.values())
    clients.flush_cache()
    _inherited.extend(vars(litellm).pop(name, None) for name in ("module_level_client", "module_level_aclient"))


def begin_import() -> None:
    """Import litellm in the background, which takes seconds; the first request raises the failure, if any."""

    if "litellm" not in sys.modules:
        Work(partial(capture, _import_litellm))


def tune() -> None:
    """Import litellm and exclude all objects of the process from later garbage collections (`gc.freeze`).

    Without litellm in the process before, agentkit does this itself if litellm's objects are most of all. For a host
    that imported litellm first, or holds many objects, it is the host's decision. Call it once, after all imports.
    """
    load_litellm()
    gc.collect()
    gc.freeze()


def find_internal(litellm: Any, path: str) -> Any:
    """Return an object inside litellm by its dotted path; None where this version does not have it."""
    try:
        return attrgetter(path)(litellm)
    except AttributeError:
        return None


@lru_cache(4)
def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters of a function of litellm, which versions differ in."""
    return tuple(inspect.signature(function).parameters)


@cache
def report_difference(difference: str) -> None:
    """Log once, at DEBUG, that a shortcut into litellm is off because its internals differ."""
    _log.debug("litellm: %s", difference)


@contextmanager
def own_call(litellm: Any, guard: ReplyGuard, recorder: Recorder | None = None, *, is_async: bool) -> Iterator[None]:
    """Mark litellm's calls in the body as agentkit's own: `guard` limits replies, and OpenAI has litellm's HTTP client.

    A host that set `litellm.client_session` or the environment variable decides about the client itself. `recorder`
    receives the calls of litellm's handlers.
    """
    has_session = litellm.client_session or litellm.aclient_session
    own = _OwnCall(guard, not has_session, recorder, None if is_async else get_ident())
    token = _own_call.set(own)
    try:
        yield
        own.is_over = True  # after a failure, such as the end of the time, a thread of litellm may still prepare it
    finally:
        _own_call.reset(token)


def _install_guards(litellm: Any) -> None:
    """Let litellm's HTTP clients limit the replies to agentkit's own calls, by hooks that ignore all other replies."""

    def watch(response: Any) -> None:
        if own := _find_own_call():
            watch_response(response, own.guard)

    async def awatch(response: Any) -> None:
        watch(response)

    for name, hook in (("HTTPHandler", watch), ("AsyncHTTPHandler", awatch)):
        handler = find_internal(litellm, f"llms.custom_httpx.http_handler.{name}")
        if not hasattr(handler, "post"):
            report_difference(f"{name}.post was not found; the bytes of a reply are not limited")
            continue
        handler.post = _add_hook(handler.post, hook)


def _add_hook(post: Any, hook: Any) -> Any:
    @wraps(post)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _find_own_call() and hook not in (hooks := self.client.event_hooks)["response"]:
            self.client.event_hooks = {**hooks, "response": [*hooks["response"], hook]}
        return post(self, *args, **kwargs)

    return hooked


def _install_recorders(litellm: Any) -> None:
    """Let the handlers of `litellm.main` pass agentkit's own calls to a recorder; all other calls are made as before.

    The attribute is set on the object. What the host has set there before is called, and what it sets in the class at
    any time.
    """
    for name in HANDLERS:
        handler = find_internal(litellm, f"main.{name}")
        if not hasattr(handler, "completion"):
            report_difference(f"{name}.completion was not found; its requests are prepared anew each time")
            continue
        handler.completion = _add_recorder(handler)


def _add_recorder(handler: Any) -> Any:
    replaced = vars(handler).get("completion")

    def completion(*args: Any, **named: Any) -> Any:
        call = replaced or MethodType(type(handler).completion, handler)
        own = _find_own_call()
        if own is None or own.recorder is None or args:
            return call(*args, **named)
        return own.recorder(handler, call, named)

    return completion


def _install_ollama_fields(litellm: Any) -> None:
    """Send Ollama the ids of tool calls and the tools' names of results, which litellm drops, in agentkit's own calls.

    Source: Ollama's API reference, "Chat", `tool_calls` and `tool_name`.
    """
    transform = find_internal(litellm, "OllamaChatConfig.transform_request")
    if transform is None:
        report_difference("the configuration of Ollama was not found; tool results are sent without names")
        return

    @wraps(transform)
    def transform_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        data = transform(self, *args, **kwargs)
        if _find_own_call():
            for message, sent in zip(kwargs.get("messages") or args[1], data["messages"], strict=False):
                if "name" in message:
                    sent["tool_name"] = message["name"]
                for call, made in zip(message.get("tool_calls") or (), sent.get("tool_calls") or (), strict=False):
                    made["id"] = call["id"]
        return data

    litellm.OllamaChatConfig.transform_request = transform_request


def _install_switch(litellm: Any) -> None:
    """Make litellm's flag true for agentkit's own calls; other calls and other flags are read as before."""
    read = find_internal(litellm, "main.get_secret_bool")
    if read is None:
        report_difference("the switch of the HTTP handler was not found; requests to OpenAI use the OpenAI SDK")
        return

    @wraps(read)
    def read_flag(secret_name: str, *args: Any, **kwargs: Any) -> Any:
        own = _find_own_call()
        if own and own.uses_handler and secret_name == HANDLER_FLAG and HANDLER_FLAG not in os.environ:
            return True
        return read(secret_name, *args, **kwargs)

    litellm.main.get_secret_bool = read_flag


class _LazyEncoding:
    """An encoding of litellm that is loaded when one of its attributes is used."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


def _install_encoding(litellm: Any) -> None:
    """Load litellm's tokenizer, which takes 35 MB, for a provider that counts tokens, not for each of our requests."""
    load = find_internal(litellm, "main._get_encoding")
    if load is None:
        report_difference("the encoding was not found; the first request loads it")
        return
    lazy = _LazyEncoding(load)

    @wraps(load)
    def get_encoding() -> Any:
        return lazy if _find_own_call() else load()

    litellm.main._get_encoding = get_encoding


def _install_exception_check(litellm: Any) -> None:
    """Let a failure load no modules: litellm asks whether it is an error of Starlette or FastAPI.

    The first failure may come in a thread during exit, where an import hangs.
    """
    for name in ("starlette.exceptions", "litellm.proxy.guardrails.exception_utils"):
        with suppress(ImportError):
            import_module(name)
    check = find_internal(litellm, "proxy.guardrails.exception_utils.is_fastapi_http_exception")
    if check is None:
        report_difference("the check for errors of FastAPI was not found; FastAPI is loaded, if it is installed")
        with suppress(ImportError):
            import_module(_FASTAPI_ERRORS)
        return

    @wraps(check)
    def is_fastapi_http_exception(error: Exception, *args: Any, **kwargs: Any) -> Any:
        return _FASTAPI_ERRORS in sys.modules and check(error, *args, **kwargs)  # no error is of a class to be loaded

    litellm.proxy.guardrails.exception_utils.is_fastapi_http_exception = is_fastapi_http_exception


_PYDANTIC_LOCKS_BUILDS = (2, 14)
"""The first version of pydantic that builds a deferred model once if several threads use it first; older ones fail."""


@contextmanager
def _defer_models() -> Iterator[None]:
    """Let pydantic build litellm's models when they are first used, for those that the body defines in this thread.

    A class of the host that is derived from one is built at once, as any other class of the host. The metaclass stays
    as it is: pydantic looks for the names of a class in the frame that calls it.
    """
    wrapper: Any = getattr(import_module("pydantic._internal._config"), "ConfigWrapper", None)
    original: Any = vars(wrapper).get("for_model") if wrapper else None
    thread: int | None = get_ident()
    deferred: list[dict[str, Any]] = []

    def read_config(kind: Any, bases: Any, namespace: dict[str, Any], settings: dict[str, Any]) -> Any:
        is_own = get_ident() == thread and str(namespace.get("__module__")).partition(".")[0] == "litellm"
        if not is_own or "defer_build" in settings or "defer_build" in (namespace.get("model_config") or ()):
            return original.__func__(kind, bases, namespace, settings)
        settings["defer_build"] = True  # it takes out what is no argument of the class
        config = original.__func__(kind, bases, namespace, settings)
        deferred.append(config.config_dict)
        return config

    replacement = classmethod(read_config)
    if original is None:
        report_difference("pydantic's reader of settings was not found; litellm's models are built by its import")
    elif tuple(map(int, VERSION.split(".")[:2])) >= _PYDANTIC_LOCKS_BUILDS:
        wrapper.for_model = replacement
    try:
        yield
    finally:
        thread = None  # for who has kept the function
        for config in deferred:
            config.pop("defer_build", None)
        if original is not None and vars(wrapper)["for_model"] is replacement:
            wrapper.for_model = original


_DEFERRED = "openai."
"""The packages of the OpenAI SDK: their `__init__` names what their modules hold, few of which litellm uses."""


class _DeferredPackage(ModuleType):
    """A package whose `__init__` has not run: a name that it takes from one of its modules loads that module alone.

    Anything else, `dir` and `*` among it, runs the `__init__`, after which it is a package as any other.
    """

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        assert spec is not None
        if name in (homes := _read_homes(spec.name)):
            module, name_there = homes[name]
            value = getattr(import_module(f"{spec.name}.{module}"), name_there)
            setattr(self, name, value)
            return value
        path = f"{spec.name}.{name}"
        if not name.startswith("__") and PathFinder.find_spec(path, self.__path__) is not None:
            return import_module(path)
        self._run()
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        self._run()
        return dir(self)

    def _run(self) -> None:
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        try:
            spec.loader.exec_module(self)
        except BaseException:
            self.__class__ = _DeferredPackage
            raise


@cache
def _read_homes(package: str) -> dict[str, tuple[str, str]]:
    """Return the names that the `__init__` of a package takes from its modules: the module, and the name there."""
    source = cast(SourceFileLoader, sys.modules[package].__loader__).get_source(package) or ""
    return {
        alias.asname or alias.name: (statement.module, alias.name)
        for statement in parse_python(source).body
        if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module
        for alias in statement.names
    }


class _DeferringLoader(Loader):
    """Leaves the `__init__` of a package to the loader of the package."""

    def __init__(self, loader: SourceFileLoader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = self._loader
        module.__spec__.loader = self._loader
        module.__class__ = _DeferredPackage


@contextmanager
def _defer_packages() -> Iterator[None]:
    """Let packages of the OpenAI SDK that the body imports in this thread run their `__init__` when it is needed."""
    thread = get_ident()

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
            if not name.startswith(_DEFERRED) or get_ident() != thread:
                return None
            finders = [finder for finder in sys.meta_path if finder is not Finder]
            spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
            if spec is not None and spec.submodule_search_locations and type(spec.loader) is SourceFileLoader:
                spec.loader = _DeferringLoader(spec.loader)
            return spec

    sys.meta_path.insert(0, Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(Finder)
