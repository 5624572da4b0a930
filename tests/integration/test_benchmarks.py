"""The script passes the first rows of each category of BFCL, by the checkers of the benchmark itself."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "integration"
NOT_RUN = {
    "live_relevance": "the data have no calls for it",
    "memory_vector": "sentence_transformers",
    "web_search_base": "html2text",
    "web_search_no_snippet": "html2text",
}
"""Why a category may not be run here."""


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_the_calls_of_the_data_pass_in_each_category():
    wheels = [os.environ["AGENTKIT_BFCL"]] if "AGENTKIT_BFCL" in os.environ else sorted(CACHE.glob("bfcl_eval-*.whl"))
    if not wheels:
        pytest.skip("no tasks: tests/integration/install.sh downloads the package bfcl-eval, or set AGENTKIT_BFCL")
    paths = os.pathsep.join([str(CACHE / "bfcl"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, ROOT / "benchmarks" / "evals_bfcl.py", str(wheels[0]), "gold", "--first", "2"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=290, check=False
    )
    if "requirements-bfcl" in done.stderr:
        pytest.skip("missing: tests/integration/install.sh installs benchmarks/requirements-bfcl.txt")
    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert len(found) == 23, done.stdout
    for category, text in found.items():
        assert re.match(r"2 of 2 ", text) or NOT_RUN.get(category, "no reason") in text, (category, text)
