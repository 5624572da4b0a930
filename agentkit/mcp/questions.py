"""A server that asks for input before it answers a call: its requests as questions, and answers as responses."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

from ..core.errors import ToolError
from ..core.questions import Answers, InputRequired, Question

MAX_QUESTION_CHARS = 2_000
YES_OR_NO: Mapping[str, Any] = {"type": "boolean"}


def to_questions(server: str, required: types.InputRequiredResult) -> InputRequired:
    """Return what pauses the call; the state has what the server wants back with the answers.

    Raises:
        ToolError: The server asks for something that this client does not offer, such as a reply of a model.
    """
    requests = required.input_requests or {}
    questions: list[Question] = []
    modes: dict[str, str] = {}
    for key, request in requests.items():
        if not isinstance(request, types.ElicitRequest):
            raise ToolError(f"the server {server!r} asks for {request.method!r}, which this client does not offer")
        question, modes[key] = _to_question(server, key, request.params)
        questions.append(question)
    return InputRequired(*questions, state={"request_state": required.request_state, "modes": modes})


def _to_question(server: str, key: str, params: types.ElicitRequestParams) -> tuple[Question, str]:
    text = f"The server {server!r} asks: {params.message[:MAX_QUESTION_CHARS]}"
    if isinstance(params, types.ElicitRequestURLParams):
        text += f"\nIt wants you to open {params.url[:MAX_QUESTION_CHARS]} yourself. Answer yes when that is done."
        return Question(text, YES_OR_NO, key), "url"
    return Question(text, params.requested_schema, key), "form"


def to_responses(answered: Answers | None) -> dict[str, Any]:
    """Return the keywords of a call that continues with answers; none for a call that begins."""
    state = answered.state if answered is not None else None
    if answered is None or not isinstance(state, Mapping):
        return {}
    modes = state.get("modes", {})
    responses = {key: _to_response(modes[key], value) for key, value in answered.values.items() if key in modes}
    return {"input_responses": responses or None, "request_state": state.get("request_state")}


def _to_response(mode: str, value: Any) -> types.ElicitResult:
    if mode == "url":
        return types.ElicitResult(action="accept" if value else "decline")
    return types.ElicitResult(action="accept", content=value)
