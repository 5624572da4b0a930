"""SIGKILL at every boundary of a run with parallel tools: nothing is done twice, and the answer is the same."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
"""Where no write waits for the disk: what was written before a SIGKILL is there in any case."""
REPEATABLE = ("look", "mark")
DONE = {"0_0": "pay a", "0_1": "mail b", "0_2": "look c", "1_0": "pay d", "1_1": "mark e", "1_2": "look f"}


@pytest.mark.integration
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("store", "mode"),
    [
        *[("sqlite", mode) for mode in ("sync", "async", "stream", "astream")],
        ("lines", "sync"),
        ("lines", "async"),
        ("postgres", "sync"),
        ("postgres", "async"),
    ],
)
def test_a_run_that_is_killed_anywhere_continues(store: str, mode: str, request: pytest.FixtureRequest):
    journal = [] if store == "sqlite" else [request.getfixturevalue("postgres_url") if store == "postgres" else store]
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("killed.py"), folder, mode, *journal],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    deaths = json.loads(done.stdout)
    assert len(deaths) > 40
    unknown = 0
    for place, told in enumerate(deaths):
        assert told["answer"] == "all done", place
        assert (told["steps"], told["requests"], told["wrong"]) == (3, 3, []), place
        assert told["states"] == ["finished"], place
        assert sorted(told["results"]) == [*sorted(DONE), "2_0"], place
        for identity, effect in DONE.items():
            times = told["did"].count(effect)
            is_unknown = told["results"][identity].startswith("OutcomeUnknown")
            unknown += is_unknown
            if effect.startswith(REPEATABLE):
                assert times in (1, 2), (place, effect)
                assert not is_unknown
            else:
                assert times in ((0, 1) if is_unknown else (1,)), (place, effect)
    assert 0 < unknown < 2 * len(deaths)
    # a request is made again only if its reply was lost: the process died in it, or before the reply was written
    assert sum(told["did"].count(f"request {n}") - 1 for told in deaths for n in range(3)) <= 9
