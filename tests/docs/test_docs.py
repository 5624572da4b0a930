"""The documentation does what it says: its snippets run offline, its links lead somewhere, nothing public is left out."""

import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once
from snippets import run_document
from sources import each_path

import agentkit
from agentkit.core.flow import Event

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MAX_WORDS = 28
"""The style page asks for 25; a few sentences list names."""
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)\)")
_SHOWN = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def ids(path):
    return str(path.relative_to(DOCS))


@pytest.mark.parametrize("path", PAGES, ids=ids)
@pytest.mark.timeout(240)
def test_the_snippets_of_a_page_run(path, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)  # a page that sets it sets it for the process
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    try:
        run_document(path, lambda: "".join(capsys.readouterr()))
    finally:
        agentkit.log.hide()


def anchors(path):
    """What a link into a page may name: its headings, and what stands in the reference."""
    text = path.read_text()
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    slugs = [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]
    return {*slugs, *_SHOWN.findall(text)}


def links_of(path):
    return [*_LINK.finditer(_FENCED.sub("", path.read_text()))]


@each_path([path for path in PAGES if links_of(path)])
def test_the_links_inside_lead_somewhere(path):
    for link in links_of(path):
        target, _, anchor = link["target"].partition("#")
        if re.match(r"https?:", target):
            continue
        page = (path.parent / target).resolve() if target else path
        assert page.is_file(), link["target"]
        assert not anchor or anchor in anchors(page), link["target"]


def sentences(path):
    """Yield the sentences of a page, without code, tables, figures and headings."""
    text = re.sub(r"<(svg|figure).*?</\1>", "", _FENCED.sub("", path.read_text()), flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    for block in re.split(r"\n\s*\n|\n(?=(?:[-|]|\d+\.|#) )", text):
        if not block.lstrip().startswith(("|", "#", ":::", "<")):
            yield from re.split(r"(?<=[.:?!;])\s+", block.replace("\n", " "))


@each_path([*PAGES, ROOT / "README.md"])
def test_sentences_are_short(path):
    assert not [sentence for sentence in sentences(path) if len(re.findall(r"[\w'-]+", sentence)) > MAX_WORDS]


@each_path([*PAGES, ROOT / "README.md", ROOT / "benchmarks" / "README.md"])
def test_the_files_that_a_page_names_exist(path):
    text = _FENCED.sub("", path.read_text())
    named = {name for name in re.findall(r"`([\w./]+/[\w./]*)`", text) if re.search(r"/$|\.py$", name)}
    places = (ROOT, ROOT / "agentkit", ROOT / "agentkit" / "schemas", ROOT / "agentkit" / "models", path.parent)
    missing = {name for name in named if not any((place / name).exists() for place in places)}
    assert not missing - {"policies/x.py", "schemas/formats/x.py", "views/x.py"}


def test_every_page_stands_in_the_navigation():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    named = [page for section in settings["nav"] for pages in section.values() for page in pages]
    assert sorted(named) == sorted(map(ids, PAGES))


def test_the_reference_shows_all_that_is_public():
    shown = {name for path in PAGES for name in _SHOWN.findall(path.read_text())}
    missing = {f"agentkit.{name}" for name in agentkit.__all__} - shown
    assert not missing


def test_every_event_is_documented_and_shown():
    for module in walk_packages(agentkit.__path__, "agentkit."):
        if not re.search(r"\.(cli|__main__|pytest_plugin)\b", module.name):
            import_module(module.name)
    kinds = {kind.__name__ for kind in _below(Event) if kind.__module__.startswith("agentkit.")} - {"WarningEvent"}
    guide = set(re.findall(r"`(\w+)`", (DOCS / "guides/streaming.md").read_text()))
    shown = {name.rpartition(".")[2] for name in _SHOWN.findall((DOCS / "reference/events.md").read_text())}
    assert len(kinds) > 20
    assert kinds <= guide
    assert kinds <= shown


def _below(kind):
    return {below for direct in kind.__subclasses__() for below in {direct, *_below(direct)}}


@pytest.mark.parametrize("name", [name for path in PAGES for name in _SHOWN.findall(path.read_text())])
def test_each_object_of_the_reference_exists_and_has_a_docstring(name):
    found = import_module("agentkit")
    for part in name.split(".")[1:]:
        found = getattr(found, part) if hasattr(found, part) else import_module(f"{found.__name__}.{part}")
    assert inspect.getdoc(found), name
