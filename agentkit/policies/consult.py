"""The effects that ask for decisions about calls: a function, or a person."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..core.ask_person import MAX_CONSENT_CHARS, PersonAnswer, is_consent
from ..core.background import aresolve, is_async, resolve, run_in_thread
from ..core.errors import DefinitionError, Paused
from ..core.flow import Done, Event, Flow, ask
from ..core.messages import ToolCall
from ..core.pending import Pending
from ..core.questions import Question

Decide: TypeAlias = Callable[[ToolCall], Any]
"""Returns the `Decision` about a call; None to leave a dangerous one undecided and allow any other; `Paused` to let it
wait in any case.  May be a coroutine function; in an asynchronous run, other functions are called in a thread."""


@dataclass(frozen=True, slots=True)
class Consult:
    """The effect that calls `decide` with a call, with a question of a tool, or with all calls of a turn that wait."""

    decide: Callable[[Any], Any]
    asked: ToolCall | Question | Sequence[Pending]

    def perform(self) -> Generator[Event, None, Any]:
        yield from ()
        return resolve(self.decide(self.asked))

    async def aperform(self) -> AsyncGenerator[Event | Done[Any], None]:
        is_plain = not is_async(self.decide)
        answer = await run_in_thread(lambda: self.decide(self.asked)) if is_plain else self.decide(self.asked)
        yield Done(await aresolve(answer))


def check_reason(decision: Any, how: str) -> None:
    """Raise `DefinitionError` for a decision that would refuse a call with a yes as the reason; `how` it was given."""
    reason = decision.decision if isinstance(decision, PersonAnswer) else decision
    if isinstance(reason, str) and is_consent(reason):
        raise DefinitionError(
            f"{how} {reason[:MAX_CONSENT_CHARS]!r}, and a text refuses a call, as the reason. "
            "Give True to allow it, False to refuse it."
        )


def consult(decide: Decide, call: ToolCall) -> Flow[Any]:
    """Return the answer of `decide` about a call: a decision, also one that holds for more, None, or `Paused`."""
    try:
        answer = yield from ask(Consult(decide, call))
    except Paused:
        return Paused
    check_reason(answer, "approve= returned")
    if answer is None or isinstance(answer, bool | str | dict | PersonAnswer):
        return answer
    if answer is Paused or isinstance(answer, Paused):
        return Paused
    raise DefinitionError(
        f"approve= must return True, False, a reason (str), other arguments (dict), PersonAnswer, None or Paused for "
        f"a call, got {type(answer).__name__}"
    )
