"""The options of a run: from the arguments of `run`, `resume`, `fork` and `replay` to the request of one run."""

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, fields, replace
from typing import Any, TypeAlias, TypedDict

from ..core.ask_person import PersonAnswer
from ..core.context import enclosing
from ..core.errors import DefinitionError, RunError, suggest
from ..core.flow import Listener, Policy
from ..core.messages import USER, Label, Message, ToolCall, user, with_label
from ..core.parts import Query, read_query
from ..core.pending import Pending
from ..core.portable import to_valid_text
from ..core.values import frozen
from ..engine.model import Model
from ..policies.limits import Limits, find_limit
from ..policies.pending import Decision, Given, StoredDecision, join_given
from ..policies.quota import Quota
from ..policies.taint.origins import EnclosingCall
from ..sessions.journal.maintenance import DEFAULT_PATH, fork
from ..sessions.journal.store import Journal, JournalError, JournalErrors, JournalLocation, resolve_journal
from ..sessions.journal.writer import Changed, StoredAnswer, Uncertain
from ..sessions.recordings import Recording, Replay, read_journaled
from ..sessions.session import Session
from ..tools.registry import ToolRegistry
from ..tools.results.result_text import render_text
from ..tools.results.tables import is_frame
from ..tools.toolset import split_toolsets
from .backends import OTHER_TERMS, PARAMETER_TERMS
from .handoffs import change_last
from .spec import Agent, AgentSpec, Settings, add_tools

_Decided: TypeAlias = Decision | StoredDecision | PersonAnswer
Approved: TypeAlias = Mapping[str, _Decided] | Mapping[ToolCall, _Decided] | Mapping[Pending, _Decided] | None
"""Decisions by what waits, by its call or by its id."""
ModelChoice: TypeAlias = str | Model | None


@frozen
class RunRequest:
    """How one run is made: its session and its options; what it is asked travels beside it.

    `settings` are the `RunSettings` among the options.
    """

    session: Session
    stream: bool = False
    model: ModelChoice = None
    journal: JournalLocation = None
    record: str | os.PathLike[str] | None = None
    replay: Replay | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: Given | None = None
    tool: str = ""
    """The name of the tool that the agent is, where the run is such a call."""
    stored: StoredAnswer | None = None
    """The answer that the run has already given."""
    is_dry: bool = False
    """Whether only calls that read are made, see `policies.approval`; no journal has such a run."""
    report: Listener | None = None
    """Gets every event of this run for the enclosing one."""
    outer: Session | None = None
    """The session of the enclosing run, if this run shares its state and its hidden results."""
    state: dict[str, Any] | None = None
    """The `RunContext.state` of the enclosing run, if this run shares it."""


class RunSettings(TypedDict, total=False):
    """Options of a run that replace those of its agent; `listeners` and `policies` are added to the agent's.

    `temperature` and the options below it go to the model, see `JsonAgent`.  Agents inside tools keep their own; one
    without `deps` gets those of the run.
    """

    deps: Any
    limits: Limits | None
    quota: Quota | None
    max_steps: int
    listeners: Sequence[Listener]
    policies: Sequence[Policy]
    temperature: float
    top_p: float
    max_tokens: int
    stop: str | list[str]
    seed: int
    reasoning_effort: str
    extra_body: dict[str, Any]
    extra_headers: dict[str, str]


class RunOptions(RunSettings, total=False):
    """Options of a run, see `JsonAgent.__call__`."""

    model: ModelChoice
    session: Session | None
    approvals: Approved
    answers: Given | None
    journal: JournalLocation
    journal_errors: JournalErrors | None
    record: str | os.PathLike[str] | None
    label: Label | None
    dry_run: bool


class ResumeOptions(RunSettings, total=False):
    """Options of a run that is resumed.

    Calls that were in progress when the run stopped are repeated if their tool is declared "read" or "idempotent".
    For any other call the model is informed that the outcome is unknown, unless `on_uncertain` decides: a function of
    the call, or "ask" for the person at the terminal, returns True to repeat the call, or its result.  A run is not
    resumed by an agent with other tools or another instruction; `changed="go on"` allows that.
    """

    model: ModelChoice
    approvals: Approved
    answers: Given | None
    journal: JournalLocation
    on_uncertain: Uncertain
    changed: Changed


class ForkOptions(ResumeOptions, total=False):
    """Options of a branch of a run: also its tools and its instruction, if they are not the agent's.

    `edit` has other texts for what the branch begins with: of results by the ids of their calls, of messages by their
    indexes.
    """

    tools: Iterable[Any] | None
    instruction: str
    edit: Mapping[str | int, str]


