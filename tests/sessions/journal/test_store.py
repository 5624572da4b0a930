"""What a store and its leases survive: other stores of the same file, other users, forks, lost connections."""

import subprocess
import sys

from agentkit.sessions.journal.connections import opened_store

ADD_ROW = """
import sys
from agentkit.sessions.journal.connections import opened_store
with opened_store(sys.argv[1]) as store:
    store.append([("INSERT INTO setups VALUES (?, '')", (sys.argv[2],))])
    print(sorted(store.read("SELECT id FROM setups")))
"""


def elsewhere(code: str, *words: object) -> str:
    """The output of a program in a process of its own."""
    program = [sys.executable, "-W", "error", "-c", code, *map(str, words)]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=50).stdout


class TestFiles:
    def test_a_second_store_of_a_file_leaves_the_locks_of_the_first(self, file):
        """Without them the last user elsewhere removes the write-ahead log, and what is written then is lost."""
        with opened_store(file) as store:
            with opened_store(file, "full"):
                pass
            elsewhere(ADD_ROW, file, "a")
            store.append([("INSERT INTO setups VALUES ('b', '')", ())])
            assert elsewhere(ADD_ROW, file, "c") == "[('a',), ('b',), ('c',)]\n"
