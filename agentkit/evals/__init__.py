"""Evaluations of agents: cases with what is expected, runs of them, and a report with figures that CI can compare.

The package uses the public names of agentkit alone, as a program of yours would; nothing below imports it.
"""

from ..extend import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
