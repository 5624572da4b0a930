"""The house rules: who may import whom, how long things may be, what is public, what an import loads."""

import ast
import re
import subprocess
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import NamedTuple, get_origin

import pytest
from sources import BUNDLED, PACKAGE, ROOT, TESTS, each_path, nodes_of

import agentkit
from agentkit import JsonAgent, JsonTool, RunError
from agentkit.core.flow import Event, around
from agentkit.testing import ScriptedModel, call

FILES = sorted([*PACKAGE.rglob("*.py"), *BUNDLED.rglob("*.py")])
PROGRAMS = (ROOT / "benchmarks", ROOT / "examples")

FLOORS = [
    ["core"],
    ["schemas"],
    ["tools"],
    ["engine"],
    ["policies", "models", "views"],
    ["sessions"],
    ["extensions"],
    ["agents", "testing"],
    ["evals"],
    ["acp", "dbos", "mcp", "telemetry", "web"],
    ["cli"],
]
"""A module imports from the floors below its room, and from its own room; the rooms of one floor do not know each other."""
DOORS = set(FLOORS[-2])
"""Optional integrations: each has a third-party library of its own, an extra, and is imported lazily."""
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
FACE = {"__init__", "__main__", "events", "extend", "http", "journal", "secrets", "pytest_plugin"}
"""The modules beside the rooms: they hand names on, and no room imports them."""
NAMES_ALONE = DOORS | {"cli", "evals"}
OPEN_TO_DOORS = {"events", "extend", "evals", *agentkit.__all__}
"""What a door and the command line import beside their own modules: the public names, so that anyone can write one."""
NAMES_BUNDLED_TOOLS = {"cli/targets.py"}
"""The files that may name `agentkit_tools`, which imports agentkit; the command line has its tools as a default."""
LAZY = {
    "litellm",
    "jsonref",
    "safe_validator",
    "schemas.safe_validator",
    "jsonschema",
    "markdown_it",
    "uvicorn",
    "ddgs",
    "pypdf",
    "trafilatura",
    "lxml",  # which trafilatura needs
    "regex",
    "duckdb",
    "openpyxl",
    "bashkit",
    "requests",
    "urllib3",
    "certifi",
    "xllamacpp",
    "numpy",
    "safetensors",
    "tokenizers",
    "openapi.tools",
    "models.litellm.batches",
    "models.litellm.model",
    "policies.evidence",
}
"""What may be imported inside a function: litellm, what is slow to import, and optional extras."""


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Module(NamedTuple):
    """What the rules ask about a file of the package.

    Attributes:
        imports: The agentkit modules that it imports, by name or by a string given to `import_module`, each with its room.
        named: What it imports as (module, name), and what its strings may name ("agentkit.views.html:tool_view").
        bundled: What leads to `agentkit_tools`.
        is_face: Whether it is the face of a package, which hands names on and does not use them.
    """

    imports: frozenset[tuple[str, str]]
    named: frozenset[tuple[str, str]]
    bundled: tuple[str, ...]
    is_face: bool


def called_name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


@cache
def read_module(path: Path) -> Module:
    package = ["agentkit", *path.relative_to(PACKAGE).parts[:-1]]
    nodes = nodes_of(path)
    imports = set()
    named = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            named |= {(whole, alias.name) for alias in node.names}
            if whole.split(".")[0] == "agentkit":
                names = (
                    [f"{whole}.{alias.name}" for alias in node.names]
                    if whole == "agentkit" or node.module is None
                    else [whole]
                )
                imports |= {(name.split(".")[1], name) for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.add((node.value.partition(":")[0], ""))
        elif isinstance(node, ast.Call) and node.args and "import_module" in called_name(node):
            whole = getattr(node.args[0], "value", "")
            if isinstance(whole, str) and whole.startswith("agentkit."):
                imports.add((whole.split(".")[1], whole))
    defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in nodes[0].body)
    is_face = path.name == "__init__.py" and not defines
    return Module(frozenset(imports), frozenset(named), tuple(bundled_tools_in(nodes)), is_face)


