"""Common providers: the environment variables that each needs, and one of its models that calls tools."""

import os

PROVIDERS = {
    "openai": (("OPENAI_API_KEY",), "openai/gpt-4o-mini"),
    "anthropic": (("ANTHROPIC_API_KEY",), "anthropic/claude-sonnet-4-5"),
    "gemini": (("GEMINI_API_KEY",), "gemini/gemini-2.5-flash"),
    "groq": (("GROQ_API_KEY",), "groq/llama-3.1-8b-instant"),
    "mistral": (("MISTRAL_API_KEY",), "mistral/mistral-small-latest"),
    "deepseek": (("DEEPSEEK_API_KEY",), "deepseek/deepseek-chat"),
    "openrouter": (("OPENROUTER_API_KEY",), "openrouter/openai/gpt-4o-mini"),
    "xai": (("XAI_API_KEY",), "xai/grok-3-mini"),
    "azure": (("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION"), "azure/YOUR-DEPLOYMENT"),
    "ollama_chat": ((), "ollama_chat/llama3.1"),
    "hosted_vllm": (("HOSTED_VLLM_API_BASE",), "hosted_vllm/YOUR-MODEL"),
}
EXAMPLES = ["offline", *(example for _, example in PROVIDERS.values())]


def missing_variables(provider: str) -> list[str]:
    """Return the variables of a provider that the environment lacks; [] for a provider that is not listed."""
    variables, _ = PROVIDERS.get(provider, ((), ""))
    return [variable for variable in variables if not os.environ.get(variable)]


def setup_hint(variables: list[str]) -> str:
    """Return what to do about missing variables."""
    return f"set {', '.join(variables)}" if variables else ""
