"""One conversation of a front door: its session, the events that its clients have got, and the run that works on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from ..agents.agent import JsonAgent
from ..core.errors import AgentkitError
from ..core.flow import Event
from ..core.masking import mask, mask_data
from ..engine.model import ModelAsked
from ..sessions.session import Session
from ..views.frame_reader import FrameReader
from .encode import AguiEncoder
from .query_parts import query_of
from .run_input import RunInput, split_resume

Json = dict[str, Any]


class Thread:
    """A conversation and its log of AG-UI events; the index of an event in the log is its id.

    Args:
        thread: Its id.
        session: Its session.
        draws: As in `AguiEncoder`.

    Attributes:
        thread: Its id.
        events: All events, those of earlier runs first.
        running: The id of the run that is working, as the client named it; "" if none is.
        interrupted: The id in the journal of a run that a crash stopped, which can be continued.
    """

    def __init__(self, thread: str, session: Session | None = None, *, draws: bool = False) -> None:
        self.thread, self.session, self._draws = thread, session or Session(), draws
        self.events: list[Json] = []
        self.running, self.interrupted = "", ""
        self._requests: dict[tuple[str, int], Json] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, agent: JsonAgent[Any], given: RunInput) -> int:
        """Begin a run in a task of its own and return the id of its first event."""
        self.running, self.interrupted, first = given.run, "", len(self.events)
        self._task = asyncio.create_task(self._work(agent, given))
        return first

    async def follow(self, place: int) -> AsyncIterator[tuple[int, Json]]:
        """Yield the events from `place` on with their ids, to the end of the current run."""
        while True:
            changed = self._changed
            while place < len(self.events):
                yield place, self.events[place]
                place += 1
            if not self.running:
                return
            await changed.wait()

    def stop(self) -> None:
        """Stop the run that is working; do nothing without one."""
        self.session.stop("stopped by the person")

    async def wait_until_idle(self) -> None:
        """Wait for the end of the run that is working."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def find_request(self, run: str, number: int) -> Json | None:
        """Return a request of a run of this process, masked; None for one that is not known."""
        request = self._requests.get((run, number))
        return None if request is None else mask_data(request)

    def extend(self, events: list[Json]) -> None:
        """Add events to the log and wake the clients."""
        self.events += events
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _work(self, agent: JsonAgent[Any], given: RunInput) -> None:
        encoder, reader = AguiEncoder(self.thread, given.run, given.echo, draws=self._draws), FrameReader()
        number = 0

        def listen(event: Event) -> None:
            nonlocal number
            if isinstance(event, ModelAsked):
                number += 1
                self._requests[given.run, number] = _request_of(event)
            found = [record for frame in reader.read(event) for record in encoder.encode(frame)]
            if found:
                self.extend(found)

        try:
            questions = {question.id for question in self.session.questions}
            approvals, answers = split_resume(given.resume, questions)
            query = query_of(given.content)
            how: Any = {"approvals": approvals or None, "answers": answers or None, "listeners": [listen]}
            async with aclosing(agent.astream(query, session=self.session, **how)) as events:
                async for _ in events:
                    pass
        except AgentkitError as error:
            self._fail(encoder, str(error), type(error).__name__)
        except Exception as error:  # a tool with on_error="raise", or a listener
            self._fail(encoder, f"{type(error).__name__}: {error}", type(error).__name__)
        finally:
            self.running = ""
            self.extend([])

    def _fail(self, encoder: AguiEncoder, text: str, kind: str) -> None:
        """Report an error unless the run itself has reported its end."""
        if not encoder.is_closed:
            self.extend([*encoder.fail(mask(text), kind)])


def _request_of(event: ModelAsked) -> Json:
    """Return a request as data; the messages are shared with the history, so keeping many requests is cheap."""
    request = event.request
    return {
        "model": event.model,
        "messages": [*request.messages],
        "tools": [*request.tools],
        "tool_choice": request.tool_choice,
    }
