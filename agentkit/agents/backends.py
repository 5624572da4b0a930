"""From what a user calls a model to the backend that is asked."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from ..core.errors import DefinitionError
from ..core.masking import MaskedDict
from ..core.notebook import find_kernel
from ..engine.model import Model
from ..models.litellm.model import LiteLLMModel, begin_import
from ..models.offline import OfflineModel

VARIABLE = "AGENTKIT_MODEL"
OFFLINE = "offline"
ALIKE = 0.8
"""From which likeness on a name is a slip of the pen; litellm's own options are further from ours than that."""
NO_MODEL = (
    f"no model is named (model=... or {VARIABLE}), so the embedded offline model answers: it matches words, "
    "it does not understand them"
)


_OF_THE_ACCOUNT = re.compile(
    r"api_.+|base_url|organization|custom_llm_provider|(?:extra_)?headers|extra_(?:body|query)|(?:aws|azure|vertex)_.+"
    r"|.+_(?:key|token|secret|password|credentials)"
)


def spelt(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """`options` of a model; raises `DefinitionError` where one is an agent's own parameter (`names`), but misspelt."""
    for option in options:
        if meant := get_close_matches(option, names, 1, ALIKE):
            text = f"{option!r} is no parameter of an agent; did you mean {meant[0]!r}?"
            raise DefinitionError(f"{text} (Options of models pass, but none is called so.)")
    return options


class Backends:
    """The backends of one agent, each made once; `options` go to every model that litellm serves.

    Those among them that say where the first model is and who asks it (keys, addresses, headers) are its own: a model
    of another provider does without.
    """

    def __init__(self, options: dict[str, Any], timeout: float | None = None) -> None:
        self.options = MaskedDict(options if timeout is None else {"timeout": timeout, **options})
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


def several(models: str | Sequence[str | Model]) -> tuple[str | Model, ...]:
    """The models, of which a single one may be given by its name alone."""
    return (models,) if isinstance(models, str) else tuple(models)


def soon_asked(model: str | Model | None) -> None:
    """Begin to load what will ask `model`, where a person types the query meanwhile: a prompt or a notebook.

    In a script, whose next line asks, nothing is won by that: the two share the interpreter.
    """
    named, _ = chosen(model)
    if isinstance(named, str) and named != OFFLINE and (hasattr(sys, "ps1") or find_kernel() is not None):
        begin_import()


def _provider(name: str) -> str:
    return name.partition("/")[0]
