"""`agentkit chat`: a conversation, line by line."""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from .agents import agent_of, agent_options
from .views import watching

HISTORY = Path("~/.agentkit_history")
HELP = """\
/tools          the tools there are            /model NAME   another model from now on
/history        the conversation so far        /undo         take the last question and its answer back
/save FILE      keep the conversation          /load FILE    go on with a kept one
/clear          begin anew                     /quit         leave (also Ctrl-D)
A line that ends in \\ goes on in the next.  Ctrl-C stops an answer, not the chat."""


@click.command()
@agent_options
@click.option(
    "--session",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file to go on from, if it is there, and to keep the conversation in.",
)
def chat(file: Path | None, **settings: Any) -> None:
    """Talk with an agent; /help tells what else can be done."""
    talk = Chat(agent_of(**settings), file)
    _remember_lines()
    if sys.stdin.isatty():
        click.echo("Ask away; /help for help.", err=True)
    while (line := _line()) is not None:
        try:
            talk.take(line)
        except Leave:
            break
        except (agentkit.AgentkitError, OSError) as error:
            click.echo(f"agentkit: {error}", err=True)
        except KeyboardInterrupt:
            click.echo("\nstopped; what was done by then is kept", err=True)


class Leave(Exception):
    """The person wants to go."""


class Chat:
    """A conversation with an agent, kept in `file` after every answer if one is given."""

    def __init__(self, agent: "agentkit.JsonAgent[str]", file: Path | None = None) -> None:
        self.agent = agent
        self.model: str | None = None
        self.file = file
        if file is not None and file.exists():
            agent.session = agentkit.Session.load(file)

    def take(self, line: str) -> None:
        """Do what a line says: a command, or a question."""
        line = line.strip()
        if not line.startswith("/"):
            if line:
                self._answer(line)
            return
        name, _, rest = line[1:].partition(" ")
        command: Callable[[str], None] | None = getattr(self, f"do_{name}", None)
        if command is None:
            click.echo(f"there is no command /{name}\n{HELP}", err=True)
        else:
            command(rest.strip())

    def _answer(self, question: str) -> None:
        with watching() as listen:
            last: Any = None
            for last in self.agent.stream(question, model=self.model):
                listen(last)
        click.echo(last.result.text)
        if self.file is not None:
            self.agent.session.save(self.file)

    def do_help(self, _: str) -> None:
        """What can be done."""
        click.echo(HELP)

    def do_tools(self, _: str) -> None:
        """The tools there are."""
        for tool in self.agent.tools.values():
            click.echo(f"{tool.name}: {tool.description.splitlines()[0]}")

    def do_history(self, _: str) -> None:
        """The conversation so far."""
        self.agent.show_history()

    def do_model(self, name: str) -> None:
        """Another model from now on."""
        self.model = name or None
        click.echo(f"model: {name or 'the default'}")

    def do_undo(self, _: str) -> None:
        """Take the last question, and all that followed, back."""
        messages = self.agent.session.messages
        places = [place for place, message in enumerate(messages) if message["role"] == "user"]
        if not places:
            click.echo("there is nothing to take back")
            return
        click.echo(f"taken back: {messages[places[-1]]['content']}")
        del messages[places[-1] :]

    def do_save(self, name: str) -> None:
        """Keep the conversation."""
        file = Path(name) if name else self.file
        if file is None:
            click.echo("where to? /save FILE", err=True)
            return
        self.agent.session.save(file)
        click.echo(f"saved: {file}")

    def do_load(self, name: str) -> None:
        """Go on with a kept conversation."""
        self.agent.session = agentkit.Session.load(name)
        click.echo(f"{len(self.agent.session.messages)} messages")

    def do_clear(self, _: str) -> None:
        """Begin anew."""
        self.agent.clear_history()

    def do_quit(self, _: str) -> None:
        """Leave."""
        raise Leave


def _line() -> str | None:
    """What the person writes next; None at the end."""
    parts: list[str] = []
    while True:
        try:
            parts.append(input("" if not sys.stdin.isatty() else "... " if parts else "> "))
        except EOFError:
            return "\n".join(parts) if parts else None
        except KeyboardInterrupt:
            click.echo("", err=True)
            parts.clear()
            continue
        if not parts[-1].endswith("\\"):
            return "\n".join(parts)
        parts[-1] = parts[-1][:-1]


def _remember_lines() -> None:
    """Line editing and the lines of earlier chats, where Python has readline."""
    if not sys.stdin.isatty():
        return
    with suppress(ImportError):
        readline = import_module("readline")
        file = HISTORY.expanduser()
        with suppress(OSError):
            readline.read_history_file(file)
        import_module("atexit").register(_keep_lines, readline, file)


def _keep_lines(readline: Any, file: Path) -> None:
    readline.set_history_length(1_000)
    with suppress(OSError):
        readline.write_history_file(file)
