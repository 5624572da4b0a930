"""The form of a request for a small model: worked examples, one call a reply, and values to choose from.

A model of a hundred million weights seldom writes a right value, but it chooses well.  So its reply schema has only the
useful tools, and for each parameter the values of the question that the parameter can have: numbers, shares for
percentages, dates in the form that the description asks for, words side by side.  Values are read as the offline model
reads them.

What does not change stands first, and each further request of a run only adds to the one before: llama.cpp keeps the
beginning that two requests share.
"""

import datetime
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

from ..core.messages import Message, assistant, calls_of, system, text_of, tool_names, user
from ..core.parts import Part, parts_of
from ..engine.model import Request
from ..schemas.formats.structure import make_union
from ..schemas.walk import JsonSchema
from ..tools.final_answer import takes_text
from ..tools.json_tool import JsonTool
from ..tools.ranking import ToolIndex, list_stems
from ..tools.registry import ToolRegistry, make_call_form
from ..tools.text_calls import write_call
from .offline.planning import Fit, Param, Task, name_tools, read_tool
from .offline.words import Query, parse_query, strip_quotes

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))(?![^\[\]]*\])")
"""Separators in numbers, at which a small model ends a number; those in a list in brackets are between numbers."""
NEAR_SHARE = 0.8
"""A tool is offered to a small model if its words suit the question at least so well, compared with the best one's."""
MAX_NEAR_TOOLS = 3
"""Tools that are offered by their meanings."""
MAX_ADDED_CHARS = 40
"""Characters that a text in a call of a small model may have more than the question."""
MAX_COPIED_WORDS = 80
"""Words of a question from which texts are copied; from a longer one they are written freely."""
MAX_SPAN_WORDS = 8
LEAD = """\
Answer the question of the user by calling functions. Reply with JSON. Copy the values from the question. Leave out \
arguments that the question does not name."""
_EXAMPLES = (
    ("height_of(mountain): Tell the height of a mountain.", "height_of", {"mountain": "Mount Kenya"},
     "How high is Mount Kenya?", "5199", "Mount Kenya is 5199 metres high."),
    ("find_train(start, end): Find the next train.", "find_train", {"start": "Oslo", "end": "Bergen"},
     "When does a train go from Oslo to Bergen?", "08:25", "The next train from Oslo to Bergen goes at 08:25."),
)  # fmt: skip
"""Worked examples: a function, its call, the question, the result, and the answer that holds the result."""


def lead_request(request: Request, *, offers_values: bool = True) -> Request:
    """Return a request that leads a small model: worked examples, one call a reply, and only useful tools and values.

    The tools are those whose words suit the question about as well as the best one's. Where no word does, they are the
    one that the offline model would call, else those with the nearest meanings, until there is a result. A tool that
    was called since the last answer is not offered again, so no call is repeated; the answer tool is offered when there
    is a result.

    Args:
        request: The request of an agent.
        offers_values: Whether values are offered; else the model writes them.
    """
    tools = request.tools
    messages = [message for message in request.messages if message["role"] != "system"]
    results = _find_results(messages, tools)
    asked = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    query = text_of(messages[asked]) if asked >= 0 else ""
    near, is_named = _choose_tools(query, tools.own_tools)
    left = [tool for tool in near if tool.name not in results] if is_named or not results else []
    if request.tool_choice in tools:
        left = [tool for tool in left if tool.name == request.tool_choice]
    answer = tools.answer if results or not left else None
    values = QuestionValues("\n".join([query, *results.values()]), left, is_offered=offers_values)
    return replace(
        request,
        messages=[system(LEAD), *_write_examples(tools.answer), *_write_messages(messages, asked, near, query)],
        tools=ToolRegistry(),
        tool_choice="auto",
        reply_schema=_write_schema(left, answer, values),
    )


def _choose_tools(query: str, tools: Sequence[JsonTool[..., Any]]) -> tuple[Sequence[JsonTool[..., Any]], bool]:
    """Return the tools that suit a question, and whether its words name them.

    A tool that needs a number is left out if the question has none, unless all of them do.
    """
    able = tools
    values = QuestionValues(query)
    if not values.numbers and not values.has_period():
        able = [tool for tool in tools if not any(map(_is_number, _list_required(tool)))] or tools
    if near := ToolIndex(able, meanings=False).select(query, NEAR_SHARE):
        return near, True
    named = name_tools(query, [_define(tool) for tool in able])
    if near := [tool for tool in able if tool.name in named]:
        return near, True
    return ToolIndex(able).find(query, MAX_NEAR_TOOLS) or able, False


