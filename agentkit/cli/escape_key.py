"""The Escape key while a run works: it stops the run, and other keys are kept for the next prompt."""

import builtins
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

if sys.platform != "win32":
    import termios

SEQUENCE_SECONDS = 0.05
"""The time within which the rest of a key's sequence follows its escape character; alone it is the Escape key."""
_MAX_BYTES = 65_536
_ESCAPE = b"\x1b"
_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?")


class EscapeKey:
    """Call `stop` when the person presses Escape inside `listen`, on a terminal only.

    The terminal is in cbreak mode meanwhile, so that keys are read at once; Ctrl-C works as always.  `pause` leaves it
    to someone who asks the person, as `input` does.
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
        prompt = builtins.input

        def ask(text: object = "", /) -> str:
            with self.pause():
                return prompt(text)

        self._is_open = True
        self._begin()
        builtins.input = ask  # for tools that ask the person themselves
        try:
            yield
        finally:
            builtins.input = prompt
            self._is_open = False
            self._end()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the keyboard to others inside the block, with the terminal as it was before."""
        with self._lock:  # questions of several threads come one after the other
            self._end()
            try:
                yield
            finally:
                if self._is_open:  # else the run was ended meanwhile
                    self._begin()

    def take_typed(self) -> str:
        """Return the text that was typed meanwhile, with its corrections applied, and forget it."""
        data, self._typed = self._typed, b""
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
                data = os.read(keyboard, _MAX_BYTES)
                if not data:
                    return
                while data.endswith(_ESCAPE):
                    if not select.select([keyboard], [], [], SEQUENCE_SECONDS)[0]:
                        self._stop()
                        break
                    data += os.read(keyboard, _MAX_BYTES)
                self._typed += data
        except OSError:  # the terminal is gone
            return
        finally:
            os.close(awaited)
