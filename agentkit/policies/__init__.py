"""What is decided about a step of a run: one policy a file, and the parts to write one.

A policy turns a flow into a flow.  The room knows no models, no views and no sessions.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from ..engine.loop import agent_loop as agent_loop
    from ..engine.model import AskModel as AskModel
    from ..tools.execution.call_tools import CallTools as CallTools
    from .answer_checks import Material as Material
    from .answer_checks import check_answers as check_answers
    from .approval import approve as approve
    from .calls_in_text import text_calls as text_calls
    from .compaction import compact as compact
    from .fallback_models import fallback as fallback
    from .final_request import landing as landing
    from .incomplete_replies import refusals as refusals
    from .incomplete_replies import whole_replies as whole_replies
    from .limits import limit as limit
    from .long_results import excerpts as excerpts
    from .loop_detection import stuck as stuck
    from .rate_limit import throttle as throttle
    from .reading_ahead import early_reads as early_reads
    from .retries import retry as retry
    from .taint.policy import untrusted as untrusted
    from .text_tool_mode import text_mode as text_mode
    from .timeouts import tool_settings as tool_settings
    from .tool_choice import unforced as unforced

_HOMES = {
    "core.flow": ["Emit", "Flow", "Policy", "Sleep", "adrive", "apply_policies", "around", "ask", "drive", "interpret"],
    "engine.loop": ["agent_loop"],
    "engine.model": ["AskModel"],
    "policies.answer_checks": ["Material", "check_answers"],
    "policies.approval": ["approve"],
    "policies.calls_in_text": ["text_calls"],
    "policies.compaction": ["compact"],
    "policies.fallback_models": ["fallback"],
    "policies.final_request": ["landing"],
    "policies.incomplete_replies": ["refusals", "whole_replies"],
    "policies.limits": ["limit"],
    "policies.long_results": ["excerpts"],
    "policies.loop_detection": ["stuck"],
    "policies.rate_limit": ["throttle"],
    "policies.reading_ahead": ["early_reads"],
    "policies.retries": ["retry"],
    "policies.taint.policy": ["untrusted"],
    "policies.text_tool_mode": ["text_mode"],
    "policies.timeouts": ["tool_settings"],
    "policies.tool_choice": ["unforced"],
    "tools.execution.call_tools": ["CallTools"],
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
