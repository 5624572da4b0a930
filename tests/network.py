"""A network between a client and a server of tests, which can be cut, stand still, and come back."""

import select
import socket
import threading
from contextlib import suppress


class Network:
    """Passes on what goes to a port of the loopback interface, as long as it is up."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._is_cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._pairs: list[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._server.accept()[0]
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        if self._is_cut:
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self._target))
        self._pairs += [client, server]
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each exchange takes 40 ms more
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                if self._is_cut:
                    continue  # lost, and no side notices it
                sink.sendall(data)
            self._flows.wait()
            if not self._is_cut:
                sink.shutdown(socket.SHUT_WR)

    def url(self, url: str) -> str:
        """Return the URL of a database of the server over this network."""
        return url.replace(f":{self._target}/", f":{self.port}/")

    def cut(self) -> None:
        """Lose all packets; the client's side ends, the server's stays open, as when a machine loses its network."""
        self._is_cut = True
        for client in self._pairs[::2]:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Keep all packets: no side notices anything until `join`."""
        self._flows.clear()

    def join(self) -> None:
        """Let the packets through again."""
        self._is_cut = False
        self._flows.set()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # which ends the wait for a client; a close does not
        self._acceptor.join()
        self._server.close()
        for end in self._pairs:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # which ends the thread that waits for it
            end.close()


class Pooler(Network):
    """Gives the connection of a PostgreSQL client that has left to the next one, as a pooler of transactions does."""

    def __init__(self, port: int) -> None:
        self._backend: socket.socket | None = None
        self._welcome = b""
        super().__init__(port)

    def _connect(self, client: socket.socket) -> None:
        with client:
            startup = client.recv(65536)
            if self._backend is None:
                self._backend = socket.create_connection(("127.0.0.1", self._target))
                self._pairs.append(self._backend)
                self._backend.sendall(startup)
                while not self._welcome.endswith(READY):
                    self._welcome += self._backend.recv(65536)
            before, key, rest = self._welcome.partition(BACKEND_KEY)
            client.sendall(before + key + b"\x7f" + rest[1:])  # not the number of the server's process
            self._serve(client, self._backend)

    def _serve(self, client: socket.socket, backend: socket.socket) -> None:
        with suppress(OSError):
            while readable := select.select([client, backend], [], [])[0]:
                data = readable[0].recv(65536)
                if not data or (readable[0] is client and data == TERMINATE):
                    return
                (backend if readable[0] is client else client).sendall(data)

    def close(self) -> None:
        if self._backend is not None:
            with suppress(OSError):
                self._backend.shutdown(socket.SHUT_RDWR)
        super().close()


READY = b"Z\0\0\0\5I"
TERMINATE = b"X\0\0\0\4"
BACKEND_KEY = b"K\0\0\0\x0c"
"""The begins of messages of PostgreSQL's protocol; the last one is followed by the number of the server's process."""
