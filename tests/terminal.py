"""A program at a terminal of its own (a pty), for tests of what a person sees and types."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from typing import Any

from waiting import noting

NO_ANSWERS = {"PROMPT_TOOLKIT_NO_CPR": "1"}
"""This terminal does not tell where its cursor is."""

SIZE = ("COLUMNS", "LINES")
"""Variables in the place of the size of this terminal; the workers of pytest have them."""


class Terminal:
    """A program at a terminal of its own."""

    def __init__(
        self, *arguments: str, width: int = 80, height: int = 24, program: tuple[str, ...] = ("-m", "agentkit")
    ) -> None:
        self.process, self.side = pty.fork()
        if self.process == 0:
            inherited = {name: value for name, value in os.environ.items() if name not in SIZE}
            environment = {**inherited, "TERM": "xterm", **NO_ANSWERS}
            os.execve(sys.executable, [sys.executable, *program, *arguments], environment)
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.text = ""
        self._seen = 0
        self.code: int | None = None
        self.mode: list[Any] = []
        """What the program left the terminal in."""
        self._over = False

    def expect(self, text: str) -> None:
        """Wait until `text` comes, after what was waited for last."""
        with noting(lambda: f"There is: {self.text[self._seen :]!r}"):
            while text not in self.text[self._seen :]:
                assert self._read(), f"the program ended before {text!r} came"
        self._seen = self.text.index(text, self._seen) + len(text)

    def expect_prompt(self) -> None:
        """Wait until the chat reads keys: the terminal then marks pasted text."""
        self.expect("\x1b[?2004h")
        self.expect(">")

    def send(self, keys: str) -> None:
        os.write(self.side, keys.encode())

    def ask(self, line: str, answer: str) -> None:
        """Write a line at the prompt, and wait for the answer."""
        self.expect_prompt()
        self.send(f"{line}\n")
        self.expect(answer)

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        with noting(lambda: f"There is: {self.text[self._seen :]!r}"):
            while self._read():
                pass
        return self.close()

    def close(self) -> int:
        if self.code is None:
            if not self._over:
                os.kill(self.process, signal.SIGKILL)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
            self.mode = termios.tcgetattr(self.side)
            os.close(self.side)
        return self.code

    def _read(self) -> bool:
        """Wait for text, and return whether some came; without, the program has ended."""
        try:
            data = os.read(self.side, 65536)
        except OSError:
            data = b""
        self.text += data.decode(errors="replace")
        self._over = not data
        return bool(data)
