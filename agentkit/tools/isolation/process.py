"""Calls in a process of their own (`isolate="process"`), for tools that must be stopped for certain or may crash.

The child is a new Python that finds the function by import: it must stand at the top level of a module, or of the
script that is run (then what starts the agent belongs under `if __name__ == "__main__":`, for the child runs the rest).
Arguments and results are pickled, and so is the object of a method; a result that cannot be comes as the text that the
model reads, an exception as one of its name and text.  What the child prints goes to standard error.  It is killed,
with the processes that it began, when the call is given up, and ends when this process does; a crash is told to the
model.  A call takes as long as a new Python needs to start and to import the function's module: some 40 ms, and 200 ms
where that imports agentkit.
"""

import io
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
from typing import Any

from ...core.context import wants_run
from ...core.errors import DefinitionError
from ...core.threads import on_cancel
from . import child

_CODE = """\
import importlib.util, sys
sys.path[:] = {path!r}
spec = importlib.util.spec_from_file_location("agentkit.tools.isolation.child", {child!r})
sys.modules["agentkit.tools.isolation.child"] = child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)
child.serve()
"""


class NotIsolable(DefinitionError):
    """A function, or what goes to it or comes from it, cannot be had in another process."""


class ProcessEnded(Exception):
    """The process of an isolated call ended without a result."""


class _CallPickler(pickle.Pickler):
    """Writes functions by their names, also those that a decorator has hidden."""

    def persistent_id(self, value: Any) -> Any:
        """The name of a function; None for anything else."""
        return (value.__module__, value.__qualname__) if isinstance(value, types.FunctionType) else None


def run_isolated(tool: str, ready: Callable[[], Any]) -> Any:
    """Make the call `ready` of `tool` in a child process; gives its value, or raises what it raised there.

    Raises `ProcessEnded` when the child ended without either, and `NotIsolable`.
    """
    request = _pickle_request(tool, ready)
    code = _CODE.format(path=sys.path, child=child.__file__)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            with on_cancel(partial(_kill, process)):
                answer = _exchange(process, request)
        except BaseException:
            _kill(process)
            raise
    if answer is None:
        raise ProcessEnded(f"{tool} ended its process without a result ({_describe_exit(process.returncode)})")
    return _read_outcome(tool, *pickle.loads(answer))


def check_isolable(tool: str, function: Callable[..., Any], injected: Mapping[str, Any]) -> None:
    """Raise `DefinitionError` if it is certain that `function` cannot be had in another process."""
    while isinstance(function, partial):
        function = function.func
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", "")
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
    """The call and, if it needs it, the script that was started; raises `NotIsolable`."""
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
    """How the program that is running can be imported: by the name of its module or its path, or not at all."""
    main = sys.modules["__main__"]
    if spec := getattr(main, "__spec__", None):
        return "module", spec.name
    path = Path(getattr(main, "__file__", None) or "")
    return ("path", str(path.absolute())) if path.is_file() else None


def _read_outcome(tool: str, kind: str, data: Any) -> Any:
    if kind == "problem":
        raise NotIsolable(f"the tool {tool!r}, isolate='process': {data}")
    try:
        if kind == "value":
            return child.CallUnpickler(io.BytesIO(data)).load()
        error = child.CallUnpickler(io.BytesIO(data[0])).load() if data[0] else None
    except Exception as problem:
        raise NotIsolable(f"the tool {tool!r}, isolate='process': what it gave cannot be read ({problem})") from problem
    raise error or type(data[1], (Exception,), {})(data[2])  # one of its name, if it cannot be handed over itself


def _exchange(process: "subprocess.Popen[bytes]", request: bytes) -> bytes | None:
    """Hand over the request and wait for the answer; None if none comes."""
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
    with suppress(OSError):  # it has just ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
