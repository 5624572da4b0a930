"""What is decided about a step of a run: one policy a file, and the parts to write one.

A policy turns a flow into a flow.  The room knows no models, no views and no sessions.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..core.ask_person import PersonAnswer as PersonAnswer
    from ..core.flow import Emit as Emit
    from ..core.flow import Flow as Flow
    from ..core.flow import Policy as Policy
    from ..core.flow import Sleep as Sleep
    from ..core.flow import adrive as adrive
    from ..core.flow import apply_policies as apply_policies
    from ..core.flow import around as around
    from ..core.flow import ask as ask
    from ..core.flow import drive as drive
    from ..core.flow import interpret as interpret
    from ..core.labels import Content as Content
    from ..core.labels import Destination as Destination
    from ..core.labels import Label as Label
    from ..core.labels import Plain as Plain
    from ..engine.loop import agent_loop as agent_loop
    from ..engine.model import AskModel as AskModel
    from ..tools.execution.call_tools import CallTools as CallTools
    from .answer_checks import Material as Material
    from .answer_checks import check_answers as check_answers
    from .approval import approve as approve
    from .compaction import compact as compact
    from .final_request import request_final_answer as request_final_answer
    from .incomplete_replies import raise_refusals as raise_refusals
    from .incomplete_replies import retry_incomplete_replies as retry_incomplete_replies
    from .incomplete_replies import retry_unforced as retry_unforced
    from .limits import limit as limit
    from .long_results import truncate_results as truncate_results
    from .loop_detection import detect_loops as detect_loops
    from .questions import answer_questions as answer_questions
    from .rate_limit import throttle as throttle
    from .retries import fallback as fallback
    from .retries import retry as retry
    from .taint.policy import guard_untrusted as guard_untrusted
    from .text_tool_mode import run_text_calls as run_text_calls
    from .text_tool_mode import use_text_mode as use_text_mode
    from .timeouts import limit_tool_time as limit_tool_time

_HOMES = {
    "core.ask_person": ["PersonAnswer"],
    "core.flow": ["Emit", "Flow", "Policy", "Sleep", "adrive", "apply_policies", "around", "ask", "drive", "interpret"],
    "core.labels": ["Content", "Destination", "Label", "Plain"],
    "engine.loop": ["agent_loop"],
    "engine.model": ["AskModel"],
    "policies.answer_checks": ["Material", "check_answers"],
    "policies.approval": ["approve"],
    "policies.text_tool_mode": ["run_text_calls", "use_text_mode"],
    "policies.compaction": ["compact"],
    "policies.retries": ["fallback", "retry"],
    "policies.final_request": ["request_final_answer"],
    "policies.incomplete_replies": ["raise_refusals", "retry_incomplete_replies", "retry_unforced"],
    "policies.limits": ["limit"],
    "policies.long_results": ["truncate_results"],
    "policies.loop_detection": ["detect_loops"],
    "policies.questions": ["answer_questions"],
    "policies.rate_limit": ["throttle"],
    "policies.taint.policy": ["guard_untrusted"],
    "policies.timeouts": ["limit_tool_time"],
    "tools.execution.call_tools": ["CallTools"],
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
