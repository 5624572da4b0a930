"""The commands that open a door of agentkit to other programs.

- `agentkit worker` and `agentkit submit`: execute runs of a queue, and put a run into it;
- `agentkit acp`: an agent for an editor;
- `agentkit web`: a page to talk with an agent, to watch it work and to read its runs;
- `agentkit mcp`: tools for clients of the Model Context Protocol, and what a server of others offers.
"""

import os
import signal
import sys
import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

import agentkit

from .agents import agent_options, build_agent
from .output import dump_json, exit_code, make_view, print_answer, print_error, print_note, usage_errors
from .targets import TOOLS, choose_agent, load_agent, load_described
from .tools import print_findings, print_tools


@click.command("acp")
@click.argument("target", required=False)
@agent_options
def acp_command(target: str | None, agent: str | None, journal: Path | None, **settings: Any) -> None:
    """Speak ACP, the Agent Client Protocol, on standard input and output; an editor starts this command.

    TARGET is an agent: module:agent or file.py:agent.  Without it, the agent is made of the options.  With --journal,
    sessions are kept, and the editor can open them again.  The agent also has the tools of the editor's MCP servers.
    """
    served = build_agent(**settings, agent=choose_agent(target, agent), journal=journal)
    agentkit.acp.serve(served, journal=journal, connect=lambda **server: agentkit.mcp.MCPServer(**server))


@click.command("web")
@click.argument("target", required=False)
@agent_options
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65535), help="The port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address; 0.0.0.0 for all of this machine.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name that browsers reach it by.")
@click.option("--root-path", default="", metavar="PATH", help="The prefix of the address behind a reverse proxy.")
@click.option(
    "--token",
    default="",
    envvar="AGENTKIT_WEB_TOKEN",
    show_envvar=True,
    metavar="TEXT",
    help="The token in the address. Without it, a new random one.",
)
@click.option("--open/--no-open", "opens", default=True, help="Open the page in the browser.")
def web_command(
    target: str | None,
    agent: str | None,
    journal: Path | None,
    port: int,
    token: str,
    opens: bool,
    host: str,
    hosts: Sequence[str],
    root_path: str,
    **settings: Any,
) -> None:
    """Serve a page for an agent on 127.0.0.1.

    TARGET is an agent: module:agent or file.py:agent.  Without it, the agent is made of the options.  With --journal,
    conversations are kept, and a run that was interrupted with the server can continue.  With --host other machines
    reach the page; anyone with the printed address can use the agent.
    """
    served = build_agent(**settings, agent=choose_agent(target, agent), journal=journal)

    def announce(address: str) -> None:
        click.echo(f"open {address}", err=True)  # not masked: the token is what the person needs
        if opens:
            webbrowser.open(address)

    with usage_errors():
        agentkit.web.serve(
            served,
            port=port,
            journal=journal,
            token=token,
            announce=announce,
            host=host,
            hosts=hosts,
            root_path=root_path,
        )


DB_HELP = "The database: postgresql://USER@HOST/DATABASE, or on one machine sqlite:///runs.db."
DB = click.option("--db", required=True, envvar="AGENTKIT_DB", show_envvar=True, metavar="URL", help=DB_HELP)


