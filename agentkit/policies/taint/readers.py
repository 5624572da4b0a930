"""Who may read what a call sends: the recipients must be among the readers of the data in its arguments.

The rule is the confidentiality policy of FIDES (arXiv 2505.23643).  The recipients of a call are its destinations, and
the tool itself, by its name, in the place of all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

from ...core.labels import join_readers, label_of, remove_delimiters
from ...core.messages import Message, text_of
from ...core.pending import UntrustedValue
from ...tools.json_tool import JsonTool
from ...tools.roles import is_consequential, is_destination
from .origins import Origins, Texts, Value, describe, fold_hosts, is_rearranged, iterate_values

Readers: TypeAlias = tuple[str, ...] | None
Recipients: TypeAlias = list[tuple[str, Value]]
"""The destinations of a call with their places in its arguments."""
Doubt: TypeAlias = tuple[str, tuple[UntrustedValue, ...]]
"""Why a call needs a decision, and its values that do; "" and none if it needs none."""
NOTHING: Doubt = "", ()


def find_recipients(arguments: str, tool: JsonTool[..., Any]) -> Recipients:
    """Return the destinations in the arguments of a call, a parameter's own choices included."""
    return [entry for entry in iterate_values(arguments, {}) if is_destination(tool, entry[0])]


def find_outsiders(readers: Readers, recipients: Recipients, tool: JsonTool[..., Any]) -> Recipients | None:
    """Return the recipients that are not among the readers; None if the call sends to readers alone."""
    if readers is None or tool.name in readers:
        return None
    known = {*map(fold_hosts, readers)}
    outside = [entry for entry in recipients if fold_hosts(str(entry[1])) not in known]
    return outside if outside or not recipients else None


def explain(tool: JsonTool[..., Any], outside: Recipients, readers: Readers, values: Sequence[UntrustedValue]) -> Doubt:
    """Return why a call waits that would send values to others than their readers; and them and these others.

    `readers` are those of a call without values.
    """
    if values:
        readers = reduce(join_readers, [value.readers for value in values])
    places = [where for where, _ in outside]
    receivers = ", ".join(dict.fromkeys(str(value) for _, value in outside)) or tool.name
    allowed = f"only {', '.join(readers)}" if readers else "no recipient"
    others = (UntrustedValue(*entry, is_destination=True, readers=readers) for entry in outside)
    inner = [value for value in values if value.where not in places]
    said = f": {describe(inner)}" if inner else ""
    return f"{allowed} may read what this call sends to {receivers}{said}", (*inner, *others)


@dataclass
class ReaderCheck:
    """The texts of a conversation by who may read them, read when something with limited readers came.

    A value of a call is free if a text contains it as a whole that the recipients may read; any other value may come
    from all that was read.
    """

    origins: Origins
    _read: int = 0
    _last: Message | None = None
    _texts: dict[tuple[Readers, str], Texts] = field(default_factory=dict)
    _outer: "ReaderCheck | None" = field(init=False)

    def __post_init__(self) -> None:
        outer = self.origins.outer
        self._outer = ReaderCheck(outer.origins) if outer is not None else None

    def find(self, arguments: str, tool: JsonTool[..., Any], *, is_strict: bool) -> Doubt:
        """Return why a call needs a decision; nothing if its recipients may read what it sends.

        Args:
            arguments: The arguments as JSON.
            tool: The tool.
            is_strict: Whether every value counts, and a call without any.
        """
        readers = self.origins.readers
        recipients = find_recipients(arguments, tool) if readers is not None else []
        outside = find_outsiders(readers, recipients, tool)
        if outside is None or not (outside or is_strict or is_consequential(tool)):
            return NOTHING
        sent = [
            self._trace(where, value, readers)
            for where, value in iterate_values(arguments, {} if is_strict else tool.parameters)
            if is_strict or not self._may_read(where, value, recipients, tool)
        ]
        return explain(tool, outside, readers, sent) if sent or is_strict else NOTHING

    def _may_read(self, where: str, value: Value, recipients: Recipients, tool: JsonTool[..., Any]) -> bool:
        contain = Texts.contain_exactly if is_destination(tool, where) else Texts.contain
        return any(
            find_outsiders(readers, recipients, tool) is None and contain(texts, value)
            for (readers, _), texts in self._iterate()
        )

    def _trace(self, where: str, value: Value, readers: Readers) -> UntrustedValue:
        """Return the value with the first text with limited readers that contains it."""
        for (limited, name), texts in self._iterate():
            if limited is not None and (passage := texts.find_passage(value)):
                return UntrustedValue(where, value, name, passage, readers=limited)
        return UntrustedValue(where, value, readers=readers)

    def _iterate(self) -> Iterator[tuple[tuple[Readers, str], Texts]]:
        """Yield the texts of this conversation and of those around it, by their readers and their tool."""
        history = self.origins.history
        if is_rearranged(history, self._read, self._last):
            self._read = 0
            self._texts = {}
        for message in history[self._read :]:
            if message["role"] != "assistant":
                key = label_of(message).readers, _name(message)
                _add(self._texts.setdefault(key, Texts()), message)
        self._read = len(history)
        self._last = history[-1] if history else None
        yield from self._texts.items()
        if self._outer is not None:
            yield from self._outer._iterate()


def _name(message: Message) -> str:
    return message.get("name") or f"the {message['role']}"


def _add(texts: Texts, message: Message) -> None:
    if message["role"] == "tool" and not label_of(message).is_untrusted:
        texts.add_result(message)
    else:
        texts.add(text_of(message), remove_delimiters)
