"""Everything that a run reports: each class of event, and `encode_event`, which turns one into JSON data.

A listener is a function of one event: `JsonAgent(..., listeners=[print])`.
"""

from typing import TYPE_CHECKING

from .core.lazy_names import lazy_names

if TYPE_CHECKING:
    from .core.context import Progress as Progress
    from .core.flow import Event as Event
    from .core.flow import Listener as Listener
    from .core.flow import WarningEvent as WarningEvent
    from .engine.model import ModelAsked as ModelAsked
    from .engine.model import ModelReplied as ModelReplied
    from .engine.model import TextDelta as TextDelta
    from .engine.model import ThinkingDelta as ThinkingDelta
    from .engine.model import ToolCallDelta as ToolCallDelta
    from .engine.partial_answer import AnswerForming as AnswerForming
    from .engine.result import HandedOver as HandedOver
    from .engine.result import RunEnded as RunEnded
    from .engine.result import RunFinished as RunFinished
    from .engine.result import RunStarted as RunStarted
    from .engine.result import SubRun as SubRun
    from .policies.answer_checks import AnswerDoubted as AnswerDoubted
    from .policies.approval import ApprovalAsked as ApprovalAsked
    from .policies.approval import ApprovalGiven as ApprovalGiven
    from .policies.compaction import Compacted as Compacted
    from .policies.final_request import FinalRequest as FinalRequest
    from .policies.incomplete_replies import ReplyDropped as ReplyDropped
    from .policies.limits import PriceUnknown as PriceUnknown
    from .policies.loop_detection import ToolsWithdrawn as ToolsWithdrawn
    from .policies.questions import QuestionAnswered as QuestionAnswered
    from .policies.questions import QuestionAsked as QuestionAsked
    from .policies.rate_limit import Throttled as Throttled
    from .policies.retries import FallenBack as FallenBack
    from .policies.retries import Retrying as Retrying
    from .policies.text_tool_mode import TextCallFound as TextCallFound
    from .sessions.journal.policy import JournalFailed as JournalFailed
    from .tools.execution.call import ToolRetried as ToolRetried
    from .tools.execution.turn import ToolAbandoned as ToolAbandoned
    from .tools.execution.turn import ToolBlockedLoop as ToolBlockedLoop
    from .tools.execution.turn import ToolFinished as ToolFinished
    from .tools.execution.turn import ToolStarted as ToolStarted
    from .tools.toolset import ServerLogged as ServerLogged
    from .views.json_lines import EventEncoder as EventEncoder
    from .views.json_lines import encode_event as encode_event

_HOMES = {
    "core.context": ["Progress"],
    "core.flow": ["Event", "Listener", "WarningEvent"],
    "engine.model": ["ModelAsked", "ModelReplied", "TextDelta", "ThinkingDelta", "ToolCallDelta"],
    "engine.partial_answer": ["AnswerForming"],
    "engine.result": ["HandedOver", "RunEnded", "RunFinished", "RunStarted", "SubRun"],
    "policies.answer_checks": ["AnswerDoubted"],
    "policies.approval": ["ApprovalAsked", "ApprovalGiven"],
    "policies.limits": ["PriceUnknown"],
    "policies.text_tool_mode": ["TextCallFound"],
    "policies.compaction": ["Compacted"],
    "policies.retries": ["FallenBack", "Retrying"],
    "policies.final_request": ["FinalRequest"],
    "policies.incomplete_replies": ["ReplyDropped"],
    "policies.loop_detection": ["ToolsWithdrawn"],
    "policies.questions": ["QuestionAnswered", "QuestionAsked"],
    "policies.rate_limit": ["Throttled"],
    "sessions.journal.policy": ["JournalFailed"],
    "tools.execution.turn": ["ToolAbandoned", "ToolBlockedLoop", "ToolFinished", "ToolStarted"],
    "tools.execution.call": ["ToolRetried"],
    "tools.toolset": ["ServerLogged"],
    "views.json_lines": ["EventEncoder", "encode_event"],
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
