"""The process of an isolated call: read the call, run it, write its outcome.

It imports agentkit only where it must, because that import costs more than the rest; therefore it is run by its path.
"""

import importlib
import inspect
import io
import json
import os
import pickle
import runpy
import signal
import struct
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from typing import Any, BinaryIO

LENGTH_PREFIX = struct.Struct("!Q")


def find_function(module: str, qualname: str) -> Any:
    """Return the function of that name as it was defined, without decorators like `@tool`."""
    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = inspect.getattr_static(found, name) if inspect.isclass(found) else getattr(found, name)
    while not isinstance(found, types.FunctionType):
        found = found.__wrapped__ if hasattr(found, "__wrapped__") else found.__func__
    return found


class CallUnpickler(pickle.Unpickler):
    """Reads what the other process wrote; classes of a script are in `__main__` on both sides."""

    def persistent_load(self, name: Any) -> Any:
        """Return the function that was pickled by its name."""
        return find_function(*name)

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of that name."""
        return super().find_class("__main__" if module == "__mp_main__" else module, name)


def serve_call(is_supervised: bool) -> None:
    """Read one call from standard input, run it, and write its outcome, as JSON, to standard output.

    A supervisor ends this process when the parent has ended; without one, a thread does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles an interrupt and kills this process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of the tool is not the outcome
    calls = sys.stdin.buffer
    length = LENGTH_PREFIX.unpack(calls.read(LENGTH_PREFIX.size))[0]
    main, call = pickle.loads(calls.read(length))
    if not is_supervised:
        threading.Thread(target=_watch, args=(calls,), daemon=True).start()
    answer = json.dumps(_run_call(main, call)).encode()
    answers.write(LENGTH_PREFIX.pack(len(answer)) + answer)
    answers.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without waiting for threads of the tool


def _watch(calls: BinaryIO) -> None:
    """End this process when the parent has ended, because there is no reader for the outcome."""
    calls.read()
    os._exit(1)


def _run_call(main: tuple[str, str] | None, call: bytes) -> dict[str, Any]:
    """Return the outcome as JSON data: a value, an exception, or the reason why the call could not run."""
    try:
        _import_main(main)
        ready = CallUnpickler(io.BytesIO(call)).load()
    except BaseException as error:
        return {"problem": f"{type(error).__name__}: {error}"}
    try:
        value = ready()
        is_lazy = inspect.isawaitable(value) or inspect.isasyncgen(value) or isinstance(value, Iterator)
        if is_lazy:
            background = importlib.import_module("agentkit.core.background")
            value = background.resolve(value, background.MAX_ITEMS)
        if _is_plain(value):
            return {"value": value}
        rendered = importlib.import_module("agentkit.tools.results.result_text").render_result(value)
        return {"data": _to_data(value), "text": rendered.text, "images": list(rendered.images), "is_lazy": is_lazy}
    except BaseException as error:
        return _describe_failure(error)


def _is_plain(value: Any) -> bool:
    """Return whether a value is exactly what JSON has, so that it arrives unchanged."""
    if isinstance(value, dict):
        return type(value) is dict and all(type(key) is str and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return type(value) is list and all(map(_is_plain, value))
    return value is None or type(value) in (str, int, float, bool)


def _to_data(value: Any) -> Any:
    try:
        return importlib.import_module("pydantic_core").to_jsonable_python(value)
    except Exception:
        return None


def _describe_failure(error: BaseException) -> dict[str, Any]:
    """Return an exception as JSON data: its class by name, its arguments if they are plain, its text and traceback."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, BaseExceptionGroup):
        text += ": " + "; ".join(f"{type(one).__name__}: {one}" for one in error.exceptions)
    cls = type(error)
    arguments = list(error.args)
    return {
        "error": [cls.__module__, cls.__qualname__],
        "arguments": arguments if _is_plain(arguments) else None,
        "text": text,
        "trace": "".join(traceback.format_exception(error)),
    }


def _import_main(main: tuple[str, str] | None) -> None:
    """Import the parent's script as `__main__`, under the name `__mp_main__` as `multiprocessing` does."""
    if main is None:
        return
    kind, name = main
    run = runpy.run_path if kind == "path" else runpy.run_module
    with importlib.import_module("agentkit.core.host").importing_main():
        content = run(name, run_name="__mp_main__")
    module = types.ModuleType("__mp_main__")
    vars(module).update(content)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
