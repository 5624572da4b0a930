"""A conversation with an editor: its turns, from the blocks of a prompt to the end that the editor shows.

A prompt becomes a query: texts with images, documents and audio.  What a paused run waits for is asked in the editor:
permissions for calls, and forms for the questions of tools.  The MCP servers of the editor give the agent their tools
for the conversation.

`UpdateEncoder` makes of frames the updates that an editor shows.
"""

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from .. import (
    AgentkitError,
    Audio,
    DefinitionError,
    Document,
    Image,
    JsonAgent,
    Paused,
    Pending,
    Question,
    Session,
    ToolCall,
)
from ..events import PlanStep
from ..extend import (
    AnswerPiece,
    AnswerWithdrawn,
    CallClosed,
    CallOpened,
    CallProgress,
    ContentPart,
    Frame,
    LiveRespondent,
    PersonAnswer,
    PlanShown,
    Query,
    Remark,
    RunClosed,
    RunNotice,
    RunOpened,
    ThoughtPiece,
    Toolset,
    astream_frames,
    describe_answer_type,
    detect_media_type,
    enclose,
    escape_unprintable,
    explain_answer,
    mask,
    parse_json,
    read_entry,
    read_form,
    to_form,
)
from .api import RequestError, acp, schema

Update = Any
TOOL_KINDS: Mapping[str, schema.ToolKind] = {"read": "read", "idempotent": "edit", "write": "edit", "danger": "execute"}
"""For each effect of a tool: the kind that an editor chooses an icon by; "other" for a tool without one."""
MAX_TITLE_CHARS = 100
NOT_FINISHED = "The turn ended before this call had a result."
WITHDRAWN = "\n\n(The answer above is void: it starts again.)\n\n"


class UpdateEncoder:
    """Turns the frames of one turn into updates; keep one for all runs of a turn.

    Attributes:
        closed: The end of the last run, once it has ended.
    """

    def __init__(self) -> None:
        self.closed: RunClosed | None = None
        self._names: dict[str, str] = {}
        self._known: set[str] = set()
        self._open: dict[str, None] = {}

    def encode(self, frame: Frame) -> Iterator[Update]:
        """Yield the updates of a frame."""
        match frame:
            case RunOpened():
                self._names[frame.agent] = frame.name
            case AnswerPiece(agent=""):
                yield acp.update_agent_message_text(frame.text)
            case AnswerWithdrawn(agent=""):
                yield acp.update_agent_message_text(WITHDRAWN)
            case Remark(agent=""):
                yield acp.update_agent_message_text(f"{frame.text}\n\n")
            case ThoughtPiece():
                yield acp.update_agent_thought_text(frame.text)
            case Remark() | RunNotice(is_warning=True):
                yield acp.update_agent_thought_text(f"{frame.text}\n\n")
            case CallOpened():
                yield self._open_call(frame)
            case CallProgress():
                yield acp.update_tool_call(frame.id, status="in_progress", content=_texts(frame.text))
            case PlanShown(agent=""):
                yield acp.update_plan(_plan_entries(frame.steps))
            case CallClosed(waits=True):
                yield acp.update_tool_call(frame.id, status="pending")
            case CallClosed():
                status: schema.ToolCallStatus = "failed" if frame.is_error else "completed"
                shown = _texts(frame.content)
                self._open.pop(frame.id, None)
                yield acp.update_tool_call(frame.id, status=status, content=shown, raw_output=frame.content)
            case RunClosed(agent=""):
                self.closed = frame
                if frame.outcome != "paused":
                    yield from self.close()

    def close(self) -> Iterator[Update]:
        """Yield the last updates of the calls that will have no result in this turn."""
        for identity in self._open:
            yield acp.update_tool_call(identity, status="failed", content=_texts(NOT_FINISHED))
        self._open.clear()

    def announce(self, pending: Pending) -> Iterator[Update]:
        """Yield the update that shows a call which waits for a decision, unless it is shown."""
        if pending.id not in self._known:
            self._known.add(pending.id)
            self._open[pending.id] = None
            arguments = parse_json(pending.call.arguments)
            shown = {"status": "pending", "raw_input": arguments, "content": write_pending(pending)}
            yield acp.start_tool_call(pending.id, self.title_of(pending), kind="execute", **shown)

    def title_of(self, pending: Pending) -> str:
        """Return the line that an editor shows for a call that waits."""
        call = pending.call
        return self._title(pending.id.rpartition("/")[0], call.name, call.written or call.arguments)

    def _open_call(self, frame: CallOpened) -> Update:
        kind = TOOL_KINDS.get(frame.effect, "other")
        arguments = parse_json(frame.arguments)
        title = self._title(frame.agent, frame.name, frame.arguments)
        start = acp.update_tool_call if frame.id in self._known else acp.start_tool_call
        self._known.add(frame.id)
        self._open[frame.id] = None
        return start(frame.id, title=title, kind=kind, status="in_progress", raw_input=arguments)

    def _title(self, agent: str, name: str, arguments: str) -> str:
        outer = self._names.get(agent, "")
        line = f"{outer}: {name} {arguments}" if outer else f"{name} {arguments}"
        return escape_unprintable(line, MAX_TITLE_CHARS)


