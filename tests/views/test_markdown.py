"""Markdown of a model: its markup is drawn, and nothing in it is HTML, loads or runs."""

import io
import json
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from report_pages import Page
from rich.console import Console

from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer
from agentkit.views.html.conversation import render_prose
from agentkit.views.markdown import MAX_PARSED_CHARS, MarkdownStream, is_safe_link, parse_markdown
from agentkit.views.terminal import print_markdown

TEXT = """\
# Walks

Two **good** ones, `free`:

1. the river
2. the ~~old~~ new park

| place | km |
|---|--:|
| river | 3 |

> quiet

```python
x = "<b>"
```
[map](https://example.org/map)
first line
second line"""


def test_markup_becomes_elements():
    html = render_prose(TEXT, 10_000)
    page = Page(f"<div>{html}</div>".replace(' lang="python"', ""))
    for part in (
        "<h3>Walks</h3>",
        "<strong>good</strong>",
        "<code>free</code>",
        "<ol><li>the river</li>",
        "<s>old</s>",
        '<td style="text-align:right">3</td>',
        "<blockquote><p>quiet</p></blockquote>",
        "<pre>x = &quot;&lt;b&gt;&quot;\n</pre>".replace("&quot;", '"'),
        ">map</a>",
        "first line<br>second line",
    ):
        assert part in html, part
    assert 'x = "<b>"\n' in page.texts


def test_the_tree_is_plain_data():
    assert json.loads(json.dumps(parse_markdown("a **b**"))) == [["p", {}, ["a ", ["strong", {}, ["b"]]]]]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<div onclick=x>\n\nhidden\n\n</div>", "<!-- a -->",
        "a <b onmouseover=x>c</b>", "&lt;script&gt;",
    ],
)  # fmt: skip
def test_html_stays_text(text):
    html = render_prose(text, 1000)
    page = Page(html)
    assert not {"script", "img"} & set(page.classes)
    shown = "".join(page.texts)
    assert "".join(text.replace("&lt;", "<").replace("&gt;", ">").split()) == "".join(shown.split())


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:x", "data:text/html,x", "vbscript:x", "file:///etc/passwd",
        "//evil.example/x", "/x", "x", "https:", "blob:x", "&#106;avascript:alert(1)", "\x01javascript:x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("link", ["[a]({})", "[a](<{}>)", "<{}>", "[a]\n\n[a]: {}", "![a]({})"])
def test_an_unsafe_link_is_text(url, link):
    assert not is_safe_link(url)
    assert "<a" not in render_prose(link.format(url), 1000)


def test_a_bare_address_is_a_link():
    def links(text: str) -> list[str]:
        return re.findall('href="([^"]*)"', render_prose(text, 1000))

    assert links("See https://example.org/a_b_c?x=1, or (http://e.org/).") == [
        "https://example.org/a_b_c?x=1",
        "http://e.org/",
    ]
    assert links("[https://example.org](https://e.org)") == ["https://e.org"]
    assert links("<https://example.org> ftp://e.org `https://e.org` http://[ https://") == ["https://example.org"]
    assert links("```\nhttps://example.org\n```") == []


def test_an_image_inside_a_link_is_a_part_of_its_text():
    assert parse_markdown("[![build](https://e.org/b.svg)](https://e.org)") == [
        ("p", {}, [("a", {"href": "https://e.org"}, ["[image: build]"])])
    ]


def test_images_are_never_loaded():
    html = render_prose("![the map](https://evil.example/?q=secret)", 1000)
    assert "<img" not in html
    assert "[image: the map]" in html


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("[](){}<>*_`~#>-+1.|:\\&;!\"'= \n\tab/hp:"), max_size=300))
@example("[" * 200)
@example("> " * 200)
@example("- " * 200 + "x")
@example("|a|\n|-|\n" * 40)
def test_any_text_is_drawn(text):
    Page(render_prose(text, 10_000).replace(' lang="', ' title="'))
    print_markdown(text, Console(file=io.StringIO(), width=40, force_terminal=True))


def test_a_long_text_is_truncated_and_a_longer_one_is_not_parsed():
    html = render_prose("*a* " * 5000, 1000)
    assert "characters are left out" in html
    assert len(html) < 8000
    (node,) = parse_markdown("*a* " * MAX_PARSED_CHARS)
    assert node[0] == "pre"


