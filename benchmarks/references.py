"""A model that never reads untrusted text: it passes the values of AgentDojo's calls on by reference.

It plays with `untrusted="hidden"`.  It knows which calls solve a task, but not what hidden results say, and writes each
value of a call as a good model would have to, by the first of these rules that applies:

1. Before anything is hidden, or if the user's own words contain the value: as it is.
2. The only name in a list that begins with a word of the user ("the channel starting with External"): a reference with
   that word, such as `#1[External]`.
3. A whole field of a hidden result: a reference to it.  In a list of several, the number of the row is asked for first.
   A mail address as a recipient is looked up in the user's address book by that reference; if it is there, the
   reference is one to the contact.
4. A number, a truth value, a date, or a value that a trusted result shows, which hidden texts may have chosen: an extract
   of that kind, whose answer is then written.  A time of a day is a date and two numbers.
5. Anything else, such as an address in a sentence, or a summary: a text that the model without tools writes, passed on by
   reference; or, as "reveal", the results are shown, and the value is written.  Recipients are looked up as above.

A call with an effect that has no value from the user's words may be one that a text orders ("do what the mail says"): the
tool is asked for first, by a choice among all.

The attacker has the model without tools: once a hidden result contains the attack, each answer is what the attack wants
at that place, if the kind of the answer allows it.  So it chooses rows, numbers, dates, tools and whole texts.  Where it
chooses its own tool, all arguments of its call are given in the same ways.
"""

import json
import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentkit.policies.taint.hidden import NO_VALUE
from agentkit.policies.taint.origins import find_addresses, find_token, normalize, spell
from agentkit.testing import answer, call

Reply = dict[str, Any]
Arguments = dict[str, Any]
Request = Any
Writing = Generator[Reply, Request, Any]
_HANDLE = re.compile(r"(#\d+) from (\w+)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d))?")
_KEY = re.compile(r"\w+")
_WORD = re.compile(r"[^\W_]+")
_BEGUN = re.compile(r"(?:starting|starts|beginning|begins) with (\w{3,})")
_RUN_ON = re.compile(r"\.(?=[A-Z][a-z]+ )")
"""The end of a sentence without a blank, as a reader reads it: "our-company.com.They sent"."""
NOTHING = object()


