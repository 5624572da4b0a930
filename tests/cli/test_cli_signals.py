"""Signals and Ctrl-C at a terminal: the command ends, and the terminal is as it was."""

import os
import shutil
import signal
import subprocess
import sys
import termios

import pytest
from waiting import wait_until

ASKING = '''
import sys
import termios

def ask_name() -> str:
    """Asks for the name."""
    return "called " + input("Your name? ")

def hide_keys() -> str:
    """Hides the keys, as getpass does, and waits."""
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, mode)
    sys.stderr.write("hidden")
    sys.stderr.flush()
    sys.stdin.readline()
    return "read"
'''
SHELL = ("-c", "import os; os.execlp('bash', 'bash', '--norc', '--noprofile', '-i')")
HIDE_CURSOR = "\x1b[?25l"
SHOW_CURSOR = "\x1b[?25h"
MARK_PASTES = "\x1b[?2004h"
PASTE_PLAINLY = "\x1b[?2004l"


@pytest.fixture
def asking(folder):
    (folder / "asking.py").write_text(ASKING)
    return ("--tools", "mytools.py", "--tools", "more.py", "--tools", "asking.py")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_shows_the_cursor_again(terminal, number):
    talk = terminal("run", "Wait for 600 seconds", "--tools", "more.py")
    talk.expect(HIDE_CURSOR)
    talk.expect("wait_for(")
    os.kill(talk.process, number)
    assert talk.end() == -number
    assert talk.text.rindex(SHOW_CURSOR) > talk.text.rindex(HIDE_CURSOR)


def test_a_chat_that_a_signal_ends_at_its_prompt_marks_no_pasted_text_any_more(terminal):
    talk = terminal("chat", "--tools", "mytools.py")
    talk.expect_prompt()
    os.kill(talk.process, signal.SIGTERM)
    assert talk.end() == -signal.SIGTERM
    assert talk.text.rindex(PASTE_PLAINLY) > talk.text.rindex(MARK_PASTES)


@pytest.mark.skipif(shutil.which("bash") is None, reason="a shell with job control")
def test_a_stopped_chat_leaves_the_terminal_to_the_shell_and_reads_keys_again_in_the_foreground(terminal):
    shell = terminal(program=SHELL)
    shell.send(f"{sys.executable} -m agentkit chat --tools more.py --tools mytools.py\n")
    shell.expect("/help for help")
    shell.ask("Wait for 600 seconds", "wait_for(")
    wait_until(lambda: not termios.tcgetattr(shell.side)[3] & termios.ECHO)
    shell.send("\x1a")
    shell.expect("Stopped")
    assert shell.text.rindex(SHOW_CURSOR) > shell.text.rindex(HIDE_CURSOR)
    shell.send("fg\n")
    shell.expect("wait_for(")
    wait_until(lambda: not termios.tcgetattr(shell.side)[3] & termios.ECHO)
    shell.send("\x1b")
    shell.expect("stopped; finished steps are kept")


def test_an_interrupt_ends_a_tool_in_input_as_any_other(terminal, asking):
    talk = terminal("run", "Ask for the name", *asking)
    talk.expect("Your name? ")
    talk.send("\x03")
    talk.expect("Continue with: agentkit run --session")
    assert talk.end() == 130
    assert "Fatal" not in talk.text


def test_a_tool_in_input_of_a_pipe_does_not_abort_the_process(asking):
    child = subprocess.Popen(
        [sys.executable, "-m", "agentkit", "run", "Ask for the name", *asking],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        seen = ""
        while "Your name? " not in seen:
            letter = child.stderr.read(1)
            assert letter, seen
            seen += letter
        child.send_signal(signal.SIGINT)
        assert child.wait() == 130
        assert "Fatal" not in child.stderr.read()
        assert not child.stdout.read(), "the prompt is no answer"


@pytest.mark.parametrize("key", ["\x03", "\x1b"])
def test_a_tool_in_input_that_is_stopped_takes_no_line_of_the_chat(terminal, asking, key):
    talk = terminal("chat", *asking)
    talk.ask("Ask for the name", "Your name? ")
    talk.send(key)
    talk.expect("stopped; finished steps are kept")
    talk.ask("Add 2 and 3", "5\r\n")
    talk.ask("Ask for the name", "Your name? ")
    talk.send("Ada\n")
    talk.expect("called Ada\r\n")
    talk.ask("/quit", "")
    assert talk.end() == 0


def test_an_interrupted_tool_that_changed_the_terminal_leaves_it_as_it_was(terminal, asking):
    talk = terminal("run", "Hide the keys", *asking)
    before = termios.tcgetattr(talk.side)
    talk.expect("hidden")
    talk.send("\x03")
    assert talk.end() == 130
    assert talk.mode == before


def test_an_interrupt_during_the_exit_writes_no_traceback(terminal, folder):
    (folder / "ending.py").write_text(
        "import atexit, sys, time\n\n"
        "def end():\n    sys.stderr.write('ending')\n    sys.stderr.flush()\n    time.sleep(600)\n\n"
        "atexit.register(end)\n\n"
        'def add(a: int, b: int) -> int:\n    """Adds two integers."""\n    return a + b\n'
    )
    talk = terminal("run", "Add 2 and 3", "--tools", "ending.py")
    talk.expect("ending")
    talk.send("\x03")
    assert talk.end() == -signal.SIGINT
    assert "Traceback" not in talk.text
