"""The agent: tools, a model and a conversation, called like a function."""

import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Unpack, cast

from typing_extensions import TypeVar

from ..core.context import RunContext
from ..core.errors import DefinitionError
from ..core.flow import Event, Flow, Listener, Policy, apply_policies
from ..core.masking import MaskedDict
from ..core.messages import Message
from ..engine.loop import Answer, agent_loop
from ..engine.model import Model
from ..engine.partial_answer import PartialAnswerReader
from ..engine.result import Result
from ..policies.answer_checks import Check
from ..policies.approval import Decide
from ..policies.budget import Limits
from ..policies.long_results import MAX_RESULT_CHARS
from ..policies.retries import WAITS
from ..policies.timeouts import DEFAULT_TOOL_SECONDS
from ..sessions.journal.store import Errors, Place, placed
from ..sessions.session import Session
from ..tools.final_answer import make_answer_tool
from ..tools.json_tool import JsonTool
from ..tools.registry import ToolRegistry
from ..tools.settings import RepairMode
from ..views.html import agent_view
from ..views.log import log, show_messages
from .agent_tool import agent_tool
from .backends import Backends, chosen, several, soon_asked, spelt
from .batch import Many, Outcome, afinished, amap_queries, finished, map_queries
from .handoffs import by_name, handoff_tools
from .options import Asked, Branching, How, Named, Replaying, Resuming, asked_of, branched, replayed, resumed
from .pipeline import INSTRUCTION, Choice, offered, stack, told_apart
from .run_state import Run
from .runner import aevents, aresult, events, result
from .settings import Settings, ToolMode

