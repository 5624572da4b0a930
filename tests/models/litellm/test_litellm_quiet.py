"""litellm is imported late, prints nothing, fetches nothing and changes nothing that the user has set."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import HANGS

from agentkit.testing.server import ModelServer

PROGRAM = """
import asyncio, socket, sys, threading
dialled = []
connect, lookup = socket.socket.connect, socket.getaddrinfo
def watched_connect(self, address):
    dialled.append(address[0] if isinstance(address, tuple) else address)
    return connect(self, address)
def watched_lookup(host, *rest, **named):
    dialled.append(host)
    return lookup(host, *rest, **named)
socket.socket.connect, socket.getaddrinfo = watched_connect, watched_lookup
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.core.errors import ModelError
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.tools.registry import ToolRegistry
assert "litellm" not in sys.modules
base = sys.argv[1]
def add(a: int, b: int) -> int:
    "Adds."
    return a + b
wish = Request([user("hi")], ToolRegistry(add))
streamed = Request([user("hi")], ToolRegistry(add), stream=True)
async def gather(model, wish):
    return [piece async for piece in model.aask(wish)]
threads = [threading.Thread(target=load_litellm) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for name, path in {"openai/gpt-4o-mini": "/v1", "anthropic/claude-sonnet-4-5": "", "gemini/gemini-2.5-flash": "",
                   "groq/llama-3.1-8b-instant": "/openai/v1", "ollama_chat/llama3.1": ""}.items():
    model = LiteLLMModel(name, api_base=base + path, **({} if "ollama" in name else {"api_key": "sk-test-0123456789"}))
    for asked in (wish, streamed):
        for answer in (lambda: list(model.ask(asked)), lambda: asyncio.run(gather(model, asked))):
            assert answer()[-1].message["content"] == "hello"
            loaded = set(sys.modules)
            try:
                answer()
            except ModelError as error:
                assert error.kind == "server", error
                # Python 3.15 loads this one for the text of a traceback
                assert set(sys.modules) - loaded <= {"_colorize"}, "a forgotten thread that imports keeps the process from ending"
            else:
                raise AssertionError("no error")
try:
    list(LiteLLMModel("nonsense").ask(wish))
except ModelError as error:
    assert error.kind == "not_found"
assert "FROM_DOT_ENV" not in __import__("os").environ
assert set(dialled) <= {"127.0.0.1", "localhost"}, dialled  # 1.84 looks for an Ollama there
"""


def test_nothing_is_printed_fetched_or_loaded(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LITELLM", "HF_"))}
    (tmp_path / ".env").write_text("FROM_DOT_ENV=1\n")
    with ModelServer(["hello", 500] * 20) as server:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), server.url],
            cwd=str(tmp_path),
            env={**environment, "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


WAITING_FOR_A_PERSON = """
import sys, time
{prompt}
from agentkit import JsonAgent
agent = JsonAgent(len, model={model!r})
end = time.monotonic() + {seconds}
while "litellm" not in sys.modules and time.monotonic() < end:
    time.sleep(0.01)
print("litellm" in sys.modules)
"""
IPYTHON = """
from types import SimpleNamespace
sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel={kernel}))
"""


@pytest.mark.parametrize(
    ("prompt", "model", "begun"),
    [
        ("sys.ps1 = '>>> '", "openai/gpt-4o-mini", True),
        (IPYTHON.format(kernel="sys"), "groq/llama-3.1-8b-instant", True),
        (IPYTHON.format(kernel="None"), "groq/llama-3.1-8b-instant", False),
        ("", "openai/gpt-4o-mini", False),
        ("sys.ps1 = '>>> '", "offline", False),
    ],
)
def test_litellm_is_loaded_while_a_person_types(prompt: str, model: str, begun: bool) -> None:
    program = WAITING_FOR_A_PERSON.format(prompt=prompt, model=model, seconds=HANGS if begun else 0.2)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{begun}\n", "")


WHOLE_HOST = """
import sys, threading
from pydantic import VERSION, BaseModel
from pydantic._internal._config import ConfigWrapper

original = vars(ConfigWrapper)["for_model"]
made = []
ended = threading.Event()

class Named(BaseModel):
    def __init_subclass__(cls, **_):
        pass
    @classmethod
    def __pydantic_init_subclass__(cls, name="", kind=""):
        pass

def define():
    while not ended.wait(0.02):
        before = vars(ConfigWrapper)["for_model"] is not original
        made.append((type("Mine", (BaseModel,), {"__module__": "litellm.mine", "__annotations__": {"a": int}}), before))
        class Inner(Named, name="inner", kind="part"):
            a: int
        class Outer(BaseModel):
            inner: "Inner"
        made.append((Outer, before))

thread = threading.Thread(target=define)
thread.start()
from agentkit.engine.model import Request
from agentkit.models.litellm.importing import load_litellm
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.tools.registry import ToolRegistry
litellm = load_litellm()
ended.set()
thread.join()
is_safe = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
assert any(during for _, during in made) == is_safe, len(made)
assert all(model.__pydantic_complete__ for model, _ in made), "a class of another thread"
assert vars(ConfigWrapper)["for_model"] is original

from litellm.types.llms.openai import ResponsesAPIResponse

assert ResponsesAPIResponse.__pydantic_complete__ != is_safe

class Mine(ResponsesAPIResponse):
    mine: int = 1

assert Mine.__pydantic_complete__ and not Mine.model_config.get("defer_build")
assert [name for name, module in sys.modules.items() if module is None] == []

model = LiteLLMModel("openai/gpt-4o-mini", api_base=sys.argv[1] + "/v1", api_key="sk-test-0123456789")
request = Request([{"role": "user", "content": "Hi"}], ToolRegistry())
assert [*model.ask(request)][-1].message["content"] == "hello"
assert litellm.main._encoding_cache is None, "a request has loaded the tokenizer"
assert litellm.main._get_encoding() is litellm.encoding
assert litellm.encoding.encode("hello")
"""
"""The names of litellm are those of 1.105.3."""


def test_what_is_left_out_of_the_import_is_whole_for_the_host() -> None:
    with ModelServer("hello") as server:
        done = subprocess.run([sys.executable, "-c", WHOLE_HOST, server.url], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
