"""The run around an agent that is a tool: one journal records both, so that both are resumed together."""

from contextvars import ContextVar

from .connections import opened_store
from .setup import read_setup
from .writer import JournalWriter

ENCLOSING_RUN: ContextVar[JournalWriter | None] = ContextVar("around", default=None)
"""The journal of the run that makes a call; `inner` maps its calls to the runs of agents that they had started."""


def read_instruction(writer: JournalWriter, run: str) -> str:
    """Return the instruction with which another run of the journal began."""
    with opened_store(writer.conversation.journal.path, must_exist=True) as store:
        setup = read_setup(store, run)
    return setup.instruction if setup else ""
