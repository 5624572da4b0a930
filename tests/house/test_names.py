"""Names: a public name of a module occurs once, and no package hands on a name that one of its modules has."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from sources import PACKAGE, each_path

ONE_NAME = {
    "serve": ("a door", {"acp/agent.py", "mcp/server.py", "web/app.py"}),
    "check": (
        "a provider's rules",
        {f"testing/rules/{name}.py" for name in ("anthropic", "gemini", "openai", "responses")},
    ),
    "remember": (
        "a provider's rules",
        {f"testing/rules/{name}.py" for name in ("anthropic", "gemini", "openai", "responses")},
    ),
    "show": ("public: agentkit.journal.show, agentkit.log.show", {"sessions/journal/maintenance.py", "views/log.py"}),
    "hide": ("public: agentkit.secrets.hide, agentkit.log.hide", {"core/masking.py", "views/log.py"}),
}
"""The public names that several modules define, with the reason and the modules."""


def names_defined_in(source: str) -> dict[str, set[str]]:
    """Return the public names that a module defines by their kinds, without type variables of one letter."""
    found = {"class": set(), "function": set(), "constant": set()}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found["class"].add(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found["function"].add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not re.match(r"[A-Z] = TypeVar\(", ast.unparse(node)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found["constant"] |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    public = {kind: {name for name in names if not name.startswith("_")} for kind, names in found.items()}
    return {**public, "class": found["class"]}


@cache
def names_of(path: Path) -> dict[str, set[str]]:
    return names_defined_in(path.read_text())


@pytest.mark.parametrize("kind", ["class", "function", "constant"])
def test_a_public_name_is_defined_once(kind):
    places = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for name in names_of(path)[kind]:
            places[name].add(path.relative_to(PACKAGE).as_posix())
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    allowed = {name: found for name, (_, found) in ONE_NAME.items()} if kind == "function" else {}
    assert repeated == allowed, "one thing has one definition, and another thing another name"


def test_the_names_that_a_module_defines_are_found():
    source = (
        "LIMIT: int = 1\nA, B = 1, 2\n_own = 3\nT = TypeVar('T')\ndef f(): x = 1\nasync def g(): ...\nclass _C: ..."
    )
    found = names_defined_in(source)
    assert found == {"class": {"_C"}, "function": {"f", "g"}, "constant": {"LIMIT", "A", "B"}}


@each_path(sorted(PACKAGE.rglob("__init__.py")))
def test_no_package_hands_on_the_name_of_one_of_its_modules(path):
    package = str(path.parent.relative_to(PACKAGE))
    modules = {other.stem for other in path.parent.glob("*.py")} | {
        other.name for other in path.parent.iterdir() if other.is_dir()
    }
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names if node.module}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    if (stub := path.with_suffix(".pyi")).exists():  # names that load lazily
        names |= {line.split()[3] for line in stub.read_text().splitlines() if not line.startswith("from . import")}
    clash = names & modules
    assert not clash, f"{package}: {sorted(clash)} would be replaced by the module"
