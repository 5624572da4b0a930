"""What all tests share: both worlds from one test, and no way out to the network."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator

import pytest
from postgres_server import PostgresServer, running_server, why_not
from waiting import TimeLimit

from agentkit import JsonAgent, ToolRegistry
from agentkit.core.flow import Done, Event, Policy, adrive, apply_policies, drive
from agentkit.core.messages import Message
from agentkit.engine.loop import agent_loop
from agentkit.engine.model import Model
from agentkit.engine.result import Result

LOOPBACK = {"127.0.0.1", "::1", "localhost"}

# A shell's background and some CI runners start a program with SIGINT and SIGQUIT ignored, and each program below it
# inherits that. A handler is not inherited: a program that a test starts has the default again, as in the foreground.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_xdist_auto_num_workers() -> int:
    """More processes than processors: a part of the tests waits."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


def pytest_configure(config: pytest.Config) -> None:
    """Set no deadline for an example of hypothesis: a machine may be slow, and `takes_at_most` compares with a control."""
    if config.pluginmanager.has_plugin("hypothesispytest"):
        from hypothesis import settings

        settings.register_profile("suite", deadline=None)
        settings.load_profile("suite")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let pytest-rerunfailures send at once: it sends two short texts for each test, and waits 40 ms for the first one."""
    database = getattr(session.config, "failures_db", None)
    if isinstance(connection := getattr(database, "sock", None), socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Look for no garbage among thousands of cases, which all stay: it takes half of the time of their collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Collect no garbage while pytest formats a failure, so that `ast.parse` cannot be entered twice.

    Before 3.11.8 and 3.12.2, Python counts the recursion of `ast.parse` in one place for all calls
    (https://github.com/python/cpython/issues/106905). A collection in its middle runs finalizers, and these can
    parse, or let another thread parse. The count is then wrong, and a SystemError ends the whole run of pytest.
    """
    if call.excinfo is None or not gc.isenabled():
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session")
def _session_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="session", autouse=True)
def _no_network(_session_patch: pytest.MonkeyPatch) -> None:
    """Fail a test in which something leaves the loopback interface, although a library catches each `Exception`."""
    connect = socket.socket.connect
    look_up = socket.getaddrinfo

    def guarded_connect(self, address, *args):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOOPBACK | {""}:
            pytest.fail(f"network access in a test: {address!r}")
        return connect(self, address, *args)

    def guarded_look_up(host, *args, **kwargs):
        if host and host not in LOOPBACK:
            pytest.fail(f"name lookup in a test: {host!r}")
        return look_up(host, *args, **kwargs)

    _session_patch.setattr(socket.socket, "connect", guarded_connect)
    _session_patch.setattr(socket, "getaddrinfo", guarded_look_up)


@pytest.fixture(scope="session", autouse=True)
def _no_model_from_outside(_session_patch: pytest.MonkeyPatch) -> None:
    _session_patch.delenv("AGENTKIT_MODEL", raising=False)


class World:
    """One of the two worlds: blocking or on an event loop."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, agent: JsonAgent, query: str, **settings) -> Result:
        if self.name == "sync":
            return agent.run(query, **settings)
        return asyncio.run(agent.arun(query, **settings))

    def stream(self, agent: JsonAgent, query: str, **settings) -> list[Event]:
        if self.name == "sync":
            return list(agent.stream(query, **settings))

        async def collect() -> list[Event]:
            return [event async for event in agent.astream(query, **settings)]

        return asyncio.run(collect())

    def loop(self, model: Model, tools: ToolRegistry, history: list[Message], *policies: Policy, **settings):
        """Drive the agent loop alone under policies, without an agent; return its end and its events."""
        return self.drive(apply_policies(agent_loop(model, tools, history, **settings), policies))

    def drive(self, flow, events: list[Event] | None = None) -> tuple[object, list[Event]]:
        """The flow's value and its events, which are put into `events` as they come."""
        events = [] if events is None else events
        if self.name == "sync":
            driver = drive(flow)
            while True:
                try:
                    events.append(next(driver))
                except StopIteration as stop:
                    return stop.value, events

        async def collect() -> object:
            value = None
            async for event in adrive(flow):
                if isinstance(event, Done):
                    value = event.value
                else:
                    events.append(event)
            return value

        return asyncio.run(collect()), events


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


@pytest.fixture
def alarm() -> Iterator[Callable[[], None]]:
    """A function that raises the signal of a time limit, whose handler raises `TimeLimit`."""

    def end_job(*_: object) -> None:
        raise TimeLimit("the time of the job is over")

    before = signal.signal(signal.SIGUSR1, end_job)
    yield lambda: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server, started when the first test needs it."""
    if reason := why_not():
        pytest.skip(reason)
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new database."""
    with postgres_server.database() as url:
        yield url