@pytest.mark.parametrize(
    "text",
    ["**{}**", "| {0} |\n|-|\n| {0} |", "```\n{}\n```", "x" * 900 + "{}" + "y" * 900],
    ids=["strong", "table", "code", "long"],
)
def test_secrets_are_masked_before_markup_cuts_them(text):
    key = "sk-" + "a1B2c3D4" * 5
    assert "a1B2c3D4" not in render_prose(text.format(key), 1000)


def test_the_terminal_shows_markup_and_no_control_characters(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    print_markdown(
        "**bold**\nnext \x1b[31m <b>x</b> ![p](https://e.org/i) [l](https://e.org)",
        Console(file=out, width=100, force_terminal=True),
    )
    shown = out.getvalue()
    assert "\x1b[1mbold" in shown
    assert "\x1b[31m" not in shown
    for part in ("\\x1b[31m", "<b>x</b>", "https://e.org"):
        assert part in shown
    assert shown.count("\n") >= 2  # a line of the model is a line


def test_the_report_draws_answers_and_replies_as_markdown():
    model = ScriptedModel(answer("It is **warm**.\n\n- one\n- two"))
    html = JsonAgent(len, model=model).run("?").to_html()
    assert "It is <strong>warm</strong>." in html
    assert html.count("<li>one</li>") >= 1


def read_pieces(pieces):
    """Return the nodes of a streamed text, and the number of them that came before its end."""
    stream = MarkdownStream()
    nodes = []
    for piece in pieces:
        nodes += stream.feed(piece)[1]
    return nodes + stream.flush(), len(nodes)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*"#*-+>|`~_=1.a ", "\n", "\n", "\n\n", "\r\n", "\r", "    ", "- a\n", "```\n", "|a|\n|-|\n", "\U0001f600"]
        )
    ),
    st.integers(1, 7),
)
@example(list(TEXT), 3)
def test_a_streamed_text_has_the_blocks_of_the_whole_text(parts, size):
    text = "".join(parts)
    nodes, _ = read_pieces(text[place : place + size] for place in range(0, len(text), size))
    assert nodes == parse_markdown(text)


def test_a_block_is_finished_when_the_next_one_has_begun():
    stream = MarkdownStream()
    pieces = ("# A\r\n", "one \U0001f600", "\n\n", "- b\n- c\n", "- d\n", "\nafter the list\n")
    seen = [(piece, *stream.feed(piece)) for piece in pieces]
    assert [(piece, chars, [node[0] for node in nodes]) for piece, chars, nodes in seen if chars] == [
        ("\n\n", 5, ["h1"]),
        ("- b\n- c\n", 7, ["p"]),
        ("\nafter the list\n", 13, ["ul"]),
    ]
    assert stream.flush() == [("p", {}, ["after the list"])]
    assert stream.feed("[a]: https://example.org\n\n[a]\n\nb\n")[1] == [
        ("p", {}, [("a", {"href": "https://example.org"}, ["a"])])
    ]
    stream.flush()
    stream.feed("[a]\n\nb\n")
    assert stream.flush() == [("p", {}, ["b"])], "a new text"


def test_a_long_block_of_a_stream_is_not_parsed():
    ((node,), early) = read_pieces(["*a* b\n"] * (MAX_PARSED_CHARS // 6 + 1))
    assert (node[0], early) == ("pre", 1)


PIECES = {
    "stars": "*a", "strong": "**a ", "links": "[a](", "brackets": "[", "code": "`a", "marks": "_a", "struck": "~~a", "urls": "http://",
    "quotes": ">", "items": "- a\n", "nested": "    - a\n", "lines": "a\n", "rules": "- ", "cells": "|a", "hashes": "#", "fences": "```\n",
    "images": "![", "spans": "*a ", "ticks": "`", "levels": "> ", "tables": "|a|\n|-|\n", "references": "[a][", "mixed": "*_", "tags": "<a ",
    "paragraphs": "a\n\n",
}  # fmt: skip


def read_streamed(text):
    read_pieces(text[place : place + 5] for place in range(0, len(text), 5))


@pytest.mark.parametrize(
    ("read", "length"), [(parse_markdown, 30_000), (read_streamed, 10_000)], ids=["whole", "streamed"]
)
@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_reading_takes_time_linear_in_the_length(piece, read, length):
    def measure(chars: int) -> float:
        text = (piece * chars)[:chars]
        started = time.process_time()
        read(text)
        return max(time.process_time() - started, 0.004)

    ratios = (measure(length) / measure(length // 10) for _ in range(3))
    assert any(ratio < 40 for ratio in ratios)  # 10 is linear, 100 quadratic
