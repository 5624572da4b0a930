"""A model whose request runs in the context of its span, so that an instrumented HTTP client becomes its child."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from typing import TypeVar

from ..engine.model import Delta, Model, Reply, Request
from .api import context as otel_context
from .api import propagate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TracedModel:
    """The backend `model`, with the trace context in the request's headers and around every step of its work."""

    model: Model
    context: otel_context.Context

    @property
    def name(self) -> str:
        return self.model.name

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        with closing(self._within(lambda: self.model.ask(self._with_headers(request)))) as pieces:
            while (piece := self._within(lambda: next(pieces, None))) is not None:
                yield piece

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        async with aclosing(self.model.aask(self._with_headers(request))) as pieces:
            while True:
                token = otel_context.attach(self.context)
                try:
                    piece = await anext(pieces, None)
                finally:
                    otel_context.detach(token)
                if piece is None:
                    return
                yield piece

    def _within(self, work: Callable[[], T]) -> T:
        token = otel_context.attach(self.context)
        try:
            return work()
        finally:
            otel_context.detach(token)

    def _with_headers(self, request: Request) -> Request:
        headers: dict[str, str] = dict(request.headers or {})
        propagate.inject(headers, self.context)
        return replace(request, headers=headers) if headers else request
