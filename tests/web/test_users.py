"""Several users of one app behind a sign-in: conversations, interrupts, runs and values are their own."""

import asyncio
import json

import httpx
import pytest
from refunding import reply
from starlette.testclient import TestClient

from agentkit import DefinitionError, Injected, JsonAgent, Session, tool
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.web import agui, web_app
from agentkit.web.threads import MAX_UNSTORED_CONVERSATIONS, Threads


class Shop:
    """What the tools of one user work with."""

    def __init__(self, owner):
        self.owner = owner


paid: list[tuple[str, float]] = []


@tool(effect="danger")
def refund(euros: float, shop: Injected[Shop]) -> str:
    """Pay money back."""
    paid.append((shop.owner, euros))
    return f"{euros} paid by {shop.owner}"


def user_of(request):
    return request.headers.get("x-user")


async def user_of_async(request):
    await asyncio.sleep(0)
    return request.headers.get("x-user")


def shop_of(request):
    return Shop(f"{request.headers['x-user']} in {request.state.thread}")


def app_of(door, **how):
    agent = JsonAgent(refund, model=ScriptedModel(*[reply] * 20), description="A shop.")
    return door(agent, **{"user": user_of, "deps": shop_of, **how})


def post(client, user, content=None, thread="t", path="/", **more):
    messages = [] if content is None else [{"id": "1", "role": "user", "content": content}]
    body = {"threadId": thread, "runId": "r", "messages": messages, **more}
    return client.post(path, json=body, headers={"x-user": user} if user else {})


def events_of(response):
    assert response.status_code == 200, response.text
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


def approve(interrupt):
    return [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]


