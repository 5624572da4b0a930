"""The pytest plugin: tests of agents on real runs, which are recorded once and replayed afterwards.

def test_weather(recorded_run):
    result = recorded_run(agent, "How warm is it in Kolkata?")
    assert "31" in result.answer

`pytest --record-runs` asks the real model, runs the real tools and writes `recordings/test_file/test_name.jsonl` beside
the test's file; in a class, `TestClass_test_name.jsonl`.  Without it no model is asked and no tool is run; a run that
differs from the recording fails with the first difference.  `@pytest.mark.recorded_run("other.jsonl", any_model=True)`
sets the file and options of `JsonAgent.replay`.

@pytest.mark.eval_cases("cases.yaml")
def test_shop(case, check_case):
    check_case(agent, case)

runs the test with each case of a file beside it, and fails it with what is wrong.  With `recorded=True` in the marker,
the runs are recorded and replayed as above.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

RECORD_OPTION = "--record-runs"
_REMEDY = f"record it: pytest {RECORD_OPTION}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records."""
    parser.getgroup("agentkit").addoption(RECORD_OPTION, action="store_true", help="record the runs of agents again")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    text = "recorded_run(path, **options): the file of the test's recorded run, and options of JsonAgent.replay"
    config.addinivalue_line("markers", text)
    text = "eval_cases(path, recorded=False): run the test with each case of a file, as the argument case"
    config.addinivalue_line("markers", text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test the cases of its marker."""
    marker = metafunc.definition.get_closest_marker("eval_cases")
    if marker is not None:
        if "case" not in metafunc.fixturenames:
            pytest.fail(f"{metafunc.function.__name__}: eval_cases needs the argument case", pytrace=False)
        if not marker.args:
            text = f"{metafunc.function.__name__}: eval_cases needs a file. Write @pytest.mark.eval_cases('cases.yaml')"
            pytest.fail(text, pytrace=False)
        cases = import_module("agentkit.evals").read_cases(metafunc.definition.path.parent / marker.args[0])
        metafunc.parametrize("case", cases, ids=str)


class CheckCase:
    """Runs a case with an agent, and fails the test with what is wrong."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __call__(self, agent: Any, case: Any, **options: Any) -> Any:
        """Return the trials, all of which passed; `options` are those of `agentkit.evals.evaluate`."""
        evaluate = import_module("agentkit.evals").evaluate
        report = evaluate(agent, [case], **{"progress": False, **self._options, **options})
        if not report.passed:
            text = str(report)
            if "replay" in self._options and any(trial.error for trial in report.trials):
                text = text.replace(f" Record it: --record {self._options['replay']}", "")
                text += f"\nThe runs are replayed. If the change is meant, {_REMEDY}"
            pytest.fail(text, pytrace=False)
        return report.trials


@pytest.fixture
def check_case(request: pytest.FixtureRequest) -> CheckCase:
    """Run a case with an agent; with `recorded=True` in the marker, from its recordings unless they are made."""
    marker = request.node.get_closest_marker("eval_cases")
    if marker is None or not marker.kwargs.get("recorded"):
        return CheckCase({})
    has_others = request.node.callspec.params.keys() != {"case"}
    name = _name_file(request.node.nodeid) if has_others else request.function.__qualname__
    folder = request.path.parent / "recordings" / request.path.stem / name
    return CheckCase({"record" if request.config.getoption(RECORD_OPTION) else "replay": folder})


class RecordedRun:
    """Runs an agent and records the run, or replays the recording; each call in a test has its own file."""

    def __init__(self, path: Path, replay_options: dict[str, Any], *, records: bool) -> None:
        self._path = path
        self._replay_options = replay_options
        self._records = records
        self._calls = 0

    def __call__(self, agent: Any, query: str, **options: Any) -> Any:
        """Return the result of the run; `options` are those of `agent.run` and apply to recording only."""
        path = self._next_path(query)
        if self._records:
            return agent.run(query, record=path, **options)
        with _noting_remedy():
            return agent.replay(path, **self._replay_options)

    async def arun(self, agent: Any, query: str, **options: Any) -> Any:
        """Return the result of the run, on the running event loop."""
        path = self._next_path(query)
        if self._records:
            return await agent.arun(query, record=path, **options)
        with _noting_remedy():
            return await agent.areplay(path, **self._replay_options)

    def _next_path(self, query: str) -> Path:
        """Return the file of this call; fail the test if `query` is not recorded there and has to be."""
        self._calls += 1
        path = self._path if self._calls == 1 else self._path.with_stem(f"{self._path.stem}-{self._calls}")
        if self._records:
            path.parent.mkdir(parents=True, exist_ok=True)
            return path
        if not path.exists():
            pytest.fail(f"no run is recorded in {path}; {_REMEDY}", pytrace=False)
        recorded = import_module("agentkit.sessions.recordings").Recording.load(path).begin["query"]
        if recorded != import_module("agentkit.secrets").mask(query.strip()):
            pytest.fail(
                f"{path}: the recorded query is {recorded!r}, the test's is {query!r}; {_REMEDY}", pytrace=False
            )
        return path


@contextmanager
def _noting_remedy() -> Iterator[None]:
    """Add what to do to the error of a run that differs from its recording."""
    try:
        yield
    except import_module("agentkit.testing").ReplayDiffers as error:
        error.add_note(f"If the change is meant, {_REMEDY}")
        raise


def _name_file(test: str) -> str:
    """Return the name of a test's file; no other test of its module has the same one."""
    test = test.partition("::")[2]
    name = re.sub(r"[^\w.-]+", "_", test).strip("_")
    if re.fullmatch(r"[\w:]+(\[[\w.-]+\])?", test):
        return name
    return f"{name}-{blake2b(test.encode(), digest_size=4).hexdigest()}"  # other parameters may be written the same


@pytest.fixture
def recorded_run(request: pytest.FixtureRequest) -> RecordedRun:
    """Run an agent from its recording; `pytest --record-runs` records it."""
    marker = request.node.get_closest_marker("recorded_run")
    folder = request.path.parent / "recordings"
    path = folder / request.path.stem / f"{_name_file(request.node.nodeid)}.jsonl"
    if marker is not None and marker.args:
        path = folder / marker.args[0]
    options = dict(marker.kwargs) if marker is not None else {}
    return RecordedRun(path, options, records=bool(request.config.getoption(RECORD_OPTION)))
