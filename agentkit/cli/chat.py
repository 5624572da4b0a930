"""`agentkit chat`: a conversation, line by line."""

import shutil
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from ..core.parts import describe_part
from .agents import SESSION, agent_options, build_agent, command_to_resume, load_session
from .attachments import join_query, read_attachments
from .escape_key import EscapeKey
from .models import missing_variables, setup_hint
from .output import print_answer, print_error, print_note, print_text
from .reading import TEXT_DELIMITER, LineReader
from .servers import keep_open
from .views import follow, make_view

HELP_TEXT = f"""\
/tools         list the tools
/model [NAME]  print the model, or switch to another one
/history       print the conversation
/undo          remove the last question
/attach FILE   send an image, a PDF or a sound with the next question
/save [FILE]   save the conversation
/load FILE     continue a saved conversation
/clear         start a new conversation
/quit          leave (also Ctrl-D)
Alt-Enter, or \\ at the end of a line, begins another line.
{TEXT_DELIMITER} begins and ends a text of several lines.
Esc or Ctrl-C stops an answer, not the chat."""


@click.command("chat", short_help="Talk with an agent.")
@agent_options
@SESSION
def chat_command(file: Path | None, **settings: Any) -> None:
    """Talk with an agent; /help lists the commands.

    Lines on standard input are questions, too.  Exit codes: 0, and 2 for wrong usage.
    """
    talk = Chat(file, **settings)
    reader = LineReader(talk.commands)
    with keep_open(talk.agent.toolsets):
        _talk(talk, reader)


def _talk(talk: "Chat", reader: LineReader) -> None:
    """Read questions and commands until the person leaves."""
    if sys.stdin.isatty():
        talk.introduce()
    while (text := reader.read(talk.keyboard.take_typed())) is not None:
        try:
            talk.handle(text)
        except LeaveChat:
            break
        except (KeyboardInterrupt, agentkit.RunStopped):
            command = command_to_resume(talk.agent.session)
            print_note(f"\nstopped; finished steps are kept{f'. Continue with: {command}' if command else ''}")
        except Exception as error:
            print_error(error)


class LeaveChat(Exception):
    """The person ends the chat."""


class Chat:
    """A conversation with an agent, saved to `file` after every answer; `load` loads a model in the background."""

    def __init__(
        self,
        file: Path | None = None,
        *,
        model: str | None = None,
        load: Callable[[str | None], None] | None = None,
        **settings: Any,
    ) -> None:
        self._preload = load or import_module("agentkit.agents.backends").load_in_background
        self._view = make_view()
        self.keyboard = EscapeKey(lambda: self.agent.stop("Esc"))
        self.agent = build_agent(**settings, read=self._read)
        self.agent.session = load_session(file)
        self.model = model
        self.file = file
        self.attached: list[Path] = []
        self.commands: dict[str, Callable[[str], None]] = {
            f"/{name}": getattr(self, f"_{name}")
            for name in ("tools", "history", "model", "undo", "attach", "save", "load", "clear", "help", "quit")
        }

    def introduce(self) -> None:
        """Print the model, the tools and the session."""
        names = [tool.name for tool in self._list_tools()]
        columns = shutil.get_terminal_size().columns
        for text in (self._describe_model(), f"tools: {', '.join(names)}"):
            print_note(textwrap.fill(text, columns, subsequent_indent="       ", break_on_hyphens=False))
        if self.file is not None:
            count = sum(message["role"] == "user" for message in self.agent.session.messages)
            loaded = f"continued after {count} question{'' if count == 1 else 's'}" if count else "new"
            print_note(f"session: {self.file}, {loaded}")
        print_note("Ask away; /help for help.")

    def handle(self, text: str) -> None:
        """Run a command, or answer a question."""
        text = text.strip()
        name, _, rest = text.partition(" ")
        if command := self.commands.get(name):
            command(rest.strip())
        elif name.startswith("/") and "/" not in name[1:] and "\n" not in text:  # a path may begin a question
            print_note(f"there is no command {name}; /help lists them")
        elif text:
            self._ask(text)

    def _ask(self, question: str) -> None:
        query = join_query(question, read_attachments(self.attached))
        self.attached = []
        try:
            with self._view, self.keyboard.listen():
                result = follow(self.agent.stream(query, model=self.model), self._view)
        finally:
            self._save_if_named()
        print_answer(result.text)

    def _read(self, prompt: str) -> str:
        with self.keyboard.pause():
            return str(self._view.read(prompt))

    def _save_if_named(self) -> None:
        if self.file is not None:
            self.agent.session.save(self.file)

    def _help(self, _: str) -> None:
        print_text(HELP_TEXT)

    def _list_tools(self) -> "list[agentkit.JsonTool[..., Any]]":
        own, toolsets = self.agent.tools, self.agent.toolsets
        return [*own.own_tools, *import_module("agentkit.tools.toolset").name_toolset_tools(toolsets, own)]

    def _tools(self, _: str) -> None:
        for tool in self._list_tools():
            print_text(f"{tool.name}: {tool.description.splitlines()[0]}")

    def _history(self, _: str) -> None:
        self.agent.show_history()

    def _model(self, name: str) -> None:
        self.model = name or self.model
        print_text(self._describe_model())

    def _describe_model(self) -> str:
        """Describe the model in one line, and start to load its backend while the person types."""
        self._preload(self.model)
        backend, note = self.agent.choose_backend(self.model)
        notes = [note, setup_hint(missing_variables(backend.name.partition("/")[0]))]
        return f"model: {backend.name}{''.join(f' ({text})' for text in notes if text)}"

    def _undo(self, _: str) -> None:
        question = undo_last_question(self.agent.session)
        self._save_if_named()
        print_text("there is no question to remove" if question is None else f"removed: {question}")

    def _attach(self, name: str) -> None:
        if not name:
            print_note("name a file: /attach FILE")
            return
        (part,) = read_attachments([Path(name).expanduser()])
        self.attached.append(Path(name).expanduser())
        print_text(f"sent with the next question: {describe_part(part.as_part(), part.name)}")

    def _save(self, name: str) -> None:
        file = Path(name).expanduser() if name else self.file
        if file is None:
            print_note("name a file: /save FILE")
            return
        self.agent.session.save(file)
        print_text(f"saved: {file}")

    def _load(self, name: str) -> None:
        if not name:
            print_note("name a file: /load FILE")
            return
        self.agent.session = agentkit.Session.load(Path(name).expanduser())
        print_text(f"loaded: {len(self.agent.session.messages)} messages")

    def _clear(self, _: str) -> None:
        self.agent.clear_history()
        self._save_if_named()
        print_text("cleared")

    def _quit(self, _: str) -> None:
        raise LeaveChat


def undo_last_question(session: "agentkit.Session") -> str | None:
    """Remove the last question and all messages after it; return the question, or None without one."""
    loop, messages = import_module("agentkit.engine.loop"), import_module("agentkit.core.messages")
    for place in reversed(range(len(session.messages))):
        message = session.messages[place]
        text: str = messages.text_of(message)
        if message["role"] == "user" and text != loop.REMINDER:
            del session.messages[place:]
            return text
    return None
