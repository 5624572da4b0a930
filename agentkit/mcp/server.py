"""The server: tools for clients of the protocol, over standard input and output or streamable HTTP.

A call by a client is bound, decided about and run, and its result has the form of the protocol.
"""

import asyncio
import json
import math
import os
import secrets
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, redirect_stdout, suppress
from contextvars import Context as EmptyContext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from loguru import logger
from mcp import MCPError
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity, authenticated_principal
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from starlette.applications import Starlette
from starlette.requests import Request

from .. import (
    AgentkitError,
    Answers,
    DefinitionError,
    InputRequired,
    JsonAgent,
    JsonTool,
    Pending,
    Question,
    RunContext,
    ToolCall,
    ToolRegistry,
    ToolResult,
)
from ..events import Progress
from ..extend import (
    MAX_BODY_BYTES,
    AsgiApp,
    BoundCall,
    CallQuestions,
    CallTools,
    Done,
    Guard,
    OfRequest,
    Place,
    RawSchema,
    RunEntry,
    call_with_request,
    explain_answer,
    find_versions,
    is_function,
    limit_header_time,
    mask,
    opened_store,
    read_form,
    render_text,
    run_server,
    sends_outside,
    set_timeout,
    to_form,
    to_json_data,
    to_structured_content,
    to_valid_text,
    user_of,
)
from .remote_tools import render_blocks

Context: TypeAlias = ServerRequestContext[Any, Any]
ONLY_QUESTION = "answer"
"""The key of a question that has no id."""
ALLOW_KEY = "allow"
"""The key of the question whether a dangerous call may run."""
ASKED_KEY = "asked"
"""The key of the questions of the tool, in the state of a call that waits for their answers."""
ROUND_KEY = "round"
"""The key of the id of a round in the state of a call."""
ROUND_NAME = "mcp-round/"
"""Begins the names in a journal under which used rounds are noted."""
STATE_SECONDS = 600.0
"""The time in which a question must be answered."""
ALLOW_SCHEMA = {
    "type": "object",
    "properties": {ALLOW_KEY: {"type": "boolean", "title": "Allow this call"}},
    "required": [ALLOW_KEY],
}
REFUSED_BY_PERSON = "The call was not allowed: a person refused it. Do not try it again."
CANNOT_ASK = (
    "The call was not allowed: {name} is dangerous and needs a person's approval, and this client cannot ask one (it "
    "declares no elicitation by forms, or it refused the question)."
)
FAILED_CALL = "Internal server error"
"""What a client reads of an error of the server, whose text may have what is not for the client."""
UNFIT_RESULT = "The call was carried out, but its result does not match the output schema of the tool: {}"
READ_BYTES = 65_536
"""Bytes of standard input that are read at once."""


class UsedRounds:
    """The rounds of calls whose answers were used: each counts once, however often it is sent.

    Args:
        journal: Where they are noted, as names of conversations without runs, so that each counts once in all
            processes; None for this process alone.
    """

    def __init__(self, journal: Place | None = None) -> None:
        self._journal = journal
        self._ends: dict[str, float] = {}
        self._cleaned = 0.0

    async def take(self, identity: str) -> bool:
        """Return whether the answers of a round may be used now; False for a second time and without an id.

        Raises:
            JournalError: The round cannot be noted.
        """
        now = time.time()
        while self._ends and self._ends[oldest := next(iter(self._ends))] < now:
            del self._ends[oldest]
        if not identity or identity in self._ends:
            return False
        self._ends[identity] = now + STATE_SECONDS
        return self._journal is None or await asyncio.to_thread(self._claim, self._journal, identity, now)

    def _claim(self, journal: Place, identity: str, now: float) -> bool:
        with opened_store(journal) as store:
            if self._cleaned < now - STATE_SECONDS:
                self._cleaned = now
                store.remove([RunEntry("", key) for name, key in store.names().items() if _end_of_round(name) < now])
            key = secrets.randbits(60)
            return store.claim_name(f"{ROUND_NAME}{identity}", key) == key


def _new_round() -> str:
    """Return the id of a round, which begins with the time after which no answer of it is accepted."""
    return f"{int(time.time() + 2 * STATE_SECONDS)}-{secrets.token_hex(16)}"


