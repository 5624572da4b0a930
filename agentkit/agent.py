"""The agent: tools, a model and a conversation, called like a function."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Generic, Literal, cast

from typing_extensions import TypeVar

from .answer import answer_tool
from .batch import amap_queries, map_queries
from .context import RunContext
from .errors import DefinitionError, RunError
from .flow import Emit, Event, Flow, Listener, Policy, adrive, ask, drive, stacked
from .handling import Repairing
from .json_tool import JsonTool
from .listeners.log import log, show_messages
from .loop import agent_loop
from .messages import Message
from .model import Model
from .models import Backends, chosen
from .policies.approve import Decide
from .policies.checks import Check
from .policies.excerpts import MAX_RESULT
from .policies.purse import Limits
from .policies.retry import WAITS
from .policies.tool_settings import TOOL_TIMEOUT
from .registry import ToolRegistry
from .run import Result, Run, RunFinished, RunStarted
from .session import Session
from .stack import Choice, Settings, ToolMode, offered, stack

T = TypeVar("T", default=str)

INSTRUCTION = """\
Work through the task step by step with the tools, several calls at once where they do not depend on each other. \
Rely on what the tools return; when one fails, try another way or say so. \
When the task is done, or cannot be done, call final_answer; call it only then."""


class JsonAgent(Generic[T]):
    """An agent: it answers queries by letting a model call tools.

    Args:
        functions: Functions, tools or registries, one by one or in a list.
        tools: More of them in a list; or a function of the run's `RunContext` that returns those for the next step.
        model: What to ask: a name as litellm writes it ("groq/llama-3.1-8b-instant"), "offline" for the embedded
            model, or any object with the methods of `Model`.  Without it the environment's AGENTKIT_MODEL counts, and
            without that the embedded model.
        description: Who the agent is and what it is for; it opens the instruction.
        answer: The type of the answer, any that pydantic can validate, or a function that returns the answer: the model
            fills its parameters.  Type checkers know what the agent gives (for a union, say it with `cast`).
        max_steps: How many requests a run may make before it is asked for its final answer.
        limits: What a run may take: `Limits(tokens=, seconds=, dollars=, tool_calls=)`.
        retries: How often a request that failed in a passing way is made again.
        request_timeout: Seconds that a request may take.
        tool_timeout: Seconds that a call may take, where its tool does not say so itself; None for no end.
        fallback_models: The models to go on with, in this order, when the first cannot be had.
        max_concurrency: Requests to the model at a time, all agents of the process together.
        requests_per_minute: Requests to the model in a minute, all agents of the process together.
        sequential: The calls of a turn one after the other.
        approve: Who decides about calls of tools with `effect="danger"`: a function of the call, or "ask" for the
            person at the terminal or the notebook; without it a run with such a call pauses.
        checks: Functions of the answer (and, if they take two arguments, of the run's `Material`) that raise what is
            wrong with it: then it goes back to the model with the reason.
        repair: "off" to repair nothing that the model writes, whatever the tools say.
        tool_mode: "text" for models without function calling: the tools stand in the instruction, calls in the text.
        max_result: Characters of a tool's result that the model reads at once; it can read on.
        deps: What tools get for parameters of type `RunContext` or `Injected[...]`, which the model does not see.
        policies: What becomes of effects; the first one sees an effect first.
        listeners: Functions that are shown every event.
        options: Whatever else goes to the model's backend (temperature, api_key, api_base, max_tokens, ...).

    Raises:
        DefinitionError: there are no tools, or one of them cannot be used as it is.
    """

    def __init__(
        self,
        *functions: Any,
        tools: Iterable[Any] | Choice = (),
        model: str | Model | None = None,
        description: str = "",
        answer: type[T] | Callable[..., T] = cast(Any, str),  # noqa: B008
        max_steps: int = 50,
        limits: Limits | None = None,
        retries: int = len(WAITS),
        request_timeout: float | None = None,
        tool_timeout: float | None = TOOL_TIMEOUT,
        fallback_models: Sequence[str | Model] = (),
        max_concurrency: int | None = None,
        requests_per_minute: int | None = None,
        sequential: bool = False,
        approve: Decide | Literal["ask"] | None = None,
        checks: Sequence[Check] = (),
        repair: Repairing = "safe",
        tool_mode: ToolMode = "auto",
        max_result: int = MAX_RESULT,
        deps: Any = None,
        policies: Sequence[Policy] = (),
        listeners: Sequence[Listener] = (),
        **options: Any,
    ) -> None:
        fixed = (tools,) if isinstance(tools, JsonTool) else () if callable(tools) else tools
        self._choose: Choice | None = tools if callable(tools) and not fixed else None
        self.tools = ToolRegistry(functions, fixed, answer=answer_tool(answer), repair=repair)
        if len(self.tools) == 1 and answer is str and self._choose is None:
            raise DefinitionError("an agent needs tools: JsonAgent([my_function, my_other_function])")
        self.tools.check_injected(RunContext(deps))
        self.model = model
        self.description = description
        self.deps = deps
        self.session = Session()
        self.listeners: tuple[Listener, ...] = (log, *listeners)
        self._settings = Settings(
            max_steps=max_steps, limits=limits, retries=retries, tool_timeout=tool_timeout, sequential=sequential,
            max_concurrency=max_concurrency, requests_per_minute=requests_per_minute, approve=approve,
            checks=tuple(checks), tool_mode=tool_mode, max_result=max_result, policies=tuple(policies),
        )  # fmt: skip
        self._fallbacks = tuple(fallback_models)
        self._backends = Backends(options if request_timeout is None else {"timeout": request_timeout, **options})
        self._text_ends = answer is str
        self._noted = False

    def __call__(self, query: str, *, model: str | Model | None = None, session: Session | None = None) -> T:
        """Answer `query` and return the answer; the conversation goes on from call to call.

        `model` is for this call only; `session` gives the call a conversation of its own.  Works wherever it is called
        from, a running event loop included (which it blocks: there, `await agent.arun(...)`).  Raises `RunError`.
        """
        return self.run(query, model=model, session=session).answer

    def run(self, query: str, *, model: str | Model | None = None, session: Session | None = None) -> Result[T]:
        """Answer `query`, blocking; returns the answer with all that led to it."""
        last: Event | None = None
        for event in self._events(query, model, session, stream=False):
            last = event
        return _result(last)

    async def arun(self, query: str, *, model: str | Model | None = None, session: Session | None = None) -> Result[T]:
        """Answer `query` on the running event loop; returns the answer with all that led to it."""
        last: Event | None = None
        async with aclosing(self._aevents(query, model, session, stream=False)) as events:
            async for event in events:
                last = event
        return _result(last)

    def stream(
        self, query: str, *, model: str | Model | None = None, session: Session | None = None
    ) -> Generator[Event, None, None]:
        """Answer `query`, blocking; yields the events as they happen, `RunFinished` with the result last."""
        return self._events(query, model, session, stream=True)

    def astream(
        self, query: str, *, model: str | Model | None = None, session: Session | None = None
    ) -> AsyncGenerator[Event, None]:
        """Answer `query` on the running event loop; yields the events, `RunFinished` with the result last."""
        return self._aevents(query, model, session, stream=True)

    def map(
        self, queries: Iterable[str], *, concurrency: int = 8, progress: bool | None = None
    ) -> list[Result[T] | Exception]:
        """Answer many queries, `concurrency` at a time, each in a conversation of its own; outcomes in their order.

        What a run raised stands in the place of its result.  `progress` shows a bar; by default where one can be seen.
        """
        return map_queries(lambda query: self.stream(query, session=Session()), queries, concurrency, progress)

    async def amap(
        self, queries: Iterable[str], *, concurrency: int = 8, progress: bool | None = None
    ) -> list[Result[T] | Exception]:
        """`map` on the running event loop."""
        return await amap_queries(lambda query: self.astream(query, session=Session()), queries, concurrency, progress)

    @property
    def instruction(self) -> str:
        """The system message: the description, and how to work."""
        return f"{self.description.strip()}\n\n{INSTRUCTION}".strip()

    @property
    def history(self) -> list[Message]:
        """The messages of the agent's own conversation, the instruction first."""
        if not self.session.messages:
            self.session.messages.append({"role": "system", "content": self.instruction})
        return self.session.messages

    def show_history(self) -> None:
        """Print the conversation."""
        show_messages(self.history)

    def clear_history(self) -> None:
        """Forget the conversation; the instruction stays."""
        self.session.clear()

    def __repr__(self) -> str:
        names = ", ".join(name for name in self.tools if self.tools[name] is not self.tools.answer)
        return f"JsonAgent({names}; model={self._backends.backend(chosen(self.model)[0]).name!r})"

    def _events(
        self, query: str, model: str | Model | None, session: Session | None, *, stream: bool
    ) -> Generator[Event, None, None]:
        with self._begun(query, model, session, stream) as (run, flow):
            for event in drive(flow):
                yield run.observe(event)

    async def _aevents(
        self, query: str, model: str | Model | None, session: Session | None, *, stream: bool
    ) -> AsyncGenerator[Event, None]:
        with self._begun(query, model, session, stream) as (run, flow):
            async with aclosing(adrive(flow)) as events:
                async for event in events:
                    if isinstance(event, Event):
                        yield run.observe(event)

    @contextmanager
    def _begun(
        self, query: str, model: str | Model | None, session: Session | None, stream: bool
    ) -> Iterator[tuple[Run, Flow[None]]]:
        """A run and its flow, with the session held; whatever ends the run carries its history and usage."""
        if not isinstance(query, str) or not query.strip():
            raise RunError('the query is empty: say what you want to know, agent("What is 2 + 3?")')
        session = session or self.session
        backend, note = self._model(model)
        with session.turn(self.instruction, query.strip()) as history:
            run = Run(backend.name, history, self.listeners)
            begun = RunStarted(query.strip(), backend.name, note)
            try:
                yield run, self._flow(run, backend, session, begun, stream)
            except RunError as error:
                error.history, error.usage = list(history), run.usage
                raise
            finally:
                session.usage += run.usage

    def _flow(self, run: Run, backend: Model, session: Session, begun: RunStarted, stream: bool) -> Flow[None]:
        yield from ask(Emit(begun))
        context = RunContext(self.deps, usage=lambda: run.usage, inbox=session.inbox)
        tools = offered(self.tools, self._choose, context)
        loop = agent_loop(backend, tools, run.history, context, text_ends=self._text_ends, stream=stream)
        answer = yield from stacked(loop, self._stack(run, session, context))
        yield from ask(Emit(RunFinished(run.finish(answer))))

    def _stack(self, run: Run, session: Session, context: RunContext[Any]) -> tuple[Policy, ...]:
        fallbacks = [self._backends.backend(model, chosen(self.model)[0]) for model in self._fallbacks]
        return stack(self._settings, run, session, context, self.tools, fallbacks)

    def _model(self, model: str | Model | None) -> tuple[Model, str]:
        """The backend to ask, and what the person should know about the choice; said once is enough."""
        named, note = chosen(model, self.model)
        note, self._noted = "" if self._noted else note, self._noted or bool(note)
        return self._backends.backend(named), note


def _result(event: Event | None) -> Result[Any]:
    assert isinstance(event, RunFinished)  # every run that does not raise ends with it
    return event.result
