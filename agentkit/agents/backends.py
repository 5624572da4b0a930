"""From the name of a model to its backend."""

import json
import math
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ..core.errors import DefinitionError, ModelError, suggest
from ..core.host import find_kernel
from ..core.masking import MaskedDict
from ..core.messages import Message, calls_of, text_of
from ..core.parts import parts_of
from ..core.values import frozen
from ..engine.history.size import IMAGE_CHARACTERS
from ..engine.model import Model, Request
from ..models.litellm.importing import begin_import
from ..models.litellm.parameters import ACCOUNT_OPTION, REQUEST_PARAMETERS, RESERVED_PARAMETERS, check_body
from ..models.local import LOCAL_OPTIONS, LOCAL_PREFIX, LocalModel
from ..models.offline import OfflineModel
from ..policies.limits import UNSET, find_limit
from ..tools.settings import check_timeout

MODEL_VARIABLE = "AGENTKIT_MODEL"
OFFLINE = "offline"
MAX_DERIVED = 8
"""How many sets of a run's options keep their backends."""
MIN_OPTION_LIKENESS = 0.75
"""Similarity from which an unknown option is taken for a misspelt parameter."""
NO_MODEL = (
    f"no model is named (model=... or {MODEL_VARIABLE}), so the embedded offline model answers: it matches words, "
    "it does not understand them"
)


PARAMETER_TERMS = {
    **dict.fromkeys(
        ("instructions", "system_prompt", "system_message", "system", "prompt", "backstory"), "description"
    ),
    **dict.fromkeys(("output_type", "result_type", "response_model", "output_schema"), "answer"),
    **dict.fromkeys(("default_model", "llm", "model_name", "model_id"), "model"),
    **dict.fromkeys(("max_turns", "max_iterations", "max_iter", "recursion_limit"), "max_steps"),
    **dict.fromkeys(("max_retries", "num_retries"), "retries"),
    **dict.fromkeys(("deps_type", "context"), "deps"),
    **dict.fromkeys(("callbacks", "hooks", "callback"), "listeners"),
    **dict.fromkeys(("input_guardrails", "output_guardrails", "output_validators"), "checks"),
    "fallbacks": "fallback_models",
    "usage_limits": "limits",
    "human_in_the_loop": "approve",
}
"""Parameters of other frameworks, and of litellm's own loop, and what they are called here."""
OTHER_TERMS = {
    **{
        name: f"It is an option of a run: agent.run(query, {name}=...)."
        for name in ("approvals", "answers", "session", "record", "label", "dry_run")
    },
    **dict.fromkeys(
        ("messages", "history", "message_history", "chat_history"),
        "A conversation is a session: agent.run(query, session=Session(messages)).",
    ),
    "stream": "agent.stream(query) yields what happens.",
    "name": 'An agent gets its name where it is used: agent.as_tool("name", "..."), handoffs={"name": agent}.',
    "verbose": "agentkit.log.show() prints the steps of a run.",
    "debug": "agentkit.log.show() prints the steps of a run.",
    "tool_format": "The model's backend chooses the format of the tools. tool.schema('anthropic') returns one.",
}
"""Parameters of runs and of other frameworks that no parameter replaces, and what does."""


def check_model(model: Any) -> Any:
    """Return `model`, a name, None or an object with the methods of `Model`.

    Raises:
        DefinitionError: It is something else, a function or a class among them.
    """
    if model is None or (isinstance(model, str) and model):
        return model
    if isinstance(model, type) and _can_ask(model):
        raise DefinitionError(f"model must be an object, got its class. Write model={model.__name__}(...)")
    if not hasattr(model, "name") or not _can_ask(model):
        wanted = 'a name ("openai/gpt-4o-mini", "offline") or an object with `name`, `ask` and `aask`, see Model'
        raise DefinitionError(f"model must be {wanted}; got {model!r:.80}")
    return model


def is_model_selector(model: Any) -> bool:
    """Return whether `model` is a function of the run that returns a model, rather than a model."""
    return callable(model) and not isinstance(model, type) and not hasattr(model, "name") and not _can_ask(model)


class ModelOfRun:
    """Stand for the model of an agent whose function chooses one for each run, where no run has begun."""

    name = "chosen for each run"

    def ask(self, _: Request) -> NoReturn:
        """Raise `DefinitionError`: only a run knows its model."""
        raise DefinitionError("the model is chosen by a function of the run. Ask the agent.")

    aask = ask


def _can_ask(model: Any) -> bool:
    return callable(getattr(model, "ask", None)) or callable(getattr(model, "aask", None))


