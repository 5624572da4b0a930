"""Journals that a process can read and not write: another user's, on a read-only disk, or damaged at the beginning."""

import os
import shutil
import subprocess
import sys

import pytest

from agentkit import JsonAgent, journal
from agentkit.extend import JournalError, find_problems, salvage
from agentkit.sessions.journal.connections import close_idle_stores
from agentkit.testing import ScriptedModel, answer, call

READ = """
import sys
from agentkit import journal
from agentkit.extend import JournalError, find_problems, list_conversations, rename_conversation, salvage
path = sys.argv[1]
(run,) = journal.runs(path)
print(run.state, run.query, find_problems(path), journal.show(run.id, store=path).run.answer)
print(salvage(path, sys.argv[2]), [info.name for info in list_conversations(path)])
for write in (lambda: journal.prune(0, store=path), lambda: rename_conversation(run.conversation, "x", store=path)):
    try:
        write()
    except JournalError as error:
        print(error)
"""


def run_without_rights(*arguments):
    """Run a program for which the permissions of files hold, as they do not for root."""
    drop = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write any file, and setpriv, which takes that right away, is not installed")
        drop = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    done = subprocess.run([*drop, sys.executable, "-c", READ, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def protect():
    """A function that takes the right to write a file and its folder; it has another owner if a root process runs."""
    changed = []

    def take(path):
        for place, mode in ((path, 0o444), (path.parent, 0o555)):
            if os.geteuid() == 0:
                os.chown(place, 65534, 65534)
            place.chmod(mode)
            changed.append(place)

    yield take
    for place in changed:
        place.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl", "ru?ns #1 ü%20.db"])
def test_a_journal_that_cannot_be_written_is_read_and_salvaged(tmp_path, protect, name):
    path = tmp_path / "other" / name
    path.parent.mkdir()

    def look(item: str) -> str:
        """Look an item up."""
        return f"{item}: 3"

    model = ScriptedModel(call("look", item="tea"), answer("Three."))
    JsonAgent(look, model=model, journal=path).run("What is it?")
    protect(path)
    lines = run_without_rights(str(path), str(tmp_path / "copy.db")).splitlines()
    assert lines[:2] == ["finished What is it? [] Three.", "1 []"]
    assert len(lines) == 4, lines
    assert all("writ" in line for line in lines[2:])
    assert not any("Invalid argument" in line for line in lines), "the error is that of the write"
    assert [run.query for run in journal.runs(tmp_path / "copy.db")] == ["What is it?"]


@pytest.mark.parametrize("content", [b"SQLite format 3\0" + bytes(500), b"no journal at all\n" * 200])
def test_a_file_of_which_nothing_can_be_read_is_said_to_be_so(tmp_path, content):
    path = tmp_path / "runs.db"
    path.write_bytes(content)
    for read in (journal.runs, find_problems, lambda path: salvage(path, tmp_path / "new.db")):
        with pytest.raises(JournalError, match="nothing in it can be read"):
            read(path)
    assert path.read_bytes() == content


FULL = """
import resource, sys
from agentkit import journal
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk, no file can grow
try:
    journal.runs(sys.argv[1])
except journal.JournalError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_disk_without_room_for_the_files_beside_a_journal_has_its_own_remedy(file):
    JsonAgent(len, model=ScriptedModel(answer("3")), journal=file)("Go")
    close_idle_stores()
    done = subprocess.run([sys.executable, "-c", FULL, file], capture_output=True, text=True)
    assert "Make room on the disk if it is full" in done.stdout, done.stderr
