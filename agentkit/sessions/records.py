"""The records of runs: what is about to be done, its outcome, and the messages; `fold` gives what they add up to.

A store takes and returns records, and a file has one on each line (`to_line`, `from_line`).  What models, tools and
agents made is JSON text in them.  A later record replaces an earlier one with the same key.

A file of `record=` also has what a replay needs and the conversation does not tell: each request as it was made, its
reply or its error, and what a person decided.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from ..core.messages import Message, Usage, calls_of
from ..core.values import frozen

FILE_VERSION = 3
"""The version of the lines of a file, which its first line names."""
MAP_ORIGIN = "map"
"""The origin of a run that is a map of queries, which are runs inside it."""
Line: TypeAlias = Mapping[str, Any]
"""A record as a JSON object; its `kind` names the class."""
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a value raises that is not what was written."""


class RunBegun(NamedTuple):
    """A run began: its conversation continues with it, and an unfinished run of the conversation is superseded.

    Attributes:
        run: The id of the run.
        conversation: The key of the conversation.
        query: The question.
        model: The name of the model.
        first: The index of the run's first message.
        begun: The time (Unix).
        setup: The instruction and the schemas of the tools of its agent; None for a branch.
        origin: "run/call" for an agent inside a tool, "run:step" for a branch, "map" for a map of queries, else "".
    """

    run: str
    query: str
    model: str
    first: int
    begun: float = 0.0
    conversation: int = 0
    setup: str | None = None
    origin: str = ""


class ConversationNamed(NamedTuple):
    """A conversation has a name, which no other one has from now on."""

    name: str
    conversation: int = 0


class ConversationTitled(NamedTuple):
    """A person gave a conversation a title; "" removes it."""

    title: str
    conversation: int = 0


class ConversationTagged(NamedTuple):
    """A person gave a conversation tags, separated by spaces; "" removes them."""

    tags: str
    conversation: int = 0


class MessageWritten(NamedTuple):
    """The message `body` at index `place` of a conversation, whose places are written without gaps."""

    place: int
    body: str
    conversation: int = 0
    digest: int | None = None
    """The digest of the body with its place; None where nothing checks it."""


class ConversationCut(NamedTuple):
    """A conversation ends before the index `place` now."""

    place: int
    conversation: int = 0


class TextStored(NamedTuple):
    """The whole text of a truncated result; the body None removes it."""

    key: str
    body: str | None = None
    conversation: int = 0
    digest: int | None = None


class StateWritten(NamedTuple):
    """What a conversation leaves unfinished."""

    body: str
    conversation: int = 0


class StepBegun(NamedTuple):
    """A request (`call` is "") or a call is about to be made, for or from the reply `step` of the run.

    Attributes:
        step: The number of the reply that the request asks for, or that has the call.
        call: The id of the call.
        name: The model or the tool.
        arguments: The arguments, if a person gave others than the model.
        input: The digest of what the step got.
        begun: The time (Unix).
        run: The run.
        conversation: Its conversation.
        digest: The digest of these values without the time.
    """

    step: int
    call: str
    name: str
    arguments: str | None = None
    input: int = 0
    begun: float = 0.0
    run: str = ""
    conversation: int = 0
    digest: int | None = None


class StepEnded(NamedTuple):
    """The outcome of a step; without a time it replaces the outcome, and the step had ended before."""

    step: int
    call: str
    outcome: str
    ended: float | None = None
    run: str = ""
    conversation: int = 0
    digest: int | None = None


class StepWithdrawn(NamedTuple):
    """A step was not made: it may begin again."""

    step: int
    call: str
    run: str = ""
    conversation: int = 0


class RunReopened(NamedTuple):
    """A run that was stopped continues."""

    run: str = ""
    conversation: int = 0


class RunConcluded(NamedTuple):
    """A run ended: `status` is "finished", "paused", "failed" or "superseded", `last` the number of messages then."""

    status: str
    outcome: str | None = None
    ended: float | None = None
    last: int | None = None
    run: str = ""
    conversation: int = 0


class FileBegun(NamedTuple):
    """A file of records begins; `about` has the usage before, and more about the run."""

    version: int
    about: str


class RequestMade(NamedTuple):
    """A request as it was made.

    Attributes:
        model: The name of the model.
        messages: The messages from the index `since` on, which is where they differ from those of the request before; a
            number is the index of a message of the conversation.
        since: That index.
        tool_choice: How the model may use the tools.
        tools: The schemas of the tools, if they changed.
    """

    model: str
    messages: Sequence[Message | int]
    since: int = 0
    tool_choice: str = ""
    tools: Mapping[str, Any] | None = None


