"""`agentkit chat`: a conversation, line by line.

Lines can be edited and have a history, and a text may have several lines.  While a run works, the Escape key stops it,
and other keys are kept for the next prompt.
"""

import os
import re
import select
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import agentkit

from ..extend import create_private, describe_part
from .agents import SESSION, agent_options, build_agent, command_to_resume, load_session
from .models import missing_variables, setup_hint
from .output import answered_input, follow, make_view, print_answer, print_error, print_note, print_text
from .targets import AgentCommand, join_query, read_attachments

MAX_TYPED_BYTES = 65_536
"""The most that is read of a terminal at a time."""
HISTORY_FILE = Path("~/.agentkit_history")
TEXT_DELIMITER = '"""'
"""Begins and ends a text of several lines."""


class LineReader:
    """Reads texts of one or several lines, with a history of earlier chats and completion of `commands`.

    That is what a terminal has with prompt_toolkit (extra `cli`); without it, Python's readline edits a line.
    """

    def __init__(self, commands: Iterable[str]) -> None:
        self._editor: Any = None
        if not sys.stdin.isatty():
            return
        if find_spec("prompt_toolkit") and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            self._editor = _make_editor(sorted(commands))
        else:
            with suppress(ImportError):
                import_module("readline").parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one text

    def read(self, typed: str = "") -> str | None:
        """Return the person's next text; None at the end of the input.

        `typed` was typed before the prompt.
        """
        parts: list[str] = []
        is_text = False
        while True:
            try:
                part = self._read_part("... " if parts else "> ", typed)
            except EOFError:
                return "\n".join(parts) if parts else None
            except KeyboardInterrupt:  # the unfinished text is dropped
                print_note("" if parts else "\nCtrl-D or /quit leaves")
                parts = []
                is_text = False
                continue
            finally:
                typed = ""
            if not parts and part.lstrip().startswith(TEXT_DELIMITER):
                part = part.lstrip().removeprefix(TEXT_DELIMITER)
                is_text = True
            if is_text:
                parts.append(part.rstrip().removesuffix(TEXT_DELIMITER))
                if part.rstrip().endswith(TEXT_DELIMITER):
                    return "\n".join(parts)
            elif part.endswith("\\"):
                parts.append(part[:-1])
            else:
                return "\n".join([*parts, part])

    def _read_part(self, prompt: str, typed: str) -> str:
        """Return the next input; what was entered before and is not one line goes into the prompt, to be confirmed."""
        prompt = prompt if sys.stdin.isatty() else ""
        pending = typed + _take_pending_lines()
        if pending.find("\n") == len(pending) - 1 >= 0 or (pending and self._editor is None):
            click.echo(f"{prompt}{pending}", nl=False)
            return pending.removesuffix("\n")
        return input(prompt) if self._editor is None else str(self._editor.prompt(prompt, default=pending))


def _take_pending_lines() -> str:
    """Return the whole lines that were entered at the terminal before the prompt."""
    pending = b""
    while os.name == "posix" and sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        if not (data := os.read(sys.stdin.fileno(), MAX_TYPED_BYTES)):
            if not pending:
                raise EOFError
            break
        pending += data
    return pending.decode(sys.stdin.encoding, errors="replace")


def _make_editor(commands: Sequence[str]) -> Any:
    """Return a session of prompt_toolkit: Enter sends, Alt-Enter begins a line, pasted lines are one text."""
    bindings = import_module("prompt_toolkit.key_binding").KeyBindings()
    bindings.add("enter")(lambda event: event.current_buffer.validate_and_handle())
    bindings.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    return import_module("prompt_toolkit").PromptSession(
        history=_open_history(),
        completer=import_module("prompt_toolkit.completion").WordCompleter(commands, sentence=True),
        complete_while_typing=False,
        key_bindings=bindings,
        multiline=True,
        prompt_continuation=lambda *_: "... ",
    )


def _open_history() -> Any:
    """Return the history in the person's own file, or one in memory where it cannot be written."""
    kinds = import_module("prompt_toolkit.history")
    file = HISTORY_FILE.expanduser()
    try:
        create_private(file)
        file.chmod(0o600)
    except OSError:
        return kinds.InMemoryHistory()
    return kinds.FileHistory(str(file))


if sys.platform != "win32":
    import termios

SEQUENCE_SECONDS = 0.05
"""The time within which the rest of a key's sequence follows its escape character; alone it is the Escape key."""
_ESCAPE = b"\x1b"
_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?")