def _list_required(tool: JsonTool[..., Any]) -> list[JsonSchema]:
    required = tool.parameters.get("required", ())
    return [inner for name, inner in tool.parameters.get("properties", {}).items() if name in required]


def _define(tool: JsonTool[..., Any]) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _write_messages(
    messages: Sequence[Message], asked: int, tools: Iterable[JsonTool[..., Any]], query: str
) -> Iterator[Message]:
    names = tool_names(messages)
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            name = names.get(message["tool_call_id"], "")
            yield user(_join(f"Result of {name}: {text_of(message)}", [*parts_of(message)], f"Question: {query}"))
        elif calls := calls_of(message):
            yield assistant("\n".join(write_call(call.name, call.arguments) for call in calls))
        else:
            content = _THOUSANDS.sub("", text_of(message))
            asking = _ask("\n".join(map(_describe, tools)), content) if at == asked else content
            yield {**message, "content": _join(asking, [*parts_of(message)])}


def _join(before: str, parts: Sequence[Part], behind: str = "") -> str | list[Part]:
    """Return texts as one, or with the parts between them as a list."""
    texts = [*filter(None, (before, behind))]
    if not parts:
        return "\n".join(texts)
    written: list[Part] = [{"type": "text", "text": text} for text in texts]
    return [*written[:1], *parts, *written[1:]]


def _describe(tool: JsonTool[..., Any]) -> str:
    return f"{tool.name}({', '.join(tool.parameters['properties'])}): {tool.description}"


def _ask(functions: str, question: str) -> str:
    return f"Functions:\n{functions}\nQuestion: {question}"


def _write_examples(answer: JsonTool[..., Any] | None) -> Iterator[Message]:
    for function, name, arguments, question, result, text in _EXAMPLES:
        yield {"role": "user", "content": _ask(function, question)}
        yield assistant(write_call(name, json.dumps(arguments)))
        if answer is not None and takes_text(answer):
            yield {"role": "user", "content": f"Result of {name}: {result}\nQuestion: {question}"}
            yield assistant(write_call(answer.name, json.dumps({"text": text})))


def _find_results(messages: Sequence[Message], tools: ToolRegistry) -> dict[str, str]:
    """Return the results since the last answer, by tool; a call with wrong arguments may be made again."""
    found = dict[str, str]()
    names = tool_names(messages)
    for message in reversed(messages):
        if message["role"] != "tool" or text_of(message).startswith("ValidationError"):
            continue
        name = names.get(message["tool_call_id"], "")
        if tools.answer is not None and name == tools.answer.name:
            break
        found[name] = text_of(message)
    return found


def _write_schema(
    tools: Iterable[JsonTool[..., Any]], answer: JsonTool[..., Any] | None, values: "QuestionValues"
) -> JsonSchema:
    """Return the schema of one call: of a tool, with the parameters and values that suit the question, or the answer's.

    It has no list around it, which other models may write.
    """
    definitions: JsonSchema = {}
    forms = []
    for tool in tools:
        form = make_call_form(tool, definitions)
        form["properties"]["arguments"] = _ToolValues(tool, values).narrow(form["properties"]["arguments"])
        forms.append(form)
    if answer is not None:
        forms.append(make_call_form(answer, definitions))
    found = make_union(forms)
    return {**found, "$defs": definitions} if definitions else found


class _Chosen(NamedTuple):
    """A value that was chosen for a parameter, at `path`."""

    path: tuple[str, ...]
    value: Any
    options: Sequence[Any]


def list_rivals(request: Request, text: str) -> list[JsonSchema]:
    """Return the reply schemas that avoid a value which the reply gives to two parameters.

    In each of them another one of the two parameters has other values to choose from.  A value that the messages name
    twice may stand for both.

    Args:
        request: A request in the form for small models.
        text: The reply to it.
    """
    form = _find_form(request, text)
    if form is None:
        return []
    said = next((text_of(message) for message in reversed(request.messages) if message["role"] == "user"), "")
    question = said.rpartition("Question: ")[2]
    chosen = [*_list_chosen(form["properties"]["arguments"], json.loads(text)["arguments"], ())]
    for one, other in combinations(chosen, 2):
        shared = _find_shared(one.value, other.value)
        if shared and len(re.findall(rf"(?<![\w.]){re.escape(shared)}(?!\w)", question, re.IGNORECASE)) < 2:
            rivals = [_without(request.reply_schema or {}, form, each, shared) for each in (one, other)]
            if found := [rival for rival in rivals if rival]:
                return found
    return []


