"""The runs of workers in other processes."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from agentkit.dbos import Client, RunHandle, RunStatus


def check_effects(made: list[str], statuses: Sequence[RunStatus], steps: int) -> int:
    """No effect is repeated, and none is lost unless its call is named as in doubt; returns the number of those."""
    counted = Counter(made)
    assert not [label for label, number in counted.items() if number > 1]
    missing = doubted = 0
    for status in statuses:
        assert status.state == "finished", status
        label = status.query.split()[3]
        lost = {f"effect (call_{step})" for step in range(steps) if f"{label}/{step}" not in counted}
        assert lost <= {*status.in_doubt}, status
        missing += len(lost)
        doubted += len(status.in_doubt)
    assert len(made) + missing == len(statuses) * steps
    return doubted


def submit(client: Client, number: int, seconds: float) -> list[RunHandle]:
    """Submit runs of 20 steps that take so long each."""
    return [client.submit("agent", f"effect 20 {seconds} r{place}") for place in range(number)]


def effects_at_rest(effects: Callable[[], list[str]]) -> list[str]:
    """Return the effects as soon as no more are made: calls in progress have ended, and no further one begins."""
    before: list[str] = []
    while (made := effects()) != before:
        before = made
        time.sleep(3)
    return made


def check_finished(handles: list[RunHandle], effects: Callable[[], list[str]]) -> int:
    """All runs of 20 steps finish, and no effect is repeated or lost; returns the number of calls in doubt."""
    for handle in handles:
        assert handle.result(timeout=900) == f"done {handle.status.query.split()[3]}"
    return check_effects(effects(), [handle.status for handle in handles], 20)