class RequestEnded(NamedTuple):
    """The outcome of the last request, of the `kind` "reply" (with the pieces that were streamed) or "error"."""

    kind: str
    outcome: str


class UsageAdded(NamedTuple):
    """What an agent inside a call has used."""

    usage: Mapping[str, Any]


class DecisionMade(NamedTuple):
    """What a person decided about a call."""

    call: str
    decision: Any
    name: str = ""


Record: TypeAlias = (
    RunBegun
    | ConversationNamed
    | ConversationTitled
    | ConversationTagged
    | MessageWritten
    | ConversationCut
    | TextStored
    | StateWritten
    | StepBegun
    | StepEnded
    | StepWithdrawn
    | RunReopened
    | RunConcluded
    | FileBegun
    | RequestMade
    | RequestEnded
    | UsageAdded
    | DecisionMade
)
KINDS: Mapping[Any, tuple[str, Mapping[str, str]]] = {
    RunBegun: ("run", {"run": "id"}),
    ConversationNamed: ("name", {}),
    ConversationTitled: ("title", {}),
    ConversationTagged: ("tags", {}),
    MessageWritten: ("message", {"body": "message"}),
    ConversationCut: ("truncate", {}),
    TextStored: ("cut", {"body": "text"}),
    StateWritten: ("state", {"body": "state"}),
    StepBegun: ("call", {}),
    StepEnded: ("result", {}),
    StepWithdrawn: ("withdrawn", {}),
    RunReopened: ("reopened", {}),
    RunConcluded: ("end", {}),
    FileBegun: ("record", {}),
    RequestMade: ("request", {"since": "from"}),
    RequestEnded: ("reply", {}),
    UsageAdded: ("usage", {}),
    DecisionMade: ("decision", {}),
}
"""The kinds of lines of the classes, and the fields that have another name in a line."""
_NAMES: Mapping[type, Mapping[str, str]] = {
    record: {name: names.get(name, name) for name in record._fields} for record, (_, names) in KINDS.items()
}
_CLASSES: Mapping[str, Any] = {"error": RequestEnded, **{kind: record for record, (kind, _) in KINDS.items()}}
_JSON = ("body", "setup")
"""The fields with JSON text, which is a value in a line."""
_ENTRIES = ("outcome", "about")
"""The fields with the JSON text of an object, whose entries are entries of the line."""


def to_line(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object, without values of None."""
    names = _NAMES[type(record)]
    line = {"kind": KINDS[type(record)][0]}
    outcome = {}
    for name, shown in names.items():
        value = getattr(record, name)
        if value is None:
            continue
        if name in _ENTRIES:
            outcome = json.loads(value)
        else:
            line[shown] = json.loads(value) if name in _JSON else value
    return {**line, **outcome}


def write_line(record: Record, without: Collection[str] = ()) -> str:
    """Return the line of a record as JSON, without some entries; the JSON text of a message or a state is not read."""
    names = _NAMES[type(record)]
    if not names.keys().isdisjoint(_ENTRIES):
        return _write_line({name: value for name, value in to_line(record).items() if name not in without})
    entries = [f'"kind": "{KINDS[type(record)][0]}"']
    for name, shown in names.items():
        value = getattr(record, name)
        if value is not None and shown not in without:
            entries.append(f'"{shown}": {value if name in _JSON else _write_line(value)}')
    return f"{{{', '.join(entries)}}}"


def from_line(line: Line) -> Record:
    """Return the record of a line; raise `ValueError`, `LookupError` or `TypeError` for anything else."""
    kind = _CLASSES[line["kind"]]
    names = _NAMES[kind]
    if line["kind"] in ("message", "reply"):
        _check_message(line["message"], f"message {line['place']}" if "place" in line else "the reply")
    if kind is StateWritten and not isinstance(line["state"], dict):
        raise TypeError("the state must be an object")
    values = {name: line[shown] for name, shown in names.items() if shown in line}
    for name in _JSON:
        if name in values:
            values[name] = write_json(values[name])
    for name in _ENTRIES:
        if name in names:
            values[name] = write_json({key: value for key, value in line.items() if key != "kind" and key not in names})
    record: Record = kind(**values)
    return record


def _check_message(message: Any, what: str) -> None:
    """Raise `ValueError`, `LookupError` or `TypeError` for what is no message."""
    if not isinstance(message["role"], str):
        raise ValueError(f"{what} has no role")
    if message["role"] == "tool" and not isinstance(message["tool_call_id"], str):
        raise ValueError(f"{what} has no call")
    calls_of(message)  # raises for a damaged one


_write_line = json.JSONEncoder(ensure_ascii=False).encode
_write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(value: Any) -> str:
    """Return `value` as JSON; raise `TypeError`, `ValueError` or `RecursionError` if it is not JSON serialisable."""
    text = _write_json(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def decode_all(texts: Sequence[str]) -> list[Any]:
    """Return the values of JSON texts, which one call decodes faster than many; raise `ValueError` for other texts."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]")
    if len(values) != len(texts):
        raise ValueError("a text is not one JSON value")
    return values


