"""What a store of runs must do, as checks that a test of a store calls."""

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeAlias

from ..sessions.journal.store import ConversationBusy, JournalError, Lease, LeaseLost, RunFilter, Store
from ..sessions.records import (
    ConversationCut,
    ConversationNamed,
    ConversationTagged,
    ConversationTitled,
    MessageWritten,
    Record,
    RunBegun,
    RunConcluded,
    RunEntry,
    RunReopened,
    StateWritten,
    StepBegun,
    StepEnded,
    StepWithdrawn,
    Stored,
    TextStored,
    fold,
)

MakeStore: TypeAlias = Callable[[], Store]
THREADS = 8


def check_store(make_store: MakeStore) -> None:
    """Check that a store keeps all promises of `agentkit.extend.Store`.

    Args:
        make_store: Opens the store; each call opens the same one again, as another process would.  If its leases end
            after `lease_seconds`, make that short: the checks wait for it.

    Raises:
        AssertionError: A promise is broken; the message names it.
    """
    for check in CHECKS:
        with closing(make_store()) as store:
            check(store, make_store)


def new_key() -> int:
    """Return the key of a conversation that no store has."""
    return secrets.randbits(60)


def begin(key: int, run: str = "", **more: Any) -> RunBegun:
    """Return the begin of a run that no store has."""
    return RunBegun(run or secrets.token_hex(6), "Go", "model", 1, time.time(), key, '["Be brief.",{}]', **more)


def read(store: Store, key: int) -> Stored:
    """Return a conversation with its runs, as the store has them."""
    try:
        return fold(store.records(*store.runs(RunFilter(conversations=[key])), key))
    except LookupError as error:
        raise AssertionError("store: records are returned in an order that fold can read") from error


def entries(store: Store, key: int) -> dict[str, tuple[Any, ...]]:
    """Return what the store lists of the runs of a conversation."""
    return _describe(store.runs(RunFilter(conversations=[key])))


def _describe(runs: Iterable[RunEntry]) -> dict[str, tuple[Any, ...]]:
    return {run.id: (run.query, run.first, run.last, run.begun, run.ended, run.status, run.outcome) for run in runs}


