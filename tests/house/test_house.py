"""The house rules: who may import whom, how long things may be, what is public, what an import loads."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import agentkit

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agentkit"
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tools" / "agentkit_tools").rglob("*.py")])

FLOORS = [
    ["core"], ["schemas"], ["tools"], ["engine"], ["policies", "models", "views"], ["sessions"],
    ["agents", "testing", "journal", "events", "secrets"], ["cli", "pytest_plugin"],
]  # fmt: skip
"""A module imports only from floors below its own, or from modules listed before it on the same floor."""
ORDER = [name for floor in FLOORS for name in floor]
LAZY = {"litellm", "jsonref", "schemas.raw", "schema_errors", "ddgs", "requests", "urllib3", "certifi"}
"""What may be imported inside a function: litellm, what is slow to import, and optional extras."""


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def own_imports(path: Path):
    """The agentkit modules that a file imports, as (top module, whole name)."""
    package = ["agentkit", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            if whole.split(".")[0] == "agentkit":
                names = [f"{whole}.{alias.name}" for alias in node.names] if whole == "agentkit" else [whole]
                yield from ((name.split(".")[1], name) for name in names)


@pytest.mark.parametrize("path", [path for path in FILES if PACKAGE in path.parents], ids=str)
def test_a_module_imports_only_from_below(path):
    module = module_of(path)
    if module in ("__init__", "cli"):  # the one hands names on when they are asked for, the other asks it
        return
    assert module in ORDER, f"{module} has no place in the house: give it one in FLOORS"
    for imported, whole in own_imports(path):
        if imported != module:
            assert ORDER.index(imported) < ORDER.index(module), f"{path.name} imports {whole} from above"


def test_modules_of_one_folder_form_no_circle():
    edges = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(["agentkit", *path.relative_to(PACKAGE).with_suffix("").parts])
        edges[name] = {whole for _, whole in own_imports(path)} if name != "agentkit.__init__" else set()

    edges = {
        name: {target if target in edges else f"{target}.__init__" for target in targets}
        for name, targets in edges.items()
    }
    TopologicalSorter(edges).prepare()  # raises CycleError, which names the modules


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_and_functions_stay_short(path):
    text = path.read_text()
    assert text.count("\n") <= 262, "something in it wants to be a file of its own"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno <= 45, f"{node.name} is too long"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_stand_at_the_top(path):
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    assert {alias.name.split(".")[0] for alias in node.names} <= LAZY
                elif isinstance(node, ast.ImportFrom):
                    assert (node.module or "").split(".")[0] in LAZY or node.module in LAZY
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    assert not guards or path == PACKAGE / "__init__.py"


def test_only_one_file_imports_litellm():
    pattern = re.compile(r"^\s*(import|from) litellm\b", re.MULTILINE)
    assert [path.name for path in FILES if pattern.search(path.read_text())] == ["model.py"]


def test_the_public_names_are_there_and_documented():
    for name in agentkit.__all__:
        assert getattr(agentkit, name).__doc__, name
    typed = re.findall(r"import (\w+) as \1", (PACKAGE / "__init__.py").read_text())
    assert sorted(typed) == agentkit.__all__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        agentkit.Nothing  # noqa: B018
    assert "JsonAgent" in dir(agentkit)


def test_no_module_hides_a_public_name():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert not modules & set(agentkit.__all__)


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('\\n'.join(sys.modules))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name.partition(".")[0] for name in done.stdout.split()}


HEAVY = {"litellm", "openai", "httpx", "requests", "ddgs", "rich", "jsonref", "jsonschema", "aiohttp"}


def test_importing_agentkit_is_light():
    assert not loaded_by("import agentkit") & (HEAVY | {"pydantic", "docstring_parser", "click", "loguru"})


def test_making_an_agent_and_running_it_offline_loads_no_litellm():
    code = (
        "from agentkit import JsonAgent\nfrom agentkit_tools import ALL_TOOLS, calculate\n"
        "JsonAgent(ALL_TOOLS, model='groq/llama-3.1-8b-instant')\n"
        "JsonAgent([calculate])('Calculate 6 * 7')"
    )
    assert not loaded_by(code) & HEAVY


def test_nothing_names_a_machine_or_a_registry():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    own = Path(__file__).relative_to(ROOT).as_posix()
    pattern = re.compile(r"/(root|home|Users)/\w|file:///(?!etc/)\w|index-url|@ https?://")
    for name in listed:
        path = ROOT / name
        if name != own and path.is_file() and path.suffix in {".py", ".md", ".toml", ".txt", ".ipynb", ""}:
            assert not pattern.search(path.read_text()), name