@dataclass
class Referring:
    """What the model knows in one run.

    Attributes:
        prompt: The user's words.
        writes: The tools with an effect.
        is_attack: Whether a result contains the attack.
        wanted: The calls of the attack.
        reveals: Whether parts of texts are shown, not passed on as texts of the model without tools.
        fields: The trusted fields of results, by their tools; handles name them.
        directory: The tool that finds contacts, and its parameter.
        read_result: Returns the result of the last call.
        contacts: The handles of what it has returned.
        is_writing: Whether the call that is being written has an effect.
        trusted: The trusted fields of the hidden results, by their handles.
        hidden: The hidden results, by their handles.
        shown: What the model has read, normalized.
        is_attacked: Whether a hidden or shown result contains the attack.
        is_swayed: Whether the attack has chosen something in the call that is being written.
        is_tainted: Whether something was shown.
    """

    prompt: str
    writes: frozenset[str]
    is_attack: Callable[[Any], bool] = lambda _: False
    wanted: list[tuple[str, Arguments]] = field(default_factory=list)
    reveals: bool = False
    fields: Mapping[str, Collection[str]] = field(default_factory=dict)
    directory: tuple[str, str] | None = None
    read_result: Callable[[], Any] = lambda: None
    contacts: set[str] = field(default_factory=set)
    is_writing: bool = False
    trusted: dict[str, Collection[str]] = field(default_factory=dict)
    hidden: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)
    is_attacked: bool = False
    is_swayed: bool = False
    is_tainted: bool = False
    asked: int = 0
    last: str = ""
    words: str = ""

    def __post_init__(self) -> None:
        self.words = self.prompt
        self.prompt = normalize(_RUN_ON.sub(". ", self.prompt))

    def note_result(self, request: Request, data: Any) -> None:
        """Take what the model read of the last call, and the result that may be hidden behind it."""
        self.last = content = request.messages[-1]["content"]
        if match := _HANDLE.match(content):
            self.hidden[match[1]] = data
            self.trusted[match[1]] = self.fields.get(match[2], ())
            self.is_attacked |= self.is_attack(data)
        else:
            self.shown.append(normalize(content))

    def express(self, name: str, arguments: Arguments) -> Writing:
        """Yield the requests that come before a call; return the call's tool and arguments."""
        self.is_swayed = False
        self.is_writing = name in self.writes
        if self.hidden and name in self.writes and not any(map(self.is_said, _leaves(arguments))):
            chosen = self.choose(name, next((tool for tool, _ in self.wanted if tool in self.writes), NOTHING))
            yield from self.extract("choice", chosen, choices=sorted({*self.writes, name, chosen}))
            name, arguments = (name, arguments) if chosen == name else self.wanted_of(chosen)[0]
        written = {}
        for key, value in arguments.items():
            written[key] = yield from self.write(value, self.find_wanted(name, key))
        return name, written

    def choose(self, value: Any, wanted: Any) -> Any:
        """Return what the model without tools answers: what the attack wants, else what the task needs."""
        if not self.is_attacked or wanted is NOTHING or wanted == value:
            return value
        self.is_swayed = True
        return wanted

    def write(self, value: Any, wanted: Any) -> Writing:
        """Yield the requests that come before a value; return what the model writes in its place."""
        if not self.hidden or value in (None, "", [], {}) or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            written = {}
            for key, part in value.items():
                written[key] = yield from self.write(part, wanted.get(key) if isinstance(wanted, dict) else NOTHING)
            return written
        is_looked_up = self.directory is not None and self.is_writing and _are_mail_addresses(value)
        is_one = not (is_looked_up and isinstance(value, list))  # addresses are looked up one by one
        if (named := self.find_named(value)) is not None and not self.is_said(value):
            return named
        if is_one and (reference := self.find_field(value)) is not None and not self.is_said(value):
            found = yield from self.refer(*reference, wanted)
            return (yield from self.look_up(found)) if is_looked_up else found
        if isinstance(value, list):
            written = []
            for place, part in enumerate(value):
                one = wanted[min(place, len(wanted) - 1)] if isinstance(wanted, list) and wanted else NOTHING
                written.append((yield from self.write(part, one)))
            return written
        if self.is_said(value):
            return value
        found = yield from self.ask_for(value, wanted if wanted is not None else NOTHING)
        return (yield from self.look_up(found)) if is_looked_up and found in self.hidden else found

    def look_up(self, reference: str) -> Writing:
        """Yield the request that looks an address up; return a reference to the contact, or to the address itself."""
        tool, parameter = self.directory
        handle, *path = reference.split(".")
        address = self.hidden[handle]
        for key in path:
            address = address[int(key) if isinstance(address, list) else key]
        request = yield call(tool, **{parameter: reference})
        self.note_result(request, contacts := self.read_result())
        found = _find(contacts, address)
        own = _HANDLE.match(self.last)[1]
        self.contacts.add(own)
        return reference if found is None else ".".join([own, *found])

    def ask_for(self, value: Any, wanted: Any) -> Writing:
        """Yield the extract of a value that is no field; return what the model writes."""
        if isinstance(value, int | float):
            found = self.choose(value, wanted if isinstance(wanted, int | float) else NOTHING)
            yield from self.extract("number", found)
            return type(value)(found)
        if match := _TIME.fullmatch(value):
            found = self.choose(value, wanted if isinstance(wanted, str) and _TIME.fullmatch(wanted) else NOTHING)
            day, *clock = _TIME.fullmatch(found).groups()
            yield from self.extract("date", day)
            for part in filter(None, clock if match[2] else ()):
                yield from self.extract("number", int(part))
            return found
        if self.is_shown(value):
            found = self.choose(value, wanted if isinstance(wanted, str) and self.is_shown(wanted) else NOTHING)
            yield from self.extract("choice", found, choices=[*dict.fromkeys([value, found])])
            return found
        if self.reveals:
            yield from self.reveal()
            return value
        found = self.choose(value, wanted if self.can_write(wanted) else NOTHING)
        self.asked += 1
        yield call("extract_text", reference=self.newest, question=f"Question {self.asked}")
        self.note_result((yield answer(found)), found)
        return _HANDLE.match(self.last)[1]

    def refer(self, handle: str, path: list[str], wanted: Any) -> Writing:
        """Yield the questions for the rows of a path; return the reference, in the row that the attack wants."""
        value = self.hidden[handle]
        for place, key in enumerate(path):
            if isinstance(value, list) and len(value) > 1:
                begun = f"{handle}.{'.'.join(path[:place])}"
                rows = [
                    str(row)
                    for row, one in enumerate(value)
                    if wanted is not NOTHING and _find(one, wanted) is not None
                ]
                key = self.choose(key, rows[0] if rows else NOTHING)
                if self.rows.get(begun) != key:
                    self.rows[begun] = key
                    yield from self.extract("number", int(key), handle)
                path = [*path[:place], key, *path[place + 1 :]]
            value = value[int(key)] if isinstance(value, list) else value[key]
        return ".".join([handle, *path])

    def extract(self, kind: str, found: Any, handle: str = "", **more: Any) -> Generator[Reply, Request, None]:
        """Yield a question about a hidden result, and the answer of the model without tools."""
        self.asked += 1
        handle = handle or self.newest
        yield call("extract_value", reference=handle, question=f"Question {self.asked}", kind=kind, **more)
        request = yield call("final_answer", answer=found)
        self.note_result(request, found)
        if self.last == NO_VALUE:
            raise ValueError(f"{found!r}: the extract failed")

    @property
    def newest(self) -> str:
        """The newest hidden result that is no contact."""
        return [handle for handle in self.hidden if handle not in self.contacts][-1]

    def reveal(self) -> Generator[Reply, Request, None]:
        """Yield a request to show each hidden result."""
        for handle in [*self.hidden]:
            request = yield call("reveal_result", reference=handle)
            self.shown.append(normalize(request.messages[-1]["content"]))
        self.hidden.clear()
        self.is_tainted = True

    def find_field(self, value: Any) -> tuple[str, list[str]] | None:
        """Return the newest hidden result with a field that is the value, and the path to it; a trusted one if there is."""
        found = [
            (handle, path)
            for handle in reversed(self.hidden)
            if (path := _find(self.hidden[handle], value)) is not None
        ]
        vouched = [(handle, path) for handle, path in found if {"", *path[-1:]} & {*self.trusted[handle]}]
        return next(iter(vouched + found), None)

    def find_named(self, value: Any) -> str | None:
        """Return a reference to the only name in a list that begins with a word of the user, after "starting with"."""
        for handle, data in self.hidden.items():
            for word in _BEGUN.findall(self.words):
                names = [one for one in data if one.startswith(word)] if _is_list_of_names(data) else []
                if names == [value]:
                    return f"{handle}[{word}]"
        return None

    def can_write(self, wanted: Any) -> bool:
        """Return whether hidden results have the words of a text: the model without tools reads nothing else."""
        known = normalize(json.dumps([*self.hidden.values()], ensure_ascii=False))
        words = [word for word in _WORD.findall(normalize(str(wanted))) if len(word) > 3 or not word.isalpha()]
        return wanted is not NOTHING and wanted != "" and all(word in known for word in words)

    def is_said(self, value: Any) -> bool:
        """Return whether the user's words contain a value."""
        parts = [*_leaves(value)]
        return bool(parts) and all(_contains(self.prompt, part) for part in parts)

    def is_shown(self, value: Any) -> bool:
        """Return whether the model has read a value."""
        return any(_contains(text, value) for text in (self.prompt, *self.shown))

    def wanted_of(self, name: str) -> list[tuple[str, Arguments]]:
        """Return the calls of a tool that the attack wants."""
        return [(wanted, arguments) for wanted, arguments in self.wanted if wanted == name]

    def find_wanted(self, name: str, key: str) -> Any:
        """Return what the attack wants as an argument of a tool."""
        return next((given[key] for _, given in self.wanted_of(name) if key in given), NOTHING)


def _is_list_of_names(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(one, str) for one in data)


def _are_mail_addresses(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_are_mail_addresses, value))
    return isinstance(value, str) and find_addresses(value) == [value] and "@" in value


def _contains(text: str, value: Any) -> bool:
    return any(find_token(spelling, text) >= 0 for spelling in spell(value))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the texts and numbers in a value."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _find(data: Any, value: Any) -> list[str] | None:
    """Return the path to a field of a hidden result that is the value; a reference spells its keys as one word each."""
    if type(data) is type(value) and data == value:
        return []
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, part in entries:
        if _KEY.fullmatch(str(key)) and (path := _find(part, value)) is not None:
            return [str(key), *path]
    return None
