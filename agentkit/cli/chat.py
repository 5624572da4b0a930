"""`agentkit chat`: a conversation, line by line."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from .agents import SESSION, agent_of, agent_options, resuming, session_of
from .output import answer, complain, conversation, remark
from .providers import missing, needs
from .reading import END, line, remember_lines
from .views import followed, view

HELP = f"""\
/tools         the tools there are
/model [NAME]  which model answers; another one from now on
/history       what was said so far
/undo          take the last question back
/save [FILE]   keep the conversation
/load FILE     go on with a kept one
/clear         begin anew
/quit          leave (also Ctrl-D)
A line that ends in \\ goes on in the next.
{END} begins and ends a text of many lines.
Ctrl-C stops an answer, not the chat."""


@click.command(short_help="Talk with an agent.")
@agent_options
@SESSION
def chat(file: Path | None, **settings: Any) -> None:
    """Talk with an agent; /help tells what else can be done.

    Lines that are piped in are questions, too.  Exit codes: 0, and 2 for wrong usage.
    """
    talk = Chat(file, **settings)
    remember_lines(talk.commands)
    if sys.stdin.isatty():
        remark("Ask away; /help for help.")
    while (said := line()) is not None:
        try:
            talk.take(said)
        except Leave:
            break
        except Exception as error:
            complain(error)
        except KeyboardInterrupt:
            command = resuming(talk.agent.session)
            remark(f"\nstopped; what was done by then is kept{f': {command} goes on' if command else ''}")


class Leave(Exception):
    """The person wants to go."""


class Chat:
    """A conversation with an agent, kept in `file` after every answer if one is given."""

    def __init__(self, file: Path | None = None, *, model: str | None = None, **settings: Any) -> None:
        self._view = view()
        self.agent = agent_of(**settings, read=self._view.read)
        self.agent.session = session_of(file)
        self.model = model
        self.file = file
        self.commands: dict[str, Callable[[str], None]] = {
            f"/{name}": getattr(self, f"_{name}")
            for name in ("tools", "history", "model", "undo", "save", "load", "clear", "help", "quit")
        }

    def take(self, said: str) -> None:
        """Do what was said: a command, or a question."""
        said = said.strip()
        name, _, rest = said.partition(" ")
        if command := self.commands.get(name):
            command(rest.strip())
        elif name.startswith("/") and "/" not in name[1:] and "\n" not in said:  # a path may begin a question
            remark(f"there is no command {name}; /help lists them")
        elif said:
            self._ask(said)

    def _ask(self, question: str) -> None:
        try:
            with self._view:
                result = followed(self.agent.stream(question, model=self.model), self._view)
        finally:
            self._keep()
        answer(result.text)

    def _keep(self) -> None:
        if self.file is not None:
            self.agent.session.save(self.file)

    def _help(self, _: str) -> None:
        click.echo(HELP)

    def _tools(self, _: str) -> None:
        for tool in self.agent.tools.values():
            if tool is not self.agent.tools.answer:
                click.echo(f"{tool.name}: {tool.description.splitlines()[0]}")

    def _history(self, _: str) -> None:
        conversation(self.agent.history)

    def _model(self, name: str) -> None:
        self.model = name or self.model
        backend, note = self.agent.choose_backend(self.model)
        notes = [note, needs(missing(backend.name.partition("/")[0]))]
        click.echo(f"model: {backend.name}{''.join(f' ({told})' for told in notes if told)}")

    def _undo(self, _: str) -> None:
        question = take_back(self.agent.session)
        self._keep()
        click.echo("there is nothing to take back" if question is None else f"taken back: {question}")

    def _save(self, name: str) -> None:
        file = Path(name).expanduser() if name else self.file
        if file is None:
            remark("where to? /save FILE")
            return
        self.agent.session.save(file)
        click.echo(f"saved: {file}")

    def _load(self, name: str) -> None:
        if not name:
            remark("what from? /load FILE")
            return
        self.agent.session = agentkit.Session.load(Path(name).expanduser())
        click.echo(f"{len(self.agent.session.messages)} messages")

    def _clear(self, _: str) -> None:
        self.agent.clear_history()
        self._keep()
        click.echo("forgotten")

    def _quit(self, _: str) -> None:
        raise Leave


def take_back(session: "agentkit.Session") -> str | None:
    """Take the last question, and all that followed it, out of a conversation; returns it, None if there is none."""
    loop, messages = import_module("agentkit.engine.loop"), import_module("agentkit.core.messages")
    for place in reversed(range(len(session.messages))):
        message = session.messages[place]
        text: str = messages.text_of(message)
        if message["role"] == "user" and text != loop.REMINDER:
            del session.messages[place:]
            return text
    return None