@each_path([path for path in FILES if PACKAGE in path.parents])
def test_a_module_imports_only_from_below(path):
    room = module_of(path)
    if room in FACE:
        return
    assert room in FLOOR_OF, f"{room} has no place in the house: give it one in FLOORS"
    for imported, whole in sorted(read_module(path).imports):
        if imported == room:
            continue
        if room in NAMES_ALONE:
            assert imported in OPEN_TO_DOORS, (
                f"{path.name} imports {whole}: it imports agentkit, agentkit.extend or agentkit.events"
            )
            continue
        assert imported in FLOOR_OF, f"{path.name} imports {whole}: a room imports from rooms, not from the public face"
        assert FLOOR_OF[imported] < FLOOR_OF[room], f"{path.name} imports {whole}, which does not lie below {room}"


def bundled_tools_in(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the imports and the strings of a source that lead to `agentkit_tools`."""
    places = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            places.append(node.module or "")
        elif isinstance(node, ast.Import):
            places += [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            places.append(node.value)
    return [place for place in places if re.match(r"agentkit_tools(?![^.:])", place)]


def test_only_the_command_line_names_the_bundled_tools():
    """They import agentkit, so an import of them from agentkit is a circle."""
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if read_module(path).bundled}
    assert found == NAMES_BUNDLED_TOOLS


@pytest.mark.parametrize(
    "source",
    [
        "import agentkit_tools",
        "import os, agentkit_tools.web",
        "def f():\n    from agentkit_tools import settings",
        "from agentkit_tools.exchange import send_request",
        "import_module('agentkit_tools.web')",
        "find('agentkit_tools:ALL_TOOLS')",
    ],
)
def test_an_import_of_the_bundled_tools_is_recognised(source):
    assert bundled_tools_in(ast.walk(ast.parse(source)))


def test_the_package_holds_the_public_face_and_the_rooms_alone():
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert modules == FACE
    assert set(FLOOR_OF) - DOORS <= rooms <= set(FLOOR_OF)


ALONE = {
    "testing/wires/anthropic.py": "a provider's wire",
    "testing/wires/gemini.py": "a provider's wire",
    "testing/wires/ollama.py": "a provider's wire",
    "testing/wires/openai.py": "a provider's wire",
    "testing/wires/responses.py": "a provider's wire",
    "tools/isolation/child.py": "a script, loaded by its path in a process without agentkit",
    "tools/isolation/supervisor.py": "a script, loaded by its path in a process without agentkit",
    "web/api.py": "the lazy import of an optional library",
}
"""The short modules that only a module of their own folder imports, each with its reason."""
PART_LINES = 150
"""A module with fewer lines is a part of its only importer."""


def module_name(path: Path) -> str:
    parts = ("agentkit", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_named_in(path: Path, modules: set[str]) -> set[str]:
    """Return the modules that a file imports, or names in a string: "agentkit.views.html:tool_view", say."""
    named = {f"{whole}.{name}" if f"{whole}.{name}" in modules else whole for whole, name in read_module(path).named}
    return named & modules - {module_name(path)}


def test_a_short_module_is_not_a_part_of_its_only_importer():
    paths = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    importers: dict[str, list[Path]] = {name: [] for name in paths}
    for path in [*paths.values(), PACKAGE / "extend.pyi"]:  # what doors use has more importers
        for name in modules_named_in(path, set(paths)):
            importers[name].append(path)
    parts = {
        paths[name].relative_to(PACKAGE).as_posix(): found[0].name
        for name, found in importers.items()
        if len(found) == 1
        and found[0].parent == paths[name].parent != PACKAGE
        and paths[name].name != "__init__.py"
        and not read_module(found[0]).is_face
    }
    assert len(parts) > len(ALONE), "the imports are read"
    short = {part for part in parts if len((PACKAGE / part).read_text().splitlines()) < PART_LINES}
    assert not short - set(ALONE), (
        f"put each into its only importer: { {part: parts[part] for part in short - set(ALONE)} }"
    )
    assert not set(ALONE) - short, "these need no exception"


EXTENSION_LINES = 250
CODE_LINES = 420


@each_path(sorted((PACKAGE / "extensions").glob("*.py")))
def test_an_extension_is_one_short_file(path):
    most = CODE_LINES if path.name == "code.py" else EXTENSION_LINES
    assert len(path.read_text().splitlines()) <= most, "move what is no policy, tool or setting to its own subject"


def splits_a_value(node: ast.AST) -> bool:
    """Return whether a statement gives several targets a value each, though none of the values needs an older one."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple | ast.List):
        return False
    targets = node.targets[0]
    if not isinstance(targets, ast.Tuple | ast.List) or any(isinstance(each, ast.Starred) for each in targets.elts):
        return False
    written: set[str] = set()
    for target, value in zip(targets.elts, node.value.elts, strict=False):
        if written & {ast.unparse(part) for part in ast.walk(value) if isinstance(part, ast.expr)}:
            return False  # a swap, or a value that is made of the older one
        written.add(ast.unparse(target))
    return True


@pytest.mark.parametrize(
    "statement", ["a, b = 1, 2", "self.a, self.b = a, b", "[a, b] = [f(), g()]", "(a, b) = (1, a.b)"]
)
def test_several_assignments_in_one_line_are_recognised(statement):
    assert splits_a_value(ast.parse(statement).body[0]) == ("a.b" not in statement)


@pytest.mark.parametrize("statement", ["a, b = b, a", "a, b = f()", "a = b, c", "x.a, b = 1, g(x.a)", "a, *b = [c, d]"])
def test_a_swap_is_one_assignment(statement):
    assert not splits_a_value(ast.parse(statement).body[0])


def is_parameters(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize"


def ends_of_tables(module: ast.Module) -> set[int]:
    """Return the last lines of a module's tables: values of the module, and parameters of tests."""
    ends = set()
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            ends.add(node.end_lineno)
        for inner in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            ends |= {each.end_lineno for each in getattr(inner, "decorator_list", []) if is_parameters(each)}
    return ends


@each_path([*FILES, *(path for folder in (TESTS, *PROGRAMS) for path in sorted(folder.rglob("*.py")))])
def test_a_line_has_one_assignment_and_only_tables_are_exempt_from_the_formatter(path):
    nodes = nodes_of(path)
    found = [node.lineno for node in nodes if splits_a_value(node)]
    assert not found, f"lines {found}: write one assignment a line"
    lines = path.read_text().splitlines()
    exempt = {number for number, line in enumerate(lines, 1) if re.search(r"# (fmt|yapf): ?(skip|off)$", line)}
    if exempt:
        others = sorted(exempt - ends_of_tables(nodes[0]))
        assert not others, f"lines {others}: let the formatter write them"


@pytest.mark.parametrize("room", [room for room in FLOOR_OF if (PACKAGE / room).is_dir()])
def test_a_package_documents_its_content(room):
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    assert len(text.split()) >= 8, (
        f"agentkit/{room}/__init__.py: say in a sentence or two what lives there and what may not"
    )


def test_modules_of_one_folder_form_no_circle():
    edges = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(["agentkit", *path.relative_to(PACKAGE).with_suffix("").parts])
        edges[name] = {whole for _, whole in read_module(path).imports} if name != "agentkit.__init__" else set()

    edges = {
        name: {target if target in edges else f"{target}.__init__" for target in targets}
        for name, targets in edges.items()
    }
    TopologicalSorter(edges).prepare()  # raises CycleError, which names the modules


SESSION_ARROWS = 54
SESSION_LEVELS = 8


def test_the_modules_of_sessions_have_few_arrows_on_few_levels():
    paths = {module_name(path): path for path in (PACKAGE / "sessions").rglob("*.py") if not read_module(path).is_face}
    below = {
        name: {whole for _, whole in read_module(path).imports} & {*paths} - {name} for name, path in paths.items()
    }
    sorter = TopologicalSorter(below)
    sorter.prepare()
    levels = 0
    while sorter.is_active():
        sorter.done(*sorter.get_ready())
        levels += 1
    assert 0 < sum(map(len, below.values())) <= SESSION_ARROWS
    assert 0 < levels <= SESSION_LEVELS, "the longest chain of imports"


MAX_CONCEPTS = 6


def test_the_architecture_page_lists_few_concepts():
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text()
    table = page.partition("\n## Concepts\n")[2].partition("\n## ")[0]
    assert 0 < len(re.findall(r"^\| (?!Concept )", table, re.MULTILINE)) <= MAX_CONCEPTS


INDENTED_IMPORT = re.compile(r"^[ \t]+(import|from)\b|TYPE_CHECKING", re.MULTILINE)


@each_path(path for path in FILES if INDENTED_IMPORT.search(path.read_text()))
def test_imports_stand_at_the_top(path):
    nodes = nodes_of(path)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) and any(
            function.lineno < node.lineno <= function.end_lineno for function in functions
        ):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= LAZY
            else:
                assert (node.module or "").split(".")[0] in LAZY or node.module in LAZY
    guards = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    assert not guards, "a module imports what it names; the names of a public module stand in its stub"


SQL = re.compile(
    r"\b(SELECT .* FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX)|ALTER TABLE|DROP TABLE)\b",
    re.DOTALL,
)
NAMES_TABLES = {
    "sessions/journal/sqlite.py": "the tables of a journal, and the default store",
    "sessions/journal/postgres.py": "the store on a server",
    "dbos/queue_tables.py": "the tables of the queue and of its workers",
}
"""The files that have SQL, each with its reason."""


def test_sql_stands_in_the_two_stores_and_in_the_file_of_the_queue():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        texts = [
            node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        if any(map(SQL.search, texts)):
            found.add(str(path.relative_to(PACKAGE)))
    assert found == {*NAMES_TABLES}


def test_only_one_file_imports_litellm():
    pattern = re.compile(r"^\s*(import|from) litellm\b", re.MULTILINE)
    assert [path.name for path in FILES if pattern.search(path.read_text())] == ["importing.py"]


PUBLIC = [
    "agentkit",
    "agentkit.events",
    "agentkit.extend",
    "agentkit.journal",
    "agentkit.policies",
    "agentkit.models",
    "agentkit.tools",
    "agentkit.evals",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_are_there_and_documented(name):
    module = import_module(name)
    stub = Path(module.__file__).with_suffix(".pyi").read_text().splitlines()
    names = [re.fullmatch(r"from (\.+[\w.]*) import (\w+) as \2", line) for line in stub]
    assert all(names), "a stub holds names alone, one a line"
    assert sorted(name[2] for name in names if name[1] != ".") == module.__all__ == dir(module)
    for public in module.__all__:
        value = getattr(module, public)
        assert get_origin(value) or value.__doc__, public
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        module.Nothing  # noqa: B018


def test_every_event_is_public():
    for module in walk_packages(agentkit.__path__, "agentkit."):
        if not re.search(r"\.(cli|__main__|pytest_plugin)\b", module.name):
            import_module(module.name)
    below = [Event]
    for kind in below:
        below.extend(kind.__subclasses__())
    own = {kind.__name__ for kind in below if kind.__module__.startswith("agentkit.")}
    assert len(own) > 20
    assert own <= set(import_module("agentkit.events").__all__)


def test_a_public_module_needs_no_import_of_its_own():
    names = (
        "acp",
        "dbos",
        "evals",
        "events",
        "extend",
        "http",
        "journal",
        "mcp",
        "models",
        "secrets",
        "telemetry",
        "testing",
        "tools",
        "web",
    )
    loaded_by(f"import agentkit; {'; '.join(f'agentkit.{name}' for name in names)}")


def test_no_module_hides_a_public_name():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert not modules & set(agentkit.__all__)


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


HEAVY = {"litellm", "openai", "httpx", "requests", "ddgs", "rich", "jsonschema", "aiohttp"}


def test_importing_agentkit_is_light():
    assert not loaded_by("import agentkit") & (HEAVY | {"pydantic", "docstring_parser", "click", "loguru"})


def test_making_an_agent_and_running_it_offline_loads_no_litellm():
    code = (
        "from agentkit import JsonAgent\nfrom agentkit_tools import ALL_TOOLS, calculate\n"
        "JsonAgent(ALL_TOOLS, model='groq/llama-3.1-8b-instant')\n"
        "JsonAgent([calculate])('Calculate 6 * 7')"
    )
    assert not loaded_by(code) & HEAVY


def test_the_garbage_collector_rests_while_the_parts_of_an_agent_load():
    """Modules make many objects and no garbage: 146 collections took a tenth of the CPU of a first answer."""
    code = (
        "import gc\ncollections = []\ngc.callbacks.append(lambda phase, _: collections.append(phase))\n"
        "from agentkit import JsonAgent\nassert gc.isenabled()\nprint('collections', len(collections) // 2)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 20


@pytest.mark.parametrize(("own", "is_frozen"), [(0, True), (2_000_000, False)])
def test_the_parts_of_an_agent_are_looked_through_no_more_where_they_are_most_of_all(own: int, is_frozen: bool):
    """The first collection after the import took a twelfth of the CPU of a first answer."""
    code = (
        f"import gc\nheld = [[] for _ in range({own})]\n"
        "from agentkit import JsonAgent\nprint('frozen', gc.get_freeze_count() > 50_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == str(is_frozen)


def test_a_first_answer_of_the_offline_model_loads_what_it_needs():
    code = (
        "from agentkit import JsonAgent\ndef add(a: int, b: int) -> int:\n    'Adds two numbers.'\n    return a + b\n"
        "assert JsonAgent(add)('Add 2 and 3') == '5'\n"
        "loaded = {name for name in sys.modules if name.startswith('agentkit.')}\n"
        "unused = ('agentkit.models.litellm.model', 'agentkit.policies.evidence', 'agentkit.views.html', "
        "'agentkit.views.markdown')\n"
        "assert not [name for name in loaded if name.startswith(unused)], loaded\n"
        "print('loaded', len(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) <= 142


def test_nothing_names_a_machine_or_a_registry():
    if not (ROOT / ".git").exists():
        pytest.skip("the files of the project are listed by git")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    own = Path(__file__).relative_to(ROOT).as_posix()
    pattern = re.compile(r"/(root|home|Users)/\w|file:///(?!etc/)\w|index-url|@ https?://")
    for name in listed:
        path = ROOT / name
        if name != own and path.is_file() and path.suffix in {".py", ".md", ".toml", ".txt", ".ipynb", ""}:
            assert not pattern.search(path.read_text()), name


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_the_traceback_of_a_tool_is_short(world, kind):
    """What a developer reads when a tool raises: the call, the runner, the interpreter, the call of the tool."""

    def plain() -> None:
        """Fails."""
        raise ValueError("from the tool")

    async def coroutine() -> None:
        """Fails."""
        raise ValueError("from the tool")

    function = {"plain": plain, "coroutine": coroutine}[kind]
    agent = JsonAgent(JsonTool(function, on_error="raise"), model=ScriptedModel(call(kind)))
    with pytest.raises(ValueError, match="from the tool") as caught:
        world.run(agent, "?")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == kind
    assert len(frames) <= (15 if world.name == "sync" else 20)


def test_a_run_error_shows_where_it_was_raised(world):
    def refuse(effect):
        raise RunError("no more today")
        yield

    agent = JsonAgent(print, model=ScriptedModel("?"), policies=[around(refuse)])
    with pytest.raises(RunError) as caught:
        world.run(agent, "?")
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "refuse"


def test_no_test_imports_from_a_conftest():
    pattern = re.compile(r"^\s*(?:from|import) conftest\b", re.MULTILINE)
    assert not [path for path in (ROOT / "tests").rglob("*.py") if pattern.search(path.read_text())]


def test_each_test_file_has_a_name_of_its_own():
    """Pytest imports test files by their names alone; two of one name cannot be collected in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
