"""The door of the guide, against a server with the methods of the chat service on the loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from snippets import blocks

from agentkit import JsonAgent, JsonTool, ask_question
from agentkit.testing import ScriptedModel, answer, call, calls

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "doors.md"
MAX_DOOR_LINES = 60


class Service:
    """Gives each `getUpdates` the next of `updates`, and keeps the texts of all messages."""

    def __init__(self, updates):
        self.updates = list(updates)
        self.asked_from = []
        self.texts = {}
        self.is_empty = threading.Event()

    def call(self, method, values):
        if method == "getUpdates":
            self.asked_from.append(values["offset"])
            if not self.updates:
                self.is_empty.set()
                return None
            return [self.updates.pop(0)]
        if method == "sendMessage":
            self.texts[len(self.texts)] = [values["chat_id"], values["text"]]
            return {"message_id": len(self.texts) - 1}
        assert method == "editMessageText"
        self.texts[values["message_id"]].append(values["text"])
        return True


@pytest.fixture
def serve():
    """Return a function that serves updates and returns the service and its address."""
    servers = []

    def start(updates):
        service = Service(updates)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                result = service.call(self.path.rpartition("/")[2], body)
                self.send_response(200 if result is not None else 503)
                self.end_headers()
                self.wfile.write(json.dumps({"ok": True, "result": result}).encode())

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return service, f"http://127.0.0.1:{server.server_port}/bot-token"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def door():
    (source,) = [block.body for block in blocks(GUIDE) if block.title == "chat_door.py"]
    assert source.count("\n") <= MAX_DOOR_LINES
    module = {}
    exec(compile(source, "chat_door.py", "exec"), module)
    module["EDIT_SECONDS"] = 0.0
    return module["ChatDoor"]


def update(number, chat, text):
    return {"update_id": number, "message": {"chat": {"id": chat}, "text": text}}


def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def paint(thing: str) -> str:
    """Paint."""
    return f"{thing} is {ask_question('Which colour?')}"


def test_each_chat_is_a_conversation_that_outlives_the_door(serve, door, tmp_path):
    replies = [answer("I am well."), call("pay", to="Ada"), answer("Ada has it."), answer("Yes, Ada.")]
    agent = JsonAgent(JsonTool(pay, effect="danger"), model=ScriptedModel(*replies))
    updates = [
        update(7, 1, "How are you?"),
        {"update_id": 8, "edited_message": {}},
        update(9, 2, "Pay Ada."),
        update(10, 2, "yes"),
        update(11, 2, "Has Ada got it?"),
    ]
    service, url = serve(updates)
    with pytest.raises(OSError, match="503"):
        door(agent, url, str(tmp_path / "chats.db")).serve()
    assert service.asked_from == [0, 8, 9, 10, 11, 12]
    (first, question, paid, last) = service.texts.values()
    assert (first[0], first[-1]) == (1, "I am well.")
    assert question[-1] == 'The agent wants to call pay:\n  to: "Ada"'
    assert "(pay)" in paid
    assert paid[-1] == "Ada has it."
    assert last[-1] == "Yes, Ada."


def test_what_is_no_yes_refuses_with_a_reason(serve, door, tmp_path):
    tool = JsonTool(pay, effect="danger")
    model = ScriptedModel(call("pay", to="Bob"), answer("Then not."))
    service, url = serve([update(1, 1, "Pay Bob."), update(2, 1, "no, not him")])
    with pytest.raises(OSError, match="503"):
        door(JsonAgent(tool, model=model), url, str(tmp_path / "chats.db")).serve()
    assert [text[-1] for text in service.texts.values()][-1] == "Then not."
    assert "not him" in json.dumps(model.requests[-1].messages)


def test_a_message_decides_all_calls_of_a_turn(serve, door, tmp_path):
    both = calls(call("pay", to="Ada"), call("pay", to="Bob"), call("paint", thing="the door"))
    model = ScriptedModel(both, answer("Both have it."))
    service, url = serve([update(1, 1, "Pay both."), update(2, 1, "yes"), update(3, 1, "blue")])
    with pytest.raises(OSError, match="503"):
        door(JsonAgent(JsonTool(pay, effect="danger"), paint, model=model), url, str(tmp_path / "chats.db")).serve()
    assert [text[-1] for text in service.texts.values()][1:] == ["Which colour?", "Both have it."]
    results = [message["content"] for message in model.requests[-1].messages if message["role"] == "tool"]
    assert results == ["paid Ada", "paid Bob", "the door is blue"]


def test_a_question_of_a_tool_is_answered_by_the_next_message(serve, door, tmp_path):
    model = ScriptedModel(call("paint", thing="the door"), answer("It is blue."))
    service, url = serve([update(1, 1, "Paint the door."), update(2, 1, "blue")])
    with pytest.raises(OSError, match="503"):
        door(JsonAgent(paint, model=model), url, str(tmp_path / "chats.db")).serve()
    assert [text[-1] for text in service.texts.values()] == ["Which colour?", "It is blue."]
    assert "the door is blue" in json.dumps(model.requests[-1].messages)


def test_a_run_that_fails_says_why(serve, door, tmp_path):
    service, url = serve([update(1, 1, "Go.")])
    with pytest.raises(OSError, match="503"):
        door(JsonAgent(pay, model=ScriptedModel()), url, str(tmp_path / "chats.db")).serve()
    assert "the script has 0 replies" in service.texts[0][-1]
