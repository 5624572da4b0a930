"""A plan: the list of steps of a task, which the model writes and ticks off, and which people see.

The plan belongs to the conversation.  Each change returns the whole list, so the model reads it where it changed it.
When that result has left the request, the request shows the list again, at a place that stays the same, so that the
requests extend each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.context import Extension, PlanChanged, PlanStep, RunContext
from ..core.errors import ToolError
from ..core.flow import Hooks, Policy, interpret
from ..core.messages import Message, text_of, user
from ..engine.model import AskModel
from ..tools.json_tool import JsonTool

MAX_PLAN_STEPS = 50
MAX_PLAN_STEP_CHARS = 200
_INSTRUCTION = (
    "For a task of more than two steps, first write its steps with write_plan. "
    "Tick each off with tick_off when it is done, and answer when no step is open."
)
_HEAD = "The plan of this conversation:"


class Plan(Extension):
    """Let an agent keep a plan that people see, in the terminal, the notebook and the page: `extensions=[Plan()]`."""

    name = "Plan"
    sees_sent_requests = True

    def __init__(self) -> None:
        self.tools = [  # they change the conversation alone
            JsonTool(self.write_plan, effect="read", trust="trusted"),
            JsonTool(self.tick_off, effect="read", trust="trusted"),
        ]

    def instruction(self, context: RunContext[Any]) -> str:  # noqa: ARG002
        """Return what the plan is for, the same text in each run."""
        return _INSTRUCTION

    def policies(self, context: RunContext[Any]) -> Sequence[Policy]:
        """Return the policy that keeps the plan in the requests."""
        return (lambda flow: interpret(flow, Hooks(_Reminder(self, context).show), AskModel),)

    def steps(self, context: RunContext[Any]) -> tuple[PlanStep, ...]:
        """Return the steps of the conversation's plan."""
        return tuple(PlanStep(**step) for step in self.state(context).get("steps", ()))

    async def write_plan(self, steps: list[str], run: RunContext[Any]) -> str:
        """Write the steps of the task, or change them; a step that is done stays done if its text stays the same.

        Args:
            steps: All steps, in their order, a short sentence each.
        """
        texts = [*dict.fromkeys(" ".join(step.split()) for step in steps)]
        if not all(texts):
            raise ToolError("a step has no text. Write a short sentence for each step.")
        if len(texts) > MAX_PLAN_STEPS:
            raise ToolError(f"the plan has {len(texts)} steps. Write at most {MAX_PLAN_STEPS}.")
        if long := next((text for text in texts if len(text) > MAX_PLAN_STEP_CHARS), ""):
            raise ToolError(
                f"the step {long[:40]!r}... has {len(long)} characters. Write at most {MAX_PLAN_STEP_CHARS}."
            )
        done = {step.text for step in self.steps(run) if step.done}
        return self._change(run, [PlanStep(text, text in done) for text in texts])

    async def tick_off(self, steps: list[int], run: RunContext[Any]) -> str:
        """Tick steps of the plan off when they are done.

        Args:
            steps: The numbers of the steps that are done, beginning with 1.
        """
        plan = self.steps(run)
        if not plan:
            raise ToolError("there is no plan. Write one with write_plan.")
        if unknown := [number for number in steps if not 1 <= number <= len(plan)]:
            raise ToolError(f"the plan has no step {unknown[0]}. Its steps are 1 to {len(plan)}.")
        return self._change(
            run, [PlanStep(step.text, step.done or number in steps) for number, step in enumerate(plan, 1)]
        )

    def _change(self, run: RunContext[Any], steps: Sequence[PlanStep]) -> str:
        self.state(run)["steps"] = [{"text": step.text, "done": step.done} for step in steps]
        run.emit(PlanChanged(tuple(steps)))
        return render_plan(steps) or "The plan has no steps."


def render_plan(steps: Sequence[PlanStep]) -> str:
    """Return a plan as a numbered list with boxes."""
    return "\n".join(f"{number}. [{'x' if step.done else ' '}] {step.text}" for number, step in enumerate(steps, 1))


@dataclass
class _Reminder:
    """The place at which the requests of one run show the plan."""

    settings: Plan
    context: RunContext[Any]
    place: int = -1
    """The index of a message that shows the plan, or of the one after which the request shows it."""
    message: Message | None = None
    """The message at that index."""
    text: str = ""
    """The plan as it was shown; "" if it stands in `message` itself."""

    def show(self, effect: AskModel) -> AskModel:
        """Return the request with the plan in it, as long as a step is open."""
        steps = self.settings.steps(self.context)
        if all(step.done for step in steps):
            return effect
        messages = effect.request.messages
        plan = render_plan(steps)
        if not self._is_shown(plan, messages):
            self._find(plan, messages)
        if not self.text:
            return effect
        after = self.place + 1
        shown = [*messages[:after], user(self.text), *messages[after:]]
        return replace(effect, request=replace(effect.request, messages=shown))

    def _is_shown(self, plan: str, messages: Sequence[Message]) -> bool:
        is_there = self.place < len(messages) and messages[self.place] is self.message
        return self.message is not None and is_there and plan in (self.text or text_of(self.message))

    def _find(self, plan: str, messages: Sequence[Message]) -> None:
        """Find the result that shows the plan, else choose the end of the request."""
        results = (place for place in range(len(messages) - 1, -1, -1) if messages[place]["role"] == "tool")
        self.place = next((place for place in results if plan in text_of(messages[place])), -1)
        self.text = "" if self.place >= 0 else f"{_HEAD}\n{plan}"
        self.place = self.place if self.place >= 0 else len(messages) - 1
        self.message = messages[self.place]
