"""Random runs, stopped at a random write of the journal and continued, until they have their answer."""

import asyncio
import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import patch_append

from agentkit import JsonAgent, Session, tool
from agentkit.engine.history import check_history
from agentkit.journal import runs
from agentkit.testing import ScriptedModel

TURNS = st.lists(
    st.lists(st.tuples(st.sampled_from(["act", "aact", "change", "look"]), st.integers(0, 99)), min_size=1, max_size=4),
    min_size=1, max_size=4, unique_by=str,
)  # fmt: skip
QUERY = "Go"


class Death(BaseException):
    """What the process dies of: nothing is written any more."""


class Life:
    """A process that dies at its n-th write, before or after it."""

    def __init__(self, writes: int, *, is_written: bool) -> None:
        self.left = writes
        self.is_written = is_written

    def append(self, write, _, statements) -> None:
        if self.left > 0 or (self.left == 0 and self.is_written):
            write(statements)
        self.left -= 1
        if self.left < 0:
            raise Death


def agent_of(turns, did: list[tuple[int, str, int]], path: Path) -> JsonAgent:
    @tool(effect=None)
    def act(number: int) -> int:
        """Acts."""
        did.append(number)
        return number

    async def aact(number: int) -> int:
        """Acts."""
        did.append(number)
        return number

    @tool(effect="write")
    def change(number: int) -> int:
        """Changes."""
        did.append(number)
        return number

    @tool(effect="read")
    def look(number: int) -> int:
        """Looks."""
        did.append(number)
        return number

    def reply(request):
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn == len(turns):
            return {"tool_calls": [{"id": "last", "name": "final_answer", "arguments": {"text": "done"}}]}
        calls = [
            {"id": f"{turn}_{place}", "name": name, "arguments": {"number": turn * 10_000 + place * 1000 + number}}
            for place, (name, number) in enumerate(turns[turn])
        ]
        return {"tool_calls": calls}

    return JsonAgent([act, aact, change, look], model=ScriptedModel(*[reply] * 50), journal=path)


def played(agent: JsonAgent, mode: str, query: str | None, session: Session | None):
    if mode == "sync":
        return agent.run(query, session=session)
    if mode == "async":
        return asyncio.run(agent.arun(query, session=session))
    return [*agent.stream(query, session=session)][-1].result


@settings(max_examples=60, deadline=None)
@given(
    TURNS,
    st.lists(st.tuples(st.integers(0, 25), st.booleans()), max_size=4),
    st.sampled_from(["sync", "async", "stream"]),
)
def test_a_run_that_dies_again_and_again_comes_to_its_answer(turns, deaths, mode):
    did: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.db")
        result = None
        known = []
        for writes, is_written in itertools.chain(deaths, [(10_000, True)]):
            kept = runs(path) if path.exists() else []
            life = Life(writes, is_written=is_written)
            with pytest.MonkeyPatch.context() as patched:
                patch_append(patched, life.append)
                try:
                    session = Session.resumed(kept[0].id, path) if kept else None
                    told = session.messages if session else []
                    assert [m for m in told[1 : len(known)] if m["role"] != "tool"] == [
                        m for m in known[1:] if m["role"] != "tool"
                    ]
                    known = [*told]
                    result = played(agent_of(turns, did, path), mode, None if kept else QUERY, session)
                    break
                except Death:
                    pass
        assert result is not None
        assert result.answer == "done"
        assert check_history(result.messages) == []
        assert [(run.state, run.steps) for run in runs(path)] == [("finished", len(turns) + 1)]
    said = {m["tool_call_id"]: m["content"] for m in result.messages if m["role"] == "tool"}
    for turn, calls in enumerate(turns):
        for place, (name, number) in enumerate(calls):
            times = did.count(turn * 10_000 + place * 1000 + number)
            text = said[f"{turn}_{place}"]
            if name == "look":
                assert times >= 1
                assert "OutcomeUnknown" not in text
            else:
                assert times in ((0, 1) if "OutcomeUnknown" in text else (1,)), (name, text)
