"""Several processes on one journal: each serves every conversation, one at a time, and a late decision is named so."""

import asyncio
import json
import threading

import httpx
import pytest
from refunding import reply

from agentkit import JsonAgent, journal, tool
from agentkit.testing import ScriptedModel, answer, call
from agentkit.web import agui, web_app

paid: list[float] = []


@tool(effect="danger")
def refund(euros: float) -> str:
    """Pay money back."""
    paid.append(euros)
    return f"{euros} paid"


def agent_of(*tools, **settings):
    return JsonAgent(*tools or [refund], model=ScriptedModel(*[reply] * 20), **settings)


def page_of(agent, store):
    return web_app(agent, token="token", hosts=["t"], journal=store)


class Worker:
    """A process that serves an agent, and its client."""

    def __init__(self, door, store, *tools):
        self.app = door(agent_of(*tools), store)
        self.path = "/agui" if door is page_of else "/"

    def open(self):
        headers = {"authorization": "Bearer token"}
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers, timeout=60)

    async def get(self, path):
        async with self.open() as client:
            return (await client.get(path)).json()

    async def post(self, content=None, **more):
        messages = [] if content is None else [{"id": "1", "role": "user", "content": content}]
        async with self.open() as client:
            body = {"threadId": "t", "runId": "r", "messages": messages, **more}
            return await client.post(self.path, json=body)

    async def ask(self, content=None, **more):
        response = await self.post(content, **more)
        assert response.status_code == 200, response.text
        return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]

    async def decide(self, interrupt):
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        return await self.post(resume=resume)


def agui_of(agent, store):
    return agui(agent, journal=store)


@pytest.fixture(params=[agui_of, page_of], ids=["AG-UI", "page"])
def workers(request, tmp_path):
    paid.clear()
    return [Worker(request.param, tmp_path / "runs.db") for _ in range(2)]


def test_two_workers_serve_one_conversation_in_turns(workers):
    async def talk():
        return [(await workers[place % 2].ask(text))[-1].get("result") for place, text in enumerate("ABCDE")]

    assert asyncio.run(talk()) == ["A", "A / B", "A / B / C", "A / B / C / D", "A / B / C / D / E"]


def test_a_thread_that_was_continued_elsewhere_does_not_stick(workers, tmp_path):
    async def talk():
        (interrupt,) = (await workers[0].ask("refund"))[-1]["outcome"]["interrupts"]
        (run,) = journal.runs(tmp_path / "runs.db", unfinished=True)
        other = agent_of(journal=tmp_path / "runs.db")
        resumed = await asyncio.to_thread(other.resume, run.id, approvals={interrupt["toolCallId"]: True})
        late = await workers[0].decide(interrupt)
        return resumed.answer, (await workers[0].ask("tea?"))[-1]["result"], late

    resumed, later, late = asyncio.run(talk())
    assert (resumed, later, paid) == ("done", "refund / tea?", [4])
    assert late.status_code == 409
    assert "the decision comes too late: nothing waits for one under the id 'call_1_1#" in late.json()["error"]


def test_a_decision_that_another_window_made_first_comes_too_late(workers):
    async def talk():
        (interrupt,) = (await workers[0].ask("refund"))[-1]["outcome"]["interrupts"]
        decided = [await worker.decide(interrupt) for worker in (workers[1], workers[0], workers[1])]
        return [response.status_code for response in decided], decided[-1].json()["error"]

    statuses, text = asyncio.run(talk())
    assert (statuses, paid) == ([200, 409, 409], [4])
    assert "refused" not in text


@pytest.mark.parametrize("door", [agui_of, page_of], ids=["AG-UI", "page"])
def test_of_two_workers_at_once_one_runs_and_the_other_is_busy(door, tmp_path):
    began = threading.Event()
    go_on = threading.Event()

    def charge(euros: float) -> str:
        """Charge the card."""
        paid.append(euros)
        began.set()
        go_on.wait(60)
        return "charged"

    def charge_once(request):
        return answer("done") if request.messages[-1]["role"] == "tool" else call("charge", euros=4)

    paid.clear()
    workers = [Worker(door, tmp_path / "runs.db", charge) for _ in range(2)]
    for worker in workers:
        worker.app = door(JsonAgent(charge, model=ScriptedModel(charge_once, charge_once)), tmp_path / "runs.db")

    async def talk():
        first = asyncio.create_task(workers[0].ask("charge"))
        await asyncio.to_thread(began.wait, 60)
        second = await workers[1].post("charge")
        seen = await workers[1].get("/threads/t") if door is page_of else {"isElsewhere": True, "running": ""}
        go_on.set()
        return (await first)[-1]["result"], second, seen, (await workers[1].ask("again"))[-1]["type"]

    result, second, seen, later = asyncio.run(talk())
    assert (result, second.status_code, later) == ("done", 409, "RUN_FINISHED")
    assert "another process" in second.json()["error"]
    assert (seen["isElsewhere"], seen["running"]) == (True, "")
    assert len(paid) == 2, "the busy one charged nothing"


def test_another_window_sees_that_there_is_something_new(tmp_path):
    workers = [Worker(page_of, tmp_path / "runs.db") for _ in range(2)]

    async def talk():
        versions = []

        async def note():
            versions.append([(await worker.get("/threads/t/version"))["version"] for worker in workers])

        await note()
        (interrupt,) = (await workers[0].ask("refund"))[-1]["outcome"]["interrupts"]
        await note()
        await note()
        await workers[1].decide(interrupt)
        await note()
        shown = (await workers[0].get("/threads/t"))["events"]
        return versions, shown

    versions, shown = asyncio.run(talk())
    assert versions[0] == ["", ""], "a conversation without events"
    assert versions[1] == versions[2]
    for before, after in zip(versions[1], versions[3], strict=True):
        assert before != after
    assert shown[-1]["result"] == "done", "the window of the first process shows what was decided in the second"
