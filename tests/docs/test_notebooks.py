"""Each notebook has the cells of its text, and shows the output that running it gives today."""

import importlib.util
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from agentkit import ModelError
from agentkit.extend import fetch_model

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
SPECIFICATION = importlib.util.spec_from_file_location("refresh", FOLDER / "refresh.py")
refresh = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(refresh)

STARTUP = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from loopback_only import no_network
no_network()
sys.path.pop(0)
"""
CHANGING = {
    r"\x1b\[[\d;]*m": "",  # colours
    r"\d+(?:\.\d+)?(?:e-\d+)? ?(?:s|ms|seconds)\b": "TIME",
    r"(?<=seconds=)\d[\d.e-]*": "TIME",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?[\d.:+Z]*": "MOMENT",
    r" {2,}": "  ",  # columns are as wide as the times in them
    r"0x[0-9a-f]{6,}": "ADDRESS",
    r'(?<=id=")[a-z]{8}(?=")': "FENCE",
    r"127\.0\.0\.1:\d+": "127.0.0.1:PORT",
    r"(?:/[\w.@+-]+){2,}/(?=[\w.-]+\.py)": "PATH/",
}
"""Parts of an output that differ from run to run and from machine to machine."""


NEEDS = {"5_data": ("pandas", "matplotlib"), "8_local_model": ("xllamacpp",)}
"""The packages of notebooks that are executed with the heavier tests; they are skipped where one is missing."""
LOCAL_MODEL = "8_local_model"
"""The notebook with real weights, whose texts are those of the machine."""


def shown(cell):
    """Return the text output of a cell without the parts that may differ; rich views are tested elsewhere."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append((output.name, output.text))
        else:
            texts.append((output.output_type, output.get("data", {}).get("text/plain", output.get("evalue", ""))))
    joined = [
        (kind, "".join(text for one, text in texts if one == kind)) for kind in dict.fromkeys(k for k, _ in texts)
    ]
    for pattern, stands_for in CHANGING.items():
        joined = [(kind, re.sub(pattern, stands_for, text)) for kind, text in joined]
    return joined


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks_and_each_has_its_text():
    assert len(refresh.TEXTS) >= 8
    assert [path.with_suffix(".ipynb") for path in refresh.TEXTS] == sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", refresh.TEXTS, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_text(path):
    text = jupytext.read(path)
    notebook = nbformat.read(path.with_suffix(".ipynb"), 4)
    nbformat.validate(notebook)
    hint = "run: python notebooks/refresh.py"
    assert [(c.cell_type, c.source) for c in text.cells] == [(c.cell_type, c.source) for c in notebook.cells], hint


def executed(path):
    """Return a notebook as a parameter, with the marks of the tests that execute it."""
    marks = [pytest.mark.integration] * (path.stem in NEEDS)
    marks += [pytest.mark.xdist_group("local"), pytest.mark.timeout(600)] * (path.stem == LOCAL_MODEL)
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.fixture
def weights(monkeypatch):
    """The cache with the weights of the heavier tests; the test is skipped if they cannot be fetched."""
    cache = str(ROOT / ".cache" / "integration")
    monkeypatch.setenv("AGENTKIT_CACHE", cache)
    try:
        fetch_model("smollm2")
    except ModelError as error:
        pytest.skip(str(error))
    return cache


@pytest.mark.parametrize("path", [executed(path) for path in refresh.TEXTS])
def test_a_notebook_runs_offline_and_shows_what_it_showed(path, tmp_path, request):
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    is_local = path.stem == LOCAL_MODEL
    cache = {"AGENTKIT_CACHE": request.getfixturevalue("weights")} if is_local else {}
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text(STARTUP)
    stored = nbformat.read(path.with_suffix(".ipynb"), 4)
    fresh = refresh.execute(path, IPYTHONDIR=str(tmp_path), **cache)
    for old, new in zip(code(stored), code(fresh), strict=True):
        if is_local:
            assert [kind for kind, _ in shown(old)] == [kind for kind, _ in shown(new)]
            continue
        assert shown(old) == shown(new), f"stale: run python notebooks/refresh.py\n{new.source}"


@pytest.mark.parametrize("path", refresh.TEXTS, ids=lambda path: path.stem)
def test_a_notebook_is_worth_reading(path):
    notebook = nbformat.read(path.with_suffix(".ipynb"), 4)
    assert sum(cell.cell_type == "markdown" for cell in notebook.cells) >= 6
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert len(outputs) >= 6
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert path.with_suffix(".ipynb").stat().st_size < 400_000


def test_a_stale_output_is_noticed_and_a_new_time_is_not():
    def cell(text):
        return nbformat.v4.new_code_cell("f()", outputs=[nbformat.v4.new_output("stream", name="stdout", text=text)])

    assert shown(cell("42 in 0.31 s at /opt/ada/x.py")) == shown(cell("42 in 1.7 s at /srv/runs/x.py"))
    assert shown(cell("42 in 0.31 s")) != shown(cell("43 in 0.31 s"))


def test_a_top_level_await_and_a_blocking_call_are_both_shown():
    texts = "".join(path.read_text() for path in refresh.TEXTS)
    assert re.search(r"^\w+ = await \w+\.arun\(", texts, re.MULTILINE)
    assert re.search(r"^\w+ = \w+\.run\(", texts, re.MULTILINE)
