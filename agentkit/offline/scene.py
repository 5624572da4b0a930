"""What surrounds the values of a text: the phrases between them, and the words that say what each value is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .tools import Tool
from .values import Mention
from .words import CLASSES, COMMANDS, LEADS, ROLES, STOP, UNITS, Token, concept, concepts, is_generic, stem

Context: TypeAlias = dict[str, float]
"""Concepts near a value, and how much each says about it; `lead X` marks the preposition before the value."""

_APART = frozenset(["to", "between", "for", "in", "with", "from", "by", "on", "near", "who", "which", "that"])
_SUBJECTS = frozenset(["i", "we", "they", "he", "she", "it"])
_OPENERS = frozenset([".", "?", "!", ";", ",", ":", "and", "then", "please", "you", "also", "now", "finally", "next"])
_RUN = re.compile(r"\s*(?:,|,?\s*(?:and|or|&|to|by|x|versus|vs\.?)\b|,?\s*and\s+(?:the|of|in|for|a)\b)?\s*")
_LOOSE = ("phrase", "unit")
"""Kinds of mentions that are mere words: others reach over them."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A text with its words, the values in it, and the stretch of it that is one tool's task."""

    text: str
    tokens: Sequence[Token]
    mentions: Sequence[Mention]
    start: int
    end: int
    reach: tuple[int, int] = (0, 0)
    """Where values for optional parameters may also be found: in all of the tool's task."""

    def holds(self, mention: Mention | Token) -> bool:
        """Whether something stands in the task."""
        return self.start <= mention.start < self.end

    @property
    def words(self) -> list[Token]:
        """The words of the task."""
        return [token for token in self.tokens if self.holds(token)]

    def narrowed(self) -> "Scene":
        """The task alone, without what the rest of the text says."""
        return replace(self, tokens=self.words, mentions=[m for m in self.mentions if self.holds(m)])

    def mention(self, kind: str, start: int, end: int) -> Mention:
        """The mention that a stretch of the text is."""
        return Mention(kind, self.text[start:end], self.text[start:end], start, end)


def in_one_run(one: Mention, other: Mention, text: str) -> bool:
    """Whether two values stand in one list, as in "1, 2 and 3"."""
    return one.kind == other.kind and bool(_RUN.fullmatch(text[one.end : other.start]))


def read_for(tool: Tool, scene: Scene) -> list[Mention]:
    """The values as this tool would take them, with the phrases that are neither function words nor its own words."""
    own = {*tool.name_words, *(c for p in tool.params for c in p.label)}
    own |= {c for p in tool.params for option in p.options if isinstance(option, str) for c in concepts(option)}
    values = [m for m in (_trimmed(m, own, scene) for m in _joined(tool, scene)) if m.start < m.end]
    if not any(param.type in ("array", "any") for param in tool.params):
        values = [part for mention in values for part in _members(mention)]
    values = [m for m in values if not _counts(m, tool, scene)]
    phrases = [phrase for chunk in _chunks(scene) if (phrase := _phrase(chunk, own, scene))]
    return sorted([*values, *phrases], key=lambda m: m.start)


def _joined(tool: Tool, scene: Scene) -> list[Mention]:
    """The mentions, with "US dollars" as one, and "Austin, Texas" too where the state is not asked for by itself."""
    apart = any(p.names & CLASSES["region"] for p in tool.params if p.type == "string")
    joined: list[Mention] = []
    for mention in scene.mentions:
        unit = next((t for t in scene.tokens if t.start == mention.end + 1 and t.is_unit and len(t.text) > 2), None)
        if mention.kind == "name" and unit and unit.text.islower():
            mention = scene.mention("name", mention.start, unit.end)
        last, after = joined[-1] if joined else mention, scene.text[mention.end :]
        pair = last.kind == mention.kind == "name" and scene.text[last.end : mention.start] == ", "
        single = "," not in last.text and not re.match(r",? (?:and|or|&) [A-Z]|, [A-Z]", after)
        if pair and not apart and (single or re.fullmatch(r"[A-Z]{2}", mention.text)):
            joined[-1] = scene.mention("name", last.start, mention.end)
        else:
            joined.append(mention)
    return joined


def _trimmed(mention: Mention, own: set[str], scene: Scene) -> Mention:
    """A name without the tool's own words: nothing is left of "DNA"; at the head of a sentence "Population of" goes."""
    words = mention.text.split(" ")
    if mention.kind != "name":
        return mention
    if all(concept(word) in own for word in words):
        return replace(mention, end=mention.start)
    if "of" in words and concept(words[0]) in own and re.search(r"(?:^|[.?!]\s+)$", scene.text[: mention.start]):
        return scene.mention("name", mention.start + mention.text.index(" of ") + 4, mention.end)
    return mention


def _members(mention: Mention) -> list[Mention]:
    """The numbers of a list such as "(3, 2)", each as a value of its own; any other mention as it is."""
    if mention.kind != "list" or not all(isinstance(value, int | float) for value in mention.value):
        return [mention]
    spots = zip(mention.value, re.finditer(r"-?[\d.]+", mention.text), strict=False)
    return [Mention("number", v, s[0], mention.start + s.start(), mention.start + s.end()) for v, s in spots]


