"""The telemetry of runs: its settings, shared by all runs that it observes, and the spans and metrics of one run.

The span `invoke_agent` has below it `chat` for each request and `execute_tool` for each tool call.  A request runs in
the context of its span, so that an instrumented HTTP client becomes its child.

The policy sits next to the driver, outside of a journal: a reply that a journal returns has no span, and a replayed
run is not observed.  Every span is ended, whatever ends the run; a run inside an abandoned tool ends with its call.
"""

import os
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from .. import InputRequired, Paused, Session, ToolResult, Usage
from ..events import (
    Event,
    HandedOver,
    RunEnded,
    RunFinished,
    RunStarted,
    SubRun,
    ToolAbandoned,
    ToolFinished,
    ToolRetried,
    ToolStarted,
)
from ..extend import (
    AskModel,
    BoundCall,
    CallTools,
    Delta,
    Effect,
    EnclosingObserver,
    Flow,
    Model,
    ObservedRun,
    Reply,
    Request,
    around,
    ask,
    enclose,
    enclosing,
    mask,
)
from . import names
from .api import context as otel_context
from .api import metrics, propagate, trace
from .spans import (
    CANCELLED_ERROR_TYPE,
    Attributes,
    OpenSpan,
    describe_event,
    error_type,
    reply_content,
    request_content,
    text_content,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TracedModel:
    """The backend `model`, with the trace context in the request's headers and around every step of its work."""

    model: Model
    context: otel_context.Context

    @property
    def name(self) -> str:
        return self.model.name

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        with closing(self._within(lambda: self.model.ask(self._with_headers(request)))) as pieces:
            while (piece := self._within(lambda: next(pieces, None))) is not None:
                yield piece

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        async with aclosing(self.model.aask(self._with_headers(request))) as pieces:
            while True:
                token = otel_context.attach(self.context)
                try:
                    piece = await anext(pieces, None)
                finally:
                    otel_context.detach(token)
                if piece is None:
                    return
                yield piece

    def _within(self, work: Callable[[], T]) -> T:
        token = otel_context.attach(self.context)
        try:
            return work()
        finally:
            otel_context.detach(token)

    def _with_headers(self, request: Request) -> Request:
        headers: dict[str, str] = dict(request.headers or {})
        propagate.inject(headers, self.context)
        return replace(request, headers=headers) if headers else request


def model_attributes(operation: str, model: str, settings: Mapping[str, Any]) -> Attributes:
    """Return the attributes of an operation with a model: its provider, its name there, its address if that is set."""
    provider = names.name_provider(model)
    attributes: Attributes = {names.OPERATION: operation, names.PROVIDER: provider}
    attributes[names.REQUEST_MODEL] = model.partition("/")[2] or model
    address = urlsplit(str(settings.get("api_base") or settings.get("base_url") or ""))
    if address.hostname:
        attributes[names.SERVER_ADDRESS] = address.hostname
        attributes[names.SERVER_PORT] = address.port or (80 if address.scheme == "http" else 443)
    return attributes


def option_attributes(settings: Mapping[str, Any]) -> Attributes:
    """Return the attributes of the options that go to the model: temperature, seed, and so on."""
    found: Attributes = {}
    for option, attribute in names.REQUEST_OPTIONS.items():
        if (value := settings.get(option)) is not None:
            found[attribute] = [value] if option == "stop" and isinstance(value, str) else value
    return found


def usage_attributes(usage: Usage) -> Attributes:
    """Return the attributes of tokens and cost; the details only if there are some."""
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens or None,
        names.CACHE_CREATION_TOKENS: usage.cache_creation_tokens or None,
        names.REASONING_TOKENS: usage.reasoning_tokens or None,
        names.COST: usage.cost,
    }