def write_pending(pending: Pending) -> list[Any]:
    """Return what the editor shows of a call that waits: why, and the whole call, of which a title has the begin."""
    return [*_texts(pending.reason), *_texts(pending.text)]


def _plan_entries(steps: Sequence[PlanStep]) -> list[Any]:
    """Return the entries of a plan; the first open step is the one at work."""
    at_work = next((step for step in steps if not step.done), None)
    return [
        acp.plan_entry(step.text, status="completed" if step.done else "in_progress" if step is at_work else "pending")
        for step in steps
    ]


def _texts(text: str) -> list[Any]:
    return [acp.tool_content(acp.text_block(text))]


Connect: TypeAlias = Callable[..., Toolset]
"""Makes a toolset of a server; its keywords are those of `agentkit.mcp.MCPServer`."""
UNUSED = "MCP servers of the editor are not used: {}. Serve with connect=agentkit.mcp.MCPServer."


class EditorServers:
    """The servers that the editor names for a conversation; open from the first turn until the connection ends.

    Args:
        servers: The servers, as ACP describes them.
        folder: Where programs are started.
        connect: Makes their toolsets; without it they are only named in a notice.
    """

    def __init__(self, servers: Sequence[Any] | None, folder: str, connect: Connect | None) -> None:
        self.notices: list[str] = []
        """What the person should read about servers that are not used."""
        self._waiting: list[Toolset] = []
        self._opened: list[Toolset] = []
        if connect is None:
            if servers:
                self.notices.append(UNUSED.format(", ".join(server.name for server in servers)))
            return
        for server in servers or ():
            try:
                self._waiting.append(connect(**_read_server(server, folder)))
            except AgentkitError as error:
                self._note(server.name, error)

    async def extend(self, agent: JsonAgent[Any]) -> JsonAgent[Any]:
        """Open the servers that are not open, and return the agent with their tools."""
        await asyncio.gather(*map(self._open, [*self._waiting]))
        if not self._opened:
            return agent
        twin = copy(agent)
        twin.toolsets = (*agent.toolsets, *self._opened)
        return twin

    async def close(self) -> None:
        """Close the open servers."""
        opened = self._opened
        self._opened = []
        await asyncio.gather(*(server.close_tools() for server in opened), return_exceptions=True)

    async def _open(self, server: Toolset) -> None:
        try:
            await server.open_tools()
        except AgentkitError as error:
            self._note(server.name, error)
        else:
            self._opened.append(server)
        self._waiting.remove(server)

    def _note(self, name: str, error: AgentkitError) -> None:
        self.notices.append(f"The MCP server {name} is not used. {mask(str(error))}")


def _read_server(server: Any, folder: str) -> dict[str, Any]:
    """Return the keywords of a server."""
    if hasattr(server, "command"):
        env = {variable.name: variable.value for variable in server.env}
        return {"name": server.name, "command": [server.command, *server.args], "env": env, "cwd": folder}
    return {"name": server.name, "url": server.url, "headers": {each.name: each.value for each in server.headers}}


T = TypeVar("T")
CONTINUE_COMMAND = "/continue"
"""The prompt that continues a run which was interrupted or waits."""
INTERNAL_ERROR = -32603
INVALID_PARAMS = -32602


