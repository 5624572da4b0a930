"""The parameters of a request: those that litellm documents, and what providers make of them.

litellm's parameters are known without its import, which takes seconds.  Sources: OpenAI's chat completions reference,
litellm's "input params" page, and the provider pages of litellm for the parameters that only some providers have.  A
test compares the list with the installed litellm.

- Claude's extended thinking conflicts with some options (Anthropic, "Extended thinking"): a tool call cannot be forced
  while thinking is on.  The reply's token limit must exceed the thinking budget, which is at least 1,024 tokens.  In
  the middle of a tool loop the last assistant message must begin with thinking.
- Tools have the form that litellm needs for one provider, prepared once for the same tools.
- OpenAI's Responses API needs more than Chat Completions.  Sources: OpenAI, "Reasoning models", keeping reasoning items
  in context, and "Function calling", strict mode.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from ...core.errors import DefinitionError
from ...core.messages import Message, assistant
from ...core.portable import Json, to_valid_text
from ...engine.model import Request
from ...schemas.formats import Declaration, render
from .importing import find_internal, parameters_of, report_difference
from .provider_tools import take_items

_RESERVED = """
    messages model tools functions function_call tool_choice stream stream_options model_list kwargs shared_session
    max_retries deployment_id include_server_side_tool_invocations enable_json_schema_validation
"""
RESERVED_PARAMETERS: Final = frozenset(_RESERVED.split())
"""Parameters of `litellm.completion` that the agent sets itself, or that make no sense for it."""
ACCOUNT_OPTION = re.compile(
    r"api_.+|base_url|organization|custom_llm_provider|(?:extra_)?headers|extra_(?:body|query)|(?:aws|azure|vertex)_.+"
    r"|.+_(?:key|token|secret|password|credentials)"
)
"""The options that belong to an account of a provider: keys, addresses, headers."""

_OPENAI = """
    temperature top_p n stop max_tokens max_completion_tokens presence_penalty frequency_penalty logit_bias logprobs
    top_logprobs seed user response_format parallel_tool_calls reasoning_effort verbosity modalities audio prediction
    service_tier store metadata safety_identifier prompt_cache_key prompt_cache_retention web_search_options
    context_management thinking
"""
_CONNECTION = """
    api_key api_base base_url api_version organization timeout request_timeout headers extra_headers default_headers
    extra_body custom_llm_provider client ssl_verify drop_params additional_drop_params allowed_openai_params
    provider_specific_header use_litellm_proxy litellm_credential_name region_name
"""
_LITELLM = """
    mock_response mock_timeout caching cache ttl tags litellm_metadata litellm_session_id litellm_trace_id
    litellm_call_id litellm_system_prompt litellm_disabled_callbacks guardrails prompt_id prompt_variables
    prompt_version prompt_label input_cost_per_token output_cost_per_token base_model model_info hf_model_name
    custom_prompt_dict roles bos_token eos_token final_prompt_value supports_system_message ensure_alternating_roles
    user_continue_message assistant_continue_message merge_reasoning_content_in_choices stream_timeout
    turn_off_message_logging
"""
_PROVIDERS = """
    top_k min_p repetition_penalty stop_sequences random_seed safe_prompt documents safety_settings cached_content
    response_mime_type response_schema candidate_count max_output_tokens mirostat mirostat_eta mirostat_tau num_ctx
    num_gqa num_predict num_thread repeat_last_n repeat_penalty template tfs_z keep_alive guardrailConfig
    performanceConfig topK context_length_exceeded_behavior prompt_truncate_len
    aws_access_key_id aws_secret_access_key aws_session_token aws_region_name aws_session_name aws_profile_name
    aws_role_name aws_web_identity_token aws_sts_endpoint aws_bedrock_runtime_endpoint aws_external_id
    azure_ad_token azure_ad_token_provider tenant_id client_id client_secret azure_username azure_password azure_scope
    vertex_project vertex_location vertex_credentials watsonx_region_name
