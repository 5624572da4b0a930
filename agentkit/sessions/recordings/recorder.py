"""Record what the journal of a run lacks for its replay: each request as it is really made, and its outcome."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...core.errors import ModelError
from ...core.flow import Event, Flow, around, ask
from ...core.masking import mask_pieces
from ...core.messages import Message
from ...engine.model import AskModel, Delta, ModelAsked, ModelReplied, Reply, Request
from ...engine.result import SubRun
from ...policies.approval import ApprovalGiven
from ..journal.policy import WriteJournal
from ..journal.setup import schemas_of
from ..journal.writer import JournalWriter
from .lines import DELTAS, RecordFile

_KINDS = {delta: kind for kind, delta in DELTAS.items()}


class RequestRecorder:
    """Write the requests, replies, failed attempts and decisions of a run: `listen` to its events, and use `policy`."""

    def __init__(self, writer: JournalWriter, file: RecordFile) -> None:
        self._writer = writer
        self._file = file
        self._messages: Sequence[Message] = ()
        self._tools: Mapping[str, Any] = {}
        self._asked = time.perf_counter()
        self._deltas: list[list[Any]] = []
        self.policy = around(self._ask, AskModel)

    def listen(self, event: Event) -> None:
        """Write the line of an event; the pieces of a reply are written with it."""
        match event:
            case ModelAsked(model, request):
                self._write_request(model, request)
            case _ if isinstance(event, Delta):
                values = (getattr(event, name) for name in event.__match_args__)
                self._deltas.append([self._seconds, _KINDS[type(event)], *values])
            case ModelReplied(reply):
                figures = {"finish_reason": reply.finish_reason, "usage": reply.usage.as_dict(), "model": reply.model}
                deltas = {"deltas": _mask_deltas(self._deltas)} if self._deltas else {}
                self._file.write("reply", seconds=self._seconds, message=reply.message, **figures, **deltas)
            case SubRun(usage=usage) if usage.requests:
                self._file.write("usage", usage=usage.as_dict())
            case ApprovalGiven(call, decision):
                self._file.write("decision", call=call.id, name=call.name, decision=decision)

    @property
    def _seconds(self) -> float:
        return round(time.perf_counter() - self._asked, 4)

    def _ask(self, effect: AskModel) -> Flow[Reply]:
        try:
            return (yield from ask(effect))
        except ModelError as error:
            kind: dict[str, Any] = {"error_kind": error.kind, "status": error.status, "transient": error.transient}
            data = {"seconds": self._seconds, "message": str(error), "retry_after": error.retry_after, **kind}
            yield from ask(WriteJournal(self._writer, partial(self._file.write, "error", **data)))
            raise

    def _write_request(self, model: str, request: Request) -> None:
        same = 0
        for old, new in zip(self._messages, request.messages, strict=False):
            if old is not new:
                break
            same += 1
        self._messages = [*request.messages]
        tools = schemas_of(request.tools)
        changed = {"tools": tools} if tools != self._tools else {}
        self._tools, self._asked, self._deltas = tools, time.perf_counter(), []
        places = {id(message): place for place, message in enumerate(self._writer.conversation.written)}
        added = [places.get(id(message), message) for message in self._messages[same:]]  # whole if a policy made it
        choice = request.tool_choice
        self._file.write("request", model=model, **{"from": same}, messages=added, tool_choice=choice, **changed)


def _mask_deltas(deltas: list[list[Any]]) -> list[list[Any]]:
    """Mask the pieces of each text together: a secret may be spread over several of them."""
    texts: dict[Any, list[list[Any]]] = {}
    for delta in deltas:
        texts.setdefault(tuple(delta[1:-1]) if delta[1] == "call" else delta[1], []).append(delta)
    for pieces in texts.values():
        for delta, text in zip(pieces, mask_pieces([delta[-1] for delta in pieces]), strict=True):
            delta[-1] = text
    return deltas
