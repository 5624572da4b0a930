"""`agentkit models`: common providers and their configuration; nothing is sent."""

import json
import os
import shutil
import textwrap
from typing import Any

import click

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


PROVIDER_STATES = {
    "offline": "ready: it matches words, it does not understand them",
    "ollama_chat": "a local server: OLLAMA_API_BASE, else port 11434 on this machine",
}


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def models_command(as_json: bool) -> None:
    """List the providers: which are configured, and which variables are missing; nothing is sent.

    Every other model of litellm works as well: https://docs.litellm.ai/docs/providers
    """
    default = os.environ.get("AGENTKIT_MODEL") or "offline"
    entries: list[dict[str, Any]] = [{"provider": "offline", "missing": [], "model": "offline"}]
    for name, (_, example) in PROVIDERS.items():
        entries.append({"provider": name, "missing": missing_variables(name), "model": example})
    if as_json:
        click.echo(json.dumps({"default": default, "providers": entries}, indent=2))
        return
    origin = "AGENTKIT_MODEL" if os.environ.get("AGENTKIT_MODEL") else "AGENTKIT_MODEL is not set"
    hint = setup_hint(missing_variables(default.partition("/")[0]))
    click.echo(f"default: {default} ({origin}) {hint}".rstrip() + "\n")
    width = max(len(entry["model"]) for entry in entries) + 2
    for entry in entries:
        state = setup_hint(entry["missing"]) or PROVIDER_STATES.get(entry["provider"], "ready")
        rows = textwrap.wrap(state, max(20, shutil.get_terminal_size().columns - width))
        click.echo(f"{entry['model']:<{width}}" + f"\n{'':<{width}}".join(rows))
