"""The documentation, the examples, the notebooks and the bundled tools use public modules only."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import jupytext
import pytest
from snippets import blocks
from sources import each_path

from agentkit import JsonAgent, JsonTool, Limits
from agentkit.tools.settings import ToolSettings

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "agentkit", "agentkit.events", "agentkit.policies", "agentkit.models", "agentkit.testing", "agentkit.testing.server",
    "agentkit.acp", "agentkit.dbos", "agentkit.evals", "agentkit.extend", "agentkit.http", "agentkit.journal", "agentkit.mcp", "agentkit.secrets",
    "agentkit.telemetry", "agentkit.tools", "agentkit.web",
}  # fmt: skip
KEYWORDS = {"agentkit.tools.settings.ToolSettings"}
"""Types that document the keyword arguments of a public name, and are not imported by users."""
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "tools" / "agentkit_tools").glob("*.py"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.py"))


def sources(path):
    """Return the Python sources of a document, a notebook or a program."""
    if path.suffix == ".md":
        return [block.body for block in blocks(path) if block.language == "python"]
    if path in NOTEBOOKS:  # without the magics, which are not Python
        cells = [cell.source for cell in jupytext.read(path).cells if cell.cell_type == "code"]
        return [re.sub(r"^%.*$", "", source, flags=re.MULTILINE) for source in cells if not source.startswith("%%")]
    return [path.read_text()]


def imported_modules(source):
    """Yield the modules of agentkit that a source imports from."""
    tree = compile(source, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@each_path([*DOCUMENTS, *PROGRAMS, *NOTEBOOKS])
def test_nothing_deeper_than_the_public_modules_is_imported(path):
    modules = {module for source in sources(path) for module in imported_modules(source)}
    assert {module for module in modules if module.split(".")[0] == "agentkit"} <= PUBLIC


def shown_in(path):
    """Return the names that a page of the reference shows."""
    return re.findall(r"^::: ([\w.]+)$", path.read_text(), re.MULTILINE)


@each_path([path for path in DOCUMENTS if shown_in(path)])
def test_the_reference_names_things_by_their_public_modules(path):
    for name in shown_in(path):
        assert name.rpartition(".")[0] in PUBLIC or name in KEYWORDS, name


def test_nothing_installs_agentkit_from_the_package_index():
    """The name on the public index belongs to another project."""
    install = re.compile(r"""(pip install|uv add|uv pip install) (-\S+ )*["']?agentkit\b""")
    texts = [
        *DOCUMENTS,
        *NOTEBOOKS,
        *(
            path
            for folder in ("agentkit", "tools", "examples", "benchmarks", "notebooks")
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".md", ".toml", ".ipynb")
        ),
    ]
    assert not [path for path in texts if install.search(path.read_text())]


def test_the_reference_shows_or_names_all_names_of_the_public_modules():
    text = "".join(path.read_text() for path in DOCUMENTS if "reference" in path.parts)
    for module in ("events", "policies", "models", "testing", "journal", "tools", "http"):
        names = import_module(f"agentkit.{module}").__all__
        shown = {name for name in names if re.search(rf"^::: agentkit\.\w+\.{name}$|`{name}`", text, re.MULTILINE)}
        assert not set(names) - shown, module


def _list_options(function):
    """Return the names of the keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def _given_keywords(*functions):
    """Return the keywords of all calls of these functions in the examples of the documentation."""
    found = set()
    for path in DOCUMENTS:
        for source in sources(path):
            tree = compile(source, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in functions:
                    found |= {keyword.arg for keyword in node.keywords}
    return found


@pytest.mark.parametrize(
    ("functions", "names"),
    [
        (("JsonAgent",), _list_options(JsonAgent)),
        (("tool", "JsonTool"), [*_list_options(JsonTool), *ToolSettings.__annotations__]),
        (("Limits",), _list_options(Limits)),
    ],
    ids=["JsonAgent", "tool", "Limits"],
)
def test_each_option_has_an_example(functions, names):
    assert set(names) - _given_keywords(*functions) == set()
