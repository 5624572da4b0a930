"""The agent: ask the model, run the tools it calls, tell it the results, until it calls the tool that ends the run.

The rules of the machine, which knows nothing of the outside:

1. The history is the state.  Calls without answers at its end are run first; otherwise the model is asked.
2. Every call gets exactly one tool message, whatever becomes of it, in call order; the answer's call too.
3. The run ends with the first answer tool call of a turn whose arguments are valid.  The other calls of the turn are
   run before it; a further answer is not.
4. A text without a call is answered by a reminder.  After one reminder a text is taken for the answer, if a text is
   what is wanted.  How often a model may be reminded is for the policies; an empty reply that they let through ends
   the run with `NoAnswer`.
5. Whoever closes the flow in the middle of a turn, or raises something into it, leaves a valid history: finished
   results are kept, the rest of the calls are answered as cancelled, or left open by `Paused`.
6. The history holds the calls as they were understood: a tool's own name, arguments that are a JSON object.  What needs
   no repair stays as it came.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.context import RunContext
from ..core.errors import NoAnswer, Paused
from ..core.flow import Flow, ask
from ..core.messages import (
    Message,
    ToolCall,
    calls_of,
    normalize_calls,
    pending_calls,
    sort_results,
    text_of,
    tool_message,
    user,
)
from ..tools.execution.call import ANSWER_RESULT, BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.registry import ToolRegistry
from .history import normalize_reply
from .model import AskModel, Model, Request

CANCELLED = "Cancelled: the run was stopped before this call had a result; it is not known whether it had an effect."
GIVEN = "Not run: the answer was given already."
REMINDER = "Go on by calling a tool. When the task is done, or cannot be done, call final_answer with the answer."


@dataclass(frozen=True, slots=True)
class Answer:
    """How a run ended: the answer, and why it stopped ("answer": by the answer tool; "text": by a plain reply)."""

    value: Any
    stopped: str = "answer"


def agent_loop(
    model: Model,
    tools: ToolRegistry | Callable[[], ToolRegistry],
    history: list[Message],
    context: RunContext[Any] | None = None,
    *,
    text_ends: bool = True,
    stream: bool = False,
) -> Flow[Answer]:
    """Run an agent on `history`, which grows by what is said; `tools.answer` is the tool that ends the run.

    `tools` may be a function, which is asked at each step; `context` fills the parameters of tools that the model does
    not see; `text_ends` allows a plain text as the answer (after a reminder); `stream` asks the model for deltas.
    """
    context = context or RunContext(None)
    known_ids = {call.id for message in history for call in calls_of(message)}
    texts = 0
    while True:
        offered = tools if isinstance(tools, ToolRegistry) else tools()
        if calls := pending_calls(history):
            answer = yield from _answer_calls(calls, offered, history, context)
            if answer is not None:
                return answer
            continue
        while context.inbox:
            history.append(user(context.inbox.popleft()))
        reply = yield from ask(AskModel(model, Request(history, offered, stream=stream)))
        message = normalize_reply(reply.message, known_ids)
        if message.get("tool_calls"):
            history.append(message)
            texts = 0
            continue
        if not (text := text_of(message)):
            raise NoAnswer(f"{model.name} gave an empty reply")
        history.append(message)
        texts += 1
        if text_ends and texts > 1:
            return Answer(text, "text")
        history.append(user(REMINDER))


def _answer_calls(
    calls: Sequence[ToolCall], tools: ToolRegistry, history: list[Message], context: RunContext[Any]
) -> Flow[Answer | None]:
    """Run the calls of a turn, put their results into the history, and return the answer if one of them is it."""
    bound = tuple(tools.bind(call, replace(context, call=call)) for call in calls)
    normalize_calls(history, [entry.call for entry in bound])
    finished: dict[str, ToolResult] = {}
    results: dict[str, ToolResult] = {}
    rest: str | None = CANCELLED
    answer = None
    try:
        for batch in _batches(bound):
            if answer is None:
                for result in (yield from ask(CallTools(batch, finished))):
                    results[result.call.id] = result
                    answer = Answer(result.value) if result.is_answer else answer
        rest = GIVEN
    except Paused:
        rest = None
        raise
    finally:
        for entry in bound:
            kept = results.get(entry.call.id) or finished.get(entry.call.id)
            if kept and not isinstance(kept.exception, Paused):  # an agent that paused inside of its tool stays open
                history.append(kept.message)
            elif rest is not None:
                history.append(tool_message(entry.call, rest))
        sort_results(history)
    return answer


def _batches(bound: Sequence[BoundCall]) -> Iterator[tuple[BoundCall, ...]]:
    """What is run side by side: first all that is no answer, then one answer after the other."""
    if others := tuple(entry for entry in bound if not entry.is_answer):
        yield others
    for entry in bound:
        if entry.is_answer:
            yield (entry,)


def is_open(messages: Sequence[Message]) -> bool:
    """Whether the next word is the agent's: calls to run, results or a query to answer."""
    for message in reversed(messages):
        if message["role"] != "tool":
            return message["role"] == "user" or bool(message.get("tool_calls"))
        if message.get("content") == ANSWER_RESULT:
            return False
    return False
