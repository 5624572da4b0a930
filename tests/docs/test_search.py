"""The search of the built documentation finds the guide for the words that people bring from elsewhere."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WANTED = {
    "approve": "guides/safety.html",
    "human in the loop": "guides/places.html#human-in-the-loop",
    "structured output": "guides/answers.html",
    "FastAPI": "guides/places.html#fastapi",
    "Django": "guides/places.html#django",
    "RAG": "guides/places.html#rag",
    "deploy": "guides/places.html#deploy",
    "production": "guides/places.html#deploy",
    "Slack": "guides/places.html#human-in-the-loop",
    "troubleshooting": "guides/places.html#troubleshooting",
    "guardrails": "guides/places.html#words-of-other-frameworks",
}
"""For each query the place that must be among the first two."""


@pytest.mark.integration
def test_words_of_other_frameworks_find_their_guide(tmp_path):
    if shutil.which("node") is None or find_spec("zensical") is None:
        pytest.skip("missing: node, or zensical (the extra docs)")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "agentkit").symlink_to(ROOT / "agentkit")
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    command = ["node", Path(__file__).with_name("search.mjs"), tmp_path / "site", *WANTED]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    missed = {query: found[query][:3] for query, place in WANTED.items() if not _is_first(found[query], place)}
    assert missed == {}


def _is_first(found, place):
    return any(location.startswith(place) for location in found[:2])
