"""A server of the official SDK that wants a login: `python oauth_server.py PORT [SECONDS]`, of which each token is valid.

Every client is let in, unless the file `refuse` exists in the working directory.
"""

import secrets
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthToken


class Provider:
    """An authorization server in memory; it adds the kind of each grant to the file `grants`."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.clients = {}
        self.codes = {}
        self.refreshes = {}
        self.tokens = {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        if Path("refuse").exists():
            return f"{params.redirect_uri}?{urlencode({'error': 'access_denied', 'state': params.state})}"
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )
        return f"{params.redirect_uri}?{urlencode({'code': code, 'state': params.state})}"

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.grant("code", client, authorization_code)

    async def load_refresh_token(self, client, refresh_token):
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        return self.grant("refresh", client, self.refreshes.pop(refresh_token.token))

    async def load_access_token(self, token):
        found = self.tokens.get(token)
        return found if found is not None and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.tokens.pop(token.token, None)

    def grant(self, kind, client, asked):
        with open("grants", "a") as file:
            file.write(f"{kind}\n")
        access = f"access-{secrets.token_hex(16)}"
        refresh = f"refresh-{secrets.token_hex(16)}"
        more = {"client_id": client.client_id, "scopes": asked.scopes, "resource": asked.resource}
        self.tokens[access] = AccessToken(token=access, expires_at=int(time.time() + self.seconds), **more)
        self.refreshes[refresh] = RefreshToken(token=refresh, **more)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.seconds)


if __name__ == "__main__":
    port = int(sys.argv[1])
    place = f"http://127.0.0.1:{port}"
    settings = AuthSettings(
        issuer_url=place,
        resource_server_url=f"{place}/mcp",
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=True),
    )
    server = MCPServer("vault", auth=settings, auth_server_provider=Provider(int(sys.argv[2])))

    @server.tool(description="Adds integers.")
    def add(a: int, b: int) -> int:
        return a + b

    server.run("streamable-http", port=port)
