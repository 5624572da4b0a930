"""A server of the official SDK that wants a login: stored once, renewed by later runs, named where it is missing."""

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner
from servers import ANSWER, contents, over_http
from waiting import HANGS

from agentkit import DefinitionError, JsonAgent, RunError
from agentkit.cli import main
from agentkit.core.masking import mask
from agentkit.mcp import MCPServer, login
from agentkit.testing import ScriptedModel, call


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Path:
    """The folder of the user's settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def vault(settings):
    """The address of the server."""
    with over_http("oauth_server.py", "600", cwd=settings, stdout=subprocess.DEVNULL) as (port, _):
        yield f"http://127.0.0.1:{port}/mcp"


def grants(settings: Path) -> list[str]:
    return (settings / "grants").read_text().split()


def browse(address: str) -> None:
    """Follow the redirects of a login, as a browser does; the last one goes to this program, which is busy here."""
    threading.Thread(target=requests.get, args=(address,), kwargs={"timeout": 60}).start()


def ask(world, url: str, **how):
    server = MCPServer(url=url, trust="trusted", effects={"*": "read"}, auth="oauth", **how)
    return contents(world.run(JsonAgent(server, model=ScriptedModel(call("add", a=1, b=2), ANSWER)), "q"))


def read_stored(settings: Path) -> tuple[Path, dict]:
    """Return the file of the only stored login, and what is in it."""
    (stored,) = (settings / "settings" / "agentkit" / "mcp_logins").iterdir()
    return stored, json.loads(stored.read_text())


def test_a_login_is_stored_and_renewed(world, vault, settings):
    login(vault, show=browse)
    stored, before = read_stored(settings)
    assert stored.stat().st_mode & 0o777 == 0o600
    assert ask(world, vault) == ['{"result":3}']
    assert grants(settings) == ["code"]
    stored.write_text(json.dumps({**before, "expires": time.time() - 1}))
    assert ask(world, vault) == ['{"result":3}']
    assert grants(settings) == ["code", "refresh"]
    after = read_stored(settings)[1]["tokens"]
    assert after != before["tokens"]
    assert after["access_token"] not in mask(f"the token is {after['access_token']}")


def test_a_token_that_the_server_no_longer_knows_is_renewed(world, vault, settings):
    """The clocks differ, or the server was started again: the token should still be valid, and is refused."""
    login(vault, show=browse)
    stored, data = read_stored(settings)
    stored.write_text(json.dumps({**data, "tokens": {**data["tokens"], "access_token": "access-of-yesterday"}}))
    assert ask(world, vault) == ['{"result":3}']
    assert grants(settings) == ["code", "refresh"]


def test_our_server_wants_a_login_and_its_tools_know_the_client(world, settings):
    with over_http("resource_server.py", "60", cwd=settings, stdout=subprocess.DEVNULL) as (port, _):
        url = f"http://127.0.0.1:{port}/mcp"
        refused = requests.post(url, json={}, timeout=60)
        assert refused.status_code == 401
        metadata = f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{metadata}"' in refused.headers["www-authenticate"]
        shown = requests.get(metadata, timeout=60).json()
        assert (shown["resource"], shown["authorization_servers"]) == (url, [f"http://127.0.0.1:{port}"])
        login(url, show=browse)
        assert ask(world, url) == ["3 for client "]


def test_without_a_login_the_error_names_the_command(world, vault):
    with pytest.raises(RunError, match=f"the server {vault} wants a login. Run: agentkit mcp login {vault}"):
        ask(world, vault)


@pytest.mark.parametrize("headers", [None, {"Authorization": "Bearer of yesterday"}])
def test_a_server_without_auth_that_wants_a_login_is_named(vault, headers):
    with pytest.raises(
        RunError, match=r"it wants a login or a token \(HTTP 401\). Run: agentkit mcp login URL, and give"
    ):
        MCPServer(url=vault, headers=headers).__enter__()


def test_another_error_has_its_status(vault):
    with pytest.raises(
        RunError, match=r"cannot be opened: .*\(HTTP 404\)\. Most servers answer at a path, /mcp or the older /sse\.$"
    ):
        MCPServer(url=vault.replace("/mcp", "/other")).__enter__()


def test_the_address_for_messages_of_the_older_transport_is_named_at_once():
    with over_http("sdk_server.py", "sse") as (port, _):
        place = f"http://127.0.0.1:{port}"
        with requests.get(f"{place}/sse", stream=True, timeout=60) as stream:
            lines = stream.iter_lines(decode_unicode=True)
            messages = next(line.removeprefix("data: ") for line in lines if line.startswith("data: "))
            for url in (f"{place}{messages}", f"{place}/messages/"):
                with pytest.raises(
                    RunError, match=r"cannot be opened: .* Most servers answer at a path, /mcp or the older"
                ):
                    MCPServer(url=url, timeout=HANGS).__enter__()


def test_a_login_that_is_no_longer_valid_is_named(world, vault, settings):
    login(vault, show=browse)
    stored, data = read_stored(settings)
    data["tokens"] |= {"access_token": "access-of-yesterday", "refresh_token": "refresh-of-yesterday"}
    for expires in (0.0, time.time() + 60):
        stored.write_text(json.dumps({**data, "expires": expires}))
        with pytest.raises(RunError, match=f"wants a login. Run: agentkit mcp login {vault}"):
            ask(world, vault)


def test_a_login_that_is_refused_is_an_error(vault, settings):
    (settings / "refuse").touch()
    with pytest.raises(RunError, match=f"the login at {vault} failed: access_denied"):
        login(vault, show=browse)
    with pytest.raises(RunError, match="wants a login"):
        MCPServer(url=vault, auth="oauth").__enter__()


def test_a_server_that_wants_no_login_is_named():
    with over_http("sdk_server.py") as (port, _):
        url = f"http://127.0.0.1:{port}/mcp"
        with pytest.raises(RunError, match=f"the server {url} wants no login"):
            login(url, show=browse)


def test_the_command_logs_in(vault, settings, monkeypatch):
    monkeypatch.setattr("webbrowser.open", browse)
    done = CliRunner().invoke(main, ["mcp", "login", vault])
    assert done.exit_code == 0
    assert f"you are logged in at {vault}" in done.stderr
    (settings / "mcp.json").write_text(json.dumps({"mcpServers": {"vault": {"url": vault, "auth": "oauth"}}}))
    (server,) = MCPServer.from_config(settings / "mcp.json")
    with server:
        assert [*server.tools] == ["add"]
    assert "add" in CliRunner().invoke(main, ["mcp", "inspect", vault]).stdout


def test_what_auth_may_be():
    with pytest.raises(DefinitionError, match=r"auth must be 'oauth' or an httpx2\.Auth, got 'basic'"):
        MCPServer(url="http://127.0.0.1:1/mcp", auth="basic")
    with pytest.raises(DefinitionError, match="auth is for a server at a URL"):
        MCPServer("uvx time", auth="oauth")
