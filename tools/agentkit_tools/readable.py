"""Convert HTML to Markdown: the main content of a page, or all its visible text, with links and pictures."""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urljoin

from agentkit.tools import run_within

MIN_MAIN_CHARS = 250
"""Of a page with a shorter main content, all visible text is returned."""
MIN_SHARE = 0.08
"""The part of the visible text that is the main content of an article; in a list of links it is less."""
MAIN_SECONDS = 5.0
"""CPU-bound work on a page that takes longer is abandoned; one of average length takes 10 ms."""
MAX_MAIN_CHARS = 1_500_000
"""Length of a page up to which the main content is searched; of a longer one all visible text is returned."""
MAX_MAIN_TAGS = 20_000
MAX_LINK_CHARS = 2_000
"""A link with a longer URL becomes its text."""
PICTURE_URLS = ("data-src", "data-original", "src")
"""Attributes with the URL of a picture; `src` is a placeholder where a script loads the picture."""

_OPEN = "\U0001d300"
_END = "\U0001d301"
_CLOSE = "\U0001d302"
_PICTURE = "\U0001d303"
_MARKED_LINK = re.compile(f"{_OPEN}([^{_OPEN}{_END}]*){_END}(\\d+){_CLOSE}")
_MARKED_PICTURE = re.compile(f"{_PICTURE}(\\d+){_CLOSE}")
_MARKS = re.compile(f"[{_END}{_PICTURE}]\\d+{_CLOSE}|[{_OPEN}{_END}{_CLOSE}{_PICTURE}]")
"""Rare symbols that keep the place of links and pictures in an extracted text; digits are an index of URLs."""
_SYMBOLS = (_OPEN, _END, _CLOSE, _PICTURE)
NOT_CHARACTERS = bytes({*range(32)} - {9, 10, 13})
"""Control characters, which lxml accepts in a page, but not in a text that is set."""
LEAD_CHARS = 40
"""Length of the text at the start of a paragraph that the description of the page repeats."""
MAX_LEAD_CHARS = 2_000
_FIRST_LINE = re.compile(r"(\s*(?:#+ |- |\| )?)([^\n]*)")

DROPPED = {"script", "style", "template", "noscript", "nav", "footer", "svg", "iframe", "object", "button", "select"}
"""Elements that are skipped with their content."""
NOT_MAIN = {
    *(DROPPED - {"script"}),
    *("aside", "audio", "canvas", "dialog", "input", "label", "link", "map", "textarea", "video"),
}
"""Elements that are never main content; without them the search is faster."""
LINES = {"br", "div", "dd", "dt", "figcaption", "hr", "li", "summary", "tr"}
"""Elements that begin and end a line."""
BLOCKS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "blockquote", "ol", "ul", "dl", "table", "caption", "figure"),
    *("address", "article", "aside", "body", "details", "fieldset", "form", "header", "main", "section"),
}
"""Elements that have an empty line before and after them."""
MARKS = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}

MAX_REST_CHARS = 8_192
"""Characters behind an unfinished tag up to which the parser is closed: it looks for the end of each tag in them."""


def extract_main(html: str, url: str = "", seconds: float = MAIN_SECONDS) -> str:
    """Return the main content of an HTML page as Markdown, without menus, banners and footers.

    Args:
        html: The page.
        url: The page's URL, to which its links are relative.
        seconds: The time limit of trafilatura.

    Returns:
        The title first. All visible text as by `extract_text` if trafilatura is not installed, finds next to nothing
        or takes too long, or if the page is too long.
    """
    if len(html) <= MAX_MAIN_CHARS and html.count("<") <= MAX_MAIN_TAGS:
        main = ""
        with suppress(TimeoutError):
            main = run_within(seconds, partial(_find_main, html, url))
        if len(main) >= MIN_MAIN_CHARS:
            return main
    return extract_text(html, url)


def _find_main(html: str, url: str) -> str:
    """Return the main content with the title, or "" where trafilatura does not find it."""
    try:
        from trafilatura import bare_extraction
        from trafilatura.xml import xmltotxt

        options = _trafilatura_options()
    except ImportError:
        return ""
    try:
        tree = _parse(html)
        if tree is None:
            return ""
        title = " ".join((tree.findtext(".//title") or "").split())
        base = to_absolute(tree.xpath("string(//base/@href)"), url) or url
        marked = _mark_links(tree)
        found: Any = bare_extraction(tree, options=options)
        if found is None:
            return ""
        for heading in found.body.iter("head"):
            heading.text = f"{'#' * int(heading.get('rend', 'h2')[1:])} {heading.text or ''}"
        for code in found.body.iter("code"):
            if "\n" in (code.text or ""):
                code.text = f"\n```\n{code.text}\n```\n"
        text = xmltotxt(found.body, False)
    except Exception:  # of a library, about a page that anyone wrote: all visible text is still readable
        return ""
    length = len(_MARKS.sub("", text))
    if length < MIN_SHARE * len(html) and length < MIN_SHARE * _count_visible(tree):
        return ""
    if lead := _find_lead(tree, text):
        text = f"{lead}\n{text}"
    text = _MARKED_LINK.sub(lambda mark: _format_marked(mark[1], marked.get(mark[2], {}), base), text)
    text = _MARKED_PICTURE.sub(lambda mark: format_picture(marked.get(mark[1], {}), base), text)
    text = _MARKS.sub("", text).strip()
    return text if not title or f"# {title}\n" in text else f"{title}\n\n{text}"


