"""A loop by hand over litellm with the settings that make it cheap; a floor for whoever calls through litellm."""

import os

os.environ.update(EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER="True", LITELLM_LOCAL_MODEL_COST_MAP="True")

from adapters.litellm_raw import Raw, version

__all__ = ["Agent", "version"]


class Agent(Raw):
    options = {"_skip_mcp_handler": True, "max_retries": 0}  # noqa: RUF012
    inner = True
