"""A folder with tools, the command line called in this process, and the command line at a terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import pytest
from click.testing import CliRunner

from agentkit.cli import main

TOOLS = '''
import time
from os.path import join
from agentkit import tool

def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b

def greet(name: str, loud: bool = False) -> str:
    """Greets a person.

    Args:
        name: Whom to greet.
    """
    return f"Hello {name}!"

def _private() -> None:
    pass
'''
MORE = '''
import time
from agentkit import tool

def wait_for(seconds: int) -> str:
    """Waits for some seconds."""
    time.sleep(seconds)
    return "waited"

@tool(effect="danger")
def delete_file(name: str) -> str:
    """Deletes a file."""
    return f"deleted {name}"

@tool(on_error="raise")
def burn(place: str) -> str:
    """Burns something."""
    raise ValueError(f"{place} is\\non fire")
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mytools.py").write_text(TOOLS)
    (tmp_path / "more.py").write_text(MORE)
    for name in [name for name in os.environ if name.startswith("AGENTKIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def run(folder):
    """Call the command line: its arguments, and the settings of click's runner (`input`, `env`)."""
    runner = CliRunner()
    return lambda *arguments, **settings: runner.invoke(main, arguments, **settings)


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, *arguments: str, width: int = 80, height: int = 24) -> None:
        self.process, self.side = pty.fork()
        if self.process == 0:
            os.execve(
                sys.executable, [sys.executable, "-m", "agentkit.cli", *arguments], {**os.environ, "TERM": "xterm"}
            )
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.text = ""
        self._seen = 0
        self.code: int | None = None
        self._over = False

    def expect(self, text: str, seconds: float = 30) -> None:
        """Wait until `text` comes, after what was waited for last."""
        end = time.monotonic() + seconds
        while text not in self.text[self._seen :]:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} did not come; there is: {self.text[self._seen :]!r}")
        self._seen = self.text.index(text, self._seen) + len(text)

    def send(self, keys: str) -> None:
        os.write(self.side, keys.encode())

    def ask(self, line: str, answer: str) -> None:
        """Write a line at the prompt, and wait for what comes of it."""
        self.expect("> ")
        self.send(f"{line}\n")
        self.expect(answer)

    def end(self, seconds: float = 30) -> int:
        """Wait for the end; returns the exit code."""
        end = time.monotonic() + seconds
        while self._read(end - time.monotonic()):
            pass
        return self.close()

    def close(self) -> int:
        if self.code is None:
            if not self._over:
                os.kill(self.process, signal.SIGKILL)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
            os.close(self.side)
        return self.code

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self.side], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.side, 65536)
        except OSError:
            data = b""
        self.text += data.decode(errors="replace")
        self._over = not data
        return bool(data)


@pytest.fixture
def terminal(folder):
    """Start the command line at a terminal: `terminal("chat", ..., width=60)`."""
    begun: list[Terminal] = []

    def start(*arguments: str, width: int = 80) -> Terminal:
        begun.append(Terminal(*arguments, width=width))
        return begun[-1]

    yield start
    for one in begun:
        one.close()
