"""From what a user calls a model to the backend that is asked."""

import os
import re
from typing import Any

from .litellm_model import LiteLLMModel
from .model import Model
from .offline import OfflineModel
from .secrets import MaskedDict

VARIABLE = "AGENTKIT_MODEL"
OFFLINE = "offline"
NO_MODEL = (
    f"no model is named (model=... or {VARIABLE}), so the embedded offline model answers: it matches words, "
    "it does not understand them"
)


_OF_THE_ACCOUNT = re.compile(
    r"api_.+|base_url|organization|custom_llm_provider|(?:extra_)?headers|extra_(?:body|query)|(?:aws|azure|vertex)_.+"
    r"|.+_(?:key|token|secret|password|credentials)"
)


class Backends:
    """The backends of one agent, each made once; `options` go to every model that litellm serves.

    Those among them that say where the first model is and who asks it (keys, addresses, headers) are its own: a model
    of another provider does without.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = MaskedDict(options)
        self._made: dict[str, Model] = {}

    def backend(self, model: str | Model, first: str | Model | None = None) -> Model:
        """The backend for a name, or the object itself; `first` is the model that `options` were meant for."""
        if not isinstance(model, str):
            return model
        if model not in self._made:
            options: dict[str, Any] = self.options
            if isinstance(first, str) and first != OFFLINE and _provider(first) != _provider(model):
                others = {key: value for key, value in options.items() if not _OF_THE_ACCOUNT.fullmatch(key)}
                options = MaskedDict(others)
            self._made[model] = OfflineModel() if model == OFFLINE else LiteLLMModel(model, **options)
        return self._made[model]


def chosen(*models: str | Model | None) -> tuple[str | Model, str]:
    """The first of `models` that is one, else the environment's, else the embedded one; and what to say about it."""
    named = next((model for model in models if model), None) or os.environ.get(VARIABLE)
    return (named, "") if named else (OFFLINE, NO_MODEL)


def _provider(name: str) -> str:
    return name.partition("/")[0]
