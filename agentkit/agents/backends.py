"""From the name of a model to its backend."""

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
from ..models.litellm.importing import begin_import
from ..models.litellm.model import LiteLLMModel
from ..models.offline import OfflineModel

MODEL_VARIABLE = "AGENTKIT_MODEL"
OFFLINE = "offline"
MAX_DERIVED = 8
"""How many sets of a run's options keep their backends."""
MIN_LIKENESS = 0.8
"""Similarity from which an option is taken for a misspelt parameter; litellm's own options are less similar."""
NO_MODEL = (
    f"no model is named (model=... or {MODEL_VARIABLE}), so the embedded offline model answers: it matches words, "
    "it does not understand them"
)


_ACCOUNT_OPTION = re.compile(
    r"api_.+|base_url|organization|custom_llm_provider|(?:extra_)?headers|extra_(?:body|query)|(?:aws|azure|vertex)_.+"
    r"|.+_(?:key|token|secret|password|credentials)"
)


def check_option_names(options: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the `options` of a model.

    Raises:
        DefinitionError: An option is a misspelt parameter of an agent (`names`).
    """
    for option in options:
        if meant := get_close_matches(option, names, 1, MIN_LIKENESS):
            raise DefinitionError(f"JsonAgent() got an unexpected parameter {option!r}. Did you mean {meant[0]!r}?")
    return options


class Backends:
    """The backends of one agent, each created once.

    Args:
        options: The options of every model that litellm serves.  Keys, addresses and headers belong to the first
            model's account; models of other providers do not get them.
        timeout: Seconds for a reply.
    """

    def __init__(self, options: dict[str, Any], timeout: float | None = None) -> None:
        self.options = MaskedDict(options if timeout is None else {"timeout": timeout, **options})
        self.for_run: frozenset[str] = frozenset()
        self._made: dict[str, Model] = {}
        self._derived: dict[str, Backends] = {}

    def with_options(self, options: dict[str, Any]) -> "Backends":
        """Return backends with further options, which replace those of the same name; the last few are kept."""
        if not options:
            return self
        key = repr(sorted(options.items()))
        if key not in self._derived:
            self._derived = dict([*self._derived.items()][1 - MAX_DERIVED :])
            self._derived[key] = Backends({**self.options, **options})
            self._derived[key].for_run = frozenset(options)
        return self._derived[key]

    def backend(self, model: str | Model, first: str | Model | None = None) -> Model:
        """Return the backend for a name, or the object itself; `first` is the model whose account the options name."""
        if self.for_run and (not isinstance(model, str) or model == OFFLINE):
            name = "the offline model" if model == OFFLINE else repr(model)
            names = ", ".join(sorted(self.for_run))
            raise DefinitionError(f"{names}: {name} takes no options of a run. Leave them out.")
        if not isinstance(model, str):
            return model
        if model not in self._made:
            options: dict[str, Any] = self.options
            if isinstance(first, str) and first != OFFLINE and _provider(first) != _provider(model):
                others = {key: value for key, value in options.items() if not _ACCOUNT_OPTION.fullmatch(key)}
                options = MaskedDict(others)
            self._made[model] = OfflineModel() if model == OFFLINE else LiteLLMModel(model, **options)
        return self._made[model]


def resolve_model(*models: str | Model | None) -> tuple[str | Model, str]:
    """Return the first model that is given, else the environment's, else the embedded one; and a notice about it."""
    named = next((model for model in models if model), None) or os.environ.get(MODEL_VARIABLE)
    return (named, "") if named else (OFFLINE, NO_MODEL)


def list_models(models: str | Sequence[str | Model]) -> tuple[str | Model, ...]:
    """Return the models as a tuple; a single name is one model."""
    return (models,) if isinstance(models, str) else tuple(models)


def preload(model: str | Model | None) -> None:
    """Start to import the backend of `model` in a prompt or a notebook, while the person types the query.

    In a script that gains no time: the import and the next line share the interpreter.
    """
    named, _ = resolve_model(model)
    if isinstance(named, str) and named != OFFLINE and (hasattr(sys, "ps1") or find_kernel() is not None):
        begin_import()


def _provider(name: str) -> str:
    return name.partition("/")[0]
