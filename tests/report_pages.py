"""Reading a page as a browser would: its elements, and the text that a person sees."""

from html.parser import HTMLParser

from agentkit.views.html.markup import load_script

ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "div", "span", "b", "code", "pre", "ul", "li", "a", "h1", "h2",
    "article", "details", "summary", "table", "tr", "td", "th",
    "p", "h3", "h4", "h5", "h6", "ol", "strong", "em", "s", "blockquote", "thead", "tbody", "hr", "br", "script", "img", "audio",
}  # fmt: skip
EMPTY = {"meta", "hr", "br", "img"}
ATTRIBUTES = {
    "tabindex",
    "src",
    "alt",
    "controls",
    "download",
    "open",
    "data-seconds",
    "data-tools",
    "rel",
    "start",
    "class",
    "id",
    "href",
    "style",
    "title",
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
}


class Page(HTMLParser):
    """Fails at once on an element that is not ours, at the end on one that was not closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.classes: list[str] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ELEMENTS, tag
        given = dict(attrs)
        assert set(given) <= ATTRIBUTES, given
        if tag not in EMPTY:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "rel" in given:
            assert given["rel"] == "noopener noreferrer nofollow"
            assert given["href"].startswith(("http://", "https://", "mailto:")), given["href"]
        elif "download" in given:
            assert given["href"].startswith("data:application/pdf;base64,"), given["href"][:80]
        elif "href" in given:
            assert given["href"].startswith("#"), given["href"]
            self.links.append(given["href"][1:])
        if "src" in given:
            assert given["src"].startswith(("data:image/", "data:audio/")), given["src"][:80]
            self.sources.append(given["src"])
        if "style" in given:
            aligned = given["style"].removeprefix("text-align:") in ("left", "center", "right")
            assert aligned or set(given["style"]) <= set("leftwidth:;.%0123456789"), given["style"]
        self.classes += (given.get("class") or "").split()
        self.titles.append(given.get("title") or "")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_pi(self, data):
        raise AssertionError(data)

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            assert data == load_script()
        elif not self.open or self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)
