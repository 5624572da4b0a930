"""The key of a model, and the secrets of tools, are in no log, no error, no event and no file."""

import asyncio
import io
import logging
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger
from unknown_secrets import secrets_unknown
from wire_providers import Play, Provider

import agentkit
from agentkit import JsonAgent, ModelError, Session
from agentkit.core.masking import iterate_causes
from agentkit.core.messages import user
from agentkit.testing.server import ModelServer

KEY = "k3y-that-n0body-may-read"
OTHER = "t0ken-0f-a-tool/+x"
HI = [user("hi")]


@pytest.fixture(autouse=True)
def _nothing_hidden_before() -> Iterator[None]:
    with secrets_unknown():
        yield


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, as loudly as it can be, and all that is shown."""
    written = io.StringIO()
    sink = logger.add(written, level=0, diagnose=True, backtrace=True, format="{message} {extra} {exception}")
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    logger.enable("agentkit")
    agentkit.log.show(written, colour=False)
    yield written
    agentkit.log.hide()
    logger.disable("agentkit")
    logging.getLogger().removeHandler(handler)
    logger.remove(sink)


def told(error: BaseException) -> str:
    """All that an error and its causes can be made to say."""
    pieces = ["".join(traceback.format_exception(error))]
    for link in iterate_causes(error):
        pieces += [str(link), repr(link), repr(vars(link)), repr(getattr(link, "__notes__", ""))]
        for value in vars(link).values():
            request = getattr(value, "request", None)
            pieces += [repr(dict(getattr(held, "headers", None) or {})) for held in (value, request)]
            pieces.append(str(getattr(request, "url", "")))
    return "\n".join(pieces)


@pytest.mark.parametrize("where", ["option", "environment"])
def test_no_error_shows_the_key(
    where: str, provider: Provider, play: Play, stream: bool, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    if provider.name == "ollama" and where == "environment":
        pytest.skip("takes no key")
    monkeypatch.setenv(f"{provider.name.upper()}_API_KEY", KEY if where == "environment" else "")
    for status in (401, 500):
        echo = "x" * 490 + KEY  # so that truncation would leave a part of the key
        with ModelServer({"status": status, "message": f"Incorrect API key provided: {KEY} {echo}"}) as server:
            model = provider.at(server, api_key=KEY if where == "option" else None)
            with pytest.raises(ModelError) as caught:
                play(model, HI, stream=stream)
        assert KEY[:8] not in told(caught.value)
        logger.opt(exception=caught.value).error("it failed")
        assert "it failed" in log.getvalue()
        text = log.getvalue()
        assert KEY not in text
        assert KEY not in repr(model)
        assert KEY not in repr(vars(model))


def test_no_backend_s_own_error_shows_a_key(play: Play) -> None:
    class Model:
        name = "own"

        def ask(self, request: Any) -> Any:
            error = RuntimeError(f"Bearer {KEY}{KEY} was refused")
            error.add_note("sk-" + KEY)
            raise error
            yield

        async def aask(self, request: Any) -> Any:
            for piece in self.ask(request):
                yield piece

    agent = JsonAgent([agentkit.tool(lambda: 1, name="one", description="One.")], model=Model(), retries=0)
    with pytest.raises(ModelError) as caught:
        agent.run("?")
    assert KEY not in told(caught.value)
    assert "RuntimeError: Bearer *** was refused" in str(caught.value)


def fetch(page: str) -> str:
    """Fetches a page."""
    token = OTHER
    if page == "fail":
        raise ValueError(f"403 for https://x.example/{page}?token={token}", token)
    return "fine"


def repeat() -> str:
    """Says what it knows."""
    return f"the token is {OTHER} and so on" + "x" * 950 + OTHER


REPLIES: list[Any] = [
    {"tool_calls": [{"name": "fetch", "arguments": {"page": "fail"}}, {"name": "fetch", "arguments": {"page": OTHER}}]},
    {"tool_calls": [{"name": "repeat", "arguments": {}}]},
    {"content": f"I know {OTHER}", "tool_calls": [{"name": "final_answer", "arguments": {"text": f"It is {OTHER}"}}]},
]


def asked(world: str, agent: JsonAgent[str], query: str, session: Session) -> tuple[Any, list[Any]]:
    """The result of a run, and its events if it is streamed."""

    async def streamed() -> list[Any]:
        return [event async for event in agent.astream(query, session=session)]

    if not world.endswith("stream"):
        run = agent.run(query, session=session) if world == "run" else asyncio.run(agent.arun(query, session=session))
        return run, []
    events = list(agent.stream(query, session=session)) if world == "stream" else asyncio.run(streamed())
    return events[-1].result, events


@pytest.mark.parametrize("world", ["run", "stream", "arun", "astream"])
def test_no_log_and_no_file_of_a_run_shows_a_secret(
    world: str, monkeypatch: pytest.MonkeyPatch, log: io.StringIO, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_TOKEN", OTHER)
    session = Session()
    with ModelServer({"status": 500, "message": f"busy {KEY}"}, *REPLIES) as server:
        options = {"api_base": server.api_base("openai"), "api_key": KEY}
        agent = JsonAgent(fetch, repeat, model="openai/gpt-4o-mini", **options)
        result, events = asked(world, agent, f"What is {OTHER}?", session)
        sent = server.requests
    assert result.answer == f"It is {OTHER}", "an answer is data"
    assert OTHER in str(sent[-1].body), "what a model reads is data"
    assert "ValueError" in str(sent[2].body)
    assert OTHER not in str(sent[2].body["messages"][3]), "an error is told without it"
    session.save(tmp_path / "session.json")
    saved = (tmp_path / "session.json").read_text()
    out = capfd.readouterr()
    for text in (log.getvalue(), saved, out.out, out.err, repr(agent)):
        assert OTHER not in text
        assert OTHER[:8] not in text
        assert KEY not in text
    assert KEY not in "".join(map(repr, events))
    assert "ValueError: ('403" in log.getvalue()
    assert "in fetch" in log.getvalue(), "the traceback is there"
    assert Session.load(tmp_path / "session.json").messages[1]["content"] == "What is ***?"
