"""`agentkit web`: a page to talk with an agent, to watch it work and to read its runs."""

import webbrowser
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .agents import agent_options, choose_agent
from .output import print_note


@click.command("web", short_help="A page to talk with an agent and to read its runs.")
@click.argument("target", required=False)
@agent_options
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65535), help="The port on 127.0.0.1.")
@click.option(
    "--token", default="", envvar="AGENTKIT_WEB_TOKEN", show_envvar=True, metavar="TEXT",
    help="The token in the address. Without it, a new random one.",
)  # fmt: skip
@click.option("--open/--no-open", "opens", default=True, help="Open the page in the browser.")
def web_command(target: str | None, journal: Path | None, port: int, token: str, opens: bool, **settings: Any) -> None:
    """Serve a page for an agent on 127.0.0.1.

    TARGET is an agent: module:agent or file.py:agent.  Without it, the agent is made of the options.  With --journal,
    conversations are kept, and a run that was interrupted with the server can continue.
    """
    agent = choose_agent(target, journal=journal, **settings)

    def announce(address: str) -> None:
        print_note(f"open {address}")
        if opens:
            webbrowser.open(address)

    import_module("agentkit.web").serve(agent, port=port, journal=journal, token=token, announce=announce)
