"""The program around agentkit: its versions, whether it is a notebook, and whether its script is only imported."""

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("agentkit", "litellm", "pydantic")


@cache
def find_versions() -> dict[str, str]:
    """Return the versions of Python and of `PACKAGES`, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def find_kernel() -> Any:
    """Return the kernel whose cells run the program, or None."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_ipython(), "kernel", None) if get_ipython is not None else None


_imports: list[None] = []


@contextmanager
def importing_main() -> Iterator[None]:
    """Let no run begin in the body, which imports the script to find a function in it."""
    _imports.append(None)
    try:
        yield
    finally:
        _imports.pop()


def check_main() -> None:
    """Raise `RuntimeError` when a script starts an agent while it is imported to find a function in it."""
    if _imports:
        raise RuntimeError(
            "the script starts an agent when it is imported, and a process that is to run one of its tools must import "
            "it: put what starts the agent under `if __name__ == '__main__':`"
        )


def import_file(path: Path) -> ModuleType:
    """Import a file as a module of its name; the modules beside it can be imported, too."""
    name = path.stem if path.stem not in {*sys.modules, *sys.stdlib_module_names} else f"{path.stem}_of_tools"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module