def _end_of_round(name: str) -> float:
    """Return the time in the name of a noted round; infinity for another name."""
    end, _, rest = name.removeprefix(ROUND_NAME).partition("-")
    is_round = name.startswith(ROUND_NAME) and end.isascii() and end.isdigit() and len(rest) == 32
    return float(end) if is_round else math.inf


class ServedCall:
    """One call of a tool; it may come several times, with more answers each time.

    Args:
        tools: The tools that are served.
        deps: Fills the parameters that clients do not see.
        context: The SDK's context of the request.
        params: The call, with the answers to what the server asked before, and its state.
        state: The state of the call with which the answers may be used; None to begin the call anew.
    """

    def __init__(
        self,
        tools: ToolRegistry,
        deps: Any,
        context: Context,
        params: types.CallToolRequestParams,
        state: dict[str, Any] | None,
    ) -> None:
        self._context = context
        self._responses = (params.input_responses or {}) if state is not None else {}
        self._state = state or {}
        run = RunContext(deps, call=ToolCall("call_1", params.name, ""))
        call = ToolCall("call_1", params.name, json.dumps(params.arguments or {}))
        self._bound = set_timeout(tools.bind(call, run))

    async def result(self) -> types.CallToolResult | types.InputRequiredResult:
        """Run the call until it asks nothing more, unless it needs an approval or answers first."""
        tool = self._bound.tool
        is_dangerous = tool is not None and self._bound.problem is None and tool.effect == "danger"
        if is_dangerous and not self._state.get(ALLOW_KEY) and (refused := await self._ask_approval()) is not None:
            return refused
        before = self._state.get(ASKED_KEY)  # a call need not run again to ask the same
        asking = before and InputRequired(*(Question(**each) for each in before["questions"]), state=before["state"])
        while True:
            if asking is None:
                try:
                    outcome = await self._execute(self._with_answers())
                except AgentkitError as error:  # such as an agent inside the tool that waits for a person
                    return _failure(str(error))
                if not isinstance(outcome.exception, InputRequired):
                    return to_call_result(outcome, None if tool is None else tool.schema("mcp").get("outputSchema"))
                asking = outcome.exception
            self._state[ASKED_KEY] = {"questions": [asdict(each) for each in asking.questions], "state": asking.state}
            forms = {each.id or ONLY_QUESTION: (mask(each.text), to_form(each.schema)) for each in asking.questions}
            asked = await self._ask(forms)
            if asked is None:
                return _failure(f"The tool asks a person, and this client cannot: {asking}")
            if isinstance(asked, types.InputRequiredResult):
                return asked
            if wrong := self._take_answers(asking, asked):
                return _failure(wrong)
            asking = None

    async def _ask_approval(self) -> types.CallToolResult | types.InputRequiredResult | None:
        """Ask whether the call may run; return None if it may."""
        call = self._bound.call
        asked = await self._ask({ALLOW_KEY: (f"Allow this call?\n{Pending.decision(call).text}", ALLOW_SCHEMA)})
        if asked is None:
            return _failure(CANNOT_ASK.format(name=call.name))
        if isinstance(asked, types.InputRequiredResult):
            return asked
        response = asked[ALLOW_KEY]
        if response.action != "accept" or (response.content or {}).get(ALLOW_KEY) is not True:
            return _failure(REFUSED_BY_PERSON)
        self._state[ALLOW_KEY] = True
        return None

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
            response = responses.get(question.id or ONLY_QUESTION)
            if response is None or response.action != "accept":
                return f"The person gave no answer to: {question.text}"
            value = read_form(question.schema, dict(response.content or {}))
            if wrong := explain_answer(question, value):
                return f"The answer to {question.text!r} is not valid: {wrong}"
            values[question.id] = value
            self._state.setdefault("known", []).append((question.text, value))
        self._state["answered"] = {"values": values, "state": asking.state}
        del self._state[ASKED_KEY]
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
        if not _has_forms(session.client_capabilities):
            return None
        if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            requests = {
                key: types.ElicitRequest(
                    params=types.ElicitRequestFormParams(message=text, requested_schema=dict(schema))
                )
                for key, (text, schema) in forms.items()
            }
            state = {**self._state, ROUND_KEY: _new_round()}
            return types.InputRequiredResult(input_requests=dict(requests), request_state=json.dumps(state))
        try:
            return {
                key: await session.elicit_form(text, dict(schema), self._context.request_id)
                for key, (text, schema) in forms.items()
            }
        except MCPError:  # of a client that declares more than it can
            return None

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
                    message = None if is_number else mask(render_text(event.value))
                    await self._context.session.report_progress(count, message=message)
        raise AssertionError("a turn ends with its results")


