"""Run calls in a process of their own (`isolate="process"`), for tools that must be stoppable or may crash.

The child is a new Python that imports the function, so it must be at the top level of a module or of the script.  In a
script, the code that starts the agent belongs under `if __name__ == "__main__":`, because the child runs the rest.
Arguments and the object of a method are pickled.  Results and exceptions come back as JSON, because what the child
writes is not trusted: a dataclass or a model needs a return annotation to arrive as one, a value without a JSON form
arrives as the text that the model reads, and an exception as one of its class or name.  The child's output goes to
standard error.  When the call is cancelled or this process ends, the child ends.  However the child ends, so does every
process that it started: on Linux also one with a session of its own (see `supervisor`), elsewhere its process group.
The model reads of a crash.
A call takes as long as a new Python needs to start and to import the function's module: about 40 ms, and 200 ms if the
module imports agentkit.
"""

import inspect
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter
from typing_extensions import get_type_hints

from ...core.context import wants_run
from ...core.errors import DefinitionError
from ...core.threads import on_cancel
from ...schemas.signature import unwrap_function
from ..results.result_text import RenderedResult, StoredResult, render_text
from . import child, supervisor

_CODE = """\
import importlib.util, sys
sys.path[:] = {path!r}
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
is_supervised = load("agentkit.tools.isolation.supervisor", {supervisor!r}).supervise()
load("agentkit.tools.isolation.child", {child!r}).serve_call(is_supervised)
"""


class NotIsolable(DefinitionError):
    """A function, its arguments or its result cannot be transferred to another process."""


class ProcessEnded(Exception):
    """The process of an isolated call ended without a result."""


class _CallPickler(pickle.Pickler):
    """Pickles functions by name, also functions that a decorator replaced in their module."""

    def persistent_id(self, value: Any) -> Any:
        """Return the name of a function; None for any other object."""
        return (value.__module__, value.__qualname__) if isinstance(value, types.FunctionType) else None


def run_isolated(tool: str, ready: Callable[[], Any]) -> Any:
    """Run the call `ready` of `tool` in a child process, and return its value or raise its exception.

    Raises:
        ProcessEnded: the child ended without an outcome.
        NotIsolable: the call or its outcome cannot be transferred.
    """
    request = _pickle_request(tool, ready)
    code = _CODE.format(path=sys.path, child=child.__file__, supervisor=supervisor.__file__)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            with on_cancel(partial(_kill, process)):
                answer = _exchange(process, request)
        except BaseException:
            _kill(process)
            raise
        if sys.platform != "linux":
            process.wait()
            _kill(process)
    if answer is None:
        raise ProcessEnded(f"{tool} ended its process without a result ({_describe_exit(process.returncode)})")
    return _read_outcome(tool, ready, json.loads(answer))


def check_isolable(tool: str, function: Callable[..., Any], injected: Mapping[str, inspect.Parameter]) -> None:
    """Raise `DefinitionError` if `function` certainly cannot be imported in another process."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", "")
    reason = ""
    if wants_run(injected.values()):
        reason = "it takes the RunContext, which is of this process: take what it needs as an argument"
    elif "<lambda>" in name or "<locals>" in name:
        reason = f"{name} stands inside a function: define it at the top level of a module"
    elif module == "__main__" and _find_main() is None:
        reason = f"{name} is defined in a notebook or at the prompt: put it into a module and import it from there"
    if reason:
        raise DefinitionError(f"the tool {tool!r} cannot have isolate='process': {reason}")


def _pickle_request(tool: str, ready: Callable[[], Any]) -> bytes:
    """Return the call and, if it needs it, the started script; raises `NotIsolable`."""
    data = io.BytesIO()
    try:
        _CallPickler(data).dump(ready)
    except Exception as error:
        raise NotIsolable(
            f"the tool {tool!r}, isolate='process': its arguments cannot be pickled ({type(error).__name__}: {error})"
        ) from error
    call = data.getvalue()
    return pickle.dumps((_find_main() if b"__main__" in call else None, call))


def _find_main() -> tuple[str, str] | None:
    """Return how the running program can be imported, by module name or by path; None if it cannot."""
    main = sys.modules["__main__"]
    if spec := getattr(main, "__spec__", None):
        return "module", spec.name
    path = Path(getattr(main, "__file__", None) or "")
    return ("path", str(path.absolute())) if path.is_file() else None


def _read_outcome(tool: str, ready: Callable[[], Any], outcome: dict[str, Any]) -> Any:
    if "problem" in outcome:
        raise NotIsolable(f"the tool {tool!r}, isolate='process': {outcome['problem']}")
    if "value" in outcome:
        return outcome["value"]
    if "error" in outcome:
        error = _make_error(outcome)
        error.add_note(outcome["trace"])
        raise error
    hint = None if outcome["is_lazy"] else _find_return_type(ready)
    if hint is not None and outcome["data"] is not None:
        with suppress(Exception):  # the type is not one that pydantic validates, or the data does not fit
            return TypeAdapter(hint).validate_json(json.dumps(outcome["data"]))
    if render_text(outcome["data"]) == outcome["text"]:
        return outcome["data"]
    return StoredResult(outcome["data"], RenderedResult(outcome["text"], outcome["images"]))


def _make_error(outcome: dict[str, Any]) -> Exception:
    """Return the exception if its class is loaded here and can be made from its arguments; else one with its name.

    What ended the other process, an interrupt say, ends the call and not this program.
    """
    module, name = outcome["error"]
    cls = getattr(sys.modules.get(module), name, None)
    if outcome["arguments"] is not None and isinstance(cls, type) and issubclass(cls, Exception):
        with suppress(Exception):
            error: Exception = cls(*outcome["arguments"])
            if str(error) == outcome["text"]:
                return error
    return cast("Exception", type(name.rpartition(".")[2], (Exception,), {})(outcome["text"]))


def _find_return_type(ready: Callable[[], Any]) -> Any:
    try:
        hint = get_type_hints(unwrap_function(ready), include_extras=True).get("return")
    except Exception:
        return None
    return None if hint in (Any, object) else hint


def _exchange(process: "subprocess.Popen[bytes]", request: bytes) -> bytes | None:
    """Send the request and return the answer; None if the child ends without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError), process.stdin as requests:
        requests.write(child.LENGTH_PREFIX.pack(len(request)) + request)
        requests.flush()
        header = process.stdout.read(child.LENGTH_PREFIX.size)
        if len(header) == child.LENGTH_PREFIX.size:
            return process.stdout.read(child.LENGTH_PREFIX.unpack(header)[0])
    return None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End the child: on Linux through its supervisor, elsewhere with its process group."""
    with suppress(OSError):  # it has already ended
        if sys.platform == "linux":
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        elif hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
