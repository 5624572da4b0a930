import json
from urllib.parse import parse_qs

import pytest

from agentkit import ToolError
from agentkit_tools import read_wikipedia
from agentkit_tools.wikipedia import find_article

TEA = {"title": "Tea", "fullurl": "https://en.wikipedia.org/wiki/Tea", "extract": "Tea is a drink.\n\n" + "x" * 100}


@pytest.fixture
def wikipedia(allowed):
    """An API with one article and the title of another."""
    allowed.replies = {
        "search": {"query": {"search": [{"title": "Tea"}, {"title": "Tea ceremony"}]}},
        "titles": {"query": {"pages": [TEA]}},
    }

    def page(handler):
        asked = parse_qs(handler.path.partition("?")[2])
        reply = allowed.replies["titles" if "titles" in asked else "search"]
        handler.begin(200, {"content_type": "application/json"})
        handler.wfile.write((reply if isinstance(reply, str) else json.dumps(reply)).encode())

    allowed.pages["/de/api"] = allowed.pages["/en/api"] = page
    allowed.api = f"{allowed.url}/{{language}}/api"
    return allowed


def test_an_article_has_its_title_address_text_and_others(wikipedia):
    assert str(find_article("black tea & milk", "de", 15, api=wikipedia.api)) == (
        "Tea\nhttps://en.wikipedia.org/wiki/Tea\n\nTea is a drink.\n\n[0 to 15 of 117 characters; start=15 reads on]\n\n"
        "[Other articles: Tea ceremony]"
    )
    first, second = (parse_qs(path.partition("?")[2]) for path, _ in wikipedia.requests)
    assert (first["srsearch"], second["titles"]) == (["black tea & milk"], ["Tea"])
    assert wikipedia.requests[0][0].startswith("/de/api?")


def test_a_long_article_is_read_in_parts(wikipedia):
    text = find_article("tea", start=17, api=wikipedia.api).text
    assert text == "x" * 100 + "\n\n[17 to 117 of 117 characters]"
    with pytest.raises(ToolError, match="has 117 characters; start=500 is after its end"):
        find_article("tea", start=500, api=wikipedia.api)


@pytest.mark.parametrize(
    ("part", "reply", "problem"),
    [
        ("search", {}, r"Wikipedia \(en\) has no article about 'tea'"),
        ("search", {"query": {"search": []}}, r"Wikipedia \(en\) has no article about 'tea'"),
        ("search", {"error": {"info": "Too many"}}, "refused the request: Too many"),
        ("search", "<html>", "did not answer with JSON"),
        ("search", "[]", "has no article"),
        ("titles", {"query": {"pages": []}}, "has no text in the article 'Tea'"),
        ("titles", {"query": {"pages": [{"missing": True}]}}, "has no text in the article 'Tea'"),
    ],
)
def test_what_is_not_an_article_is_reported(wikipedia, part, reply, problem):
    wikipedia.replies[part] = reply
    with pytest.raises(ToolError, match=problem):
        find_article("tea", api=wikipedia.api)


@pytest.mark.parametrize(
    ("topic", "language", "problem"),
    [
        ("", "en", "topic must have 1 to 300 characters, got 0"),
        ("x" * 301, "en", "got 301"),
        ("tea", "evil.example/", "language must be a code"),
        ("tea", "EN", "language must be a code"),
        ("tea", "127.0.0.1#", "language must be a code"),
    ],
)
def test_what_cannot_be_asked_is_not_sent(internet, topic, language, problem):
    with pytest.raises(ToolError, match=problem):
        read_wikipedia(topic, language)
    assert internet.lookups == []
