"""A server that asks for input before it answers a call: its requests as questions, and answers as responses."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import mcp_types as types

from .. import Answers, InputRequired, Paused, Question, ToolError
from ..extend import Consult, Done, LiveRespondent, Person, Respondent, enclosing, explain_answer

MAX_QUESTION_CHARS = 2_000
YES_OR_NO: Mapping[str, Any] = {"type": "boolean"}

Ask: TypeAlias = Callable[[types.ElicitRequestParams], Coroutine[Any, Any, types.ElicitResult | str]]
"""Answers a question in the middle of a call; a text is the reason why it has no answer."""
NOT_ASKED = "no person could be asked in the middle of the call"
NO_ANSWER = "the person was asked and gave no answer"
ASKED_AGAIN = "(It asks again, because it has lost the call: it was started anew, or the answers came late.)"
UNCLEAR = (
    "calls of several runs were open, and the server did not say which of them its question belongs to. "
    "No person was asked. Call it again later, or give each run a server of its own"
)


@dataclass(eq=False, slots=True)
class OpenCall:
    """A call that a server works on, and what answers the questions that it asks meanwhile.

    Attributes:
        run: Identifies the run that made the call.
        ask: Answers; None where no person can be asked.
        unanswered: Why a question was dismissed; "" if none was.
    """

    run: object
    ask: Ask | None
    unanswered: str = ""


async def answer_for(calls: list[OpenCall], params: types.ElicitRequestParams) -> types.ElicitResult:
    """Answer a question of a server by what answers for its open calls.

    The handshake era does not say which call a question belongs to.  So it is put to a person only where all open
    calls are of one run; otherwise another run's person would answer.  A dismissed question is noted in the calls.
    """
    answered: types.ElicitResult | str = NOT_ASKED
    if len({id(call.run) for call in calls}) > 1:
        answered = UNCLEAR
    elif ask := next((call.ask for call in reversed(calls) if call.ask is not None), None):
        answered = await ask(params)
    if not isinstance(answered, str):
        return answered
    for call in calls:
        call.unanswered = answered
    return types.ElicitResult(action="cancel")


def to_questions(server: str, required: types.InputRequiredResult, *, is_repeated: bool = False) -> InputRequired:
    """Return what pauses the call; the state has what the server wants back with the answers.

    Args:
        server: The name of the server.
        required: What it asks for.
        is_repeated: Whether the server has lost its state of the call, and asks again.

    Raises:
        ToolError: The server asks for something that this client does not offer, such as a reply of a model.
    """
    questions: list[Question] = []
    kinds: dict[str, Any] = {}
    for key, request in (required.input_requests or {}).items():
        if not isinstance(request, types.ElicitRequest):
            raise ToolError(f"the server {server!r} asks for {request.method!r}, which this client does not offer")
        question = _to_question(server, key, request.params)
        questions.append(replace(question, text=f"{question.text}\n{ASKED_AGAIN}") if is_repeated else question)
        kinds[key] = _find_kind(request.params)
    return InputRequired(
        *questions, state={"request_state": required.request_state, "kinds": kinds, "repeated": is_repeated}
    )


def was_repeated(answered: Answers | None) -> bool:
    """Return whether these are the answers to questions that the server had asked again."""
    return answered is not None and isinstance(answered.state, Mapping) and bool(answered.state.get("repeated"))


def to_input_responses(answered: Answers | None) -> dict[str, Any]:
    """Return the keywords of a call that continues with answers; none for a call that begins."""
    state = answered.state if answered is not None else None
    if answered is None or not isinstance(state, Mapping):
        return {}
    kinds = state.get("kinds", {})
    responses = {key: _to_response(kinds[key], value) for key, value in answered.values.items() if key in kinds}
    return {"input_responses": responses or None, "request_state": state.get("request_state")}


def find_ask(server: str, call: str = "") -> Ask | None:
    """Return what answers a question of a server of the handshake era, which waits for it in the middle of a call.

    That is the function or the person that answers the questions of the current tool call, else the front door that
    the run has; None without any.  The id of the question is that of the `call`.
    """
    if (decide := _find_decide()) is None:
        return None

    async def ask(params: types.ElicitRequestParams) -> types.ElicitResult | str:
        question = _to_question(server, call, params)
        value = None
        try:
            async for event in Consult(decide, question).aperform():
                value = event.value if isinstance(event, Done) else value
        except Paused:
            return NOT_ASKED
        if isinstance(value, Paused) or value is Paused:
            return NOT_ASKED
        if value is None:
            return NO_ANSWER
        if problem := explain_answer(question, value):
            return f"the answer was not valid: {problem}"
        return _to_response(_find_kind(params), value)

    return ask


def _find_decide() -> Callable[[Question], Any] | None:
    respondent = enclosing(Respondent)
    function = respondent.function if respondent is not None else None
    if isinstance(function, Person):
        return partial(function.answer, problem="")
    live = enclosing(LiveRespondent)
    return function or (live.ask if live is not None else None)


def _to_question(server: str, key: str, params: types.ElicitRequestParams) -> Question:
    text = f"The server {server!r} asks: {params.message[:MAX_QUESTION_CHARS]}"
    if isinstance(params, types.ElicitRequestURLParams):
        text += f"\nIt wants you to open {params.url[:MAX_QUESTION_CHARS]} yourself. Answer yes when that is done."
        return Question(text, YES_OR_NO, key)
    return Question(text, params.requested_schema, key)


def _find_kind(params: types.ElicitRequestParams) -> dict[str, Any] | None:
    """Return the default values of a form; None for a question about an address."""
    if isinstance(params, types.ElicitRequestURLParams):
        return None
    properties = params.requested_schema.get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema}


def _to_response(kind: dict[str, Any] | None, value: Any) -> types.ElicitResult:
    if kind is None:
        return types.ElicitResult(action="accept" if value else "decline")
    return types.ElicitResult(action="accept", content={**kind, **value})