T = TypeVar("T", default=str)


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
        request_timeout: Seconds that a reply may take; of a streamed one, each piece.  A model that is given as an
            object is told them with each request, for the whole reply.
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
        handoffs: Agents, by the names under which the model can hand the conversation over to them.
        policies: What becomes of effects; the first one sees an effect first.
        listeners: Functions that are shown every event.
        journal: A file that keeps every run, for `agent.resume`; or a `journal.Journal`, which says how.
        journal_errors: "raise" to end a run that cannot be kept; without it, that is told, and the run goes on.
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
        tool_timeout: float | None = DEFAULT_TOOL_SECONDS,
        fallback_models: Sequence[str | Model] = (),
        max_concurrency: int | None = None,
        requests_per_minute: int | None = None,
        sequential: bool = False,
        approve: Decide | Literal["ask"] | None = None,
        checks: Sequence[Check] = (),
        repair: RepairMode = "safe",
        tool_mode: ToolMode = "auto",
        max_result: int = MAX_RESULT_CHARS,
        deps: Any = None,
        handoffs: Mapping[str, Any] | None = None,
        policies: Sequence[Policy] = (),
        listeners: Sequence[Listener] = (),
        journal: Place = None,
        journal_errors: Errors | None = None,
        **options: Any,
    ) -> None:
        more, self._choose = told_apart(tools)
        self.handoffs, form = by_name(handoffs), make_answer_tool(answer)
        self.tools = ToolRegistry(functions, more, handoff_tools(self.handoffs), answer=form, repair=repair)
        if len(self.tools) == 1 and answer is str and self._choose is None:
            raise DefinitionError("an agent needs tools: JsonAgent([my_function, my_other_function])")
        self.tools.check_injected(RunContext(deps))
        self.model, self.deps, self.journal = model, deps, placed(journal, journal_errors)
        self.session, self._fallbacks, self.listeners = Session(), several(fallback_models), (log, *listeners)
        self._settings = Settings(
            max_steps=max_steps, limits=limits, retries=retries, request_timeout=request_timeout,
            tool_timeout=tool_timeout, sequential=sequential, max_concurrency=max_concurrency,
            requests_per_minute=requests_per_minute, approve=approve, checks=tuple(checks), tool_mode=tool_mode,
            max_result=max_result, handoffs=self.handoffs, policies=tuple(policies),
        )  # fmt: skip
        self._backends = Backends(spelt(options, JsonAgent.__init__.__kwdefaults__ or ()), request_timeout)
        soon_asked(model)
        self._text_ends, self._noted, self.description, self._instruction = answer is str, False, description, ""

    def __call__(self, query: str | None = None, **how: Unpack[How]) -> T:
        """Answer `query` and return the answer; the conversation goes on from call to call.

        `model` is for this call only; `session` gives the call a conversation of its own.  Without a query the session
        goes on where it stopped; `approvals` decides about the calls that a paused one waits for, by their ids.
        `journal` keeps the run as the agent's own does, `record` writes it into a file for `replay`.  Works wherever
        it is called from, a running event loop included (which it blocks: there, `await agent.arun(...)`).
        """
        return self.run(query, **how).answer

    def run(self, query: str | None = None, **how: Unpack[How]) -> Result[T]:
        """Answer `query`, blocking; returns the answer with all that led to it."""
        return result(self, asked_of(self.session, query, how))

    async def arun(self, query: str | None = None, **how: Unpack[How]) -> Result[T]:
        """Answer `query` on the running event loop; returns the answer with all that led to it."""
        return await aresult(self, asked_of(self.session, query, how))

    def stream(self, query: str | None = None, **how: Unpack[How]) -> Generator[Event, None, None]:
        """Answer `query`, blocking; yields the events as they happen, `RunFinished` with the result last."""
        return events(self, asked_of(self.session, query, how, stream=True))

    def astream(self, query: str | None = None, **how: Unpack[How]) -> AsyncGenerator[Event, None]:
        """Answer `query` on the running event loop; yields the events, `RunFinished` with the result last."""
        return aevents(self, asked_of(self.session, query, how, stream=True))

    def resume(self, run_id: str, **how: Unpack[Resuming]) -> Result[T]:
        """Go on with a run of the journal that was stopped, as the agent's own conversation from then on.

        What is known is neither paid for nor done again; `Resuming` says what becomes of the rest.  A finished run
        answers again.  To stream: `agent.stream(session=Session.resumed(run_id, "runs.db"))`.
        """
        return result(self, resumed(self, run_id, how))

    async def aresume(self, run_id: str, **how: Unpack[Resuming]) -> Result[T]:
        """`resume` on the running event loop."""
        return await aresult(self, resumed(self, run_id, how))

    def fork(self, run_id: str, step: int, **how: Unpack[Branching]) -> Result[T]:
        """Branch a run of the journal after `step` replies, and go on from there with what is given; both are kept."""
        return result(*branched(self, run_id, step, how))

    async def afork(self, run_id: str, step: int, **how: Unpack[Branching]) -> Result[T]:
        """`fork` on the running event loop."""
        return await aresult(*branched(self, run_id, step, how))

    def replay(self, path: str | os.PathLike[str], **how: Unpack[Replaying]) -> Result[T]:
        """Play a recorded run again, without model and network; raises `ReplayDiffers` where it is another one."""
        return result(self, replayed(path, how))

    async def areplay(self, path: str | os.PathLike[str], **how: Unpack[Replaying]) -> Result[T]:
        """`replay` on the running event loop."""
        return await aresult(self, replayed(path, how))

    def map(self, queries: Iterable[str], *, concurrency: int = 8, progress: bool | None = None) -> list[Outcome[T]]:
        """Answer many queries, `concurrency` at a time, each in a session of its own.

        Returns their results in order; in the place of a failed one stands what it raised.  `progress` shows a bar, by
        default on a terminal and in a notebook.
        """
        return map_queries(lambda query: events(self, Asked(query, Session())), queries, concurrency, progress)

    async def amap(self, queries: Many, *, concurrency: int = 8, progress: bool | None = None) -> list[Outcome[T]]:
        """`map` on the running event loop."""
        return await amap_queries(lambda query: aevents(self, Asked(query, Session())), queries, concurrency, progress)

    def imap(self, queries: Iterable[str], *, concurrency: int = 8) -> Generator[tuple[int, Outcome[T]], None, None]:
        """`map`, one by one: each outcome as it comes, with the place of its query."""
        return finished(lambda query: events(self, Asked(query, Session())), queries, concurrency)

    def aimap(self, queries: Many, *, concurrency: int = 8) -> AsyncGenerator[tuple[int, Outcome[T]], None]:
        """`imap` on the running event loop."""
        return afinished(lambda query: aevents(self, Asked(query, Session())), queries, concurrency)

    def as_tool(self, name: str, description: str = "") -> JsonTool[..., T]:
        """The agent as a tool for another agent; the description is by default the agent's own."""
        return agent_tool(lambda *asked: aevents(self, Asked(*asked)), name, description or self.description)

    def say(self, text: str) -> None:
        """Add a message for the model, which reads it with its next request, in a run too; from any thread."""
        self.session.say(text)

    @property
    def instruction(self) -> str:
        """The system message: the description, and how to work."""
        return self._instruction or f"{self.description.strip()}\n\n{INSTRUCTION}".strip()

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was given that concerns its runs and its model; keys are masked where they are shown."""
        return MaskedDict({**vars(self._settings), **self._backends.options})

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

    def _repr_html_(self) -> str:
        model, _ = chosen(self.model)
        name, session = self._backends.backend(model).name, self.session
        return agent_view(name, self.instruction, self.tools, session.messages, session.usage.as_dict())

    def answering(self, run: Run, asked: Asked, backend: Model) -> Flow[Answer]:
        """The flow of this agent's part of a run; runs are begun with `run`, `stream` and their kin."""
        run.forming = PartialAnswerReader(self.tools.answer) if asked.stream and self.tools.answer else None
        context = RunContext(self.deps, run.state, lambda: run.usage, stream=asked.stream, inbox=asked.session.inbox)
        tools = offered(self.tools, self._choose, context)
        loop = agent_loop(backend, tools, run.history, context, text_ends=self._text_ends, stream=asked.stream)
        fallbacks = [self._backends.backend(model, chosen(self.model)[0]) for model in self._fallbacks]
        return apply_policies(loop, stack(self._settings, run, asked.session, context, self.tools, fallbacks))

    def chosen_model(self, model: Named = None) -> tuple[Model, str]:
        """The backend to ask, and what the person should know about the choice; said once is enough."""
        named, note = chosen(model, self.model)
        note, self._noted = "" if self._noted else note, self._noted or bool(note)
        return self._backends.backend(named, chosen(self.model)[0]), note
