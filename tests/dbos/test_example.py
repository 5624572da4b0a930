"""The example of a database and two workers: its commands as processes, since containers need a service of their own."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from waiting import wait_until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "workers"
COMPOSE = FOLDER / "compose.yaml"


def words(command: str) -> list[str]:
    program, *rest = shlex.split(command)
    assert program == "agentkit"
    return [sys.executable, "-m", "agentkit", *rest]


@pytest.mark.integration
def test_the_commands_of_the_example_answer_a_question(postgres_url, tmp_path):
    worker = yaml.safe_load(COMPOSE.read_text())["services"]["worker"]
    assert [*worker["environment"]] == ["AGENTKIT_DB"]
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "tools")])
    environment = {**os.environ, "AGENTKIT_DB": postgres_url, "PYTHONPATH": python_path}
    workers = []
    try:
        for number in range(2):
            with open(tmp_path / str(number), "wb") as log:
                workers.append(subprocess.Popen(words(worker["command"]), env=environment, stderr=log, cwd=FOLDER))
        for number in range(2):
            wait_until((tmp_path / str(number)).read_text)
        question = COMPOSE.read_text().partition("# Then: ")[2].partition(" --db ")[0]
        done = subprocess.run([*words(question), "--wait"], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "391\n"
        for line in ("query    ", "call     ", "result   ", "total    "):  # while the worker executes it
            assert line in done.stderr
        for process in workers:
            process.send_signal(signal.SIGTERM)
        assert [process.wait() for process in workers] == [0, 0]
    finally:
        for process in workers:
            process.kill()
            process.wait()


def test_what_the_image_copies_is_there():
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert copied
    assert not [path for path in copied if not (ROOT / path).exists()]
