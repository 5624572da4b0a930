"""Serve the page on the loopback."""

import secrets
from collections.abc import Callable
from typing import Any

from ..agents.agent import JsonAgent
from ..sessions.journal.location import Place
from .api import uvicorn
from .app import web_app

DEFAULT_PORT = 8080
HOST = "127.0.0.1"


def serve(
    agent: JsonAgent[Any],
    *,
    port: int = DEFAULT_PORT,
    journal: Place | None = None,
    token: str = "",
    announce: Callable[[str], object] = print,
) -> None:
    """Serve the page for `agent` on 127.0.0.1 until the process is interrupted.

    Args:
        agent: The agent.
        port: The port.
        journal: The journal that keeps the conversations; default: the agent's, else they live as long as the process.
        token: The token in the address; default: a new random one.
        announce: Receives the address.
    """
    token = token or secrets.token_urlsafe(18)
    app: Any = web_app(agent, token=token, hosts=[f"{HOST}:{port}", f"localhost:{port}"], journal=journal)
    announce(f"http://{HOST}:{port}/?token={token}")
    uvicorn.run(app, host=HOST, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=2)
