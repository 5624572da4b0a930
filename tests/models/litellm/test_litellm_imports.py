"""What the import of litellm leaves out is there when it is used, and nothing of the host's is left out."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentkit.testing.server import ModelServer

LOADED = """
import sys
from agentkit.models.litellm.importing import load_litellm
load_litellm()
"""
PACKAGES = (
    LOADED
    + """
import ast, importlib, inspect, types
from importlib.machinery import SourceFileLoader

names = [name for name, module in sys.modules.items() if name.startswith("openai.") and hasattr(module, "__path__")]
deferred = [name for name in names if type(sys.modules[name]) is not types.ModuleType]
assert "openai.types.beta" in deferred
assert "openai.types.beta.beta_response" not in sys.modules
for name in deferred:
    package = sys.modules[name]
    assert type(package.__spec__.loader) is type(package.__loader__) is SourceFileLoader
    source = ast.parse(inspect.getsource(package))
    for statement in source.body:
        if isinstance(statement, ast.ImportFrom) and statement.module not in (None, "__future__"):
            home = importlib.import_module("." * statement.level + statement.module, name)
            for alias in statement.names:
                assert getattr(package, alias.asname or alias.name) is getattr(home, alias.name), (name, alias.name)
    assert not hasattr(package, "no_such_name")
    assert type(package) is types.ModuleType, "the missing name has run its __init__"
assert not [finder for finder in sys.meta_path if finder.__module__.startswith("agentkit")]
"""
)


def print_of(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_packages_of_the_sdk_have_all_their_names():
    print_of(PACKAGES)


def test_all_names_of_a_package_can_be_listed_and_imported():
    listing = LOADED + "import openai.types.beta as one; print(*sorted(dir(one)))"
    star = LOADED + "from openai.types.beta import *; print(*sorted(name for name in dir() if name[0].isupper()))"
    plain = "import openai.types.beta as one; print(*sorted(dir(one)))"
    assert print_of(listing) == print_of(plain)
    assert print_of(star).split() == [name for name in print_of(plain).split() if name[0].isupper()]


def test_a_module_is_an_attribute_of_its_package():
    print_of(
        LOADED + "from openai.types import beta; from openai.types.beta import assistant; assert assistant.Assistant"
    )


def test_packages_that_the_host_or_another_thread_imports_are_whole():
    print_of("import openai.types.beta, types\n" + LOADED + "assert type(openai.types.beta) is types.ModuleType")
    print_of(
        """
import sys, threading, types
from agentkit.models.litellm.importing import _defer_packages
with _defer_packages():
    thread = threading.Thread(target=__import__, args=("openai.types.beta",))
    thread.start()
    thread.join()
assert type(sys.modules["openai.types.beta"]) is types.ModuleType
"""
    )


def test_an_import_hook_of_the_host_sees_the_packages():
    print_of(
        """
import sys
from importlib.machinery import PathFinder, SourceFileLoader

class Hook(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        seen.append(module.__name__)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "openai.types.beta" else None
        if spec is not None:
            spec.loader = Hook(spec.loader.name, spec.loader.path)
        return spec

seen = []
sys.meta_path.insert(0, Finder)
"""
        + LOADED
        + "assert seen == ['openai.types.beta'], seen"
    )


FAILURE = (
    LOADED
    + """
from agentkit import JsonAgent, ModelError
try:
    JsonAgent(len, model="openai/gpt-4o-mini", api_base=sys.argv[1], api_key="sk-test-0123456789", retries=0)("hi")
except ModelError as error:
    assert error.status == 401
assert "fastapi" not in sys.modules
from litellm.proxy.guardrails.exception_utils import is_fastapi_http_exception
from fastapi.exceptions import HTTPException
assert is_fastapi_http_exception(HTTPException(400), {400})
assert not is_fastapi_http_exception(HTTPException(401), {400})
assert not is_fastapi_http_exception(ValueError(), {400})
"""
)


def test_a_file_of_certificates_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "authority.pem"
    file.write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    program = """
from agentkit import DefinitionError, JsonAgent
def add(a: int) -> int:
    "Add."
    return a
agent = JsonAgent(add, model="openai/m", api_key="k", api_base="http://127.0.0.1:9/v1")
for _ in range(2):
    try:
        agent("Hi")
    except DefinitionError as error:
        print(error)
"""
    first, second = print_of(program).splitlines()
    assert first == second
    assert f"Is SSL_CERT_FILE={file} a file of certificates (PEM)?" in first


def test_a_failure_loads_no_web_framework():
    with ModelServer(401, 401) as server:
        print_of(FAILURE, server.api_base("openai"))


ASKING = """
import sys
from agentkit.core.errors import ModelError
from agentkit.core.messages import user
from agentkit.engine.model import Request
from agentkit.models import LiteLLMModel
from agentkit.tools.registry import ToolRegistry
model = LiteLLMModel("openai/m", api_base=sys.argv[1], api_key="k")
request = Request([user("hi")], ToolRegistry())
"""
SYNC = "\ntry: list(model.ask(request))\nexcept ModelError as error: print(error.transient, error)"
ASYNC = """
import asyncio
async def ask():
    print([piece async for piece in model.aask(request)][-1].message["content"])
asyncio.run(ask())
"""


def test_a_proxy_setting_that_httpx_cannot_read_is_named_and_async_runs_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,[::1]")
    with ModelServer("hello") as server:
        refused = print_of(ASKING + SYNC, server.api_base("openai"))
        assert refused.startswith("False openai/m: Invalid port: ':1]'")
        assert "stands in HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY" in refused
        assert print_of(ASKING + ASYNC, server.api_base("openai")) == "hello\n"


INTERRUPTED = """
import signal, sys, threading, time
from agentkit import JsonAgent
from agentkit.models.litellm.importing import is_loaded
from agentkit.testing.server import ModelServer

class TimeLimit(Exception):
    pass

def price_of(item: str) -> float:
    "Look up the price of an item."
    return 3.5

def limit(*_):
    raise TimeLimit

def send():
    while "litellm.types" not in sys.modules:
        time.sleep(0.001)
    assert not is_loaded()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

signal.signal(signal.SIGUSR1, limit)
with ModelServer("done", "done") as server:
    agent = JsonAgent(price_of, model="openai/gpt-4o-mini", api_base=server.api_base("openai"), api_key="k")
    threading.Thread(target=send).start()
    try:
        agent.run("one")
    except TimeLimit:
        print("limited", not is_loaded(), agent("two"))
"""


def test_a_time_limit_of_the_host_may_end_the_first_request_while_litellm_is_imported():
    assert print_of(INTERRUPTED) == "limited True done\n"
