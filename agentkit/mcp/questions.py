"""A server that asks for input before it answers a call: its requests as questions, and answers as responses."""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import mcp_types as types
from pydantic import FileUrl

from .. import (
    AgentkitError,
    Answers,
    DefinitionError,
    InputRequired,
    JsonAgent,
    Limits,
    Paused,
    Question,
    RunContext,
    ToolError,
    ToolRegistry,
)
from ..extend import (
    AskModel,
    Budget,
    Consult,
    Done,
    Flow,
    LiveRespondent,
    Message,
    Person,
    Request,
    Respondent,
    around,
    ask,
    enclose,
    enclosing,
    explain_answer,
)
from .remote_tools import render_blocks

MAX_QUESTION_CHARS = 2_000
YES_OR_NO: Mapping[str, Any] = {"type": "boolean"}

MAX_SAMPLED_TOKENS = 4_096
"""Tokens of a reply that a server may have."""
SAMPLING = Limits(tokens=20_000)
"""The budget of a call in which the server may ask the run's model."""
NO_SAMPLING = "this call has no model that the server could ask"
_OF_TOOLS = (types.ToolUseContent, types.ToolResultContent)

Ask: TypeAlias = Callable[[types.ElicitRequestParams], Coroutine[Any, Any, types.ElicitResult | str]]
"""Answers a question in the middle of a call; a text is the reason why it has no answer."""
NOT_ASKED = "no person could be asked in the middle of the call"
NO_ANSWER = "the person was asked and gave no answer"
ASKED_AGAIN = "(It asks again, because it has lost the call: it was started anew, or the answers came late.)"
UNCLEAR = (
    "calls of several runs were open, and the server did not say which of them its question belongs to. "
    "No person was asked. Where the result says that the call was cancelled, call it again later, or give each run a "
    "server of its own"
)


Sample: TypeAlias = Callable[[types.CreateMessageRequestParams], Coroutine[Any, Any, types.CreateMessageResult]]
"""Asks a model for a server; raises `ToolError` without a reply."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What a client offers to a server beside answers of a person.

    Attributes:
        roots: The folders that the server should work in.
        sampling: The budget of each call in which the server may ask the run's model; None for no requests.
    """

    roots: types.ListRootsResult | None = None
    sampling: Limits | None = None


def make_offers(name: str, roots: Any, sampling: Any) -> Offers:
    """Return what a server is offered; raise `DefinitionError` for a setting that is not valid."""
    if isinstance(roots, str) or not isinstance(roots, Sequence):
        raise DefinitionError(f"MCPServer {name!r}: roots must be a list of folders, got {roots!r:.80}")
    if not isinstance(sampling, bool | Limits):
        raise DefinitionError(f"MCPServer {name!r}: sampling must be True, False or Limits, got {sampling!r:.80}")
    folders = [types.Root(uri=FileUrl(Path(root).absolute().as_uri()), name=Path(root).name) for root in roots]
    budget = SAMPLING if sampling is True else sampling or None
    return Offers(types.ListRootsResult(roots=folders) if folders else None, budget)


@dataclass(eq=False, slots=True)
class OpenCall:
    """A call that a server works on, and what answers the questions that it asks meanwhile.

    Attributes:
        run: Identifies the run that made the call.
        ask: Answers; None where no person can be asked.
        sample: Asks the run's model; None where the server may not.
        unanswered: Why a question was dismissed; "" if none was.
    """

    run: object
    ask: Ask | None
    sample: Sample | None = None
    unanswered: str = ""


async def sample_for(
    calls: list[OpenCall], params: types.CreateMessageRequestParams
) -> types.CreateMessageResult | types.ErrorData:
    """Return the reply of the model of the run whose calls are open; an error where they are of several runs."""
    if len({id(call.run) for call in calls}) > 1:
        return types.ErrorData(code=types.INVALID_REQUEST, message=UNCLEAR)
    sample = next((call.sample for call in reversed(calls) if call.sample is not None), None)
    if sample is None:
        return types.ErrorData(code=types.INVALID_REQUEST, message=NO_SAMPLING)
    try:
        return await sample(params)
    except ToolError as error:
        return types.ErrorData(code=types.INTERNAL_ERROR, message=str(error))


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


async def answer_alone(
    required: types.InputRequiredResult, offers: Offers, sample: Sample | None
) -> dict[str, types.CreateMessageResult | types.ListRootsResult]:
    """Return the answers to what a server asks for that needs no person: the roots, and replies of the model."""
    answered: dict[str, Any] = {}
    for key, request in (required.input_requests or {}).items():
        if isinstance(request, types.ListRootsRequest) and offers.roots is not None:
            answered[key] = offers.roots
        elif isinstance(request, types.CreateMessageRequest) and sample is not None:
            answered[key] = await sample(request.params)
    return answered


