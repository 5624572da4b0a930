"""The client: a server whose tools an agent calls, with its resources, which can be read, and its prompts as messages.

One event loop in a daemon thread owns the connections, while a server is open.  A connection must be entered and left
by the same task, and it outlives the loops of the runs that use it.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import mcp_types as types
from mcp import Client

from .. import DefinitionError, JsonTool, Limits, RunContext, ToolError, ToolRegistry
from ..extend import (
    Label,
    Message,
    StoredResult,
    ToolEffect,
    Trust,
    make_event_loop,
    run_coroutine,
    to_portable_name,
    with_label,
)
from .config import ServerAuth, check_settings, derive_server_name, make_endpoint, read_config
from .link import ServerLink, StateRefused, list_all
from .lock import find_locked, lock_path
from .questions import (
    UNCLEAR,
    Ask,
    Sample,
    answer_alone,
    find_ask,
    make_offers,
    make_sample,
    to_chat,
    to_input_responses,
    to_questions,
    was_repeated,
)
from .remote_tools import RemoteTools, close_link, read_contents, read_result, render_blocks

P = TypeVar("P")
T = TypeVar("T")
MAX_ROUNDS = 20
"""Rounds of a call in which the server asks for what no person needs to answer."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that a server lets its clients read.

    Attributes:
        uri: Its address; with `{names}` in it, a template.
        name: What the server calls it.
        description: What it is about.
        mime_type: Its media type.
    """

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str = ""


READ_RESOURCE = "read_resource"
READ_RESOURCE_SCHEMA = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "Without one, the resources are listed."}},
}


class MCPServer:
    """A server of the Model Context Protocol, whose tools an agent calls: `JsonAgent([MCPServer("uvx my-server")])`.

    A run opens the server and closes it; as a context manager, sync or async, it stays open for all runs inside.  Both
    eras of the protocol are spoken, over a program's standard input and output or over streamable HTTP.

    Args:
        command: The command that starts the server, as one text or as a list of words.  The program gets HOME, LOGNAME,
            PATH, SHELL, TERM and USER, and no other variable of this process.
        url: The address of a server that runs already, instead of a command.
        headers: HTTP headers for each request.
        auth: "oauth" for a server that wants a login, which `agentkit mcp login URL` stores; or an `httpx2.Auth`.
        env: Environment variables for the program.
        cwd: The working directory of the program.
        name: Tells its tools from others with equal names; default: from the command or the address.
        prefix: Put before the name of each tool; by default only tools with equal names get one, `name__tool`.
        trust: "trusted": the server's hints decide the effects of its tools, and its results are shown as they are.
            Otherwise its results are data that anyone may have written, and its hints can only make things stricter.
        effects: Effects of tools by patterns of their names, `{"delete_*": "danger"}`; they overrule the hints.
        tools: Patterns of the names of the tools that are offered, `["read_*", "search"]`, or after "!" of those that
            are not, `["*", "!delete_*"]`; default: all.  They decide about `read_resource` too, which reads the
            resources of the server.
        timeout: Seconds until the server must be open.
        roots: Folders that the server should work in, for one that asks.
        sampling: True: the server may ask the run's model, with messages of its own, 20,000 tokens in each call; or
            other `Limits` of a call.
        lock: A file that `agentkit lock --mcp` wrote: tools that are not in it are left out, and changed ones refused.

    Raises:
        DefinitionError: There is no command and no URL, or a value is not valid.
    """

    def __init__(
        self,
        command: str | Sequence[str] | None = None,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        auth: ServerAuth = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        name: str = "",
        prefix: str = "",
        trust: Trust = "untrusted",
        effects: Mapping[str, ToolEffect] | None = None,
        tools: Sequence[str] = ("*",),
        timeout: float = 60.0,
        roots: Sequence[str | os.PathLike[str]] = (),
        sampling: bool | Limits = False,
        lock: str | os.PathLike[str] | None = None,
    ) -> None:
        self.endpoint = make_endpoint(command, url, headers, env, cwd, auth)
        self.name = to_portable_name(name or derive_server_name(self.endpoint))
        check_settings(self.name, trust, effects or {}, tools, timeout)
        locked = None if lock is None else find_locked(lock, name or self.name)
        self._tools = RemoteTools(self._call, prefix, trust, effects or {}, locked, tools)
        self._offers = make_offers(self.name, roots, sampling)
        self._link = ServerLink(self.name, self.endpoint, timeout, self._take_tools, self._offers)
        self.offered: Sequence[types.Tool] = ()
        """What the server listed last, as the SDK's `Tool`."""
        self._listed: list[JsonTool[..., Any]] = []
        self._reader = self._tools.make_own(
            READ_RESOURCE, f"Read a resource of the server {self.name} by its URI.", READ_RESOURCE_SCHEMA, self._read
        )

    @classmethod
    def from_config(
        cls, path: str | os.PathLike[str], *, lock: str | os.PathLike[str] | Literal[False] | None = None
    ) -> "list[MCPServer]":
        """Return the servers of a file in the common form, `{"mcpServers": {"time": {"command": "uvx", ...}}}`.

        `${NAME}` is replaced by an environment variable, `${NAME:-default}` also without one.  A server has `command`,
        `args`, `env`, `envFile`, `cwd`, or `url`, `headers`, `auth`; and of the keywords of `MCPServer` `prefix`,
        `trust`, `effects`, `tools` and `timeout`.  Servers with `"disabled": true` are left out.  Other keys cause a
        warning.

        Args:
            path: The file.
            lock: The lock of all servers; default: `mcp.lock.json` beside `mcp.json`, if it exists; False for no lock.

        Raises:
            DefinitionError: The file cannot be read, or a server in it is not valid.
        """
        if lock is None and (beside := lock_path(path)).exists():
            lock = beside
        servers = []
        for keywords in read_config(path):
            try:
                servers.append(cls(**keywords, lock=lock or None))
            except DefinitionError as error:
                raise DefinitionError(f"{os.fspath(path)}: {keywords['name']!r}: {error}") from error
        return servers

    def __repr__(self) -> str:
        return f"MCPServer({self.name}: {self.endpoint})"

    async def open_tools(self) -> None:
        """Connect, unless the server is open; each call is matched by one of `close_tools`.

        Raises:
            RunError: The server cannot be reached.
        """
        loop = LOOP.acquire()
        opened: list[Any] = []

        async def open_once() -> None:
            await self._open()
            opened.append(True)

        def close_again() -> None:
            if opened:
                opened.append(asyncio.ensure_future(self._close()))  # a task that nothing refers to may be lost

        try:
            await run_on(loop, open_once())
        except asyncio.CancelledError:  # the server may be open before this loop has the news
            loop.call_soon_threadsafe(close_again)
            raise
        finally:
            LOOP.release()

    async def close_tools(self) -> None:
        """Disconnect after the last of the matching calls; a program is ended."""
        loop = LOOP.acquire()
        try:
            await asyncio.shield(run_on(loop, self._close()))
        finally:
            LOOP.release()

    def list_tools(self) -> list[JsonTool[..., Any]]:
        """Return the tools that the server listed last."""
        return self._listed

    @property
    def tools(self) -> ToolRegistry:
        """The tools of the open server, by name."""
        return ToolRegistry(self._listed)

    async def __aenter__(self) -> "MCPServer":
        await self.open_tools()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_tools()

    def __enter__(self) -> "MCPServer":
        run_coroutine(self.open_tools())
        return self

    def __exit__(self, *_: object) -> None:
        run_coroutine(self.close_tools())

    def resources(self) -> list[Resource]:
        """Return the resources of the server, and its templates; the server is opened if it is not."""
        return run_coroutine(self.aresources())

    async def aresources(self) -> list[Resource]:
        """Do `resources` on the running event loop."""
        return await self._ask(list_resources)

    def read(self, uri: str) -> Any:
        """Return the content of a resource as text; images and other data are described by type and size."""
        return run_coroutine(self.aread(uri))

    async def aread(self, uri: str) -> Any:
        """Do `read` on the running event loop."""
        content = await self._read_contents(uri)
        return content.value if isinstance(content, StoredResult) else content

    def prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Return a prompt of the server as messages, for `Session(messages)`; the server is opened if it is not.

        Unless the server is trusted, they are labelled as untrusted.
        """
        return run_coroutine(self.aprompt(name, **arguments))

    async def aprompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Do `prompt` on the running event loop."""
        found = await self._ask(lambda client: client.get_prompt(name, arguments))
        messages = [to_chat(message.role, [message.content]) for message in found.messages]
        if not self._reader.is_untrusted:
            return messages
        return [with_label(message, Label.untrusted(self.name)) for message in messages]

    async def _open(self) -> None:
        LOOP.acquire()
        try:
            await self._link.open()
        except BaseException:
            LOOP.release()
            raise

    async def _close(self) -> None:
        if not self._link.is_open:
            return
        try:
            await self._link.close()
        finally:
            LOOP.release()

    def _take_tools(self, tools: Sequence[types.Tool], has_resources: bool) -> None:
        self.offered = tools
        reads = has_resources and self._tools.offers(READ_RESOURCE)
        self._listed = [*self._tools.make(tools), *([self._reader] if reads else [])]

    async def _call(self, tool: str, arguments: dict[str, Any], run: RunContext[Any] | None) -> Any:
        stops: list[BaseException] = []
        ask = find_ask(self.name, run.call.id if run is not None and run.call is not None else "")
        sample = make_sample(self.name, run, self._offers.sampling)
        try:
            return await self._converse(
                tool,
                arguments,
                run,
                ask and _within_this_call(ask, stops),
                sample and _within_this_call(sample, stops),
            )
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not stops or task is None:
                raise
            task.uncancel()
            raise stops[0] from None

    async def _converse(
        self,
        tool: str,
        arguments: dict[str, Any],
        run: RunContext[Any] | None,
        ask: Ask | None,
        sample: Sample | None,
    ) -> Any:
        """Call a tool of the server, and answer what it asks for until it has a result."""
        answered = run.answered if run is not None else None
        options = to_input_responses(answered)
        is_repeated = False
        for _ in range(MAX_ROUNDS):
            try:
                send = partial(self._link.call, tool, arguments, run, ask, sample, **options)
                result, unanswered = await self._run(send)
            except StateRefused as error:
                if is_repeated or was_repeated(answered):
                    raise ToolError(f"the server {self.name!r} refused its own state of the call, twice") from error
                is_repeated = True
                options = {}
                continue
            if unanswered:
                return self._read_dismissed(result, unanswered)
            if not isinstance(result, types.InputRequiredResult):
                return self._read_result(result)
            given = await answer_alone(result, self._offers, sample)
            if len(given) < len(result.input_requests or {}):
                raise to_questions(self.name, result, given, is_repeated=is_repeated)
            options = {"input_responses": given, "request_state": result.request_state}
        raise ToolError(f"the server {self.name!r} asked {MAX_ROUNDS} times, without a result")

    def _read_dismissed(self, result: types.CallToolResult, reason: str) -> Any:
        """Return the result of a call during which a question was dismissed, if it may have been that of another run.

        Raises:
            ToolError: The question belonged to this call, or the call failed.
        """
        note = f"the server {self.name!r} asked a question in the middle of the call, which was dismissed: {reason}."
        if reason != UNCLEAR or result.is_error:
            raise ToolError(f"{note} The call ended with: {render_blocks(result.content).text}")
        noted = [*result.content, types.TextContent(text=f"[{note}]")]
        return self._read_result(result.model_copy(update={"content": noted}))

    def _read_result(self, result: types.CallToolResult) -> Any:
        if not self._tools.offers(READ_RESOURCE):
            return read_result(result.model_copy(update={"content": [*map(close_link, result.content)]}))
        if self._reader not in self._listed and any(isinstance(block, types.ResourceLink) for block in result.content):
            self._listed = [*self._listed, self._reader]
        return read_result(result)

    async def _read(self, _: str, arguments: dict[str, Any], __: RunContext[Any] | None) -> Any:
        if uri := arguments.get("uri"):
            return await self._read_contents(uri)
        return [f"{entry.uri}: {entry.description or entry.name}" for entry in await self.aresources()]

    async def _read_contents(self, uri: str) -> Any:
        return read_contents((await self._ask(lambda client: client.read_resource(uri))).contents)

    async def _ask(self, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return await self._run(lambda: self._link.ask(request))

    async def _run(self, use: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await what `use` returns, on the background loop; the server is opened for it if it is not open."""

        async def work() -> T:
            if self._link.is_open:
                return await use()
            await self._open()
            try:
                return await use()
            finally:
                await self._close()

        loop = LOOP.acquire()
        try:
            return await run_on(loop, work())
        finally:
            LOOP.release()


async def list_resources(client: Client) -> list[Resource]:
    """Return the resources of a server, then its templates."""
    found = [(entry.uri, entry) for entry in await list_all(client.list_resources, "resources")]
    templates = await list_all(client.list_resource_templates, "resource_templates")
    found += [(entry.uri_template, entry) for entry in templates]
    return [
        Resource(str(uri), each.title or each.name, each.description or "", each.mime_type or "") for uri, each in found
    ]


class BackgroundLoop:
    """An event loop in a daemon thread, which starts with the first user and stops with the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; each call is matched by one of `release`."""
        with self._lock:
            if self._loop is None:
                self._loop = make_event_loop()
                threading.Thread(target=_run, args=(self._loop,), daemon=True, name="agentkit-mcp").start()
            self._users += 1
            return self._loop

    def release(self) -> None:
        """Stop the loop if this was its last user."""
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None:
                return
            loop = self._loop
            self._loop = None
        loop.call_soon_threadsafe(loop.stop)

    def forget(self) -> None:
        """Start anew in a forked process, which has no thread of its parent, but its open servers, which are users."""
        self._lock = threading.Lock()
        self._loop = None


LOOP = BackgroundLoop()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOOP.forget)


def _within_this_call(
    answer: Callable[[P], Coroutine[Any, Any, T]], stops: list[BaseException]
) -> Callable[[P], Coroutine[Any, Any, T]]:
    """Return `answer` to be called on another loop: what it awaits belongs to the loop and the context of this call.

    An exit or an interrupt in it would end both loops.  It is put into `stops`, and this call is cancelled.
    """
    own = asyncio.get_running_loop()
    caller = asyncio.current_task()
    context = copy_context()

    async def answer_unless_stopped(params: P) -> T:
        try:
            return await answer(params)
        except (KeyboardInterrupt, SystemExit) as error:
            stops.append(error)
            if caller is not None:
                caller.cancel()
            raise ToolError("the call was stopped") from error

    async def work(params: P) -> T:
        return await own.create_task(answer_unless_stopped(params), context=context)

    return lambda params: run_on(own, work(params))


async def run_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that runs on another loop; cancelling the caller cancels it there.

    It runs in a copy of the caller's context, so a trace continues in it.
    """
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel what is left on it and close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