@cache
def _trafilatura_options() -> Any:
    """Return the options of the extraction: the rules of trafilatura that keep more, without its two other extractors.

    Those take as long as the rules and return paragraphs alone, without headings, lists and tables.
    """
    from trafilatura.settings import Extractor

    return Extractor(output_format="txt", comments=False, formatting=False, fast=True, recall=True)


def _parse(html: str) -> Any:
    """Return the tree of a page without the elements that are never its text; None of an empty page.

    One class for all elements saves a call of Python for each element that is looked at.
    """
    from lxml.etree import ElementDefaultClassLookup, HTMLParser, fromstring, strip_elements
    from lxml.html import HtmlElement

    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False)
    parser.set_element_class_lookup(ElementDefaultClassLookup(element=HtmlElement))
    for mark in _SYMBOLS:
        html = html.replace(mark, "")
    tree: Any = fromstring(html.encode("utf-8", "replace").translate(None, NOT_CHARACTERS), parser)
    if tree is not None:
        for script in tree.iter("script"):
            if script.get("type") != "application/ld+json":  # which may contain the text of the article
                script.tag = "style"
        strip_elements(tree, *NOT_MAIN, with_tail=False)
    return tree


def _find_lead(tree: Any, text: str) -> str:
    """Return the first paragraph of an article where the text lacks it: the one that the page's description repeats."""
    descriptions = (meta.get("content") or "" for meta in tree.iter("meta") if _names_description(meta))
    begins = {begin for each in descriptions if len(begin := _begin(each)) == LEAD_CHARS}
    line = " ".join(_MARKS.sub("", text).split()) if begins else ""
    if any(begin in line for begin in begins):
        return ""
    for part in tree.iter("p", "div", "h2", "h3", "span", "strong") if begins else ():
        if _begin(part.text or "") in begins:
            lead = " ".join("".join(part.itertext()).split())
            return lead if len(lead) < MAX_LEAD_CHARS else ""
    return ""


def _begin(text: str) -> str:
    """Return the first characters of a text without repeated spaces."""
    return " ".join(text[: 4 * LEAD_CHARS].split())[:LEAD_CHARS]


def _names_description(meta: Any) -> bool:
    """Return whether a meta element has the description of the page."""
    return (meta.get("name") or meta.get("property") or "").lower() in ("description", "og:description")


def _count_visible(tree: Any) -> int:
    """Count the characters of the visible text."""
    hidden = sum(len(" ".join((script.text or "").split())) for script in tree.iter("script"))
    return len(" ".join(tree.xpath("string(//body)").split())) - hidden


def _mark_links(tree: Any) -> Mapping[str, Mapping[str, str]]:
    """Write marks around links and in the place of pictures, as text that every way of extraction keeps.

    Returns:
        The attributes of each link and picture, by the number in its mark.
    """
    marked: dict[str, Mapping[str, str]] = {}
    for figure in tree.iter("figure"):  # trafilatura drops figures
        if figure.find(".//img[@alt]") is not None and figure.find(".//table") is None:
            figure.tag = "p"
            for caption in figure.findall(".//figcaption"):
                caption.clear(keep_tail=True)
    for picture in tree.iter("img"):
        if (picture.get("alt") or "").strip():
            number = str(len(marked))
            picture.tail = f"{_PICTURE}{number}{_CLOSE}{picture.tail or ''}"
            marked[number] = picture.attrib
    for link in tree.iter("a"):
        if link.get("href") and link.text_content().strip():
            number = str(len(marked))
            end = f"{_END}{number}{_CLOSE}"
            link.text = _OPEN + (link.text or "")
            if len(link):
                link[-1].tail = (link[-1].tail or "") + end
            else:
                link.text += end
            marked[number] = link.attrib
    return marked


def _format_marked(text: str, attributes: Mapping[str, str], base: str) -> str:
    """Return a link on the first line of its text that is not empty."""
    target = to_absolute(attributes.get("href"), base)
    return _FIRST_LINE.sub(lambda line: line[1] + format_link(" ".join(line[2].split()), target), text, count=1)


def format_link(text: str, target: str) -> str:
    """Return a Markdown link, with the spaces around its text outside; the text alone without a target."""
    shown = text.strip()
    return text.replace(shown, f"[{shown}]({target})") if shown and target else text


