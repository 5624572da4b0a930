"""Articles of Wikipedia as plain text, through its API, without a key."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from agentkit import ToolError
from agentkit.http import download, settings
from agentkit.tools import truncate

from .declarations import declare

MAX_TOPIC_CHARS = 300
MAX_OTHERS = 4
"""Titles of other articles that are named."""
API = "https://{language}.wikipedia.org/w/api.php"
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]{2,10})?|simple")


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """The text of an article, or a part, with title and URL, and other articles about the topic."""

    title: str
    url: str
    text: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = f"[Other articles: {'; '.join(self.others)}]" if self.others else ""
        return "\n\n".join(filter(None, (f"{self.title}\n{self.url}", self.text, others)))


@declare(effect="read", trust="untrusted", egress=True)
def read_wikipedia(topic: str, language: str = "en", max_characters: int = 6_000, start: int = 0) -> Article:
    """Read the Wikipedia article that fits a topic best.

    Args:
        topic: The title of an article, or a few words.
        language: The Wikipedia to search, such as "en" or "de".
        max_characters: The maximum length of the text; a note at the end states what is left.
        start: The character to begin with, to continue a long text.

    Returns:
        The article as plain text, and the titles of others.

    Raises:
        ToolError: No article is found, or Wikipedia cannot be reached.
    """
    return find_article(topic, language, max_characters, start)


def find_article(
    topic: str, language: str = "en", max_characters: int = 6_000, start: int = 0, api: str = API
) -> Article:
    """Do `read_wikipedia` with this API."""
    if not topic.strip() or len(topic) > MAX_TOPIC_CHARS:
        raise ToolError(f"topic must have 1 to {MAX_TOPIC_CHARS} characters, got {len(topic):,}.")
    if not _LANGUAGE.fullmatch(language):
        raise ToolError(f'language must be a code such as "en" or "de", got {truncate(language)!r}.')
    url = api.format(language=language)
    found = _ask(url, {"list": "search", "srsearch": topic, "srlimit": 1 + MAX_OTHERS, "srprop": ""})
    titles = [str(hit["title"]) for hit in found.get("search", ()) if isinstance(hit, dict) and hit.get("title")]
    if not titles:
        raise ToolError(f"Wikipedia ({language}) has no article about {truncate(topic)!r}. Use other words.")
    wanted = {"prop": "extracts|info", "explaintext": 1, "inprop": "url", "redirects": 1, "titles": titles[0]}
    pages = _ask(url, wanted).get("pages")
    page: Mapping[str, Any] = pages[0] if isinstance(pages, list) and pages and isinstance(pages[0], dict) else {}
    text = str(page.get("extract") or "").strip()
    if not text:
        raise ToolError(f"Wikipedia ({language}) has no text in the article {truncate(titles[0])!r}.")
    start = max(start, 0)
    if start >= len(text):
        raise ToolError(f"The article has {len(text):,} characters; start={start} is after its end.")
    end = min(start + max(max_characters, 1), len(text))
    shown = text[start:end]
    if start or end < len(text):
        rest = f"; start={end} reads on" if end < len(text) else ""
        shown = f"{shown}\n\n[{start:,} to {end:,} of {len(text):,} characters{rest}]"
    title = str(page.get("title") or titles[0])
    others = tuple(truncate(other) for other in titles[1 : 1 + MAX_OTHERS])
    return Article(title=truncate(title), url=str(page.get("fullurl") or ""), text=shown, others=others)


def _ask(url: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the API answers to a query."""
    fixed = {"action": "query", "format": "json", "formatversion": 2}
    page = download(f"{url}?{urlencode({**fixed, **parameters})}", settings())
    try:
        reply = json.loads(page.body)
    except ValueError:
        raise ToolError("Wikipedia did not answer with JSON.") from None
    reply = reply if isinstance(reply, dict) else {}
    if isinstance(error := reply.get("error"), dict):
        raise ToolError(f"Wikipedia refused the request: {truncate(str(error.get('info')), 200)}.")
    found = reply.get("query")
    return found if isinstance(found, dict) else {}
