"""Leave runs of the shop's agent in a journal, as other processes do: refused, stopped, killed and paused."""

import os
import sys

from web_shop import agent

from agentkit import Paused, RunStopped, Session
from agentkit.events import ToolStarted

journal = sys.argv[1]


def pause(query):
    """Return the pause of a run that waits for a decision."""
    try:
        agent.run(query, session=Session(), journal=journal)
    except Paused as paused:
        return paused
    raise AssertionError("the run did not pause")


def refuse():
    """Refuse the call of a run."""
    paused = pause("refund that was refused")
    agent.run(session=paused.session, approvals={paused.calls[0].id: "too much"}, journal=journal)


def stop():
    """Stop a run in the middle of a call."""
    session = Session()

    def listen(event):
        if isinstance(event, ToolStarted):
            session.stop()

    try:
        agent.run("work that is stopped", session=session, journal=journal, listeners=[listen])
    except RunStopped:
        return


def die():
    """Leave the process in the middle of a call."""

    def listen(event):
        if isinstance(event, ToolStarted):
            os._exit(0)

    agent.run("work that is killed", session=Session(), journal=journal, listeners=[listen])


refuse()
stop()
pause("refund that waits")
die()
