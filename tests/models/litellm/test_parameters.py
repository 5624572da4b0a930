"""The static list of request parameters is that of the installed litellm."""

import inspect
from importlib.metadata import version
from pathlib import Path

import pytest

from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.parameters import REQUEST_PARAMETERS, RESERVED_PARAMETERS

INSTALLED = tuple(map(int, version("litellm").split(".")[:2]))
OWN = {"strict"}
CONFIGS = ("AnthropicConfig", "OllamaChatConfig", "GoogleAIStudioGeminiConfig", "CohereChatConfig", "MistralConfig", "AmazonConverseConfig", "FireworksAIConfig")  # fmt: skip
SOURCES = {
    "safety_settings": "llms/vertex_ai/gemini/transformation.py",
    "cached_content": "llms/vertex_ai/gemini/transformation.py",
    "keep_alive": "llms/ollama/chat/transformation.py",
    "guardrailConfig": "llms/bedrock/chat/converse_transformation.py",
    "performanceConfig": "llms/bedrock/chat/converse_transformation.py",
    "min_p": "llms/fireworks_ai/chat/transformation.py",
    "repetition_penalty": "llms/fireworks_ai/chat/transformation.py",
    "extra_body": "main.py",
}


@pytest.fixture(scope="module")
def installed() -> set[str]:
    litellm = load_litellm()
    constants = litellm.constants
    return {
        *inspect.signature(litellm.completion).parameters,
        *constants.DEFAULT_CHAT_COMPLETION_PARAM_VALUES,
        *constants.OPENAI_CHAT_COMPLETION_PARAMS,
    }


def test_every_parameter_of_a_completion_is_known_or_reserved(installed):
    assert installed - REQUEST_PARAMETERS - RESERVED_PARAMETERS == set()


@pytest.mark.skipif(INSTALLED < (1, 105), reason="the list is that of litellm 1.105; older ones lack some parameters")
def test_every_known_parameter_is_one_of_litellm(installed):
    litellm = load_litellm()
    from litellm.types.router import GenericLiteLLMParams
    from litellm.types.utils import all_litellm_params

    known = {*installed, *all_litellm_params, *GenericLiteLLMParams.model_fields, *OWN}
    for name in CONFIGS:
        known |= {field for part in getattr(litellm, name).__mro__ for field in inspect.get_annotations(part)}
    folder = Path(litellm.__file__).parent
    known |= {name for name, path in SOURCES.items() if name in (folder / path).read_text()}
    assert REQUEST_PARAMETERS - known == set()


def test_no_name_is_known_and_reserved():
    assert not REQUEST_PARAMETERS & RESERVED_PARAMETERS
