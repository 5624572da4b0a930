"""Words made comparable: stems, synonyms, and the words that say nothing; what they are stands in `lexicon.toml`."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

LEXICON: dict[str, Any] = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8"))
STOP = frozenset(LEXICON["stop"].split())
COMMANDS = frozenset(LEXICON["commands"].split())

_TOKEN = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?|\d+(?:\.\d+)?|[^\w\s]")
_ENDINGS = (
    "ations ation ators ator ating ated ates ate ions ion ings ing ments ment ies ied ie ers ors er or 's ’s es ed"
)
_SUFFIXES = tuple(f"{_ENDINGS} ly s y e".split())
_DOUBLED = re.compile(r"([^aeiou])\1$")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word cut to what its inflections share: `calculate`, `calculation` and `calculators` are `calcul`."""
    word = word.lower()
    shortest = {"ers": 4, "ors": 4, "er": 4, "or": 4}
    suffix = next((s for s in _SUFFIXES if word.endswith(s) and len(word) - len(s) >= shortest.get(s, 3)), "")
    return _DOUBLED.sub(r"\1", word.removesuffix(suffix))[:6]


_SYNONYMS = {stem(word): stem(group.split()[0]) for group in LEXICON["synonyms"] for word in group.split()}


@lru_cache(maxsize=4096)
def concept(word: str) -> str:
    """The stem of a word, or the one that stands for all its synonyms."""
    cut = stem(LEXICON["short"].get(word.lower(), word))
    return _SYNONYMS.get(cut, cut)


def concepts_of(words: Iterable[str]) -> frozenset[str]:
    """The concepts of some words."""
    return frozenset(map(concept, words))


CLASSES = {name: concepts_of(words.split()) for name, words in LEXICON["classes"].items()}
ROLES = concepts_of(LEXICON["roles"].split())
LEADS = {word: dict.fromkeys(concepts_of(hints.split()), 0.7) for word, hints in LEXICON["leads"].items()}
UNITS = {
    stem(unit): dict.fromkeys(concepts_of(hints.split()), 0.6)
    for units, hints in LEXICON["units"].items()
    for unit in units.split()
}
_GENERIC = concepts_of(LEXICON["generic"].split()) | {stem(w) for w in STOP if stem(w) not in _SYNONYMS}


def is_generic(concept_: str) -> bool:
    """Whether a concept says too little to choose a tool or a parameter by."""
    return concept_ in _GENERIC


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number or sign of a text, where it stands there, and what it is compared by."""

    text: str
    start: int
    end: int
    concept: str
    word: str
    is_unit: bool


def tokens(text: str) -> list[Token]:
    """The words, numbers and signs of `text`, in order."""
    return [
        Token(m[0], m.start(), m.end(), concept(m[0]), m[0].lower(), stem(m[0]) in UNITS) for m in _TOKEN.finditer(text)
    ]


@lru_cache(maxsize=2048)
def concepts(text: str) -> tuple[str, ...]:
    """The concepts of a name or a description, without doubles; `snake_case`, `camelCase` and `dots` are split."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")
    return tuple(dict.fromkeys(t.concept for t in tokens(spaced) if t.text[0].isalnum()))
