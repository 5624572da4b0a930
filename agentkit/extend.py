"""Everything that a part of your own needs: an extension, a door, a source of tools, an instrument, a store or a view.

The doors of this package and its command line import `agentkit`, `agentkit.events`, this module and themselves alone.
A name is loaded when it is first used.
"""

from .core.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
