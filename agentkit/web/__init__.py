"""Agents in a browser: `agui`, an ASGI app that speaks AG-UI, and `web_app`, the page of `agentkit web`.

The room needs starlette and uvicorn, which are imported on use.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .app import agui as agui
    from .app import serve as serve
    from .app import web_app as web_app

_HOMES = {
    "web.app": ["agui", "serve", "web_app"],
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
