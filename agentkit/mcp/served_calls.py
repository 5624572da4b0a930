"""A call by a client of our server: bound, decided about, run, and its result in the form of the protocol."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_jsonable_python

from ..core.context import Channel, Progress, RunContext
from ..core.errors import AgentkitError
from ..core.flow import Done
from ..core.messages import ToolCall
from ..core.question_form import ANSWER_KEY, read_form, to_form
from ..core.questions import Answers, CallQuestions, InputRequired
from ..policies.timeouts import set_timeout
from ..schemas.formats.mcp import RESULT
from ..tools.execution.call import BoundCall, ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.questions import explain_answer
from ..tools.registry import ToolRegistry
from ..views.lines import format_call, sanitize

Context: TypeAlias = ServerRequestContext[Any, Any]
ALLOW = "allow"
"""The key of the question whether a dangerous call may run."""
ALLOW_SCHEMA = {
    "type": "object",
    "properties": {ALLOW: {"type": "boolean", "title": "Allow this call"}},
    "required": [ALLOW],
}
NOT_ALLOWED = "The call was not allowed: a person refused it. Do not try it again."
CANNOT_ASK = (
    "The call was not allowed: {name} is dangerous and needs a person's approval, and this client cannot ask one (it "
    "declares no elicitation)."
)
MAX_ARGUMENT_CHARS = 4_000


class ServedCall:
    """One call of a tool; it may come several times, with more answers each time.

    Args:
        tools: The tools that are served.
        deps: Fills the parameters that clients do not see.
        context: The SDK's context of the request.
        params: The call, with the answers to what the server asked before, and its state.
    """

    def __init__(self, tools: ToolRegistry, deps: Any, context: Context, params: types.CallToolRequestParams) -> None:
        self._context = context
        self._responses = params.input_responses or {}
        self._state: dict[str, Any] = json.loads(params.request_state or "{}")
        self._run = RunContext(deps, call=ToolCall("call_1", params.name, ""), channel=Channel())
        call = ToolCall("call_1", params.name, json.dumps(params.arguments or {}))
        bound = tools.bind(call, self._run)
        self._bound = set_timeout(bound)

    async def result(self) -> types.CallToolResult | types.InputRequiredResult:
        """Run the call, unless it needs an approval or answers first."""
        tool = self._bound.tool
        if tool is not None and self._bound.problem is None and tool.effect == "danger" and not self._state.get(ALLOW):
            refused = await self._ask_approval()
            if refused is not None:
                return refused
        return await self._continue()

    async def _ask_approval(self) -> types.CallToolResult | types.InputRequiredResult | None:
        """Ask whether the call may run; return None if it may."""
        call = self._bound.call
        shown = sanitize(format_call(call), MAX_ARGUMENT_CHARS)
        asked = await self._ask({ALLOW: (f"Allow this call? {shown}", ALLOW_SCHEMA)})
        if asked is None:
            return _failure(CANNOT_ASK.format(name=call.name))
        if isinstance(asked, types.InputRequiredResult):
            return asked
        response = asked[ALLOW]
        if response.action != "accept" or not (response.content or {}).get(ALLOW):
            return _failure(NOT_ALLOWED)
        self._state[ALLOW] = True
        return None

    async def _continue(self) -> types.CallToolResult | types.InputRequiredResult:
        """Run the call with the answers that are there, until it asks nothing more."""
        while True:
            try:
                outcome = await self._execute(self._with_answers())
            except AgentkitError as error:  # such as an agent inside the tool that waits for a person
                return _failure(str(error))
            asking = outcome.exception
            if not isinstance(asking, InputRequired):
                return self._write(outcome)
            forms = {each.id or ANSWER_KEY: (each.text, to_form(each.schema)) for each in asking.questions}
            asked = await self._ask(forms)
            if asked is None:
                return _failure(f"The tool asks a person, and this client cannot: {asking}")
            if isinstance(asked, types.InputRequiredResult):
                return asked
            if refused := self._take_answers(asking, asked):
                return _failure(refused)

    def _write(self, result: ToolResult) -> types.CallToolResult:
        tool = self._bound.tool
        return to_call_result(result, has_schema=tool is not None and tool.output_schema is not None)

    def _with_answers(self) -> BoundCall:
        """Return the call with the answers that it has so far."""
        answered = self._state.get("answered")
        questions = CallQuestions(
            Answers(answered["values"], answered["state"]) if answered else None,
            [(text, value) for text, value in self._state.get("known", ())],
            lambda _: None,
        )
        return self._bound.within(lambda: questions)

    def _take_answers(self, asking: InputRequired, responses: Mapping[str, types.ElicitResult]) -> str:
        """Keep the answers for the next run of the call; return why one of them cannot be used."""
        values: dict[str, Any] = {}
        for question in asking.questions:
            response = responses.get(question.id or ANSWER_KEY)
            if response is None or response.action != "accept":
                return f"The person gave no answer to: {question.text}"
            value = read_form(question.schema, dict(response.content or {}))
            if wrong := explain_answer(question, value):
                return f"The answer to {question.text!r} is not valid: {wrong}"
            values[question.id] = value
            self._state.setdefault("known", []).append((question.text, value))
        self._state["answered"] = {"values": values, "state": asking.state}
        return ""

    async def _ask(
        self, forms: Mapping[str, tuple[str, Mapping[str, Any]]]
    ) -> Mapping[str, types.ElicitResult] | types.InputRequiredResult | None:
        """Return the person's responses, or what asks for them without a session; None if the client cannot ask."""
        given = {key: entry for key, entry in self._responses.items() if isinstance(entry, types.ElicitResult)}
        if forms.keys() <= given.keys():
            self._responses = {key: entry for key, entry in self._responses.items() if key not in forms}
            return given
        session = self._context.session
        capabilities = session.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            return None
        if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            requests = {
                key: types.ElicitRequest(
                    params=types.ElicitRequestFormParams(message=text, requested_schema=dict(schema))
                )
                for key, (text, schema) in forms.items()
            }
            return types.InputRequiredResult(input_requests=dict(requests), request_state=json.dumps(self._state))
        return {
            key: await session.elicit_form(text, dict(schema), self._context.request_id)
            for key, (text, schema) in forms.items()
        }

    async def _execute(self, bound: BoundCall) -> ToolResult:
        """Run the call; what it reports becomes progress of the request."""
        count = 0.0
        async with aclosing(CallTools((bound,)).aperform()) as events:
            async for event in events:
                if isinstance(event, Done):
                    (result,) = event.value
                    return result
                if isinstance(event, Progress):
                    is_number = isinstance(event.value, int | float) and not isinstance(event.value, bool)
                    count = max(float(event.value), count) if is_number else count + 1
                    message = None if is_number else str(event.value)
                    await self._context.session.report_progress(count, message=message)
        raise AssertionError("a turn ends with its results")


def to_call_result(result: ToolResult, *, has_schema: bool = False) -> types.CallToolResult:
    """Return the result of a tool in the form of the protocol; a failed call says what the model should know.

    Args:
        result: The result.
        has_schema: Whether the tool has an output schema: then the value is also there as structured content.
    """
    content: list[types.ContentBlock] = [types.TextContent(text=result.content)] if result.content else []
    for part in result.images:
        kind, _, data = str(part.get("image_url", {}).get("url", "")).removeprefix("data:").partition(";base64,")
        if data:
            content.append(types.ImageContent(data=data, mime_type=kind))
    if result.error is not None:
        return types.CallToolResult(content=content, is_error=True)
    if not has_schema:
        return types.CallToolResult(content=content)
    plain = to_jsonable_python(result.value, fallback=str, bytes_mode="base64")
    return types.CallToolResult(
        content=content, structured_content=plain if isinstance(plain, dict) else {RESULT: plain}
    )


def _failure(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