_EMPTY = blake2b(digest_size=8)


def digest(place: object, text: str) -> int:
    """Return a number that changes with every bit of `text` and with its place."""
    state = _EMPTY.copy()  # quicker than a new one
    state.update(f"{place}\0{text}".encode(errors="surrogatepass"))
    return int.from_bytes(state.digest()) >> 1


def cut_digest(conversation: int, key: str, body: str) -> int:
    """Return the digest of the whole text of a result."""
    return digest(f"{conversation}/{key}", body)


def step_digest(run: str, step: int, call: str, *values: Any) -> int:
    """Return the digest of a step: of its name, input, arguments and outcome."""
    return digest(f"{run}/{step}/{call}", repr(values))


@frozen
class RunEntry:
    """A run as a store lists it, without its steps.

    Attributes:
        last: The number of messages at the end of a finished run.
        status: "open", or that of `RunConcluded`.
        number: A number that is greater for later runs of a conversation.
        damage: Why the run cannot be read; "" for a sound one.
    """

    id: str
    conversation: int = 0
    query: str = ""
    model: str = ""
    first: int = 0
    last: int | None = None
    begun: float = 0.0
    ended: float | None = None
    status: str = "open"
    outcome: str | None = None
    origin: str | None = None
    number: int = 0
    damage: str = ""


