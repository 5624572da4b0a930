"""Functions that run in processes of their own; it imports little, so that these begin soon."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import date
from pathlib import Path


@dataclass
class Point:
    x: int
    y: int


class Odd(Exception):
    """Cannot be made anew from its arguments."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def move(point: Point, by: int) -> Point:
    """Moves a point."""
    return Point(point.x + by, point.y)


def process_id() -> int:
    """Which process."""
    return os.getpid()


async def later() -> str:
    """Awaits."""
    await asyncio.sleep(0)
    return "later"


def numbers() -> object:
    """Gives numbers."""
    yield from range(3)


def talk() -> str:
    """Talks."""
    print("to the terminal")
    sys.stdout.flush()
    return "to the model"


def unpicklable() -> object:
    """Gives what stays."""
    return {"a": threading.Lock(), "b": 1}


def fail(kind: str) -> None:
    """Fails."""
    if kind == "odd":
        raise Odd("one", "two")
    if kind == "told":
        from agentkit import ToolError  # loads what only this needs

        raise ToolError("say so")
    raise ValueError("no")


def crash(how: str) -> None:
    """Crashes."""
    if how == "exit":
        os._exit(3)
    ctypes.string_at(0)


def leave(how: str) -> None:
    """Leaves."""
    raise {"exit": SystemExit(2), "interrupt": KeyboardInterrupt(), "generator": GeneratorExit("over")}[how]


def begin(how: str, path: str) -> None:
    """Begins a process that outlives the function."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=how == "session", stdin=subprocess.DEVNULL)
    Path(path).write_text(str(child.pid))
    if how == "crash":
        os.kill(os.getpid(), signal.SIGKILL)


def stuck(path: str) -> None:
    """Hangs in a way that no thread could be stopped in, with a process of its own beside it."""
    child = subprocess.Popen(["sleep", "60"])
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    while True:
        pass


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        self.start = start

    def count(self, by: int) -> int:
        """Counts on."""
        return self.start + by


def daemonize(path: str) -> None:
    """Starts a daemon: its parent has ended, and it has a session of its own."""
    code = f"import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nopen({path!r}, 'w').write(f'{{os.getpid()}} {os.getpid()}')\ntime.sleep(60)"
    subprocess.run([sys.executable, "-c", code], check=True)
    while True:
        pass


def hold_the_interpreter(path: str) -> None:
    """Never gives up the interpreter lock."""
    Path(path).write_text(f"{os.getpid()} {os.getpid()}")
    ctypes.PyDLL(None).sleep(60)


class Poison:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)

    def __str__(self) -> str:
        return "a poisoned value"


def poison(path: str) -> object:
    """Gives what does harm when it is unpickled."""
    return Poison(path)


def typed() -> tuple[date, list[Point]]:
    """Gives values."""
    return date(2024, 1, 31), [Point(1, 2)]


def untyped():
    """Gives a point."""
    return Point(1, 2)


def image():
    """Gives an image."""
    return b"\x89PNG\r\n\x1a\n" + b"0" * 20
