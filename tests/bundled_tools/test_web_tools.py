import json
import sys
import threading
from types import SimpleNamespace

import pytest
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException
from ddgs.http_client import HttpClient
from files import make_pdf
from timing import takes_at_most
from waiting import HANGS

import agentkit_tools.web as web
from agentkit import ToolError
from agentkit_tools import fetch_page, search_text


def hits(count, text="about cats"):
    items = "".join(
        f'<div class="result__body"><h2><a>Cats {n}</a></h2><a href="https://example.org/{n}">{text} {n}</a></div>'
        for n in range(count)
    )
    return SimpleNamespace(status_code=200, text=f"<html><body><p>Results</p>{items}</body></html>", content=b"")


@pytest.fixture
def engines(monkeypatch):
    """Every search engine gives the same reply, which a test sets: a response or an exception."""
    state = SimpleNamespace(reply=hits(30), asked=[])

    def request(client, method, url, **settings):
        state.asked.append((url, settings))
        if isinstance(state.reply, Exception):
            raise state.reply
        return (
            state.reply
            if "duckduckgo" in url
            else SimpleNamespace(status_code=429, text="<p>Too many requests</p>", content=b"")
        )

    monkeypatch.setattr(HttpClient, "request", request)
    return state


def test_a_search_gives_titles_urls_and_snippets(engines):
    found = search_text("cats", max_results=3)
    assert len(found) == 3
    assert {result.title for result in found} <= {f"Cats {n}" for n in range(30)}
    assert all(result.url.startswith("https://example.org/") and "about cats" in result.snippet for result in found)
    assert any("cats" in str(settings) for _, settings in engines.asked)


@pytest.mark.parametrize(("wanted", "given"), [(100, 20), (20, 20), (1, 1), (0, 1), (-5, 1)])
def test_the_number_of_results_is_bounded(engines, wanted, given):
    assert len(search_text("cats", max_results=wanted)) == given


def test_long_snippets_are_cut(engines):
    engines.reply = hits(3, "cats " * 1000)
    assert {len(result.snippet) for result in search_text("cats")} == {500}


def test_no_results_are_an_empty_list(engines):
    engines.reply = hits(0)
    assert search_text("cats") == []


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (TimeoutException("operation timed out"), "The search engines did not answer in time."),
        (
            DDGSException("DNSError: DNSError('error sending request ... 0x7f01')"),
            "The search engines could not be reached (DNSError).",
        ),
        (DDGSException("Document is empty"), "The search engines gave no usable answer."),
    ],
)
def test_a_failed_search_is_reported_briefly(engines, failure, message):
    engines.reply = failure
    with pytest.raises(ToolError) as error:
        search_text("cats")
    assert str(error.value) == message


def test_a_rate_limit_is_reported(engines, monkeypatch):
    monkeypatch.setattr("ddgs.DDGS.text", lambda *args, **settings: (_ for _ in ()).throw(RatelimitException("202")))
    with pytest.raises(ToolError, match="no more requests for now"):
        search_text("cats")


@pytest.mark.parametrize("query", ["", " \n"])
def test_an_empty_query_is_not_sent(engines, query):
    with pytest.raises(ToolError, match="The query is empty"):
        search_text(query)
    assert engines.asked == []


def test_a_long_query_is_not_sent(engines):
    with pytest.raises(ToolError, match="The query is too long: 600 characters, at most 500"):
        search_text("x" * 600)
    assert engines.asked == []


