"""What one run changes of its agent: values, limits, listeners, policies, options of the model."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from ..core.context import RunContext
from ..core.errors import DefinitionError
from .interface import AgentT


def override(agent: AgentT, settings: Mapping[str, Any]) -> AgentT:
    """Return `agent`, or a copy with the `RunSettings` of a run; raise `DefinitionError` for an invalid value."""
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
