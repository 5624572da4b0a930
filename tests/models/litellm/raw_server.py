"""A server that is slow in ways that no whole reply is: each connection is handed to a function that writes to it."""

import socket
import threading
from collections.abc import Callable
from types import TracebackType

PACE = 0.02
PATHS = {"openai": "/v1", "groq": "/openai/v1"}


class Line:
    """The server's end of a connection."""

    def __init__(self, connection: socket.socket, closing: threading.Event) -> None:
        self.connection = connection
        self.closing = closing
        self.hung_up = threading.Event()

    def say(self, text: str) -> None:
        self.connection.sendall(text.encode())

    def chunk(self, text: str) -> None:
        self.say(f"{len(text.encode()):x}\r\n{text}\r\n")

    def forever(self, write: Callable[[], object]) -> None:
        while not self.closing.wait(PACE):
            write()


def silent(line: Line) -> None:
    line.closing.wait()


def drips_headers(line: Line) -> None:
    line.say("HTTP/1.1 200 OK\r\n")
    line.forever(lambda: line.say("X-More: 1\r\n"))


def drips_the_body(line: Line) -> None:
    line.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    line.forever(lambda: line.chunk(" "))


def keeps_alive(line: Line) -> None:
    line.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    line.forever(lambda: line.chunk(": ping\n\n"))


class SlowServer:
    """Answers every request with `answer`; `lines` are its connections so far."""

    def __init__(self, answer: Callable[[Line], None]) -> None:
        self.answer = answer
        self.lines: list[Line] = []
        self.closing = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))

    def api_base(self, provider: str) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}{PATHS.get(provider, '')}"

    def __enter__(self) -> "SlowServer":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.closing.set()
        self.listener.shutdown(socket.SHUT_RDWR)  # which ends the wait for a client; a close does not
        self.listener.close()

    def _serve(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            line = Line(connection, self.closing)
            threading.Thread(target=self._talk, args=(line,), daemon=True).start()

    def _talk(self, line: Line) -> None:
        try:
            received = b""
            while b"\r\n\r\n" not in received:
                received += line.connection.recv(65536)
            self.lines.append(line)
            self.answer(line)
        except OSError:
            line.hung_up.set()
        finally:
            line.connection.close()