class EditorSession:
    """A conversation.

    Args:
        identity: Its id.
        session: Its session.
        servers: The servers of the editor.
        interrupted: The id in the journal of a run that a crash stopped.
    """

    def __init__(self, identity: str, session: Session, servers: EditorServers, interrupted: str = "") -> None:
        self.id = identity
        self.session = session
        self.servers = servers
        self.interrupted = interrupted
        self._cancelled: asyncio.Event | None = None
        self._asked: Pending | None = None

    def cancel(self) -> None:
        """Stop the turn that is working; do nothing without one."""
        if self._cancelled is not None:
            self._cancelled.set()
            self.session.stop("cancelled in the editor")

    def check_idle(self) -> None:
        """Raise `RequestError` while a turn of the conversation is working."""
        if self._cancelled is not None:
            raise RequestError(-32600, "a turn of this session is still working: cancel it, or wait for its end")

    async def prompt(self, agent: JsonAgent[Any], client: Any, query: Query, *, has_forms: bool) -> Any:
        """Run the agent until the turn ends, and return the response for the editor.

        Raises:
            RequestError: The run failed, or another turn of the conversation is working.
        """
        self.check_idle()
        self._cancelled = asyncio.Event()
        encoder = UpdateEncoder()
        try:
            extended = await self._until_cancelled(self.servers.extend(agent))
            if extended is None:
                return schema.PromptResponse(stop_reason="cancelled")
            notices = [acp.update_agent_thought_text(notice) for notice in self.servers.notices]
            self.servers.notices.clear()
            await self._send(client, notices)
            return await self._turn(extended, client, encoder, query, has_forms=has_forms)
        except Exception:  # of the editor too, which may have no dialog
            await self._send(client, [*encoder.close()])
            raise
        finally:
            self._cancelled = None

    async def _turn(
        self, agent: JsonAgent[Any], client: Any, encoder: UpdateEncoder, query: Query, *, has_forms: bool
    ) -> Any:
        async def ask(question: Question) -> Any:
            entry = Pending(question.id, ToolCall(question.id, ""), question.text, question.schema).masked()
            form = form_of(entry) if has_forms else None
            if form is None:
                return Paused
            answered = await self._until_cancelled(ask_form(client, self.id, entry, form))
            return answered[0] if answered else None

        enclose([lambda: LiveRespondent(ask)])
        answers: dict[str, Any] = {}
        content: Query | None = None if query == CONTINUE_COMMAND else query
        if self._asked is not None and content is not None:
            question = next((one for one in self.session.pending if one.id == self._asked.id), None)
            if question is not None and isinstance(query, str):
                value = read_entry(question.schema, query)
                if problem := explain_answer(question, value):
                    await self._say(client, f"{problem}\n\n{describe_question(self._asked)}")
                    return schema.PromptResponse(stop_reason="end_turn")
                content = None
                answers = {question.id: value}
        while True:
            self._asked = None
            end = await self._run(agent, client, encoder, content, answers)
            if end.outcome != "paused":
                return _respond(end)
            if self._is_cancelled:
                await self._send(client, [*encoder.close()])
                return _respond(end, "cancelled")
            decided = await self._until_cancelled(self._ask(client, encoder, end.pending, has_forms=has_forms))
            if not decided:
                is_asked = decided is not None and self._asked is not None
                await self._send(client, [] if is_asked else [*encoder.close()])
                return _respond(end, "end_turn" if is_asked else "cancelled")
            content = None
            answers = decided

    @property
    def _is_cancelled(self) -> bool:
        return self._cancelled is not None and self._cancelled.is_set()

    async def _run(
        self, agent: JsonAgent[Any], client: Any, encoder: UpdateEncoder, query: Query | None, answers: dict[str, Any]
    ) -> RunClosed:
        """Run the agent, show what happens, and return the end of the run."""
        encoder.closed = None
        try:
            stream = astream_frames(agent, query, session=self.session, answers=answers or None)
            async with aclosing(stream) as frames:
                async for frame in frames:
                    if self._is_cancelled:
                        self.session.stop("cancelled in the editor")
                    await self._send(client, [*encoder.encode(frame)])
        except AgentkitError as error:
            if encoder.closed is None:
                raise RequestError(INTERNAL_ERROR, mask(str(error)), {"kind": type(error).__name__}) from error
        except Exception as error:  # a tool with on_error="raise", or a listener
            raise RequestError(INTERNAL_ERROR, mask(f"{type(error).__name__}: {error}")) from error
        assert encoder.closed is not None
        return encoder.closed

    async def _send(self, client: Any, updates: Sequence[Update]) -> None:
        for update in updates:
            await client.session_update(self.id, update)

    async def _say(self, client: Any, text: str) -> None:
        await client.session_update(self.id, acp.update_agent_message_text(text))

    async def _until_cancelled(self, awaited: Awaitable[T]) -> T | None:
        """Return what is awaited; None if the turn is cancelled before."""
        assert self._cancelled is not None
        answer = asyncio.ensure_future(awaited)
        stop = asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait([answer, stop], return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()
            stop.cancel()

    async def _ask(
        self, client: Any, encoder: UpdateEncoder, pending: Sequence[Pending], *, has_forms: bool
    ) -> dict[str, Any]:
        """Return the answers with which the run continues; an empty dict if it waits on.

        Decisions come first.  An editor without forms shows one question, and the next prompt answers it.
        """
        answers: dict[str, Any] = {}
        for entry in (entry for entry in pending if entry.is_approval):
            if (decision := await ask_permission(client, self.id, entry, encoder)) is None:
                return {}
            answers[entry.id] = decision
        if answers:
            return answers
        for entry in pending:
            form = form_of(entry) if has_forms else None
            if form is None:
                self._asked = entry
                await self._say(client, describe_question(entry))
                break
            for answer in await ask_form(client, self.id, entry, form):
                if problem := explain_answer(entry, answer):
                    self._asked = entry
                    await self._say(client, f"{problem}\n\n{describe_question(entry)}")
                    return {}
                answers[entry.id] = answer
        return answers if self._asked is None else {}


def _respond(end: RunClosed, reason: schema.StopReason | None = None) -> Any:
    """Return the response for the end of a run; raise `RequestError` if it failed."""
    if reason is None:
        if end.outcome in ("error", "limit"):
            raise RequestError(INTERNAL_ERROR, end.error, {"kind": end.kind})
        reason = "end_turn" if end.outcome == "answer" else "cancelled"
    usage = end.usage
    tokens = {name: usage.get(f"{name}_tokens") or 0 for name in ("input", "output")}
    counted = schema.Usage(
        total_tokens=sum(tokens.values()),
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
        cached_read_tokens=usage.get("cached_tokens") or 0,
        thought_tokens=usage.get("reasoning_tokens") or 0,
    )
    return schema.PromptResponse(stop_reason=reason, usage=counted)


ALLOW_OPTION = "allow"
ALLOW_VALUES = "allow_values"
REJECT = "reject"
MAX_OPTION_CHARS = 80


async def ask_permission(client: Any, session: str, pending: Pending, encoder: UpdateEncoder) -> PersonAnswer | None:
    """Return the person's decision about a call; None if the client cancelled the question."""
    for update in encoder.announce(pending):
        await client.session_update(session, update)
    call = schema.ToolCallUpdate(
        tool_call_id=pending.id,
        title=encoder.title_of(pending),
        status="pending",
        content=write_pending(pending),
    )
    options = [schema.PermissionOption(option_id=ALLOW_OPTION, name="Allow once", kind="allow_once")]
    if pending.values:
        name = f"Allow, also later with {pending.values[:MAX_OPTION_CHARS]}"
        options.append(schema.PermissionOption(option_id=ALLOW_VALUES, name=name, kind="allow_always"))
    options.append(schema.PermissionOption(option_id=REJECT, name="Reject", kind="reject_once"))
    response = await client.request_permission(session, call, options)
    if not isinstance(response.outcome, schema.AllowedOutcome):
        return None
    chosen = response.outcome.option_id
    return PersonAnswer(chosen in (ALLOW_OPTION, ALLOW_VALUES), "values" if chosen == ALLOW_VALUES else "call")


async def ask_form(client: Any, session: str, pending: Pending, form: Mapping[str, Any]) -> tuple[Any, ...]:
    """Ask a question in a form; return the answer in a tuple, an empty one if the person gave none."""
    mode = schema.ElicitationFormSessionMode(
        session_id=session, requested_schema=schema.ElicitationSchema.model_validate(form)
    )
    response = await client.create_elicitation(pending.text, mode)
    content = getattr(response, "content", None)
    if response.action != "accept" or content is None:
        return ()
    return (read_form(pending.schema, content),)


def form_of(pending: Pending) -> Mapping[str, Any] | None:
    """Return the schema of the form for a question; None if a form cannot ask for such a value."""
    form = to_form(pending.schema)
    try:
        schema.ElicitationSchema.model_validate(form)
    except ValidationError:
        return None
    return form


def describe_question(pending: Pending) -> str:
    """Return a question as text, for an editor without forms."""
    return f"{pending.text}\n\n(Your next message is the answer: {describe_answer_type(pending.schema)}.)\n\n"


def query_of_prompt(prompt: Sequence[Any]) -> Query:
    """Return the query in the blocks of a prompt.

    Raises:
        RequestError: A block has a content that no model can read, or all blocks together have none.
    """
    parts = [_part(block) for block in prompt]
    if any(isinstance(part, ContentPart) for part in parts):
        return parts
    text = "\n".join(map(str, parts))
    if not text.strip():
        raise RequestError(INVALID_PARAMS, "prompt: it is empty. Send a text, a file or an image.")
    return text


def _part(block: Any) -> str | ContentPart:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ImageContentBlock() | schema.AudioContentBlock():
            return _binary(block.data, block.type)
        case schema.ResourceContentBlock():
            return f"[{block.name}]({block.uri})"
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as file):
            return f"The file {file.uri}:\n{file.text}\n"
        case schema.EmbeddedResourceContentBlock():
            return _binary(block.resource.blob, block.resource.uri)
    raise RequestError(INVALID_PARAMS, f"prompt: no block of the type {type(block).__name__} can be read")


def _binary(text: str, place: str) -> ContentPart:
    try:
        data = b64decode(text, validate=True)
        kinds: tuple[type[ContentPart], ...] = (Image, Document, Audio)
        kind = next((kind for kind in kinds if detect_media_type(data) in kind.media_types), Image)
        return kind.from_bytes(data, name=place.rpartition("/")[2])
    except (Base64Error, ValueError, DefinitionError) as error:
        raise RequestError(INVALID_PARAMS, f"prompt: {place}: {error}") from error
