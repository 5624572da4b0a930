"""Searching the web, and reading a page of it."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentkit import ToolError

from .download import SIZE_LIMIT, Download, download
from .guard import clipped
from .marks import marked
from .patience import within
from .readable import readable_text

SEARCH_TIMEOUT = 5
"""Seconds for one search engine; ddgs asks the next ones when it has too few results."""
SEARCH_LIMIT = 20.0
"""Seconds for a search, however many engines are asked."""
MAX_QUERY = 500
MAX_RESULTS = 20
MAX_TITLE = 200
MAX_SNIPPET = 500
MAX_URL = 2_000
"""Characters; a hit with a longer address is left out."""

_CHARSETS = re.compile(
    r"utf_?(7|8|8_sig|16|16_[lb]e|32|32_[lb]e)|ascii|latin_1|iso8859_\d+|cp\d+|koi8_\w|mac_\w+|hz|kz1048|ptcp154|tis_620|"
    r"(gb|big5|euc_|iso2022_|shift_?jis|johab)\w*"
)
"""Python's names of the codecs for text in a charset; it has others too, some of which take hours for a long text."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One hit: the page's title, its URL, and an extract."""

    title: str
    url: str
    snippet: str


@marked(effect="read", trust="untrusted")
def search_text(query: str, max_results: int = 5) -> list[SearchResult]:
    """Search the web.

    Args:
        query: What to search for, in a few words.
        max_results: The most results to return, 1 to 20.

    Returns:
        Titles, URLs and snippets, the best first; an empty list when nothing was found.

    Raises:
        ToolError: The query is empty or too long, or no search engine could be reached.
    """
    try:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
    except ImportError:
        raise ImportError("search_text needs the package ddgs: pip install ddgs requests") from None
    if not query.strip():
        raise ToolError("The query is empty.")
    if len(query) > MAX_QUERY:
        raise ToolError(f"The query is too long: {len(query):,} characters, at most {MAX_QUERY}.")
    wanted = min(max(max_results, 1), MAX_RESULTS)
    try:
        hits = within(SEARCH_LIMIT, partial(DDGS(timeout=SEARCH_TIMEOUT).text, query, max_results=wanted))
    except (TimeoutException, TimeoutError) as error:
        raise ToolError("The search engines did not answer in time.") from error
    except RatelimitException as error:
        raise ToolError("The search engines take no more requests for now; do not search again soon.") from error
    except DDGSException as error:
        if "No results found" in str(error):  # ddgs has no exception of its own for it
            return []
        if kind := re.match(r"\w+Error\b", str(error)):
            raise ToolError(f"The search engines could not be reached ({kind[0]}).") from error
        raise ToolError("The search engines gave no usable answer.") from error
    return [_result(hit) for hit in hits[:wanted] if _is_address(hit.get("href"))]


@marked(effect="read", trust="untrusted")
def fetch_page(url: str, max_characters: int = 20_000) -> str:
    """Read a web page as text: HTML without its markup; plain text, JSON and XML as they are.

    Only pages on the public internet can be read.

    Args:
        url: The full address, beginning with http:// or https://.
        max_characters: The most characters of text to return; what is cut off is said at the end.

    Returns:
        The text of the page.

    Raises:
        ToolError: The page cannot be reached, is refused, is no text, or has none.
    """
    page = download(url)
    subtype = page.media_type.rpartition("/")[2]
    if subtype in ("html", "xhtml+xml"):
        text = readable_text(_decoded(page))
    elif page.media_type.startswith("text/") or re.fullmatch(r"(.*\+)?(json|xml|yaml)", subtype):
        text = _decoded(page).strip()
    else:
        kind = clipped(page.media_type, 80) or "of no stated content type"
        raise ToolError(f"{clipped(page.url)} is not text but {kind}.")
    if not text:
        raise ToolError(f"{clipped(page.url)} has no text (it may be made by scripts).")
    limit = max(max_characters, 1)
    size = f"the first {SIZE_LIMIT:,} bytes" if page.is_cut else "the page"
    if len(text) > limit or page.is_cut:
        return f"{text[:limit]}\n\n[{min(limit, len(text)):,} of {len(text):,} characters of {size}]"
    return text


def _is_address(href: Any) -> bool:
    return isinstance(href, str) and href.startswith(("http://", "https://")) and len(href) <= MAX_URL


def _result(hit: Mapping[str, Any]) -> SearchResult:
    title, snippet = str(hit.get("title") or ""), str(hit.get("body") or "")
    return SearchResult(title[:MAX_TITLE], hit["href"], snippet[:MAX_SNIPPET])


def _decoded(page: Download) -> str:
    """The body as text: by its byte order mark, the charset of the header or of the page's own `meta`, or UTF-8."""
    for mark, charset in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if page.body.startswith(mark):
            return page.body.decode(charset, "replace")
    meta = re.search(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{1,40})""", page.body[:2048], re.IGNORECASE)
    try:
        codec = codecs.lookup(page.charset or (meta[1].decode("ascii") if meta else "utf-8")).name
    except (LookupError, UnicodeError, ValueError):
        codec = "utf-8"
    if not _CHARSETS.fullmatch(codec.replace("-", "_")):
        codec = "utf-8"
    return page.body.decode(codec, "replace")