def _has_forms(capabilities: types.ClientCapabilities | None) -> bool:
    """Return whether a client shows forms; one that names no kind of elicitation does."""
    asks = None if capabilities is None else capabilities.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)


def to_call_result(result: ToolResult, schema: Mapping[str, Any] | None = None) -> types.CallToolResult:
    """Return the result of a tool in the form of the protocol; a failed call says what the model should know.

    Args:
        result: The result.
        schema: The output schema, for a tool that has one: then the value is also there as structured content.  A
            client refuses content that does not match it, so such a result is an error that says what was done.
    """
    images: list[types.ContentBlock] = []
    for part in result.images:
        kind, _, data = str(part.get("image_url", {}).get("url", "")).removeprefix("data:").partition(";base64,")
        if data:
            images.append(types.ImageContent(data=data, mime_type=kind))
    says_no_more = schema is None and result.content == render_blocks(images).text
    texts = [] if says_no_more or not result.content else [types.TextContent(text=result.content)]
    content = [*texts, *images]
    if result.error is not None:
        return types.CallToolResult(content=content, is_error=True)
    if schema is None:
        return types.CallToolResult(content=content)
    try:
        structured = _to_structured(result.value)
        problem = explain_answer(Question("", schema), structured)
    except Exception as error:  # of a foreign __str__ too
        problem = f"it has no form in JSON: {type(error).__name__}: {error}"
    if problem:
        note = types.TextContent(text=UNFIT_RESULT.format(problem))
        return types.CallToolResult(content=[*content, note], is_error=True)
    return types.CallToolResult(content=content, structured_content=structured)


def _to_structured(value: Any) -> dict[str, Any]:
    """Return a value as structured content, in valid Unicode; NaN and infinities are null.

    A value with bytes, images or data frames in it is shown as in the text of the result.
    """
    special: list[Any] = []

    def show(content: Any) -> str:
        special.append(content)
        return render_text(content)

    shown = to_json_data(value, show)
    plain = shown if special else to_jsonable_python(value, fallback=str)
    text = to_valid_text(json.dumps(plain, ensure_ascii=False))
    return to_structured_content(json.loads(text, parse_constant=lambda _: None))


def _failure(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=mask(text))], is_error=True)


LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_MCP_PORT = 8000
MIN_TOKEN_CHARS = 16
SCOPE_KEY = "agentkit.scope"
"""The key, in the scope that the SDK gets, of the scope as the app around the server made it."""