def is_final(request: Request, text: str) -> bool | None:
    """Return whether a reply that begins with `text` cannot be one that has rivals; None if it is not known yet."""
    choosing = {
        name
        for form in _list_forms(request)
        if any(len(inner.get("enum", ())) > 1 for inner in form["properties"]["arguments"]["properties"].values())
        for name in form["properties"]["name"]["enum"]
    }
    if not choosing:
        return True
    named = _NAMED.match(text)
    return None if named is None else named["name"] not in choosing


_NAMED = re.compile(r'\s*\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"')


def _list_forms(request: Request) -> list[JsonSchema]:
    """Return the schemas of the calls, of a request that has the form of `lead_request`; none of another one."""
    schema = request.reply_schema or {}
    forms: list[JsonSchema] = schema.get("anyOf", [schema])
    entries = [form.get("properties", {}) for form in forms]
    return [
        form
        for form, entry in zip(forms, entries, strict=True)
        if "enum" in entry.get("name", {}) and "properties" in entry.get("arguments", {})
    ]


def _find_form(request: Request, text: str) -> JsonSchema | None:
    """Return the schema of the call that a reply makes, of a request that has the form of `lead_request`."""
    try:
        name = json.loads(text)["name"]
    except (ValueError, TypeError, KeyError):
        return None
    return next((form for form in _list_forms(request) if name in form["properties"]["name"]["enum"]), None)


def _list_chosen(schema: JsonSchema, arguments: Any, path: tuple[str, ...]) -> Iterator[_Chosen]:
    for name, inner in schema.get("properties", {}).items():
        value = arguments.get(name)
        if isinstance(value, dict):
            yield from _list_chosen(inner, value, (*path, name))
        elif "enum" in inner and isinstance(value, str | int | float) and not isinstance(value, bool):
            yield _Chosen((*path, name), value, inner["enum"])


def _find_shared(one: Any, other: Any) -> str:
    """Return what two values share: the number that both are, or the text that one of them holds; else ""."""
    if not isinstance(one, str) and not isinstance(other, str):
        return str(one) if one == other and one != 0 else ""
    short, long = sorted((str(one), str(other)), key=len)
    return short if re.search(rf"(?<!\w){re.escape(short)}(?!\w)", long, re.IGNORECASE) else ""


def _without(schema: JsonSchema, form: JsonSchema, chosen: _Chosen, shared: str) -> JsonSchema | None:
    """Return the schema in which a parameter has no value with the shared text; None if it has no other value."""
    left = [one for one in chosen.options if not _find_shared(one, shared if isinstance(one, str) else chosen.value)]
    if not left:
        return None

    def change(node: JsonSchema, path: tuple[str, ...]) -> JsonSchema:
        if not path:
            return {**node, "enum": left}
        name, *rest = path
        return {**node, "properties": {**node["properties"], name: change(node["properties"][name], tuple(rest))}}

    changed = change(form, ("arguments", *chosen.path))
    if "anyOf" not in schema:
        return changed
    return {**schema, "anyOf": [changed if one is form else one for one in schema["anyOf"]]}


_PERCENT = re.compile(r"%|percent", re.IGNORECASE)
_DECIMAL = re.compile(r"decimal|fraction", re.IGNORECASE)
_DIGITS = re.compile(
    r"(?<![\w.^])(?P<number>-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:e[-+]?\d+)?)"
    r"(?P<share>\s?(?:%|percent\b))?(?P<magnitude>\s?(?:hundred|thousand|million|billion|trillion|dozen)\b|[kM]\b)?"
)
_UNIT = re.compile(r"\d[\s-]?([^\W\d_]{2,})")
"""The word behind a number."""
_UNIT_STEMS = frozenset(list_stems("unit"))
_FLAG_WORDS = frozenset(list_stems("include allow is has use with get show enable return need only set all a to of"))
_LISTED = re.compile(r"[\s,;]*(?:,|;|\band\b|&)?[\s]*")
"""What stands between the numbers of a list."""
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|&)\s+")
MAX_LISTS = 200
_WORD = re.compile(r"\S+")
_AROUND = "\"'`“”‘’«»([{<>}]),;:!?"
_BEHIND = _AROUND + "."
"""Marks before and behind a word that are not copied."""
MAX_ABBREVIATION_CHARS = 40
_ABBREVIATION = re.compile(r"(?:\b[A-Za-z]\.){2,}$")
_WHOLE = frozenset(("name", "quoted", "email", "url", "path", "code", "expression"))
"""Kinds of values of which no part is copied alone."""
_STOPS = ",!?;:"
"""Marks over which no text is copied."""
_OPTIONS = re.compile(r"\b(?:can be|either|one of|options?|choices?|must be|allowed|possible)\b", re.IGNORECASE)
_DEFAULT = re.compile(r"\bdefault(?:s|ed)?(?: value)?(?: is| to|:|=)?\s*[\"'`]?(?P<value>[\w.-]*\w)", re.IGNORECASE)
_EDGES = """
    a an and any are as at be by can did do does for from had has have how i if in into is it its let me my of on or our
    please than that the their there these they this those to was we were what when where which who why will with would
    your through during between using including about you
"""
_LONG_NAMES = """
    text query question message condition description content sentence phrase title subject body note comment event
    statement instruction prompt name expression equation function formula rule reason command
"""
_LOOSE = frozenset((*_EDGES.split(), "I"))
"""Words with which no copied text begins or ends."""
_JOINTS = _LOOSE - {"a", "an", "and", "of", "or", "the", "I", "my", "our", "your"}
MAX_KEYS = 8
"""Keys of an object whose keys the schema does not name."""
_FORMS = frozenset(("type", "anyOf", "oneOf", "allOf", "$ref", "const", "not", "properties"))
_LONG = frozenset(list_stems(_LONG_NAMES))
"""Stems of the names of parameters whose texts have several parts."""
_PERIODS = {
    "hour": {"day": 24},
    "day": {"weekend": 2, "week": 7, "fortnight": 14, "month": 30, "year": 365},
    "week": {"fortnight": 2, "month": 4, "year": 52},
    "month": {"quarter": 3, "year": 12},
    "year": {"decade": 10, "century": 100},
}
"""How many of a period a longer one has."""
_EXPRESSION = frozenset(list_stems("function expression equation formula"))
CERTAIN = 2.25
"""The score of a value that is the only one for its parameter."""
NAMED = 1.75
"""The least score of the value of an optional parameter."""


