"""Turns without the agent loop, to drive a policy alone in either world."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentkit import LimitExceeded, NoAnswer, Paused, RunContext, ToolCall, ToolRegistry
from agentkit.core.flow import Emit, Event, Flow, Policy, apply_policies, ask, drive
from agentkit.core.messages import Message, calls_of, pending_calls, user
from agentkit.engine.model import AskModel, Model, ModelAsked, Reply, Request
from agentkit.policies.final_request import FinalRequest
from agentkit.tools.execution.call import ToolResult
from agentkit.tools.execution.call_tools import CallTools
from agentkit.tools.final_answer import make_answer_tool

MAX_TURNS = 100


class Turns:
    """Requests to a model, each followed by the calls of its reply, until a call gives the answer.

    Attributes:
        messages: What the requests hold: each reply and each result is appended as it came.
        results: The results, as the policy returns them.
        events: What the driver yielded.
        stopped: "answer", or why `finish` made the final request.
    """

    def __init__(
        self, model: Model, *tools: Callable[..., Any], answer: Any = str, stream: bool = False, query: str = "go"
    ) -> None:
        self.model = model
        self.messages: list[Message] = [user(query)]
        self.request = Request(self.messages, ToolRegistry(*tools, answer=make_answer_tool(answer)), stream=stream)
        self.results: list[ToolResult] = []
        self.events: list[Event] = []
        self.stopped = ""

    def take(self) -> Flow[Any]:
        """Take turns until the answer, first the rest of one that paused; an error that the policy raises ends them."""
        answers = yield from self._call(pending_calls(self.messages))
        for _ in range(MAX_TURNS):
            if answers:
                return answers[0]
            answers = yield from self._turn(self.request)
        raise AssertionError(f"neither an answer nor an error of the policy in {MAX_TURNS} turns")

    def finish(self) -> Flow[Any]:
        """Take turns; if the policy ends them, make the final request, and return the answer that it brings."""
        try:
            answer = yield from self.take()
        except (LimitExceeded, NoAnswer) as error:
            self.stopped = error.reason
        else:
            self.stopped = "answer"
            return answer
        yield from ask(Emit(FinalRequest(self.stopped)))
        answers = yield from self._turn(replace(self.request, tool_choice="final_answer"))
        return answers[0] if answers else None

    def _turn(self, request: Request) -> Flow[list[Any]]:
        reply: Reply = yield from ask(AskModel(self.model, request))
        self.messages.append(reply.message)
        return (yield from self._call(calls_of(reply.message)))

    def _call(self, calls: Sequence[ToolCall]) -> Flow[list[Any]]:
        """Run calls and return the answers among their results; those of a turn that pauses may stay open."""
        if not calls:
            return []
        finished: dict[str, ToolResult] = {}
        bound = tuple(self.request.tools.bind(call, RunContext(None, call=call)) for call in calls)
        try:
            results = yield from ask(CallTools(bound, finished))
        except Paused:
            self._append(result for result in finished.values() if not result.is_open)
            raise
        self._append(results)
        return [result.value for result in results if result.is_answer]

    def _append(self, results: Iterable[ToolResult]) -> None:
        for result in results:
            self.results.append(result)
            self.messages.append(result.message)

    def drive(self, world, flow: Flow[Any], *policies: Policy) -> Any:
        """Drive one of the two flows under the policies in one of the two worlds, and return the answer."""
        return world.drive(apply_policies(flow, policies), self.events)[0]

    @property
    def requests(self) -> list[Request]:
        """The requests that came through the policies."""
        return [event.request for event in self.events if isinstance(event, ModelAsked)]

    @property
    def contents(self) -> list[str]:
        """What the model reads of the results."""
        return [result.content for result in self.results]


def drive_here(flow: Flow[Any]) -> Any:
    """Drive a flow inside of a tool, blocking, and return its value."""
    driver = drive(flow)
    while True:
        try:
            next(driver)
        except StopIteration as stop:
            return stop.value