class Backends:
    """The backends of one agent, each created once.

    `options` are those of every model that litellm serves.  Keys, addresses and headers belong to the first model's
    account; models of other providers do not get them.  `timeout` is in seconds for a reply, None for no limit.
    """

    def __init__(
        self, options: dict[str, Any], timeout: float | None = UNSET, fallbacks: Sequence[str | Model] = ()
    ) -> None:
        self.options = MaskedDict(options if timeout is UNSET else {"timeout": timeout or math.inf, **options})
        self._given = frozenset(options)
        self.for_run: frozenset[str] = frozenset()
        self.fallbacks = fallbacks
        self._created: dict[str, Model] = {}
        self._derived: dict[str, Backends] = {}
        self._notices: set[str] = set()

    def with_options(self, options: dict[str, Any], timeout: float | None = UNSET) -> "Backends":
        """Return backends with options, and a time for a reply, that replace those of before; the last few are kept."""
        changed = options if timeout is UNSET else {**options, "timeout": timeout or math.inf}
        if not changed:
            return self
        key = repr(sorted(changed.items()))
        if key not in self._derived:
            self._derived = dict([*self._derived.items()][1 - MAX_DERIVED :])
            derived = self._derived[key] = Backends({**self.options, **changed}, fallbacks=self.fallbacks)
            derived.for_run = frozenset(options)
            derived._notices = self._notices
        return self._derived[key]

    def check_options(self, first: Any, names: Iterable[str]) -> None:
        """Check the options, the keywords of `JsonAgent` that are not among its parameters (`names`).

        Raises:
            DefinitionError: An option is neither a parameter of an agent nor one that litellm documents; or there are
                options, and no model takes them: the embedded one and objects have none; or a local model does not take
                the value of one.
        """
        if is_model_selector(first):
            served: list[Any] = ["a model that the run chooses"]
        else:
            served = [resolve_model(model) for model in (first, *self.fallbacks)]
        check_body(self.options)
        if "timeout" in self._given:
            check_timeout(self.options["timeout"], "timeout")
        for option in sorted(self._given):
            wrong = f"JsonAgent() got an unexpected parameter {option!r}."
            if option in LOCAL_OPTIONS and any(_is_local(model) for model in served):
                continue
            if reason := _explain_unknown(option, names):
                raise DefinitionError(f"{wrong} {reason}")
            if all(model == OFFLINE for model in served):
                raise DefinitionError(
                    f'{wrong} The embedded offline model has no options. Name a model: model="provider/name".'
                )
            if not any(isinstance(model, str) and model != OFFLINE for model in served):
                raise DefinitionError(
                    f"{wrong} A model that is an object has its own options. Give them to the object."
                )
        for model in served:
            if isinstance(model, str) and (_is_local(model) or model.endswith(".gguf")):
                self.backend(model, first)

    def choose(self, model: str | Model | None, first: str | Model | None) -> tuple[Model, str]:
        """Return the backend for a run, and a notice about the choice the first time that there is one.

        `model` is the model of the run, or None; `first` is that of the agent.
        """
        named = find_model(check_model(model), first)
        notice = "" if named else NO_MODEL
        is_new = notice not in self._notices
        self._notices.add(notice)
        return self.backend(named, first), notice if is_new else ""

    def backend(self, model: str | Model | None, first: str | Model | None = None) -> Model:
        """Return the backend for a name, or the object itself; `first` is the model whose account the options name."""
        model = resolve_model(model)
        first = resolve_model(first)
        if self.for_run and (not isinstance(model, str) or model == OFFLINE):
            name = "the offline model" if isinstance(model, str) else f"the model {model.name!r}, an object,"
            names = ", ".join(sorted(self.for_run))
            raise DefinitionError(f"{names}: {name} takes no options of a run. Leave them out.")
        if not isinstance(model, str):
            return model
        if model not in self._created:
            options: dict[str, Any] = self.options
            provider = model.partition("/")[0]
            if isinstance(first, str) and first != OFFLINE and first.partition("/")[0] != provider:
                others = {key: value for key, value in options.items() if not ACCOUNT_OPTION.fullmatch(key)}
                options = MaskedDict(others)
            self._created[model] = _create(model, options)
        return self._created[model]


def _create(name: str, options: Mapping[str, Any]) -> Model:
    """Return the backend for a name: the embedded model, one in a file, or one of litellm."""
    if name == OFFLINE:
        return OfflineModel()
    if name.startswith(LOCAL_PREFIX):
        return LocalModel(name, **{key: value for key, value in options.items() if not ACCOUNT_OPTION.fullmatch(key)})
    if name.endswith(".gguf"):
        path = name.removeprefix("./")
        raise DefinitionError(f'model={name!r}: a file is named with "local/". Write model="{LOCAL_PREFIX}{path}".')
    from ..models.litellm.model import LiteLLMModel  # slow to import

    return LiteLLMModel(name, **{key: value for key, value in options.items() if key not in LOCAL_OPTIONS})


def _is_local(model: str | Model) -> bool:
    return isinstance(model, str) and model.startswith(LOCAL_PREFIX)


