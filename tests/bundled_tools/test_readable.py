import pytest
from hypothesis import given
from hypothesis import strategies as st
from timing import takes_at_most

from agentkit_tools.readable import extract_text

PAGE = """<!DOCTYPE html>
<html><head><title>My &amp;
 page</title><style>p { color: red }</style><script>var a = "<p>no</p>";</script></head>
<body><nav>Menu <nav>inner</nav> more menu</nav><header><h1>A <em>fine</em> page</h1></header>
<!-- a comment --><p>One   paragraph
of caf&eacute; &#8364;5,<br>two lines.</p>
<ul><li>first<li><p>second with <a href="/x">a link</a></p></ul>
<table><tr><th>Name<th>Age</tr><tr><td>Ann</td><td><p>41</p></td></tr><tr><td></td><td>7</td></tr></table>
<pre>def f():
    return 1
</pre><div>left</div><div>right</div><svg/><svg><text>drawn</text></svg><noscript>no script</noscript>
<footer>Imprint</footer>AT&T</body></html>"""


def test_a_page_becomes_what_a_reader_sees():
    lines = [line for line in extract_text(PAGE).split("\n") if line]
    assert lines == [
        "My & page",
        "# A fine page",
        "One paragraph of café €5,",
        "two lines.",
        "- first",
        "- second with a link",
        "Name | Age",
        "Ann | 41",
        "| 7",
        "def f():",
        "    return 1",
        "left",
        "right",
        "AT&T",
    ]


def test_blocks_are_parted_by_one_empty_line():
    assert extract_text("<p>a</p><section><div><p>b</p></div></section><p>c") == "a\n\nb\n\nc"


def test_a_title_that_is_the_heading_occurs_once():
    assert extract_text("<title>News</title><h1>News</h1><p>text") == "# News\n\ntext"


def test_headings_keep_their_level_and_an_empty_one_leaves_nothing():
    assert extract_text("<h2>A</h2><h3></h3><p>b") == "## A\n\nb"


def test_inline_tags_do_not_part_words():
    assert extract_text("<p>un<b>believ</b>able<span> story</span>") == "unbelievable story"


@pytest.mark.parametrize(
    "html", ["", "<html></html>", "<script>1</script>", "<nav>a</nav>", "<table><tr><td></td><td></td></tr></table>"]
)
def test_a_page_without_text_is_empty(html):
    assert extract_text(html) == ""


def test_a_layout_of_nested_tables_keeps_its_rows():
    html = "<table><tr><td><table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table></td></tr></table>"
    assert extract_text(html) == "a | b\nc"


@pytest.mark.parametrize(
    "piece", ["<a ", "<a x='", "<!--", "<script>", "<![x[", "</", "a<b>", "<pre>", "<td>", "&#x", "<svg>"], ids=repr
)
def test_a_page_made_to_take_long_does_not(piece):
    with takes_at_most(300):
        extract_text(piece * (400_000 // len(piece)))


def test_a_tag_that_does_not_end_within_reason_ends_the_reading():
    page = f"<p>before</p><!--{'x' * 300_000}--><p>after</p>"
    assert extract_text(page) == "before\n\nafter"
    assert extract_text(page, max_tag_chars=100_000) == "before"


@given(
    st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<td>",
                "<tr>",
                "</table>",
                "<nav>",
                "</nav>",
                "<pre>",
                "<![a[",
                "<!--",
                "<li",
                ">",
                "x",
                "\n",
                "&",
                "<title>",
            ]
        )
    )
)
def test_broken_html_never_raises(pieces):
    text = extract_text("".join(pieces))
    assert text == text.strip()
    assert "\n\n\n" not in text
