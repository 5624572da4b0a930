"""Decisions about tool calls, each bound to the name and the arguments that it was made about."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..core.approval_question import PersonAnswer, Scope, UntrustedValue
from ..core.errors import RunError
from ..core.messages import ToolCall
from ..core.portable import to_canonical_text
from ..tools.execution.call import BoundCall
from ..tools.settings import REPEATABLE_EFFECTS

Decision: TypeAlias = bool | str | dict[str, Any]
"""True: run the call; False or a reason: refuse it, and the model reads why; a dict: run it with these arguments."""


def digest_call(call: ToolCall) -> str:
    """Return a digest of a call's name and arguments, followed by the name; the layout of the JSON does not matter."""
    text = f"{call.name}\0{to_canonical_text(call.arguments)}".encode(errors="surrogatepass")
    return f"{hashlib.sha256(text).hexdigest()}:{call.name}"


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision, the digest of the call that it was made about (None in a replay), and what else it holds for."""

    decision: Decision
    digest: str | None
    scope: Scope = "call"

    def fits(self, call: ToolCall) -> bool:
        """Return whether the decision is about this call; for one with new arguments, the name alone counts."""
        if self.digest is None:
            return True
        if isinstance(self.decision, dict):
            return self.digest.partition(":")[2] == call.name
        return self.digest == digest_call(call)


def find_allowable(bound: BoundCall) -> Sequence[UntrustedValue]:
    """Return the values of a call that can be allowed from now on; none of a dangerous tool."""
    return () if bound.tool is not None and bound.tool.effect == "danger" else bound.untrusted


@dataclass(eq=False)
class Grants:
    """What a person allowed from now on: values of a tool's parameters that need no further decision.

    Grants hold in the conversation and the process in which they were given; no file contains them.
    """

    values: set[tuple[str, str, str]] = field(default_factory=set)
    recipients: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, tool: str, untrusted: Sequence[UntrustedValue], scope: Scope) -> None:
        """Allow the untrusted values of a call, or its destinations, if that is the scope of the decision."""
        if scope == "values":
            self.values |= {_key(tool, value) for value in untrusted}
        elif scope == "recipients":
            self.recipients |= {_key(tool, value) for value in untrusted if value.is_destination}

    def cover(self, tool: str, untrusted: Sequence[UntrustedValue]) -> bool:
        """Return whether a call of the tool with these untrusted values is allowed without a decision.

        Each value must be allowed, or each destination, of which there is one: then the other values do not matter.
        """
        destinations = [value for value in untrusted if value.is_destination]
        keys = {_key(tool, value) for value in untrusted}
        if not keys:
            return False
        return keys <= self.values or (
            bool(destinations) and {_key(tool, value) for value in destinations} <= self.recipients
        )


def _key(tool: str, value: UntrustedValue) -> tuple[str, str, str]:
    return tool, re.sub(r"\[\d+\]", "[]", value.where), json.dumps([value.value, value.readers])


@dataclass(eq=False)
class Approvals:
    """The pending calls of a conversation and the decisions about them, by the ids of the calls.

    Decisions stay in the process: a file of a session or a journal does not bring any.

    Attributes:
        waiting: The digests of the calls that wait, as they were when the run paused.
        decisions: What was decided and not yet carried out.
        nested: The sessions of agents that paused inside a tool, by the id of the tool's call (of an agent that a
            function calls: by its id inside that call).  Their calls have the ids "outer id/inner id" here.
        inner_answers: The answers of agents that a function has called, in case the function runs again, by their ids.
        grants: What a person allowed from now on.
        begun: Decisions about calls that a journal answers, because they had begun when the run stopped.
    """

    waiting: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, StoredDecision] = field(default_factory=dict)
    nested: dict[str, Any] = field(default_factory=dict)
    inner_answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    grants: Grants = field(default_factory=Grants)
    begun: dict[str, Decision] = field(default_factory=dict)

    def accept(self, approvals: Mapping[Any, Any], pending: Iterable[ToolCall]) -> None:
        """Store decisions of the caller, by calls or by their ids.

        A decision is about the call as it was when the run paused, or, where the key is a `ToolCall`, about exactly
        that call.

        Raises:
            RunError: No pending call has the id, or the value is not a decision.
        """
        known = {call.id: call for call in pending}
        accepted = {}
        for key, decision in approvals.items():
            identity = key.id if isinstance(key, ToolCall) else key
            if identity not in known:
                ids = ", ".join(map(repr, sorted(known))) or "none"
                raise RunError(f"approvals: no pending call has the id {identity!r}. Pending: {ids}.")
            if isinstance(decision, StoredDecision):
                accepted[identity] = decision
                continue
            answer = decision if isinstance(decision, PersonAnswer) else PersonAnswer(decision)
            if not isinstance(answer.decision, bool | str | dict):
                raise RunError(
                    f"approvals[{identity!r}] must be True, False, a reason (str) or other arguments (dict), "
                    f"got {type(decision).__name__}"
                )
            digest = digest_call(key) if isinstance(key, ToolCall) else self.find_digest(identity)
            accepted[identity] = StoredDecision(answer.decision, digest or digest_call(known[identity]), answer.scope)
        self.decisions.update(accepted)

    def find_digest(self, identity: str) -> str | None:
        """Return the digest of a waiting call, also of one inside a tool; None if it did not wait."""
        if identity in self.waiting:
            return self.waiting[identity]
        for outer, session in self.nested.items():
            if identity.startswith(f"{outer}/"):
                digest: str | None = session.approvals.find_digest(identity.removeprefix(f"{outer}/"))
                return digest
        return None

    def take_inner(self, outer: str) -> dict[str, StoredDecision]:
        """Remove and return the decisions about the calls inside a call, by their ids there."""
        prefix = f"{outer}/"
        keys = [key for key in self.decisions if key.startswith(prefix)]
        return {key.removeprefix(prefix): self.decisions.pop(key) for key in keys}

    def forget_inner(self, call: str) -> None:
        """Remove what is stored of agents inside a call that has its result."""
        for stored in (self.nested, self.inner_answers):
            for key in [key for key in stored if key == call or key.startswith(f"{call}/")]:
                del stored[key]

    def take(self, bound: BoundCall) -> Decision | None:
        """Remove and return the decision about a call; None without one, or if it was made about another call."""
        stored = self.decisions.pop(bound.call.id, None)
        if stored is not None and stored.fits(bound.call):
            self.grants.add(bound.call.name, find_allowable(bound), stored.scope)
            return stored.decision
        is_repeated = bound.tool is not None and bound.tool.effect in REPEATABLE_EFFECTS
        return None if is_repeated else self.begun.pop(bound.call.id, None)

    def store(self, call: ToolCall, decision: Decision) -> None:
        """Store a decision about a call, in case the run stops before the call has run."""
        self.decisions[call.id] = StoredDecision(decision, digest_call(call))
