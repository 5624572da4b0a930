"""Make the pictures of the documentation: `make pictures`.

Each is a screenshot in headless Chromium: of the terminal (drawn from what a command writes at a pty), of the views of a
notebook in a page, of a report, and of the page of `agentkit web`.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests")]

from picture_shop import make_agent  # noqa: E402
from terminal import Terminal  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"
WORK = ROOT / ".cache" / "pictures"
MODULES = ROOT / ".cache" / "integration" / "package.json"
MAX_BYTES = 150_000
COLUMNS = 96
QUERY = "Ada's tea was cold. What did it cost? Pay it back."
CELL = """<!doctype html><meta charset="utf-8"><style>
body { margin: 24px; background: #fff; color: #222; font: 14px/1.5 system-ui, sans-serif; width: 860px }
pre { background: #f5f5f5; border: 1px solid #ddd; padding: 10px 12px; margin: 0 0 12px; font: 13px/1.5 monospace }
pre b { color: #888; font-weight: normal } .out { margin: 0 0 20px 12px }
</style><body>"""


def main() -> None:
    """Make all pictures."""
    FOLDER.mkdir(exist_ok=True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    draw_terminal()
    agent = make_agent(approve=lambda _: True)
    result = agent.run(QUERY)
    result.to_html(WORK / "report.html")
    cells = [("agent", agent), ("result = agent.run(query)\nresult", result)]
    shown = "".join(f'<pre>{code}</pre><div class="out">{value._repr_html_()}</div>' for code, value in cells)
    (WORK / "notebook.html").write_text(CELL + shown)
    serve = [
        sys.executable,
        "-m",
        "agentkit",
        "web",
        f"{HERE / 'picture_shop.py'}:agent",
        "--port",
        "8097",
        "--token",
        "token",
        "--no-open",
    ]
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    command = ["node", HERE / "pictures.mjs", MODULES, chromium, WORK, FOLDER, QUERY, *serve]
    subprocess.run(command, check=True, timeout=120)
    for picture in sorted(FOLDER.glob("*.png")):
        size = picture.stat().st_size
        print(f"{picture.relative_to(ROOT)}: {size:,} bytes")
        if size > MAX_BYTES:
            raise SystemExit(f"{picture.name}: {size:,} bytes are too many, at most {MAX_BYTES:,}")


def draw_terminal() -> None:
    """Draw what a command writes at a terminal."""
    question = "What is the price of coffee? Convert 4.25 into USD."
    terminal = Terminal("run", question, "--tools", str(HERE / "picture_shop.py"), "--model", "offline", width=COLUMNS)
    terminal.end()
    console = Console(record=True, width=COLUMNS, file=(WORK / "terminal.txt").open("w"))
    console.print(Text.from_ansi(f'$ agentkit run "{question}" --tools shop.py'))
    for line in play(terminal.text):
        console.print(Text.from_ansi(line))
    console.print("$")
    svg = console.export_svg(title="agentkit", theme=DEFAULT_TERMINAL_THEME)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # names files of another host
    (WORK / "terminal.html").write_text(
        f'<!doctype html><meta charset="utf-8"><body style="margin:0;width:960px">{svg}'
    )


def play(text: str) -> list[str]:
    """Return the lines that remain on a screen, with their colours; only the controls of rich's live display are known."""
    rows = [""]
    at = 0
    for token in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b", text):
        if token == "\n":
            at += 1
            rows += [""] * (at + 1 - len(rows))
        elif up := re.fullmatch(r"\x1b\[(\d*)A", token):
            at = max(0, at - int(up[1] or 1))
        elif token == "\x1b[2K":
            rows[at] = ""
        elif token.endswith("m") or not token.startswith(("\x1b", "\r")):
            rows[at] += token
    return [row for row in rows if re.sub(r"\x1b\[[\d;]*m", "", row).strip()]


if __name__ == "__main__":
    main()
