"""A small disk for one server of tests: memory that is mounted where only its processes see it."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HOLD = 'mount -t tmpfs -o size="$1"m,mode=0777 none "$2" && echo mounted && exec sleep infinity'
"""The namespace lives as long as the process that mounts."""


class SmallDisk:
    """A folder with little room; `command` turns a command into one that sees it."""

    def __init__(self, folder: Path, holder: int, user: tuple[int, int] | None) -> None:
        self.folder = folder
        become = ("-S", str(user[0]), "-G", str(user[1])) if user else ("-U", "--preserve-credentials")
        self._enter = ("nsenter", "-t", str(holder), "-m", *become)

    def command(self, *words: "str | Path") -> list[str]:
        return [*self._enter, *map(str, words)]

    def fill(self) -> None:
        """Leave no room."""
        words = self.command("dd", "if=/dev/zero", f"of={self.folder / 'filling'}", "bs=1M")
        assert b"No space left" in subprocess.run(words, capture_output=True, check=False).stderr

    def empty(self) -> None:
        """Give back the room that `fill` took."""
        subprocess.run(self.command("rm", self.folder / "filling"), check=True)


@contextmanager
def small_disk(folder: Path, megabytes: int, user: tuple[int, int] | None) -> Iterator[SmallDisk]:
    """A disk of a size; `user` has the ids of the user that it is for, if the tests run as root.

    Raises:
        OSError: This machine does not let its users mount one.
    """
    own: Sequence[str] = ("unshare", "-m") if os.getuid() == 0 else ("unshare", "-U", "-m", "-c", "--keep-caps")
    words = [*own, "sh", "-c", HOLD, "sh", str(megabytes), str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as holder:
        assert holder.stdout
        try:
            if (said := holder.stdout.readline()) != "mounted\n":
                raise OSError(f"no small disk can be mounted ({said.strip()})")
            yield SmallDisk(folder, holder.pid, user)
        finally:
            holder.kill()
