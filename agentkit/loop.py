"""The agent: ask the model, run the tools it calls, tell it the results, until it calls the tool that ends the run.

The rules of the machine, which knows nothing of the outside:

1. The history is the state.  Calls without answers at its end are run first; otherwise the model is asked.
2. Every call gets exactly one tool message, whatever becomes of it, in call order; the answer's call too.
3. The run ends with the first answer tool call of a turn whose arguments are valid.
4. A reply without a call is answered by a reminder.  After one reminder a text is taken for the answer, if a text is
   what is wanted; a model that says nothing useful `PATIENCE` times in a row ends the run with `NoAnswer`.
5. Whoever closes the flow in the middle of a turn, or raises something into it, leaves a valid history: finished
   results are kept, the rest of the calls are answered as cancelled.
6. The history holds the calls as they were understood: a tool's own name, arguments that are a JSON object.  What needs
   no repair stays as it came.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .calls import CallTools, ToolResult
from .context import RunContext
from .errors import NoAnswer, Paused
from .flow import Flow, ask
from .messages import Message, ToolCall, admit, calls_of, pending_calls, settle, tool_message, user
from .model import AskModel, Model, Request
from .registry import ToolRegistry

PATIENCE = 3
CANCELLED = "Cancelled: the run was stopped before this call had a result; it is not known whether it had an effect."
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
    useless = 0
    while True:
        offered = tools if isinstance(tools, ToolRegistry) else tools()
        if calls := pending_calls(history):
            results = yield from _answer_calls(calls, offered, history, context)
            for result in results:
                if result.is_answer:
                    return Answer(result.value)
            continue
        while context.inbox:
            history.append(user(context.inbox.popleft()))
        reply = yield from ask(AskModel(model, Request(history, offered, stream=stream)))
        message = admit(reply.message, known_ids)
        if message.get("tool_calls"):
            history.append(message)
            useless = 0
            continue
        useless += 1
        if text := text_of(message):
            history.append(message)
            if text_ends and useless > 1:
                return Answer(text, "text")
        if useless >= PATIENCE:
            raise NoAnswer(f"{model.name} replied {useless} times without calling a tool and without an answer")
        if text or useless == 1:
            history.append(user(REMINDER))


def _answer_calls(
    calls: Sequence[ToolCall], tools: ToolRegistry, history: list[Message], context: RunContext[Any]
) -> Flow[list[ToolResult]]:
    bound = tuple(tools.bind(call, replace(context, call=call)) for call in calls)
    calls = [entry.call for entry in bound]
    settle(history, calls)
    finished: dict[str, ToolResult] = {}
    try:
        results = yield from ask(CallTools(bound, finished))
    except Paused:
        raise
    except (GeneratorExit, Exception):
        for call in calls:
            history.append(finished[call.id].message if call.id in finished else tool_message(call, CANCELLED))
        raise
    history.extend(result.message for result in results)
    return results


def text_of(message: Message) -> str:
    """The text of a message, without what surrounds it; parts that are not text are passed over."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return str(content).strip()
