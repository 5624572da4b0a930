"""Documents that are run: the Python snippets and the commands of a Markdown file, and what it says that they print.

- A `python` block is run, all of a document in one namespace; `await` may stand at its top level.  A comment `# > text`
  is a line of its output; such lines must come in this order.
- A `python` block with a title is a file of that name.
- In a `console` block, `$ ` begins a command and the other lines are what it prints.
- A `text` block titled "Output" is the whole output of the block before it.
- `<!-- not run: why -->` before a block: it is only compiled.

`...` in an output stands for anything.
"""

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^(?:<!-- not run: (?P<skip>.+?) -->\n+)?```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)
_SAID = re.compile(r"# > (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    language: str
    title: str
    body: str
    line: int
    is_run: bool = True


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    return [_block(found, text) for found in _BLOCK.finditer(text)]


def _block(found: re.Match[str], text: str) -> Block:
    language, _, rest = found["info"].partition(" ")
    title = re.search(r'title="(.*?)"', rest)
    line = text.count("\n", 0, found.start("body")) + 1
    return Block(language, title[1] if title else "", found["body"], line, found["skip"] is None)


def run_document(path: Path, output: Callable[[], str]) -> int:
    """Run a document in the current folder; `output` gives what was printed since it was last asked.  Counts blocks."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        return _run(path, output)
    finally:
        sys.path.remove(folder)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(folder):
                del sys.modules[name]


def _run(path: Path, output: Callable[[], str]) -> int:
    namespace: dict[str, object] = {"__name__": path.stem}
    printed, count = "", 0
    for block in blocks(path):
        place = f"{path.name}:{block.line}"
        if block.language == "python":
            code = _compiled(block, path)
            count += 1
            if block.title:
                Path(block.title).write_text(block.body, encoding="utf-8")
            elif block.is_run:
                ran = eval(code, namespace)
                if inspect.iscoroutine(ran):
                    asyncio.run(ran)
                printed = output()
                _check_lines(_SAID.findall(block.body), printed, place)
        elif block.language == "console" and block.is_run:
            for command, said in _commands(block.body):
                count += 1
                _check_whole(said, _shell(command), f"{place}: {command}")
        elif block.title == "Output":
            _check_whole(block.body, printed, place)
    return count


def _compiled(block: Block, path: Path) -> object:
    source = "\n" * (block.line - 1) + block.body
    return compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _commands(body: str) -> Iterator[tuple[str, str]]:
    for entry in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, said = entry.partition("\n")
        yield command, said


def _shell(command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path}, check=False, timeout=50,
    )  # fmt: skip
    return ran.stdout


def _check_lines(said: list[str], printed: str, place: str) -> None:
    rest = iter(printed.splitlines())
    for text in said:
        assert any(re.fullmatch(_pattern(text), line.strip()) for line in rest), (
            f"{place}: no (further) line {text!r} in the output:\n{printed}"
        )


def _check_whole(said: str, printed: str, place: str) -> None:
    is_same = re.fullmatch(_pattern(_trimmed(said)), _trimmed(printed), re.DOTALL)
    assert is_same, f"{place}: it is said to print\n{said}\nand prints\n{printed}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _pattern(text: str) -> str:
    return ".*?".join(re.escape(part) for part in text.strip().split("..."))