class _Number(NamedTuple):
    value: float
    is_share: bool
    start: int
    end: int


class QuestionValues:
    """The values of a question, and of the results so far."""

    def __init__(self, text: str, tools: Iterable[JsonTool[..., Any]] = (), *, is_offered: bool = True) -> None:
        self.text = strip_quotes(text)
        self._verbs = frozenset(list_stems(" ".join(f"{tool.name} {tool.description}" for tool in tools)))
        self.is_offered = is_offered
        self.stems = frozenset(list_stems(text))
        self.units = frozenset(list_stems(" ".join(_UNIT.findall(text))))

    @cached_property
    def loose_stems(self) -> frozenset[str]:
        """The stems of the words outside of the values that stay whole."""
        ends = [0, *(place for span in sorted(self.whole) for place in span), len(self.text)]
        return frozenset(list_stems(" ".join(self.text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))))

    @cached_property
    def unit_places(self) -> Sequence[tuple[int, int]]:
        """The places of the words behind numbers."""
        return [match.span(1) for match in _UNIT.finditer(self.text) if match[1] not in _LOOSE]

    @cached_property
    def query(self) -> Query:
        """The text with its words and values."""
        return parse_query(self.text, datetime.date.today())

    @cached_property
    def numbers(self) -> Sequence[_Number]:
        """The numbers in their order."""
        found = dict[int, _Number]()
        for match in _DIGITS.finditer(self.text):
            if not match["magnitude"]:
                number = float(match["number"].replace(",", ""))
                value = int(number) if number.is_integer() else number
                found[match.start()] = _Number(value, bool(match["share"]), *match.span())
        for each in self.query.values:
            if each.kind in ("number", "year") and isinstance(each.value, int | float):
                start = each.start + len(each.text) - len(each.text.lstrip("$€£¥ "))
                found.setdefault(start, _Number(each.value, bool(_PERCENT.search(each.text)), start, each.end))
        return [found[at] for at in sorted(found)]

    def has_period(self, first: str = "", period: str = "") -> bool:
        """Return whether the text names a period, such as "the next week"; `first` are further words before it."""
        periods = period or "|".join({*_PERIODS, *(long for longer in _PERIODS.values() for long in longer)})
        before = f"{first}last|past|next|coming|per|every|each"
        return re.search(rf"(?i)\b(?:{before}) (?:{periods})\b", self.text) is not None

    @cached_property
    def whole(self) -> Sequence[tuple[int, int]]:
        """The places of the values of which no part is copied alone."""
        return [self._cut(*self.strip(each.start, each.end)) for each in self.query.values if each.kind in _WHOLE]

    def _cut(self, start: int, end: int) -> tuple[int, int]:
        """Return the place of a value without the verb of the request before it, and without ", I" behind it."""
        first, _, rest = self.text[start:end].partition(" ")
        if not self.text[:start].strip() and rest and not self._verbs.isdisjoint(list_stems(first)):
            start = end - len(rest)
        return start, end - 3 * self.text[start:end].endswith(", I")

    @cached_property
    def _quotations(self) -> Sequence[tuple[int, int]]:
        return [self.strip(each.start, each.end) for each in self.query.values if each.kind == "quoted"]

    @cached_property
    def texts(self) -> Sequence[tuple[int, int]]:
        """The places of the runs of words that can be copied; none in a long text.  A run holds whole values."""
        words = [*_WORD.finditer(self.text)]
        if len(words) > MAX_COPIED_WORDS:
            return []
        is_verb = bool(words) and not self._verbs.isdisjoint(list_stems(words[0][0]))
        opening = len(words) > 2 and (is_verb or not self._is_inside(words[0].start()))  # or a question word
        found = list[tuple[int, int]]()
        for first in range(opening, len(words)):
            for last in range(first, min(len(words), first + MAX_SPAN_WORDS)):
                start, end = self.strip(words[first].start(), words[last].end())
                heads = self.text[start:end].split()
                is_whole = all(end <= a or b <= start or (start <= a and b <= end) for a, b in self.whole)
                is_whole = is_whole and not any(start <= a and b <= end for a, b in self._quotations)
                if heads and is_whole and heads[0] not in _LOOSE and heads[-1].lower() not in _LOOSE:
                    found.append((start, end))
                behind = words[last].end()
                is_stop = words[last][0][-1] in _STOPS and not self._is_inside(behind - 1)
                if is_stop or self.text.startswith("\n", behind):
                    break
        found += [place for place in self.whole if not opening or place != words[0].span()]
        return [*dict.fromkeys(found)]

    @cached_property
    def lists(self) -> Sequence[list[str]]:
        """The texts that are listed side by side: the first one may begin, and the last one end, at any word."""
        marks = [each for each in _SEPARATOR.finditer(self.text) if not self._is_inside(each.start())]
        edges = [0, *(place for mark in marks for place in mark.span()), len(self.text)]
        parts = [self.strip(*part) for part in zip(edges[::2], edges[1::2], strict=True)]
        begins = defaultdict[int, list[int]](list)
        ends = defaultdict[int, list[int]](list)
        for start, end in self.texts:
            begins[end].append(start)
            ends[start].append(end)
        found = dict[tuple[str, ...], None]()
        for first, last in combinations(range(len(parts) if self.texts else 0), 2):
            low, head = parts[first]
            tail, high = parts[last]
            for start in (each for each in begins[head] if each >= low):
                for end in (each for each in ends[tail] if each <= high):
                    places = [(start, head), *parts[first + 1 : last], (tail, end)]
                    found[tuple(self.text[a:b] for a, b in places)] = None
            if len(found) > MAX_LISTS:
                break
        return [[*each] for each in found][:MAX_LISTS]

    def _is_inside(self, place: int) -> bool:
        return any(start <= place < end for start, end in self.whole)

    def is_joined(self, start: int, end: int) -> bool:
        """Return whether a text has a word such as "from" or "with" inside, outside of the values that stay whole."""
        inner = [*_WORD.finditer(self.text, start, end)][1:-1]
        return any(word[0].lower() in _JOINTS and not self._is_inside(word.start()) for word in inner)

    def strip(self, start: int, end: int) -> tuple[int, int]:
        """Return the place without the marks around it; brackets that open and close inside stay."""
        text = self.text
        while start < end and (text[start].isspace() or text[start] in _AROUND) and not _is_closed(text[start:end]):
            start += 1
        while start < end and (text[end - 1].isspace() or text[end - 1] in _BEHIND):
            if _is_closed(text[start:end]) or _ABBREVIATION.search(text, max(start, end - MAX_ABBREVIATION_CHARS), end):
                break
            end -= 1
        if text[start:end].endswith(("'s", "’s")):
            end -= 2
        return start, end


