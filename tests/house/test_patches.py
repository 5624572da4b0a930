"""No test replaces a name of this project: what a test varies is an argument, a clock, a registry or a settings value."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sources import TESTS, each_path, nodes_of

PATCHERS = {"setattr", "setitem", "delattr", "delitem", "patch", "object"}
"""The methods of `monkeypatch` and `mock` that replace a name, an attribute or an entry."""
PATCH = re.compile(rf"\.\s*({'|'.join(sorted(PATCHERS))})\s*\(")
ALLOWED = {
    "reliability/play.py": "the waits of an agent as users build it are those of its policies; each takes a fraction",
    "stores.py": "writes of journals that fail or in which a process dies; the wait for a lock that no user shortens",
}
"""The files that may replace names of this project, each with the reason."""


def find_patches(path: Path) -> Iterator[str]:
    """Yield the calls in a file of tests that replace something of agentkit or agentkit_tools."""
    nodes = nodes_of(path)
    own = {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in ("agentkit", "agentkit_tools")
    }
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in PATCHERS
            and node.args
        ):
            target = node.args[0]
            while isinstance(target, ast.Attribute):
                target = target.value
            is_own = isinstance(target, ast.Name) and target.id in own
            parts = [target.values[0]] if isinstance(target, ast.JoinedStr) else [target]
            texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if is_own or any(text.startswith(("agentkit.", "agentkit_tools.")) for text in texts):
                yield f"{path.name}:{node.lineno} {ast.unparse(node)[:80]}"


def may_patch(path: Path) -> bool:
    return path.relative_to(TESTS).as_posix() not in ALLOWED and bool(PATCH.search(path.read_text()))


@each_path(filter(may_patch, sorted(TESTS.rglob("*.py"))))
def test_no_test_replaces_a_name_of_the_project(path):
    assert not list(find_patches(path))


def test_the_exceptions_are_needed():
    for name in ALLOWED:
        assert list(find_patches(TESTS / name)), f"{name} replaces nothing: take it off the list"


def test_a_patch_is_recognised(tmp_path):
    lines = {
        'monkeypatch.setattr("agentkit.core.threads.time", clock)': True,
        "monkeypatch.setattr(masking, '_hidden', set())": True,
        "monkeypatch.setattr(agentkit.core.masking, '_hidden', set())": True,
        "monkeypatch.setattr(f'agentkit.agents.{name}', 1)": True,
        "monkeypatch.setattr(socket, 'connect', 1)": False,
        "monkeypatch.setenv('AGENTKIT_MODEL', 'x')": False,
    }
    for number, (line, is_patch) in enumerate(lines.items()):
        path = tmp_path / f"test_{number}.py"
        path.write_text(f"import socket\nimport agentkit\nfrom agentkit.core import masking\n{line}\n")
        assert bool(list(find_patches(path))) is is_patch, line