def make_server(
    tools: Any,
    *,
    name: str = "agentkit",
    instructions: str = "",
    deps: Any = None,
    keys: Sequence[str] = (),
    journal: Place | None = None,
) -> "Server[Any]":
    """Return the SDK's server of tools, to run it over a transport of your own.

    Both eras of the protocol are spoken.  A dangerous tool asks the person at the client before each call; a client
    that cannot ask gets a refusal.

    Args:
        tools: A registry, functions, tools, or agents, which become tools with a query.
        name: The name of the server.
        instructions: What the client's model should know about the tools.
        deps: Fills the parameters that clients do not see, as `JsonAgent(deps=)` does.  Over HTTP it may be a plain or
            async function of the request (a `starlette.requests.Request`).
        keys: Secrets of at least 32 characters that seal the state of a call which asks a person; all servers of one
            address need the same.  By default, a key of this process.
        journal: A journal that all servers of one address share, so that an approval counts once in all of them; by
            default, it counts once in each process.

    Raises:
        DefinitionError: There are no tools, or `deps` lacks a value that one needs.
    """
    registry = make_registry(tools)
    if not is_function(deps):
        registry.check_injected(RunContext(deps))
    listed = [to_protocol(tool) for tool in registry.values()]
    used = UsedRounds(journal)

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            values = await _read_deps(deps, context)
            state = json.loads(params.request_state or "{}")
            is_new = await used.take(state.pop(ROUND_KEY, ""))  # answers that are sent again begin the call anew
            return await ServedCall(registry, values, context, params, state if is_new else None).result()
        except MCPError:
            raise
        except Exception as error:  # of `deps`, of the journal, or of a tool with `on_error="raise"`
            shown = mask("".join(traceback.format_exception(error)))
            logger.error("MCP: the call of {!r} failed: {}", params.name, shown)
            raise MCPError(types.INTERNAL_ERROR, FAILED_CALL) from error

    server: Server[Any] = Server(
        name,
        version=find_versions()["agentkit"],
        instructions=instructions or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    secret = list(keys) or [secrets.token_hex(32)]
    security = RequestStateSecurity(keys=secret, ttl=STATE_SECONDS, bind_principal=_principal_of)
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server


def make_registry(tools: Any) -> ToolRegistry:
    """Return the tools to serve; agents among them become tools with a query.

    Raises:
        DefinitionError: There is nothing to serve.
    """
    entries = [*tools.values()] if isinstance(tools, ToolRegistry) else [tools] if callable(tools) else [*tools]
    made = []
    agents = 0
    for entry in entries:
        if isinstance(entry, JsonAgent):
            made.append(entry.as_tool(f"ask_{agents}" if agents else "ask", entry.spec.about or "Answer a question."))
            agents += 1
        else:
            made.append(entry)
    if not made:
        raise DefinitionError("an MCP server needs tools: serve([my_function])")
    return ToolRegistry(made)


def to_protocol(tool: JsonTool[..., Any]) -> types.Tool:
    """Return a tool as the server lists it, with its effect as hints; a schema written by hand keeps references."""
    written = tool.schema("mcp", references="keep" if isinstance(tool.arguments, RawSchema) else "inline")
    return types.Tool.model_validate(written).model_copy(update={"annotations": _annotate(tool)})


def _annotate(tool: JsonTool[..., Any]) -> types.ToolAnnotations:
    effect = tool.effect
    if effect is None:
        return types.ToolAnnotations(open_world_hint=sends_outside(tool) or None)
    return types.ToolAnnotations(
        read_only_hint=effect == "read",
        destructive_hint=effect == "danger",
        idempotent_hint=effect in ("read", "idempotent"),
        open_world_hint=sends_outside(tool),
    )


Verifier: TypeAlias = Callable[[str], Any]
"""Returns the user's id or an `AccessToken` for a valid access token, else None.  May be a coroutine function."""


def make_app(
    tools: Any,
    *,
    host: str = "127.0.0.1",
    hosts: Sequence[str] = (),
    token: str = "",
    user: OfRequest | None = None,
    verifier: Verifier | None = None,
    issuer: str = "",
    resource: str = "",
    scopes: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    path: str = "/mcp",
    **options: Any,
) -> AsgiApp:
    """Return the server as an ASGI application, which answers at `/mcp`.

    It can be mounted in another application, which need not forward its lifespan: `Mount("/tools", make_app(tools))`
    answers at `/tools/mcp`.

    Args:
        tools: As for `make_server`.
        host: The address that the application is bound to.
        hosts: More names that clients may reach it by; the header `Host` must be one of them, against DNS rebinding.
        token: What clients must send as `Authorization: Bearer ...`; needed unless `host` is the loopback, or `user`
            is given.
        user: A plain or async function of the request (a `starlette.requests.Request`) that returns the id of the
            signed-in user, None for a request that is refused.  A session, and a call that waits for an answer, belong
            to their user.
        verifier: Makes the server an OAuth 2.1 resource server: a plain or async function of the access token in a
            request that returns the id of its user, or the SDK's `AccessToken`; None for a token that is not valid.  It
            must check that the token was made for `resource`; that of an `AccessToken` is checked.  `deps` finds the
            `AccessToken` as `request.user.access_token`.
        issuer: The address of the authorization server at which clients log in.
        resource: The address of this server as clients know it, "https://tools.example/mcp".
        scopes: What a token must allow.
        allow_origins: The origins of pages that may send requests from a browser, beside those of this machine:
            "https://shop.example".
        path: The path at which it answers; "/" for that of the mount.
        options: As for `make_server`; `deps` may be a function of the request.

    Raises:
        DefinitionError: There is no token for an address that others can reach, or it is too short; or `verifier` lacks
            the addresses, or comes with another check.
    """
    login = _make_login(verifier, issuer, resource, scopes, is_alone=not token and user is None)
    if host not in LOOPBACK and not token and user is None and verifier is None:
        text = f"serve(host={host!r}): others can reach this address. Give a token"
        raise DefinitionError(f"{text}: serve(token=...), or AGENTKIT_MCP_TOKEN for agentkit mcp serve")
    if token and len(token) < MIN_TOKEN_CHARS:
        text = f"expected at least {MIN_TOKEN_CHARS} characters, got {len(token)}"
        raise DefinitionError(f"serve(token=...), or AGENTKIT_MCP_TOKEN: {text}")
    own_names = dict.fromkeys([*LOOPBACK, host, *filter(None, [urlsplit(resource).hostname]), *hosts])
    names = [f"[{entry}]" if ":" in entry else entry for entry in own_names]
    own = [f"{scheme}://{entry}:*" for scheme in ("http", "https") for entry in names]
    server = make_server(tools, **options)

    def build() -> Starlette:
        return server.streamable_http_app(
            streamable_http_path=path,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard checks
            max_request_body_size=MAX_BODY_BYTES,
            **login,
        )

    return Guard(
        _OfUser(_Mountable(build)),
        hosts=names,
        allow_origins=[*own, *allow_origins],
        token=token,
        user=user,
        make_request=Request,
    )


@dataclass(frozen=True, slots=True)
class _FunctionVerifier:
    """The SDK's `TokenVerifier` of a function; a plain one runs in a thread."""

    function: Verifier
    resource: str
    scopes: Sequence[str]

    async def verify_token(self, token: str) -> AccessToken | None:
        found = await call_with_request(self.function, token)
        if found is None or found == "" or isinstance(found, AccessToken):
            return found or None
        if not isinstance(found, str | int) or isinstance(found, bool):
            raise DefinitionError(f"verifier=: expected the user's id or an AccessToken, got {type(found).__name__}")
        return AccessToken(
            token=token, client_id=str(found), scopes=[*self.scopes], resource=self.resource, subject=str(found)
        )


def _make_login(
    verifier: Verifier | None, issuer: str, resource: str, scopes: Sequence[str], *, is_alone: bool
) -> dict[str, Any]:
    """Return what the SDK's app needs to be a resource server; nothing without a verifier."""
    if verifier is None:
        if issuer or resource or scopes:
            raise DefinitionError("make_app: issuer=, resource= and scopes= belong to verifier=, which is missing")
        return {}
    if not is_alone:
        raise DefinitionError("make_app: verifier= decides who may call. Leave token= and user= out.")
    if not issuer or not resource:
        raise DefinitionError(
            'make_app: verifier= needs issuer="https://login.example", where clients log in, and '
            'resource="https://tools.example/mcp", the address of this server'
        )
    try:
        settings = AuthSettings.model_validate(
            {
                "issuer_url": issuer,
                "resource_server_url": resource,
                "required_scopes": [*scopes] or None,
                "validate_token_resource": True,
            }
        )
    except ValidationError as error:
        raise DefinitionError(f"make_app: issuer= and resource= must be http(s) addresses: {error}") from None
    return {"auth": settings, "token_verifier": _FunctionVerifier(verifier, resource, scopes)}


class _Mountable:
    """The SDK's app, begun by the lifespan of the server or, where an outer app does not forward it, by a request.

    Args:
        build: Makes an app of the SDK, which can be begun once: each event loop gets its own.
    """

    def __init__(self, build: Callable[[], Starlette]) -> None:
        self._build = build
        self._app: Starlette | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        loop = asyncio.get_running_loop()
        is_lifespan = scope["type"] == "lifespan"
        if is_lifespan or self._loop is not loop:
            self._app = self._build()
            self._loop = loop
            self._begun = asyncio.Event()
            if is_lifespan:
                self._begun.set()
            else:
                self._task = loop.create_task(self._keep(self._app, self._begun), context=EmptyContext())
        app = self._app
        assert app is not None
        await self._begun.wait()
        try:
            await app(scope, receive, send)
        finally:
            if is_lifespan:
                self._loop = None

    async def _keep(self, app: Starlette, begun: asyncio.Event) -> None:
        """Hold the lifespan of the app open until the event loop ends."""
        try:
            async with app.router.lifespan_context(app):
                begun.set()
                await asyncio.Event().wait()
        finally:
            begun.set()


class _OfUser:
    """ASGI middleware that gives the SDK the user of a request, to whom sessions and the state of calls belong."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (user := user_of(scope)):
            token = AccessToken(token="", client_id="agentkit", scopes=[], subject=user)
            scope = {**scope, "user": AuthenticatedUser(token), SCOPE_KEY: scope}
        await self._app(scope, receive, send)


async def _read_deps(deps: Any, context: Context) -> Any:
    """Return the values for a call: those of `deps`, or what it returns for the request."""
    if not is_function(deps):
        return deps
    if context.request is None:
        raise DefinitionError("deps= is a function of the request, and this transport has none: serve(http=True)")
    scope = context.request.scope
    return await call_with_request(deps, Request(scope.get(SCOPE_KEY, scope)))


def _principal_of(context: Context) -> str | None:
    """Return to whom the state of a call belongs; None for a transport without users."""
    user = "" if context.request is None else user_of(context.request.scope)
    return json.dumps([authenticated_principal(context), user]) if user else authenticated_principal(context)


def serve(
    tools: Any,
    *,
    http: bool = False,
    host: str = "127.0.0.1",
    port: int = DEFAULT_MCP_PORT,
    hosts: Sequence[str] = (),
    token: str = "",
    announce: Callable[[str], object] = str,
    **options: Any,
) -> None:
    """Serve tools until the client leaves, or the program is stopped.

    Args:
        tools: As for `make_server`.
        http: Serve streamable HTTP at `http://host:port/mcp` instead of standard input and output.
        host: The address; other than the loopback, it needs a token or a `verifier`.
        port: The port.
        hosts: As for `make_app`.
        token: As for `make_app`.
        announce: Called with the address when the server answers there, over HTTP.
        options: As for `make_server` and, over HTTP, `make_app`.

    Raises:
        DefinitionError: A tool or an option is not valid, or the address cannot be used.
    """
    if not http:
        with suppress(KeyboardInterrupt):
            asyncio.run(serve_stdio(tools, **options))
        return
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    app = make_app(tools, host=host, hosts=hosts, token=token, **options)
    protocol = limit_header_time(AutoHTTPProtocol)
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, http=protocol, log_level="warning"))
    remedy = "Name another port: agentkit mcp serve --http :PORT, or serve(port=...)"
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    problem = f"the tools cannot be served at {shown}. {remedy}"
    run_server(server, partial(announce, f"http://{shown}/mcp"), problem)


async def serve_stdio(tools: Any, **options: Any) -> None:
    """Serve tools over standard input and output; what tools print goes to standard error."""
    server = make_server(tools, **options)
    with _take_stdin() as lines:
        async with stdio_server(lines) as (read, write):
            sys.stdout.flush()  # while it goes to standard error; later the client would get what is in the buffer
            with redirect_stdout(sys.stderr):
                await server.run(read, write, server.create_initialization_options())


@contextmanager
def _take_stdin() -> Iterator[Any]:
    """Take standard input from the tools, and yield its lines; None for the SDK to do that.

    The SDK reads in a thread, for which an interrupt would wait until the client sends the next line.
    """
    if sys.platform == "win32":  # where only sockets can be waited for
        yield None
        return
    own = os.dup(0)
    try:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        yield _read_lines(own)
    finally:
        os.dup2(own, 0)
        os.close(own)


async def _read_lines(descriptor: int) -> AsyncGenerator[str, None]:
    """Yield the lines that can be read from a descriptor, without a thread."""
    pieces: list[bytes] = []
    while chunk := await _read(descriptor):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end]).decode(errors="replace")
            pieces = []
        pieces.append(rest)
    if last := b"".join(pieces):
        yield last.decode(errors="replace")


async def _read(descriptor: int) -> bytes:
    with suppress(PermissionError):  # a file, which can always be read
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, READ_BYTES)
