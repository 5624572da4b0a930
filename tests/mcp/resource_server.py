"""Our server behind a login: `python resource_server.py PORT SECONDS`, with an authorization server of the SDK."""

import sys

import uvicorn
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from oauth_server import Provider
from starlette.applications import Starlette
from starlette.routing import Mount

from agentkit import Injected
from agentkit.mcp import make_app


class Client:
    def __init__(self, name: str) -> None:
        self.name = name


def add(a: int, b: int, client: Injected[Client]) -> str:
    """Add integers."""
    return f"{a + b} for {client.name[:7]}"


def client_of(request) -> Client:
    token = request.user.access_token
    return Client(f"client of {token.resource}" if token.client_id else "nobody")


if __name__ == "__main__":
    port = int(sys.argv[1])
    place = f"http://127.0.0.1:{port}"
    provider = Provider(int(sys.argv[2]))
    settings = AuthSettings(issuer_url=place, resource_server_url=None)
    registration = ClientRegistrationOptions(enabled=True)
    logins = create_auth_routes(provider, settings.issuer_url, client_registration_options=registration)
    tools = make_app([add], verifier=provider.load_access_token, issuer=place, resource=f"{place}/mcp", deps=client_of)
    uvicorn.run(Starlette(routes=[*logins, Mount("/", tools)]), port=port, log_level="warning")