class ReplayOptions(TypedDict, total=False):
    """Options of a run that is replayed; recorded decisions about calls are used again.

    `execute` runs the tools, and asks for approvals; `any_model` accepts another provider's model; `timed` streams
    with the recorded delays.  With `journal` the run of that id in the journal is replayed, instead of a file.
    """

    execute: bool
    any_model: bool
    timed: bool
    journal: JournalLocation


_AGENT_OPTIONS = {
    *(option.name for option in fields(Settings)),
    "max_steps",
    "tools",
    "description",
    "answer",
    "fallback_models",
    "handoffs",
    "extensions",
    "timeout",
}


def make_request(agent: Agent, how: RunOptions, *, stream: bool = False) -> RunRequest:
    """Return the request on the session in `how` or that of the agent; raise `TypeError` for an unknown option."""
    if how:
        check_names("run", how, RunOptions.__optional_keys__)
    session = how.get("session")
    if session is None:
        session = agent.session if agent.spec.memory else Session()
    if not isinstance(session, Session):
        hint = f" Session.load({session!r}) reads a saved one." if isinstance(session, str | os.PathLike) else ""
        hint = " Session(messages) makes one." if isinstance(session, list) else hint
        raise RunError(f"session must be a Session, got {session!r:.80}.{hint}")
    record = how.get("record")
    if record is not None and not isinstance(record, str | os.PathLike):
        raise DefinitionError(f"record must be the path of a file, got {record!r:.80}")
    is_dry = how.get("dry_run", False)
    if not isinstance(is_dry, bool):
        raise DefinitionError(f"dry_run must be True or False, got {is_dry!r:.80}")
    if session.is_dry and not is_dry:
        raise RunError("the session is that of a dry run, it cannot be resumed. Run the query without dry_run=True")
    if is_dry:
        session = replace(Session.from_dict(deepcopy(session.as_dict())), is_dry=True)
    if not how.keys() - {"session", "label"}:
        return RunRequest(session, stream=stream)
    given: dict[str, Any] = {name: how.get(name) for name in ("model", "record")}
    given["is_dry"] = is_dry
    given["answers"] = join_given(how.get("approvals"), how.get("answers"))
    journal = resolve_journal(how.get("journal"), how.get("journal_errors"))
    return RunRequest(session, stream=stream, journal=journal, settings=_settings_of(how), **given)


@frozen
class UserQuery:
    """What a run is asked: the query as a text, and as the user message with its label."""

    text: str
    message: Message


def read_user_query(query: Query | None, label: Label | None = None) -> UserQuery | None:
    """Return a query as the run takes it; None without one, where the session continues.

    Args:
        query: The query.
        label: The label of the query; default: the user's, or that of the arguments of the call that encloses the run.

    Raises:
        RunError: The query is empty, or not a text.
    """
    if query is None:
        return None
    text, content = (query, None) if isinstance(query, str) else read_query(_with_tables(query))
    if not isinstance(text, str) or not text.strip():
        raise _query_error(text)
    text = to_valid_text(text)
    return _label_query(text, content or text.strip(), label)


def _label_query(text: str, content: Any, label: Label | None = None) -> UserQuery:
    outer = enclosing(EnclosingCall)
    return UserQuery(text, with_label(user(content), label or (outer.origin.inputs if outer else USER)))


def _with_tables(query: Any) -> Any:
    """Return a query with each data frame as the text that a model reads; one text if there is nothing else in it."""
    if not isinstance(query, list | tuple) or not any(map(is_frame, query)):
        return query
    entries = [render_text(entry) if is_frame(entry) else entry for entry in query]
    return "\n\n".join(entries) if all(isinstance(entry, str) for entry in entries) else entries


def _query_error(query: Any) -> RunError:
    if isinstance(query, str):
        return RunError('the query is empty. Give a question: agent("What is 2 + 3?")')
    hint = f"Write agent({str(query)!r:.60})."
    first = query[0] if isinstance(query, list | tuple) and query else query
    if isinstance(query, bytes):
        hint = "Decode a text, query.decode(); for an image: agent([text, Image.from_bytes(data)])."
    elif isinstance(first, dict) and "role" in first:
        hint = "Earlier messages are a session: agent.run(query, session=Session(messages))."
    elif isinstance(query, list | tuple | dict):
        hint = (
            "A query with parts has an Image, Document, Audio or data frame: "
            'agent(["What is this?", Image.from_path("x.png")]). '
            "agent.map([...]) answers several queries."
        )
    return RunError(f"query must be a text, got {type(query).__name__} {query!r:.60}. {hint}")


