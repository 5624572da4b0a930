"""Files that are sent with a question on the command line."""

import pytest
from files import PDF, PNG

from agentkit import Session
from agentkit.testing import ModelServer, answer

MODEL = ("--model", "openai/gpt-4o-mini", "--tools", "mytools.py")


@pytest.fixture
def server(folder, monkeypatch):
    (folder / "a.png").write_bytes(PNG)
    (folder / "a.pdf").write_bytes(PDF)
    (folder / "a.txt").write_text("hello")
    with ModelServer(answer("a square"), answer("red")) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.api_base("openai"))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        yield server


def kinds(server, request: int = 0) -> list[str]:
    content = server.requests[request].body["messages"][-1]["content"]
    return [part["type"] for part in content] if isinstance(content, list) else ["plain"]


def test_files_go_with_the_question_and_stay_in_the_session(run, server):
    done = run("run", *MODEL, "--attach", "a.png", "--attach", "a.pdf", "--session", "s.json", "What is this?")
    assert (done.exit_code, done.stdout) == (0, "a square\n")
    assert kinds(server) == ["text", "image_url", "file"]
    assert "base64" not in done.stderr
    assert run("run", *MODEL, "--session", "s.json", "Which colour?").stdout == "red\n"
    assert [part["type"] for part in server.requests[1].body["messages"][1]["content"]] == kinds(server)
    assert Session.load("s.json").messages[1]["content"][0]["text"] == "What is this?"


def test_a_file_alone_is_a_question(run, server):
    assert run("run", *MODEL, "--attach", "a.png", input="").stdout == "a square\n"
    assert kinds(server) == ["image_url"]


@pytest.mark.parametrize(
    ("file", "error"), [("a.txt", "expected one of PNG, JPEG, GIF"), ("none.png", "does not exist")]
)
def test_other_files_are_wrong_usage(run, server, file, error):
    done = run("run", *MODEL, "--attach", file, "What is this?")
    assert done.exit_code == 2
    assert error in done.stderr
    assert server.requests == []


def test_the_embedded_model_names_the_remedy(run, server):
    done = run("run", "--attach", "a.png", "--tools", "mytools.py", "--model", "offline", "What is this?")
    assert done.exit_code == 1
    assert "offline: the embedded model reads text only, and a message has [image/png" in done.stderr


def test_the_chat_sends_files_with_the_next_question_only(run, server):
    lines = ["/attach", "/attach a.txt", "/attach a.png", "What is this?", "Which colour?", "/quit"]
    done = run("chat", *MODEL, input="\n".join(lines))
    assert "name a file: /attach FILE" in done.stderr
    assert "expected one of PNG" in done.stderr
    assert f"sent with the next question: [image/png a.png, {len(PNG)} bytes]" in done.stdout
    assert kinds(server) == ["text", "image_url"]
    assert kinds(server, 1) == ["plain"]