def _counts(mention: Mention, tool: Tool, scene: Scene) -> bool:
    """Whether a number in words only counts the tool's own things: "I have two cylinders"."""
    following = next((t for t in scene.tokens if t.start >= mention.end), None)
    plural = following and following.text.endswith("s") and following.concept in tool.name_words
    return bool(mention.kind == "number" and mention.text.isalpha() and plural)


def _chunks(scene: Scene) -> list[list[Token]]:
    """The runs of words between values and function words; "of" and hyphens join."""
    chunks: list[list[Token]] = [[]]
    last = "."
    for token in scene.tokens:
        taken = any(m.start < token.end and token.start < m.end for m in scene.mentions)
        opens = not chunks[-1] and (last in _SUBJECTS or (token.word in COMMANDS and last in _OPENERS))
        hyphen = token.text == "-" and " " not in scene.text[token.start - 1 : token.end + 1]
        joins = bool(chunks[-1]) and not taken and (token.text == "of" or hyphen)
        if joins or not (taken or opens or token.word in STOP or token.word.endswith("ly") or not token.text.isalpha()):
            chunks[-1].append(token)
        elif chunks[-1]:
            chunks.append([])
        last = token.word
    return chunks


def _phrase(chunk: list[Token], own: set[str], scene: Scene) -> Mention | None:
    """What is left of a run of words without the tool's own words at its ends."""
    while chunk and (
        chunk[0].concept in own
        or chunk[0].text == "of"
        or (len(chunk) > 1 and (chunk[0].is_unit or (chunk[1].text == "of" and is_generic(chunk[0].concept))))
    ):
        chunk = chunk[1:]
    while chunk and (chunk[-1].text in ("of", "-") or (chunk[-1].concept in own and not chunk[-1].is_unit)):
        chunk = chunk[:-1]
    if all(is_generic(token.concept) for token in chunk):
        return None
    kind = "unit" if len(chunk) == 1 and chunk[0].is_unit else "phrase"
    return scene.mention(kind, chunk[0].start, chunk[-1].end)


def contexts_of(mentions: Sequence[Mention], tool: Tool, scene: Scene) -> dict[Mention, Context]:
    """For every mention, the concepts around it; in a list ("base and height of 5 and 8") members share the first's."""
    contexts: dict[Mention, Context] = {}
    for index, mention in enumerate(mentions):
        previous = mentions[index - 1] if index else None
        following = next((m.start for m in mentions[index + 1 :] if m.kind not in _LOOSE), len(scene.text))
        barrier = max((m.end for m in mentions[:index] if m.kind not in _LOOSE), default=0)
        context = _after(mention, following, scene)
        for word, weight in _before(mention, barrier, scene).items():
            context[word] = max(weight, context.get(word, 0))
        if previous and in_one_run(previous, mention, scene.text):
            shared = {word: 0.8 * weight for word, weight in contexts[previous].items()}
            ranged = LEADS["between_and"] if "lead between" in shared and mention.kind != "name" else {}
            context = {**shared, **context, **ranged}
        label = re.search(r"(\w+) of $", scene.text[: mention.start]) if mention.kind == "number" else None
        if (
            label
            and label[1].lower() not in STOP
            and concept(label[1]) not in {*tool.name_words, *tool.words, *tool.param_words}
        ):
            context["strange"] = 1.0  # "a radius of 3" where the tool knows of no radius
        contexts[mention] = context
    return contexts


def _before(mention: Mention, barrier: int, scene: Scene) -> Context:
    context: Context = {}
    distance, led = 0.0, False
    for token in reversed([t for t in scene.tokens if barrier <= t.start and t.end <= mention.start][-9:]):
        if token.text in ".?!;" or (barrier and token.text in ("and", ",")):
            break
        if token.word in LEADS and not led:
            led = True
            context |= {f"lead {token.word}": 1.0, **LEADS[token.word]}
            if mention.kind == "date" and token.word in ("from", "to"):  # not the departure: the first day of a stay
                context = {concept("start" if token.word == "from" else "end"): 0.7}
            if token.concept in ROLES:
                context[token.concept] = 1.1
        function = token.word in STOP
        distance += 1.5 if token.text in ("and", ",") else 0.3 if function and token.word not in _APART else 1.0
        if token.text[0].isalnum() and (not function or token.concept in ROLES):
            context.setdefault(token.concept, 1.1 / (1 + 0.25 * max(distance - 1, 0)))
    return context


def _after(mention: Mention, limit: int, scene: Scene) -> Context:
    near = [t for t in scene.tokens if mention.end <= t.start]
    context: Context = {}
    if mention.kind == "number":
        context = {**UNITS.get(stem(near[0].text) if near else "", {}), **UNITS.get(stem(mention.unit or "-"), {})}
    for distance, token in enumerate([t for t in near if t.end <= limit and t.word != "in"][:3]):
        if token.word in STOP or not token.text[0].isalnum():
            break
        context[token.concept] = 1.2 / (1 + 0.4 * distance)
    return context
