"""Markdown as a tree of plain data, which the report, the notebook, the terminal and the page draw.

The text of a model is not trusted: HTML in it stays text, images are never loaded, and a link has one of
`LINK_SCHEMES`.  The dialect is CommonMark (https://spec.commonmark.org) with tables and strikethrough of GFM.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ..core.masking import mask

Node: TypeAlias = "str | tuple[str, dict[str, str], list[Node]]"
"""A text, or an element: its name in HTML, its attributes and its children.  It can be written as JSON."""

LINK_SCHEMES = {"http", "https", "mailto"}
MAX_PARSED_CHARS = 100_000
"""Characters of a text that is read as Markdown; a longer one is one block of text."""
MAX_BLOCK_NESTING = 20
"""Levels of blocks inside of blocks; deeper markup is left out by the parser."""

_ADDRESS = re.compile(r"""https?://[^\s<>()"']+[^\s<>()"'.,;:!?]""")
_NEWLINE = re.compile(r"\r\n?|\n")
_ELEMENTS = {
    "paragraph": "p", "strong": "strong", "em": "em", "s": "s", "blockquote": "blockquote", "bullet_list": "ul",
    "ordered_list": "ol", "list_item": "li", "table": "table", "thead": "thead", "tbody": "tbody", "tr": "tr",
    "th": "th", "td": "td",
}  # fmt: skip


def parse_markdown(text: str) -> list[Node]:
    """Return the tree of a text, with secrets masked.

    Args:
        text: Markdown as a model writes it.

    Returns:
        Texts and elements.  Elements are `p h1..h6 strong em s code pre blockquote ul ol li table thead tbody tr th td
        a hr br`; attributes are `href` of `a`, `start` of `ol`, `align` of `th` and `td`, and `lang` of `pre`.
    """
    return _parse(mask(text), {})


class MarkdownStream:
    """Reads Markdown that arrives in pieces, masked already: a block is finished when the next one has begun.

    A text is parsed again only when it is half as long again as what was left before, so the work is linear in its
    length.  A reference to an address that is defined after its block was finished stays text.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._min_chars = 0
        self._references: dict[str, Any] = {}

    def feed(self, piece: str) -> tuple[int, list[Node]]:
        """Add `piece`; return how many characters of the text have become finished blocks, and their nodes."""
        self._rest += piece
        if len(self._rest) > MAX_PARSED_CHARS:
            return len(self._rest), self.flush()
        if "\n" not in piece or len(self._rest) < self._min_chars:
            return 0, []
        tokens = _make_parser().parse(self._rest[: self._rest.rfind("\n") + 1], self._references)
        last = max((place for place, token in enumerate(tokens) if not token.level and token.nesting >= 0), default=0)
        line = tokens[last].map[0] if last else 0
        chars = next(
            (found.end() for number, found in enumerate(_NEWLINE.finditer(self._rest), 1) if number == line), 0
        )
        self._rest = self._rest[chars:]
        self._min_chars = len(self._rest) * 3 // 2
        return chars, _build(tokens[:last])

    def flush(self) -> list[Node]:
        """Return the nodes of the rest, at the end of the text."""
        nodes = _parse(self._rest, self._references)
        self._rest = ""
        self._min_chars = 0
        self._references = {}
        return nodes


def _parse(text: str, references: dict[str, Any]) -> list[Node]:
    if len(text) > MAX_PARSED_CHARS:
        return [("pre", {}, [text])]
    return _build(_make_parser().parse(text, references))


def parse_tokens(text: str) -> list[Any]:
    """Return the tokens of markdown-it-py for a text, with secrets masked and its line breaks kept."""
    tokens = list(_make_parser().parse(mask(text)))
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


@cache
def _make_parser() -> Any:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_BLOCK_NESTING}).enable(
        ["table", "strikethrough"]
    )
    parser.validateLink = is_safe_link  # type: ignore[method-assign]
    return parser


def is_safe_link(url: str) -> bool:
    """Return whether a link may be offered: an absolute address with one of `LINK_SCHEMES`."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return False
    return parts.scheme.lower() in LINK_SCHEMES and bool(parts.netloc or parts.scheme.lower() == "mailto")


def _build(tokens: Sequence[Any]) -> list[Node]:
    """Return the nodes of a flat sequence of tokens, in which `_open` and `_close` stand for an element."""
    root: list[Node] = []
    open_lists = [root]
    links = 0
    for token in tokens:
        links += token.nesting if token.tag == "a" else 0
        if token.nesting > 0:
            children: list[Node] = []
            if not token.hidden:  # the paragraphs of a tight list are hidden: their text stands in the item itself
                open_lists[-1].append((*_element(token), children))
                open_lists.append(children)
        elif token.nesting < 0:
            if not token.hidden:
                open_lists.pop()
        elif token.type == "text" and not links:
            open_lists[-1].extend(_find_links(token.content))
        elif token.type == "image" and links:  # a link cannot have another one inside
            open_lists[-1].append(_name_image(token))
        else:
            open_lists[-1].extend(_leaf(token))
    return root


def _find_links(text: str) -> Iterator[Node]:
    """Yield a text with its bare addresses as links."""
    begin = 0
    for found in _ADDRESS.finditer(text):
        if is_safe_link(url := found.group()):
            yield from filter(None, [text[begin : found.start()]])
            yield "a", {"href": url}, [url]
            begin = found.end()
    yield from filter(None, [text[begin:]])


def _element(token: Any) -> tuple[str, dict[str, str]]:
    kind = token.type.removesuffix("_open")
    if kind == "heading":
        return str(token.tag), {}
    if kind == "link":
        return "a", {"href": str(token.attrGet("href"))}
    attributes = {}
    if kind == "ordered_list" and token.attrGet("start") is not None:
        attributes["start"] = str(token.attrGet("start"))
    if kind in ("th", "td") and (style := token.attrGet("style")):
        attributes["align"] = str(style).rpartition(":")[2]
    return _ELEMENTS.get(kind, "span"), attributes


def _leaf(token: Any) -> Iterator[Node]:
    match token.type:
        case "inline":
            yield from _build(token.children or ())
        case "fence" | "code_block":
            language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
            yield "pre", {"lang": language} if language else {}, [token.content]
        case "code_inline":
            yield "code", {}, [token.content]
        case "hr":
            yield "hr", {}, []
        case "hardbreak" | "softbreak":  # models write lines that are meant as lines
            yield "br", {}, []
        case "image":  # never loaded: its address could carry what the model has read
            yield "a", {"href": str(token.attrGet("src"))}, [_name_image(token)]
        case _:
            if token.content:
                yield token.content


def _name_image(token: Any) -> str:
    return f"[image: {token.content or token.attrGet('src')}]"
