import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timing import takes_at_most

from agentkit_tools.readable import extract_main, extract_text

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


HARD = [
    *(
        "<td>",
        "<p>x ",
        "<li>a",
        "<br>",
        "<p>x</p>",
        "<a href=x>y",
        "<a href=/x>y</a> ",
        "<img alt=a src=/b>",
        "<div><p>x",
    ),
    *("<figure><img alt=a src=/b>", "<table><tr><td>x", "<span>a</span><br>", "<form>", "&#x", "<a ", "<!--", "</"),
]


@pytest.mark.parametrize("piece", HARD, ids=repr)
def test_the_main_content_of_a_page_made_to_take_long_does_not(piece):
    extract_main("<p>warm</p>")
    with takes_at_most(4_000):
        extract_main(f"<html><body>{piece * (400_000 // len(piece))}", "https://site.example/")


SITE = "https://site.example/news/today.html"
STORY = f"""<html><head><title>A fine page</title></head><body>
<nav><ul><li><a href="/home">Home page of the site</a></li><li><a href="/shop">Shop</a></li></ul></nav>
<article><h1>A <em>fine</em> page</h1>
<figure><img alt="A [grey] cat" data-src="cat.png" src="data:image/gif;base64,x"><figcaption>by Ann</figcaption></figure>
<p>{"The first paragraph has many words. " * 5}<a href="../other page(2)"> See <b>another</b></a>, and more.</p>
<p>{"The second has as many words as that. " * 5}<img alt="" src="/dot.gif"><a href="#top">Up</a></p>
<h2>Data</h2><table><tr><th>Name</th><th>Age</th></tr><tr><td><a href="//x.example/ann">Ann</a></td><td>7</td></tr></table>
<pre><code>def f():
    return 1</code></pre><ul><li>one</li><li>two <a href="javascript:go()">three</a></li></ul></article>
<footer>Imprint and cookies</footer></body></html>"""
CONTENT = [
    "# A fine page",
    "![A [grey] cat](https://site.example/news/cat.png)",
    "[See another](https://site.example/other%20page%282%29), and more.",
    "## Data",
    "[Ann](https://x.example/ann) |",
    "def f():\n    return 1\n",
    "- one\n- two three",
]


@pytest.mark.parametrize("text", CONTENT)
@pytest.mark.parametrize("read", [extract_main, extract_text])
def test_links_pictures_tables_and_code_become_markdown(read, text):
    assert text in read(STORY, SITE)


@pytest.mark.parametrize("noise", ["Shop", "Imprint", "cookies", "dot.gif", "javascript", "#top"])
def test_the_main_content_is_without_menus_ornaments_and_footers(noise):
    assert noise not in extract_main(STORY, SITE)


LEAD = "The council decided on Monday, after a long night, to close the old bridge for good."
DESCRIPTION = f'<meta property="og:description" content="{LEAD[:60]} ...">'


@pytest.mark.parametrize("times", [0, 1])
def test_the_lead_of_an_article_is_kept_where_the_description_of_the_page_repeats_it(times):
    page = STORY.replace("<head>", f"<head>{DESCRIPTION * times}").replace(
        "<article>", f'<div class="teaser"><span>{LEAD}</span></div><div>share this</div><article>'
    )
    text = extract_main(page, SITE)
    assert text.count(LEAD) == times
    assert "share this" not in text


def test_a_lead_that_is_in_the_main_content_occurs_once():
    page = STORY.replace("<head>", f"<head>{DESCRIPTION}").replace("</figure>", f"</figure><p>{LEAD}</p>")
    assert extract_main(page, SITE).count("The council decided") == 1


def test_an_article_that_only_a_script_contains_is_found():
    article = "The whole article is in the data for search engines. " * 12
    page = f'<html><head><script type="application/ld+json">{{"articleBody": "{article}"}}</script></head><body></body></html>'
    assert "data for search engines" in extract_main(page, SITE)


def test_control_characters_do_not_prevent_the_main_content():
    text = extract_main(STORY.replace("See <b>", "\0\x01See\x0b <b>"), SITE)
    assert CONTENT[2] in text
    assert "Imprint" not in text


def test_a_page_that_is_a_list_of_links_keeps_them_all():
    page = "".join(f"<div><a href='/{n}'>Story {n} of today</a></div>" for n in range(200))
    text = extract_main(f"<html><body>{page}</body></html>", SITE)
    assert all(f"[Story {n} of today](https://site.example/{n})" in text for n in range(200))


def test_without_trafilatura_all_visible_text_is_returned(monkeypatch):
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    assert extract_main(STORY, SITE) == extract_text(STORY, SITE)


def test_the_symbols_that_mark_links_are_no_way_to_write_one():
    story = STORY.replace("and more.", "\U0001d300evil\U0001d3010\U0001d302 &#x1d303;0&#x1d302; end")
    text = extract_main(story, SITE)
    assert "evil" in text
    assert "end" in text
    assert "[evil]" not in text
    assert not set(text) & set("\U0001d300\U0001d301\U0001d302\U0001d303")


def test_marks_that_a_page_forges_are_removed():
    forged = "&#x1d303;999&#x1d302;&#x1d300;a&#x1d301;77777777777&#x1d302;&#x1d301;"
    text = extract_main(STORY.replace("and more.", f"{forged} end"), SITE)
    assert text.startswith("# A fine page")
    assert "Imprint" not in text
    assert not set(text) & set("\U0001d300\U0001d301\U0001d302\U0001d303")


def test_relative_links_use_the_base_of_the_page():
    page = STORY.replace("<head>", '<head><base href="https://other.example/a/">')
    assert "(https://other.example/a/cat.png)" in extract_main(page, SITE)
    assert "(https://other.example/a/cat.png)" in extract_text(page, SITE)


@pytest.mark.parametrize("chars", [300_000, 3_000_000])
def test_what_follows_a_long_comment_is_read(chars):
    assert extract_text(f"<p>before</p><!--{'x' * chars}--><p>after</p>") == "before\n\nafter"


@pytest.mark.parametrize("opening", ["<a ", "<a href=", "<!--", '<a b="c"'])
def test_a_tag_that_does_not_end_ends_the_reading(opening):
    assert extract_text("<p>before</p>" + opening * 100_000) == "before"


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


def test_where_the_main_content_takes_too_long_all_visible_text_is_returned():
    article = "".join(f"<p>Sentence {number} of a long article about cats and dogs.</p>" for number in range(50))
    html = f"<title>Cats</title><body><nav>Menu</nav><div class=teaser>Buy now</div><article>{article}</article>"
    assert extract_main(html, seconds=0) == extract_text(html)
    assert "Sentence 49" in extract_main(html)
