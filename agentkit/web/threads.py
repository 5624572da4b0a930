"""The conversations of a server, by their ids."""

import asyncio
from typing import Any

from ..agents.agent import JsonAgent
from ..sessions.journal.location import Place
from ..sessions.session import Session
from .archive import create_journal, list_threads, open_conversation
from .query_parts import query_of
from .run_input import BusyError, InputError, RunInput
from .thread import Thread

MAX_CONVERSATIONS = 200
"""Conversations that are kept in memory; the oldest idle ones are dropped, and read from the journal again."""


class Threads:
    """The conversations with one agent.

    Args:
        agent: The agent.
        journal: The journal in which each conversation is kept under its id; None keeps them in memory alone.
        draws: As in `AguiEncoder`.
    """

    def __init__(self, agent: JsonAgent[Any], journal: Place | None = None, *, draws: bool = False) -> None:
        self.agent, self.journal, self._draws = agent, journal, draws
        if journal is not None:
            create_journal(journal)
        self._open: dict[str, Thread] = {}
        self._lock = asyncio.Lock()

    async def find(self, thread: str) -> Thread:
        """Return a conversation: the one in memory, the one in the journal, or a new one."""
        async with self._lock:
            if thread not in self._open:
                if self.journal is None:
                    self._open[thread] = Thread(thread, draws=self._draws)
                else:
                    opened = asyncio.to_thread(open_conversation, thread, self.journal, draws=self._draws)
                    self._open[thread] = await opened
                self._drop_oldest()
            return self._open[thread]

    async def start(self, given: RunInput) -> tuple[Thread, int]:
        """Begin a run and return its conversation with the id of the first event.

        Raises:
            BusyError: A run of the conversation is working.
            InputError: Nothing is interrupted, or a part has no valid content.
        """
        conversation = await self.find(given.thread)
        if conversation.running:
            raise BusyError("a run of this conversation is still working: stop it, or wait for its end")
        query_of(given.content)
        if given.is_continuation:
            if not conversation.interrupted or self.journal is None:
                raise InputError("no run of this conversation was interrupted")
            session = await asyncio.to_thread(Session.resumed, conversation.interrupted, self.journal)
            conversation.session = session
        elif self.journal is not None and conversation.session.journaled is None:
            conversation.session = await asyncio.to_thread(Session.open, given.thread, self.journal)
        return conversation, conversation.start(self.agent, given)

    async def list(self) -> list[dict[str, Any]]:
        """Return the conversations of the journal and of this process, the newest first."""
        stored = [] if self.journal is None else await asyncio.to_thread(list_threads, self.journal)
        known = {thread["id"] for thread in stored}
        for thread, conversation in reversed(self._open.items()):
            if thread not in known and conversation.events:
                given = conversation.events[0].get("input") or {}
                messages = given.get("messages") or [{}]
                stored.insert(0, {"id": thread, "title": _title(messages[0].get("content")), "at": None})
        running = {thread for thread, conversation in self._open.items() if conversation.running}
        return [{**thread, "running": thread["id"] in running} for thread in stored]

    def _drop_oldest(self) -> None:
        if self.journal is None:
            return
        idle = [thread for thread, conversation in self._open.items() if not conversation.running]
        for thread in idle[: max(0, len(self._open) - MAX_CONVERSATIONS)]:
            del self._open[thread]


def _title(content: Any) -> str:
    texts = content if isinstance(content, list) else [{"text": content}]
    return " ".join(str(part.get("text") or "") for part in texts if isinstance(part, dict)).strip()[:200]
