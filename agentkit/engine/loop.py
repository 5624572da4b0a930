"""The agent loop: ask the model, run the tools that it calls, append the results, until it calls `final_answer`.

The rules of the loop, which does no I/O:

1. The history is the state.  If it ends with tool calls without results, they are run; otherwise the model is asked.
2. Every call gets exactly one tool message, in the order of the calls, whatever its outcome.  So does `final_answer`.
3. The run ends with the first call of the answer tool in a turn whose arguments are valid.  The other calls of the turn
   are run before it; further answers are not.
4. A text without a call is answered by a reminder.  The next text without a call becomes the answer, if `text_ends`;
   so does the first one, if its backend marks it as the end of a turn.  Policies limit the number of reminders.  An
   empty reply that they let pass ends the run with `NoAnswer`.
5. Closing the flow in the middle of a turn, or raising an exception in it, leaves a valid history.  Finished results
   are kept.  Calls that had begun are answered as cancelled, with an unknown effect, and the others as not run.  If the
   exception is `Paused`, all of these are left open.  So is always a call that began in an earlier run: the next run
   finds its outcome.
6. The history holds the calls as they were understood: the tool's own name, and arguments that are a JSON object.  A
   call that needs no repair is kept unchanged.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..core.context import RunContext
from ..core.errors import NoAnswer, Paused
from ..core.flow import Flow, ask
from ..core.messages import (
    DEVELOPER,
    Message,
    list_call_ids,
    normalize_calls,
    pending_calls,
    sort_results,
    text_of,
    tool_message,
    user,
)
from ..core.values import frozen
from ..tools.execution.call import ANSWER_RESULT, BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.registry import ToolRegistry
from .history.tool_calls import normalize_reply
from .model import AskModel, Model, Request

CANCELLED = "Cancelled: the run was stopped before this call had a result; it is not known whether it had an effect."
NOT_BEGUN = "Not run: the run was stopped before this call began."
ANSWERED_ALREADY = "Not run: the answer was given already."
REMINDER = "Go on by calling a tool. When the task is done, or cannot be done, call final_answer with the answer."


@frozen
class Answer:
    """The answer of a run, and why it ended, as in `Result.stopped`: "text" for a plain reply."""

    value: Any
    stopped: str = "answer"


def agent_loop(
    model: Model,
    tools: ToolRegistry | Callable[[RunContext[Any]], ToolRegistry],
    history: list[Message],
    context: RunContext[Any] | None = None,
    *,
    begun: Collection[str] = (),
    known_ids: set[str] | None = None,
    text_ends: bool = True,
    stream: bool = False,
) -> Flow[Answer]:
    """Run an agent on `history`.

    Args:
        model: The backend that answers requests.
        tools: The tools, or a function of the context that returns those of the next step.  `tools.answer` is the
            tool that ends the run.
        history: The conversation.  Replies and results are appended to it.
        context: The values of injected parameters, which the model does not see.
        begun: The ids of pending calls that began in an earlier run, of any process.
        known_ids: The ids of all calls in the history, if they are known; new ones are added.
        text_ends: Whether a plain text may be the answer: after one reminder, or with `ends_turn` in its message.
        stream: Whether the model is asked for deltas.

    Returns:
        The answer.

    Raises:
        NoAnswer: The model gave an empty reply that no policy dealt with.
    """
    context = context or RunContext(None)
    known_ids = list_call_ids(history) if known_ids is None else known_ids
    texts = 0

    def select() -> ToolRegistry:
        return tools(context) if callable(tools) else tools

    step_tools = select()
    while True:
        if calls := pending_calls(history, as_written=True):
            bound = [step_tools.bind(call, context.for_call(call)) for call in calls]
            if begun:
                bound = [entry.change(began_before=True) if entry.call.id in begun else entry for entry in bound]
            if answer := (yield from _answer_calls(bound, history)):
                return answer
            step_tools = select()
        while context.inbox:
            history.append(context.inbox.popleft())
        reply = yield from ask(AskModel(model, Request(history, step_tools, stream=stream)))
        message = normalize_reply(reply.message, known_ids)
        has_calls = bool(message.get("tool_calls"))
        text = text_of(message)
        if not has_calls and not text:
            raise NoAnswer(f"{model.name}: the reply is empty")
        history.append(message)
        texts = 0 if has_calls else texts + 1
        if text_ends and texts >= (1 if message.get("ends_turn") else 2):
            return Answer(text, "text")
        if texts:
            history.append(user(REMINDER))
            step_tools = select()


def _answer_calls(bound: Sequence[BoundCall], history: list[Message]) -> Flow[Answer | None]:
    """Run the calls of a turn, append their results to the history, and return the answer if one of them gave it."""
    calls = {entry.call.id: entry.call for entry in bound}
    normalize_calls(history, calls, {entry.call.id: entry.raw for entry in bound if entry.raw})
    finished: dict[str, ToolResult] = {}
    results: dict[str, ToolResult] = {}
    rest: str | None = CANCELLED
    answer = None
    try:
        for batch in _batches(bound):
            if answer is None:
                for result in (yield from ask(CallTools(batch, finished))):
                    results[result.call.id] = result
                    answer = Answer(result.value, result.stopped) if result.is_answer else answer
        rest = ANSWERED_ALREADY
    except Paused:
        rest = None
        raise
    finally:
        for entry in bound:
            own = results.get(entry.call.id) or finished.get(entry.call.id)
            if own and (not own.is_open or rest is ANSWERED_ALREADY):  # a call that paused stays open
                history.append(own.message)
            elif rest is not None and not (rest is CANCELLED and entry.began_before):
                never_ran = rest is CANCELLED and not entry.begun
                history.append(tool_message(entry.call, NOT_BEGUN if never_ran else rest, label=DEVELOPER))
        sort_results(history)
    return answer


def _batches(bound: Sequence[BoundCall]) -> list[tuple[BoundCall, ...]]:
    """Return the calls that run concurrently: first all but the answers, then one answer after the other."""
    others = tuple([entry for entry in bound if not entry.is_answer])
    if len(others) == len(bound):
        return [others]
    answers: list[tuple[BoundCall, ...]] = [(entry,) for entry in bound if entry.is_answer]
    return [others, *answers] if others else answers


def is_open(messages: Sequence[Message]) -> bool:
    """Return whether the agent has to act: there are calls to run, or results or a query to answer."""
    for message in reversed(messages):
        if message["role"] != "tool":
            return message["role"] == "user" or bool(message.get("tool_calls"))
        if message.get("content") == ANSWER_RESULT:
            return False
    return False


def undo_last_question(history: list[Message]) -> str | None:
    """Remove the last question of a conversation and all messages after it.

    Returns:
        The text of the question; None if the conversation has no question.
    """
    for place in reversed(range(len(history))):
        message = history[place]
        text = text_of(message)
        if message["role"] == "user" and text != REMINDER:
            del history[place:]
            return text
    return None
