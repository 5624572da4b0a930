"""`agentkit models`: what can be asked from here; nobody is asked."""

import json
import os
import shutil
import textwrap
from typing import Any

import click

from .providers import PROVIDERS, missing, needs

STATES = {
    "offline": "ready: it matches words, it does not understand them",
    "ollama_chat": "a server at home: OLLAMA_API_BASE, else port 11434 here",
}


@click.command(short_help="List models: ready, or which key misses.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def models(as_json: bool) -> None:
    """List the providers: which are configured here, which variable misses; nothing is sent.

    Any other model that litellm knows works the same: https://docs.litellm.ai/docs/providers
    """
    chosen = os.environ.get("AGENTKIT_MODEL") or "offline"
    entries: list[dict[str, Any]] = [{"provider": "offline", "missing": [], "model": "offline"}]
    entries += [{"provider": name, "missing": missing(name), "model": PROVIDERS[name][1]} for name in PROVIDERS]
    if as_json:
        click.echo(json.dumps({"default": chosen, "providers": entries}, indent=2))
        return
    origin = "AGENTKIT_MODEL" if os.environ.get("AGENTKIT_MODEL") else "AGENTKIT_MODEL is not set"
    absent = missing(chosen.partition("/")[0])
    click.echo(f"default: {chosen} ({origin}) {needs(absent)}".rstrip() + "\n")
    width = max(len(entry["model"]) for entry in entries) + 2
    for entry in entries:
        rows = textwrap.wrap(_state(entry), max(20, shutil.get_terminal_size().columns - width))
        click.echo(f"{entry['model']:<{width}}" + f"\n{'':<{width}}".join(rows))


def _state(entry: dict[str, Any]) -> str:
    return needs(entry["missing"]) or STATES.get(entry["provider"], "ready")