def resume_request(spec: AgentSpec, run_id: str, how: ResumeOptions) -> RunRequest:
    """Return the request that continues a run of the journal."""
    check_names("resume", how, ResumeOptions.__optional_keys__)
    return _continue_run(run_id, _journal_of(spec, how), how)


def fork_request(spec: AgentSpec, run_id: str, step: int, how: ForkOptions) -> tuple[AgentSpec, RunRequest]:
    """Branch a run of the journal; return the agent that continues the branch, and its request."""
    check_names("fork", how, ForkOptions.__optional_keys__)
    journal = _journal_of(spec, how)
    request = _continue_run(fork(run_id, step, edit=how.get("edit") or {}, store=journal.path), journal, how)

    def branch(last: AgentSpec) -> AgentSpec:
        last = replace(last, own_instruction=how.get("instruction") or last.own_instruction)
        if (tools := how.get("tools")) is None:
            return last
        given, toolsets = split_toolsets(tools)
        only, sources = add_tools(
            ToolRegistry(answer=last.tools.answer, repair=last.tools.repair).merged(given), last.extensions
        )
        return replace(last, tools=only, toolsets=(*toolsets, *sources), select=None)

    return change_last(spec, request.session.handed, branch), request


def replay_request(spec: AgentSpec, path: str | os.PathLike[str], how: ReplayOptions) -> tuple[RunRequest, UserQuery]:
    """Return the request that repeats a recorded run in a copy of its conversation, and the run's query."""
    check_names("replay", how, ReplayOptions.__optional_keys__)
    journal = how.get("journal")
    try:
        recording = Recording.load(path) if journal is None else read_journaled(str(path), Journal.of(journal).path)
    except FileNotFoundError as error:
        remedy = "No such file. A run of a journal is replayed by its id: agent.replay(run_id, journal=...)"
        raise FileNotFoundError(error.errno, remedy, os.fspath(path)) from None
    begin = recording.begin
    if not (query := begin.get("query")):
        raise RunError(
            f"{os.fspath(path)!r}: a run without a query of its own cannot be replayed. Session.load continues its "
            "conversation. A journal has a run that paused as a whole: agent.replay(run_id, journal=...)"
        )
    if not isinstance(query, str) or not isinstance(begin.get("history"), list):
        raise RunError(f"{os.fspath(path)!r} is damaged: the begin of its run cannot be read. Record the run again.")
    session = Session(begin["history"], session_state=deepcopy(begin.get("session_state", {})))
    session.model = str(begin.get("model", ""))
    settings: dict[str, Any] = {name: value for name, value in how.items() if name != "journal"}
    replay = Replay(recording, session.messages, spec.tools, session.session_state, **settings)
    asked = _label_query(query, begin.get("content") or query)
    return RunRequest(session, stream=begin["stream"], replay=replay), asked


def check_names(method: str, how: Mapping[str, Any], names: frozenset[str]) -> None:
    """Raise `TypeError` for an option that the method does not have."""
    if unknown := how.keys() - names:
        wrong = min(unknown)
        terms = dict(OTHER_TERMS)
        if (meant := PARAMETER_TERMS.get(wrong, wrong)) in names:
            terms[wrong] = f"Use {meant}=..."
        elif meant in _AGENT_OPTIONS:
            terms[wrong] = f"It is an option of the agent: JsonAgent(..., {meant}=...)."
        if "limits" in names and (limit := find_limit(wrong)):
            terms[wrong] = f"Write limits=Limits({limit}=...)."
        hint = suggest(wrong, names, terms, then=f"Options: {', '.join(sorted(names))}")
        raise TypeError(f"{method}() got an unexpected option {wrong!r}. {hint}")


def _continue_run(run_id: str, journal: Journal, how: ResumeOptions) -> RunRequest:
    changed = how.get("changed", "refuse")
    session = Session.resumed(run_id, journal, on_uncertain=how.get("on_uncertain"), changed=changed)
    settings = _settings_of(how)
    answers = join_given(how.get("approvals"), how.get("answers"))
    return RunRequest(session, model=how.get("model"), settings=settings, answers=answers)


def _settings_of(how: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in how.items() if name in RunSettings.__optional_keys__}


def _journal_of(spec: AgentSpec, how: ResumeOptions) -> Journal:
    if named := how.get("journal") or spec.journal:
        return Journal.of(named)
    if not os.path.exists(DEFAULT_PATH):
        raise JournalError(
            f"no journal is named, and {DEFAULT_PATH!r}, the default, does not exist. A run is recorded by "
            "JsonAgent(..., journal=path) or agent.run(query, journal=path). Name that journal here: journal=path"
        )
    return Journal.of(DEFAULT_PATH)