def format_picture(attributes: Any, base: str) -> str:
    """Return the Markdown of a picture with a text and a URL; "" of another one, which is an ornament."""
    text = " ".join((attributes.get("alt") or "").split())
    sources = (to_absolute(attributes.get(name), base) for name in PICTURE_URLS)
    source = next(filter(None, sources), "") if text else ""
    return f"![{text}]({source})" if source else ""


def to_absolute(address: str | None, base: str) -> str:
    """Return a URL on the web, without spaces and parentheses; "" for a place on the page itself and other schemes."""
    address = (address or "").strip()
    if not address or address.startswith("#"):
        return ""
    try:
        full = urljoin(base, address)
    except ValueError:
        return ""
    if len(full) > MAX_LINK_CHARS or not full.startswith(("http://", "https://")):
        return ""
    return quote(full, safe="%/:=&?~#+!$,;'@*[]", errors="replace")


def extract_text(html: str, url: str = "") -> str:
    """Return all visible text of an HTML page as Markdown.

    Args:
        html: The page.
        url: The page's URL, to which its links are relative.

    Returns:
        The title first; headings begin with `#`, list items with `-`, and table cells are separated by `|`.
    """
    html = html.replace("<![", "<!")  # html.parser raises AssertionError on an unknown marked section
    reader = _Reader(url)
    reader.feed(html)  # all at once: with each further part the parser may scan an unfinished tag again
    if len(reader.rawdata) < MAX_REST_CHARS:
        reader.close()
    return reader.text()


class _Reader(HTMLParser):
    """Collect the lines of a page."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = url
        self._link = ""  # the URL of the open link; its text begins with the part `_link_start` of the line
        self._link_start = 0
        self._title: list[str] = []
        self._lines: list[str] = []
        self._line: list[str] = []  # the parts of the current line
        self._mark = ""  # the prefix of the next line
        self._dropped = ""  # the skipped element; `_depth` counts the open ones of its kind
        self._depth = 0
        self._cells = 0  # of the current row
        self._in_cell = self._in_pre = self._in_title = False

    def text(self) -> str:
        self._end_line()
        title = " ".join("".join(self._title).split())
        lines = self._lines if f"# {title}" in self._lines else [title, "", *self._lines]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped or tag in DROPPED:
            self._dropped = self._dropped or tag
            self._depth += tag == self._dropped
        elif tag == "title":
            self._in_title = True
        elif tag == "base":
            self._base = to_absolute(dict(attrs).get("href"), self._base) or self._base
        elif tag == "a":
            self._end_link()
            self._link = "" if self._in_pre else to_absolute(dict(attrs).get("href"), self._base)
            self._link_start = len(self._line)
        elif tag == "img":
            self._line.append(format_picture(dict(attrs), self._base))
        elif tag in ("td", "th"):
            self._end_link()
            self._cells += 1
            self._line.append(" | " if self._cells > 1 else " ")
            self._in_cell = True
        else:
            self._separate(tag)
            self._mark = MARKS.get(tag, self._mark)
            self._in_pre = self._in_pre or tag == "pre"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in DROPPED:  # <svg/> is empty; on HTML's own elements the slash has no meaning
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            self._depth -= tag == self._dropped
            self._dropped = self._dropped if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag == "a":
            self._end_link()
        elif tag in ("td", "th"):
            self._end_link()
            self._in_cell = False
        else:
            self._separate(tag)
            self._mark = "" if tag in MARKS else self._mark
            self._in_pre = self._in_pre and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._dropped:
            return
        if self._in_title:
            self._title.append(data)
        elif self._in_pre:
            *lines, rest = data.split("\n")
            for line in lines:
                self._lines.append("".join([*self._line, line]).rstrip())
                self._line = []
            self._line.append(rest)
        else:
            self._line.append(data)

    def _separate(self, tag: str) -> None:
        """Separate the text before a tag from the text after it, unless the tag is inline or in a table cell."""
        if self._in_cell and tag in ("p", "div", "br"):
            self._line.append(" ")
        elif tag in LINES or tag in BLOCKS:
            self._end_line()
            if tag in BLOCKS:
                self._lines.append("")
        if tag in ("tr", "table"):
            self._cells = 0
            self._in_cell = False

    def _end_link(self) -> None:
        """Write the open link around its text in the line, if it has one."""
        if self._link:
            text = "".join(self._line[self._link_start :])
            self._line[self._link_start :] = [format_link(text, self._link)]
            self._link = "" if text.strip() else self._link

    def _end_line(self) -> None:
        self._end_link()
        self._link_start = 0
        line = "".join(self._line)
        line = line.rstrip() if self._in_pre else " ".join(line.split())
        if line.strip("| "):
            self._lines.append(self._mark + line)
            self._mark = ""
        self._line = []