@pytest.mark.parametrize("user", [user_of, user_of_async], ids=["plain", "async"])
@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a journal"])
def test_a_user_cannot_answer_or_read_what_waits_for_another_one(tmp_path, is_stored, user):
    paid.clear()
    store = tmp_path / "runs.db" if is_stored else None
    with TestClient(app_of(agui, user=user, journal=store)) as client:
        (interrupt,) = events_of(post(client, "ada", "refund"))[-1]["outcome"]["interrupts"]
        stolen = post(client, "eve", resume=approve(interrupt))
        assert (stolen.status_code == 409) or events_of(stolen)[-1]["type"] == "RUN_ERROR"
        assert paid == []
        assert events_of(post(client, "eve", "hello"))[-1]["result"] == "hello", "it is another conversation"
        assert events_of(post(client, "ada", resume=approve(interrupt)))[-1]["result"] == "done"
        assert paid == [("ada in t", 4)]
        assert post(client, "", "hello").status_code == 401


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a journal"])
def test_the_decisions_of_a_turn_come_together(tmp_path, is_stored):
    paid.clear()
    both = ScriptedModel(calls(call("refund", euros=1), call("refund", euros=2)), answer("done"))
    store = tmp_path / "runs.db" if is_stored else None
    app = agui(JsonAgent(refund, model=both, description="A shop."), deps=shop_of, user=user_of, journal=store)
    with TestClient(app) as client:
        interrupts = events_of(post(client, "ada", "refund"))[-1]["outcome"]["interrupts"]
        refused = events_of(post(client, "ada", resume=approve(interrupts[0])))[-1]
        assert refused["type"] == "RUN_ERROR"
        assert "decided together" in refused["message"]
        assert paid == []
        goes_on = {"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"continue": True}}
        assert client.post("/", json=goes_on, headers={"x-user": "ada"}).status_code == 422, (
            "it waits, and did not fail"
        )
        together = [entry for interrupt in interrupts for entry in approve(interrupt)]
        assert events_of(post(client, "ada", resume=together))[-1]["result"] == "done"
        assert paid == [("ada in t", 1), ("ada in t", 2)]


def test_the_same_thread_of_another_user_survives_a_restart(tmp_path):
    store = tmp_path / "runs.db"
    for _ in range(2):
        with TestClient(app_of(agui, journal=store)) as client:
            found = [events_of(post(client, user, f"I am {user}"))[-1]["result"] for user in ("ada", "eve", "ada/t")]
    assert found == ["I am ada / I am ada", "I am eve / I am eve", "I am ada/t / I am ada/t"]


def test_the_page_shows_a_user_their_own_conversations_and_runs(tmp_path):
    app = app_of(web_app, journal=tmp_path / "runs.db")
    with TestClient(app) as client:

        def get(user, path):
            return client.get(path, headers={"x-user": user})

        for user in ("ada", "eve"):
            events_of(post(client, user, f"I am {user}", thread=f"of-{user}", path="/agui"))
        assert [thread["title"] for thread in get("ada", "/threads").json()] == ["I am ada"]
        (run,) = get("ada", "/runs").json()
        assert run["query"] == "I am ada"
        assert get("ada", f"/runs/{run['id']}").status_code == 200
        report = get("ada", f"/runs/{run['id']}/report")
        assert ("I am ada" in report.text, "Timeline" in report.text) == (True, True)
        assert report.headers.get_list("content-security-policy") == [
            "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        ]
        assert report.headers["x-content-type-options"] == "nosniff"
        hidden = [f"/runs/{run['id']}{path}" for path in ("", "/requests/1", "/report")]
        for path in (*hidden, f"/threads/of-ada/requests/{run['id']}/1"):
            assert get("eve", path).status_code == 404
        assert get("eve", "/threads/of-ada").json()["events"] == []
        renamed = {
            user: client.put("/threads/of-ada/title", json={"title": "Mine"}, headers={"x-user": user})
            for user in ("eve", "ada")
        }
        assert (renamed["eve"].status_code, renamed["ada"].status_code) == (422, 204)
        assert [thread["title"] for thread in get("ada", "/threads").json()] == ["Mine"]
        assert client.get("/threads").status_code == 401
        assert get("eve", "/threads/of-ada/events").text == ""


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a journal"])
def test_a_user_deletes_a_conversation_of_their_own_alone(tmp_path, is_stored):
    paid.clear()
    app = app_of(web_app, journal=tmp_path / "runs.db" if is_stored else None)
    with TestClient(app) as client:

        def ask(user, path, method="GET"):
            return client.request(method, path, headers={"x-user": user})

        for user in ("ada", "eve"):
            post(client, user, f"I am {user}", thread="t", path="/agui")
            post(client, user, "refund", thread="t", path="/agui")
        assert ask("eve", "/threads/other", "DELETE").status_code == 204
        assert client.delete("/threads/t").status_code == 401
        assert client.delete("/threads/t", headers={"x-user": "eve", "origin": "https://x.example"}).status_code == 403
        assert ask("eve", "/threads/t", "DELETE").status_code == 204
        assert ask("eve", "/threads").json() == ask("eve", "/runs").json() == []
        assert ask("eve", "/threads/t").json()["events"] == []
        (kept,) = ask("ada", "/threads").json()
        assert kept["title"] == "I am ada"
        assert len(ask("ada", "/runs").json()) == 2 * is_stored
        assert events_of(post(client, "eve", "I am new", thread="t", path="/agui"))[-1]["result"] == "I am new"
        assert ask("eve", "/threads").json()[0]["title"] == "I am new"


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a journal"])
def test_a_conversation_that_works_is_not_deleted(tmp_path, is_stored):
    async def drive():
        begun = asyncio.Event()
        may_end = asyncio.Event()

        async def work() -> str:
            """Work."""
            begun.set()
            await may_end.wait()
            return "worked"

        agent = JsonAgent(work, model=ScriptedModel(call("work"), answer("done")))
        app = web_app(agent, user=user_of, journal=tmp_path / "runs.db" if is_stored else None)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop", headers={"x-user": "ada"}) as client:
            body = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "work"}]}
            running = asyncio.create_task(client.post("/agui", json=body))
            await begun.wait()
            refused = await client.delete("/threads/t")
            assert (refused.status_code, "still working" in refused.json()["error"]) == (409, True)
            may_end.set()
            assert events_of(await running)[-1]["result"] == "done"
            assert (await client.delete("/threads/t")).status_code == 204
            assert (await client.get("/threads")).json() == []

    asyncio.run(drive())


def test_a_page_without_token_and_users_is_refused():
    with pytest.raises(DefinitionError, match="Give a token, or user="):
        web_app(JsonAgent(refund))


def test_a_session_may_be_a_function_of_the_request():
    kept = {}

    async def session_of(request):
        return kept.setdefault((request.headers["x-user"], request.state.thread), Session())

    with TestClient(app_of(agui, session=session_of)) as client:
        (interrupt,) = events_of(post(client, "ada", "refund"))[-1]["outcome"]["interrupts"]
    with TestClient(app_of(agui, session=session_of)) as client:  # another process of the app
        assert events_of(post(client, "ada", resume=approve(interrupt)))[-1]["result"] == "done"
    assert [*kept] == [("ada", "t")]


