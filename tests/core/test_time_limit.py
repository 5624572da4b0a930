"""A time limit for a function that cannot be interrupted."""

import threading
from contextvars import ContextVar

import pytest
from waiting import HANGS, wait_until

from agentkit import http
from agentkit.core.threads import count_abandoned
from agentkit.tools import run_within, truncate

WHO: ContextVar[str] = ContextVar("who", default="")


def test_the_outcome_of_the_function_is_returned_or_raised():
    assert run_within(5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        run_within(5, lambda: 1 / 0)


def test_the_function_runs_in_another_thread_with_the_callers_context():
    WHO.set("Ada")
    assert run_within(5, lambda: (WHO.get(), threading.current_thread() is threading.main_thread())) == ("Ada", False)


def test_without_time_the_function_is_not_called():
    with pytest.raises(TimeoutError):
        run_within(0, lambda: pytest.fail("it was called"))


def test_a_text_is_truncated_for_an_error():
    assert truncate("short") == "short"
    assert truncate("abcdef", 3) == "abc..."
    assert truncate("half \ud83d") == "half \ufffd"


@pytest.mark.parametrize(("name", "function"), [("run_within", run_within), ("truncate", truncate)])
def test_the_old_place_warns_and_names_the_new_one(name, function):
    with pytest.warns(
        DeprecationWarning, match=rf"agentkit\.http\.{name} has moved. Import it from agentkit\.tools"
    ) as caught:
        assert getattr(http, name) is function
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="has moved") as caught:
        exec(compile(f"from agentkit.http import {name}", "program.py", "exec"))
    assert caught[0].filename == "program.py"
    assert name not in http.__all__


def test_an_unknown_name_of_the_old_place_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'fetch'"):
        http.fetch  # noqa: B018


def test_a_function_that_takes_too_long_is_abandoned_and_counted_until_it_ends():
    release = threading.Event()
    wait_until(lambda: count_abandoned() == 0)  # threads of other tests
    with pytest.raises(TimeoutError):
        run_within(0.05, lambda: release.wait(HANGS))
    assert count_abandoned() == 1
    release.set()
    wait_until(lambda: count_abandoned() == 0)
