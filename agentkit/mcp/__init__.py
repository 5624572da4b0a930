"""MCP, the Model Context Protocol: agents call the tools of servers, and registries are served to other programs.

Needs the package `mcp` (official SDK): `pip install "mcp>=2,<3"`.  `import agentkit` does not load this package.
"""

import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .client import MCPServer as MCPServer
    from .client import Resource as Resource
    from .oauth import login as login
    from .server import make_app as make_app
    from .server import make_server as make_server
    from .server import serve as serve

_HOMES = {
    "mcp.client": ["MCPServer", "Resource"],
    "mcp.oauth": ["login"],
    "mcp.server": ["make_app", "make_server", "serve"],
}

if find_spec("mcp") is None or find_spec("mcp_types") is None:
    raise ImportError('agentkit.mcp needs the package mcp: pip install "mcp>=2,<3"', name="mcp")

for _name in ("mcp", "client"):  # the SDK's loggers: without a handler Python prints their records to standard error
    logging.getLogger(_name).addHandler(logging.NullHandler())

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