class RateType(click.ParamType[tuple[int, float]]):
    """A number of runs in a number of seconds: 100/60."""

    name = "N/SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        """Return the number and the seconds."""
        try:
            number, _, seconds = str(value).partition("/")
            return int(number), float(seconds)
        except ValueError:
            self.fail(f"{value!r}: expected a number of runs and of seconds, as 100/60", param, ctx)


RATE = RateType()


@click.command("worker")
@click.argument("targets", nargs=-1, required=True, metavar="[NAME=]TARGET...")
@DB
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1), help="Runs of an agent at a time.")
@click.option("--total", type=click.IntRange(1), help="Runs of an agent at a time in all workers.")
@click.option("--rate", type=RATE, help="Runs of an agent that may begin in a time, in all workers.")
@click.option("--per-key", type=click.IntRange(1), help="Runs of a key at a time in all workers.")
@click.option("--key-rate", type=RATE, help="Runs of a key that may begin in a time.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1), help="Worker processes.")
@click.option("--grace", default=30.0, show_default=True, help="Seconds that runs may take to end after a SIGTERM.")
def worker_command(targets: tuple[str, ...], db: str, processes: int, grace: float, **limits: Any) -> None:
    """Execute submitted runs of agents until SIGTERM or Ctrl-C.

    TARGET is an agent: module:agent or file.py:agent.  Its name in the queue is NAME, or the name of the attribute.
    Any number of workers share a database; the runs of one that dies are continued by the others within seconds.
    The limits of the worker that started last hold for all.  With --processes the command starts several workers, and
    replaces one that dies at once.

    Exit codes: 0 stopped, 75 the other workers have taken this one for dead: start it again.
    """
    agents: dict[str, agentkit.JsonAgent[Any]] = {}
    for target in targets:
        given, _, place = target.rpartition("=")
        name = given or place.rpartition(":")[2]
        if name in agents:
            raise click.UsageError(f"{target}: another agent has the name {name!r}. Give each its own: NAME=TARGET")
        agents[name] = load_agent(place)
    make_worker = partial(agentkit.dbos.Worker, agents, db, **limits)

    def serve(end_with: Any, ready: Any) -> None:
        worker = make_worker()
        end_with(worker.stop)

        def announce() -> None:
            print_note(f"worker {worker.name} executes {', '.join(agents)}")
            ready()

        worker.serve(grace=grace, ready=announce)

    if processes == 1:
        serve(_end_with_signals, lambda: None)
        return
    make_worker()  # which refuses wrong limits
    sys.exit(agentkit.dbos.Processes(serve, processes).run())


def _end_with_signals(stop: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


@click.command("submit")
@click.argument("question", nargs=-1, required=True)
@DB
@click.option("--agent", default="agent", show_default=True, help="The name of the agent in the workers.")
@click.option("--session", default="", help="The name of a conversation to continue.")
@click.option("--priority", default=100, show_default=True, type=click.IntRange(1), help="Lower numbers begin first.")
@click.option("--key", default="", help="Whose run it is: keys take turns.")
@click.option("--id", "run_id", default="", help="The id of the run; a second run with it is not begun.")
@click.option("--attempts", default=3, show_default=True, type=click.IntRange(1), help="How often workers try it.")
@click.option("--cron", metavar="EXPRESSION", help="Submit it again and again: '0 8 * * 1-5'.  Needs --id, its name.")
@click.option("--wait", is_flag=True, help="Wait for the answer and print it.")
@click.option("--jsonl", "as_lines", is_flag=True, help="Print the run as it happens, one JSON object a line.")
def submit_command(
    question: tuple[str, ...],
    db: str,
    agent: str,
    run_id: str,
    cron: str | None,
    wait: bool,
    as_lines: bool,
    **how: Any,
) -> None:
    """Submit QUESTION to the workers of a database, and print the id of the run.

    With --wait, the answer is printed to standard output, and the run to standard error while a worker executes it.

    Exit codes with --wait: 0 answered, 1 the run failed, 3 paused for an approval or an answer.
    """
    query = " ".join(question)
    with agentkit.dbos.Client(db) as client:
        if cron is not None:
            if not run_id:
                raise click.UsageError("--cron needs --id, the name of the schedule")
            client.schedule(run_id, cron, agent, query, **how)
            return
        handle = client.submit(agent, query, id=run_id, **how)
        if not wait and not as_lines:
            click.echo(handle.id)
            return
        print_note(f"run {handle.id}")
        try:
            with make_view(quiet=as_lines) as view:
                for line in handle.events():
                    if as_lines:
                        click.echo(dump_json(line))
                    elif "frame" in line:  # a worker of a former version writes other objects
                        view.draw(agentkit.extend.decode_frame(line))
            answer = handle.result()
        except agentkit.RunError as error:
            print_error(error)
            if isinstance(error, agentkit.Paused):
                print_note(f"agentkit: continue with: agentkit resume FILE:AGENT {handle.id} --journal {db}")
            sys.exit(exit_code(error))
        if not as_lines:
            print_answer(answer if isinstance(answer, str) else dump_json(answer))


@click.group("mcp")
def mcp_command() -> None:
    """Serve tools over the Model Context Protocol, or inspect a server."""


@mcp_command.command("serve")
@TOOLS
@click.option(
    "--http", "address", metavar="[HOST]:PORT", help="Serve HTTP at this address instead of stdin and stdout."
)
@click.option("--name", default="agentkit", show_default=True, help="The name of the server.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name that clients reach it by.")
def serve_command(targets: Sequence[str], address: str | None, name: str, hosts: Sequence[str]) -> None:
    """Serve tools to MCP clients; TARGET may name an agent, which becomes a tool.

    Dangerous tools ask the person at the client before each call, and are refused where it cannot ask.  An address that
    other machines can reach needs a token of at least 16 characters in the variable AGENTKIT_MCP_TOKEN.
    """
    tools = load_described(targets)
    with usage_errors(ImportError):
        if address is None:
            agentkit.mcp.serve(tools, name=name)
            return
        host, port = _read_address(address)
        token = os.environ.get("AGENTKIT_MCP_TOKEN", "")

        def announce(address: str) -> None:
            print_note(f"serving {len(tools)} tools at {address}; Ctrl-C stops")

        agentkit.mcp.serve(
            tools, http=True, host=host, port=port, hosts=hosts, token=token, announce=announce, name=name
        )


@mcp_command.command("inspect")
@click.argument("server", metavar="COMMAND_OR_URL")
def inspect_command(server: str) -> None:
    """Print what a server offers: its tools with their effects, what they cost in a request, and what lint says."""
    with usage_errors(ImportError):
        if server.startswith(("http://", "https://")):
            is_known = agentkit.mcp.StoredLogin(server).exists
            opened = agentkit.mcp.MCPServer(url=server, auth="oauth" if is_known else None)
        else:
            opened = agentkit.mcp.MCPServer(server)
    with agentkit.extend.opened_toolsets([opened]):
        tools = [*opened.tools.values()]
        print_tools(opened.tools)
        print_findings(agentkit.lint(tools), agentkit.extend.estimate_tokens(tools))


@mcp_command.command("login")
@click.argument("url")
def login_command(url: str) -> None:
    """Log in at the server URL in the browser; servers with `"auth": "oauth"` use the stored tokens."""
    with usage_errors(ImportError):
        login = agentkit.mcp.login
    login(url)
    print_note(f"you are logged in at {url}")


def _read_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise click.UsageError(f"--http {address}: expected :PORT or HOST:PORT, such as :8000")
    return host.strip("[]") or "127.0.0.1", int(port)
