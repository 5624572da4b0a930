"""`agentkit chat`: a conversation, line by line."""

import os
import signal
import termios
import time

import pytest
from waiting import wait_until

from agentkit import Session
from agentkit.agents.backends import load_in_background
from agentkit.cli.chat import Chat
from agentkit.engine.loop import REMINDER
from agentkit.extend import undo_last_question


@pytest.fixture
def chat(run):
    """Say these lines, and give what stands on standard output."""
    return lambda *lines, options=(): run("chat", "--tools", "mytools.py", *options, input="\n".join([*lines, ""]))


def test_each_line_is_a_question_and_the_answers_stand_on_standard_output(chat):
    said = chat("Add 2 and 3", "", "Add 4 and 3")
    assert said.exit_code == 0
    assert said.stdout == "5\n7\n"
    assert "result   add: 5" in said.stderr


def test_lines_continue_after_a_backslash_and_between_quotes(chat):
    said = chat("Add 2 \\", "and 3", '"""Add 4', "", 'and 3"""', '"""Add 1 and 1"""', options=["--session", "s.json"])
    assert said.stdout == "5\n7\n2\n"
    asked = [message["content"] for message in Session.load("s.json").messages if message["role"] == "user"]
    assert asked == ["Add 2 \nand 3", "Add 4\n\nand 3", "Add 1 and 1"]


def test_a_file_that_is_not_there_is_named_in_plain_words(chat):
    assert chat("/attach no.png").stderr == "agentkit: [Errno 2] No such file or directory: 'no.png'\n"