def test_a_search_has_one_time_limit(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr("ddgs.DDGS.text", lambda *args, **settings: release.wait(HANGS))
    with pytest.raises(ToolError, match="did not answer in time"):
        web.find_pages("cats", seconds=0.1)
    release.set()


def test_hits_without_a_usable_address_are_left_out(monkeypatch):
    good = {"title": None, "href": "https://example.org/", "body": None}
    bad = [{"href": None}, {}, {"href": "javascript:alert(1)"}, {"href": "https://example.org/" + "x" * 2_000}]
    monkeypatch.setattr("ddgs.DDGS.text", lambda *args, **settings: [*bad, good])
    assert search_text("cats") == [web.SearchResult("", "https://example.org/", "")]


@pytest.mark.parametrize(
    ("url", "is_public"),
    [
        ("https://example.org/a?b", True),
        ("http://bücher.example.com/", True),
        ("https://93.184.216.34/", True),
        ("http://localhost:8000/", False),
        ("http://router/", False),
        ("http://169.254.169.254/latest/meta-data", False),
        ("http://[::1]/", False),
        ("http://0x7f.1/", False),
        ("http://2130706433/", False),
        ("http://127.1/", False),
        ("https://wiki.internal/", False),
        ("https://user:secret@example.org/", False),
        ("file:///etc/passwd", False),
        ("http://", False),
    ],
)
def test_only_public_addresses_are_listed(monkeypatch, url, is_public):
    monkeypatch.setattr("ddgs.DDGS.text", lambda *args, **settings: [{"href": url}])
    assert [entry.url for entry in search_text("cats")] == ([url] if is_public else [])


def test_a_page_is_read_as_text(allowed):
    allowed.answer("/", "<title>Hi</title><p>caf\u00e9</p>", Content_Type="text/html; charset=utf-8")
    assert fetch_page(allowed.url) == "Hi\n\ncafé"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", "a <b> c"),
        ("application/json", json.dumps({"a": [1, 2]})),
        ("application/ld+json; charset=utf-8", '{"a": 1}'),
        ("application/x-ndjson", '{"a": 1}\n{"a": 2}'),
        ("application/rss+xml", "<rss><title>x</title></rss>"),
        ("text/csv", "a,b\n1,2"),
    ],
)
def test_text_and_data_are_passed_as_they_are(allowed, content_type, body):
    allowed.answer("/", body, Content_Type=content_type)
    assert fetch_page(allowed.url) == body


@pytest.mark.parametrize("content_type", ["image/png", "application/octet-stream", "video/mp4"])
def test_another_content_type_is_refused_with_its_name(allowed, content_type):
    allowed.answer("/file", b"%PDF", Content_Type=content_type)
    with pytest.raises(ToolError, match=f"/file is not text but {content_type}"):
        fetch_page(f"{allowed.url}/file")


def test_a_page_of_no_stated_type_is_refused(allowed):
    allowed.answer("/", b"\x00\x01")
    with pytest.raises(ToolError, match="of no stated content type"):
        fetch_page(allowed.url)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<p>Zürich €".encode("cp1252"), "text/html; charset=windows-1252"),
        ("<meta charset='windows-1252'><p>Zürich €".encode("cp1252"), "text/html"),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=cp1252"><p>Zürich €'.encode("cp1252"),
            "text/html",
        ),
        ("<p>Zürich €".encode("utf-8-sig"), "text/html; charset=iso-8859-1"),
        ("<p>Zürich €".encode("utf-16"), "text/html"),
        ("<p>Zürich €".encode(), "text/html; charset=nonsense"),
        ("<p>Zürich €".encode(), "text/html; charset=hex"),
        ("<p>Zürich €".encode(), "text/html"),
    ],
)
def test_the_charset_is_found(allowed, body, content_type):
    allowed.answer("/", body, Content_Type=content_type)
    assert fetch_page(allowed.url) == "Zürich €"


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "undefined", "rot13", "zlib", "x" * 500])
def test_an_unknown_charset_is_read_as_utf_8_at_once(allowed, charset):
    allowed.answer("/", "é" * 200_000 + "-" + "a" * 200_000, Content_Type=f"text/plain; charset={charset}")
    with takes_at_most(500):
        assert fetch_page(allowed.url).startswith("ééé")


def test_bytes_that_are_not_text_are_replaced(allowed):
    allowed.answer("/", b"a\xffb", Content_Type="text/plain")
    assert fetch_page(allowed.url) == "a\ufffdb"


def test_a_long_page_is_truncated_with_a_note(allowed):
    allowed.answer("/", "x" * 30_000, Content_Type="text/plain")
    assert (
        fetch_page(allowed.url) == "x" * 20_000 + "\n\n[20,000 of 30,000 characters of the page; start=20000 reads on]"
    )
    assert fetch_page(allowed.url, max_characters=5).startswith("xxxxx\n\n[5 of 30,000")
    assert fetch_page(allowed.url, max_characters=30_000) == "x" * 30_000


def test_a_long_page_is_read_on_from_an_offset(allowed):
    text = "".join(f"{number:,} " for number in range(3_000)).strip()
    allowed.answer("/", text, Content_Type="text/plain")
    parts = [fetch_page(allowed.url, 5_000, start) for start in range(0, len(text), 5_000)]
    assert "".join(part.rpartition("\n\n[")[0] for part in parts) == text
    assert parts[1].endswith(f"\n\n[5,000 to 10,000 of {len(text):,} characters of the page; start=10000 reads on]")
    assert parts[-1].endswith(f" to {len(text):,} of {len(text):,} characters of the page]")
    with pytest.raises(ToolError, match=r"has 15,889 characters; start=99999 is after its end"):
        fetch_page(allowed.url, start=99_999)