def _is_unit(schema: JsonSchema, path: tuple[str, ...]) -> bool:
    is_text = schema.get("type") == "string" and "enum" not in schema
    return is_text and not _UNIT_STEMS.isdisjoint(list_stems(path[-1]))


def _list_options(schema: JsonSchema) -> Sequence[Any]:
    """Return the values from which one or several are chosen, if the schema names them."""
    items = schema.get("items")
    found = schema.get("enum") or (items.get("enum") if isinstance(items, dict) else None)
    return found or ()


def _content_stems(text: str) -> set[str]:
    return {*list_stems(" ".join(word for word in re.split(r"[\s_-]+", text) if word.lower() not in _LOOSE))}


def _complete(texts: Iterable[str], about: str) -> Iterator[str]:
    """Yield the texts; in place of one that begins an example of the description, the example: "Boston, MA"."""
    for text in texts:
        example = re.search(rf"(?<!\w){re.escape(text)}, [A-Z]{{2}}\b", about) if text[:1].isupper() else None
        yield example[0] if example else text


def _is_closed(text: str) -> bool:
    """Return whether a text ends with a bracket that opens inside it: "f(x)"."""
    return any(text.endswith(end) and text.find(begin) > 0 for begin, end in ("()", "[]", "{}"))


class _ToolValues:
    """A tool and the values of a question: which parameters are named, and which values each can have."""

    def __init__(self, tool: JsonTool[..., Any], values: QuestionValues) -> None:
        self._values = values
        self._task = Task(read_tool(_define(tool)), values.query, 0, len(values.query.text))
        self._params = {tuple(param.path): param for param in self._task.tool.params}
        self._best = {tuple(param.path): fits[0] for param, fits in self._task.columns.items()}
        self._certain = {
            path: fit
            for path, fit in self._best.items()
            if fit.score >= (NAMED if fit.value.kind == "quoted" else CERTAIN) and not fit.param.is_list
        }

    def narrow(self, schema: JsonSchema, path: tuple[str, ...] = ()) -> JsonSchema:
        """Return the schema of the arguments: a named optional parameter is required, any other one left out."""
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        needed = sum(_is_number(properties[name]) for name in required if name in properties)
        named = [
            name
            for name, inner in properties.items()
            if name in required or self._is_named(inner, (*path, name), needed)
        ]
        kept = [*properties] if path else named
        needed = sum(_is_number(properties[name]) for name in kept)
        narrow = self._narrow_value if self._values.is_offered else self._bound
        narrowed = {name: narrow(properties[name], (*path, name), needed) for name in kept}
        return {**schema, "properties": narrowed, "required": named}

    def _is_named(self, schema: JsonSchema, path: tuple[str, ...], needed: int) -> bool:
        fit = self._best.get(path)
        if fit is not None and (fit.score >= NAMED or fit.value.kind in ("date", "month", "time", "year")):
            return True
        if _is_number(schema) and len(self._values.numbers) > needed:
            return not self._values.units.isdisjoint(list_stems(f"{path[-1]} {schema.get('description', '')}"))
        if schema.get("type") == "boolean":
            return self._is_asked_for(path)
        if _is_unit(schema, path):
            return bool(self._values.unit_places) and self._is_of_number(schema)
        if options := _list_options(schema):
            return bool(self._list_said(options))
        return path not in self._params and not self._values.stems.isdisjoint(list_stems(path[-1]))

    def _is_of_number(self, schema: JsonSchema) -> bool:
        """Return whether the description of a unit names a required parameter with a number."""
        about = {*list_stems(schema.get("description", ""))}
        numbers = [one for one in self._params.values() if one.required and one.type in ("integer", "number")]
        return any(not about.isdisjoint(list_stems(one.path[-1])) for one in numbers)

    def _is_asked_for(self, path: tuple[str, ...]) -> bool:
        """Return whether the question has a word of a flag's name that is no word of the tool's: "with *details*"."""
        words = {*list_stems(path[-1])} - _FLAG_WORDS - {*list_stems(self._task.tool.name)}
        return not words.isdisjoint(self._values.stems)

    def _list_said(self, options: Sequence[Any]) -> list[Any]:
        """Return the options of which the question has a word; of one letter, the same one."""
        named = {*list_stems(self._task.tool.name)}
        said = (self._values.loose_stems - named) or (self._values.stems - named)
        words = frozenset(self._values.text.replace("(", " ").replace(")", " ").split())
        return [
            one
            for one in options
            if isinstance(one, str) and (one in words if len(one) == 1 else not said.isdisjoint(_content_stems(one)))
        ]

    def _narrow_value(self, schema: JsonSchema, path: tuple[str, ...], needed: int = 0) -> JsonSchema:
        kind = schema.get("type")
        param = self._params.get(path)
        if "enum" in schema:
            said = [fit.argument for fit in self._fits(param)]
            return {**schema, "enum": [one for one in schema["enum"] if one in said] or schema["enum"]}
        if "anyOf" in schema:  # a named parameter is not null
            forms = [form for form in schema["anyOf"] if form.get("type") != "null"]
            about = {"description": schema.get("description", "")}
            return {"anyOf": [self._narrow_value({**about, **form}, path, needed) for form in forms]}
        if kind == "object" and schema.get("properties"):
            return self.narrow(schema, path)
        if kind == "array" and isinstance(schema.get("items"), dict):
            return self._narrow_list(schema, path)
        if (fit := self._certain.get(path)) is not None and kind in ("boolean", "integer"):
            return {"type": kind, "enum": [fit.argument]}
        if kind == "boolean" and (fit := self._best.get(path)) is not None:
            return {"type": kind, "enum": [fit.argument]}
        if kind == "boolean":
            default = self._read_default(schema)
            is_asked = param is not None and not param.required and self._is_asked_for(path)
            return {"type": kind, "enum": [default is not is_asked]} if isinstance(default, bool) else schema
        if kind in ("integer", "number"):
            return self._narrow_number(schema, path, needed)
        if kind == "string":
            return self._narrow_text(schema, path)
        if kind == "object" and schema.get("additionalProperties", True) is True:
            return self._narrow_free_object(schema, path)
        return self._narrow_any(schema, path, needed) if schema.keys().isdisjoint(_FORMS) else schema

    def _narrow_free_object(self, schema: JsonSchema, path: tuple[str, ...]) -> JsonSchema:
        """Return a form with an end for an object of any keys: words of the question, none of them twice."""
        texts = (self._values.text[start:end] for start, end in self._values.texts)
        keys = [*dict.fromkeys(text for text in texts if text.isidentifier())][:MAX_KEYS]
        form = self._narrow_any({}, path, 0)
        return {**schema, "properties": dict.fromkeys(keys, form), "additionalProperties": False}

    def _narrow_any(self, schema: JsonSchema, path: tuple[str, ...], needed: int) -> JsonSchema:
        """Return a form with an end for a value of any type: a text, a number or a list of the question's numbers."""
        forms: list[JsonSchema] = [{"type": "string"}]
        if self._values.numbers:
            forms += [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]
        return self._narrow_value({**schema, "anyOf": forms}, path, needed)

    def _read_default(self, schema: JsonSchema) -> Any:
        if "default" in schema:
            return schema["default"]
        found = _DEFAULT.search(schema.get("description", ""))
        words = {"true": True, "false": False}
        return words.get(found["value"].lower(), found["value"]) if found else None

    def _narrow_number(self, schema: JsonSchema, path: tuple[str, ...], needed: int) -> JsonSchema:
        found = [value for value, *_ in self._read_numbers(schema, path)]
        about = f"{path[-1]} {schema.get('description', '')}"
        found += self._read_periods(about)
        if not found:
            return schema
        if len(found) < needed:
            default = self._read_default(schema)
            found.append(default if isinstance(default, int | float) else 0)
        return {"type": schema["type"], "enum": [*dict.fromkeys(found)]}

    def _read_periods(self, about: str) -> Iterator[int]:
        stems = set(list_stems(about))
        for short, longer in _PERIODS.items():
            if short in stems:
                yield from (count for long, count in longer.items() if self._values.has_period("a|the|this|", long))
                yield from [1] if self._values.has_period(period=short) else []

    def _read_numbers(self, schema: JsonSchema, path: tuple[str, ...]) -> list[_Number]:
        about = f"{path[-1]} {schema.get('description', '')}"
        is_number = schema.get("type") == "number"
        takes_share = is_number and (bool(_DECIMAL.search(about)) or not _PERCENT.search(about))
        found = [
            each._replace(value=round(each.value / 100, 10)) if each.is_share and takes_share else each
            for each in self._values.numbers
        ]
        return [each for each in found if _suits(each.value, schema)]

    def _narrow_text(self, schema: JsonSchema, path: tuple[str, ...]) -> JsonSchema:
        offered = _complete(self._list_texts(schema, path), schema.get("description", ""))
        found = [text for text in dict.fromkeys(offered) if _suits(text, schema)]
        if found and "pattern" not in schema:
            return {"type": "string", "enum": found}
        return self._bound(schema, path)

    def _bound(self, schema: JsonSchema, _: tuple[str, ...], __: int = 0) -> JsonSchema:
        """Return the schema with an end for texts of the model's own."""
        most = len(self._values.text) + MAX_ADDED_CHARS
        is_open = schema.get("type") == "string" and schema.keys().isdisjoint(("enum", "const", "format", "maxLength"))
        return {**schema, "maxLength": most} if is_open else schema

    def _list_texts(self, schema: JsonSchema, path: tuple[str, ...]) -> Iterable[str]:
        """Return the texts that a parameter can have; none if it must be written freely."""
        param = self._params.get(path)
        said = [fit for fit in self._fits(param) if isinstance(fit.argument, str)]
        known = [str(value) for _, value in param.known] if param else []
        named = [fit.argument for fit in said if fit.argument in known]
        dated = [fit.argument for fit in said if fit.value.kind in ("date", "time") and fit.argument != fit.value.text]
        about = schema.get("description", "")
        if named or dated or "format" in schema:
            return named or dated
        if param and not param.required and path not in self._best and _is_unit(schema, path):
            return (self._values.text[start:end] for start, end in self._values.unit_places)
        if len(known) > 1 and _OPTIONS.search(about) and "code" not in about:
            return known
        if param and not param.required and path in self._best:
            best = self._best[path].argument
            return best if isinstance(best, list) else [best]
        return (self._values.text[start:end] for start, end in self._list_places(path))

    def _list_places(self, path: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return the places of the texts that a parameter can have: of its certain value, or of those of no other."""
        if (fit := self._certain.get(path)) is not None:
            return self._widen(fit)
        places = [*self._values.texts]
        if not _EXPRESSION.isdisjoint(list_stems(path[-1])):
            written = [each for each in self._values.query.values if each.kind == "expression"]
            places = [(a, b) for a, b in places if any(a <= each.start and each.end <= b for each in written)] or places
        own_words = self._task.tool.own
        places = [
            (a, b)
            for a, b in places
            if not own_words.issuperset(word.value for word in self._values.query.words_in(a, b))
        ] or places
        if _LONG.isdisjoint(list_stems(path[-1])):
            places = [(a, b) for a, b in places if not self._values.is_joined(a, b)] or places
        others = [fit.value for other, fit in self._certain.items() if other != path and fit.param.required]
        if any(param.type in ("integer", "number") for param in self._task.tool.params):
            counts = [each for each in self._values.query.values if each.kind == "number"]
            places = [(a, b) for a, b in places if all(a < each.start or each.end < b for each in counts)] or places
        return [(a, b) for a, b in places if all(b <= each.start or each.end <= a for each in others)] or places

    def _widen(self, fit: Fit) -> list[tuple[int, int]]:
        """Return the texts that hold the value of a fit, and no other value; a quotation is taken as it is."""
        place = self._values.strip(fit.value.start, fit.value.end)
        others = [each for each in self._values.whole if each != place]
        holding = [(a, b) for a, b in self._values.texts if a <= place[0] and place[1] <= b]
        alone = [(a, b) for a, b in holding if all(b <= start or end <= a for start, end in others)]
        return alone if alone and fit.value.kind == "name" else [place]

    def _narrow_list(self, schema: JsonSchema, path: tuple[str, ...]) -> JsonSchema:
        items = schema["items"]
        param = self._params.get(path)
        said = [fit.argument for fit in self._fits(param)]
        inner = self._narrow_value(items, path)
        found: list[Any] = [each for each in said if isinstance(each, list)]
        if not found and "enum" in items:
            found = [self._list_said(items["enum"]) or [one for one in items["enum"] if one in said]]
        elif not found and _is_number(items):
            about = {"description": schema.get("description", ""), **items}
            found = self._list_runs(self._read_numbers(about, path))
        elif not found and items.get("type") == "string" and "enum" in inner:
            found = [*([text] for text in inner["enum"]), *self._values.lists]
        if suitable := [each for each in found if each and _suits(each, schema)]:
            return {"type": "array", "enum": suitable}
        return {**schema, "items": inner, "minItems": max(1, schema.get("minItems", 0))}

    def _list_runs(self, numbers: Sequence[_Number]) -> list[list[float]]:
        """Return the numbers that are listed side by side; otherwise each run of the numbers."""
        listed = list[list[_Number]]()
        for each in numbers:
            if listed and _LISTED.fullmatch(self._values.text, listed[-1][-1].end, each.start):
                listed[-1].append(each)
            else:
                listed.append([each])
        runs = [each for each in listed if len(each) > 1]
        if not runs and len(numbers) <= 12:
            runs = [[*numbers[a:b]] for a in range(len(numbers)) for b in range(a + 1, len(numbers) + 1)]
        return [[each.value for each in run] for run in runs]

    def _fits(self, param: Param | None) -> list[Fit]:
        return [fit for fit in self._task.fits if fit.param is param] if param else []


def _is_number(schema: JsonSchema) -> bool:
    return schema.get("type") in ("integer", "number") and "enum" not in schema


def _suits(value: Any, schema: JsonSchema) -> bool:
    """Return whether a value has the type and the size that a schema allows."""
    match schema.get("type"), value:
        case "array", list():
            size = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            return bool(size) and all(_suits(one, schema.get("items", {})) for one in value)
        case "integer" | "number", int() | float():
            is_kind = schema["type"] == "number" or float(value).is_integer()
            return bool(is_kind and schema.get("minimum", value) <= value <= schema.get("maximum", value))
        case "string", str():
            return bool(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
        case (("integer" | "number" | "string" | "array" | "boolean"), _):
            return schema["type"] == "boolean" and isinstance(value, bool)
    return True
