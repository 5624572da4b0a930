"""The evaluations of a journal: the outcomes of their trials, so that one whose process was killed continues.

An evaluation is a conversation without messages, named `eval:ID`.  Its texts are the outcomes of the trials, its state
says which plan it has and whether it has ended.  The runs of a trial are a conversation beside it, `eval:ID/TRIAL`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import randbits, token_hex
from typing import Any

from .. import RunError
from ..extend import (
    EVALUATION_PREFIX,
    ConversationBusy,
    Lease,
    Place,
    StateWritten,
    Store,
    Stored,
    TextStored,
    find_versions,
    fold,
    mask_data,
    opened_store,
    show,
    to_valid_text,
)
from .report import EvalReport, Trial


@dataclass
class StoredEvaluation:
    """An evaluation in a journal.

    Attributes:
        place: The journal.
        store: The journal, open.
        id: The id of the evaluation.
        key: The key of its conversation.
        state: Its plan, when it began, whether it has ended, and how long it took.
        outcomes: The outcomes of the trials so far, by their keys.
        begun: The names of the conversations that an earlier process began.
        lease: The right of this process to continue it.
    """

    place: Place
    store: Store
    id: str
    key: int
    state: dict[str, Any]
    outcomes: dict[str, Trial]
    begun: frozenset[str] = frozenset()
    lease: Lease | None = None

    @property
    def report(self) -> EvalReport:
        """The report of the trials so far, in the order in which they ended."""
        trials = [*self.outcomes.values()]
        return EvalReport(trials, self.state["began"], self.state.get("seconds", 0.0), self.state["versions"], self.id)

    def name_of(self, trial: Trial) -> str:
        """Return the name of the conversation of a trial."""
        return f"{EVALUATION_PREFIX}{self.id}/{trial.model}/{trial.case}/{trial.number}"

    def keep(self, trial: Trial) -> None:
        """Store the outcome of a trial."""
        self.outcomes[trial.key] = trial
        body = to_valid_text(json.dumps(mask_data(trial.as_dict()), ensure_ascii=False))
        self.store.append([TextStored(trial.key, body, self.key)], self.lease)

    def end(self, report: EvalReport) -> None:
        """Store that the evaluation has ended, and with which result."""
        order = [trial.key for trial in report.trials]
        result = {"models": [*report.models], "trials": len(order), "passed": len(order) - len(report.failed)}
        self._write({**self.state, "ended": True, "seconds": report.seconds, "order": order, **result})

    def _write(self, state: dict[str, Any]) -> None:
        self.state = state
        self.store.append([StateWritten(json.dumps(state), self.key)], self.lease)


@contextmanager
def opened_evaluation(place: Place, plan: str, *, fresh: bool) -> Iterator[StoredEvaluation]:
    """Yield the last evaluation of a plan if it has not ended and no process works on it, else a new one.

    Args:
        place: The journal.
        plan: The digest of the plan.
        fresh: Whether it has to be a new one.
    """
    with opened_store(place) as store:
        found = None if fresh else _continue(place, store, plan)
        if found is None:
            identity = f"{datetime.now(UTC):%Y%m%d-%H%M%S%f}-{token_hex(3)}"  # in the order of their beginnings
            key = store.claim_name(f"{EVALUATION_PREFIX}{identity}", randbits(60))
            began = datetime.now(UTC).isoformat(timespec="seconds")
            state = {"plan": plan, "began": began, "versions": find_versions(), "ended": False}
            found = StoredEvaluation(place, store, identity, key, state, {}, lease=store.take(key))
            found._write(state)
        assert found.lease is not None
        found.lease.keep()
        try:
            yield found
        finally:
            found.lease.release()


def _continue(place: Place, store: Store, plan: str) -> StoredEvaluation | None:
    """Return the newest evaluation of a plan that has not ended, with the right to continue it."""
    for found in _read(place, store):
        if found.state["plan"] == plan:
            if found.state["ended"]:
                return None
            try:
                lease = store.take(found.key)
            except ConversationBusy:
                continue
            begun = frozenset(name for name in store.names() if name.startswith(f"{EVALUATION_PREFIX}{found.id}/"))
            return replace(found, outcomes=_read_outcomes(store, found.key), begun=begun, lease=lease)
    return None


def _read(place: Place, store: Store) -> Iterator[StoredEvaluation]:
    """Yield the evaluations of a journal without their outcomes, the newest first."""
    names = {name: key for name, key in store.names().items() if name.startswith(EVALUATION_PREFIX) and "/" not in name}
    stored: Stored = fold(store.records(*names.values(), kinds=(StateWritten,))) if names else Stored()
    for name in sorted(names, reverse=True):
        state = json.loads(stored.conversation(names[name]).state)
        if "plan" in state:
            yield StoredEvaluation(place, store, name.removeprefix(EVALUATION_PREFIX), names[name], state, {})


def _read_outcomes(store: Store, key: int) -> dict[str, Trial]:
    texts = fold(store.records(key, kinds=(TextStored,))).conversation(key).read_texts()
    return {name: Trial.from_dict(data) for name, data in texts.items()}


def list_evaluations(place: Place) -> list[dict[str, Any]]:
    """Return the evaluations of a journal, the newest first: their id, when they began, and whether they have ended.

    One that has ended also has its `models`, its `trials` and how many of these `passed`.
    """
    with opened_store(place, must_exist=True) as store:
        return [{"id": found.id, **found.state} for found in _read(place, store)]


def read_evaluation(identity: str, place: Place) -> EvalReport:
    """Return the report of an evaluation of a journal, with the runs of its failed trials.

    Raises:
        RunError: No evaluation has the id.
    """
    with opened_store(place, must_exist=True) as store:
        found = next((one for one in _read(place, store) if one.id == identity), None)
        if found is None:
            raise RunError(f"no evaluation has the id {identity!r:.60}. agentkit eval --journal FILE makes one.")
        found = replace(found, outcomes=_read_outcomes(store, found.key))
        order = {key: number for number, key in enumerate(found.state.get("order", ()))}
        trials = sorted(found.report.trials, key=lambda trial: order.get(trial.key, len(order)))
        return replace(found.report, trials=[with_results(trial, place) for trial in trials])


def with_results(trial: Trial, place: Place) -> Trial:
    """Return a trial of a journal with its last run, if it has failed."""
    if trial.passed or not trial.runs:
        return trial
    return replace(trial, results=[show(trial.runs[-1], store=place).as_dict()])
