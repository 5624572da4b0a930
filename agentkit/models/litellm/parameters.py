"""The request parameters that litellm documents, known without its import, which takes seconds.

Sources: OpenAI's chat completions reference, litellm's "input params" page, and the provider pages of litellm for the
parameters that only some providers have.  A test compares the list with the installed litellm.
"""

from typing import Final

_RESERVED = """
    messages model tools functions function_call tool_choice stream stream_options model_list kwargs shared_session
    max_retries deployment_id include_server_side_tool_invocations enable_json_schema_validation
"""
RESERVED_PARAMETERS: Final = frozenset(_RESERVED.split())
"""Parameters of `litellm.completion` that the agent sets itself, or that make no sense for it."""

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
    prompt_version prompt_label input_cost_per_token output_cost_per_token input_cost_per_second
    output_cost_per_second base_model model_info hf_model_name custom_prompt_dict roles bos_token eos_token
    final_prompt_value supports_system_message ensure_alternating_roles user_continue_message
    assistant_continue_message merge_reasoning_content_in_choices stream_timeout turn_off_message_logging
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
