"""The route to a model: its provider, the address and the key of its server, whether that renders a chat template."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ...core.errors import ModelError
from .replies import Route

_MODEL_NAMES = (
    'a model is named "provider/name", for example "openai/gpt-4o-mini", "groq/llama-3.1-8b-instant", '
    '"ollama_chat/phi4", or "offline" for the embedded one'
)
_TEMPLATE_PROVIDERS = {"openai", "hosted_vllm", "vllm", "lm_studio", "llamafile", "openai_like", "custom_openai"}
"""Routes to servers in OpenAI's form, which may render a model's chat template."""
_OWN_HOSTS = ("openai.com", "azure.com")
"""Hosts of OpenAI's API itself, which has no such template."""


def find_route(litellm: Any, name: str, options: Mapping[str, Any]) -> Route:
    """Return the route; raise `ModelError` for an unknown provider, a missing key or an address without a scheme."""
    full = "ollama_chat/" + name[7:] if name.startswith("ollama/") else name
    try:
        model, provider, _, _ = litellm.get_llm_provider(
            full, custom_llm_provider=options.get("custom_llm_provider"), api_base=options.get("api_base")
        )
    except Exception as error:
        text = f"{name!r} names no provider that litellm knows; {_MODEL_NAMES}"
        raise ModelError(text, kind="not_found") from error
    _check_key(litellm, full, options)
    _check_address(litellm, name, provider, options)
    return Route.of(litellm, full, provider, model, options)


def renders_template(litellm: Any, provider: str, options: Mapping[str, Any]) -> bool:
    """Return whether the server may render a chat template: one in OpenAI's form that is not OpenAI's."""
    if provider not in _TEMPLATE_PROVIDERS:
        return False
    if provider != "openai":
        return True
    base = next(_list_addresses(litellm, provider, options), "")
    host = base.partition("://")[2].partition("/")[0].partition(":")[0]
    return bool(host) and not host.endswith(_OWN_HOSTS)


def _check_address(litellm: Any, name: str, provider: str, options: Mapping[str, Any]) -> None:
    """Raise `ModelError` for an address without a scheme, which no retry can reach."""
    base = next(_list_addresses(litellm, provider, options), "")
    if base and not base.lower().startswith(("http://", "https://")):
        text = f"{name}: the address {base!r} has no scheme. Write api_base='http://{base}' (or https)."
        raise ModelError(text, kind="bad_request")


def _check_key(litellm: Any, name: str, options: Mapping[str, Any]) -> None:
    """Raise `ModelError` for a missing API key before a request is sent; litellm checks other credentials."""
    if {"api_key", "api_base", "base_url"} & options.keys() or litellm.api_key:
        return
    missing = litellm.validate_environment(name)["missing_keys"]
    if missing and all(variable.endswith("_API_KEY") for variable in missing):
        text = f"{name}: no API key: set {' or '.join(missing)}, or pass api_key="
        raise ModelError(text, kind="authentication")


def _list_addresses(litellm: Any, provider: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the configured addresses, the decisive one first."""
    variables = (f"{provider.removesuffix('_chat').upper()}_{suffix}" for suffix in ("API_BASE", "BASE_URL"))
    found = [options.get("api_base"), options.get("base_url"), litellm.api_base, *map(os.environ.get, variables)]
    yield from (address for address in found if isinstance(address, str) and address)
