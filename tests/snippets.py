"""Run the Python snippets and the commands of a Markdown file, and compare their output with the document.

- All `python` blocks of a document run in one namespace, with top-level `await`.  A comment `# > text` is a line of the
  block's output; such lines must occur in this order.
- A `python` block with a title is a file of that name.
- In a `console` block, `$ ` begins a command, and the other lines are its output.
- A `text` block titled "Output" is the whole output of the block before it.
- A block after `<!-- not run: why -->` is only compiled.

`...` in an output matches any text.
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
_EXPECTED = re.compile(r"# > (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    language: str
    title: str
    body: str
    line: int
    is_run: bool = True


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    return [_block(found, text) for found in _BLOCK.finditer(text)]


def _block(found: re.Match[str], text: str) -> Block:
    language, _, rest = found["info"].partition(" ")
    title = re.search(r'title="(.*?)"', rest)
    line = text.count("\n", 0, found.start("body")) + 1
    return Block(language, title[1] if title else "", found["body"], line, found["skip"] is None)


def run_document(path: Path, output: Callable[[], str]) -> int:
    """Run a document in the current folder, and return the number of its blocks.

    Args:
        path: The Markdown file.
        output: Returns the output since its last call.
    """
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
    printed = ""
    count = 0
    for block in blocks(path):
        place = f"{path.name}:{block.line}"
        if block.language == "python":
            code = _compile(block, path)
            count += 1
            if block.title:
                Path(block.title).write_text(block.body, encoding="utf-8")
            elif block.is_run:
                ran = eval(code, namespace)
                if inspect.iscoroutine(ran):
                    asyncio.run(ran)
                printed = output()
                _check_lines(_EXPECTED.findall(block.body), printed, place)
        elif block.language == "console" and block.is_run:
            for command, expected in _split_commands(block.body):
                count += 1
                _check_whole(expected, _run_command(command), f"{place}: {command}")
        elif block.title == "Output":
            _check_whole(block.body, printed, place)
    return count


def _compile(block: Block, path: Path) -> object:
    source = "\n" * (block.line - 1) + block.body
    return compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _split_commands(body: str) -> Iterator[tuple[str, str]]:
    for entry in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = entry.partition("\n")
        yield command, expected


def _run_command(command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command,
        shell=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
        check=False,
    )
    return ran.stdout


def _check_lines(expected: list[str], printed: str, place: str) -> None:
    rest = iter(printed.splitlines())
    for text in expected:
        assert any(re.fullmatch(_pattern(text), line.strip()) for line in rest), (
            f"{place}: no (further) line {text!r} in the output:\n{printed}"
        )


def _check_whole(expected: str, printed: str, place: str) -> None:
    is_same = re.fullmatch(_pattern(_trim(expected)), _trim(printed), re.DOTALL)
    assert is_same, f"{place}: expected output\n{expected}\nactual output\n{printed}"


def _trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _pattern(text: str) -> str:
    return ".*?".join(re.escape(part) for part in text.strip().split("..."))