"""
REQUEST_PARAMETERS: Final = frozenset(f"strict {_OPENAI} {_CONNECTION} {_LITELLM} {_PROVIDERS}".split())
"""The options that a model of litellm takes; `strict` is one of `LiteLLMModel`.

Other parameters of a provider are passed in `extra_body`, other headers in `extra_headers`.
"""


def check_body(options: Mapping[str, Any]) -> None:
    """Raise `DefinitionError` for options that no request can have.

    These are headers that cannot be sent, a body that is no dict or replaces what the agent sends, a limit of tokens
    that is no number, and a price of time.
    """
    for name in ("headers", "extra_headers"):
        _check_headers(name, options.get(name) or {})
    if not isinstance(body := options.get("extra_body") or {}, Mapping):
        raise DefinitionError(f"extra_body must be a dict, got {type(body).__name__}")
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(limit := options.get(name), str):
            raise DefinitionError(f"{name} must be an integer, got {limit!r}. Write {name}=int(...).")
    for name in sorted(options.keys() & _PRICES_OF_TIME):
        remedy = "Give a price per token: input_cost_per_token=..., output_cost_per_token=..., in dollars."
        raise DefinitionError(f"{name}: costs are counted by tokens, not by seconds. {remedy}")
    for key in sorted({*body} & _OWN_BODY):
        remedy = "Name the key as an option of its own."
        if key == "tools":
            remedy = 'Give them to the agent: tools=[..., provider_tool("web_search")], or the dict of the provider.'
        elif key in _INSTRUCTION_KEYS:
            remedy = "Give it to the agent: description=..."
        raise DefinitionError(f"extra_body: {key!r} would replace what the agent sends. {remedy}")


def _check_headers(option: str, headers: Any) -> None:
    """Raise `DefinitionError` unless all are names and values that HTTP can send (RFC 9110, 5.1 and 5.5)."""
    if not isinstance(headers, Mapping):
        raise DefinitionError(f"{option} must be a dict of texts, got {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise DefinitionError(f"{option}: {name!r} is no name of a header: letters, digits and hyphens")
        if not isinstance(value, str | bytes):
            raise DefinitionError(f"{option}: the value of {name!r} must be a text, got {type(value).__name__}")
        if isinstance(value, str) and not _HEADER_VALUE.fullmatch(value):
            wrong = "has a line break, a space at an end, or a character that is not ASCII"
            raise DefinitionError(f"{option}: the value of {name!r} {wrong}. Write it anew, as in value.strip().")


_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")


def spread_body(options: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    """Return the options with the keys of `extra_body` as options of their own where litellm does not send them.

    litellm sends Anthropic a key `extra_body`, which the API refuses.  It sends keys that it does not know, and
    those of OpenAI if they are allowed; it changes `metadata` in place.
    """
    body = options.get("extra_body")
    if provider != "anthropic" or not body:
        return options
    others = {key: value for key, value in options.items() if key != "extra_body"}
    allowed = [*(options.get("allowed_openai_params") or ()), *(key for key in body if key in _OPENAI.split())]
    return {**others, **deepcopy(body), **({"allowed_openai_params": allowed} if allowed else {})}


_PRICES_OF_TIME = frozenset({"cost_per_second", "input_cost_per_second", "output_cost_per_second"})
_INSTRUCTION_KEYS = frozenset({"system", "instructions", "system_instruction", "systemInstruction"})
_OWN_BODY = _INSTRUCTION_KEYS | frozenset(
    {"model", "messages", "input", "contents", "tools", "tool_choice", "functions", "function_call", "stream"}
)
_MIN_BUDGET_TOKENS = 1_024
_MIN_EFFORT_TOKENS = 8_192
"""litellm turns `reasoning_effort` into a budget of up to 4,096 tokens; shorter replies than this use "low"."""


def adjust_thinking(
    request: Request, options: Json, provider: str, model: str, longest: int | None = None
) -> tuple[Request, Json]:
    """Resolve conflicts between thinking and the rest of the request; return the request and its options.

    The thinking budget is reduced to fit the reply (`longest` tokens), thinking is off where another model began the
    tool loop, and a thinking model is not forced to call a tool.
    """
    if _is_thinking(options, provider, model):
        options = (
            _fit_budget(options, longest)
            if _can_think_next(request.messages, options, provider)
            else _drop_thinking(options)
        )
        if _is_thinking(options, provider, model) and request.tool_choice != "none":
            request = replace(request, tool_choice="auto")
    return request, options


def _is_thinking(options: Json, provider: str, model: str) -> bool:
    """Return whether the options turn on thinking of a Claude model."""
    if provider != "anthropic" and "claude" not in model:
        return False
    effort = options.get("reasoning_effort")
    kind = (options.get("thinking") or {}).get("type")
    return kind in ("enabled", "adaptive") or effort not in (None, "none")


def _fit_budget(options: Json, longest: int | None) -> Json:
    """Return the options with a thinking budget that fits a reply of `longest` tokens."""
    if longest is None:
        return options
    if longest < 2 * _MIN_BUDGET_TOKENS:
        return _drop_thinking(options)
    if longest < _MIN_EFFORT_TOKENS and "reasoning_effort" in options:
        options = {**options, "reasoning_effort": "low"}
    thinking = options.get("thinking") or {}
    if thinking.get("budget_tokens", 0) >= longest:
        options = {**options, "thinking": {**thinking, "budget_tokens": longest // 2}}
    return options


def _drop_thinking(options: Json) -> Json:
    return {key: value for key, value in options.items() if key not in ("thinking", "reasoning_effort")}


def _can_think_next(messages: Sequence[Message], options: Json, provider: str) -> bool:
    """Return whether the model may think next: at the start of its turn, or after a message of its own.

    With a budget, that message must contain thinking too. With adaptive thinking it may lack it.
    """
    last = next((message for message in reversed(messages) if message["role"] != "tool"), None)
    if last is None or last["role"] != "assistant":
        return True
    has_budget = (options.get("thinking") or {}).get("type") == "enabled"
    thoughts = last.get("thinking_blocks") or last.get("reasoning_details")
    return last.get("provider") == provider and bool(thoughts or not has_budget)


NON_MUTATING_PROVIDERS = {"openai", "anthropic", "groq", "ollama_chat"}
"""Routes that do not change the caller's tool dicts; litellm's Gemini route rewrites them in place."""

NO_TOOL_CALLING = frozenset({
    "anthropic_text", "nlp_cloud", "petals", "perplexity", "predibase", "text-completion-codestral",
    "text-completion-inception", "triton", "watsonx_text",
})  # fmt: skip
"""Providers for which litellm knows no `tools`, whatever the model; a test compares the list with litellm's."""

