"""One conversation with an editor: its turns, with what they ask the person for."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from ..agents.agent import JsonAgent
from ..core.errors import AgentkitError
from ..core.flow import Event
from ..core.masking import mask
from ..core.parts import Query
from ..core.question_form import read_entry
from ..sessions.session import Session
from ..tools.questions import explain_answer
from ..views.frame_reader import FrameReader
from ..views.frames import PendingInput, RunClosed
from .api import RequestError, acp, schema
from .inputs import ask_form, ask_permission, describe_question, form_of
from .servers import EditorServers
from .updates import UpdateEncoder

T = TypeVar("T")
CONTINUE = "/continue"
"""The prompt that continues a run which was interrupted or waits."""
FAILED = -32603


class EditorSession:
    """A conversation.

    Args:
        identity: Its id.
        session: Its session.
        servers: The servers of the editor.
        interrupted: The id in the journal of a run that a crash stopped.
    """

    def __init__(self, identity: str, session: Session, servers: EditorServers, interrupted: str = "") -> None:
        self.id, self.session, self.servers, self.interrupted = identity, session, servers, interrupted
        self._cancelled: asyncio.Event | None = None
        self._asked: PendingInput | None = None

    def cancel(self) -> None:
        """Stop the turn that is working; do nothing without one."""
        if self._cancelled is not None:
            self._cancelled.set()
            self.session.stop("cancelled in the editor")

    async def prompt(self, agent: JsonAgent[Any], client: Any, query: Query, *, has_forms: bool) -> Any:
        """Run the agent until the turn ends, and return the response for the editor.

        Raises:
            RequestError: The run failed, or another turn of the conversation is working.
        """
        if self._cancelled is not None:
            raise RequestError(-32600, "a turn of this session is still working: cancel it, or wait for its end")
        self._cancelled = asyncio.Event()
        try:
            extended = await self._until_cancelled(self.servers.extend(agent))
            if extended is None:
                return schema.PromptResponse(stop_reason="cancelled")
            notices = [acp.update_agent_thought_text(notice) for notice in self.servers.notices]
            self.servers.notices.clear()
            await self._send(client, notices)
            return await self._turn(extended, client, query, has_forms=has_forms)
        finally:
            self._cancelled = None

    async def _turn(self, agent: JsonAgent[Any], client: Any, query: Query, *, has_forms: bool) -> Any:
        encoder, given = UpdateEncoder(), {}
        content: Query | None = None if query == CONTINUE else query
        if self._asked is not None and content is not None:
            question = next((one for one in self.session.questions if one.id == self._asked.id), None)
            if question is not None and isinstance(query, str):
                value = read_entry(question.schema, query)
                if problem := explain_answer(question, value):
                    await self._say(client, f"{problem}\n\n{describe_question(self._asked)}")
                    return schema.PromptResponse(stop_reason="end_turn")
                content, given = None, {"answers": {question.id: value}}
        while True:
            self._asked = None
            end = await self._run(agent, client, encoder, content, given)
            if end.outcome != "paused":
                return _respond(end)
            if self._is_cancelled:
                return _respond(end, "cancelled")
            decided = await self._until_cancelled(self._ask(client, encoder, end.pending, has_forms=has_forms))
            if not decided:
                is_asked = decided is not None and self._asked is not None
                return _respond(end, "end_turn" if is_asked else "cancelled")
            content, given = None, decided

    @property
    def _is_cancelled(self) -> bool:
        return self._cancelled is not None and self._cancelled.is_set()

    async def _run(
        self, agent: JsonAgent[Any], client: Any, encoder: UpdateEncoder, query: Query | None, given: dict[str, Any]
    ) -> RunClosed:
        """Run the agent, show what happens, and return the end of the run."""
        reader, updates = FrameReader(), list[Any]()
        encoder.closed = None

        def listen(event: Event) -> None:
            for frame in reader.read(event):
                updates.extend(encoder.encode(frame))

        try:
            stream = agent.astream(query, session=self.session, listeners=[listen], **given)
            async with aclosing(stream) as events:
                async for _ in events:
                    if self._is_cancelled:
                        self.session.stop("cancelled in the editor")
                    await self._send(client, updates)
        except AgentkitError as error:
            if encoder.closed is None:
                raise RequestError(FAILED, mask(str(error)), {"kind": type(error).__name__}) from error
        except Exception as error:  # a tool with on_error="raise", or a listener
            raise RequestError(FAILED, mask(f"{type(error).__name__}: {error}")) from error
        await self._send(client, updates)
        assert encoder.closed is not None
        return encoder.closed

    async def _send(self, client: Any, updates: list[Any]) -> None:
        for update in updates:
            await client.session_update(self.id, update)
        updates.clear()

    async def _say(self, client: Any, text: str) -> None:
        await client.session_update(self.id, acp.update_agent_message_text(text))

    async def _until_cancelled(self, awaited: Awaitable[T]) -> T | None:
        """Return what is awaited; None if the turn is cancelled before."""
        assert self._cancelled is not None
        answer, stop = asyncio.ensure_future(awaited), asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait([answer, stop], return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()
            stop.cancel()

    async def _ask(
        self, client: Any, encoder: UpdateEncoder, pending: Sequence[PendingInput], *, has_forms: bool
    ) -> dict[str, Any]:
        """Return the options with which the run continues; an empty dict if it waits on.

        Decisions come first.  An editor without forms shows one question, and the next prompt answers it.
        """
        approvals, answers = {}, {}
        for entry in (entry for entry in pending if entry.schema is None):
            if (decision := await ask_permission(client, self.id, entry, encoder)) is None:
                return {}
            approvals[entry.id] = decision
        if approvals:
            return {"approvals": approvals}
        for entry in pending:
            form = form_of(entry) if has_forms else None
            if form is None:
                self._asked = entry
                await self._say(client, describe_question(entry))
                break
            for answer in await ask_form(client, self.id, entry, form):
                answers[entry.id] = answer
        return {"answers": answers} if answers and self._asked is None else {}


def _respond(end: RunClosed, reason: schema.StopReason | None = None) -> Any:
    """Return the response for the end of a run; raise `RequestError` if it failed."""
    if reason is None:
        if end.outcome in ("error", "limit"):
            raise RequestError(FAILED, end.error, {"kind": end.kind})
        reason = "end_turn" if end.outcome == "answer" else "cancelled"
    usage = end.usage
    tokens = {name: usage.get(f"{name}_tokens") or 0 for name in ("input", "output")}
    counted = schema.Usage(
        total_tokens=sum(tokens.values()), input_tokens=tokens["input"], output_tokens=tokens["output"],
        cached_read_tokens=usage.get("cached_tokens") or 0, thought_tokens=usage.get("reasoning_tokens") or 0,
    )  # fmt: skip
    return schema.PromptResponse(stop_reason=reason, usage=counted)