def test_a_missing_key_of_a_model_is_reported(chat, monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    assert chat("/model groq/llama-3.1-8b-instant").stdout == "model: groq/llama-3.1-8b-instant (set GROQ_API_KEY)\n"
    monkeypatch.setenv("GROQ_API_KEY", "gsk-x")
    assert chat("/model groq/llama-3.1-8b-instant").stdout == "model: groq/llama-3.1-8b-instant\n"


def test_the_commands_report_what_they_did(chat):
    said = chat(
        "/tools", "/help", "/model", "/undo", "/save", "/load", "/nope", "/model offline", "/quit", "Add 2 and 3"
    )
    assert said.exit_code == 0
    assert said.stdout.startswith("add: Adds two integers.\ngreet: Greets a person.\n")
    for name in ("/tools", "/history", "/undo", "/save", "/load", "/model", "/clear", "/quit"):
        assert name in said.stdout
    assert "model: offline (no model is named" in said.stdout
    assert "there is no question to remove" in said.stdout
    assert said.stdout.endswith("model: offline\n"), "what comes after /quit is not asked"
    for told in ("name a file: /save FILE", "name a file: /load FILE", "there is no command /nope"):
        assert told in said.stderr


def test_a_conversation_is_saved_loaded_and_dropped(chat, folder):
    said = chat(
        "Add 2 and 3", "/save kept.json", "/clear", "/history", "/load kept.json", "/history", "/load missing.json"
    )
    assert "saved: kept.json" in said.stdout
    assert said.stdout.count("query    Add 2 and 3\n") == 1
    assert "loaded: 6 messages" in said.stdout
    assert "agentkit: " in said.stderr.splitlines()[-1]
    assert "missing.json" in said.stderr


def test_the_session_file_is_written_after_each_answer_and_continued(chat):
    chat("Add 2 and 3", "Add 4 and 3", "/undo", options=["--session", "s.json"])
    assert [m["content"] for m in Session.load("s.json").messages if m["role"] == "user"] == ["Add 2 and 3"]
    said = chat("/history", options=["--session", "s.json"])
    assert "Add 2 and 3" in said.stdout
    assert "Add 4 and 3" not in said.stdout


def test_a_failure_is_one_line_and_the_chat_continues(chat, monkeypatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    said = chat(
        "/model groq/llama-3.1-8b-instant",
        "Add 2 and 3",
        "/model offline",
        "Add 2 and 3",
        options=["--tools", "more.py"],
    )
    assert said.exit_code == 0
    assert "set GROQ_API_KEY" in said.stderr
    assert "Traceback" not in said.output
    assert said.stdout.endswith("5\n")


def test_a_path_is_not_a_command(chat):
    assert "there is no command" not in chat("/usr/bin is what?").stderr


def test_a_dangerous_call_waits_and_the_next_question_continues_without_it(run):
    said = run("chat", "--tools", "mytools.py", "--tools", "more:delete_file", input="Delete file a.txt\nAdd 2 and 3\n")
    assert "delete_file needs an approval" in said.stderr
    assert said.stdout == "5\n"


def test_the_question_is_taken_back_not_a_reminder_of_the_loop():
    session = Session(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    )
    session.messages += [
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": REMINDER},
    ]
    assert undo_last_question(session.messages) == "c"
    assert [message["content"] for message in session.messages] == ["s", "a", "b"]
    assert undo_last_question(session.messages) == "a"
    assert undo_last_question(session.messages) is None


class TestAtATerminal:
    def test_lines_are_edited_and_remembered(self, terminal, folder):
        talk = terminal("chat", "--tools", "mytools.py", width=60)
        talk.expect("Ask away")
        talk.ask("Add 2 and 3", "5\r\n")
        talk.expect_prompt()
        talk.send("Add 2 and 9\x7f4\n")
        talk.expect("6\r\n")
        talk.expect_prompt()
        talk.send("\x1b[A\n")  # the line before
        talk.expect("6\r\n")
        talk.expect_prompt()
        talk.send("/hel")
        talk.expect("/hel")
        talk.send("\t")
        talk.expect("p")
        talk.send("\n")
        talk.expect("Esc or Ctrl-C stops an answer")
        talk.expect_prompt()
        talk.send("\x04")
        assert talk.end() == 0
        kept = folder / ".agentkit_history"
        lines = [line for line in kept.read_text().splitlines() if line.startswith("+")]
        assert lines == ["+Add 2 and 3", "+Add 2 and 4", "+/help"]
        assert kept.stat().st_mode & 0o077 == 0
        again = terminal("chat", "--tools", "mytools.py")
        again.expect_prompt()
        again.send("\x1b[A\x1b[A\n")
        again.expect("6\r\n")

    def test_it_begins_with_the_model_the_tools_and_the_session(self, terminal, folder):
        Session().save("new.json")
        for expected in ("new", "continued after 1 question"):
            talk = terminal("chat", "--tools", "mytools.py", "--session", "new.json", width=200)
            talk.expect("model: offline (no model is named")
            talk.expect("tools: add, greet\r\n")
            talk.expect(f"session: new.json, {expected}\r\n")
            talk.ask("Add 2 and 3", "5\r\n")
            talk.ask("/quit", "")
            assert talk.end() == 0
        talk = terminal("chat", "--tools", "mytools.py", "--model", "groq/llama-3.1-8b-instant", width=200)
        talk.expect("model: groq/llama-3.1-8b-instant (set GROQ_API_KEY)\r\n")

    def test_the_model_is_loaded_while_one_types(self, folder):
        loaded = []
        options = {"targets": ("mytools.py",), "description": "", "max_steps": 3, "journal": None}
        for model in ("groq/llama-3.1-8b-instant", "offline"):
            Chat(model=model, load=loaded.append, **options).introduce()
        assert loaded == ["groq/llama-3.1-8b-instant", "offline"]
        for model in [*loaded]:
            load_in_background(model, lambda model=model: loaded.append(f"begun: {model}"))
        assert loaded[2:] == ["begun: groq/llama-3.1-8b-instant"]

    def test_pasted_lines_are_one_question(self, terminal, folder):
        talk = terminal("chat", "--tools", "mytools.py", "--session", "s.json")
        talk.expect_prompt()
        talk.send("\x1b[200~Add 2\nand 3\x1b[201~")
        talk.send("\n")
        talk.expect("5\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0
        asked = [message["content"] for message in Session.load("s.json").messages if message["role"] == "user"]
        assert asked == ["Add 2\nand 3"]

    def test_alt_enter_begins_another_line(self, terminal, folder):
        talk = terminal("chat", "--tools", "mytools.py", "--session", "s.json")
        talk.expect_prompt()
        talk.send("Add 2\x1b\rand 3")
        talk.expect("... ")
        talk.send("\r")
        talk.expect("5\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0
        (asked,) = [message["content"] for message in Session.load("s.json").messages if message["role"] == "user"]
        assert asked == "Add 2\nand 3"

    def test_without_the_editor_pasted_lines_are_one_question_too(self, terminal, folder):
        talk = terminal(
            "chat",
            "--tools",
            "mytools.py",
            "--session",
            "s.json",
            program=("-c", "import sys; sys.modules['prompt_toolkit'] = None; from agentkit.cli import main; main()"),
        )
        talk.expect_prompt()
        talk.send("\x1b[200~Add 2\nand 3\x1b[201~")
        talk.send("\n")
        talk.expect("5\r\n")

    def test_lines_pasted_while_an_answer_is_written_wait_for_enter(self, terminal, folder):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py", "--session", "s.json")
        talk.ask("Wait for 4 seconds", "wait_for(")
        talk.send("Add 2\nand 3\nand 4")
        talk.expect("waited\r\n")
        talk.expect("... and 3")
        talk.expect("and 4")
        talk.send("\x03")  # drop it
        talk.ask("/quit", "")
        assert talk.end() == 0
        asked = [message["content"] for message in Session.load("s.json").messages if message["role"] == "user"]
        assert asked == ["Wait for 4 seconds"], "nothing was paid for"

    def test_an_interrupt_prints_how_to_continue_the_session(self, terminal):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py", "--journal", "runs.db")
        talk.ask("Wait for 600 seconds", "wait_for(")
        talk.send("\x03")
        talk.expect("stopped; finished steps are kept. Continue with: agentkit resume ")
        talk.expect(" --journal runs.db --tools mytools.py --tools more.py")

    def test_an_interrupt_stops_the_answer_and_not_the_chat(self, terminal):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py")
        talk.ask("Wait for 600 seconds", "wait_for(")
        talk.send("\x03")
        talk.expect("stopped; finished steps are kept")
        talk.ask("Add 2 and 3", "5\r\n")
        talk.ask("/history", "Cancelled: the run was stopped")
        talk.expect_prompt()
        talk.send("half a line")
        talk.expect("half a line")
        time.sleep(0.1)  # readline does not hear of a Ctrl-C that comes before it waits for the next key
        talk.send("\x03")
        talk.ask("Add 4 and 4", "8\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0

    def test_escape_stops_the_answer_once_and_other_keys_wait(self, terminal):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py", "--journal", "runs.db")
        talk.ask("Wait for 600 seconds", "wait_for(")
        talk.send("\x1b[A")  # an arrow
        talk.send("Add 2 and 9\x7f3")
        time.sleep(0.3)
        talk.send("\x1b")
        talk.expect("stopped; finished steps are kept. Continue with: agentkit resume ")
        talk.expect_prompt()
        talk.expect("Add 2 and 3")
        talk.send("\n")
        talk.expect("5\r\n")
        talk.ask("Wait for 600 seconds", "wait_for(")
        talk.send("\x1b\x1b\x1b")
        talk.expect("stopped; finished steps are kept")
        talk.ask("Add 4 and 4", "8\r\n")
        talk.ask("/history", "Cancelled: the run was stopped")
        talk.ask("/quit", "")
        assert talk.end() == 0
        assert talk.text.count("stopped; finished steps") == 2

    def test_the_keyboard_is_read_while_a_run_works_only(self, terminal, folder):
        (folder / "asking.py").write_text(
            'def ask_name() -> str:\n    """Asks for the name."""\n    return "called " + input("Your name? ")\n'
        )
        talk = terminal("chat", "--tools", "more.py", "--tools", "asking.py")
        talk.ask("Wait for 600 seconds", "wait_for(")
        wait_until(lambda: not termios.tcgetattr(talk.side)[3] & (termios.ICANON | termios.ECHO))
        assert termios.tcgetattr(talk.side)[3] & termios.ISIG
        talk.send("\x1b")
        talk.expect("stopped; finished steps are kept")
        talk.ask("Ask for the name", "Your name? ")
        assert termios.tcgetattr(talk.side)[3] & termios.ISIG
        talk.send("Ada\n")
        talk.expect("called Ada\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0

    def test_escape_is_not_an_answer_to_a_question(self, terminal):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py")
        talk.ask("Delete file a.txt", "}: ")
        assert termios.tcgetattr(talk.side)[3] & termios.ICANON
        talk.send("y\n")
        talk.expect("deleted a.txt\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0

    def test_escape_at_a_question_stops_the_answer_and_an_arrow_does_not(self, terminal):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py")
        talk.ask("Delete file a.txt", "}: ")
        talk.send("\x1b")
        talk.expect("stopped; finished steps are kept")
        assert "^[" not in talk.text
        talk.ask("Add 2 and 3", "5\r\n")
        talk.ask("Delete file b.txt", "}: ")
        talk.send("\x1b[A")
        time.sleep(2)  # what comes before the question is quiet again is no answer
        talk.send("y\n")
        talk.expect("deleted b.txt\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0
        assert "deleted a.txt" not in talk.text

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_chat_that_a_signal_ends_leaves_the_terminal_as_it_was(self, terminal, number):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py")
        before = termios.tcgetattr(talk.side)
        talk.ask("Wait for 600 seconds", "wait_for(")
        wait_until(lambda: not termios.tcgetattr(talk.side)[3] & termios.ECHO)
        os.kill(talk.process, number)
        assert talk.end() == -number
        assert talk.mode == before

    def test_dangerous_calls_are_asked_about_and_an_interrupt_is_not_an_answer(self, terminal):
        talk = terminal("chat", "--tools", "mytools.py", "--tools", "more.py")
        talk.ask("Delete file a.txt", "}: ")
        talk.send("y\n")
        talk.expect("deleted a.txt\r\n")
        talk.ask("Delete file b.txt", "}: ")
        talk.send("\x03")
        talk.expect("stopped")
        talk.ask("Add 2 and 3", "5\r\n")
        talk.ask("/quit", "")
        assert talk.end() == 0
        assert "deleted b.txt" not in talk.text
