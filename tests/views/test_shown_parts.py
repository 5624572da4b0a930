"""Images, documents and sounds in the report, the notebook and the terminal."""

import io

from files import MP3, PDF, PNG, WAV
from notebook_views import html_of
from report_pages import Page

from agentkit import Audio, Document, Image, JsonAgent
from agentkit.testing import ScriptedModel, answer, call
from agentkit.views.history import print_lines, render_messages

DRAWN = Image.from_bytes(PNG + b"2")


def draw() -> list[Image | Audio]:
    """Draws."""
    return [DRAWN, Audio.from_bytes(MP3)]


def ran(*query) -> JsonAgent:
    agent = JsonAgent(draw, model=ScriptedModel(call("draw"), answer("done")))
    agent.run([*query])
    return agent


def url(part) -> str:
    return part.as_part()["image_url"]["url"]


def test_the_report_and_the_notebook_show_them():
    picture = Image.from_bytes(PNG)
    agent = JsonAgent(draw, model=ScriptedModel(call("draw"), answer("done")))
    result = agent.run(["What is <this>?", picture, Document.from_bytes(PDF, name="a.pdf"), Audio.from_bytes(WAV)])
    for html in (result.to_html(), html_of(result), agent.session.to_html(), html_of(agent.session)):
        page = Page(html)
        kinds = [source.partition(";")[0] for source in page.sources]
        assert kinds == ["data:image/png", "data:audio/wav", "data:image/png", "data:audio/mp3"]
        assert [source for source in page.sources if "image" in source] == [url(picture), url(DRAWN)]
        assert "What is <this>?" in page.text
        assert f"[application/pdf a.pdf, {len(PDF)} bytes]" in page.text
    assert "media-src data:" in result.to_html()


def test_an_address_is_shown_and_not_loaded():
    agent = ran("What is this?", Image.from_url("https://example.com/a.png?x=<b>"))
    page = Page(agent.session.to_html())
    assert len(page.sources) == 2  # the tool's
    assert "[image https://example.com/a.png?x=<b>]" in page.text


def test_a_large_picture_is_described_and_other_texts_are_whole():
    agent = ran("long " * 1000, Image.from_bytes(PNG + bytes(3_000_000)))
    html = agent.session.to_html()
    assert len(html) < 150_000
    assert "[image/png, 3,000," in html
    assert "left out" not in html


def test_markup_in_parts_of_others_is_text():
    parts = [
        {"type": "image_url", "image_url": {"url": 'data:image/svg+xml;base64,PHN2Zz4="><script>'}},
        {"type": "file", "file": {"filename": '"><b>', "file_data": "data:text/html;base64,PGI+"}},
        {"type": "image_url", "image_url": "javascript:alert(1)"},
        {"type": "odd"},
    ]
    agent = JsonAgent(draw, model=ScriptedModel(answer("done")))
    agent.history.append({"role": "user", "content": parts})
    agent.run("And?")
    assert Page(agent.session.to_html()).sources == []


def test_lines_name_them():
    text = io.StringIO()
    print_lines(render_messages(ran("What is this?", Image.from_bytes(PNG)).history), text)
    assert f"What is this? [image/png, {len(PNG)} bytes]" in text.getvalue()
    assert "base64" not in text.getvalue()