_STRICT_PROVIDERS = {"openai", "azure"}
"""Providers that get strict tools through litellm. It drops the mark for Anthropic and Gemini; others ignore it."""


class PreparedTools:
    """litellm's `tools` for the requests to one model; `strict` requests OpenAI's strict mode.

    `additionalProperties: false` is sent with strict tools only. Elsewhere it costs tokens without a benefit, and
    servers that validate calls refuse a whole reply for it that agentkit would repair.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self._last: tuple[Any, list[Json]] = (None, [])
        self._last_form: tuple[Any, Json] = (None, {})

    def parameters(self, request: Request, provider: str, model: str) -> Json:
        """Return litellm's `tools` and `tool_choice` for `request`, the same list for the same tools; {} without."""
        schemas = request.tools.schemas(self._schema_format(provider, model))  # the same object from request to request
        if not schemas and not request.tools.provider_tools:
            return {}
        known, tools = self._last
        if known is not schemas:
            tools = [*map(_wrap, schemas)]
            self._last = schemas, tools
        sent: Json = {"tools": tools}
        choice = request.tool_choice
        if choice in ("required", "none"):
            sent["tool_choice"] = choice
        elif choice != "auto":
            sent["tool_choice"] = {"type": "function", "function": {"name": choice}}
        return sent

    def reply_format(self, request: Request, provider: str, *, is_own: bool) -> Json:
        """Return litellm's `response_format` for the schema of the reply; {} without one.

        OpenAI itself gets its strict dialect where the schema can be strict.  Other servers, and all on an address of
        the user (`is_own`), get the schema as it is: their grammars know optional properties.
        """
        schema = request.reply_schema
        if schema is None:
            return {}
        known, form = self._last_form
        if known is not schema:
            dialect = "openai" if is_own or provider not in _STRICT_PROVIDERS else "response_format"
            form = _render_reply(schema, dialect)
            self._last_form = schema, form
        return {"response_format": json.loads(json.dumps(form))}  # litellm changes it in place on some routes

    def _schema_format(self, provider: str, model: str) -> str:
        if provider == "anthropic":
            return "anthropic"
        if provider == "gemini" or (provider == "vertex_ai" and "gemini" in model):
            return "gemini"
        return "openai_strict" if self.strict and provider in _STRICT_PROVIDERS else "openai"


