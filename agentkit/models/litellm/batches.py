"""A model whose requests are lines of the provider's batches, which are answered within a day for less money.

Each request is made by litellm as a live one, up to its HTTP client: there it becomes a line, and waits.  When all runs
wait, their lines go as one batch.  Each result is then the HTTP response of its request, so that litellm and agentkit
read it as that of a live one, errors included: what a live request would repeat is a line of the next batch.

A batch has an id of our own, which is in a log before anything is sent, and in its metadata.  So a process that was
killed at any place finds its batches again.  A line is known by the digest of its request.
"""

import asyncio
import json
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from importlib import import_module
from typing import Any, Protocol

from ...core.background import run_coroutine, run_in_thread
from ...core.errors import DefinitionError, ModelError
from ...core.messages import Usage
from ...core.values import frozen
from ...engine.model import Delta, Reply, Request
from .batch_forms import EXPIRED, Answer, as_dict, batch_form, list_batch_providers, read_error
from .errors import convert_error
from .importing import load_litellm
from .model import LiteLLMModel

LINE_HEADER = "x-agentkit-line"
"""The header that names the line of a request; it is not sent."""
BATCH_BYTES = 100_000_000
"""Bytes of one batch: OpenAI and Azure take 200 MB."""
MAX_FAILURES = 10
"""Failures in a row of the requests about batches, which are repeated after a while."""
_ENDED = {"completed", "expired", "cancelled", "failed"}
_STOPPED = {"cancelled", "failed"}
"""The states of a batch that the provider refused after its creation, or that somebody stopped."""
_UNPROCESSED = {"pending", "running", "notRunning"}
"""The states of a file of Azure that cannot be the input of a batch yet."""


class BatchLog(Protocol):
    """What keeps the batches of a map over the end of its process; each call is written when it returns."""

    async def begin(self, batch: str, lines: Sequence[str]) -> None:
        """Write that a batch with these lines is about to be sent."""
        ...

    async def note(self, batch: str, facts: Mapping[str, str]) -> None:
        """Write facts about a batch, such as the id that the provider gave."""
        ...

    async def end(self, batch: str) -> None:
        """Write that nothing needs the results of a batch any more."""
        ...

    async def read_open(self) -> Mapping[str, tuple[Sequence[str], Mapping[str, str]]]:
        """Return the lines and the facts of the batches that have begun and not ended, the oldest first."""
        ...


