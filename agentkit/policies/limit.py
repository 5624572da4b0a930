"""A limit on the number of model requests; at the limit the run *lands*: one last request for the final answer."""

from dataclasses import replace
from typing import Any

from ..errors import LimitExceeded
from ..flow import Effect, Emit, Flow, Policy, ask, interpret
from ..messages import user
from ..model import AskModel
from .landing import Landing as Landing

LANDING = "The run has reached its limit of steps: no more tools. Call final_answer now with what is known so far."


def limit_steps(max_steps: int) -> Policy:
    """Let a run make `max_steps` model requests, then one more that offers only the answer tool.

    Raises `LimitExceeded` when that one brings no answer either.
    """

    def policy(flow: Flow[Any]) -> Flow[Any]:
        asked = 0

        def handle(effect: Effect[Any]) -> Flow[Any]:
            nonlocal asked
            if isinstance(effect, AskModel):
                asked += 1
                if asked == max_steps + 1:
                    yield from ask(Emit(Landing("max_steps")))
                    effect = _landing(effect)
                elif asked > max_steps:
                    raise LimitExceeded(f"no final answer after {max_steps} steps, nor in one last request for it")
            return (yield from ask(effect))

        return interpret(flow, handle)

    return policy


def _landing(effect: AskModel) -> AskModel:
    tools = effect.request.tools
    assert tools.answer is not None
    request = replace(
        effect.request,
        messages=[*effect.request.messages, user(LANDING)],
        tools=tools.filtered(lambda _: False),
        tool_choice=tools.answer.name,
    )
    return replace(effect, request=request)
