"""The colours of the pages can be read, also inside a notebook whose own style says otherwise."""

import re
import shutil
import subprocess
from itertools import product

import pytest
from notebook_views import html_of

from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call
from agentkit.views.html.markup import load_style

MIN_CONTRAST = 4.5
"""For text, by WCAG 2.2, success criterion 1.4.3 (https://www.w3.org/TR/WCAG22/#contrast-minimum)."""
COLOURS = {name: pair.split(",") for name, pair in re.findall(r"--(\w+):light-dark\(([^)]*)\)", load_style())}
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

JUPYTER = """
.jp-RenderedHTMLCommon a:link{color:#0f62fe}
.jp-RenderedHTMLCommon :not(pre)>code{background-color:#424242;padding:1px 5px}
.jp-RenderedHTMLCommon table{font-size:12px;table-layout:fixed;margin-left:auto;border:none}
.jp-RenderedHTMLCommon td,.jp-RenderedHTMLCommon th,.jp-RenderedHTMLCommon tr{vertical-align:middle;padding:.5em;border:none}
.jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) td,.jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) tr{text-align:right}
.jp-RenderedHTMLCommon tbody tr:nth-child(odd){background:#111}
.jp-RenderedHTMLCommon ul{padding-left:2em}
"""
"""Rules of JupyterLab 4 for the output of a cell (packages/rendermime/style/base.css) that reach into it."""


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "back"),
    [*product(("ink", "dim", "model", "bad", "wait"), ("back", "soft")), *product(["on"], ("model", "tool", "bad"))],
)
def test_texts_stand_out_from_their_background(text, back, scheme):
    light, dark = sorted((luminance(COLOURS[name][scheme]) for name in (text, back)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= MIN_CONTRAST


def test_every_rule_has_the_weight_of_an_id():
    outer = re.sub(r"{(?:[^{}]|{[^{}]*})*}", "{}", load_style()).split("{}")
    assert [rule for rule in outer if rule and ":not(#_)" not in rule] == [
        ".agentkit",
        "[data-jp-theme-light=true] .agentkit,.vscode-light .agentkit,[theme=light] .agentkit",
        "[data-jp-theme-light=false] .agentkit,.vscode-dark .agentkit,[theme=dark] .agentkit",
    ]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("is_light", [True, False])
def test_a_browser_shows_the_page_in_a_notebook_as_it_is_meant(tmp_path, is_light):
    def weather(city: str) -> str:
        """Tells the weather."""
        return "warm"

    agent = JsonAgent(weather, model=ScriptedModel(call("weather", city="Rome"), answer("warm")))
    cells = f"{html_of(agent.run('?'))}{html_of(agent.tools['weather'])}"
    read = (
        "let style = (name, what) => getComputedStyle(document.querySelector('.agentkit ' + name))[what];"
        "document.body.dataset.found = [style('a.bar.tool', 'color'), style('a.bar.tool', 'backgroundColor'),"
        "style('td', 'textAlign'), style('tr:nth-child(1)', 'backgroundColor'), style('.call code', 'backgroundColor'),"
        "style('ul', 'paddingLeft')].join('; ')"
    )
    theme = f'data-jp-theme-light="{str(is_light).lower()}"'
    page = tmp_path / "page.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><style>{JUPYTER}</style><body {theme}>"
        f'<div class="jp-RenderedHTMLCommon jp-RenderedHTML">{cells}</div><script>{read}</script></body>'
    )
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={tmp_path / 'p'}",
    ]
    dom = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=True).stdout
    (found,) = re.findall(r'data-found="([^"]*)"', dom)
    label, bar = ("rgb(255, 255, 255)", "rgb(44, 125, 83)") if is_light else ("rgb(18, 22, 26)", "rgb(93, 187, 139)")
    clear = "rgba(0, 0, 0, 0)"
    assert found.split("; ") == [label, bar, "left", clear, clear, "0px"]