def _render_reply(schema: Json, dialect: str) -> Json:
    declared = Declaration("tool_calls", "", schema)
    if dialect == "response_format":
        return render(declared, dialect, "keep").schema
    plain = render(declared, dialect, "keep").schema["function"]["parameters"]
    return {"type": "json_schema", "json_schema": {"name": declared.name, "schema": plain}}


def _wrap(tool: Json) -> Json:
    """Return the tool in OpenAI's form, the only one that litellm accepts on every route."""
    function = tool.get("function", tool)
    if "input_schema" in function:
        function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    parameters = function.get("parameters", {})
    if parameters.get("additionalProperties") is False and not function.get("strict"):
        parameters = {key: value for key, value in parameters.items() if key != "additionalProperties"}
        function = {**function, "parameters": parameters}
    return {"type": "function", "function": function}


RESPONSES_PREFIX = "responses/"
"""litellm's mark of the Responses API, before the name of a model."""
_RESPONSES_PROVIDERS = {"openai", "azure", "azure_ai"}
_REASONING_CONTENT = "reasoning.encrypted_content"
_ITEM_KEYS = ("type", "id", "summary", "encrypted_content")


def is_bridged(litellm: Any, provider: str, model: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether litellm sends a request to the Responses API: for "openai/responses/...", and for some models."""
    if model.startswith(RESPONSES_PREFIX):
        return True
    if provider not in _RESPONSES_PROVIDERS:
        return False
    check = find_internal(litellm, "main.responses_api_bridge_check")
    given = {**arguments, "model": model, "custom_llm_provider": provider}
    try:
        info, _ = check(**{name: given[name] for name in parameters_of(check) if name in given})
    except Exception as error:  # a version with other parameters
        report_difference(f"which models it asks through the Responses API is unknown: {error}")
        return False
    return bool(info.get("mode") == "responses")


def adapt_arguments(litellm: Any, provider: str, model: str, arguments: Json) -> Json:
    """Return the arguments of a request to the Responses API.

    The reply of a reasoning model includes its encrypted reasoning, which must come back with the results of its calls:
    without it the model reasons anew, or the API refuses the request.  Tools tell whether they are strict, because this
    API makes other tools strict, with all parameters required.
    """
    adapted = dict(arguments)
    if tools := arguments.get("tools"):
        adapted["tools"] = [
            {**tool, "function": {"strict": False, **tool["function"]}} if "function" in tool else tool
            for tool in tools
        ]
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
        return bool(litellm.supports_reasoning(model.removeprefix(RESPONSES_PREFIX), provider))
    return False


_ITEM_RANKS = {"reasoning": 0, "message": 1, "function_call": 2}
"""The order of the items that litellm makes of one assistant message."""


def read_items(output: Any) -> list[Json]:
    """Return the items in the output of a reply of the Responses API, dicts or litellm's objects; [] without one."""
    with suppress(LookupError, TypeError, AttributeError):
        found = [item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in output]
        return [item for item in found if item["type"] in _ITEM_RANKS or item["type"].endswith("_call")]
    return []


def restore_items(message: Message, items: Sequence[Json]) -> None:
    """Set what litellm drops of the items of a reply: refusals, all reasoning but the last, and their order.

    Old versions of litellm make a choice of the text and another one of the calls, so these are set too.
    """
    items = take_items(message, items)
    reasoning = [{key: item[key] for key in _ITEM_KEYS if key in item} for item in items if item["type"] == "reasoning"]
    if message.get("reasoning_items") and reasoning:
        message["reasoning_items"] = reasoning
    texts = [_join_parts(item, "text") for item in items if item["type"] == "message"]
    message["content"] = "".join(texts) or message.get("content")
    refusals = [_join_parts(item, "refusal") for item in items if item["type"] == "message"]
    if refusal := "".join(refusals):
        message["refusal"] = refusal
    calls = [item for item in items if item["type"] == "function_call"]
    if len(calls) > len(message.get("tool_calls") or ()):
        message["tool_calls"] = [*map(_read_call, calls)]
    fill_arguments(message, {item.get("call_id"): item.get("arguments") for item in calls})
    ranks = [_ITEM_RANKS[item["type"]] for item in items]
    if ranks != sorted(ranks) or ranks.count(1) > 1:
        message["item_order"] = [
            len(_join_parts(item, "text")) if item["type"] == "message" else item["type"] for item in items
        ]


def fill_arguments(message: Message, given: Mapping[Any, Any]) -> None:
    """Set the arguments, by the ids of the calls, that a server sent as a whole and not in the pieces of a stream."""
    for call in message.get("tool_calls") or ():
        arguments = given.get(call["id"])
        if arguments and call["function"]["arguments"] == "{}":
            call["function"]["arguments"] = arguments if isinstance(arguments, str) else json.dumps(arguments)


def _join_parts(item: Json, key: str) -> str:
    return "".join(to_valid_text(part[key]) for part in item.get("content") or () if isinstance(part.get(key), str))


def _read_call(item: Json) -> Json:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def order_items(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with each assistant message split such that litellm sends its items in their order.

    litellm sends reasoning first, then the text, then the calls; old versions drop a text beside calls.
    """
    for message in messages:
        if (isinstance(message.get("content"), str) and message.get("tool_calls")) or "item_order" in message:
            yield from _split_items(message)
        else:
            yield message


def _split_items(message: Message) -> Iterator[Message]:
    items: dict[str, deque[Json]] = {
        "reasoning": deque(message.get("reasoning_items") or ()),
        "function_call": deque(message.get("tool_calls") or ()),
    }
    text = message.get("content") or ""
    order = message.get("item_order") or ()
    if any(
        order.count(kind) != len(entries) for kind, entries in items.items()
    ):  # none is known, or calls were changed
        order = ["reasoning"] * len(items["reasoning"]) + [len(text)] + ["function_call"] * len(items["function_call"])
    is_whole = sum(entry for entry in order if isinstance(entry, int)) == len(text)
    part: Message = {}
    for entry in order:
        if "content" in part or ("tool_calls" in part and entry != "function_call"):
            yield {**assistant(), **part}
            part = {}
        if isinstance(entry, str):
            part.setdefault(_ITEM_PLACES[entry], []).append(items[entry].popleft())
        elif text:
            part["content"] = text[:entry] if is_whole else text  # a text that was changed is in the place of the first
            text = text[entry:] if is_whole else ""
    if part:
        yield {**assistant(), **part}


_ITEM_PLACES = {"reasoning": "reasoning_items", "function_call": "tool_calls"}
"""The keys of a message where items are."""
