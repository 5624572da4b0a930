"""The origins of a call's arguments: the user and trusted tools, or untrusted sources and the model."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

from ...core.approval_question import UntrustedValue
from ...core.delimiters import remove_delimiters
from ...core.labels import DEVELOPER, TRUSTED, UNKNOWN, UNKNOWN_SOURCE, CallOrigin, Label, join_readers, label_of
from ...core.messages import Message, text_of, tool_names
from ...core.roles import Content, Destination
from ...tools.arguments.repair import truncate
from ...tools.execution.call import ANSWER_RESULT
from ...tools.json_tool import JsonTool
from ...tools.roles import find_role, may_have_effect
from .values import MAX_VALUE_CHARS, Texts, Value, find_addresses, iterate_values, spell

_TRUSTED_DATA = TRUSTED.as_dict()


@dataclass
class Origins:
    """The trusted and untrusted texts of a conversation, by their labels, read message by message.

    Trusted are the texts of the developer, of the user and of trusted results.  A result whose label names sources was
    returned after these were read, by a tool that is not declared as trusted, which may have stored their values.  It
    makes a value trusted only if no untrusted text contains that value.

    `outer` is the call of another agent that encloses this conversation.  What that agent trusts is trusted here, its
    untrusted sources count as read, and a query without a label has the label of the call's arguments.
    """

    history: Sequence[Message]
    outer: "EnclosingCall | None" = None
    _read: int = 0
    _last: Message | None = None
    _label: Label = DEVELOPER
    _untrusted: dict[str, Texts] = field(default_factory=dict)
    _trusted: Texts = field(default_factory=Texts)
    _repeating: Texts = field(default_factory=Texts)
    """The texts of trusted results that may repeat untrusted values."""
    _names: tuple[int, dict[str, str]] = 0, {}
    """A number of messages, and the tools of the calls in them, by call id."""
    _answers: Label = DEVELOPER
    """The joined label of the values of answers; their messages, whose text is fixed, do not have them."""
    _vouched: set[str] = field(default_factory=set)
    """The values of trusted fields of untrusted results; a part of one is not trusted."""

    def doubt(self, arguments: str, tool: JsonTool[..., Any], untrusted: Sequence[UntrustedValue]) -> str:
        """Return why a call with these untrusted values needs approval; "" if it needs none.

        A value is trusted if one trusted text contains it as a whole and verbatim, except for ASCII case, white space
        and the notation of numbers.  Booleans, null, and the words of the parameter's own schema (choices, defaults,
        names of fields) need no origin; but a call without any other value needs approval.
        """
        if not self.sources():
            return ""
        if untrusted:
            return f"{self.introduce()}, and neither the user nor a trusted result says this: {describe(untrusted)}"
        if tool.effect == "read" or any(iterate_values(arguments, tool.parameters)):
            return ""
        return f"{self.introduce()}, and no argument of the call shows that it was asked for"

    def find_untrusted(self, arguments: str, tool: JsonTool[..., Any]) -> tuple[UntrustedValue, ...]:
        """Return the values of a call that need a decision, with their origins; none if nothing untrusted was read.

        A destination and a plain value need one unless they are trusted.  Content may be untrusted in a call with a
        trusted destination and in a read without any, except for the addresses in it.  In another call without a
        destination it needs one if it stands in an untrusted text, or if no value of the call is trusted.
        """
        if not self.sources():
            return ()
        values = [
            (where, value, self.knows(value), find_role(tool, where))
            for where, value in iterate_values(arguments, tool.parameters)
        ]
        places = [known for _, _, known, role in values if isinstance(role, Destination)]
        is_directed = any(places) or (tool.effect == "read" and not places)  # what a read asks is fixed by its tool
        is_local = not places and any(known for _, _, known, _ in values)
        found: list[UntrustedValue] = []
        for where, value, known, role in values:
            if known:
                continue
            traced = self._trace(where, value, is_destination=isinstance(role, Destination))
            if isinstance(role, Content) and is_directed:
                unknown = [one for one in find_addresses(str(value)) if not self.knows(one)]
                found += (self._trace(where, one, is_destination=True) for one in unknown)
            elif not isinstance(role, Content) or not is_local or traced.origin:
                found.append(traced)
        return tuple(found)

    def introduce(self) -> str:
        """Return the beginning of a reason."""
        return f"text from outside ({', '.join(filterfalse(is_keeper, self.sources()))}) has been read"

    def sources(self) -> tuple[str, ...]:
        """Return the names of the untrusted sources that have been read, those of enclosing agents first."""
        outer = self.outer.origins.sources() if self.outer else ()
        own = self.label.sources if self.label.is_untrusted else ()
        return tuple(dict.fromkeys((*outer, *own))) if outer else own

    @property
    def label(self) -> Label:
        """The joined label of this conversation's messages."""
        length = len(self.history)
        if is_rearranged(self.history, self._read, self._last):
            self._read, self._label, self._untrusted = 0, DEVELOPER, {}
            self._trusted, self._repeating, self._vouched = Texts(), Texts(), set()
        if length > self._read:
            for message in self.history[self._read :]:
                if message.get("label") == _TRUSTED_DATA:
                    self._trusted.add_result(message)
                elif "label" in message or message["role"] != "assistant":
                    self._take(message)
            self._read, self._last = length, self.history[-1]
        return self._label

    @property
    def whole_label(self) -> Label:
        """The joined label of this conversation's messages and of the values of its answers."""
        return self.label.join(self._answers)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing untrusted, and nothing with limited readers, was read here or around this run."""
        return self.label is DEVELOPER and self.outer is None

    @property
    def readers(self) -> tuple[str, ...] | None:
        """Who may read all that was read here and around this run; None for everyone."""
        return join_readers(self.label.readers, None if self.outer is None else self.outer.origins.readers)

    def label_inputs(self, arguments: str, tool: JsonTool[..., Any] | None) -> Label:
        """Return the label of a call's arguments; without a tool the call cannot run, and its result may quote it."""
        sources, readers = self.sources(), self.readers
        if not sources:
            return TRUSTED if readers is None else Label("trusted", (), readers)
        if tool is None or not all(self.knows(value) for _, value in iterate_values(arguments, {})):
            return Label("untrusted", sources, readers)
        if tool.trust == "trusted":
            return Label("trusted", (), readers)
        return Label("untrusted" if any(map(is_keeper, sources)) else "trusted", sources, readers)

    def knows(self, value: Value) -> bool:
        """Return whether a value is trusted; one of ASCII punctuation alone, such as `/` and `*`, stands anywhere."""
        if isinstance(value, str) and value.isascii() and not any(map(str.isalnum, value)):
            return False
        if self._trusted.contain(value) or (self.outer is not None and self.outer.origins.knows(value)):
            return True
        if not self._vouched.isdisjoint(spell(value)):
            return True
        return self._repeating.contain(value) and not any(texts.contain(value) for texts in self._iterate_untrusted())

    def may_repeat(self, value: Value) -> bool:
        """Return whether results that may repeat untrusted values were read, and no other text has this value."""
        self.sources()  # reads new messages
        return bool(self._repeating.read()) and not self._trusted.contain(value)

    def _iterate_untrusted(self) -> Iterator[Texts]:
        yield from self._untrusted.values()
        if self.outer is not None:
            yield from self.outer.origins._iterate_untrusted()

    def _take(self, message: Message) -> None:
        """Read one message; the model's own are nothing that it could refer to."""
        label = label_of(message)
        if message["role"] == "tool" and message.get("content") == ANSWER_RESULT:
            self._answers = self._answers.join(label)
            return
        if message["role"] == "assistant":
            self._label = self._label.join(label)
            return
        if message["role"] == "user" and self.outer is not None and "label" not in message:
            label = self.outer.origin.inputs
        if label.is_untrusted:
            if label is UNKNOWN:
                label = Label.untrusted(self._name_source(message))
            text = self._untrusted.setdefault(label.sources[0], Texts())
            text.add(text_of(message), remove_delimiters)
            self._vouched.update(spelling for value in label.vouched for spelling in spell(value))
        elif message["role"] == "tool":
            (self._repeating if label.sources else self._trusted).add_result(message)
        else:
            (self._repeating if label.sources else self._trusted).add(text_of(message))
        if label.is_untrusted or label.readers is not None:
            self._label = self._label.join(label)

    def _name_source(self, message: Message) -> str:
        """Return the tool of an unlabelled result: the call with its id decides, not the name in the message."""
        length, names = self._names
        if length != len(self.history):
            names = tool_names(self.history)
            self._names = len(self.history), names
        return names.get(message.get("tool_call_id", "")) or message.get("name") or UNKNOWN_SOURCE

    def _trace(self, where: str, value: Value, *, is_destination: bool) -> UntrustedValue:
        """Return the value with the first untrusted text that contains it, of this run or of an enclosing one."""
        for name, texts in self._untrusted.items():
            if passage := texts.find_passage(value):
                return UntrustedValue(where, value, name, passage, is_destination)
        if self.outer is not None:
            return self.outer.origins._trace(where, value, is_destination=is_destination)
        return UntrustedValue(where, value, is_destination=is_destination)


