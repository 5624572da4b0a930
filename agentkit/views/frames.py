"""What a front door shows of a run: a page, an editor or any other client gets these frames, whatever its protocol.

`FrameReader` turns the events of a run into frames, `frames_of_stored_run` a run that was stored.  Frames are plain
and masked.  The call of the answer tool is the answer's text, not a call.  Ids of calls inside an agent of a tool are
paths: "outer/inner", as in `Session.waiting`.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class RunOpened:
    """A run began; `agent` is the path of the call that it runs in, "" for the run itself."""

    agent: str
    run_id: str
    query: str
    model: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class RequestOpened:
    """A request was sent; its number in the run, and how many messages and which tools it has."""

    agent: str
    number: int
    model: str
    messages: int = 0
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestClosed:
    """The request has its reply, or failed with `error`; `usage` as in `Usage.as_dict`."""

    agent: str
    number: int
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerWithdrawn:
    """The pieces of the answer so far are void: the request is repeated, or the answer is another one."""


@dataclass(frozen=True, slots=True)
class ThoughtPiece:
    """A piece of the model's reasoning."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A text of the model beside its calls."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class CallOpened:
    """A tool call began; `arguments` is the JSON text, `effect` that of its tool, "" if it has none."""

    agent: str
    id: str
    name: str
    arguments: str
    effect: str = ""


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A tool reported something while it runs."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallClosed:
    """A tool call has its result: the text that the model reads."""

    agent: str
    id: str
    content: str
    seconds: float = 0.0
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RunNotice:
    """A sentence for the person."""

    agent: str
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class PendingInput:
    """What a paused run waits for: a decision about a call, or an answer to a question with a JSON Schema.

    `values` describes the values of the call that the person can allow from now on, "" without any.
    """

    id: str
    text: str
    call: str
    tool: str = ""
    arguments: str = ""
    values: str = ""
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RunClosed:
    """A run ended; `outcome` as in `RunEnded`, `answer` as text, `pending` is what a paused run waits for."""

    agent: str
    outcome: str
    answer: str = ""
    error: str = ""
    kind: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    pending: tuple[PendingInput, ...] = ()


Frame: TypeAlias = (
    RunOpened | RequestOpened | RequestClosed | AnswerPiece | AnswerWithdrawn | ThoughtPiece | Remark
    | CallOpened | CallProgress | CallClosed | RunNotice | RunClosed
)  # fmt: skip


def join_path(agent: str, identity: str) -> str:
    """Return the path of a call of an agent; `agent` is the path of the call that the agent works for."""
    return f"{agent}/{identity}" if agent else identity
