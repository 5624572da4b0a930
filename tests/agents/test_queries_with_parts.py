"""Queries and results with images, documents and audio, through runs, sessions, journals and recordings."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from files import PDF, PNG, WAV, png
from pydantic import BaseModel

from agentkit import Audio, DefinitionError, Document, Image, JsonAgent, RunError, Session
from agentkit.core.errors import ModelError
from agentkit.engine.result import RunStarted
from agentkit.journal import runs
from agentkit.testing import ScriptedModel, answer, call

PICTURE = Image.from_bytes(PNG, name="a.png")
URL = PICTURE.as_part()["image_url"]["url"]
QUERY = ["What is on this?", PICTURE]
CONTENT = [{"type": "text", "text": "What is on this?"}, PICTURE.as_part()]


def look(at: str) -> str:
    """Looks."""
    return f"saw {at}"


def agent_of(*replies, tools=(look,), **settings) -> JsonAgent:
    return JsonAgent([*tools], model=ScriptedModel(*replies), retries=0, **settings)


def test_the_model_gets_the_parts_in_order(world):
    agent = agent_of(call("look", at="it"), answer("a square"), answer("yes"))
    query = ["First", PICTURE, "second", Document.from_bytes(PDF), Audio.from_bytes(WAV)]
    assert world.run(agent, query).answer == "a square"
    sent = agent.model.requests[0].messages[1]
    assert [part["type"] for part in sent["content"]] == ["text", "image_url", "text", "file", "input_audio"]
    world.run(agent, "Sure?")
    assert agent.model.requests[2].messages[1] is sent


def test_events_name_the_parts_and_never_show_their_data(world):
    events = world.stream(agent_of(answer("a square")), QUERY)
    started = next(event for event in events if isinstance(event, RunStarted))
    assert started.query == f"What is on this? [image/png a.png, {len(PNG)} bytes]"
    assert URL not in repr([event for event in events if isinstance(event, RunStarted)])


def test_a_picture_alone_is_a_query(world):
    agent = agent_of(answer("a square"), answer("a square"))
    assert world.run(agent, [PICTURE]).answer == world.run(agent, PICTURE).answer == "a square"
    assert agent.model.requests[0].messages[1]["content"] == [PICTURE.as_part()]


def test_messages_added_meanwhile_precede_the_parts(world):
    agent = agent_of(answer("a square"))
    agent.say("Be brief.")
    world.run(agent, QUERY)
    assert agent.model.requests[0].messages[1]["content"] == [{"type": "text", "text": "Be brief."}, *CONTENT]


def test_many_queries_have_parts():
    agent = agent_of(*[answer("a square")] * 2)
    assert [result.answer for result in agent.map([QUERY, "And?"])] == ["a square"] * 2
    assert [result.answer for result in asyncio.run(agent_of(*[answer("b")] * 2).amap([QUERY, QUERY]))] == ["b"] * 2


@pytest.mark.parametrize("query", [[], ["a", "b"], [b"x", PICTURE], [PICTURE, 3], {"image": PICTURE}])
def test_other_values_are_refused(world, query):
    with pytest.raises((RunError, DefinitionError), match=r"Image|empty"):
        world.run(agent_of(answer("x")), query)


def test_a_query_that_failed_is_taken_back(world):
    agent = agent_of(ModelError("no", kind="bad_request"), answer("b"))
    with pytest.raises(ModelError):
        world.run(agent, QUERY)
    assert len(agent.history) == 1


def test_a_tool_returns_parts(world):
    def draw() -> dict:
        """Draws."""
        return {"name": "x", "picture": PICTURE, "more": [Document.from_bytes(PDF), Audio.from_bytes(WAV)]}

    result = world.run(agent_of(call("draw"), answer("ok"), tools=[draw]), "Draw")
    content = result.messages[3]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "file", "input_audio"]
    assert json.loads(content[0]["text"])["picture"] == f"[image/png a.png, {len(PNG)} bytes]"


class Page(BaseModel):
    name: str
    pages: list[Document]


def test_a_model_with_parts_is_sent_with_them(world):
    def page() -> Page:
        """Returns a page."""
        return Page(name="p", pages=[Document.from_bytes(PDF, name="a.pdf")])

    def draw() -> Image:
        """Draws."""
        return PICTURE

    agent = agent_of(call("page"), call("draw"), answer("ok"), tools=[page, draw])
    label = f"[application/pdf a.pdf, {len(PDF)} bytes]"
    content = world.run(agent, "Draw").messages[3]["content"]
    assert [part["type"] for part in content] == ["text", "file"]
    assert json.loads(content[0]["text"]) == {"name": "p", "pages": [label]}
    assert agent.tools["draw"].output_schema == {"type": "string"}
    assert agent.tools["page"].output_schema["properties"]["pages"]["items"] == {"type": "string"}
    assert Page(name="p", pages=[Document.from_bytes(PDF, name="a.pdf")]).model_dump(mode="json")["pages"] == [label]


def test_a_saved_session_has_each_part_once(world, tmp_path):
    agent = agent_of(*[answer("a")] * 5)
    big = Image.from_bytes(PNG + bytes(300_000))
    world.run(agent, ["What?", big])
    for _ in range(4):
        world.run(agent, "More?")
    agent.session.save(tmp_path / "s.json")
    assert (tmp_path / "s.json").stat().st_size < 450_000
    again = agent_of(answer("b"))
    world.run(again, "And?", session=Session.load(tmp_path / "s.json"))
    assert again.model.requests[0].messages[1]["content"][1] == big.as_part()


def stop_once(stopped: list):
    def stop() -> str:
        """Stops the run the first time."""
        if not stopped:
            stopped.append(1)
            raise KeyboardInterrupt
        return "stopped"

    return stop


def test_a_journal_has_each_part_once_and_a_resumed_run_sends_it(world, tmp_path):
    path = tmp_path / "runs.db"
    big = Image.from_bytes(png(color=(1, 2, 3)) + bytes(300_000))

    def draw() -> Image:
        """Draws."""
        return big

    stop = stop_once([])
    first = agent_of(call("draw"), call("stop"), tools=[draw, stop, look], journal=path)
    with pytest.raises(KeyboardInterrupt):
        world.run(first, ["Like this?", PICTURE])
    run_id = runs(path)[0].id
    looks = [call("look", at=str(place)) for place in range(5)]
    second = agent_of(*looks, answer("ok"), tools=[draw, stop, look], journal=path)
    result = world.run(second, None, session=Session.resumed(run_id, path))
    assert result.messages[1]["content"] == [{"type": "text", "text": "Like this?"}, PICTURE.as_part()]
    assert result.messages[3]["content"][1] == big.as_part()
    data = big.as_part()["image_url"]["url"]
    with closing(sqlite3.connect(path)) as file, file:
        rows = [
            str(row) for table in ("messages", "steps", "runs", "cut") for row in file.execute(f"SELECT * FROM {table}")
        ]
    assert sum(row.count(data) for row in rows) == 1
    assert sum(row.count(URL) for row in rows) == 1


def test_a_recorded_run_is_replayed_with_its_parts(world, tmp_path):
    path = tmp_path / "run.jsonl"
    world.run(agent_of(call("look", at="it"), answer("a square")), QUERY, record=path)
    agent = agent_of()
    result = agent.replay(path) if world.name == "sync" else asyncio.run(agent.areplay(path))
    assert result.answer == "a square"
    assert result.messages[1]["content"] == CONTENT
    assert path.read_text().count(URL.partition(",")[2]) <= 2  # of the query, and of its first request


def test_an_agent_that_takes_over_gets_the_parts(world):
    other = agent_of(answer("a square"), description="Sees.")
    agent = agent_of(call("transfer_to_other", reason="see"), handoffs={"other": other}, description="Talks.")
    assert world.run(agent, QUERY).answer == "a square"
    assert other.model.requests[0].messages[1]["content"] == CONTENT


def test_the_embedded_model_names_what_it_cannot_read(world):
    with pytest.raises(ModelError, match=r"offline: the embedded model reads text only.*image/png.*model="):
        world.run(JsonAgent(look, model="offline"), QUERY)