def is_rearranged(history: Sequence[Message], read: int, last: Message | None) -> bool:
    """Return whether the `read` messages, `last` at their end, are not the first ones any more.

    When a paused turn continues, its further results are sorted in before those that it had.
    """
    return len(history) < read or (read > 0 and history[read - 1] is not last)


_KEEPER = "what {} keeps"


def name_keeper(tool: JsonTool[..., Any]) -> str:
    """Return the source that a tool is after it got untrusted values; "" if it keeps none for any tool to return."""
    return _KEEPER.format(tool.name) if tool.trust != "trusted" and may_have_effect(tool) else ""


def is_keeper(source: str) -> bool:
    """Return whether a source is what a tool may have kept."""
    return source.startswith("what ") and source.endswith(" keeps")


def describe(untrusted: Sequence[UntrustedValue]) -> str:
    """Return the values with their places and origins."""
    return "; ".join(f"{entry.where} = {_format_value(entry.value)} {_describe_origin(entry)}" for entry in untrusted)


@dataclass(frozen=True)
class EnclosingCall:
    """The tool call that encloses a run: the origins of its conversation, and the origin of its result.

    `is_strict` makes every consequential call in the run wait.
    """

    origins: Origins
    origin: CallOrigin
    is_strict: bool = False


def _describe_origin(value: UntrustedValue) -> str:
    return f'(from {value.origin}: "{value.passage}")' if value.origin else "(written by the model)"


def _format_value(value: Value) -> str:
    return truncate(json.dumps(value, ensure_ascii=False), MAX_VALUE_CHARS)
