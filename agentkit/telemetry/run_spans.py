"""The spans of one run: `invoke_agent`, below it `chat` for each request and `execute_tool` for each tool call.

The policy sits next to the driver, outside of a journal: a reply that a journal returns has no span, and a replayed
run is not observed.
Every span is ended, whatever ends the run; a run inside an abandoned tool ends with its call.
"""

import secrets
from dataclasses import replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from ..agents.instruments import EnclosingObserver, Instrument, ObservedRun
from ..core.enclosing import enclose, enclosing
from ..core.errors import Paused
from ..core.flow import Effect, Event, Flow, around, ask
from ..core.masking import mask
from ..core.questions import InputRequired
from ..engine.model import AskModel, Reply
from ..engine.result import HandedOver, RunEnded, RunFinished, RunStarted, SubRun
from ..sessions.session import Session
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools, ToolAbandoned, ToolFinished, ToolStarted
from ..tools.execution.retries import ToolRetried
from . import names
from .api import context as otel_context
from .chat_span import ChatSpan, Recorder, model_attributes, option_attributes, usage_attributes
from .content import text_content
from .span import CANCELLED, Attributes, OpenSpan
from .span_events import describe_event, error_type

_conversations: WeakKeyDictionary[Session, str] = WeakKeyDictionary()


