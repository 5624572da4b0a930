"""An extension: one object that gives an agent tools, a part of its instruction, and policies."""

from collections.abc import Iterable, Sequence
from typing import Any

from .context import RunContext
from .flow import Policy


class Extension:
    """Give an agent tools, a part of its instruction and policies: `JsonAgent(tools, extensions=[Notes()])`.

    Derive a class and override what you need.  One object may serve several agents, and many runs at the same time.
    What belongs to a run is kept in `context.state`, and what belongs to the conversation in `self.state(context)`.

    Attributes:
        name: The name in errors, and the key of the state; default: the name of the class.
        tools: Functions, tools, registries or servers, read once, when the agent is made; they come after the agent's
            own tools.
        sees_sent_requests: Whether its policies receive requests as they are sent, when `ContextWindow` has taken old
            texts out of them; else they receive requests with the whole conversation.
    """

    name: str = "Extension"
    tools: Iterable[Any] = ()
    sees_sent_requests: bool = False

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def state(self, context: RunContext[Any]) -> dict[str, Any]:
        """Return what the extension keeps with the conversation: JSON values, for its methods and its tools to change.

        They are journaled and saved with the conversation, and are there again when it resumes or is replayed.
        """
        own: dict[str, Any] = context.session_state.setdefault(self.name, {})
        return own

    def instruction(self, context: RunContext[Any]) -> str:  # noqa: ARG002
        """Return a text that the instruction ends with, "" for none.

        It is called once, when a run begins; a run that resumes or is replayed keeps the text.  A text that is the same
        in each run keeps the prompt caches of providers valid.
        """
        return ""

    def policies(self, context: RunContext[Any]) -> Sequence[Policy]:  # noqa: ARG002
        """Return the policies of a run; they receive an effect after the agent's own policies."""
        return ()

    async def open(self, context: RunContext[Any]) -> None:
        """Prepare for a run: open a connection, say, and store it in `context.state`.  An error ends the run."""

    async def close(self, context: RunContext[Any]) -> None:
        """Release what `open` has opened, at the end of the run, whatever the end is."""