@contextmanager
def expect(error: type[JournalError], promise: str) -> Iterator[None]:
    """Raise `AssertionError` with the promise unless the block raises the error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"store: {promise}: expected {error.__name__}")


def promise(is_kept: object, text: str) -> None:
    """Raise `AssertionError` unless a promise is kept."""
    if not is_kept:
        raise AssertionError(f"store: {text}")


def whole_run(key: int) -> list[Record]:
    """Return records of each kind, of two runs of a conversation."""
    first = begin(key)
    second = begin(key)
    of_first: Any = {"run": first.run, "conversation": key}
    return [
        first,
        ConversationNamed(f"name {key}", key),
        ConversationTitled("A first title", key),
        ConversationTitled("Ada's refund \u00fc", key),
        ConversationTagged("first", key),
        ConversationTagged("refund 2026", key),
        MessageWritten(0, '{"role":"system","content":"Be brief."}', key),
        MessageWritten(1, '{"role":"user","content":"Go \\u2028 \\u00fc \\u0000"}', key),
        StepBegun(1, "", "model", None, 7, 1.5, **of_first),
        StepEnded(1, "", '{"usage":{"requests":1}}', 2.5, **of_first),
        MessageWritten(2, '{"role":"assistant","content":"Wrong."}', key),
        MessageWritten(3, '{"role":"user","content":"Too much."}', key),
        MessageWritten(2, '{"role":"assistant","content":"Right."}', key),
        ConversationCut(3, key),
        StepBegun(1, "call_1", "pay", '{"euros":1}', 8, 3.5, **of_first),
        StepEnded(1, "call_1", '{"text":"paid","images":["x"]}', 4.5, **of_first),
        StepEnded(1, "call_1", '{"text":"paid"}', None, **of_first),
        StepBegun(1, "call_2", "pay", None, 9, 5.5, **of_first),
        StepWithdrawn(1, "call_2", **of_first),
        TextStored("#1", '"a long text"', key),
        TextStored("#2", '"another"', key),
        TextStored("#2", None, key),
        StateWritten('{"inbox":["old"]}', key),
        StateWritten('{"inbox":[]}', key),
        RunConcluded("failed", '{"error":"down"}', 6.5, None, **of_first),
        RunReopened(first.run, key),
        RunConcluded("paused", '{"error":"asks"}', 7.5, None, **of_first),
        second,
        RunConcluded("finished", '{"answer":"Right."}', 8.5, 3, second.run, key),
    ]


def check_records(store: Store, make_store: MakeStore) -> None:
    key = new_key()
    written = whole_run(key)
    versions = {store.version(key)}
    for record in written:
        store.append([record])
        versions.add(store.version(key))
    promise(len(versions) > len(written) / 2, "the version of a conversation changes when a run writes")
    expected = fold(written)
    with closing(make_store()) as other:
        for opened, where in ((store, ""), (other, " when the store is opened again")):
            found = read(opened, key)
            old = expected.conversation(key)
            new = found.conversation(key)
            promise(new.messages == old.messages, f"the last message of each place is returned, in order{where}")
            promise(new.read_texts() == old.read_texts(), f"the texts are returned, but for removed ones{where}")
            promise((new.state, new.name) == (old.state, old.name), f"the last state and the name are returned{where}")
            promise(new.title == old.title, f"the last title is returned{where}")
            promise(new.tags == old.tags, f"the last tags are returned{where}")
            promise({**found.steps} == {**expected.steps}, f"the steps are returned, but for withdrawn ones{where}")
            promise(found.setups == expected.setups, f"the setups are returned{where}")
            listed = _describe(expected.runs.values())
            promise(entries(opened, key) == listed, f"runs are listed as they ended or were superseded{where}")
            promise(opened.count_messages(key) == len(old.bodies), f"the messages are counted{where}")
    store.append([*written[:2]])
    promise(entries(store, key) == listed, "a write may be repeated")
    store.append([ConversationTitled("", key)])
    titled = fold(store.records(key, kinds=(ConversationTitled,)))
    promise(titled.conversation(key).title == "", "an empty title removes the title")
    some = fold(store.records(*store.runs(RunFilter(conversations=[key])), key, kinds=(StepBegun, StepEnded)))
    promise({**some.steps} == {**expected.steps}, "with kinds, withdrawn steps are left out, too")
    bodies = fold(store.records(key, kinds=(MessageWritten,))).conversation(key).bodies
    promise(len(bodies) == len(expected.conversation(key).bodies), "with kinds, cut messages are left out, too")


def check_atomic(store: Store, make_store: MakeStore) -> None:  # noqa: ARG001
    key = new_key()
    wrong: Any = object()  # is not JSON
    with suppress(Exception):
        store.append([MessageWritten(0, '{"role":"user","content":"a"}', key), MessageWritten(1, wrong, key)])
    promise(store.count_messages(key) in (0, 2), "a write that fails leaves nothing")


def check_runs(store: Store, make_store: MakeStore) -> None:  # noqa: ARG001
    key = new_key()
    outer = begin(key)
    branch = begin(new_key())
    inner = begin(new_key(), origin=f"{outer.run}/call_1")
    later = begin(new_key(), origin=f"{outer.run}:2")
    records = [outer, branch, inner, later]
    for record in records:
        store.append([record])
    store.append([RunConcluded("finished", '{"answer":1}', 2.0, 1, branch.run, branch.conversation)])
    known = {record.run for record in records}
    everything = [run for run in store.runs() if run.id in known]
    promise(len(everything) == len(known), "all runs are listed")
    for wanted in (
        RunFilter(ids=[outer.run, later.run]),
        RunFilter(ids=[]),
        RunFilter(prefix=outer.run[:9], ids=known),
        RunFilter(conversations=[key, inner.conversation]),
        RunFilter(inside=outer.run),
        RunFilter(inside="none"),
        RunFilter(is_inner=True, ids=known),
        RunFilter(is_inner=False, ids=known),
        RunFilter(is_unfinished=True, ids=known),
        RunFilter(before=inner.begun, ids=known),
        RunFilter(ids=known, limit=2),
    ):
        expected = [run.id for run in wanted.choose(everything)]
        promise([run.id for run in store.runs(wanted)] == expected, f"runs({wanted}) returns the newest first")


def check_claims(store: Store, make_store: MakeStore) -> None:
    first = new_key()
    second = new_key()
    name = f"Ada {secrets.token_hex(4)}"
    with closing(make_store()) as other:
        promise(store.claim_name(name, first) == first, "claim_name gives a free name to the conversation")
        promise(other.claim_name(name, second) == first, "claim_name returns the conversation that has the name")
        store.append([ConversationNamed(name, second)])
        promise(other.names(name) == {name: second}, "names returns the wanted names alone")
        promise(other.names().get(name) == second, "ConversationNamed takes a name from the conversation that had it")
        store.append([TextStored("tea", '"Green."', second)])
        texts = fold(other.records(second, kinds=(TextStored,))).conversation(second).read_texts()
        promise(texts == {"tea": "Green."}, "a named conversation without runs keeps its texts")


def check_leases(store: Store, make_store: MakeStore) -> None:
    key = new_key()
    with closing(make_store()) as other:
        lease = store.take(key)
        lease.keep()
        for opened in (store, other):
            promise(opened.holder(key), "holder names the process that has a lease")
            with expect(ConversationBusy, "a lease is given once"):
                opened.take(key, "the run")
        other.take(new_key()).release()
        store.append([StateWritten("{}", key)], lease)
        store.keep(lease)
        lease.release()
        lease.release()
        promise(not other.holder(key), "holder returns nothing for a conversation that is free")
        other.take(key).release()
        store.release(lease)


def check_lost_leases(store: Store, make_store: MakeStore) -> None:
    if store.lease_seconds is None:
        return
    key = new_key()
    with closing(make_store()) as other:
        lease = _keep_for_a_while(store, other, key, store.lease_seconds)
        taken = _take_when_free(other, key, store.lease_seconds)
        taken.keep()
        with expect(LeaseLost, "nothing is written with a lease that another process has taken"):
            store.append([MessageWritten(0, '{"role":"user","content":"late"}', key)], lease)
        promise(not store.count_messages(key), "nothing is written with a lease that another process has taken")
        with expect(LeaseLost, "keep refuses a lease that another process has taken"):
            store.keep(lease)
        store.release(lease)
        promise(store.holder(key), "the release of a lost lease does not end the lease of another process")
        taken.release()


def _keep_for_a_while(store: Store, other: Store, key: int, seconds: float) -> Lease:
    """Return a lease kept for twice its seconds; begin again when this process itself stood still for longer."""
    lease = store.take(key)
    begun = kept = time.monotonic()
    while time.monotonic() < begun + 2 * seconds:
        held = ""
        now = time.monotonic()
        with suppress(LeaseLost):
            store.keep(lease)
            held = other.holder(key)
        if not held and time.monotonic() - kept >= seconds:
            lease = _take_when_free(store, key, seconds)
            begun = now = time.monotonic()
        else:
            promise(bool(held), "keep extends a lease")
        kept = now
        time.sleep(seconds / 4)
    return lease


def _take_when_free(store: Store, key: int, seconds: float) -> Lease:
    end = time.monotonic() + 10 * seconds
    while time.monotonic() < end:
        with suppress(ConversationBusy):
            return store.take(key)
        time.sleep(seconds / 4)
    raise AssertionError("store: a lease that nothing keeps ends after lease_seconds")


def check_removal(store: Store, make_store: MakeStore) -> None:  # noqa: ARG001
    key = new_key()
    kept = new_key()
    store.append([*whole_run(key)])
    store.append([begin(kept)])
    second, first = store.runs(RunFilter(conversations=[key]))
    store.remove([first])
    promise([*entries(store, key)] == [second.id], "remove removes a run")
    promise(not read(store, key).steps.get(first.id), "remove removes the steps of a run")
    promise(read(store, key).conversation(key).messages, "a conversation stays as long as it has a run")
    store.remove([second])
    store.compact()
    rest = read(store, key).conversation(key)
    promise(not entries(store, key), "remove removes a run")
    promise(not rest.bodies and not rest.texts, "a conversation goes with its last run")
    promise(f"name {key}" not in store.names(), "a name goes with its conversation")
    promise(entries(store, kept), "other runs stay")


def check_threads(store: Store, make_store: MakeStore) -> None:  # noqa: ARG001
    keys = [new_key() for _ in range(THREADS)]
    contested = new_key()
    ready = threading.Barrier(THREADS)

    def use(key: int) -> Lease | None:
        ready.wait()
        with suppress(ConversationBusy):
            lease = store.take(contested)
            lease.keep()
            return lease
        for place in range(THREADS):
            store.append([MessageWritten(place, '{"role":"user","content":"a"}', key)])
        return None

    with ThreadPoolExecutor(THREADS) as pool:
        leases = [lease for lease in pool.map(use, keys) if lease is not None]
    promise(len(leases) == 1, "one of several threads gets a lease")
    leases[0].release()
    counted = sorted(store.count_messages(key) for key in keys)
    promise(counted == [0, *[THREADS] * (THREADS - 1)], "what several threads write is there")
    promise(store.read_together(lambda: store.count_messages(keys[0])) in (0, THREADS), "read_together returns a value")


def check_quotas(store: Store, make_store: MakeStore) -> None:
    """Dollars of an account are set aside for one run at a time, if the store has the methods of `QuotaStore`."""
    if not hasattr(store, "reserve") and not hasattr(store, "settle"):
        return
    kept: Any = store
    account = secrets.token_hex(6)
    with closing(make_store()) as opened:
        other: Any = opened
        promise(kept.reserve(account, "one", 0.0, (0.5, 2.0), 3.0) == 2.0, "a run sets aside what it wants")
        promise(other.reserve(account, "two", 0.0, (0.5, 2.0), 3.0) == 1.0, "another one gets what is left")
        promise(kept.reserve(account, "three", 0.0, (0.5, 2.0), 3.0) is None, "with less than the least there is None")
        for _ in range(2):
            kept.settle(account, "one", 0.5, 0.5)
        promise(kept.reserve(account, "three", 0.0, (0.5, 2.0), 3.0) == 1.0, "a settled run counts once")
        for name, spent in {"one": 0.5, "two": 1.0, "three": 0.0}.items():
            kept.settle(account, name, spent, 0.0)
        promise(kept.reserve(account, "four", 0.0, (0.5, 2.0), 3.0) == 1.5, "runs that have ended count")
        ready = threading.Barrier(THREADS)

        def use(number: int) -> float:
            ready.wait()
            return kept.reserve(account, f"run {number}", 0.0, (0.5, 1.0), 8.0) or 0.0

        with ThreadPoolExecutor(THREADS) as pool:
            promise(sum(pool.map(use, range(THREADS))) == 5.0, "several threads set aside no more than there is")


def check_search(store: Store, make_store: MakeStore) -> None:
    """Messages are found by their words, if the store has the method of `SearchStore`."""
    if not hasattr(store, "search"):
        return
    found: Any = store
    key = new_key()
    rare = f"rare{secrets.token_hex(6)}"
    message = f'{{"role":"user","content":"The {rare.upper()} bird"}}'
    run = begin(key)
    store.append(
        [run, MessageWritten(0, '{"role":"system","content":"Be brief."}', key), MessageWritten(1, message, key)]
    )
    with closing(make_store()) as other:
        stores: tuple[Any, ...] = (found, other)
        for opened in stores:
            hits = [(hit.conversation, hit.place) for hit in opened.search([rare[:-1], "bir"], 9)]
            promise(hits == [(key, 1)], "a message is found by beginnings of its words")
            promise(not opened.search([rare, "fish"], 9), "a message is found that has all words")
    store.remove([*store.runs(RunFilter(conversations=[key]))])
    promise(not found.search([rare], 9), "removed messages are not found")


CHECKS: Sequence[Callable[[Store, MakeStore], None]] = (
    check_records,
    check_atomic,
    check_runs,
    check_claims,
    check_leases,
    check_lost_leases,
    check_removal,
    check_threads,
    check_quotas,
    check_search,
)