def to_questions(
    server: str,
    required: types.InputRequiredResult,
    answered: Mapping[str, types.CreateMessageResult | types.ListRootsResult],
    *,
    is_repeated: bool = False,
) -> InputRequired:
    """Return what pauses the call; the state has what the server wants back with the answers.

    Args:
        server: The name of the server.
        required: What it asks for.
        answered: What of that has its answer already.
        is_repeated: Whether the server has lost its state of the call, and asks again.

    Raises:
        ToolError: The server asks for something that this client does not offer, such as a reply of a model.
    """
    questions: list[Question] = []
    kinds: dict[str, Any] = {}
    for key, request in (required.input_requests or {}).items():
        if key in answered:
            continue
        if not isinstance(request, types.ElicitRequest):
            raise ToolError(f"the server {server!r} asks for {request.method!r}, which this client does not offer")
        question = _to_question(server, key, request.params)
        questions.append(replace(question, text=f"{question.text}\n{ASKED_AGAIN}") if is_repeated else question)
        kinds[key] = _find_kind(request.params)
    given = {key: answer.model_dump(mode="json", by_alias=True, exclude_none=True) for key, answer in answered.items()}
    state = {"request_state": required.request_state, "kinds": kinds, "given": given, "repeated": is_repeated}
    return InputRequired(*questions, state=state)


def was_repeated(answered: Answers | None) -> bool:
    """Return whether these are the answers to questions that the server had asked again."""
    return answered is not None and isinstance(answered.state, Mapping) and bool(answered.state.get("repeated"))


def to_input_responses(answered: Answers | None) -> dict[str, Any]:
    """Return the keywords of a call that continues with answers; none for a call that begins."""
    state = answered.state if answered is not None else None
    if answered is None or not isinstance(state, Mapping):
        return {}
    kinds = state.get("kinds", {})
    responses: dict[str, types.InputResponse] = {
        key: (types.ListRootsResult if "roots" in value else types.CreateMessageResult).model_validate(value)
        for key, value in state.get("given", {}).items()
    }
    responses |= {key: _to_response(kinds[key], value) for key, value in answered.values.items() if key in kinds}
    return {"input_responses": responses or None, "request_state": state.get("request_state")}


def find_ask(server: str, call: str = "") -> Ask | None:
    """Return what answers a question of a server of the handshake era, which waits for it in the middle of a call.

    That is the function or the person that answers the questions of the current tool call, else the front door that
    the run has; None without any.  The id of the question is that of the `call`.
    """
    if (decide := _find_decide()) is None:
        return None

    async def consult(params: types.ElicitRequestParams) -> types.ElicitResult | str:
        question = _to_question(server, call, params)
        value = None
        try:
            async for event in Consult(decide, question).aperform():
                value = event.value if isinstance(event, Done) else value
        except Paused:
            return NOT_ASKED
        except AgentkitError:
            raise
        except Exception as error:  # its text is not for the server
            return f"the function that answers questions failed with {type(error).__name__}: {error}"
        if isinstance(value, Paused) or value is Paused:
            return NOT_ASKED
        if value is None:
            return NO_ANSWER
        if problem := explain_answer(question, value):
            return f"the answer was not valid: {problem}"
        return _to_response(_find_kind(params), value)

    return consult


def make_sample(server: str, run: RunContext[Any] | None, limits: Limits | None) -> Sample | None:
    """Return what asks the model of the run for a server, in one call of its tools; None where it may not.

    The model reads the server's messages and nothing of the conversation, and gets no tools.  Its requests belong to
    the run: they count in its limits too, and are in its trace and its journal.
    """
    if run is None or run.model is None or limits is None:
        return None
    outer = enclosing(Budget)
    budget = Budget(limits, outer.all if outer is not None else ())
    model = run.model

    async def sample(params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        blocks = [block for message in params.messages for block in message.content_as_list]
        if params.tools or not blocks or any(isinstance(block, _OF_TOOLS) for block in blocks):
            raise ToolError("expected messages without tools: the client offers no others")
        last = params.messages[-1]
        messages = [to_chat(message.role, message.content_as_list) for message in params.messages]
        if params.system_prompt:
            messages.insert(0, {"role": "system", "content": params.system_prompt})
        most = min(params.max_tokens, MAX_SAMPLED_TOKENS)

        def change(effect: AskModel) -> Flow[Any]:
            bare = Request(messages, ToolRegistry(), max_tokens=most, timeout=effect.request.timeout)
            given = yield from ask(replace(effect, request=bare))
            return replace(given, message=_to_answer(given.message))

        enclose([lambda: budget])
        policies = [around(change, AskModel)]
        agent = JsonAgent(reply, model=model, max_steps=2, memory=False, policies=policies, untrusted="values")
        try:
            result = await agent.arun(f"The server {server!r} asks: {render_blocks(last.content_as_list).text}")
        except AgentkitError as error:
            raise ToolError(f"the model gave no reply: {error}") from error
        block = types.TextContent(text=result.answer)
        return types.CreateMessageResult(role="assistant", content=block, model=model.name, stop_reason="endTurn")

    return sample


def _to_answer(message: Message) -> Message:
    """Return a message of a model as the call that answers with its text."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    arguments = json.dumps({"text": "".join(part.get("text", "") for part in parts)})
    call = {"id": "answer", "type": "function", "function": {"name": "final_answer", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def reply(text: str) -> str:
    """Reply.

    Args:
        text: The reply.
    """
    return text


def to_chat(role: str, blocks: Sequence[Any]) -> Message:
    """Return a message in chat format; images and audio are content parts."""
    shown = render_blocks(blocks)
    content: Any = [{"type": "text", "text": shown.text}, *shown.images] if shown.images else shown.text
    return {"role": role, "content": content}


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