@pytest.mark.parametrize("content_type", ["application/pdf", "application/octet-stream"])
def test_a_pdf_is_read_page_by_page(allowed, content_type):
    allowed.answer("/", make_pdf("Hello", "second page"), Content_Type=content_type)
    assert fetch_page(allowed.url) == "[Page 1 of 2]\n\nHello\n\n[Page 2 of 2]\n\nsecond page"


@pytest.mark.parametrize("body", ["%PDF", "%PDF-1.7\nnothing", make_pdf("Hello")[:300]], ids=len)
def test_a_damaged_pdf_is_reported(allowed, body):
    allowed.answer("/", body, Content_Type="application/pdf")
    with pytest.raises(ToolError, match=r"is not a readable PDF|has no text"):
        fetch_page(allowed.url)


def test_a_pdf_over_the_size_limit_is_refused(allowed, monkeypatch):
    monkeypatch.setenv("AGENTKIT_FETCH_MAX_BYTES", "200")
    allowed.answer("/", make_pdf("Hello"), Content_Type="application/pdf")
    with pytest.raises(ToolError, match="is a PDF of more than 200 bytes, which is not read"):
        fetch_page(allowed.url)


def test_a_pdf_without_pypdf_names_what_to_install(allowed, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    allowed.answer("/", make_pdf("Hello"), Content_Type="application/pdf")
    with pytest.raises(ImportError, match="needs the package pypdf for a PDF: pip install pypdf"):
        fetch_page(allowed.url)


def test_links_of_a_page_are_absolute(allowed):
    allowed.answer("/a/b", "<p>Go <a href='../c'>on</a>", Content_Type="text/html")
    assert fetch_page(f"{allowed.url}/a/b") == f"Go [on]({allowed.url}/c)"


def test_a_page_longer_than_the_size_limit_has_a_note(allowed, monkeypatch):
    monkeypatch.setenv("AGENTKIT_FETCH_MAX_BYTES", "1000")
    allowed.answer("/", "x" * 5000, Content_Type="text/plain")
    assert fetch_page(allowed.url) == "x" * 1000 + "\n\n[1,000 of 1,000 characters of the first 1,000 bytes]"


def test_a_page_without_text_is_reported(allowed):
    allowed.answer("/", "<div id=app></div><script>go()</script>", Content_Type="text/html")
    with pytest.raises(ToolError, match="has no text"):
        fetch_page(allowed.url)


def test_a_private_page_is_refused(server):
    server.answer("/", "secret", Content_Type="text/plain")
    with pytest.raises(ToolError, match="not on the public internet"):
        fetch_page(server.url)
    assert server.requests == []


def test_a_missing_page_is_reported_with_its_status(allowed):
    with pytest.raises(ToolError, match="/nothing answered 404 Not Found"):
        fetch_page(f"{allowed.url}/nothing")


@pytest.mark.parametrize(
    ("arguments", "function", "options"),
    [
        ({}, "text", {"region": "us-en", "timelimit": None, "max_results": 5}),
        ({"period": "week", "region": "de-de"}, "text", {"region": "de-de", "timelimit": "w", "max_results": 5}),
        ({"news": True, "period": "day"}, "news", {"region": "us-en", "timelimit": "d", "max_results": 5}),
    ],
)
def test_news_a_period_and_a_region_are_asked_for(monkeypatch, arguments, function, options):
    asked = []
    hit = {"title": "Cats", "body": "About cats.", "date": "2026-11-20T08:00:00+00:00", "source": "Cat News"}
    for name, key in (("text", "href"), ("news", "url")):
        reply = [hit | {key: "https://example.org/"}]
        monkeypatch.setattr(
            f"ddgs.DDGS.{name}", lambda _, query, name=name, reply=reply, **sent: asked.append((name, sent)) or reply
        )
    [found] = search_text("cats", **arguments)
    assert asked == [(function, options)]
    assert (found.url, found.date[:10]) == ("https://example.org/", "2026-11-20")


@pytest.mark.parametrize("region", ["", "germany", "de", "de-de&x=1", "DE-DE"])
def test_a_region_that_is_no_region_is_not_sent(engines, region):
    with pytest.raises(ToolError, match='region must be a country and a language such as "us-en"'):
        search_text("cats", region=region)
    assert engines.asked == []
