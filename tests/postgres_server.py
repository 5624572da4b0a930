"""A PostgreSQL server for tests: from Debian's package, on a loopback port, with its data in a temporary folder.

The server refuses to run as root, so it then runs as the user `postgres` or `nobody`.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ports import free_port
from small_disk import SmallDisk, small_disk
from waiting import noting, wait_until

OWNER = "agentkit"
MEMORY = Path("/dev/shm")


def find_programs() -> Path | None:
    """The folder of initdb and postgres, the newest version first."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def why_not() -> str:
    """Why no server can be started; "" if one can."""
    if find_programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"psycopg cannot be imported ({error}): pip install 'psycopg[binary]>=3.2,<4'"
    return ""


def other_user() -> str | None:
    """The user that runs the server, None for the present one."""
    if os.getuid():
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class PostgresServer:
    """A server that can be stopped and started again at the same port."""

    def __init__(self, folder: Path, disk: SmallDisk | None = None) -> None:
        self.folder = folder
        self.programs = find_programs()
        self.user = other_user()
        self.disk = disk
        self.log = folder / "server.log"
        self.port = free_port()
        if self.user and disk is None:
            shutil.chown(folder, self.user)
        words = ("--username", OWNER, "--auth", "trust", "--encoding", "UTF8", "--no-sync", "--no-instructions")
        done = subprocess.run(
            **self._run("initdb", "-D", folder / "data", *words), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.process: Any = None
        self._free: list[str] = []
        self.start()

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 200,
            "full_page_writes": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                **self._run("postgres", "-D", self.folder / "data", *options), stdout=log, stderr=log
            )
        with noting(lambda: self.log.read_text()[-2000:]):
            wait_until(lambda: self.process.poll() is not None or self._answers())
            assert self.process.poll() is None, "the server ended"

    def _run(self, program: str, *words: Any) -> dict[str, Any]:
        """Return how subprocess starts a program of the server."""
        assert self.programs is not None
        command = [self.programs / program, *words]
        if self.disk is not None:  # which changes the user too
            return {"args": self.disk.command(*command), "cwd": "/"}
        return {"args": command, "user": self.user, "cwd": "/"}

    def stop(self, how: int = signal.SIGQUIT) -> None:
        """Stop at once (SIGQUIT), as in a crash, or end the connections first (SIGINT)."""
        self.process.send_signal(how)
        self.process.wait()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database, which is emptied for the next test afterwards.

        One in which a process of the test is still at work is not handed on.
        """
        from psycopg.errors import DeadlockDetected

        if self._free:
            name = self._free.pop()
        else:
            name = f"test_{secrets.token_hex(6)}"
            self.execute(f"CREATE DATABASE {name}")
        yield self.url(name)
        self.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")
        with suppress(DeadlockDetected):
            self.execute("DROP SCHEMA IF EXISTS agentkit CASCADE", name)
            self._free.append(name)

    def execute(self, sql: str, database: str = "postgres") -> None:
        """Run a statement over a connection of its own."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(sql.encode())

    def _answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError):
            self.execute("SELECT 1")
            return True
        return False


@contextmanager
def running_server(megabytes: int = 0) -> Iterator[PostgresServer]:
    """A server for the block; its files are in memory where that is possible, with `megabytes` on a small disk.

    Raises:
        OSError: There is no small disk here.
    """
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="postgres-")
            )
        )
        user = other_user()
        ids = pwd.getpwnam(user)[2:4] if user else None
        disk = stack.enter_context(small_disk(folder, megabytes, ids)) if megabytes else None
        server = PostgresServer(folder, disk)
        stack.callback(server.stop)
        yield server
