"""MCP, the Model Context Protocol: agents call the tools of servers, and registries are served to other programs.

Needs the package `mcp` (official SDK): `pip install "mcp>=2,<3"`.  `import agentkit` does not load this package.
"""

import logging
from importlib.util import find_spec

from ..extend import lazy_names

if find_spec("mcp") is None or find_spec("mcp_types") is None:
    raise ImportError('agentkit.mcp needs the package mcp: pip install "mcp>=2,<3"', name="mcp")

for _name in ("mcp", "client"):  # the SDK's loggers: without a handler Python prints their records to standard error
    logging.getLogger(_name).addHandler(logging.NullHandler())

__all__, __getattr__, __dir__ = lazy_names(__name__)