class RunSpans:
    """Listen to one run and open its spans; see `RunObserver`."""

    def __init__(self, recorder: Recorder, instrument: Instrument, run: ObservedRun) -> None:
        self.policy = around(self._handle, (AskModel, CallTools))
        self._recorder, self._instrument, self._observed = recorder, instrument, run
        self._parent = otel_context.get_current()
        self._run: OpenSpan | None = None
        self._chat: ChatSpan | None = None
        self._tools: dict[str, OpenSpan] = {}
        self._inner: dict[str, list[RunSpans]] = {}
        self._finish_reason: str | None = None
        name = run.agent_name or recorder.agent_name
        self._agent: Attributes = {names.AGENT_NAME: name} if name else {}
        if (outer := enclosing(EnclosingObserver)) and isinstance(outer.observer, RunSpans):
            outer.observer._inner.setdefault(outer.call, []).append(self)

    def listen(self, event: Event) -> None:
        """Receive an event of the run."""
        if event.is_piece:
            if self._chat is not None:
                self._chat.note_piece()
        elif isinstance(event, RunStarted):
            self._start(event)
        elif self._run is None or isinstance(event, SubRun):  # ended already, or reported by the inner run itself
            return
        elif handle := self._HANDLERS.get(type(event)):
            handle(self, event)
        elif described := describe_event(event):
            self._note(event, *described)

    def close(self, kind: str = CANCELLED) -> None:
        """End what is open, as failed with an error of this class; later events are ignored."""
        for identity in [*self._tools]:
            self._end_tool(identity, CANCELLED)
        for inner in [run for runs in self._inner.values() for run in runs]:
            inner.close()
        if self._run is not None:
            self._run.fail(kind)
            self._end_run({})

    def _start(self, event: RunStarted) -> None:
        run, recorder = self._observed, self._recorder
        attributes = model_attributes(names.INVOKE_AGENT, event.model, run.settings)
        described = {names.AGENT_DESCRIPTION: mask(run.description)} if run.description else {}
        attributes |= {**option_attributes(run.settings), **self._agent, **described}
        attributes |= {names.CONVERSATION: self._conversation_id(), names.RUN_ID: event.run_id}
        if recorder.content and event.query:
            attributes |= text_content(names.INPUT_MESSAGES, "user", event.query)
        name = f"{names.INVOKE_AGENT} {self._agent.get(names.AGENT_NAME, '')}".strip()
        self._run = OpenSpan(recorder.tracer, name, self._parent, attributes)

    def _conversation_id(self) -> str:
        session = self._observed.session
        if session.journaled is not None and session.journaled.name:
            return session.journaled.name
        return _conversations.setdefault(session, secrets.token_hex(8))

    def _handle(self, effect: AskModel | CallTools) -> Flow[Any]:
        if self._run is None:
            untraced: Effect[Any] = effect
            return (yield from ask(untraced))
        if isinstance(effect, CallTools):
            traced = effect.with_calls(map(self._within_span, effect.calls))
            return (yield from ask(traced))
        conversation = self._run.attributes[names.CONVERSATION]
        chat = self._chat = ChatSpan(
            self._recorder, effect, self._run.context, self._observed.settings,
            {**self._agent, names.CONVERSATION: conversation},
        )  # fmt: skip
        try:
            reply: Reply = yield from ask(chat.within_span(effect))
        except BaseException as error:  # a closed flow too
            chat.fail(error)
            raise
        finally:
            self._chat = None
        self._finish_reason = reply.finish_reason
        chat.finish(reply)
        return reply

    def _within_span(self, bound: BoundCall) -> BoundCall:
        """Return the call as one that runs in the context of its span; each call runs in a context of its own."""
        if bound.is_answer:
            return bound

        def run() -> Any:
            if span := self._tools.get(bound.call.id):
                otel_context.attach(span.context)
                enclose([lambda: EnclosingObserver(self._instrument, self, bound.call.id)])
            return bound.run()

        return replace(bound, run=run)

    def _start_tool(self, event: ToolStarted) -> None:
        bound = event.call
        if bound.is_answer or self._run is None:
            return
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: bound.call.name,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL: bound.call.id,
            **self._agent,
        }
        if bound.tool is not None and bound.tool.description:
            attributes[names.TOOL_DESCRIPTION] = bound.tool.description
        if self._recorder.content:
            attributes[names.TOOL_ARGUMENTS] = mask(bound.as_written.arguments)
        name = f"{names.EXECUTE_TOOL} {bound.call.name}"
        self._tools[bound.call.id] = OpenSpan(self._recorder.tracer, name, self._run.context, attributes)

    def _finish_tool(self, event: ToolFinished) -> None:
        error, content, raised = event.result.error, event.result.content, event.result.exception
        shown = {names.TOOL_RESULT: mask(content)} if self._recorder.content else {}
        is_pause = isinstance(raised, Paused | InputRequired)  # the call runs again with the decision or the answer
        self._end_tool(event.result.call.id, error.name if error and not is_pause else None, raised, shown)

    def _end_tool(
        self, identity: str, failure: str | None, error: BaseException | None = None, shown: Attributes | None = None
    ) -> None:
        for inner in self._inner.pop(identity, ()):
            inner.close()
        if (span := self._tools.pop(identity, None)) is None:
            return
        if failure:
            span.fail(failure, error)
        kept = (names.TOOL_NAME, names.TOOL_TYPE, names.AGENT_NAME, names.ERROR_TYPE)
        measured = {name: span.attributes[name] for name in kept if name in span.attributes}
        self._recorder.record(names.TOOL_DURATION, span.end(shown or {}), measured, span.context)

    def _finish_run(self, event: RunFinished) -> None:
        if self._run is not None and self._recorder.content and self._run.is_recording:
            answer = text_content(names.OUTPUT_MESSAGES, "assistant", event.result.text)
            self._run.span.set_attributes(answer)

    def _end_by_event(self, event: RunEnded) -> None:
        if self._run is None:
            return
        for identity in [*self._tools]:
            self._end_tool(identity, CANCELLED)
        if isinstance(event.error, Paused):
            calls = event.error.calls
            self._run.note("agentkit.paused", {names.TOOL_NAME: [call.name for call in calls]})
        elif event.outcome not in ("answer", "stopped"):
            kind = CANCELLED if event.error is None else error_type(event.error)
            self._run.fail(kind, event.error)
        finish = {names.FINISH_REASONS: [self._finish_reason]} if self._finish_reason else {}
        self._end_run({names.OUTCOME: event.outcome, **finish, **usage_attributes(event.usage)})

    def _end_run(self, attributes: Attributes) -> None:
        run, self._run = self._run, None
        if run is not None:
            kept = (names.AGENT_NAME, names.REQUEST_MODEL, names.ERROR_TYPE)
            measured = {name: run.attributes[name] for name in kept if name in run.attributes}
            self._recorder.record(names.AGENT_DURATION, run.end(attributes), measured, run.context)

    def _hand_over(self, event: HandedOver) -> None:
        self._agent = {names.AGENT_NAME: event.name}
        self._note(event, *(describe_event(event) or ("", {})))

    def _note(self, event: Event, name: str, attributes: Attributes) -> None:
        """Add an event to the span of the call that it concerns, or of the run."""
        span = self._run
        if isinstance(event, ToolRetried | ToolAbandoned):
            call = event.call.call if isinstance(event.call, BoundCall) else event.call
            span = self._tools.get(call.id, span)
        if span is not None and span.is_recording:
            notice = {names.NOTICE: mask(event.notice)} if self._recorder.content else {}
            span.note(name, {**attributes, **notice})

    _HANDLERS: ClassVar[dict[type[Event], Any]] = {
        HandedOver: _hand_over,
        RunEnded: _end_by_event,
        RunFinished: _finish_run,
        ToolFinished: _finish_tool,
        ToolStarted: _start_tool,
    }
