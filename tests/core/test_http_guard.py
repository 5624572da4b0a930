"""What is checked of a request before an app sees it: the host, the origin, who asks, the type and size of the body."""

import asyncio
import json

import pytest

from agentkit import DefinitionError
from agentkit.core.http_guard import MAX_BODY_BYTES, Guard, user_of

MIB = b"x" * (1 << 20)


def exchange(guard, *, method="GET", body=(), server="127.0.0.1", host="127.0.0.1:80", path="/", query=b"", **headers):
    """Return the status and the body of the answer to a request, whose body comes in pieces."""
    sent = []
    given = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "server": (server, 80),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    pieces = [{"type": "http.request", "body": piece, "more_body": True} for piece in body]
    pieces.append({"type": "http.request", "body": b"", "more_body": False})
    rest = iter(pieces)

    async def receive():
        return next(rest, {"type": "http.disconnect"})

    async def send(message):
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    if not sent:
        return None, ""
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent).decode()


async def echo(scope, receive, send):
    """Answer with the user and the size of the body."""
    size = 0
    if scope["method"] == "POST":
        message = await receive()
        size = len(message["body"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps([user_of(scope), size]).encode()})


@pytest.mark.parametrize(
    ("how", "request_", "status"),
    [
        ({}, {}, 200),
        ({}, {"host": "LOCALHOST:9"}, 200),
        ({}, {"host": "evil.example"}, 421),
        ({}, {"host": "evil.example", "server": "10.0.0.1"}, 200),
        ({}, {"host": "127.0.0.1.evil.example"}, 421),
        ({}, {"host": "localhost:9.evil.example"}, 421),
        ({"user": lambda scope: "ada"}, {"host": "shop.example"}, 200),
        ({"hosts": ["shop.example"]}, {"host": "shop.example:8443", "server": "10.0.0.1"}, 200),
        ({"hosts": ["shop.example:8443"]}, {"host": "shop.example", "server": "10.0.0.1"}, 421),
        ({"hosts": ["Adas-Mac.local"]}, {"host": "adas-mac.local:8080"}, 200),
        ({"allow_origins": ["https://Shop.example"]}, {"origin": "https://shop.example"}, 200),
        ({}, {"origin": "http://127.0.0.1:80"}, 200),
        ({}, {"origin": "http://127.0.0.1:81"}, 403),
        ({}, {"origin": "null"}, 403),
        ({"allow_origins": ["https://shop.example"]}, {"origin": "https://shop.example"}, 200),
        ({"allow_origins": ["https://shop.example"]}, {"origin": "http://shop.example"}, 403),
        ({"allow_origins": ["http://localhost:*"]}, {"origin": "http://localhost:3000"}, 200),
        ({"allow_origins": ["http://localhost:*"]}, {"origin": "http://localhost.evil.example"}, 403),
        ({"allow_origins": ["*"]}, {"origin": "https://any.example"}, 200),
    ],
)
def test_the_host_and_the_origin(how, request_, status):
    found, text = exchange(Guard(echo, **how), **request_)
    assert found == status
    if status == 421:
        assert "hosts=[...]" in text
    if status == 403:
        assert "allow_origins=[...]" in text


def test_a_preflight_of_an_allowed_origin_needs_no_token_and_that_of_another_one_is_refused():
    guard = Guard(echo, allow_origins=["https://shop.example"], token="secret")
    asked = {"method": "OPTIONS", "access_control_request_method": "POST"}
    assert exchange(guard, origin="https://shop.example", **asked)[0] == 204
    assert exchange(guard, origin="https://evil.example", **asked)[0] == 403
    assert exchange(guard, origin="https://shop.example", method="OPTIONS")[0] == 401, "no preflight"
    assert exchange(guard, **asked)[0] == 401, "no origin"


