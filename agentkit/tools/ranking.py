"""Find the tools that a sentence is about: words by BM25, and meanings by static embeddings where they are installed.

The words are those of the name (twice), the description and the parameters (half), without stop words, by their stems
(https://doi.org/10.1561/1500000019).  The embeddings are the weights in the package `wordllama` (extra
`search`).  The two orders are fused by reciprocal ranks (https://doi.org/10.1145/1571941.1572114).  The weights of the
fields and of the fusion were chosen on 2,111 sentences about 1,142 tools (`benchmarks/tool_search.py`).
"""

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from unicodedata import normalize

from .json_tool import JsonTool

_SATURATION = 1.2
_LENGTH_SHARE = 0.6
"""The parameters of BM25: how soon further occurrences count less, and how much long texts count less."""
_FIELD_WEIGHTS = (2.0, 1.0, 0.5)
"""Of a word in the name, the description and the parameters."""
_FUSION = 10
"""The constant of the reciprocal ranks; of each order as many tools count as `_DEPTH`."""
_DEPTH = 50
NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
"""A word of a text or of a name in any style."""
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]{2,}")
_STOP = """
    a about an and are as at be but by can could did do does find for from get give had has have he help her his how i
    if in into is it its let like me my need no not of on or our out please she should so tell than that the their them
    then there these they this those to up us want was we were what when where which who whom why will with would you
    your
"""
STOP_WORDS = frozenset(_STOP.split())
"""Words that are in any question, and tell nothing about a tool."""
MAX_SEARCH_CHARS = 2_000
MAX_DEPTH = 4
"""Levels of parameters inside parameters that are read."""


class ToolIndex:
    """The tools of a list, to be found by what they do; the index is built when the first one is searched.

    Args:
        tools: The tools; equal ranks keep their order.
        meanings: Whether embeddings are used.  Default: if `wordllama` is installed.
    """

    def __init__(self, tools: Iterable[JsonTool[..., Any]], *, meanings: bool | None = None) -> None:
        self.tools = tuple(tools)
        self._meanings = find_weights() is not None if meanings is None else meanings

    def find(self, query: str, limit: int = 5) -> list[JsonTool[..., Any]]:
        """Return at most `limit` tools for a sentence, the best first.

        Without embeddings, a sentence whose words occur in no tool finds none.
        """
        query = query[:MAX_SEARCH_CHARS]
        orders = [_order_places(self._words.score(query), _DEPTH)]
        if self._vectors is not None:
            orders.append(self._vectors.order(query, _DEPTH))
        scores: dict[int, float] = defaultdict(float)
        for order in orders:
            for rank, place in enumerate(order):
                scores[place] += 1 / (_FUSION + rank)
        return [self.tools[place] for place in _order_places(scores, limit)]

    def select(self, query: str, share: float) -> list[JsonTool[..., Any]]:
        """Return the tools whose words suit a sentence at least `share` times as well as those of the best one."""
        scores = self._words.score(query[:MAX_SEARCH_CHARS])
        least = share * max(scores.values(), default=0.0)
        return [tool for place, tool in enumerate(self.tools) if place in scores and scores[place] >= least]

    @cached_property
    def _words(self) -> "WordIndex":
        return WordIndex([_count_tool_words(*_read_fields(tool)) for tool in self.tools])

    @cached_property
    def _vectors(self) -> "_Vectors | None":
        return _Vectors([_read_fields(tool) for tool in self.tools]) if self._meanings and self.tools else None


def _order_places(scores: Mapping[int, float], limit: int) -> list[int]:
    """Return the places with the highest scores, the best first; equal ones keep their order."""
    return sorted(scores, key=lambda place: (-scores[place], place))[:limit]


class WordIndex:
    """Texts to be found by their words, by BM25; `counted` has the words of each, see `count_words`."""

    def __init__(self, counted: Sequence[Mapping[str, float]]) -> None:
        lengths = [sum(counts.values()) for counts in counted]
        average = sum(lengths) / max(1, len(lengths)) or 1.0
        frequencies = Counter(word for counts in counted for word in counts)
        self._weights = defaultdict[str, list[tuple[int, float]]](list)
        """The texts of each word, by their places, with the weight of the word."""
        for place, counts in enumerate(counted):
            norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths[place] / average)
            for word, count in counts.items():
                rarity = math.log(1 + (len(counted) - frequencies[word] + 0.5) / (frequencies[word] + 0.5))
                self._weights[word].append((place, rarity * count * (_SATURATION + 1) / (count + norm)))

    def score(self, query: str) -> dict[int, float]:
        """Return how well the texts suit a sentence, by their places, without those that have none of its words."""
        scores: dict[int, float] = defaultdict(float)
        for word in dict.fromkeys(list_stems(query)):
            for place, weight in self._weights.get(word, ()):
                scores[place] += weight
        return scores


def list_stems(text: str) -> Iterator[str]:
    """Yield the stems of the words of a text or a name; `snake_case`, `camelCase` and dots are split.

    Of text without spaces, as in Chinese, Japanese and Korean, also each letter and each two neighbours.
    """
    for word in NAME_WORD.findall(text if text.isascii() else normalize("NFC", text)):
        if (lower := word.lower()) not in STOP_WORDS:
            yield stem_word(lower)
            for part in () if lower.isascii() else _UNSPACED.findall(lower):
                yield from part
                yield from map("".join, pairwise(part))


