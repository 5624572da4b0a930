"""The server of the page: what it refuses, what it returns, and how a conversation comes back from the journal."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.testclient import TestClient

import agentkit.web
from agentkit import JsonAgent, ModelError, Question, RunError, Session, journal, tool
from agentkit.evals import evaluate
from agentkit.extend import LiveRespondent, MessageWritten, enclosing, opened_store
from agentkit.secrets import hide
from agentkit.testing import ScriptedModel, answer, call
from agentkit.views.markdown import parse_markdown
from agentkit.web import agui, web_app
from agentkit.web.app import under_prefix

TOKEN = "a-token"
HOST = "127.0.0.1:8080"
HEADERS = {"authorization": f"Bearer {TOKEN}", "host": HOST}


def price_of(item: str) -> float:
    """Look up a price."""
    return {"tea": 3.5}[item]


@tool(effect="danger")
def refund(euros: float) -> str:
    """Pay money back."""
    return f"{euros} paid"


def page_of(*tools, replies=(), store=None, **settings):
    agent = JsonAgent(*tools or [price_of], model=ScriptedModel(*replies), description="A shop.", **settings)
    return TestClient(web_app(agent, token=TOKEN, hosts=[HOST], journal=store), headers=HEADERS)


def post_query(client, content="?", thread="t", **more):
    messages = [] if content is None else [{"id": "1", "role": "user", "content": content}]
    response = client.post(
        "/agui", json={"threadId": thread, "runId": "r1", "protocolVersion": "1.0", "messages": messages, **more}
    )
    assert response.status_code == 200, response.text
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


def kinds(events):
    """The types of events, with the pieces of one text as one."""
    found = [event["type"] for event in events]
    return [kind for place, kind in enumerate(found) if kind != "TEXT_MESSAGE_CONTENT" or found[place - 1] != kind]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "127.0.0.1:9"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://{HOST}"}, 200),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer other"}, 401),
        ({"authorization": "Bearer ünïcode".encode("latin-1")}, 401),
    ],
    ids=["own", "foreign host", "other port", "foreign origin", "null origin", "own origin", "no token", "other token", "odd token"],
)  # fmt: skip
def test_a_request_that_the_page_would_not_send_is_refused(headers, status):
    assert page_of().get("/threads", headers=headers).status_code == status


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_of_another_page_cannot_post(kind):
    assert page_of().post("/agui", content="{}", headers={"content-type": kind}).status_code == 415


def test_a_request_that_is_too_large_is_refused():
    client = page_of()
    assert (
        client.post("/agui", content=b"x" * 25_000_001, headers={"content-type": "application/json"}).status_code == 413
    )


def test_the_page_needs_the_token_in_its_address_and_loads_its_own_files_only():
    client = page_of()
    assert client.get("/", headers={"authorization": ""}).status_code == 401
    page = client.get(f"/?token={TOKEN}", headers={"authorization": ""})
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (page.headers["referrer-policy"], page.headers["x-content-type-options"]) == ("no-referrer", "nosniff")
    folder = Path(agentkit.web.__file__).parent / "page"
    for path in folder.iterdir():
        if path.name != "index.html":
            assert client.get(f"/assets/{path.name}", headers={"authorization": ""}).text == path.read_text()
        text = path.read_text()
        assert "innerHTML" not in text
        assert "outerHTML" not in text
        assert "eval(" not in text
    assert client.get("/assets/..%2Fapp.py").status_code == 404
    assert client.get("/assets/app.py").status_code == 404


def test_the_page_describes_the_agent():
    found = page_of().get("/info").json()
    assert (found["description"], found["model"], found["isStored"]) == ("A shop.", "scripted", False)
    assert [one["name"] for one in found["tools"]] == ["price_of"]


def test_a_conversation_and_its_raw_requests():
    with page_of(replies=[call("price_of", item="tea"), answer("3.5")]) as client:
        events = post_query(client, "tea?")
        found = client.get("/threads/t").json()
        assert (found["events"], found["running"], found["interrupted"]) == (events, "", "")
        assert [thread["title"] for thread in client.get("/threads").json()] == ["tea?"]
        first, second = (client.get(f"/threads/t/requests/r1/{number}").json() for number in (1, 2))
        assert [message["role"] for message in first["messages"]] == ["system", "user"]
        assert [message["role"] for message in second["messages"]][-2:] == ["assistant", "tool"]
        assert client.get("/threads/t/requests/r1/3").status_code == 404
        assert client.get("/runs").json() == []
        assert client.get("/runs/x").status_code == 404


def test_a_conversation_comes_back_from_the_journal(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(replies=[call("price_of", item="tea"), answer("3.5"), answer("bye")], store=store) as client:
        live = post_query(client, "tea?") + post_query(client, "thanks")
    with page_of(store=store) as client:
        stored = client.get("/threads/t").json()
        assert (stored["running"], stored["interrupted"]) == ("", "")
        (thread,) = client.get("/threads").json()
        assert (thread["id"], thread["title"], thread["running"]) == ("t", "tea?", False)
        assert sorted(kinds(stored["events"])) == sorted(kinds(live))
        ends = [event for event in stored["events"] if event["type"] == "RUN_FINISHED"]
        assert [end["result"] for end in ends] == ["3.5", "bye"]
        listed = client.get("/runs").json()
        assert [one["query"] for one in listed] == ["thanks", "tea?"]
        replay = client.get(f"/runs/{listed[1]['id']}").json()
        assert kinds(replay["events"]) == kinds(stored["events"])[: len(kinds(replay["events"]))]
        times = [event["timestamp"] for event in replay["events"]]
        assert times == sorted(times)
        request = client.get(f"/runs/{listed[0]['id']}/requests/1").json()
        assert request["messages"][-1]["content"] == "thanks"
        assert client.get(f"/runs/{listed[0]['id']}/requests/2").status_code == 404


MARKDOWN = "# Prices\n\n- **tea** 3.5\n- coffee 4.25 \U0001f600\n\n<b>Both</b> are [here](https://example.org) or [there](javascript:x)."


@pytest.mark.parametrize("name", ["team/ada", "/ada", "team//ada", "100 % Größe?", "a\\b", ".", "..", "../", ".//"])
def test_a_conversation_with_any_name_is_read_continued_renamed_and_deleted(tmp_path, name):
    store = tmp_path / "runs.db"
    JsonAgent(price_of, model=ScriptedModel(answer("one"))).run("first", session=Session.open(name, store))
    with page_of(replies=[answer("two")], store=store) as client:
        path = f"/threads/{quote(name if name.strip('./') else name + '/', safe='')}"  # as the page writes it
        assert client.get("/threads").json()[0]["id"] == name
        assert len(client.get(path).json()["events"]) == client.get(f"{path}/version").json()["count"] > 0
        assert post_query(client, "second", thread=name)[-1]["result"] == "two"
        assert client.get(f"{path}/requests/r1/1").json()["messages"]
        assert client.put(f"{path}/title", json={"title": "Ada"}).status_code == 204
        assert client.get("/threads").json()[0]["title"] == "Ada"
        assert client.delete(path).status_code == 204
        assert client.get("/threads").json() == []


def read_drawn(events):
    """Return the nodes of the events of a text, and what was not drawn yet when the last piece had come."""
    nodes = []
    rest = ""
    for event in events:
        drawn = event.get("metadata", {}).get("agentkit", {})
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            nodes += drawn.get("nodes", [])
            rest = (rest + event["delta"])[drawn.get("chars", 0) :]
        elif event["type"] == "TEXT_MESSAGE_END":
            nodes += drawn["nodes"]
    return nodes, rest


def test_the_page_gets_each_text_as_a_tree_and_other_clients_do_not(tmp_path):
    store = tmp_path / "runs.db"
    tree = json.loads(json.dumps(parse_markdown(MARKDOWN)))
    with page_of(store=store, replies=[answer(MARKDOWN)]) as client:
        live = post_query(client)
    with page_of(store=store) as client:
        conversation = client.get("/threads/t").json()["events"]
        stored = client.get(f"/runs/{journal.runs(store)[0].id}").json()["events"]
    for events in (live, conversation, stored):
        nodes, rest = read_drawn(events)
        assert nodes == tree
        assert rest in MARKDOWN[1:], "the first block is drawn before the text ends"
        assert MARKDOWN.endswith(rest)
    with TestClient(agui(JsonAgent(price_of, model=ScriptedModel(answer(MARKDOWN))))) as client:
        body = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "?"}]}
        assert '"nodes"' not in client.post("/", json=body).text


def test_each_text_of_a_run_is_a_tree_of_its_own():
    replies = [{"content": "# One\n\nfirst", **call("price_of", item="tea")}, answer("second\n\nlast")]
    with page_of(replies=replies) as client:
        events = post_query(client)
    texts = [event for event in events if event["type"].startswith("TEXT_MESSAGE")]
    found = [
        read_drawn([event for event in texts if event["messageId"] == name])[0] for name in ("r1-text-1", "r1-text-2")
    ]
    assert [[node[0] for node in nodes] for nodes in found] == [["h1", "p"], ["p", "p"]]


def test_looking_at_the_page_leaves_no_conversation_in_the_journal(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(store=store, replies=[answer("x")]) as client:
        assert client.get("/runs").json() == client.get("/threads").json() == []
        assert client.get("/threads/new").json()["events"] == []
        assert client.get("/threads").json() == []
        post_query(client, thread="new")
        assert [thread["id"] for thread in client.get("/threads").json()] == ["new"]


def test_a_stored_run_has_the_calls_of_the_agents_inside_it(tmp_path):
    store = tmp_path / "runs.db"
    clerk = JsonAgent(price_of, model=ScriptedModel(call("price_of", item="tea"), answer("3.5")), description="Knows.")
    with page_of(clerk.as_tool("clerk"), replies=[call("clerk", query="tea?"), answer("3.5")], store=store) as client:
        live = post_query(client)
        stored = client.get(f"/runs/{journal.runs(store)[0].id}").json()["events"]
    shown = [
        [
            (event["type"], event["toolCallId"])
            for event in events
            if event["type"] in ("TOOL_CALL_START", "TOOL_CALL_RESULT")
        ]
        for events in (live, stored)
    ]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 4
    assert sorted(kinds(live)) == sorted(kinds(stored))


def test_a_paused_run_is_answered_after_a_restart(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(refund, replies=[call("refund", euros=4)], store=store) as client:
        post_query(client, "pay")
    with page_of(refund, replies=[answer("done")], store=store) as client:
        (interrupt,) = client.get("/threads/t").json()["events"][-1]["outcome"]["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        events = post_query(client, None, resume=resume)
    assert [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == ["4.0 paid"]
    assert events[-1]["outcome"] == {"type": "success"}


def test_a_run_whose_process_died_continues_from_the_journal(tmp_path):
    store = tmp_path / "runs.db"
    calls = tmp_path / "calls.txt"
    code = (
        "import asyncio, os, sys\nfrom agentkit import JsonAgent, Session\nfrom agentkit.testing import ScriptedModel, call\n"
        "def note() -> str:\n    'Notes.'\n    open(sys.argv[2], 'a').write('x')\n    return 'noted'\n"
        "def die(request):\n    os._exit(9)\n"
        "agent = JsonAgent(note, model=ScriptedModel(call('note'), die))\n"
        "agent('go', session=Session.open('t', sys.argv[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code, store, calls], check=False).returncode == 9

    def note() -> str:
        """Notes."""
        calls.write_text("again")
        return "noted"

    app = web_app(JsonAgent(note, model=ScriptedModel(answer("done"))), token=TOKEN, hosts=[HOST], journal=store)
    with TestClient(app, headers=HEADERS) as client:
        found = client.get("/threads/t").json()
        assert found["interrupted"]
        assert kinds(found["events"])[-1] == "TOOL_CALL_RESULT"
        events = post_query(client, None, forwardedProps={"continue": True})
        assert events[-1]["result"] == "done"
        assert client.get("/threads/t").json()["interrupted"] == ""
    assert calls.read_text() == "x"


def test_a_damaged_journal_is_an_error_that_names_it(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(replies=[answer("x")], store=store) as client:
        post_query(client)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE messages SET body = '{' WHERE place = 1")
    with page_of(store=store) as client:
        (run,) = client.get("/runs").json()
        assert f"{os.fspath(store)!r} is damaged" in client.get(f"/runs/{run['id']}").text
        assert client.get("/threads/t").status_code == 404


def test_a_conversation_gets_a_title_of_its_user(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(price_of, replies=[answer("3.5"), answer("4")], store=store) as client:

        def rename(title, thread="t"):
            return client.put(f"/threads/{thread}/title", json={"title": title})

        def titles():
            return [thread["title"] for thread in client.get("/threads").json()]

        assert rename("too early").status_code == 422
        post_query(client, "What does tea cost?")
        assert (rename("Prices").status_code, titles()) == (204, ["Prices"])
        post_query(client, "And milk?")
        assert titles() == ["Prices"]
        for wrong in (None, 3, "a\nb", "x" * 201):
            assert "title: expected a printable text" in rename(wrong).json()["error"]
        assert client.put("/threads/t/title", json=["Prices"]).status_code == 422
        assert (rename("").status_code, titles()) == (204, ["What does tea cost?"])
    with page_of(price_of, replies=[answer("3.5")]) as client:
        post_query(client, "?")
        assert "without a journal" in client.put("/threads/t/title", json={"title": "x"}).json()["error"]


def test_what_is_listed_is_masked(tmp_path):
    hide("correct-horse-battery")
    store = tmp_path / "runs.db"
    with page_of(replies=[answer("It is correct-horse-battery.")], store=store) as client:
        post_query(client, "Is it correct-horse-battery?")
        run_id = journal.runs(store)[0].id
        for path in ("/runs", "/threads", f"/runs/{run_id}", f"/runs/{run_id}/requests/1", "/threads/t/requests/r1/1"):
            assert "correct-horse" not in client.get(path).text


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_decision_does_not_hold_for_a_call_with_the_same_id_in_a_conversation_that_begins_anew(is_restarted):
    paid = []

    @tool(effect="danger")
    def pay(euros: float) -> str:
        """Pay."""
        paid.append(euros)
        return "paid"

    first, second = (
        {"tool_calls": [{"id": "", "name": "pay", "arguments": {"euros": euros}}]} for euros in (5, 1000)
    )  # as a model without ids writes them
    with page_of(pay, replies=[first, second, answer("ok")]) as client:
        (seen,) = post_query(client)[-1]["outcome"]["interrupts"]
        client.delete("/threads/t")
        if is_restarted:
            client = page_of(pay, replies=[second, answer("ok")])
        (waiting,) = post_query(client)[-1]["outcome"]["interrupts"]
        assert seen["toolCallId"] == waiting["toolCallId"] == "call_1"
        replies = []
        for interrupt in (seen, waiting):
            resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
            replies.append(client.post("/agui", json={"threadId": "t", "runId": "r2", "resume": resume}).status_code)
            assert paid == [1000] * (interrupt is waiting)
    assert replies == [409, 200]


def test_older_runs_and_conversations_are_listed_when_the_page_asks_for_more(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(replies=[answer("ok")] * 5, store=store) as client:
        for number in range(5):
            post_query(client, f"q{number}", thread=f"t{number}")
    with page_of(store=store) as client:
        for path, name in (("/threads", "title"), ("/runs", "query")):
            listed = [[entry[name] for entry in client.get(f"{path}?limit={most}").json()] for most in (2, 4)]
            assert listed == [["q4", "q3"], ["q4", "q3", "q2", "q1"]]
            for odd in ("0", "-1", "x", "9" * 5_000, "1_0", ""):
                assert len(client.get(f"{path}?limit={odd}").json()) == 5


@pytest.mark.parametrize("framework", [Starlette, FastAPI])
@pytest.mark.parametrize("how", [{"token": TOKEN}, {"user": lambda request: request.headers.get("x-user")}])
def test_the_page_and_ag_ui_are_mounted_in_another_app(framework, how):
    outer = framework()
    outer.mount("/shop/page", web_app(JsonAgent(price_of, model=ScriptedModel(answer("hi"))), **how))
    outer.mount("/shop/agent", agui(JsonAgent(price_of, model=ScriptedModel(answer("hi")))))
    client = TestClient(outer, headers={"authorization": f"Bearer {TOKEN}", "x-user": "ada"})
    page = client.get("/shop/page/").text
    addresses = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert addresses
    for address in addresses:
        if not address.startswith("data:"):
            assert client.get(f"/shop/page/{address}").status_code == 200
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "?"}]}
    for path in ("/shop/page/agui", "/shop/agent/"):
        assert '"result": "hi"' in client.post(path, json=body).text
    assert TestClient(outer).get("/shop/page/info").status_code == 401
    assert TestClient(outer).get("/shop/page/assets/app.js").status_code == 200


@pytest.mark.parametrize("path", ["/shop/info", "/info"], ids=["the proxy keeps the prefix", "the proxy removes it"])
def test_the_page_behind_a_prefix(path):
    page = web_app(JsonAgent(price_of, model=ScriptedModel()), token=TOKEN)
    assert TestClient(under_prefix(page, "/shop"), headers=HEADERS).get(path).status_code == 200


def leave(store, *replies, session=None, tools=(refund,), **settings):
    """Leave a run in a journal, as another process does, in a conversation without a name."""
    agent = JsonAgent(*tools, model=ScriptedModel(*replies), description="A shop.", retries=0)
    try:
        agent.run("pay", session=session or Session(), journal=store, **settings)
    except RunError as error:
        return error
    raise AssertionError("the run has an answer")


def test_a_paused_run_of_a_journal_waits_on_the_page_and_is_continued_there(tmp_path):
    store = tmp_path / "runs.db"
    leave(store, call("refund", euros=4))
    with page_of(refund, replies=[answer("done"), answer("bye")], store=store) as client:
        (listed,) = client.get("/runs").json()
        shown = client.get(f"/runs/{listed['id']}").json()
        (interrupt,) = shown["events"][-1]["outcome"]["interrupts"]
        assert (shown["state"], shown["thread"]) == ("paused", f"run:{listed['id']}")
        assert interrupt["metadata"]["agentkit"]["tool"] == "refund"
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        events = post_query(client, None, thread=shown["thread"], resume=resume)
        assert events[-1]["result"] == "done"
        assert post_query(client, "thanks", thread=shown["thread"])[-1]["result"] == "bye", "the conversation continues"
        again = client.get(f"/runs/{listed['id']}").json()
        assert (again["state"], again["thread"], again["events"][-1]["result"]) == ("finished", "", "done")
    assert [(run.state, run.query) for run in journal.runs(store)] == [("finished", "thanks"), ("finished", "pay")]


@pytest.mark.parametrize("how", ["failed", "stopped"])
def test_a_run_that_failed_or_was_stopped_is_continued_on_the_page(tmp_path, how):
    store = tmp_path / "runs.db"
    session = Session()

    def look() -> str:
        """Looks."""
        if how == "stopped":
            session.stop("enough")
        return "seen"

    leave(store, call("look"), ModelError("no key"), session=session, tools=[look])
    with page_of(look, replies=[answer("done")], store=store) as client:
        (listed,) = client.get("/runs").json()
        assert (listed["state"], listed["stopped"]) == ("failed", "stopped" if how == "stopped" else "")
        shown = client.get(f"/runs/{listed['id']}").json()
        end = shown["events"][-1]
        assert end["type"] == ("RUN_FINISHED" if how == "stopped" else "RUN_ERROR")
        found = client.get(f"/threads/{shown['thread']}").json()
        assert (found["interrupted"], found["state"]) == (listed["id"], how)
        events = post_query(client, None, thread=shown["thread"], forwardedProps={"continue": True})
        assert events[-1]["result"] == "done"
        assert client.get(f"/threads/{shown['thread']}").json()["interrupted"] == ""


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a journal"])
def test_a_failed_run_of_a_conversation_is_tried_again(tmp_path, is_stored):
    replies = [call("price_of", item="tea"), ModelError("no key"), answer("3.5")]
    with page_of(replies=replies, store=tmp_path / "runs.db" if is_stored else None, retries=0) as client:
        assert post_query(client)[-1]["type"] == "RUN_ERROR"
        found = client.get("/threads/t/version").json()
        assert found["state"] == "failed"
        events = post_query(client, None, forwardedProps={"continue": True})
        assert events[-1]["result"] == "3.5"
        assert "TOOL_CALL_START" not in kinds(events), "the finished call is not repeated"
        assert client.get("/threads/t/version").json()["interrupted"] == ""
        body = {"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"continue": True}}
        assert client.post("/agui", json=body).status_code == 422, "there is nothing to continue"


def test_a_run_without_a_journal_is_stopped_and_continued():
    stops = []

    def look() -> str:
        """Looks."""
        if not stops:
            stops.append(client.post("/threads/t/stop", json={}).json())
        return "seen"

    with page_of(look, replies=[call("look"), answer("done")]) as client:
        assert post_query(client)[-1]["outcome"] == {"type": "cancelled"}
        assert client.get("/threads/t").json()["state"] == "stopped"
        assert post_query(client, None, forwardedProps={"continue": True})[-1]["result"] == "done"


def test_what_waits_is_listed_however_many_runs_began_later(tmp_path):
    store = tmp_path / "runs.db"
    leave(store, call("refund", euros=4))
    agent = JsonAgent(price_of, model=ScriptedModel(*[answer("yes")] * 201), memory=False, journal=store)
    for number in range(201):
        agent(f"query {number}")
    with page_of(refund, replies=[answer("done")], store=store) as client:
        listed = client.get("/runs").json()
        assert len(listed) == 201
        assert [run["query"] for run in listed if run["state"] == "paused"] == ["pay"]
        shown = client.get(f"/runs/{listed[-1]['id']}").json()
        (interrupt,) = shown["events"][-1]["outcome"]["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        assert post_query(client, None, thread=shown["thread"], resume=resume)[-1]["result"] == "done"
        assert len(client.get("/runs").json()) == 200


def test_what_waits_without_a_journal_is_listed_too():
    with page_of(refund, replies=[call("refund", euros=4), answer("done")]) as client:
        (interrupt,) = post_query(client, "pay")[-1]["outcome"]["interrupts"]
        assert [(one["title"], one["isAsking"]) for one in client.get("/threads").json()] == [("pay", True)]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        post_query(client, None, resume=resume)
        assert [one["isAsking"] for one in client.get("/threads").json()] == [False]


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a journal"])
def test_a_question_in_the_middle_of_a_call_is_listed_as_waiting(tmp_path, is_stored):
    async def measure() -> str:
        """Measure, which cannot wait for an answer."""
        live = enclosing(LiveRespondent)
        return f"{await live.ask(Question('How deep?', {'type': 'integer'}, 'call_1_1'))} m"

    store = tmp_path / "runs.db" if is_stored else None
    with page_of(measure, replies=[call("measure"), answer("done")], store=store) as client:
        (interrupt,) = post_query(client, "dive")[-1]["outcome"]["interrupts"]
        assert [(one["title"], one["isAsking"]) for one in client.get("/threads").json()] == [("dive", True)]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": 4}]
        assert post_query(client, None, resume=resume)[-1]["result"] == "done"
        assert [one["isAsking"] for one in client.get("/threads").json()] == [False]


@pytest.mark.parametrize("is_stored", [False, True], ids=["live", "from the journal"])
def test_a_call_that_a_person_refused_did_not_fail(tmp_path, is_stored):
    store = tmp_path / "runs.db"
    with page_of(refund, replies=[call("refund", euros=4), answer("done")], store=store) as client:
        (interrupt,) = post_query(client, "pay")[-1]["outcome"]["interrupts"]
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": False, "reason": "no"}}
        events = post_query(client, None, resume=[entry])
        if is_stored:
            events = client.get(f"/runs/{journal.runs(store)[0].id}").json()["events"]
    (result,) = (event for event in events if event["type"] == "TOOL_CALL_RESULT")
    assert (result["content"], result["metadata"]["agentkit"]["isRefused"]) == ("Denied: no", True)


class Denied(Exception):
    pass


def look_up(name: str) -> str:
    """Look a word up."""
    if name == "nobody":
        raise Denied("no such word")
    return f"Denied: what {name} was."


@pytest.mark.parametrize("kind", ["live", "of the run", "of an earlier run"])
def test_the_text_of_a_tool_is_no_refusal_whatever_it_begins_with(tmp_path, kind):
    store = tmp_path / "runs.db"
    replies = [call("look_up", name="Ada"), call("look_up", name="nobody"), answer("done"), answer("again")]
    with page_of(look_up, replies=replies, store=store) as client:
        events = post_query(client)
        if kind == "of an earlier run":
            post_query(client)
    with page_of(look_up, store=store) as client:
        if kind != "live":
            events = client.get("/threads/t").json()["events"]
    found = [event["metadata"]["agentkit"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert [(about["isRefused"], about["isError"]) for about in found] == [(False, False), (False, True)]
    shown = journal.show(journal.runs(store)[0].id, store=store)
    assert "refused" not in roles_of(shown)


def roles_of(shown):
    return [line.split()[0] for line in str(shown).splitlines() if line[:1].strip()]


def test_what_show_prints_of_a_pause_and_of_a_refused_call(tmp_path):
    store = tmp_path / "runs.db"
    paused = leave(store, call("refund", euros=4))
    (listed,) = journal.runs(store)
    assert roles_of(journal.show(listed.id, store=store)) == ["system", "query", "call", "waiting", "total"]
    agent = JsonAgent(refund, model=ScriptedModel(answer("done")), description="A shop.")
    agent.run(session=paused.session, approvals={paused.calls[0].id: "too much"}, journal=store)
    assert roles_of(journal.show(listed.id, store=store)) == ["system", "query", "call", "refused", "answer", "total"]


def test_the_evaluations_of_a_journal_are_listed_with_their_reports(tmp_path):
    store = tmp_path / "runs.db"
    with page_of(store=store) as client:
        assert client.get("/evals").json() == []
        agent = JsonAgent(price_of, model=ScriptedModel([call("price_of", item="tea"), answer("cheap")]))
        report = evaluate(agent, [{"query": "What does tea cost?", "answer": "3.50"}], journal=store, progress=False)
        assert client.get("/evals").json() == [
            {"id": report.id, "began": report.began, "ended": True, "models": ["scripted"], "trials": 1, "passed": 0}
        ]
        assert client.get("/threads").json() == []
        page = client.get(f"/evals/{report.id}")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "expected &quot;3.50&quot;" in page.text or 'expected "3.50"' in page.text
        assert "price_of" in page.text
        assert client.get("/evals/none").status_code == 404
        assert client.get(f"/evals/{report.id}", headers={"authorization": "Bearer wrong"}).status_code == 401


def test_a_user_sees_no_evaluations(tmp_path):
    store = tmp_path / "runs.db"
    report = evaluate(JsonAgent(price_of, model=ScriptedModel(answer("x"))), [{"query": "a"}], journal=store)
    app = web_app(JsonAgent(price_of, model=ScriptedModel()), user=lambda request: "ada", hosts=[HOST], journal=store)
    with TestClient(app, headers={"host": HOST}) as client:
        assert client.get("/evals").json() == []
        assert client.get(f"/evals/{report.id}").status_code == 404


class CountingStore:
    """A store of the program's own, which notes what is read."""

    def __init__(self, store):
        self._store = store
        self.read = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def records(self, *of, kinds=()):
        for record in self._store.records(*of, kinds=kinds):
            self.read.append(record)
            yield record


def test_the_list_of_runs_reads_no_message(tmp_path):
    with opened_store(tmp_path / "runs.db") as opened:
        store = CountingStore(opened)
        for number in range(3):
            model = ScriptedModel(call("price_of", item="tea"), answer("3.5"))
            JsonAgent(price_of, model=model).run(f"query {number}", journal=store)
        client = page_of(store=store)
        store.read.clear()
        listed = client.get("/runs").json()
        assert [run["query"] for run in listed] == ["query 2", "query 1", "query 0"]
        assert all(run["state"] == "finished" and run["steps"] == 2 for run in listed)
        assert store.read
        assert not [record for record in store.read if isinstance(record, MessageWritten)]
