"""Python programs in processes of their own, for what cannot be done to the process of the tests."""

import signal
import subprocess
import sys
import time


def interrupted(code: str, *, after: str, times: int = 1, at_most: float = 90.0) -> str:
    """Run `code`, send it a real Ctrl-C when it has printed the line `after` `times` times; return what it printed.

    Fails unless it ends by itself within `at_most` seconds from then on.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        seen: list[str] = []
        while seen.count(f"{after}\n") < times:
            line = child.stdout.readline()
            assert line, child.stderr.read()
            seen.append(line)
        time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, error = child.communicate(timeout=at_most)
        assert "Traceback" not in error, error
        return "".join(seen) + out
    finally:
        child.kill()
        child.communicate()
