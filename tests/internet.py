"""A small internet: names and addresses that a test invents, all of them leading to servers on 127.0.0.1."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from ddgs.http_client import HttpClient

CONNECT = socket.socket.connect
LOOK_UP = socket.getaddrinfo


class Internet:
    """What the resolver says and where connections lead; whatever a test did not foresee fails it."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}  # a name -> its addresses at the first lookup, at the next ...
        self.routes: dict[tuple[str, int], int] = {}  # a public address and port -> a port of 127.0.0.1
        self.lookups: list[str] = []
        self.connections: list[str] = []
        self.unforeseen: list[str] = []

    def look_up(self, host, port, family=0, type=0, proto=0, flags=0):
        self.lookups.append(host)
        try:
            return LOOK_UP(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
        except socket.gaierror:
            if host not in self.names:
                self.unforeseen.append(f"lookup of {host}")
        answers = self.names.get(host, [[]])
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = [LOOK_UP(address, port, 0, type, proto, socket.AI_NUMERICHOST) for address in addresses]
        return [entry for entries in found for entry in entries]

    def connect(self, connection: socket.socket, address) -> None:
        self.connections.append(address[0])
        if (port := self.routes.get((address[0], address[1]))) is not None:
            return CONNECT(connection, ("127.0.0.1", port))
        if not ip_address(address[0]).is_loopback:
            self.unforeseen.append(f"connection to {address}")
            raise OSError("no such network")
        return CONNECT(connection, address)


@pytest.fixture(autouse=True)
def internet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Internet]:
    internet = Internet()
    monkeypatch.setattr(socket, "getaddrinfo", internet.look_up)
    monkeypatch.setattr(socket.socket, "connect", lambda connection, address: internet.connect(connection, address))
    monkeypatch.setattr(HttpClient, "request", lambda *args, **_: internet.unforeseen.append("a search"))
    monkeypatch.delenv("AGENTKIT_FETCH_ALLOW", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    yield internet
    assert internet.unforeseen == []


Answer = Callable[["Handler"], None]


class Server(ThreadingHTTPServer):
    """A web server whose pages are functions of the request; it remembers what it was asked."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def answer(self, path: str, body: bytes | str = b"", *, status: int = 200, **headers: str) -> None:
        """Answer `path` with this; `content_type="..."` is a header."""
        content = body.encode() if isinstance(body, str) else body

        def page(handler: Handler) -> None:
            handler.begin(status, headers)
            handler.wfile.write(content)

        self.pages[path] = page

    def hang(self, path: str, *, then: bytes = b"", first: bytes = b"") -> None:
        """Send `first`, and `then` again and again, slowly, until the client has gone."""

        def page(handler: Handler) -> None:
            handler.wfile.write(first)
            while not self.closing.wait(0.02):
                handler.wfile.write(then)

        self.pages[path] = page

    def handle_error(self, request, client_address) -> None:
        """A client that went away is no error here."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append((self.path, dict(self.headers)))
        if path in self.server.pages:
            self.server.pages[path](self)
        else:
            self.begin(404, {"content_type": "text/html"})

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _serve(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    yield from _serve(Server())


@pytest.fixture
def certificate() -> Path:
    """A self-signed certificate of `secure.example` and its key, made for these tests and trusted by no other program."""
    return Path(__file__).with_name("secure_example.pem")


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[Server]:
    """The same over TLS, with the certificate of `secure.example`; `server_names` is what clients ask for (SNI)."""
    server = Server()
    server.server_names = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda connection, name, _: server.server_names.append(name)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    yield from _serve(server)


@pytest.fixture
def allowed(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, let through by the operator's setting."""
    monkeypatch.setenv("AGENTKIT_FETCH_ALLOW", f"intranet:443, {server.host}")
    return server
