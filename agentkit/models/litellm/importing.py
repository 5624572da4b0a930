"""Import litellm: lazily, without output, and without network requests. Only this file imports it."""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from ...core.background import start_thread

_QUIET_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the price table is fetched from GitHub at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # and a list of headers at the first request to Anthropic
    "LITELLM_MODE": "PRODUCTION",  # else a .env file near litellm's files is loaded
    # OpenAI through litellm's own HTTP client: 0.4 of the CPU, and less as the history grows, because the OpenAI SDK
    # walks all messages with type look-ups at each request.
    "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER": "True",
}
_importing = Lock()


@cache
def load_litellm() -> Any:
    """Return the litellm module, imported without output and without a request; the user's settings are kept."""
    with _importing:
        for name, value in _QUIET_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with _pause_gc():
            import litellm
        litellm.suppress_debug_info = True  # advertisements on stdout
        litellm.disable_hf_tokenizer_download = True  # else streams of Llama models wait for Hugging Face
        # Load now what the first request would load while its time is measured.
        for name in ("encoding", "module_level_client"):
            getattr(litellm, name, None)
        with suppress(ImportError):  # else the first failure loads it, maybe in a thread during exit, which hangs
            import_module("litellm.proxy.guardrails.exception_utils")
        if "LITELLM_LOG" not in os.environ:
            for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        return litellm


def begin_import() -> None:
    """Import litellm in the background, which takes seconds; the first request raises the failure, if any."""

    def work() -> None:
        with suppress(Exception):
            load_litellm()

    if "litellm" not in sys.modules:
        start_thread(work)


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Pause the garbage collector for the body, then exclude the loaded objects from later collections.

    Without collections, 2,600 modules load a third faster. Later collections of their objects take a fifth of the CPU
    of many concurrent agents. `gc.freeze` also freezes all older objects, so it is called only if the body created
    most of the objects of the process.
    """
    collecting, before = gc.isenabled(), len(gc.get_objects())
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
    if len(gc.get_objects()) > 2 * before:
        gc.freeze()