class ChatSpan:
    """A request that was sent and has no reply yet."""

    def __init__(
        self,
        recorder: "Telemetry",
        effect: AskModel,
        parent: otel_context.Context,
        settings: Mapping[str, Any],
        extra: Attributes,
    ) -> None:
        self._recorder = recorder
        self._measured = model_attributes(names.CHAT, effect.model.name, settings)
        more = {names.REQUEST_STREAM: True} if effect.request.stream else {}
        limit = {names.REQUEST_OPTIONS["max_tokens"]: effect.request.max_tokens} if effect.request.max_tokens else {}
        attributes = {**self._measured, **option_attributes(settings), **limit, **more, **extra}
        kind = trace.SpanKind.INTERNAL if attributes[names.PROVIDER] == names.OWN_PROVIDER else trace.SpanKind.CLIENT
        self.span = OpenSpan(recorder.tracer, f"chat {attributes[names.REQUEST_MODEL]}", parent, attributes, kind)
        self._first_chunk: float | None = None
        if recorder.content and self.span.is_recording:
            self.span.span.set_attributes(request_content(effect.request))

    def note_piece(self) -> None:
        """Note that a piece of the reply arrived."""
        if self._first_chunk is None:
            self._first_chunk = self.span.age

    def finish(self, reply: Reply) -> None:
        """End the span with a reply."""
        if reply.model:
            self._measured = {**self._measured, names.RESPONSE_MODEL: reply.model}

        def describe() -> Attributes:
            return {
                names.RESPONSE_MODEL: reply.model or None,
                names.RESPONSE_ID: reply.id or None,
                names.FINISH_REASONS: [reply.finish_reason] if reply.finish_reason else None,
                names.FIRST_CHUNK_SECONDS: self._first_chunk,
                **usage_attributes(reply.usage),
                **(reply_content(reply) if self._recorder.content else {}),
            }

        self._end(describe)
        for kind, tokens in (("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens)):
            if tokens:
                attributes = {**self._measured, names.TOKEN_TYPE: kind}
                self._recorder.record(names.TOKEN_USAGE, tokens, attributes, self.span.context)

    def fail(self, error: BaseException) -> None:
        """End the span with the error that ended the request; a closed stream or a stopped run cancels it."""
        is_error = isinstance(error, Exception)
        kind = error_type(error) if is_error else CANCELLED_ERROR_TYPE
        self.span.fail(kind, error if is_error and self._recorder.content else None)
        self._measured = {**self._measured, names.ERROR_TYPE: kind}
        self._end(dict)

    def _end(self, describe: Any) -> None:
        seconds = self.span.end(describe)
        self._recorder.record(names.OPERATION_DURATION, seconds, self._measured, self.span.context)


_conversations: WeakKeyDictionary[Session, str] = WeakKeyDictionary()


class RunSpans:
    """Listen to one run and open its spans; see `RunObserver`."""

    def __init__(self, recorder: "Telemetry", run: ObservedRun) -> None:
        self.policy = around(self._handle, (AskModel, CallTools))
        self._recorder = recorder
        self._observed = run
        self._parent = otel_context.get_current()
        self._run: OpenSpan | None = None
        self._chat: ChatSpan | None = None
        self._tools: dict[str, OpenSpan] = {}
        self._inner: dict[str, list[RunSpans]] = {}
        self._finish_reason: str | None = None
        name = run.agent_name or recorder.agent_name
        self._agent: Attributes = {names.AGENT_NAME: name} if name else {}
        if recorder.agent_id and not run.agent_name:
            self._agent[names.AGENT_ID] = recorder.agent_id
        if (outer := enclosing(EnclosingObserver)) and isinstance(outer.observer, RunSpans):
            outer.observer._inner.setdefault(outer.call, []).append(self)

    def listen(self, event: Event) -> None:
        """Receive an event of the run."""
        if event.is_piece:
            if self._chat is not None:
                self._chat.note_piece()
        elif isinstance(event, RunStarted):
            self._start(event)
        elif self._run is not None:  # else it has ended already
            self._add(self._run, event)

    def _add(self, run: OpenSpan, event: Event) -> None:
        """Add an event of the run to its spans."""
        match event:
            case SubRun() | ToolStarted(BoundCall(is_answer=True)):  # an inner run reports itself
                pass
            case ToolStarted(bound):
                self._start_tool(run, bound)
            case ToolFinished(result):
                self._finish_tool(result)
            case RunFinished(result) if self._recorder.content and run.is_recording:
                run.span.set_attributes(text_content(names.OUTPUT_MESSAGES, "assistant", result.text))
            case RunEnded():
                self._end_by_event(run, event)
            case _:
                if isinstance(event, HandedOver):
                    self._agent = {names.AGENT_NAME: event.name}
                self._note(run, event)

    def close(self) -> None:
        """End what is open, as cancelled; later events are ignored."""
        for inner in [run for runs in self._inner.values() for run in runs]:
            inner.close()
        if self._run is not None:
            self._run.fail(CANCELLED_ERROR_TYPE)
            self._end_run(self._run, {})

    def _start(self, event: RunStarted) -> None:
        run = self._observed
        recorder = self._recorder
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
            self._recorder,
            effect,
            self._run.context,
            self._observed.settings,
            {**self._agent, names.CONVERSATION: conversation},
        )
        try:
            reply: Reply = yield from ask(replace(effect, model=TracedModel(effect.model, chat.span.context)))
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
                enclose([lambda: EnclosingObserver(self._recorder, self, bound.call.id)])
            return bound.run()

        return replace(bound, run=run)

    def _start_tool(self, run: OpenSpan, bound: BoundCall) -> None:
        is_shown = bound.tool is not None or self._recorder.content  # the model made the name of an unknown tool
        tool_name = bound.call.name if is_shown else names.OTHER
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: tool_name,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL: bound.call.id,
            **self._agent,
        }
        if bound.tool is not None and bound.tool.description:
            attributes[names.TOOL_DESCRIPTION] = bound.tool.description
        if self._recorder.content:
            attributes[names.TOOL_ARGUMENTS] = mask(bound.as_written.arguments)
        name = f"{names.EXECUTE_TOOL} {tool_name}"
        self._tools[bound.call.id] = OpenSpan(self._recorder.tracer, name, run.context, attributes)

    def _finish_tool(self, result: ToolResult) -> None:
        error = result.error
        raised = result.exception
        shown = {names.TOOL_RESULT: mask(result.content)} if self._recorder.content else {}
        is_pause = isinstance(raised, Paused | InputRequired)  # the call runs again with the decision or the answer
        self._end_tool(result.call.id, error.name if error and not is_pause else None, raised, shown)

    def _end_tool(
        self, identity: str, failure: str | None, error: BaseException | None = None, shown: Attributes | None = None
    ) -> None:
        for inner in self._inner.pop(identity, ()):
            inner.close()
        if (span := self._tools.pop(identity, None)) is None:
            return
        if failure:
            span.fail(failure, error if self._recorder.content else None)
        kept = (names.TOOL_NAME, names.TOOL_TYPE, names.AGENT_NAME, names.ERROR_TYPE)
        measured = {name: span.attributes[name] for name in kept if name in span.attributes}
        self._recorder.record(names.TOOL_DURATION, span.end(shown or {}), measured, span.context)

    def _end_by_event(self, run: OpenSpan, event: RunEnded) -> None:
        if isinstance(event.error, Paused):
            run.note("agentkit.paused", {names.TOOL_NAME: [call.name for call in event.error.calls]})
        elif event.outcome not in ("answer", "stopped"):
            kind = CANCELLED_ERROR_TYPE if event.error is None else error_type(event.error)
            run.fail(kind, event.error if self._recorder.content else None)
        finish = {names.FINISH_REASONS: [self._finish_reason]} if self._finish_reason else {}
        self._end_run(run, {names.OUTCOME: event.outcome, **finish, **usage_attributes(event.usage)})

    def _end_run(self, run: OpenSpan, attributes: Attributes) -> None:
        self._run = None
        for identity in [*self._tools]:
            self._end_tool(identity, CANCELLED_ERROR_TYPE)
        kept = (names.AGENT_NAME, names.REQUEST_MODEL, names.ERROR_TYPE)
        measured = {name: run.attributes[name] for name in kept if name in run.attributes}
        self._recorder.record(names.AGENT_DURATION, run.end(attributes), measured, run.context)

    def _note(self, span: OpenSpan, event: Event) -> None:
        """Add an event to the span of the run, or of the call that it concerns, if spans have such events."""
        if (described := describe_event(event)) is None:
            return
        name, attributes = described
        if isinstance(event, ToolRetried | ToolAbandoned):
            call = event.call.call if isinstance(event.call, BoundCall) else event.call
            span = self._tools.get(call.id, span)
        if span.is_recording:
            notice = {names.NOTICE: mask(event.notice)} if self._recorder.content else {}
            span.note(name, {**attributes, **notice})


