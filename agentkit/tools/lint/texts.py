"""Judge the texts of a schema: whether they inform, and whether they list values that the schema does not."""

import re

WORD = re.compile(r"[぀-鿿가-힯]|[^\W_]+")
"""A word; in Chinese, Japanese and Korean, which are written without spaces, a character."""
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTED = r"""(?:'[^'\n]{1,40}'|"[^"\n]{1,40}"|`[^`\n]{1,40}`)"""
_ASIDE = r"(?:\s*\([^)]*\))?"
_OR = r"\s*(?:,?\s*\bor\b|\||/)\s*"
_NEXT = rf"(?:\s*,\s*|{_OR})"
_END = r"(?=\W*(?:\.\s|$|;|\)|\n))"
_BARE = r"[\w.+-]*\w"
_PHRASE = rf"{_BARE}(?: {_BARE}){{0,2}}"
_SET = r"(?:(?:one|any) of|(?:allowed|valid|possible|accepted|supported)(?: values| options)?|options|choices|values)"
_INTRODUCTION = rf"\b(?:{_SET}|either|must be|can be)(?: are)?\s*:?\s*[{{\[(]?"
_LISTS = [
    re.compile(rf"{_QUOTED}(?:{_ASIDE}{_NEXT}{_QUOTED})*{_ASIDE}{_OR}{_QUOTED}"),  # 'asc' or 'desc'
    re.compile(rf"{_INTRODUCTION}{_QUOTED}(?:{_ASIDE}{_NEXT}{_QUOTED})+", re.I),  # must be 'asc', 'desc'
    re.compile(
        rf"\b{_SET}(?: are)?\s*:\s*{_PHRASE}(?:{_NEXT}(?!or\b){_PHRASE})+{_END}", re.I
    ),  # one of: last day, hour
    re.compile(rf"\bone of {_BARE}(?:\s*,\s*(?!or\b){_BARE})*{_OR}{_BARE}{_END}", re.I),  # one of asc or desc
    re.compile(r"(?<![\w|])\w+(?:\s*\|\s*\w+)+(?![\w|])"),  # asc|desc
]
_EXAMPLES = re.compile(r"\b(?:e\.g|for example|for instance|such as|like|examples?)\b[^.;]*$", re.I)
_OPEN_LIST = re.compile(rf"{_ASIDE}\s*,?\s*(?:or\b|etc\b|and so on\b|\.\.\.|…)", re.I)


def split_words(text: str) -> list[str]:
    """Return the words of a text or a name in lower case, without the s of a plural or a verb."""
    found = WORD.findall(HUMP.sub(" ", text))
    return [word[:-1] if len(word) > 2 and word.endswith("s") else word for word in map(str.lower, found)]


FILLER = frozenset(
    split_words(
        "a an and arg argument array bool boolean dict field float for function given i in input int integer is it its "
        "list number object of or param parameter str string that the this to tool use used value which your"
    )
)
"""Words that add no information to a name."""


def repeats(text: str, name: str) -> bool:
    """Return whether `text` only repeats `name` in other words: "The user id." of `user_id`."""
    return not set(split_words(text)) - set(split_words(name)) - FILLER


def find_listed_values(text: str) -> list[str]:
    """Return the values that `text` lists as the only ones: "one of: a, b", "'asc' or 'desc'"; [] without such a list.

    Examples ("such as ...") and lists that continue in words ('"today" or a date') do not count.
    """
    for pattern in _LISTS:
        for match in pattern.finditer(text):
            if not _EXAMPLES.search(text[: match.start()]) and not _OPEN_LIST.match(text[match.end() :]):
                return _split_values(match[0])
    return []


def _split_values(listing: str) -> list[str]:
    if quoted := re.findall(_QUOTED, listing):
        return [value[1:-1] for value in quoted]
    bare = re.split(r"\s*,\s*(?:or\s+)?|\s+or\s+|\s*[|/]\s*", re.sub(_INTRODUCTION, "", listing, flags=re.I))
    return [value.strip() for value in bare if value.strip()]
