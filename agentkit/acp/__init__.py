"""Agents in editors: `serve` drives an agent over ACP, the Agent Client Protocol, on standard input and output.

Needs the package `agent-client-protocol` (official SDK), which is imported on use.
"""

from ..extend import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
