"""Search the web, and read a page."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from agentkit import ToolError
from agentkit.http import Download, FetchSettings, download, find_codec, is_public_url, settings
from agentkit.tools import run_within, truncate

from .declarations import declare
from .pdf import is_pdf, read_pdf
from .readable import extract_main

MAX_ENGINE_SECONDS = 5
"""Time for one search engine; ddgs asks further engines if there are too few results."""
MAX_SEARCH_SECONDS = 20.0
"""Time for a search with all its engines."""
MAX_QUERY_CHARS = 500
MAX_RESULTS = 20
MAX_TITLE_CHARS = 200
MAX_SNIPPET_CHARS = 500
MAX_DATE_CHARS = 40
MAX_URL_CHARS = 2_000
"""A result with a longer address is skipped."""

Period: TypeAlias = Literal["any", "day", "week", "month", "year"]
_TIME_LIMITS: Mapping[Period, str | None] = {"any": None, "day": "d", "week": "w", "month": "m", "year": "y"}
_REGION = re.compile(r"[a-z]{2}-[a-z]{2,3}")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result: the page's title, its URL, an extract, and the date of news; "" for a page."""

    title: str
    url: str
    snippet: str
    date: str = ""


@declare(effect="read", trust={"url": "trusted"}, egress=True)  # an address from the index carries no data out
def search_text(
    query: str,
    max_results: int = 5,
    news: bool = False,
    period: Literal["any", "day", "week", "month", "year"] = "any",
    region: str = "us-en",
) -> list[SearchResult]:
    """Search the web, or the news.

    Args:
        query: What to search for, in a few words.
        max_results: The maximum number of results, 1 to 20.
        news: Whether to search articles of newspapers, which have a date.
        period: How old a result may be.
        region: Country and language of the results, such as "de-de" or "in-en".

    Returns:
        Titles, URLs and snippets, the best first; an empty list if nothing was found.

    Raises:
        ToolError: The query is empty or too long, the region is invalid, or no search engine could be reached.
    """
    return find_pages(query, max_results, news=news, period=period, region=region)


def find_pages(
    query: str,
    max_results: int = 5,
    seconds: float = MAX_SEARCH_SECONDS,
    *,
    news: bool = False,
    period: Period = "any",
    region: str = "us-en",
) -> list[SearchResult]:
    """Do `search_text` within these seconds."""
    try:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
    except ImportError:
        raise ImportError("search_text needs the package ddgs: pip install ddgs") from None
    if not query.strip():
        raise ToolError("The query is empty. Write a few words.")
    if len(query) > MAX_QUERY_CHARS:
        raise ToolError(f"The query is too long: {len(query):,} characters, at most {MAX_QUERY_CHARS}.")
    if not _REGION.fullmatch(region):
        raise ToolError(f'region must be a country and a language such as "us-en", got {truncate(region)!r}.')
    wanted = min(max(max_results, 1), MAX_RESULTS)
    engines = DDGS(timeout=MAX_ENGINE_SECONDS)
    options = {"region": region, "timelimit": _TIME_LIMITS[period], "max_results": wanted}
    try:
        hits = run_within(seconds, partial(engines.news if news else engines.text, query, **options))
    except (TimeoutException, TimeoutError) as error:
        raise ToolError("The search engines did not answer in time.") from error
    except RatelimitException as error:
        raise ToolError("The search engines accept no more requests for now; do not search again soon.") from error
    except DDGSException as error:
        if "No results found" in str(error):  # ddgs has no separate exception for this
            return []
        if kind := re.match(r"\w+Error\b", str(error)):
            raise ToolError(f"The search engines could not be reached ({kind[0]}).") from error
        raise ToolError("The search engines gave no usable answer.") from error
    return [_to_result(hit) for hit in hits[:wanted] if _is_address(hit.get("href") or hit.get("url"))]


@declare(effect="read", trust="untrusted", egress=True)
def fetch_page(url: str, max_characters: int = 20_000, start: int = 0) -> str:
    """Read a web page: the main content of HTML as Markdown, a PDF's text; plain text, JSON, CSV and feeds as they are.

    Only pages on the public internet can be read.

    Args:
        url: The full address, beginning with http:// or https://.
        max_characters: The maximum length of the text; a note at the end states what is left.
        start: The character to begin with, to continue a long text.

    Returns:
        The text of the page.

    Raises:
        ToolError: The page cannot be reached, is refused, is not text, is empty, or ends before `start`.
    """
    limits = settings()
    page = download(url, limits)
    text = _read(page, limits)
    if not text:
        raise ToolError(f"{truncate(page.url)} has no text (it may be made by scripts).")
    start = max(start, 0)
    if start >= len(text):
        raise ToolError(f"{truncate(page.url)} has {len(text):,} characters; start={start} is after its end.")
    end = min(start + max(max_characters, 1), len(text))
    if start == 0 and end == len(text) and not page.is_cut:
        return text
    size = f"the first {limits.max_bytes:,} bytes" if page.is_cut else "the page"
    shown = f"{end:,}" if start == 0 else f"{start:,} to {end:,}"
    rest = f"; start={end} reads on" if end < len(text) else ""
    return f"{text[start:end]}\n\n[{shown} of {len(text):,} characters of {size}{rest}]"


def _read(page: Download, limits: FetchSettings) -> str:
    """Return the text of a page of any supported type."""
    subtype = page.media_type.rpartition("/")[2]
    if subtype in ("html", "xhtml+xml"):
        return extract_main(decode(page), page.url)
    if subtype in ("pdf", "x-pdf") or is_pdf(page.body):
        if page.is_cut:
            raise ToolError(
                f"{truncate(page.url)} is a PDF of more than {limits.max_bytes:,} bytes, which is not read."
            )
        return read_pdf(page.body, truncate(page.url), limits.seconds, "fetch_page")
    if page.media_type.startswith("text/") or re.fullmatch(r"(.*\+)?(json|xml|yaml)|x-ndjson|jsonl|csv", subtype):
        return decode(page).strip()
    kind = truncate(page.media_type, 80) or "of no stated content type"
    raise ToolError(f"{truncate(page.url)} is not text but {kind}.")


def _is_address(href: Any) -> bool:
    """Whether a result has the address of a public page; others come from who writes into the index."""
    return isinstance(href, str) and len(href) <= MAX_URL_CHARS and is_public_url(href)


def _to_result(hit: Mapping[str, Any]) -> SearchResult:
    title = str(hit.get("title") or "")
    snippet = str(hit.get("body") or "")
    url = hit.get("href") or hit["url"]
    date = str(hit.get("date") or "")
    return SearchResult(title[:MAX_TITLE_CHARS], url, snippet[:MAX_SNIPPET_CHARS], date[:MAX_DATE_CHARS])


def decode(page: Download) -> str:
    """Decode the body by its byte order mark, the charset of the header or of the page's `meta`, or as UTF-8."""
    for mark, charset in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if page.body.startswith(mark):
            return page.body.decode(charset, "replace")
    meta = re.search(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{1,40})""", page.body[:2048], re.IGNORECASE)
    return page.body.decode(find_codec(page.charset or (meta[1].decode("ascii") if meta else "")), "replace")
