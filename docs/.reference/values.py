"""Let the reference show a class under `frozen` with its parameters, as it shows a dataclass."""

from typing import Any

import griffe

_DATACLASSES = griffe.Module("dataclasses")
_DATACLASSES["dataclass"] = griffe.Function("dataclass")


class ValuesInReference(griffe.Extension):
    """Name `dataclasses.dataclass` as the decorator of values, which griffe knows."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        for decorator in cls.decorators:
            if decorator.callable_path == "agentkit.core.values.frozen":
                called = griffe.ExprName("dataclass", parent=_DATACLASSES)
                if isinstance(decorator.value, griffe.ExprCall):
                    decorator.value.function = called
                else:
                    decorator.value = called