@lru_cache(maxsize=4)
def _make_histograms(provider: "metrics.MeterProvider") -> "Mapping[str, metrics.Histogram]":
    """Return the histograms by name; all recorders share them: a process without a provider of its own keeps each."""
    meter = metrics.get_meter("agentkit", meter_provider=provider)
    return {
        name: meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
        for name, unit, description, bounds in (
            (names.OPERATION_DURATION, "s", "GenAI operation duration.", names.SECONDS_BOUNDS),
            (names.TOKEN_USAGE, "{token}", "Number of input and output tokens used.", names.TOKEN_BOUNDS),
            (names.AGENT_DURATION, "s", "The duration of an agent invocation.", names.AGENT_SECONDS_BOUNDS),
            (names.TOOL_DURATION, "s", "The duration of a single tool execution.", names.SECONDS_BOUNDS),
        )
    }


CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Telemetry:
    """Report runs to OpenTelemetry: `JsonAgent(..., telemetry=Telemetry(content=True))`.

    Args:
        content: Record messages, arguments and results as well, secrets masked.  Default: the environment variable
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, else no.
        agent_name: The name of an agent that no other one uses; agents inside tools have their tool's name.
        agent_id: The id of that agent, if it has one: in your database, or at a provider.
        tracer_provider: Where spans go; default: OpenTelemetry's global provider.
        meter_provider: Where metrics go; default: OpenTelemetry's global provider.
    """

    def __init__(
        self,
        *,
        content: bool | None = None,
        agent_name: str = "",
        agent_id: str = "",
        tracer_provider: "trace.TracerProvider | None" = None,
        meter_provider: "metrics.MeterProvider | None" = None,
    ) -> None:
        if content is None:
            content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() in ("1", "true")
        self.content = content
        self.agent_name = agent_name
        self.agent_id = agent_id
        self.tracer = trace.get_tracer("agentkit", tracer_provider=tracer_provider)
        self._histograms = _make_histograms(meter_provider or metrics.get_meter_provider())

    def observe(self, run: ObservedRun) -> RunSpans:
        """Return the listener and the policy of one run."""
        return RunSpans(self, run)

    def record(self, metric: str, value: float, attributes: Attributes, context: Any = None) -> None:
        """Add a value to a histogram; `context` holds the span that it belongs to."""
        self._histograms[metric].record(value, attributes, context)
