"""Each example runs by itself, offline, with nothing on standard error."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "ag_ui.py": [
        "it waits: refund waits for a decision",
        "the tool: 4.0 euros went to Ada",
        "answer: Ada has her money",
    ],
    "batch.py": [r"Kolkata\? +4,497,000", r"Atlantis\? +NoAnswer", "5 of 6 answered", r"\$0\.0000"],
    "code_mode.py": [
        r'waits: pay\(\{"supplier": "A", "euros": 180.0\}\)',
        r"\{'B': 120.0, 'C': 100.0, 'A': 180.0\}\npaid 180.00 euros to A",
        "Supplier A is paid.",
    ],
    "csv_questions.py": [
        r"orders \(orders.csv\): day DATE, city VARCHAR",
        r"(?m)^56\.0\n\[1 row\]",
        r"(?m)^Pune \| 6\.0\nRome \| 8\.0\nOslo \| 20\.5",
        r"(?m)^46\.75",
    ],
    "evaluated_agent.py": [
        r"passed +4 of 6 trials",
        r"pass\^2 +0\.667 \[0\.208, 0\.939\]",
        r'expected price_of\(item=.*cake.*, got price_of\(item="coffee"\)',
        "1 better, 0 worse, 2 equal",
    ],
    "files_with_approvals.py": [
        "notes.txt.*buy tea",
        "keys.txt.*Denied: only logs",
        "waits for approval: .*old.log",
        r"left: keys.txt \(4 bytes\)\nnotes.txt",
    ],
    "half_price.py": [
        r"(?m)^1 is about a kettle \(2 requests, 0\.0015\d+ dollars",
        r"(?m)^3 is about a lamp \(2 requests",
    ],
    "image_questions.py": ["The wall is red", "user: text, image_url", "tool: text, image_url", "takes no images"],
    "killed_and_continued.py": [
        r"exit code: -9\ninterrupted while calling pay",
        r"(?s)reply 1.*exit code.*reply 2.*reply 3",
        r'pay: OutcomeUnknown: (?s:.*)payments: \["gas","water"\]',
    ],
    "mcp_server.py": [
        "(?m)^The server 'mcp_server' asks: How many coffee\\?",
        "count_stock.*12",
        "order.*ordered 3 coffee",
        "Coffee is on its way",
    ],
    "own_extension.py": [
        "Tea is in",
        "caviar costs 250.00, and the cart has 4.50",
        r"The cart costs 7\.50",
        r"'Cart': {'total': 7\.5}",
    ],
    "own_model.py": ["It is 22.0!", r"parrot-1: 2 replies, \d+ words read", r"streamed: \['Squawk! ', "],
    "own_policy.py": [
        r"(?s)\(this reply was cached\).*the second time: Ada has",
        "returned: .*ada@",
        "read: .*<address>",
    ],
    "own_store.py": ["the store keeps its promises\n5\n1 finished"],
    "quota.py": [
        "(?m)^ada: There are 12",
        "(?m)^ada: stopped by the quota: ",
        "(?m)^bob: There are 12",
        r"(?m)^  user   ada +\d requests  0\.00\d\d dollars",
        r"(?m)^  model  openai/gpt-4o-mini",
    ],
    "quickstart.py": ["15% of 2,340.*\n    351.0", "days_between .*: 34"],
    "research.py": [
        "moderate rain",
        "not accepted: .* says 31",
        "(?m)^At 29 °C and rain, go indoors",
        "4 replies.*'answer'",
    ],
    "streaming.py": [
        "Let me count",
        r'-> survey\(\{"street"',
        r"\.\.\. house 20",
        "84 trees",
        "(?s)==.*== after 2 replies",
    ],
    "testing_agents.py": ["(?s)(passed: test_.*){3}", "model read: .*item: missing", "5 requests for 2 replies"],
    "tool_annotate.py": [r"(?m)^12\.50 euros"],
    "tool_args_model.py": [r"(?m)^menu_price \(pizza\): 9\.5"],
    "tool_class.py": [r"(?m)^12 pieces of tea"],
    "tool_decorator.py": ["still a function: .*11.00 USD", r"(?m)^1212\.50 INR"],
    "tool_function.py": [r'(?m)^\["07:10","09:40"\]'],
    "tool_overloads.py": [r"(?m)^find_room_by_number \(7\): room 7 is free"],
    "tool_raw_schema.py": [r"(?m)^open in Paris on sunday"],
    "two_agents.py": [r"    price_of\(.*'3.5'\n", r"(?m)^calculate.*'42.0'", "4 requests.*the clerk made 2"],
    "web_handler.py": [r'(?s)(200 OK  \{"answer": "[\d.]+", "steps": 2.*){3}', "400 Bad Request"],
}


def run_program(path, cwd):
    outside = {key: value for key, value in os.environ.items() if not re.match(r"AGENTKIT_|.*_KEY$|PYTEST_", key)}
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "loopback_only.py"), str(path)]
    return subprocess.run(command, cwd=cwd, env=outside, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("address", ["192.0.2.1", "example.org"])
def test_nothing_but_the_loopback_can_be_reached(address, tmp_path):
    path = tmp_path / "call.py"
    path.write_text(f"import socket\nsocket.create_connection(({address!r}, 80), timeout=1)")
    assert re.search("Network is unreachable|no network here", run_program(path, tmp_path).stderr)


def test_every_example_is_tested():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_offline_and_prints_what_it_should(name, tmp_path):
    done = run_program(ROOT / "examples" / name, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for expected in EXAMPLES[name]:
        assert re.search(expected, done.stdout), f"{expected!r} is missing in:\n{done.stdout}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_states_how_to_run_it(name):
    text = (ROOT / "examples" / name).read_text()
    assert len(text.splitlines()) < (190 if name == "own_store.py" else 60), "a store has the longest list of promises"
    intro = text.split('"""')[1]
    assert re.search(r"without a key|offline|none needs a key|script|a single trick", intro, re.IGNORECASE)
    if not name.startswith("tool_"):
        assert re.search('AGENTKIT_MODEL=|model="', intro), "how a real model is used"


GALLERY = re.findall(
    r"(?m)^## .+\n\n(?:.+\n)*.*`examples/(\w+\.py)`\n\n```text\n((?:.+\n)+)```", (ROOT / "docs/gallery.md").read_text()
)


def test_the_gallery_shows_ten_agents_of_at_most_sixty_lines():
    assert len(GALLERY) == len({name for name, _ in GALLERY}) == 10
    lines = {name: len((ROOT / "examples" / name).read_text().splitlines()) for name, _ in GALLERY}
    assert {name: count for name, count in lines.items() if not 20 <= count <= 60} == {}


@pytest.mark.parametrize(("name", "lines"), GALLERY)
def test_what_the_gallery_shows_is_what_the_example_prints(name, lines, tmp_path):
    done = run_program(ROOT / "examples" / name, tmp_path)
    missing = [line for line in lines.splitlines() if line not in done.stdout]
    assert not missing, done.stdout