@pytest.mark.parametrize("option", ["deps", "session"])
def test_a_client_does_not_read_what_a_function_of_the_request_raises(option):
    def fail(request):
        raise ValueError("no connection to db.internal as shop_owner")

    client = TestClient(app_of(agui, **{option: fail}), raise_server_exceptions=False)
    response = post(client, "ada", "hello")
    assert (response.status_code, response.text) == (500, "Internal Server Error")


def test_options_that_cannot_be_kept_are_refused(tmp_path):
    with pytest.raises(DefinitionError, match="both keep the conversations"):
        app_of(agui, session=lambda request: Session(), journal=tmp_path / "runs.db")
    with pytest.raises(DefinitionError, match="must be a function of the request"):
        app_of(agui, session=Session())
    for door in (agui, web_app):
        with pytest.raises(DefinitionError, match="lets any page act for a signed-in user"):
            app_of(door, allow_origins=["*"])
        with pytest.raises(DefinitionError, match="hosts: expected names"):
            app_of(door, hosts=["https://shop.example"])
    client = TestClient(app_of(agui, session=lambda request: None))
    with pytest.raises(DefinitionError, match="expected a Session, got NoneType"):
        post(client, "ada", "hello")


def test_a_page_of_an_allowed_origin_may_send_requests_from_a_browser():
    with TestClient(app_of(agui, allow_origins=["https://shop.example"])) as client:
        asked = {"origin": "https://shop.example", "access-control-request-method": "POST"}
        asked["access-control-request-headers"] = "content-type,x-user"
        allowed = client.options("/", headers=asked).headers
        assert allowed["access-control-allow-origin"] == "https://shop.example"
        assert allowed["access-control-allow-credentials"] == "true"
        sent = {"x-user": "ada", "origin": "https://shop.example"}
        body = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "hello"}]}
        found = client.post("/", json=body, headers=sent)
        assert found.headers["access-control-allow-origin"] == "https://shop.example"
        assert events_of(found)[-1]["result"] == "hello"
        assert client.post("/", json=body, headers={**sent, "origin": "https://evil.example"}).status_code == 403
        assert (
            client.post("/", content="{}", headers={"x-user": "ada", "content-type": "text/plain"}).status_code == 415
        )


@pytest.mark.parametrize("origin", ["http://localhost", "http://localhost:3000"])
def test_a_page_of_any_port_of_an_allowed_origin_may_read_the_answer_and_a_refusal(origin):
    with TestClient(app_of(agui, allow_origins=["http://localhost:*"])) as client:
        asked = {"origin": origin, "access-control-request-method": "POST"}
        assert client.options("/", headers=asked).headers["access-control-allow-origin"] == origin
        refused = client.post("/", json={}, headers={"origin": origin})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, origin)
        foreign = client.options("/", headers={**asked, "origin": "http://localhost.evil.example"})
        assert (foreign.status_code, "access-control-allow-origin" in foreign.headers) == (403, False)


def test_two_users_at_once_of_whom_one_is_slow():
    """A sign-in that takes its time keeps no other user waiting."""
    order = []

    async def both():
        is_signed_in = asyncio.Event()

        async def user(request):
            if request.headers["x-user"] == "slow":
                await is_signed_in.wait()
            return request.headers["x-user"]

        app = app_of(agui, user=user)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://t") as client:

            async def ask(name):
                found = events_of(await post(client, name, f"I am {name}"))
                order.append(found[-1]["result"])

            slow = asyncio.create_task(ask("slow"))
            await ask("quick")
            is_signed_in.set()
            await slow

    asyncio.run(both())
    assert order == ["I am quick", "I am slow"]


def test_old_conversations_without_a_journal_are_dropped_at_a_bound():
    async def visit():
        threads = Threads(JsonAgent(refund, model=ScriptedModel()))
        for number in range(3 * MAX_UNSTORED_CONVERSATIONS):
            await threads.find("", f"looked-up-{number}")
        looked_up = len(threads._open)
        own = threads._keep("ada", await threads.find("ada", "hers"))
        for number in range(MAX_UNSTORED_CONVERSATIONS + 500):
            threads._keep("eve", await threads.find("eve", str(number)))
        return looked_up, len(threads._open), await threads.find("ada", "hers") is own, ("eve", "0") in threads._open

    assert asyncio.run(visit()) == (0, MAX_UNSTORED_CONVERSATIONS, True, False)
