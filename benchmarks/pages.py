"""Measure `fetch_page`'s reading of HTML against annotated pages: precision, recall, F and the CPU time of a page.

    git clone --depth 1 https://github.com/adbar/trafilatura
    python benchmarks/pages.py trafilatura/tests [--every 5]

Each page of the set has texts that belong to its content and texts that do not.  A text counts as found if it occurs in the
result without its Markdown (links, pictures, emphasis, table bars).
"""

import json
import logging
import re
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from trafilatura import extract

from agentkit.http import Download
from agentkit_tools.readable import extract_main, extract_text
from agentkit_tools.web import decode


def extract_plainly(html: str, url: str) -> str:
    """Return the text of trafilatura with its defaults, without comments: the control for precision, recall and time."""
    return extract(html, url, include_comments=False, include_formatting=False) or ""


READERS: dict[str, Callable[[str, str], str]] = {
    "trafilatura": extract_plainly,
    "extract_main": extract_main,
    "extract_text": extract_text,
}
REPEATS = 3
"""The least CPU time of these is taken, because other processes disturb the caches."""


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder tests of trafilatura's repository")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="read each Nth page")
    options = parser.parse_args()
    logging.disable()
    pages = list(json.loads((options.folder / "evaldata.json").read_text()).items())[:: options.every]
    control = 0.0
    for name, read in READERS.items():
        right = wrong = missed = 0
        times = []
        for url, page in pages:
            html = decode(to_download(url, find_file(options.folder, page["file"]).read_bytes()))
            result = ""
            seconds = []
            for _ in range(REPEATS):
                start = time.process_time()
                result = read(html, url)
                seconds.append(time.process_time() - start)
            times.append(min(seconds))
            text = remove_markdown(result)
            found = sum(remove_markdown(part) in text for part in page["with"])
            right += found
            missed += len(page["with"]) - found
            wrong += sum(remove_markdown(part) in text for part in page["without"])
        times.sort()
        mean = sum(times) / len(times)
        control = control or mean
        print(
            f"{name}: {len(pages)} pages, precision {right / (right + wrong):.3f}, recall {right / (right + missed):.3f}, "
            f"F {2 * right / (2 * right + wrong + missed):.3f}, CPU a page: mean {mean * 1000:.1f} ms, "
            f"median {times[len(times) // 2] * 1000:.1f} ms; {mean / control:.2f} of trafilatura"
        )


def find_file(folder: Path, name: str) -> Path:
    """Return the page's file."""
    return next(path for path in (folder / "cache" / name, folder / "eval" / name) if path.is_file())


def to_download(url: str, body: bytes) -> Download:
    """Return a page as if downloaded; most were stored as UTF-8, whatever charset they name themselves."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return Download(url, "text/html", None, body, False)
    return Download(url, "text/html", "utf-8", body, False)


def remove_markdown(text: str) -> str:
    """Return the text without pictures, targets of links, emphasis and table bars, with single spaces."""
    text = re.sub(r"!\[[^\]\n]*\]\([^)\s]*\)", "", text)
    for _ in range(2):
        text = re.sub(r"\[([^\[\]]*)\]\([^)\s]*\)", r"\1", text)
    return " ".join(re.sub(r"[*`|]", " ", text).split())


if __name__ == "__main__":
    main()
