"""The page of a run, and its view in a notebook: everything that happened, as text."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notebook_views import html_of, markdown_of
from report_pages import Page

from agentkit import JsonAgent, ModelError, RunError, Session, ToolRegistry, tool
from agentkit.core import masking as secrets
from agentkit.core.messages import ToolCall, Usage, assistant
from agentkit.engine.model import Reply
from agentkit.policies.retries import WAITS
from agentkit.schemas.formats import FORMATS
from agentkit.testing import ScriptedModel
from agentkit.tools.execution.call import ToolResult
from agentkit.views.html import agent_view, catalogue_page, live_view, result_page, result_view, session_page
from agentkit.views.html.conversation import max_text_bytes
from agentkit.views.html.markup import load_script


def weather(city: str, days: int = 1) -> dict:
    """Tells the weather.

    Args:
        city: The city's name.
    """
    if city == "Atlantis":
        raise ValueError("no such city")
    return {"city": city, "degrees": 31, "days": days}


def calling(*calls, text=None):
    return {"content": text, "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


def answering(text):
    return calling(("final_answer", {"text": text}))


def priced(message, tokens):
    return Reply(message, Usage(1, tokens, 7, cost=0.0125))


@pytest.fixture
def eventful(world):
    """A run with parallel calls, a repair, an error, a retry, a dropped reply and an agent inside of a tool."""
    inner = JsonAgent(
        weather,
        model=ScriptedModel(calling(("weather", {"city": "Inside"})), answering("founded 1690"), name="inner-model"),
        description="Researches.",
    )
    model = ScriptedModel(
        calling(
            ("weather", {"city": "Kolkata", "days": "2"}), ("Weather", {"city": "Atlantis"}), text="First the weather."
        ),
        ModelError("please slow down", kind="rate_limit", transient=True, retry_after=0.02),
        calling(("researcher", {"query": "When was it founded?"})),
        "",
        priced(assistant(None, [ToolCall("last", "final_answer", '{"text": "31 degrees, founded 1690"}')]), 1234),
        name="outer-model",
    )
    agent = JsonAgent(weather, inner.as_tool("researcher"), model=model)
    return agent, world.run(agent, "What is the weather?")


def test_the_page_shows_everything_that_happened(eventful):
    _, result = eventful
    page = Page(result.to_html())
    for text in (
        "What is the weather?",
        "31 degrees, founded 1690",
        "First the weather.",
        "outer-model",
        "1,234 tokens in, 7 out",
        "$0.0125",
        '{"city": "Atlantis"}',
        "ValueError: no such city",
        "name of the tool: Weather -> weather",
        "please slow down; asking again",
        "the reply was empty; asking again",
        "When was it founded?",
        "founded 1690",
        "inner-model",
        '{"city": "Inside"}',
        '"degrees": 31',
    ):
        assert text in page.text, text
    assert {"model", "tool", "wait", "bad", "in"} <= set(page.classes)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.links) <= set(page.ids)


def test_each_turn_has_its_tokens_and_its_cost_and_what_of_it_was_cached(world):
    def reply(message, **used):
        return Reply(message, Usage(1, 1200, 7, **used))

    asks = assistant(None, [ToolCall("first", "weather", '{"city": "Kolkata"}')])
    answers = assistant(None, [ToolCall("last", "final_answer", '{"text": "31 degrees"}')])
    model = ScriptedModel(
        reply(asks, cache_creation_tokens=1100, cost=0.02), reply(answers, cached_tokens=1150, cost=0.0125)
    )
    result = world.run(JsonAgent(weather, model=model), "What is the weather?")
    page = Page(result.to_html())
    first, last = [text for text in page.texts if "tokens in" in text and not text.startswith("scripted")]
    assert first.endswith("1,200 tokens in (1,100 written to the cache), 7 out · $0.0200")
    assert last.endswith("1,200 tokens in (1,150 cached), 7 out · $0.0125")
    assert "2,400 in (1,150 cached, 1,100 written to the cache), 14 out" in page.text


def test_a_saved_result_has_the_same_page(eventful):
    _, result = eventful
    saved = json.loads(json.dumps(result.as_dict()))
    assert result_page(saved) == result.to_html()


def test_parallel_calls_stand_side_by_side_and_to_scale(world):
    result = world.run(JsonAgent(weather, model=ScriptedModel(answering("x"))), "Which?").as_dict()
    lengths = {"a": 0.1, "b": 0.1, "c": 0.05}
    spans = [
        {"kind": "tool", "name": "nap", "call": call, "start": 0.2, "end": 0.2 + length}
        for call, length in lengths.items()
    ]
    html = result_page({**result, "seconds": 0.5, "trace": {"spans": spans, "notes": []}})
    lanes = re.findall(r'<div class="lane">(.*?)</div>', html.partition("Messages")[0])
    tools = [re.findall(r'class="bar tool" style="left:([\d.]+)%;width:([\d.]+)%"', lane) for lane in lanes]
    bars = [(float(left), float(width)) for lane in tools for left, width in lane[:1]]
    assert len(bars) == 3
    assert len({left for left, _ in bars}) == 1
    widths = sorted(width for _, width in bars)
    assert [width / widths[2] for width in widths] == pytest.approx([0.5, 1, 1], abs=0.01)
    assert all(left + width <= 100.01 for left, width in bars)


def test_a_run_without_an_answer_has_a_page_too(world, tmp_path):
    model = ScriptedModel(
        calling(("weather", {"city": "Kolkata"})), ModelError("the key is missing", kind="authentication")
    )
    with pytest.raises(RunError) as caught:
        world.run(JsonAgent(weather, model=model), "Will it work?")
    page = Page(caught.value.result.to_html(tmp_path / "failed.html"))
    assert "ModelError: the key is missing" in page.text
    assert "Will it work?" in page.text
    assert '"degrees": 31' in page.text
    assert (tmp_path / "failed.html").read_text("utf-8") == caught.value.result.to_html()
    assert "ModelError" in html_of(caught.value.result)
    assert "the key is missing" in markdown_of(caught.value.result)
    json.dumps(caught.value.result.as_dict())


def test_earlier_messages_are_folded_up(world):
    agent = JsonAgent(weather, model=ScriptedModel(answering("one"), answering("two")))
    world.run(agent, "The first query")
    html = world.run(agent, "The second query").to_html()
    assert Page(html).text.strip().startswith("agentkit: The second query")
    assert re.search(r"<summary>earlier in this conversation: 2 messages</summary>.*The first query.*</details>", html)


@pytest.mark.parametrize("length", [30, 3_000, 60_000])
@pytest.mark.parametrize("letter", ["x", "<", "\N{DEVANAGARI LETTER A}", "{\n"])
def test_fifty_steps_stay_below_200_kb(length, letter):
    @tool(max_result=10**6)
    def find(query: str) -> str:
        """Finds."""
        return letter * length

    replies = [calling(("find", {"query": f"{place} {letter * 100}"}), text="I continue. " * 5) for place in range(49)]
    result = JsonAgent(find, model=ScriptedModel([*replies, answering("done " * 1000)]), max_steps=60).run(
        "Fifty steps"
    )
    page = result.to_html()
    assert len(page.encode()) < 200_000
    assert page.count("<details>") >= (49 if length > 400 else 1)
    assert ("characters are left out" in page) == (length > 1000)
    assert len(html_of(result).encode()) < 130_000
    Page(page)


def test_short_texts_are_whole_and_long_ones_share_the_rest():
    assert max_text_bytes(["x" * 10, "x" * 1000], 2000) == 2000
    assert max_text_bytes(["x" * 10] * 10 + ["x" * 5000] * 2, 4000) == 1950
    assert max_text_bytes(["x" * 5000] * 1000, 4000) == 400


def test_secrets_are_masked_everywhere(world, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "s3cr3t<&>value")
    key = "sk-" + "a1B2c3D4" * 5

    def leak(what: str) -> str:
        """Leaks s3cr3t<&>value."""
        if what == "raise":
            raise ValueError(f"key {key}")
        return f"{'x' * 5000} s3cr3t<&>value {key} {'y' * 5000}"

    model = ScriptedModel(
        calling(("leak", {"what": "s3cr3t<&>value"}), ("leak", {"what": "raise"}), text=key),
        answering(f"It is {key}."),
        name=f"m-{key}",
    )
    agent = JsonAgent(leak, model=model)
    result = world.run(agent, f"Use {key}")
    secrets.hide("hidden-by-program")
    shown = [
        result.to_html(),
        html_of(result),
        markdown_of(result),
        agent.session.to_html(),
        html_of(agent.session),
        markdown_of(agent.session),
        html_of(agent),
        agent.tools.to_html(),
        html_of(agent.tools),
        markdown_of(agent.tools),
        html_of(agent.tools["leak"]),
    ]
    for page in shown:
        assert "a1B2c3D4" not in page
        assert "s3cr3t" not in page
    assert "***" in shown[0]


HOSTILE = st.one_of(
    st.sampled_from([
        "</pre><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='x", "javascript:alert(1)", "<!--", "]]>",
        "</style><style>*{display:none}", "<?php ?>", "&lt;b&gt;&#x27;", "\x00\x1b[31m\x7f", "\ud800\udfff", "\u202etxt.exe", "a\r\nb\rc",
        "{" * 3000, "<" * 5000, '{"a": "</script>"}', "[" * 3000 + "]" * 3000, "{{7*7}}${x}", "`", "​", "%s%n",
    ]),
    st.text(st.characters(exclude_categories=()), max_size=200),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(HOSTILE, min_size=12, max_size=12))
def test_hostile_content_stays_text(texts):
    query, text, name, identity, arguments, result, model, error, note, thoughts, answer, repair = texts
    spans = [
        {"kind": "model", "name": model, "start": 0.1, "end": 0.2, "place": 2, "error": error},
        {"kind": "tool", "name": name, "start": 0.2, "end": 0.3, "call": identity, "error": error, "repairs": [repair]},
    ]
    messages = [
        {"role": "system", "content": text},
        {"role": "user", "content": query},
        {
            **assistant(text, [ToolCall(identity, name, arguments)]),
            "reasoning_content": thoughts,
        },
        {"role": "tool", "tool_call_id": identity, "content": result},
        {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image_url"}]},
    ]
    notes = [{"at": 0.1, "text": note, "level": "WARNING", "place": 2}]
    inner = {"spans": spans, "notes": notes, "messages": messages}
    data = {
        "answer": answer,
        "messages": messages,
        "usage": Usage().as_dict(),
        "stopped": error,
        "model": model,
        "seconds": 0.4,
        "trace": {"spans": [spans[0], {**spans[1], "inner": inner}], "notes": notes},
    }
    registry = ToolRegistry()
    shown = [
        result_page(data),
        result_page({**data, "answer": {answer: [answer]}, "error": ""}),
        result_page({**data, "error": error}),
        result_view(data),
        session_page(messages),
        live_view([(name, result)], [text], error),
        agent_view(model, text, registry, messages, {}),
    ]
    for html in shown:
        page = Page(html)
        assert html.encode()  # no surrogates
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", html)
        assert len(page.ids) == len(set(page.ids))
    seen = re.sub(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]",
        "\ufffd",
        query.replace("\r\n", "\n"),
    )
    if len(query) < 200:
        assert seen in "".join(Page(shown[0]).texts)


def test_hostile_tools_stay_text():
    registry = ToolRegistry()
    for place, text in enumerate(["</code><script>x</script>", "\u202e<b>", 'a" onclick="x']):

        @registry.register
        @tool(
            name=f"tool_{place}",
            description=f"Does {text}.",
            parameters={"choice": {"description": text, "enum": [text, "b"]}},
        )
        def hostile(choice: str, size: int = 3) -> str:
            return choice

    page = Page(registry.to_html())
    assert "Does </code><script>x</script>." in page.text
    assert all(page.text.count(name) >= 3 for name in FORMATS)
    assert set(page.links) <= set(page.ids)
    Page(html_of(registry))
    Page(html_of(registry["tool_0"]))
    assert "\\<script\\>" in markdown_of(registry)


def test_the_catalogue_shows_every_format_and_what_it_lost(tmp_path):
    registry = ToolRegistry(weather)
    html = registry.to_html(tmp_path / "tools.html")
    assert html == (tmp_path / "tools.html").read_text("utf-8") == catalogue_page(registry)
    page = Page(html)
    assert "1 tool" in page.texts
    assert "The city's name." in page.text
    assert "default 1" in page.text
    for name in FORMATS:
        assert json.loads(
            next(text for text in page.texts if text == json.dumps(registry["weather"].schema(name), indent=2))
        )
    for loss in registry["weather"].losses("openai_strict"):
        assert f"{loss.path}: {loss.keyword}: {loss.moved_to}" in page.text


def test_a_page_loads_nothing(eventful):
    agent, result = eventful
    for html in (result.to_html(), agent.session.to_html(), agent.tools.to_html()):
        assert "default-src 'none'" in html
        assert not re.search(r"<link|<img|<iframe|src=|@import|url\(|https?://", html)
        assert html.count("<script") == 1
        assert f"<script>{load_script()}</script>" in html
    for view in (html_of(result), html_of(agent.session), html_of(agent)):
        assert "<script" not in view


def test_agents_sessions_and_results_have_rich_views(eventful, world):
    agent, result = eventful
    view = Page(html_of(agent))
    assert "outer-model" in view.text
    assert "researcher" in view.text
    session = Page(html_of(agent.session))
    assert "no result yet" not in session.text
    assert "31 degrees, founded 1690" in session.text
    assert set(view.ids).isdisjoint(session.ids)
    one = Page(html_of(result))
    two = Page(html_of(world.run(JsonAgent(weather, model=ScriptedModel(answering("x"))), "y")))
    assert set(one.ids).isdisjoint(two.ids)  # they stand on one page, the notebook
    assert "31 degrees, founded 1690" in markdown_of(result)
    assert '` {"city": "Atlantis"} `' in markdown_of(agent.session)
    assert Page(Session().to_html()).text.strip().startswith("agentkit: a conversation")
    assert markdown_of(Session()) == ""


def test_an_answer_that_is_data_is_shown_as_data(world):
    model = ScriptedModel(calling(("final_answer", {"answer": [1, 2]})))
    result = world.run(JsonAgent(weather, model=model, answer=list[int]), "Which?")
    assert "[1, 2]" in Page(result.to_html()).texts
    assert "\\[1, 2\\]" in markdown_of(result)


@pytest.mark.parametrize("text", ["- a", "1. a", "# a", "a | b", "$x$", "<b>", "`a`", "``` x", "_a_ *b*", "![a](b)"])
def test_nothing_in_a_text_is_markdown(text):
    shown = ToolResult(ToolCall("a", "b"), text, text)
    result = JsonAgent(weather, model=ScriptedModel(answering(text))).run("x")
    first = markdown_of(result).splitlines()[0]
    assert first != text
    assert first.replace("\\", "") == shown.content


def test_a_wait_is_shown(world):
    model = ScriptedModel(ModelError("busy", kind="server", transient=True, retry_after=0.05), answering("x"))
    result = world.run(JsonAgent(weather, model=model, retries=len(WAITS)), "x")
    page = Page(result.to_html())
    assert any(title.startswith("waiting to ask again") for title in page.titles)
