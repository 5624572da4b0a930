"""A journal in a database without the package that it needs."""

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["psycopg"] = None
from agentkit.journal import JournalError, runs
try:
    runs("postgresql://localhost/nothing")
except JournalError as error:
    print(error)
"""


def test_a_missing_package_is_named():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert 'pip install "psycopg[binary]>=3.2,<4"' in done.stdout
