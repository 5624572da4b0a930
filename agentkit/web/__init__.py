"""Agents in a browser: `agui`, an ASGI app that speaks AG-UI, and `web_app`, the page of `agentkit web`.

The room needs starlette and uvicorn, which are imported on use.
"""

from ..extend import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
