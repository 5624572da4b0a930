"""What one run changes of its agent: values, limits, listeners, policies, options of the model."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from ..core.context import RunContext
from ..core.errors import DefinitionError
from ..core.flow import Listener
from ..tools.registry import ToolRegistry
from .backends import Backends
from .settings import Settings


class Adjustable(Protocol):
    """What this file needs of an agent."""

    deps: Any
    listeners: tuple[Listener, ...]
    _settings: Settings
    _backends: Backends

    @property
    def tools(self) -> ToolRegistry: ...


AgentT = TypeVar("AgentT", bound=Adjustable)


def override(agent: AgentT, settings: Mapping[str, Any]) -> AgentT:
    """Return `agent`, or a copy of it with the `RunSettings` of a run.

    Raises:
        DefinitionError: A value is not valid, or `deps` lacks a value that a tool needs.
    """
    options = dict(settings)
    deps = options.pop("deps", agent.deps)
    if deps is not agent.deps or deps is None:
        agent.tools.check_injected(RunContext(deps))
    if not settings:
        return agent
    twin = copy(agent)
    twin.deps = deps
    twin.listeners = (*agent.listeners, *_check_functions("listeners", options.pop("listeners", ())))
    changed = {name: options.pop(name) for name in ("limits", "max_steps") if name in options}
    policies = (*agent._settings.policies, *_check_functions("policies", options.pop("policies", ())))
    twin._settings = replace(agent._settings, **changed, policies=policies)
    twin._backends = agent._backends.with_options(options)
    return twin


def _check_functions(name: str, functions: Any) -> Iterable[Any]:
    if callable(functions) or not isinstance(functions, Iterable):
        raise DefinitionError(f"{name} must be a list of functions, got {functions!r:.80}")
    return functions