def _explain_unknown(option: str, names: Iterable[str]) -> str:
    """Return what to do about an option that no model takes, "" for any other one."""
    if option in PARAMETER_TERMS:
        return f"Use {PARAMETER_TERMS[option]}=..."
    if limit := find_limit(option):
        return f"Use limits=Limits({limit}=...)"
    if option in OTHER_TERMS:
        return OTHER_TERMS[option]
    if option in RESERVED_PARAMETERS:
        return "The agent sets it for each request."
    if option in REQUEST_PARAMETERS:
        return ""
    own = f"A provider's own parameter goes into extra_body={{{option!r}: ...}}, a header into extra_headers."
    return suggest(option, [*names, *REQUEST_PARAMETERS], then=own, likeness=MIN_OPTION_LIKENESS)


def find_model(*models: str | Model | None) -> str | Model | None:
    """Return the first model that is given, else the environment's, if there is one."""
    return next((model for model in (*models, os.environ.get(MODEL_VARIABLE)) if model), None)


def resolve_model(model: str | Model | None) -> str | Model:
    """Return the model, else the environment's, else the embedded one."""
    return find_model(model) or OFFLINE


def list_models(models: str | Model | Sequence[str | Model]) -> tuple[str | Model, ...]:
    """Return the models as a tuple; a single name or object is one model.

    Raises:
        DefinitionError: One is no model; None would be the embedded one.
    """
    several = isinstance(models, Iterable) and not isinstance(models, str)
    listed: Any = models if several else [models]
    found = tuple(map(check_model, listed))
    if any(model is None for model in found):
        raise DefinitionError("fallback_models must be models, got None. Leave it out for none.")
    return found


def preload(model: Any) -> None:
    """Start to import the backend of `model` in a prompt or a notebook, while the person types the query.

    In a script that gains no time: the import and the next line share the interpreter.
    """
    if hasattr(sys, "ps1") or find_kernel() is not None:
        load_in_background(model)


def load_in_background(model: str | Model | None, begin: Callable[[], None] = begin_import) -> None:
    """Start to import the backend of `model` in a thread, with `begin` for models that litellm serves."""
    named = resolve_model(model)
    if isinstance(named, str) and named != OFFLINE and not _is_local(named):
        begin()


@frozen
class TokenCount:
    """The tokens of the first request of a run, by what they are for.

    Attributes:
        instruction: The system message.
        tools: The schemas of the tools that the request offers.
        history: The conversation before the query, as far as it is sent.
        query: The query.
        window: The tokens of the model's window, or of `Limits(context_tokens=)` if that is less; None if unknown.
        is_estimate: Whether the model's tokenizer is unknown, and four characters count as a token.
    """

    instruction: int
    tools: int
    history: int
    query: int
    window: int | None = None
    is_estimate: bool = False

    @property
    def total(self) -> int:
        """All tokens of the request."""
        return self.instruction + self.tools + self.history + self.query


CHARS_OF_TOKEN = 4


class RequestCounter:
    """A model in the place of another one: it counts the first request, and sends none."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.request: Request | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def ask(self, request: Request) -> Generator[Any, None, None]:
        """Keep the request, and end the run."""
        self.request = self.request or replace(request, messages=[*request.messages])  # the run takes its query back
        yield from ()
        raise ModelError("the request was counted")

    async def aask(self, request: Request) -> AsyncGenerator[Any, None]:
        """Keep the request, and end the run."""
        for piece in self.ask(request):
            yield piece

    def count(self, *, has_query: bool, most: int | None) -> TokenCount:
        """Return the count of the request.

        Args:
            has_query: Whether its last message is the query.
            most: The tokens that the limits allow; None if they allow all.
        """
        assert self.request is not None
        count = getattr(self._model, "count_tokens", None)
        tools = json.dumps(self.request.tools.schemas("openai"), ensure_ascii=False)
        messages = self.request.messages
        head = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
        end = max(head, len(messages) - has_query)
        parts = [messages[:head], messages[head:end], messages[end:]]
        texts = [tools, *("\n".join(map(_text_of_message, part)) for part in parts)]
        images = [0, *(sum(1 for message in part for _ in parts_of(message)) for part in parts)]
        tokens = [len(text) // CHARS_OF_TOKEN for text in texts] if count is None else count(texts)
        counted = [
            number + IMAGE_CHARACTERS // CHARS_OF_TOKEN * more for number, more in zip(tokens, images, strict=True)
        ]
        windows = (getattr(self._model, "context_window", None), most)
        window = min(filter(None, windows), default=None)
        return TokenCount(counted[1], counted[0], counted[2], counted[3], window, count is None)


def _text_of_message(message: Message) -> str:
    calls = (f"{call.name} {call.arguments}" for call in calls_of(message))
    return "\n".join([text_of(message), *calls])
