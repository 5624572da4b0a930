"""The script of the pages in a browser: it passes the page's own policy, filters turns and finds failures."""

import re
import shutil
import subprocess

import pytest

from agentkit import JsonAgent, Limits
from agentkit.core.messages import ToolCall, Usage, assistant
from agentkit.models import Reply
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.views.html.markup import load_script

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)")


def weather(city: str) -> str:
    """Tells the weather."""
    if city.startswith("Atlantis"):
        raise ValueError("no such city")
    return f"warm in {city}"


def population(city: str) -> int:
    """Counts the people."""
    return 10


@pytest.fixture(scope="module")
def result():
    replies = [
        calls(
            call("weather", city=f"Atlantis {place}" if place % 20 == 7 else f"Rome {place}"),
            call("population", city="Rome"),
        )
        if place % 2
        else call("population", city=f"Oslo {place}")
        for place in range(60)
    ]
    return JsonAgent(
        [weather, population], model=ScriptedModel(*replies, answer("It is **warm**.")), max_steps=100
    ).run("?")


def render(tmp_path, page: str) -> str:
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--virtual-time-budget=2000",
        "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    return subprocess.run([*command, file.as_uri()], capture_output=True, text=True, check=True).stdout


@needs_browser
def test_the_script_passes_the_policy_of_the_page(tmp_path, result):
    page = result.to_html()
    assert "Next failure" not in page.replace(load_script(), "")
    assert "Next failure</button>" in render(tmp_path, page)
    changed = page.replace('"use strict";', '"use strict"; ')
    assert "Next failure</button>" not in render(tmp_path, changed)


@needs_browser
def test_turns_are_filtered_and_failures_are_found(tmp_path, result):
    steps = """<script>
    const find = (name) => document.querySelector('.tools ' + name), seen = [];
    const turns = () => [...document.querySelectorAll('.turn')].filter((turn) => !turn.closest('[hidden]')).length;
    const change = (element) => element.dispatchEvent(new Event('change'));
    seen.push(turns());
    find('select').value = 'weather'; change(find('select')); seen.push(turns());
    find('[type=checkbox]').checked = true; change(find('[type=checkbox]')); seen.push(turns());
    find('select').value = ''; find('[type=checkbox]').checked = false; change(find('select')); seen.push(turns());
    find('button').click();
    seen.push(document.activeElement.classList.contains('failed') && document.activeElement.checkVisibility());
    find('button').click(); seen.push(find('output').value);
    find('[type=search]').value = 'oslo 12'; find('[type=search]').dispatchEvent(new Event('input'));
    setTimeout(() => { seen.push(turns()); document.body.dataset.seen = seen.join('; '); }, 400);
    </script>"""
    page = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", result.to_html()).replace(
        "</body>", f"{steps}</body>"
    )
    (seen,) = re.findall(r'data-seen="([^"]*)"', render(tmp_path, page))
    assert seen.split("; ") == ["61", "30", "3", "61", "true", "failure 2 of 3", "1"]


@needs_browser
def test_a_link_into_a_folded_turn_opens_it(tmp_path, result):
    probe = """<script>
    const place = document.getElementById('m2c0'), before = place.checkVisibility();
    location.hash = 'm2c0';
    setTimeout(() => { document.body.dataset.seen = [before, place.checkVisibility()].join('; '); }, 400);
    </script>"""
    page = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", result.to_html()).replace(
        "</body>", f"{probe}</body>"
    )
    (seen,) = re.findall(r'data-seen="([^"]*)"', render(tmp_path, page))
    assert seen == "false; true"


