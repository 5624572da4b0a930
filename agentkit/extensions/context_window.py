"""Long conversations: requests fit into the model's window, the conversation stays whole, and the model can read it.

At a share of the window, old tool results leave the requests, then old turns (see `engine.history.moved`).  Requests
grow again from there, so each begins with the one before and a provider's cache stays valid.  `read_more` and
`search_conversation` are offered as soon as something has left.  What has left is a part of the conversation's state.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from ..core.background import InThread
from ..core.context import Extension, RunContext
from ..core.errors import DefinitionError, ModelError
from ..core.flow import Emit, Flow, Hooks, Policy, ask, interpret
from ..core.messages import DEVELOPER, Label, Message, delimit_data, join_labels, label_of_words
from ..engine.history.moved import Compacted, Moved, ShortenedHistory, tell
from ..engine.history.size import RunningSize, count_characters, parse_window
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Model, Reply, Request
from ..policies.long_results import KEPT, PAGE_KEY, READ_MORE, ReadingTools, TruncatedResults, format_address
from ..tools.execution.call_tools import CallTools
from ..tools.registry import ToolRegistry
from ..tools.settings import check_integer_from

SHARE = 0.7
"""The share of the window at which texts leave the requests; half of it stays."""
FIRST_RATIO = 3.0
"""The characters of a token, before a reply has told how many tokens its request had."""
PAGE_SHARE = 0.1
"""The share of the window that is read at once."""
MAX_RETRIES = 2
"""How often a request that the model refused as too long is shortened and repeated."""
ASKED_FROM_CHARS = 4_000
"""Characters of a request from which on the model is asked for its window."""


class ContextWindow(Extension):
    """Keep requests within the model's window: `extensions=[ContextWindow(8_000)]`.

    Every agent has it, for the window that its model's entry names.

    Args:
        tokens: The window, if the model's entry names none or a larger one.  Else it is learnt from the provider.
        share: The share of the window at which texts leave the requests.
        summary_model: The model that summarises what leaves, the run's own or a cheaper one; lines with numbers or
            names that are not there are dropped.  Default: no summary, which costs no request.

    Raises:
        DefinitionError: `tokens` or `share` is no such number, or `summary_model` no model.
    """

    name = KEPT

    def __init__(self, tokens: int | None = None, *, share: float = SHARE, summary_model: Any = None) -> None:
        check_integer_from("ContextWindow(tokens=...)", tokens, 1, or_none=True)
        if not isinstance(share, int | float) or not 0 < share < 1:
            raise DefinitionError(f"ContextWindow(share=...) must be between 0 and 1, got {share!r:.80}")
        if not isinstance(summary_model, str | None) and not hasattr(summary_model, "ask"):
            raise DefinitionError(
                f"ContextWindow(summary_model=...) must be a model or its name, got {summary_model!r:.80}"
            )
        self.tokens = tokens
        self.share = share
        self.summary_model = summary_model

    def within(self, tokens: int) -> ContextWindow:
        """Return the extension for a window of no more than these tokens."""
        return ContextWindow(min(self.tokens or tokens, tokens), share=self.share, summary_model=self.summary_model)

    def policies(self, context: RunContext[Any]) -> Sequence[Policy]:
        """Return the policy that shortens the requests of a run."""
        summarizer = self.summary_model
        if isinstance(summarizer, str):
            summarizer = context.find_model(summarizer)
        if context.texts is None:
            context = replace(context, texts=TruncatedResults())
        requests = _Requests(self, context, summarizer)
        return (lambda flow: interpret(flow, Hooks(requests.begin, failed=requests.recover), (AskModel, CallTools)),)

    def __call__(self, flow: Flow[Any]) -> Flow[Any]:
        """Shorten the requests of a flow without an agent; what has left is forgotten at its end."""
        return self.policies(RunContext(None))[0](flow)


def compact(window: int | None = None) -> ContextWindow:
    """Return `ContextWindow(window)`; an agent accepts it among its policies, too."""
    return ContextWindow(window)


@dataclass
class _Requests:
    """The requests of one run."""

    settings: ContextWindow
    context: RunContext[Any]
    summarizer: Model | None = None
    window: int | None = -1
    """The window that the model's entry names, -1 as long as it was not asked for."""
    schemas: tuple[object, int] = (None, 0)
    size: RunningSize = field(default_factory=partial(RunningSize, count_characters))
    reader: ReadingTools = field(default_factory=ReadingTools)

    @cached_property
    def state(self) -> dict[str, Any]:
        """What the conversation keeps: what has left it, the learnt windows, the characters of a token, the summary."""
        return {"windows": {}, "ratio": FIRST_RATIO, **self.context.session_state.get(KEPT, {})}

    @cached_property
    def history(self) -> ShortenedHistory:
        """The part of the conversation that is sent."""
        messages = self.context.messages
        moved = Moved(**self.state.get("moved", {}))
        note: Any = {} if READ_MORE in self.context.tools() else {"address": format_address}
        moved = moved if moved.is_of(messages) else Moved()
        return ShortenedHistory(moved, messages, reminder=REMINDER, size=self.size, **note)

    def begin(self, effect: AskModel | CallTools) -> Any:
        """Return the effect as it is, or with the tools that read, or the flow that sends a long request."""
        if isinstance(effect, CallTools):
            is_read = self.context.texts.has_truncated or "moved" in self.state
            return self.reader.bind(effect, self.context) if is_read else effect
        return effect if self._is_small(effect.request) else self._ask(effect)

    def recover(self, effect: AskModel | CallTools, error: Exception) -> Flow[Reply] | None:
        """Return the flow that repeats a request which was refused as too long."""
        if isinstance(effect, AskModel) and isinstance(error, ModelError) and error.kind == "context":
            return self._ask(effect, error)
        return None

    def _ask(self, effect: AskModel, error: ModelError | None = None) -> Flow[Reply]:
        """Send a request with as much of the conversation as belongs into the window; `error` has refused it whole."""
        if self.context.messages is not effect.request.messages:  # without an agent
            self.context = replace(self.context, messages=effect.request.messages)
        if error is not None:
            yield from self._give_way(effect, error)
        else:
            limit = yield from self._find_limit(effect)
            if limit is not None and self._length(effect.request) > (most := self.settings.share * limit):
                yield from self._shorten(effect, most)
        for _ in range(MAX_RETRIES):
            try:
                return (yield from self._send(effect))
            except ModelError as refused:
                yield from self._give_way(effect, refused)
        return (yield from self._send(effect))

    def _give_way(self, effect: AskModel, error: ModelError) -> Flow[None]:
        if error.kind != "context" or not (yield from self._shorten(effect, self._learn(effect, error), error)):
            raise error

    def _is_small(self, request: Request) -> bool:
        """Whether a request is far from any window, or has none, and nothing has left the conversation."""
        if self.settings.tokens is not None or KEPT in self.context.session_state or self.context.texts.has_truncated:
            return False
        return self.window is None or (self.window == -1 and self.size.of(request.messages) < ASKED_FROM_CHARS)

    def _send(self, effect: AskModel) -> Flow[Reply]:
        request = effect.request
        messages = self.history.of(request.messages)
        tools = self._offer(request.tools)
        if messages is not request.messages or tools is not request.tools:
            effect = AskModel(effect.model, replace(request, messages=messages, tools=tools))
        reply: Reply = yield from ask(effect)
        if reply.usage.requests == 1 and reply.usage.input_tokens:
            self.state["ratio"] = _limit_ratio(self._length(request) / reply.usage.input_tokens)
        return reply

    def _offer(self, tools: ToolRegistry) -> ToolRegistry:
        return self.reader.offer(tools, self.context.texts, has_moved=bool(self.history.moved))

    def _length(self, request: Request) -> int:
        """Return about how many characters the request has."""
        schemas = self._offer(request.tools).schemas("openai")
        if self.schemas[0] is not schemas:
            self.schemas = schemas, len(json.dumps(schemas, ensure_ascii=False))
        return self.history.length(request.messages) + self.schemas[1]

    def _find_limit(self, effect: AskModel) -> Flow[float | None]:
        """Return how many characters fit into the window; None if it is unknown."""
        if self.window == -1 and self.settings.tokens is None and self._length(effect.request) > ASKED_FROM_CHARS:
            self.window = yield from ask(InThread(lambda: getattr(effect.model, "context_window", None)))
        rooms = [self.settings.tokens, self.state["windows"].get(effect.model.name), self.window]
        known = [room * self.state["ratio"] for room in rooms if room and room > 0]
        limit: float | None = min(known, default=None)
        self.context.state[PAGE_KEY] = int(PAGE_SHARE * limit) if limit else sys.maxsize
        return limit

    def _learn(self, effect: AskModel, error: ModelError) -> float:
        """Learn the window from a provider's error; return how many characters to send at most."""
        length = self._length(effect.request)
        if (found := parse_window(str(error))) is None:
            self.state["windows"][effect.model.name] = int(0.9 * length / self.state["ratio"])
            return length / 4
        self.state["windows"][effect.model.name] = found.room
        self.state["ratio"] = ratio = _limit_ratio(length / (found.used or found.room))
        return min(self.settings.share * found.room * ratio, length / 2)

    def _shorten(self, effect: AskModel, most: float, error: ModelError | None = None) -> Flow[bool]:
        """Shorten the request to half of what it may have at most; return whether it is shorter now."""
        messages = effect.request.messages
        history = self.history
        since = history.moved.start
        before = self._length(effect.request)
        tools = before - history.length(messages)
        history.shorten(messages, most / 2 - tools, most - tools)
        if (after := self._length(effect.request)) >= before:
            return False
        if self.summarizer is not None and history.moved.start > since:
            yield from self._summarize(self.summarizer, messages, since, most)
        self.state["moved"] = asdict(history.moved)
        self.context.session_state[KEPT] = {**self.state}
        yield from ask(Emit(Compacted(effect.model.name, *history.count_left(messages), (before, after), error)))
        return True

    def _summarize(self, model: Model, messages: Sequence[Message], since: int, room: float) -> Flow[None]:
        """Write a summary of what has left, which replaces the one before; without one if the model has none."""
        from ..policies.evidence import summarize  # reads figures and dates: slow to import

        history = self.history
        left = messages[max(since, history.head) : history.moved.start]
        summary = self.state.get("summary", {"text": "", "label": DEVELOPER.as_dict()})
        label = join_labels([Label.from_dict(summary["label"]), *map(label_of_words, left)])
        text = f"{summary['text']}\n{tell(left, room)}"
        asked = delimit_data(text, "the conversation") if label.is_untrusted else text
        if not (written := (yield from summarize(model, asked, text))):
            return
        self.state["summary"] = {"text": written, "label": label.as_dict()}
        shown = delimit_data(written, "summaries") if label.is_untrusted else written
        history.annotate(f"What it was about:\n{shown}\n\n")


def _limit_ratio(ratio: float) -> float:
    return min(max(round(ratio, 2), 0.5), 6.0)  # providers that report other ratios do not count