@lru_cache(maxsize=16_384)
def stem_word(word: str) -> str:
    """Return an English word without its ending: `prices` and `pricing` become `pric`."""
    for ending in ("ies", "ing", "ed", "es", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] in "bdgmnprt" else word


def count_words(name: str, description: str, parameters: str = "") -> Mapping[str, float]:
    """Return how often the stems of words occur, with the weights of the fields."""
    counts = defaultdict[str, float](float)
    for field, weight in zip((name, description, parameters), _FIELD_WEIGHTS, strict=True):
        for word in list_stems(field):
            counts[word] += weight
    return counts


_count_tool_words = lru_cache(maxsize=8_192)(count_words)


def _read_fields(tool: JsonTool[..., Any]) -> tuple[str, str, str]:
    """Return the name, the description, and the names and texts of the parameters of a tool."""
    return tool.name, tool.description, " ".join(_read_parameters(tool.parameters))


def _read_parameters(schema: Any, depth: int = 0) -> Iterator[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) and depth < MAX_DEPTH else None
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        yield name
        if isinstance(inner, Mapping):
            yield str(inner.get("description", ""))
            if isinstance(choices := inner.get("enum"), Sequence):
                yield " ".join(map(str, choices))
            yield from _read_parameters(inner, depth + 1)
            yield from _read_parameters(inner.get("items"), depth + 1)


MAX_TOOL_GROUPS = 24
MAX_GROUP_WORDS = 8
"""Groups of a list of tools that are named, and words of each."""
MIN_GROUP = 3
"""Tools with the same first word that are a group."""


def describe_tool(tool: JsonTool[..., Any]) -> str:
    """Return a line about a tool: its name, its parameters and the first line of its description."""
    parameters = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    names = ", ".join(name if name in required else f"{name}?" for name in parameters)
    return f"{tool.name}({names}): {tool.description.splitlines()[0]:.200}"


def list_groups(tools: Sequence[JsonTool[..., Any]]) -> list[str]:
    """Return a line for each group of tools whose names begin with the same word: what tells them from the others."""
    groups: dict[str, list[list[str]]] = defaultdict(list)
    for tool in tools:
        first, *rest = [word.lower() for word in NAME_WORD.findall(tool.name)] or [tool.name]
        groups[first].append(rest)
    large = sorted(
        (first for first in groups if len(groups[first]) >= MIN_GROUP), key=lambda first: -len(groups[first])
    )
    chosen = large[:MAX_TOOL_GROUPS]
    lines = [f"- {first}_* ({len(groups[first])}): {_pick_words(groups[first])}" for first in chosen]
    others = [[first, *rest] for first, names in groups.items() if first not in chosen for rest in names]
    return [*lines, *([f"- {len(others)} others: {_pick_words(others)}"] if others else [])]


def _pick_words(names: Iterable[Sequence[str]]) -> str:
    counts = Counter(word for words in names for word in dict.fromkeys(words) if len(word) > 2)
    words = [word for word, _ in counts.most_common(MAX_GROUP_WORDS)]
    return ", ".join(words) + (", ..." if len(counts) > len(words) else "")


WEIGHTS_FILE = "weights/l2_supercat_256.safetensors"
TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"


@cache
def find_weights() -> Path | None:
    """Return the folder of the package `wordllama` with its weights; None if it or a library for them is missing."""
    if not all(name in sys.modules or find_spec(name) for name in ("numpy", "safetensors", "tokenizers")):
        return None
    if (package := find_spec("wordllama")) is None or package.origin is None:
        return None
    folder = Path(package.origin).parent  # its own loader looks for the tokenizer in another place
    return folder if all((folder / name).is_file() for name in (WEIGHTS_FILE, TOKENIZER_FILE)) else None


@cache
def _load_weights() -> tuple[Any, Any]:
    """Return the tokenizer, and the vector of each of its tokens."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = find_weights()
    assert folder is not None  # else no vectors are made
    (vectors,) = load_file(folder / WEIGHTS_FILE).values()
    return Tokenizer.from_file(str(folder / TOKENIZER_FILE)), vectors


class _Vectors:
    """The meanings of tools: the mean of that of name and description, and that of all fields."""

    def __init__(self, fields: Sequence[tuple[str, str, str]]) -> None:
        heads = _embed([f"{' '.join(NAME_WORD.findall(name))}. {description}" for name, description, _ in fields])
        rests = _embed([parameters for *_, parameters in fields])
        self._matrix = _to_units(_to_units(heads) + _to_units(heads + rests))

    def order(self, query: str, limit: int) -> list[int]:
        """Return the places of the nearest tools, the best first."""
        near = self._matrix @ _to_units(_embed([query]))[0]
        return [int(place) for place in (-near).argsort(kind="stable")[:limit]]


def _embed(texts: Sequence[str]) -> Any:
    """Return for each text the sum of the vectors of its tokens, as the rows of an array."""
    import numpy

    tokenizer, vectors = _load_weights()
    valid = [text.encode("utf-8", "replace").decode() for text in texts]  # no tokenizer takes lone surrogates
    encoded = tokenizer.encode_batch(valid, add_special_tokens=False)
    return numpy.stack([vectors[each.ids].sum(0, dtype="float32") for each in encoded])


def _to_units(rows: Any) -> Any:
    """Return the rows of an array with the length 1; those of zeros stay."""
    lengths = (rows * rows).sum(1, keepdims=True) ** 0.5
    lengths[lengths == 0] = 1
    return rows / lengths