class EscapeKey:
    """Call `stop` when the person presses Escape inside `listen`, on a terminal only.

    The terminal is in cbreak mode meanwhile, so that keys are read at once; Ctrl-C works as always.  `pause` leaves it
    to someone who asks the person.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._typed = b""
        self._mode: list[Any] | None = None
        self._thread: threading.Thread | None = None
        self._wake = -1
        self._is_open = False
        self._lock = threading.Lock()

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Read the keyboard inside the block."""
        if sys.platform == "win32" or sys.stdin is None or not sys.stdin.isatty():
            yield
            return
        self._is_open = True
        self._begin()
        try:
            yield
        finally:
            self._is_open = False
            self._end()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the keyboard to others inside the block, with the terminal as it was before."""
        with self._lock:  # questions of several threads come one after the other
            self._end()
            try:
                with self._escape_ends_line():
                    yield
            finally:
                if self._is_open:  # else the run was ended meanwhile
                    self._begin()

    @contextmanager
    def _escape_ends_line(self) -> Iterator[None]:
        """Let the Escape key end the line that is read inside the block, without an echo."""
        if self._mode is None:
            yield
            return
        mode = [*self._mode]
        mode[3] &= ~termios.ECHOCTL
        mode[6] = [*mode[6]]
        mode[6][termios.VEOL] = _ESCAPE
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)
        try:
            yield
        finally:
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._mode)

    def is_pressed(self) -> bool:
        """Return whether the Escape key itself ended a line; else discard the rest of the sequence of another key."""
        mode = termios.tcgetattr(sys.stdin)
        raw = [*mode]
        raw[3] &= ~termios.ICANON  # else the rest has no end of line, and cannot be read
        termios.tcsetattr(sys.stdin, termios.TCSANOW, raw)
        try:
            if not select.select([sys.stdin], [], [], SEQUENCE_SECONDS)[0]:
                return True
            os.read(sys.stdin.fileno(), MAX_TYPED_BYTES)
            return False
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, mode)

    def take_typed(self) -> str:
        """Return the text that was typed meanwhile, with its corrections applied, and forget it."""
        data = self._typed
        self._typed = b""
        text = _SEQUENCE.sub("", data.decode(sys.stdin.encoding or "utf-8", errors="replace").replace("\r", "\n"))
        kept: list[str] = []
        for letter in text:
            if letter in "\x7f\b":
                del kept[-1:]
            elif letter == "\x15":
                kept.clear()
            elif letter.isprintable() or letter in "\n\t":
                kept.append(letter)
        return "".join(kept)

    def _begin(self) -> None:
        self._mode = termios.tcgetattr(sys.stdin)
        mode = [*self._mode]
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)
        awaited, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(sys.stdin.fileno(), awaited), daemon=True)
        self._thread.start()

    def _end(self) -> None:
        if self._thread is None:
            return
        os.close(self._wake)
        self._thread.join()
        self._thread = None
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._mode or [])

    def _read(self, keyboard: int, awaited: int) -> None:
        """Read keys until the other end of the pipe `awaited` is closed."""
        try:
            while True:
                ready, _, _ = select.select([keyboard, awaited], [], [])
                if awaited in ready:
                    return
                data = os.read(keyboard, MAX_TYPED_BYTES)
                if not data:
                    return
                while data.endswith(_ESCAPE):
                    if not select.select([keyboard], [], [], SEQUENCE_SECONDS)[0]:
                        self._stop()
                        break
                    data += os.read(keyboard, MAX_TYPED_BYTES)
                self._typed += data
        except OSError:  # the terminal is gone
            return
        finally:
            os.close(awaited)


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


@click.command("chat", cls=AgentCommand)
@agent_options
@SESSION
def chat_command(file: Path | None, **settings: Any) -> None:
    """Talk with an agent; /help lists the commands.

    Lines on standard input are questions, too.  Exit codes: 0, and 2 for wrong usage.
    """
    talk = Chat(file, **settings)
    reader = LineReader(talk.commands)
    with agentkit.extend.opened_toolsets(talk.agent.toolsets):
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
        self._preload = load or agentkit.extend.load_in_background
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
        names = [tool.name for tool in self.agent.tools.own_tools]
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
            with self._view, self.keyboard.listen(), answered_input(self._read):
                result = follow(self.agent, query, self._view.draw, model=self.model)
        finally:
            self._save_if_named()
        print_answer(result.text)

    def _read(self, prompt: str) -> str:
        """Ask the person during a run; the Escape key stops the run there, too."""
        with self.keyboard.pause():
            typed = ""
            while (entry := str(self._view.read(prompt))).endswith("\x1b"):
                if self.keyboard.is_pressed():
                    self.agent.stop("Esc")
                    raise KeyboardInterrupt
                typed += entry[:-1]  # the sequence of another key is dropped
                prompt = ""
            return typed + entry

    def _save_if_named(self) -> None:
        if self.file is not None:
            self.agent.session.save(self.file)

    def _help(self, _: str) -> None:
        print_text(HELP_TEXT)

    def _tools(self, _: str) -> None:
        for tool in self.agent.tools.own_tools:
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
        question = agentkit.extend.undo_last_question(self.agent.session.messages)
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
