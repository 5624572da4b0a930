"""Requests that litellm sends to OpenAI's Responses API, and what that API needs beyond Chat Completions.

Sources: OpenAI, "Reasoning models", keeping reasoning items in context, and "Function calling", strict mode.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ...core.messages import Message
from .importing import find_internal, report_difference

Json = dict[str, Any]

_PREFIX = "responses/"
_PROVIDERS = {"openai", "azure", "azure_ai"}
_REASONING_CONTENT = "reasoning.encrypted_content"
_ITEM_KEYS = ("type", "id", "summary", "encrypted_content")


def is_bridged(litellm: Any, provider: str, model: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether litellm sends a request to the Responses API: for "openai/responses/...", and for some models."""
    if model.startswith(_PREFIX):
        return True
    if provider not in _PROVIDERS:
        return False
    check = find_internal(litellm, "main.responses_api_bridge_check")
    given = {**arguments, "model": model, "custom_llm_provider": provider}
    try:
        info, _ = check(**{name: given[name] for name in _parameters(check) if name in given})
    except Exception as error:  # a version with other parameters
        report_difference(f"which models it asks through the Responses API is unknown: {error}")
        return False
    return bool(info.get("mode") == "responses")


@lru_cache(1)
def _parameters(check: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(check).parameters)


def remove_prefix(model: str) -> str:
    """Return the name of a model without litellm's mark of the Responses API."""
    return model.removeprefix(_PREFIX)


def adapt_arguments(litellm: Any, provider: str, model: str, arguments: Json) -> Json:
    """Return the arguments of a request to the Responses API.

    The reply of a reasoning model includes its encrypted reasoning, which must come back with the results of its calls:
    without it the model reasons anew, or the API refuses the request.  Tools tell whether they are strict, because this
    API makes other tools strict, with all parameters required.
    """
    adapted = dict(arguments)
    if tools := arguments.get("tools"):
        adapted["tools"] = [{**tool, "function": {"strict": False, **tool["function"]}} for tool in tools]
    if _is_reasoning(litellm, provider, model, arguments):
        body = arguments.get("extra_body") or {}
        include = dict.fromkeys([*(body.get("include") or ()), _REASONING_CONTENT])
        adapted["extra_body"] = {**body, "include": [*include]}
    return adapted


def _is_reasoning(litellm: Any, provider: str, model: str, arguments: Json) -> bool:
    effort = arguments.get("reasoning_effort")
    if effort is not None:
        return bool(effort != "none")
    with suppress(Exception):
        return bool(litellm.supports_reasoning(remove_prefix(model), provider))
    return False


def restore_reasoning(message: Message, body: object) -> None:
    """Set all reasoning items of an unstreamed reply from its raw text; litellm keeps only the last of several."""
    if not message.get("reasoning_items") or not isinstance(body, str) or body.count('"encrypted_content"') < 2:
        return
    with suppress(ValueError, LookupError, TypeError):
        items = [item for item in json.loads(body)["output"] if item["type"] == "reasoning"]
        message["reasoning_items"] = [{key: item[key] for key in _ITEM_KEYS if key in item} for item in items]
