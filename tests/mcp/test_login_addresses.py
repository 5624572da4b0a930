"""The addresses that a server names for its login: one outside leads to none inside."""

import asyncio
import json

import httpx2
import pytest
from internet import internet

from agentkit import RunError
from agentkit.mcp import StoredLogin

__all__ = ["internet"]


OUTSIDE = "https://93.184.215.14/mcp"
INSIDE = "http://127.0.0.1:9/mcp"


def ask_for_login(server, *replies):
    """Return the addresses that a login at a server asks, which answers with these replies after a 401."""

    async def work():
        flow = (
            StoredLogin(server).make_auth(1, show=lambda address: None).async_auth_flow(httpx2.Request("POST", server))
        )
        asked = [await anext(flow)]
        for status, headers, body in ((401, {}, b""), *replies):
            reply = httpx2.Response(status, headers=headers, content=body, request=asked[-1])
            asked.append(await flow.asend(reply))
        return [str(request.url) for request in asked[1:]]

    return asyncio.run(work())


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