@frozen
class BatchProgress:
    """How far the current batches are.

    Attributes:
        number: The number of batches up to now.
        status: What the provider calls the status of the last one.
        completed: The lines that have a result.
        failed: The lines that have an error.
        total: All lines.
    """

    number: int
    status: str
    completed: int = 0
    failed: int = 0
    total: int = 0

    def __str__(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"batch {self.number}: {self.completed:,} of {self.total:,} requests{failed}, {self.status}"


@dataclass(eq=False, slots=True)
class _Line:
    """A request that waits for its result."""

    digest: str = ""
    endpoint: str = ""
    body: bytes = b""
    answer: "asyncio.Future[Answer] | None" = None

    def resolve(self, status: int, body: bytes) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result((status, body))


@dataclass(eq=False, slots=True)
class _Sent:
    """A batch; `lines` are the requests that wait for it by their ids, `facts` what the log has about it."""

    id: str
    lines: dict[str, _Line] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    progress: Any = None
    statuses: list[int] = field(default_factory=list)
    """The statuses of the results that were read."""


class BatchModel:
    """A model of litellm whose requests are answered by batches.

    Args:
        model: The model.
        log: Keeps the batches.
        runs: The number of runs that ask it; each calls `leave` at its end.
        poll_seconds: The most seconds between two questions about the state of a batch.
        max_lines: The most lines of a batch.
        report: Is called with the progress.

    Raises:
        DefinitionError: litellm has no batches for the provider.
        ModelError: The provider is unknown, or its key is missing.
    """

    keeps_time = True
    caches_prompts = False

    def __init__(
        self,
        model: LiteLLMModel,
        log: BatchLog,
        runs: int,
        *,
        poll_seconds: float,
        max_lines: int,
        report: Callable[[BatchProgress], None],
    ) -> None:
        self._litellm = load_litellm()
        self._route = model.find_route()
        provider = self._route.provider
        if provider not in (known := list_batch_providers(self._litellm)):
            raise DefinitionError(
                f"{model.name}: there are no batches of the provider {provider!r}. Name a model of one of these: "
                f"{', '.join(known)}; or leave batch= out."
            )
        self._form = batch_form(provider)
        self._model = _copy_model(model, self._litellm, self._route, self)
        self._account = model.account
        self._log = log
        self._running = runs
        self._poll_seconds = poll_seconds
        self._max_lines = max_lines
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._lines: dict[str, _Line] = {}
        """The requests in progress, by the value of their header."""
        self._waiting: dict[_Line, None] = {}
        self._delivered: list[str] = []
        """The batches whose results are delivered, and may not be in the journals of their runs yet."""
        self._may_be_open = True
        """Whether the log may have batches that have results for requests."""
        self._number = 0
        self._failure: ModelError | None = None
        self._was_stopped = False
        self._work: asyncio.Task[None] | None = None
        self.name = f"{model.name} (batch)"
        self.takes_provider_tools = model.takes_provider_tools
        self.tool_calling = model.tool_calling
        self.context_window = model.context_window
        self.worst_case = model.worst_case

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Yield the reply; block the calling thread, which is not that of the event loop."""

        async def collect() -> list[Delta | Reply]:
            return [piece async for piece in self._ask(request)]

        yield from run_coroutine(collect(), self._loop)

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the reply when its batch is done."""
        if asyncio.get_running_loop() is not self._loop:
            for piece in await asyncio.to_thread(lambda: [*self.ask(request)]):
                yield piece
            return
        async with aclosing(self._ask(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def _ask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        line = _Line()
        key = secrets.token_hex(8)
        self._lines[key] = line
        headers = {**(request.headers or {}), LINE_HEADER: key}
        try:
            async with aclosing(
                self._model.aask(replace(request, stream=False, timeout=None, headers=headers))
            ) as pieces:
                async for piece in pieces:
                    yield self._price(piece, line) if isinstance(piece, Reply) else piece
        finally:
            del self._lines[key]
            self._waiting.pop(line, None)  # its run was stopped

    @property
    def has_failed(self) -> bool:
        """Whether the last requests had no batch, or a batch was refused or stopped as a whole."""
        return self._failure is not None or self._was_stopped

    def leave(self) -> None:
        """Note that a run has ended: the others do not wait for its requests."""
        self._running -= 1
        self._begin_if_all_wait()

    async def end_delivered(self) -> None:
        """Write the end of the batches whose results are in the journals of their runs, which have ended."""
        for batch in self._delivered:
            await self._log.end(batch)
        self._delivered.clear()

    async def aclose(self) -> None:
        """End the work; a batch that is in progress stays with the provider, and is found again."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def take(self, key: str, path: str, body: bytes) -> Answer:
        """Return the result of a request; called in the place of the HTTP client."""
        line = self._lines[key]
        if not path.endswith(self._form.path):
            text = f"litellm has no batches for requests to {path}. Use another model of {self._route.provider}."
            return 400, json.dumps({"error": {"message": text, "code": "bad_request"}}).encode()
        line.body = body
        line.endpoint = "/v1/responses" if path.endswith("/responses") else "/v1/chat/completions"
        data = json.dumps(json.loads(body), sort_keys=True)
        line.digest = blake2b(f"{line.endpoint} {data}".encode(), digest_size=16).hexdigest()
        line.answer = self._loop.create_future()
        self._waiting[line] = None
        self._begin_if_all_wait()
        return await line.answer

    def _begin_if_all_wait(self) -> None:
        if self._work is None and self._waiting and len(self._waiting) >= self._running:
            self._work = self._loop.create_task(self._answer_all())

    async def _answer_all(self) -> None:
        """Answer the requests that wait: from the batches that are open from before, else from new ones."""
        batches = list[_Sent]()
        try:
            await self.end_delivered()
            if self._may_be_open:
                batches = await self._adopt()
                self._may_be_open = False
            batches = batches or await self._send()
            await self._wait_for(batches)
            self._failure = None
        except Exception as error:
            self._may_be_open = True
            self._fail(batches, error)
            batches = []
        finally:
            self._delivered += [batch.id for batch in batches]
            self._work = None
        self._begin_if_all_wait()

    def _fail(self, batches: Sequence[_Sent], error: Exception) -> None:
        """Answer the requests that wait with an error."""
        failure = self._convert(error)
        self._failure = failure
        status = failure.status or (503 if failure.transient else 400)
        body = json.dumps({"error": {"message": f"the batch failed: {failure}", "code": failure.kind}}).encode()
        lines = [*self._waiting, *(line for batch in batches for line in batch.lines.values())]
        self._waiting.clear()
        for line in lines:
            line.resolve(status, body)

    async def _adopt(self) -> list[_Sent]:
        """Return the batches of an earlier process that requests wait for; the others are over."""
        waiting = defaultdict[str, list[_Line]](list)
        for line in self._waiting:
            waiting[line.digest].append(line)
        adopted = list[_Sent]()
        for identity, (lines, facts) in (await self._log.read_open()).items():
            batch = _Sent(identity, facts={**facts})
            self._number += 1
            for name in lines:
                if same := waiting[name.partition("-")[0]]:
                    batch.lines[name] = same.pop()
            if batch.lines and ("batch" in batch.facts or await self._find(batch)):
                adopted.append(batch)
                for line in batch.lines.values():
                    del self._waiting[line]
            else:
                for line in batch.lines.values():
                    waiting[line.digest].append(line)
                await self._log.end(identity)
        return adopted

    async def _send(self) -> list[_Sent]:
        """Create batches of the requests that wait."""
        lines = [*self._waiting]
        self._waiting.clear()
        batches = list[_Sent]()
        try:
            for some in _split_lines(lines, self._max_lines):
                batch = _Sent(secrets.token_hex(8))
                counts = defaultdict[str, int](int)
                for line in some:
                    counts[line.digest] += 1
                    batch.lines[f"{line.digest}-{counts[line.digest]}"] = line
                batches.append(batch)
                self._number += 1
                await self._log.begin(batch.id, [*batch.lines])
                await self._create(batch)
        except BaseException:
            self._waiting |= dict.fromkeys(lines)
            raise
        return batches

    async def _create(self, batch: _Sent) -> None:
        """Upload the lines, and create the batch; after an unclear failure, look for it before a second attempt."""
        file = b"".join(
            json.dumps(self._form.write(name, line.endpoint, json.loads(line.body))).encode() + b"\n"
            for name, line in batch.lines.items()
        )
        endpoint = next(iter(batch.lines.values())).endpoint
        self._report(BatchProgress(self._number, "uploading", total=len(batch.lines)))
        upload = (f"{batch.id}.jsonl", file, self._form.media_type)
        send = partial(self._litellm.create_file, file=upload, purpose="batch", **self._how(), **self._form.options)
        uploaded = await self._repeat(send)
        while uploaded.status in _UNPROCESSED:
            await asyncio.sleep(min(1.0, self._poll_seconds))
            uploaded = await self._repeat(partial(self._litellm.file_retrieve, file_id=uploaded.id, **self._how()))
        batch.facts["file"] = uploaded.id
        await self._log.note(batch.id, batch.facts)

        send = partial(
            self._litellm.create_batch,
            completion_window="24h",
            endpoint=endpoint,
            input_file_id=uploaded.id,
            metadata={self._form.metadata: batch.id},
            **self._how(),
        )

        async def create() -> str:
            try:
                made = await run_in_thread(send)
            except Exception as error:
                if not self._convert(error).transient or not await self._find(batch):
                    raise
                return batch.facts["batch"]
            return str(made.id)

        batch.facts["batch"] = await self._repeat_async(create)
        await self._log.note(batch.id, batch.facts)

    async def _find(self, batch: _Sent) -> bool:
        """Look for a batch that may have been created; return whether it was."""
        if "file" not in batch.facts:  # a batch is created when the log has its file
            return False
        after: str | None = None
        while True:
            begin = after
            found, after = await self._repeat(partial(self._form.list_page, self._litellm, self._how(), begin))
            for entry in found:
                metadata = entry.get("metadata") or {}
                is_same = entry.get("input_file_id") == batch.facts["file"]
                if metadata.get(self._form.metadata) == batch.id or is_same:
                    batch.facts["batch"] = str(entry["id"])
                    await self._log.note(batch.id, batch.facts)
                    return True
            if after is None:
                return False
            if after == begin:  # of Azure, litellm lists the newest alone
                raise ModelError(
                    f"the batch with {self._form.metadata}={batch.id} in its metadata may have been created, and "
                    f"litellm lists only the newest of {self._route.provider!r}. If the provider does not have it, "
                    "remove the map with agentkit runs ID --delete, and begin again.",
                    kind="bad_request",
                )

    async def _wait_for(self, batches: Sequence[_Sent]) -> None:
        """Poll batches until they have ended, and answer their requests."""
        left = [*batches]
        seconds = min(1.0, self._poll_seconds)
        while True:
            for batch in [*left]:
                name = batch.facts["batch"]
                state = await self._repeat(partial(self._litellm.retrieve_batch, batch_id=name, **self._how()))
                batch.progress = state
                if state.status in _ENDED:
                    await self._deliver(batch, state)
                    left.remove(batch)
            self._report(self._sum_up(batches))
            if not left:
                return
            await asyncio.sleep(seconds)
            seconds = min(1.5 * seconds, self._poll_seconds)

    def _sum_up(self, batches: Sequence[_Sent]) -> BatchProgress:
        completed = 0
        failed = 0
        for batch in batches:
            counts = as_dict(batch.progress.request_counts or {})
            answered = sum(status == 200 for status in batch.statuses)
            completed += int(counts.get("completed") or answered)
            failed += int(counts.get("failed") or len(batch.statuses) - answered)
        total = sum(len(batch.lines) for batch in batches)
        return BatchProgress(self._number, batches[-1].progress.status, completed, failed, total)

    async def _deliver(self, batch: _Sent, state: Any) -> None:
        """Answer the requests of a batch that has ended."""
        for file in (state.output_file_id, state.error_file_id):
            if not file:
                continue
            content = await self._repeat(partial(self._litellm.file_content, file_id=file, **self._how()))
            for text in content.content.splitlines():
                if not text.strip():
                    continue
                try:
                    name, answer = self._form.read(json.loads(text))
                except (ValueError, TypeError, AttributeError):  # no result; the others are sound
                    continue
                if line := batch.lines.get(name):
                    batch.statuses.append(answer[0])
                    line.resolve(*answer)
        errors = [as_dict(error) for error in as_dict(state.errors or {}).get("data") or ()]
        why = "; ".join(str(error.get("message")) for error in errors[:3]) or f"the batch is {state.status}"
        code = EXPIRED if state.status == "expired" else "batch_failed"
        self._was_stopped |= state.status in _STOPPED
        for line in batch.lines.values():  # those without a result
            line.resolve(*read_error({"code": code, "message": f"no result: {why}"}))

    async def _repeat(self, call: Callable[[], Any]) -> Any:
        """Return what a function of litellm returns; repeat one that failed for the moment.

        It is the blocking one, in a thread: litellm keeps clients and tasks for each event loop, which outlive it.
        """
        return await self._repeat_async(partial(run_in_thread, call))

    async def _repeat_async(self, call: Callable[[], Awaitable[Any]]) -> Any:
        failures = 0
        while True:
            try:
                return await call()
            except Exception as error:
                failure = self._convert(error)
                failures += 1
                if not failure.transient or failures == MAX_FAILURES:
                    raise failure from error
                wait = failure.retry_after or 0.5 * 2**failures
            await asyncio.sleep(min(wait, self._poll_seconds))

    def _how(self) -> dict[str, Any]:
        """Return the arguments of each request about batches: one attempt, in the account of the model."""
        name = f"{self._route.provider}/{_bare_name(self._route)}" if self._form.route else self._route.name
        own = {"custom_llm_provider": self._route.provider, "model": name, "max_retries": 0}
        return {**self._account, **own}

    def _convert(self, error: Exception) -> ModelError:
        if isinstance(error, ModelError):
            return error
        return convert_error(error, model=self.name, begun=False)

    def _price(self, reply: Reply, line: _Line) -> Reply:
        """Return the reply with the cost of a batch, in place of that of a live request."""
        if line.answer is None:
            return reply
        return replace(reply, usage=replace(reply.usage, cost=self._find_cost(line.answer.result()[1], reply.usage)))

    def _find_cost(self, body: bytes, usage: Usage) -> float | None:
        prices = {name: value for name, value in self._model.options.items() if "_cost_per_" in name}
        data = json.loads(body).get("usage") or {}
        if "prompt_tokens" not in data:  # not in the form of OpenAI's chat completions
            data = {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            }
        costs = self._litellm.cost_calculator.batch_cost_calculator(
            usage=self._litellm.Usage(**data),
            model=_bare_name(self._route),
            custom_llm_provider=self._route.provider,
            model_info=prices or None,
        )
        return float(sum(costs)) or usage.cost  # litellm returns 0 for a price that it does not know


def _bare_name(route: Any) -> str:
    """Return the name of the model without the API of Bedrock that its live requests go to."""
    name = str(route.model)
    return name.removeprefix("converse/").removeprefix("invoke/") if route.provider == "bedrock" else name


def _copy_model(model: LiteLLMModel, litellm: Any, route: Any, batches: BatchModel) -> LiteLLMModel:
    """Return the model with a client that sends nothing, and waits as long as a batch takes."""
    httpx = import_module("httpx")

    async def handle(request: Any) -> Any:
        status, body = await batches.take(request.headers[LINE_HEADER], request.url.path, request.content)
        return httpx.Response(status, content=body, headers={"content-type": "application/json"})

    client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    if route.provider == "azure":
        openai = import_module("openai")
        return model.for_client(
            openai.AsyncAzureOpenAI(
                api_key="none", azure_endpoint="https://batch.invalid", api_version="none", http_client=client
            )
        )
    handler = litellm.llms.custom_httpx.http_handler.AsyncHTTPHandler()
    handler.client = client
    form = batch_form(route.provider)
    return model.for_client(handler, f"{route.provider}/{form.route}{_bare_name(route)}" if form.route else "")


def _split_lines(lines: Sequence[_Line], most: int) -> Generator[list[_Line], None, None]:
    """Yield the lines of each batch: those of one endpoint, as many as fit."""
    for endpoint in sorted({line.endpoint for line in lines}):
        some = list[_Line]()
        size = 0
        for line in lines:
            if line.endpoint != endpoint:
                continue
            if some and (len(some) == most or size + len(line.body) > BATCH_BYTES):
                yield some
                some = []
                size = 0
            some.append(line)
            size += len(line.body) + 200
        yield some