@needs_browser
def test_the_timeline_is_zoomed_around_its_middle_with_its_scale(tmp_path, result):
    probe = """<script>
    const lanes = document.querySelector('.lanes'), range = document.querySelector('.zoom input'), seen = [];
    const ticks = () => [...lanes.querySelectorAll('.scale span')].map((tick) => tick.textContent);
    const width = () => Math.round(lanes.scrollWidth / lanes.clientWidth);
    const middle = () => ((lanes.scrollLeft + lanes.clientWidth / 2) / lanes.scrollWidth).toFixed(2);
    const bar = lanes.querySelector('.bar'), narrow = bar.getBoundingClientRect().width;
    seen.push(ticks().length, width(), middle());
    range.value = 3; range.dispatchEvent(new Event('input'));
    seen.push(ticks().length, width(), middle(), (bar.getBoundingClientRect().width / narrow).toFixed(0), ticks()[0]);
    lanes.scrollLeft = 0.75 * lanes.scrollWidth - lanes.clientWidth / 2;
    range.value = 6; range.dispatchEvent(new Event('input')); seen.push(middle());
    range.value = 0; range.dispatchEvent(new Event('input'));
    seen.push(ticks().length, width(), document.querySelector('.zoom output').value);
    document.body.dataset.seen = seen.join('; ');
    </script>"""
    page = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", result.to_html()).replace(
        "</body>", f"{probe}</body>"
    )
    (seen,) = re.findall(r'data-seen="([^"]*)"', render(tmp_path, page))
    assert seen.split("; ") == ["5", "1", "0.50", "33", "8", "0.50", "8", "0", "0.75", "5", "1", "1 times"]


def test_each_turn_has_its_tokens():
    spent = [
        {**reply, "usage": {"input_tokens": 1200 + number, "output_tokens": 7}}
        for number, reply in enumerate([call("weather", city="Rome"), answer("warm")])
    ]
    html = JsonAgent(weather, model=ScriptedModel(*spent)).run("?").to_html()
    lines = re.findall(r"<summary>(.*?)</summary>", html)
    assert [re.findall(r"1,20\d tokens in, 7 out", line) for line in lines if 'class="names"' in line] == [
        ["1,200 tokens in, 7 out"],
        ["1,201 tokens in, 7 out"],
    ]


def test_many_turns_are_groups_and_few_are_open(result):
    html = result.to_html()
    ends = [(first, first + 19) for first in (1, 21, 41)]
    assert [*re.findall(r"<b>(turns \d+\N{EN DASH}\d+)</b>", html)] == [f"turns {a}\N{EN DASH}{b}" for a, b in ends]
    assert len(re.findall(r'<details class="turn( bad)?"', html)) == 61
    few = JsonAgent(weather, model=ScriptedModel(call("weather", city="Rome"), answer("warm"))).run("?").to_html()
    assert few.count("<details open") >= 2


def test_the_answer_is_shown_once(result):
    html = result.to_html()
    assert html.count("It is <strong>warm</strong>.") == 1
    assert 'href="#m-answer"' in html
    assert 'id="m-answer"' in html


def test_the_page_names_date_limits_versions_and_the_cost_of_turns():
    last = assistant(None, [ToolCall("last", "final_answer", '{"text": "It is warm."}')])
    reply = Reply(last, Usage(1, 1200, 7, cost=0.0125))
    agent = JsonAgent(weather, model=ScriptedModel(reply), limits=Limits(tokens=5_000, seconds=60))
    result = agent.run("?")
    data = result.as_dict()
    html = result.to_html()
    assert data["started"].replace("T", " ").replace("+00:00", " UTC") in html
    assert data["limits"] == {"steps": 50, "tokens": 5_000, "seconds": 60}
    assert "steps 50, tokens 5,000, seconds 60" in html
    assert f"agentkit {data['versions']['agentkit']}" in html
    (turn,) = re.findall(r'<details open class="turn[^>]*><summary>(.*?)</summary>', html)
    assert "1,200 tokens in, 7 out · $0.0125" in turn


def test_bars_are_not_stops_of_the_tab_key(result):
    html = result.to_html()
    bars = re.findall(r'<a class="bar[^>]*>', html)
    assert len(bars) > 60
    assert all('tabindex="-1"' in bar for bar in bars)


def test_two_runs_are_compared(result):
    other = JsonAgent(
        [weather, population],
        model=ScriptedModel(call("population", city="Oslo 0"), call("weather", city="Paris"), answer("It is cold.")),
    ).run("?")
    html = result.to_html(compare=other)
    assert html == result.to_html(compare=other.as_dict())
    assert "It is cold." in html
    assert "It is <strong>warm</strong>." in html
    for label in ("the same calls and results", "different", "only in the first"):
        assert label in html
    assert "False" not in html
    assert "only in the second" in other.to_html(compare=result)
