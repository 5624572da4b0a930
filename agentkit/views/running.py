"""What a run does now, from its frames: the replies that arrive, the calls that are running, the usage so far."""

import time
from dataclasses import dataclass

from ..core.messages import ToolCall, Usage
from .frames import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    Frame,
    ReplyPiece,
    RequestClosed,
    RequestOpened,
    RunClosed,
    RunOpened,
    ThoughtPiece,
)
from .lines import format_call

MAX_STREAMED_CHARS = 2_000
"""Characters of a text that are kept while it streams."""


@dataclass
class StreamedReply:
    """A reply while it streams, and the time of its request."""

    model: str
    since: float
    text: str = ""
    is_answering: bool = False

    def add(self, piece: str, *, of_answer: bool = False) -> None:
        """Add a piece; the answer replaces what stands before it."""
        before = self.text if self.is_answering == of_answer else ""
        self.is_answering = of_answer
        self.text = (before + piece)[-MAX_STREAMED_CHARS:] if before else piece.lstrip("\n")[-MAX_STREAMED_CHARS:]


class Running:
    """The state of a run.

    Attributes:
        replies: The replies that arrive, by the paths of their agents.
        calls: The calls that are running with the times of their begins, by their paths.
        usage: What the run has used so far, the agents inside it included.
    """

    def __init__(self) -> None:
        self.replies: dict[str, StreamedReply] = {}
        self.calls: dict[str, tuple[str, float]] = {}
        self.usage = Usage()

    def update(self, frame: Frame) -> None:
        """Take a frame into the state."""
        now = time.monotonic()
        match frame:
            case RunOpened(agent=""):
                self._forget("")
                self.usage = Usage()
            case RequestOpened():
                self.replies[frame.agent] = StreamedReply(frame.model, now)
            case RequestClosed():
                self.replies.pop(frame.agent, None)
                self.usage += Usage(**frame.usage)
            case CallOpened():
                self.calls[frame.id] = format_call(ToolCall(frame.id, frame.name, frame.arguments)), now
            case CallClosed():
                self.calls.pop(frame.id, None)
                self._forget(frame.id)
            case RunClosed():
                self._forget(frame.agent)
            case ThoughtPiece() | ReplyPiece() if frame.agent in self.replies:
                self.replies[frame.agent].add(frame.text)
            case AnswerPiece() if frame.agent in self.replies:
                self.replies[frame.agent].add(frame.text, of_answer=True)
            case AnswerWithdrawn() if frame.agent in self.replies:
                self.replies[frame.agent].text = ""

    def _forget(self, agent: str) -> None:
        """Remove what an agent was doing when it ended."""
        for known in (self.replies, self.calls):
            for path in [path for path in known if not agent or f"{path}/".startswith(f"{agent}/")]:
                del known[path]
