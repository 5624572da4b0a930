"""The page in a real browser, and AG-UI with its own client."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from ports import free_port, is_open
from waiting import HANGS, wait_until
from web_shop import HOSTILE
from web_shop import agent as shop

from agentkit.evals import evaluate
from agentkit.views.markdown import parse_markdown

HERE = Path(__file__).parent
MODULES = HERE.parents[1] / ".cache" / "integration" / "package.json"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def require(*packages):
    missing = [name for name in packages if not (MODULES.parent / "node_modules" / name).exists()]
    if shutil.which("node") is None or missing:
        pytest.skip(f"missing: node with {', '.join(packages)} from npm (tests/integration/install.sh)")


def require_browser(*packages):
    require("playwright-core", *packages)
    if CHROMIUM is None:
        pytest.skip("missing: Chromium (Debian package chromium)")


def drive_page(script, *arguments):
    """Run a script for node with the browser; return what it reports, by name."""
    command = ["node", HERE / script, MODULES, CHROMIUM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert done.returncode == 0, f"{[*found]}\n{done.stderr}"
    return found


def drive_agui(module, script):
    """Serve the agent of a module over AG-UI, and return what the script for node prints."""
    require("@ag-ui/client")
    port = free_port()
    code = f"import uvicorn, {module}, agentkit.web; uvicorn.run(agentkit.web.agui({module}.agent), port={port}, log_level='warning')"
    server = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, cwd=HERE)
    try:
        wait_until_open(server, port)
        command = ["node", HERE / script, MODULES, f"http://127.0.0.1:{port}/"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        server.terminate()
        server.wait()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_until_open(server, port):
    wait_until(lambda: server.poll() is not None or is_open(port))
    assert server.poll() is None, "the server ended"


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_the_client_of_ag_ui_answers_a_question_of_a_server_in_the_middle_of_a_call():
    require("@modelcontextprotocol/server-everything")
    found = drive_agui("asking_shop", "agui_question.mjs")
    assert "everything' asks: Please provide inputs" in found["message"]
    assert found["outcome"] == {"type": "success"}
    assert found["last"] == "- Name: Ada"


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_the_client_of_ag_ui_drives_an_agent():
    found = drive_agui("web_shop", "agui.mjs")
    assert found["paused"]["outcome"]["interrupts"][0]["metadata"]["agentkit"]["tool"] == "refund"
    assert found["resumed"]["outcome"] == {"type": "success"}
    assert found["tools"] == ["4.0 euros went to Ada"]
    assert found["resumed"]["last"] == "It is done: 4.0 euros went to Ada"
    assert found["nested"]["last"] == "It is done: 3.5"
    assert {"SUBAGENT_STARTED", "SUBAGENT_FINISHED"} <= {*found["nested"]["seen"]}
    assert (found["consulted"]["failure"], found["consulted"]["last"]) == ("", "It is done: 3.5")
    assert found["question"]["outcome"]["interrupts"][0]["responseSchema"] == {"type": "integer"}
    assert found["answered"]["last"] == "It is done: 2 nights"
    waiting = found["mapped"]["outcome"]["pendingToolCallIds"]
    assert (found["mapped"]["outcome"]["type"], len(waiting), found["place"]) == ("success", 1, "Rome")
    assert found["seen"]["last"] == "It is done: Rome is on the map"
    assert found["travelled"] == ["user", "assistant", "tool", "assistant"]
    assert found["failed"]["failure"] == "the key was refused"
    assert found["failed"]["seen"].count("RUN_ERROR") == 1


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_two_users_and_two_processes_on_one_journal_with_the_client_of_ag_ui(tmp_path):
    require("@ag-ui/client")
    ports = [free_port(), free_port()]
    code = (
        "import sys, uvicorn, web_shop, agentkit.web\n"
        "app = agentkit.web.agui(web_shop.agent, journal=sys.argv[2], user=lambda request: request.headers.get('x-user'))\n"
        "uvicorn.run(app, port=int(sys.argv[1]), log_level='warning')"
    )
    serve = [[sys.executable, "-c", code, str(port), tmp_path / "runs.db"] for port in ports]
    servers = [subprocess.Popen(command, env=ENVIRONMENT, cwd=HERE) for command in serve]
    try:
        for server, port in zip(servers, ports, strict=True):
            wait_until_open(server, port)
        command = ["node", HERE / "agui_users.mjs", MODULES, *(f"http://127.0.0.1:{port}/" for port in ports)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "409" in found["stolen"]["failure"]
    assert "401" in found["nobody"]["failure"]
    assert found["eve"]["result"] == "You wrote 5 characters."
    assert found["approved"]["result"] == "It is done: 4.0 euros went to Ada"
    assert "409" in found["late"]["failure"]
    assert "too late" in found["late"]["failure"]
    assert found["next"]["result"] == "You wrote 5 characters."
    ran, busy = sorted(found["both"], key=lambda text: text != "ran")
    assert (ran, "409" in busy) == ("ran", True)


def draw(*trees):
    """Return the elements and the texts that the page makes of trees of Markdown."""
    page = HERE.parents[1] / "agentkit" / "web" / "page" / "markdown.js"
    command = ["node", HERE / "markdown.mjs", page]
    done = subprocess.run(command, input=json.dumps(trees), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.integration
def test_the_page_draws_what_the_server_read():
    require()
    text = "# A\n\n#### *b*\n\n3. x\n\n|a|b|\n|-|-:|\n|c|d|\n\n```python\ny\n```\n[z](mailto:a@b.c)\n***\n> q\\\nr"
    (found,) = draw(parse_markdown(text))
    assert [name for name, _ in found["elements"]] == [
        "div",
        "h2",
        "h3",
        "em",
        "ol",
        "li",
        "div",
        "table",
        "thead",
        "tr",
        "th",
        "th",
        "tbody",
        "tr",
        "td",
        "td",
        "pre",
        "code",
        "p",
        "a",
        "hr",
        "blockquote",
        "p",
        "br",
    ]
    attributes = dict(found["elements"])
    assert attributes["ol"] == {"start": "3"}
    assert attributes["td"] == {"textAlign": "right"}
    assert attributes["code"] == {"data-language": "python"}
    assert attributes["a"] == {"href": "mailto:a@b.c", "target": "_blank", "rel": "noopener noreferrer nofollow"}
    assert "".join(found["texts"]) == "Abxabcdy\nzqr"


@pytest.mark.integration
def test_nothing_in_a_tree_runs_loads_or_styles():
    require()
    evil = dict.fromkeys(
        ("href", "src", "style", "onclick", "class", "id", "srcdoc", "lang", "start"), "javascript:alert(1)"
    )
    names = [
        "script",
        "img",
        "svg",
        "iframe",
        "style",
        "object",
        "form",
        "input",
        "SCRIPT",
        "a",
        "p",
        "td",
        "th",
        "ol",
        "pre",
        "h1",
        "h7",
    ]
    texts = [
        HOSTILE,
        "<script>alert(1)</script>",
        "[a](javascript:x) <javascript:x> ![a](data:text/html,x)",
        "&lt;img src=x onerror=y&gt;",
    ]
    for found in draw(*(parse_markdown(text) for text in texts), *([[name, evil, ["x"]]] for name in names)):
        for name, attributes in found["elements"]:
            assert name in {
                "div",
                "span",
                "p",
                "h2",
                "strong",
                "code",
                "pre",
                "a",
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
                "ol",
                "br",
            }
            assert not {"src", "style", "onclick", "id", "srcdoc"} & attributes.keys()
            assert attributes.get("class") in (None, "code", "table")
            assert attributes.get("href", "https:").startswith(("https:", "http:"))


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_a_browser_drives_the_page(tmp_path):
    require_browser("axe-core")
    port = free_port()
    serve = [
        sys.executable,
        "-m",
        "agentkit",
        "web",
        f"{HERE / 'web_shop.py'}:agent",
        "--journal",
        str(tmp_path / "runs.db"),
        "--port",
        str(port),
        "--token",
        "token",
        "--no-open",
    ]
    found = drive_page("page.mjs", f"http://127.0.0.1:{port}", *serve)
    assert not {name: value for name, value in found.items() if name.startswith("axe") and value}
    assert len([name for name in found if name.startswith("axe")]) == 6
    assert found["answer"] == "3.50 euros"
    assert ["price_of" in text for text in found["calls"]] == [True, True]
    assert "failed" in found["calls"][1]
    assert (found["hacked"], found["elements"], found["shown"]) == (None, 0, True)
    assert all(link.startswith(("https://example.com/", "http://127.0.0.1:9/")) for link in found["links"])
    assert found["raw"][-2:] == ["tool", "tool"]
    assert found["plan"] == [1, ["☑ Look done", "☐ Tell <b>Ada</b>"], "Plan: 1 of 2 done"]
    assert found["typed ahead"] == [2, "and now yes, it is all right to go on \n\n ", "composer-text"]
    assert found["pressed early"] == 2
    assert found["next heading"] == "Allow refund?"
    assert found["pressed with the key of the other"] == 1
    assert found["approved"] == "It is done: 4.0 euros went to Ada"
    assert found["references"] == [
        ["code", '{\n  "to": "{#1.iban}"\n}', 0],
        ["code foreign", "#1.iban, text of others: <b>DE1</b>", 0],
    ]
    assert found["digits"] == [
        '{\n  "to": 1234567890123456789,\n  "host": "a\\u202egro.b\\u200b"\n}',
        '{"approved":true,"arguments":{"to":1234567890123456789,"host":"a\u202eorg.b\u200b"}}',
    ]
    assert found["question"] == "It is done: 3 nights"
    assert found["call that asked"] == [1, "", "3 nights", "Waited for you"]
    assert found["nested"] == ["price_of"]
    assert found["refused"] == found["lost"] == ["look at this", 1]
    assert found["attachment"] == 1
    assert found["drawn"] == [1, "Result: image"]
    assert found["stopped"] == "Stopped"
    assert found["reloaded"] == 9
    assert found["continued"][0] == 10
    assert found["continued"][1].startswith("It is done: OutcomeUnknown")
    assert found["conversations"] == ["hello", "What is the price of tea?"]
    (empty, few, more, whole) = found["scrubbed"]
    assert (empty, whole) == ([0, 0], [2, 1])
    assert few[0] <= more[0] <= 2
    assert found["scrubbed by key"] == 0
    assert found["compared"][-1] == "usage"
    assert set(found["compared"]) > {"usage"}
    assert found["overflow"] <= 0
    assert (found["problems"], found["foreign"]) == ([], [])


@contextmanager
def serve(*arguments):
    """Run Python with these arguments and a port; yield the address that it serves."""
    port = free_port()
    server = subprocess.Popen([sys.executable, *arguments, str(port)], env=ENVIRONMENT, cwd=HERE)
    try:
        wait_until_open(server, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def serve_page(*options):
    """Serve the page of the shop; yield its address."""
    command = ("-m", "agentkit", "web", f"{HERE / 'web_shop.py'}:agent", "--token", "token", "--no-open")
    return serve(*command, *options, "--port")


PASSWORD_SERVER = """
import base64, sys, uvicorn, web_shop
from starlette.exceptions import HTTPException
from agentkit.web import web_app

