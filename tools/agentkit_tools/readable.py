"""Extract the visible text of HTML: title, headings, paragraphs, lists and tables."""

import re
from html.parser import HTMLParser

DROPPED = {"script", "style", "template", "noscript", "nav", "footer", "svg", "iframe", "object", "button", "select"}
"""Elements that are skipped with their content."""
LINES = {"br", "div", "dd", "dt", "figcaption", "hr", "li", "summary", "tr"}
"""Elements that begin and end a line."""
BLOCKS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "blockquote", "ol", "ul", "dl", "table", "caption", "figure"),
    *("address", "article", "aside", "body", "details", "fieldset", "form", "header", "main", "section"),
}
"""Elements that have an empty line before and after them."""
MARKS = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}

CHUNK_CHARS = 65_536
MAX_TAG_CHARS = 1_000_000
"""The parser scans an unfinished tag again with each chunk; a page that never closes a tag would take minutes."""


def extract_text(html: str, max_tag_chars: int = MAX_TAG_CHARS) -> str:
    """Return the text of an HTML page.

    Args:
        html: The page.
        max_tag_chars: The length of an unfinished tag at which the parsing ends.

    Returns:
        The title first; headings begin with `#`, list items with `-`, and table cells are separated by `|`.
    """
    html = html.replace("<![", "<!")  # html.parser raises AssertionError on an unknown marked section
    reader = _Reader()
    for start in range(0, len(html), CHUNK_CHARS):
        reader.feed(html[start : start + CHUNK_CHARS])
        if len(reader.rawdata) > max_tag_chars:
            break
    if len(reader.rawdata) < CHUNK_CHARS // 8:  # `close` would take long to find the end of each tag in a longer rest
        reader.close()
    return reader.text()


class _Reader(HTMLParser):
    """Collect the lines of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
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

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        if self._dropped or tag in DROPPED:
            self._dropped = self._dropped or tag
            self._depth += tag == self._dropped
        elif tag == "title":
            self._in_title = True
        elif tag in ("td", "th"):
            self._cells += 1
            self._line.append(" | " if self._cells > 1 else " ")
            self._in_cell = True
        else:
            self._separate(tag)
            self._mark = MARKS.get(tag, self._mark)
            self._in_pre = self._in_pre or tag == "pre"

    def handle_startendtag(self, tag: str, _attrs: object) -> None:
        if tag not in DROPPED:  # <svg/> is empty; on HTML's own elements the slash has no meaning
            self.handle_starttag(tag, _attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            self._depth -= tag == self._dropped
            self._dropped = self._dropped if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag in ("td", "th"):
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

    def _end_line(self) -> None:
        line = "".join(self._line)
        line = line.rstrip() if self._in_pre else " ".join(line.split())
        if line.strip("| "):
            self._lines.append(self._mark + line)
            self._mark = ""
        self._line = []
