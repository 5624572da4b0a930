"""Names: a class name occurs once, and no package hands on a name that one of its modules has."""

import ast
from collections import defaultdict
from pathlib import Path

from paths import each_path

PACKAGE = Path(__file__).parents[2] / "agentkit"


def test_a_class_name_occurs_once():
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert not repeated


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