@dataclass(slots=True)
class Step:
    """A request (`call` is ""), or a call, with its outcome as JSON once it has one."""

    run: str
    step: int
    call: str
    name: str
    input: int
    arguments: str | None
    begun: float
    digest: int | None
    ended: float | None = None
    outcome: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the step is as it was written."""
        return self.digest is None or self.digest == self.compute_digest()

    def compute_digest(self) -> int:
        """Return the digest of the step as it is now."""
        values = self.name, self.input, self.arguments, self.outcome
        return step_digest(self.run, self.step, self.call, *values)

    def split(self, conversation: int = 0) -> Iterator[Record]:
        """Yield the records that write the step: its begin, and its end if it has one."""
        begun = self.name, self.arguments, self.input, self.begun
        of = self.run, conversation, self.digest
        yield StepBegun(self.step, self.call, *begun, *of)
        if self.outcome is not None:
            yield StepEnded(self.step, self.call, self.outcome, self.ended, *of)


@dataclass(eq=False, slots=True)
class Conversation:
    """The messages of a conversation, the whole texts of truncated results, and its state; all are JSON texts.

    `damage` is the first problem of the messages, after which none is read.
    """

    key: int
    name: str | None = None
    title: str = ""
    tags: str = ""
    bodies: list[str] = field(default_factory=list)
    digests: list[int | None] = field(default_factory=list)
    texts: dict[str, TextStored] = field(default_factory=dict)
    state: str = "{}"
    damage: str = ""

    @property
    def messages(self) -> list[Message]:
        """The messages before any damage."""
        return decode_all(self.bodies)

    def read_texts(self) -> dict[str, Any]:
        """Return the whole texts by their keys; raise `ValueError` for a damaged one."""
        for key, text in self.texts.items():
            if text.digest is not None and text.digest != cut_digest(self.key, key, text.body or ""):
                raise ValueError(f"the text {key} was changed")
        return {key: json.loads(text.body or "null") for key, text in self.texts.items()}

    def write(self, record: MessageWritten) -> None:
        """Add or replace a message."""
        place, body, _, number = record
        length = len(self.bodies)
        is_sound = type(place) is int and type(body) is str and 0 <= place <= length
        if not is_sound or self.damage or (number is not None and number != digest(place, body)):
            first = min(place, length) if is_sound else length
            self.damage = self.damage or f"message {first} is missing or incomplete"
        elif place == length:
            self.bodies.append(body)
            self.digests.append(number)
        else:
            self.bodies[place] = body
            self.digests[place] = number


@frozen
class Exchange:
    """One complete request, and its outcome: the line of a reply or an error; None if there is no such line."""

    model: str
    messages: Sequence[Message]
    tools: Mapping[str, Any] | None = None
    """None where the tools are not known."""
    tool_choice: str = ""
    """"" where it is not known."""
    outcome: Line | None = None


class Stored:
    """What records add up to: conversations by their keys, and runs with their setups and steps by their ids.

    Of a file also the requests as they were made, the decisions, and the usage.
    """

    def __init__(self) -> None:
        self.conversations: dict[int, Conversation] = {}
        self.runs: dict[str, RunEntry] = {}
        self._unfinished: dict[int, dict[str, None]] = defaultdict(dict)
        """The runs of each conversation that its next run supersedes."""
        self.setups: dict[str, str | None] = {}
        self.names: dict[str, int] = {}
        self.steps: dict[str, dict[tuple[int, str], Step]] = defaultdict(dict)
        self.last = ""
        """The run that began last, whose id a file does not repeat in each line."""
        self.version = 0
        self.about: dict[str, Any] = {}
        self.usage = Usage()
        self.exchanges: list[Exchange] = []
        self.decisions: dict[str, Any] = {}

    def conversation(self, key: int) -> Conversation:
        """Return a conversation, an empty one if no record has it."""
        if key not in self.conversations:
            self.conversations[key] = Conversation(key)
        return self.conversations[key]

    def add(self, record: Record | Step) -> None:
        """Add the next record; raise `LookupError` for one about a run or a step that has no record."""
        match record:
            case MessageWritten():
                key = record.conversation
                (self.conversations.get(key) or self.conversation(key)).write(record)
            case Step():
                self.steps[record.run][record.step, record.call] = record
            case StepBegun():
                step, call, name, arguments, number, begun, run, _, check = record
                of = run or self.last
                self.steps[of][step, call] = Step(of, step, call, name, number, arguments, begun, check)
            case StepEnded():
                step, call, outcome, ended, run, _, check = record
                found = self.steps[run or self.last][step, call]
                found.outcome = outcome
                found.ended = found.ended if ended is None else ended
                found.digest = check
            case ConversationCut(place, key):
                conversation = self.conversation(key)
                del conversation.bodies[place:], conversation.digests[place:]
            case TextStored(key, body, conversation_key):
                texts = self.conversation(conversation_key).texts
                texts.pop(key, None)
                if body is not None:
                    texts[key] = record
            case StateWritten(body, key):
                self.conversation(key).state = body
            case ConversationNamed(name, key):
                if name in self.names:
                    self.conversation(self.names[name]).name = None
                self.names[name] = key
                self.conversation(key).name = name
            case ConversationTitled(title, key):
                self.conversation(key).title = title
            case ConversationTagged(tags, key):
                self.conversation(key).tags = tags
            case StepWithdrawn(step, call, run):
                self.steps[run or self.last].pop((step, call), None)
            case RunBegun():
                self._begin(record)
            case RunReopened(run):
                of = run or self.last
                self._set(replace(self.runs[of], status="open", ended=None))
            case RunConcluded(status, outcome, ended, last, run):
                of = run or self.last
                self._set(replace(self.runs[of], status=status, outcome=outcome, ended=ended, last=last))
            case FileBegun(version, about):
                self.version = version
                self.about = json.loads(about)
                self.usage = Usage(**self.about.get("usage", {}))
            case RequestMade():
                self._ask(record)
            case RequestEnded():
                ended_line = to_line(record)
                self.exchanges[-1] = replace(self.exchanges[-1], outcome=ended_line)
                self.usage += Usage(**ended_line.get("usage", {}))
            case UsageAdded(usage):
                self.usage += Usage(**usage)
            case DecisionMade(call, decision):
                self.decisions[call] = decision

    def _begin(self, new: RunBegun) -> None:
        if new.run in self.runs:  # a write may be repeated
            return
        for run in [*self._unfinished[new.conversation]]:
            self._set(replace(self.runs[run], status="superseded"))
        self.last = new.run
        self.setups[new.run] = new.setup
        self._set(
            RunEntry(
                new.run,
                new.conversation,
                new.query,
                new.model,
                new.first,
                begun=new.begun,
                origin=new.origin,
                number=len(self.runs) + 1,
            )
        )

    def _set(self, run: RunEntry) -> None:
        self.runs[run.id] = run
        if run.status in ("finished", "superseded"):
            self._unfinished[run.conversation].pop(run.id, None)
        else:
            self._unfinished[run.conversation][run.id] = None

    def _ask(self, new: RequestMade) -> None:
        before = self.exchanges[-1] if self.exchanges else Exchange("", [])
        bodies = self.conversation(0).bodies
        added = [json.loads(bodies[entry]) if isinstance(entry, int) else {**entry} for entry in new.messages]
        tools = before.tools if new.tools is None and new.tool_choice else new.tools
        self.exchanges.append(Exchange(new.model, [*before.messages[: new.since], *added], tools, new.tool_choice))


def fold(records: Iterable[Record | Step]) -> Stored:
    """Return what records add up to; a store may give a step as a whole."""
    stored = Stored()
    for record in records:
        stored.add(record)
    return stored
