"""The pytest plugin: tests of agents on real runs, which are recorded once and replayed from then on.

def test_weather(recorded_run):
    result = recorded_run(agent, "How warm is it in Kolkata?")
    assert "31" in result.answer

`pytest --record-runs` asks the real model and runs the real tools, and writes `recordings/test_file/test_name.jsonl`
beside the test's file; without it nothing is asked and nothing done, and a run that is no longer the recorded one fails
with the first difference.  `@pytest.mark.recorded_run("other.jsonl", any_model=True)` names the file, and says how it
is replayed, see `JsonAgent.replay`.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

OPTION = "--record-runs"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records."""
    parser.getgroup("agentkit").addoption(OPTION, action="store_true", help="record the runs of agents anew")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    text = "recorded_run(path, **how): the file of the test's recorded run, and how it is replayed"
    config.addinivalue_line("markers", text)


class RecordedRun:
    """Runs an agent: recording it, or as it was recorded; each call in a test has a file of its own."""

    def __init__(self, path: Path, how: dict[str, Any], *, records: bool) -> None:
        self._path = path
        self._how = how
        self._records = records
        self._calls = 0

    def __call__(self, agent: Any, query: str, **how: Any) -> Any:
        """The result of the run; `how` is what `agent.run` takes."""
        path = self._next()
        return (
            agent.run(query, record=path, **how)
            if self._records
            else agent.replay(self._checked(path, query), **self._how)
        )

    async def arun(self, agent: Any, query: str, **how: Any) -> Any:
        """The same, on the running event loop."""
        path = self._next()
        if self._records:
            return await agent.arun(query, record=path, **how)
        return await agent.areplay(self._checked(path, query), **self._how)

    def _next(self) -> Path:
        self._calls += 1
        path = self._path if self._calls == 1 else self._path.with_stem(f"{self._path.stem}-{self._calls}")
        if self._records:
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _checked(self, path: Path, query: str) -> Path:
        remedy = f"record it: pytest {OPTION}"
        if not path.exists():
            pytest.fail(f"no run is recorded in {path}; {remedy}", pytrace=False)
        recorded = import_module("agentkit.sessions.recordings").Recording.load(path).begin["query"]
        if recorded != import_module("agentkit.secrets").mask(query.strip()):
            pytest.fail(f"the run in {path} was asked {recorded!r}, and now {query!r} is; {remedy}", pytrace=False)
        return path


@pytest.fixture
def recorded_run(request: pytest.FixtureRequest) -> RecordedRun:
    """Runs an agent as it was recorded; `pytest --record-runs` records it."""
    marker = request.node.get_closest_marker("recorded_run")
    folder = request.path.parent / "recordings"
    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    path = folder / request.path.stem / f"{name}.jsonl"
    if marker is not None and marker.args:
        path = folder / marker.args[0]
    how = dict(marker.kwargs) if marker is not None else {}
    return RecordedRun(path, how, records=bool(request.config.getoption(OPTION)))