@pytest.mark.parametrize("name", ["", "https://shop.example"])
def test_a_host_that_is_not_a_name_is_a_mistake(name):
    with pytest.raises(DefinitionError, match="expected names"):
        Guard(echo, hosts=[name])
    with pytest.raises(DefinitionError, match="with its scheme"):
        Guard(echo, allow_origins=["shop.example"])
    with pytest.raises(DefinitionError, match="lets any page act"):
        Guard(echo, allow_origins=["*"], user=lambda scope: "ada")


JSON = {"method": "POST", "content_type": "application/json; charset=utf-8"}


def test_a_body_must_be_json_and_not_too_large_in_one_piece_or_in_many():
    guard = Guard(echo)
    assert exchange(guard, **JSON, body=[b"{", b"}"]) == (200, '["", 2]')
    assert exchange(guard, method="POST", content_type="text/plain", body=[b"{}"])[0] == 415
    assert exchange(guard, method="POST", body=[b"{}"])[0] == 415
    assert exchange(guard, **JSON, content_length=str(MAX_BODY_BYTES + 1))[0] == 413
    status, text = exchange(guard, **JSON, transfer_encoding="chunked", body=[MIB] * 24)
    assert (status, text) == (413, '{"error": "the body is too large: expected at most 25,000,000 bytes."}')
    assert exchange(guard, **JSON, transfer_encoding="chunked", body=[MIB] * 23)[0] == 200


def test_a_body_that_stops_ends_the_request():
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    asyncio.run(Guard(echo, body_seconds=0.05)(scope, receive, send))
    assert sent[0]["status"] == 408


def test_a_client_that_leaves_in_the_body_gets_no_answer():
    async def run():
        async def receive():
            return {"type": "http.disconnect"}

        async def send(message):
            raise AssertionError(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await Guard(echo)(scope, receive, send)

    asyncio.run(run())


async def read_header(scope):
    return dict(scope["headers"]).get(b"x-user", b"").decode()


class Unauthorised(Exception):
    """As the HTTPException of a web framework."""

    status_code = 403
    detail = "not for you"
    headers = None


def refuse(scope):
    raise Unauthorised


@pytest.mark.parametrize(
    ("user", "answer"),
    [
        (read_header, (200, '["ada", 0]')),
        (lambda scope: dict(scope["headers"])[b"x-user"].decode(), (200, '["ada", 0]')),
        (lambda scope: read_header(scope), (200, '["ada", 0]')),
        (lambda scope: 7, (200, '["7", 0]')),
        (lambda scope: None, (401, '{"error": "nobody is signed in"}')),
        (lambda scope: "", (401, '{"error": "nobody is signed in"}')),
        (refuse, (403, '{"error": "not for you"}')),
    ],
)
def test_the_user_of_a_request(user, answer):
    assert exchange(Guard(echo, user=user), x_user="ada") == answer


def test_a_user_is_known_before_the_body_is_read():
    assert exchange(Guard(echo, user=lambda scope: None), **JSON, body=[MIB] * 30)[0] == 401
    with pytest.raises(DefinitionError, match="expected the user's id as a text or a number, got dict"):
        exchange(Guard(echo, user=lambda scope: {}))


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "bearer  secret"}, 200),
        ({"authorization": "Bearer other"}, 401),
        ({"x_agentkit_token": "secret"}, 200),
        ({"query": b"token=secret"}, 200),
        ({"x_agentkit_token": "secret", "authorization": "Basic YWRhOng="}, 200),
        ({"query": b"token=secret", "authorization": "Basic YWRhOng="}, 200),
        ({"query": b"token=other", "authorization": "Basic YWRhOng="}, 401),
        ({"x_agentkit_token": ""}, 401),
        ({}, 401),
    ],
)
def test_a_token_passes_beside_the_sign_in_of_a_proxy(given, status):
    guard = Guard(echo, token="secret", is_token_in_address=True)
    assert exchange(guard, **given)[0] == status


def test_a_token_is_taken_from_the_address_only_where_that_is_allowed():
    guard = Guard(echo, token="secret")
    assert exchange(guard, query=b"token=secret")[0] == 401
    assert exchange(guard, x_agentkit_token="secret")[0] == 401
