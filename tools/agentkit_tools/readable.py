"""HTML -> the text that a reader sees: title, headings, paragraphs, lists and tables, without the page's machinery."""

import re
from html.parser import HTMLParser

DROPPED = {"script", "style", "template", "noscript", "nav", "footer", "svg", "iframe", "object", "button", "select"}
"""Elements that are left out with all they contain."""
LINES = {"br", "div", "dd", "dt", "figcaption", "hr", "li", "summary", "tr"}
"""Elements that begin and end a line."""
BLOCKS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "blockquote", "ol", "ul", "dl", "table", "caption", "figure"),
    *("address", "article", "aside", "body", "details", "fieldset", "form", "header", "main", "section"),
}
"""Elements that have an empty line before and after them."""
MARKS = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}

_PIECE = 65_536
_LONGEST_TAG = 1_000_000
"""Characters. The parser looks at an unfinished tag again with each piece: a page that ends none would take minutes."""


def readable_text(html: str) -> str:
    """The text of an HTML page: the title first, headings marked with `#`, list items with `-`, cells parted by `|`."""
    html = html.replace("<![", "<!")  # html.parser raises AssertionError on an unknown marked section
    reader = _Reader()
    for start in range(0, len(html), _PIECE):
        reader.feed(html[start : start + _PIECE])
        if len(reader.rawdata) > _LONGEST_TAG:
            break
    if len(reader.rawdata) < _PIECE // 8:  # in a longer rest, `close` would look for the end of each tag at length
        reader.close()
    return reader.text()


class _Reader(HTMLParser):
    """Collects the lines of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._title: list[str] = []
        self._lines: list[str] = []
        self._line: list[str] = []  # the pieces of the line that is being read
        self._mark = ""  # what the next line begins with
        self._dropped = ""  # the element that is being left out, and how many of its kind are open
        self._depth = 0
        self._cells = 0  # of this row
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
            self._part(tag)
            self._mark = MARKS.get(tag, self._mark)
            self._in_pre = self._in_pre or tag == "pre"

    def handle_startendtag(self, tag: str, _attrs: object) -> None:
        if tag not in DROPPED:  # <svg/> holds nothing; on HTML's own elements the slash means nothing
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
            self._part(tag)
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

    def _part(self, tag: str) -> None:
        """Part what comes before a tag from what comes after it: an inline tag does not, and in a cell only some do."""
        if self._in_cell and tag in ("p", "div", "br"):
            self._line.append(" ")
        elif tag in LINES or tag in BLOCKS:
            self._end_line()
            if tag in BLOCKS:
                self._lines.append("")
        if tag in ("tr", "table"):
            self._cells, self._in_cell = 0, False

    def _end_line(self) -> None:
        line = "".join(self._line)
        line = line.rstrip() if self._in_pre else " ".join(line.split())
        if line.strip("| "):
            self._lines.append(self._mark + line)
            self._mark = ""
        self._line = []
