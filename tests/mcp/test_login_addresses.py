"""The addresses that a server names for its login: one outside leads to none inside."""

import asyncio
import json
import ssl

import httpx2
import pytest
from internet import certificate, internet, tls_server

from agentkit import RunError
from agentkit.mcp import StoredLogin
from agentkit.mcp.oauth import LoginServer

__all__ = ["certificate", "internet", "tls_server"]


OUTSIDE = "https://93.184.215.14/mcp"
INSIDE = "http://127.0.0.1:9/mcp"


def requests_of(server, *replies):
    """Return the requests of a login at a server as they are sent; it answers with these replies after a 401."""

    async def work():
        flow = (
            StoredLogin(server).make_auth(1, show=lambda address: None).async_auth_flow(httpx2.Request("POST", server))
        )
        sent = [await anext(flow)]
        for status, headers, body in ((401, {}, b""), *replies):
            sent.append(await flow.asend(httpx2.Response(status, headers=headers, content=body, request=sent[-1])))
        return sent

    return asyncio.run(work())


def ask_for_login(server, *replies):
    """Return the addresses that a login at a server asks after its first request."""
    return [str(request.url) for request in requests_of(server, *replies)[1:]]


def metadata(*servers, resource):
    return 200, {}, json.dumps({"resource": resource, "authorization_servers": servers}).encode()


@pytest.mark.parametrize(
    "named", ["https://inside.example", "https://169.254.169.254/", "https://10.1.2.3", "https://[::1]:8443", "http://93.184.215.14", "https://0x7f.1/"]
)  # fmt: skip
def test_a_server_outside_leads_a_login_to_no_address_inside(internet, named):
    internet.names["inside.example"] = [["10.1.2.3"]]
    with pytest.raises(
        RunError, match=r"the server https://93.184.215.14/mcp names 'http.* for its login, which was not"
    ):
        ask_for_login(OUTSIDE, metadata(named, resource=OUTSIDE))


def test_a_server_outside_may_name_another_one_outside(internet):
    asked = ask_for_login(OUTSIDE, metadata("https://93.184.215.15", resource=OUTSIDE))
    assert asked[-1] == "https://93.184.215.15/.well-known/oauth-authorization-server"


def test_a_server_inside_may_name_another_one_inside(internet):
    asked = ask_for_login(INSIDE, metadata("http://127.0.0.1:10", resource=INSIDE))
    assert asked[-1] == "http://127.0.0.1:10/.well-known/oauth-authorization-server"


@pytest.mark.parametrize("second", ["10.1.2.3", "93.184.215.99"], ids=["inside", "another one"])
def test_a_name_is_looked_up_once_and_the_request_goes_to_the_address_that_was_checked(internet, second):
    internet.names["login.example"] = [["93.184.215.15"], [second]]
    *_, last = requests_of(OUTSIDE, metadata("https://login.example", resource=OUTSIDE))
    assert internet.lookups.count("login.example") == 1
    assert str(last.url) == "https://93.184.215.15/.well-known/oauth-authorization-server"
    assert last.headers["host"] == "login.example"
    assert last.extensions["sni_hostname"] == "login.example", "the certificate is that of the name"


def test_a_server_that_moves_inside_after_its_first_look_up_stays_outside(internet):
    own = "https://mcp.example/mcp"
    internet.names["mcp.example"] = [["93.184.215.14"], ["127.0.0.1"]]
    with pytest.raises(RunError, match="which was not asked"):
        requests_of(own, metadata("https://10.1.2.3", resource=own))


def test_a_server_inside_is_asked_at_the_address_by_which_it_counts_as_inside(internet):
    own = "http://mcp.example/mcp"
    internet.names["mcp.example"] = [["127.0.0.1"], ["93.184.215.14"]]
    first, *_ = requests_of(own, metadata("http://127.0.0.1:10", resource=own))
    assert (str(first.url), first.headers["host"]) == ("http://127.0.0.1/mcp", "mcp.example")


def test_a_proxy_looks_names_up_itself_and_the_text_of_an_address_decides(internet, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    own = "https://mcp.example/mcp"
    *_, last = requests_of(own, metadata("https://login.example", resource=own))
    assert str(last.url) == "https://login.example/.well-known/oauth-authorization-server"
    with pytest.raises(RunError, match="which was not asked: It is not on the public internet"):
        requests_of(own, metadata("https://10.1.2.3", resource=own))
    assert internet.lookups == []


def test_the_certificate_at_the_checked_address_must_be_that_of_the_name(internet, tls_server, certificate):
    internet.names |= {"secure.example": [["93.184.215.15"], ["10.1.2.3"]], "other.example": [["93.184.215.15"]]}
    internet.routes["93.184.215.15", 443] = tls_server.server_port
    tls_server.answer("/token", "fine")
    context = ssl.create_default_context(cafile=certificate)
    server = LoginServer(OUTSIDE)

    async def get(url):
        async with httpx2.AsyncClient(verify=context) as client:
            return await client.send(server.pin(httpx2.Request("GET", url)))

    assert asyncio.run(get("https://secure.example/token")).text == "fine"
    assert tls_server.requests[0][1]["Host"] == "secure.example"
    with pytest.raises(httpx2.ConnectError, match="Hostname mismatch"):
        asyncio.run(get("https://other.example/token"))
