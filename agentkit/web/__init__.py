"""Agents in a browser: `agui`, an ASGI app that speaks AG-UI, and `web_app`, the page of `agentkit web`.

The room needs starlette and uvicorn, which are imported on use.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .agui_app import agui as agui
    from .app import web_app as web_app
    from .server import serve as serve

_HOMES = {"web.app": ["web_app"], "web.agui_app": ["agui"], "web.server": ["serve"]}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