def user_of(request):
    if request.headers.get("authorization") != "Basic " + base64.b64encode(b"ada:secret").decode():
        raise HTTPException(401, "who are you?", {"www-authenticate": "Basic"})
    return "ada"

uvicorn.run(web_app(web_shop.agent, user=user_of), port=int(sys.argv[1]), log_level="warning")
"""


def serve_behind_password():
    """Serve the page behind a sign-in of the browser; yield its address."""
    return serve("-c", PASSWORD_SERVER)


@pytest.fixture
def page_server(tmp_path):
    """Serve the page of the shop on a journal in which other processes left runs; return its address."""
    store = tmp_path / "runs.db"
    subprocess.run([sys.executable, HERE / "left_runs.py", store], env=ENVIRONMENT, cwd=HERE, check=True)
    with serve_page("--journal", str(store)) as address:
        yield address


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_the_page_continues_what_a_journal_has_and_two_windows_follow_one_conversation(page_server):
    require_browser()
    found = drive_page("page_journal.mjs", page_server)
    assert found["inbox"] == ["(1) agentkit", "Waits for you (1)", ["refund that waits"]]
    assert found["list"] == ["interrupted", "waits for you", "stopped", "finished"]
    assert found["filtered"] == ["refund that waits"]
    assert found["inbox after the decision"] == "agentkit"
    assert found["copied"] == "It is done: 4.0 euros went to Ada"
    assert [json.loads(found["copied of a call"][0]), found["copied of a call"][1]] == [
        {"customer": "Ada", "euros": 4},
        "4.0 euros went to Ada",
    ]
    assert found["refused"] == [["refused"], ["refused"], False]
    assert found["stopped"][0] == "Stopped"
    assert found["stopped"][2] == "Continue the run"
    assert found["killed"] == ["Interrupted", ["interrupted"], "Continue the run"]
    assert found["stopped, continued"] == found["killed, continued"] == [False, False]
    assert found["waits"] == ["The agent waits for you", ["waits for you"], ["waiting"], "Allow"]
    assert found["waits after a reload"] == "The agent waits for you"
    assert found["continues"] is True
    failed, problem, calls = found["failed"]
    assert failed.startswith("The last run failed. Its finished steps are kept and are not repeated.")
    assert failed.endswith("Try again")
    assert (problem, calls) == ("the key was refused", 1)
    assert found["tried again"] == [1, 1, False]
    state, _, seconds, cost = found["figures"]
    assert (state, cost) == ("finished", "$0.012")
    assert re.fullmatch(r"<1 ms|[\d.]+ m?s", seconds)
    assert found["report in the page"] == [1, 33, "true", [True, False], []]
    assert found["report cannot reach the page"] == "SecurityError"
    assert found["steps again"] == [False, True]
    assert found["report"] == [1, 33, "absolute", []]
    assert found["title of the comparison"] == "Two runs"
    assert found["one-sided"] == [
        ["price_of", '{"item": "coffee"}', "only on the left"],
        ["refund", '{"customer": "Ada", "euros": 4}', "only on the right"],
    ]
    assert found["second window"] == "The agent waits for you"
    assert found["second window follows"] == 0
    notice, forms, text = found["too late"]
    assert notice.startswith("the decision comes too late")
    assert "refused" not in notice.lower()
    assert (forms, text) == (0, "It is done: 4.0 euros went to Ada")
    assert found["renamed"] == [False, "Please refund Ada", "Please refund Ada"]
    assert found["filtered conversations"] == ["Please refund Ada"]
    assert found["kept"] == 1
    assert found["deleted"] == [0, True, 'Delete "Please refund Ada" with its runs? They cannot be restored.']
    assert found["problems"] == []


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_the_page_works_over_plain_http_from_another_machine_without_a_journal():
    require_browser()
    with serve_page("--allow-host", "shop.test") as address, serve_behind_password() as behind:
        found = drive_page("page_plain.mjs", address.replace("127.0.0.1", "shop.test"), behind)
    assert found["secure"] is False
    assert found["failed"] == ["The last run failed. Its finished steps are kept and are not repeated.\nTry again", 1]
    assert found["tried again"] == [1, 1, False]
    assert found["pasted"] == "It is done: 4.25"
    assert found["inbox"] == ["(1) agentkit", ["Please refund Ada"]]
    notice, decisions = found["asked again"]
    assert notice.startswith("resume: the arguments of a decision must be an object, got [1]")
    assert decisions == ["Allow", "Refuse"]
    assert re.fullmatch(r"The arguments given are not valid: .*euros.*", found["why again"])
    assert found["inbox after the decision"] == "agentkit"
    assert found["in the background"] == ["agentkit", "stumble over coffee", "(1) agentkit", "stumble over coffee"]
    assert found["behind a sign-in"] == [False, ["hello"]]
    assert found["problems"] == []


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_a_long_answer_is_not_laid_out_at_each_piece_and_a_reader_is_not_moved():
    require_browser()
    with serve_page() as address:
        found = drive_page("page_long.mjs", address)
    assert found["layouts"] < 250, "the answer has 500 paragraphs"
    assert found["paragraphs"] == 500
    assert found["reading"] == 100
    assert max(found["below"], found["below again"]) <= 1
    assert found["problems"] == []


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_two_windows_decide_at_once_leave_a_run_that_works_and_delete_a_conversation():
    require_browser()
    with serve_page() as address:
        found = drive_page("page_windows.mjs", address)
    assert len({*found["answers"]}) == 1
    won, lost = sorted(found["notices"])
    assert won == ""
    assert "too late" in lost or "still working" in lost
    assert found["left"] == ["work alone"]
    assert found["in the background"] is True
    assert found["shown again"] == ["work behind"]
    notice, *shown = found["deleted"]
    assert notice.startswith("The server has this conversation no more")
    assert shown == ["New conversation", 0]
    assert found["unreachable"] == "The server cannot be reached. Is it still running?"
    assert found["problems"] == []


@pytest.mark.integration
@pytest.mark.timeout(HANGS)
def test_the_page_lists_evaluations_and_shows_their_reports(tmp_path):
    require_browser("axe-core")
    store = tmp_path / "runs.db"
    cases = [
        {"name": "tea", "query": "What is the price of tea?", "calls": [{"price_of": {"item": "tea"}}]},
        {"name": HOSTILE, "query": "What is the price of tea?", "answer": {"contains": "9.99"}},
    ]
    evaluate(shop, cases, journal=store, progress=False)
    evaluate(shop, cases[:1], journal=store, trials=2, progress=False)
    with serve_page("--journal", str(store)) as address:
        found = drive_page("page_evals.mjs", address)
    model = shop.choose_backend()[0].name
    assert found["list"] == [f"2 of 2 passed · {model}", f"1 of 2 passed · {model}"]
    assert found["title"] == "2 cases, 1 model"
    assert found["figures"][0] == ["passed", "1 of 2 trials"]
    assert [name for name, _ in found["figures"]] == ["passed", "pass^1", "steps, calls", "seconds", "tokens", "cost"]
    assert [count for _, count in found["cases"]] == ["1 of 1", "0 of 1"]
    assert found["jumped"] is True
    assert found["conversation"] == [False, True]
    assert (found["hacked"], found["axe"], found["problems"]) == (None, [], [])
