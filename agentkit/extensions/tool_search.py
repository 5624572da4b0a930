"""Search among many tools: a request offers a few of them and `find_tools`, which adds the tools that are found.

Found tools stand behind those that were offered before, so the beginning of the request stays as it was.  Which tools
were found belongs to the conversation.  A tool that is called without having been found runs, and is offered then: the
loop knows all tools.  A model that cannot look for tools is offered the best ones for the question instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from ..core.background import InThread
from ..core.context import Extension, RunContext
from ..core.errors import DefinitionError
from ..core.flow import Effect, Flow, Policy, ask, interpret
from ..core.messages import Message, text_of
from ..core.values import frozen
from ..engine.loop import REMINDER
from ..engine.model import AskModel, Model
from ..tools.execution.call import BoundCall
from ..tools.execution.call_tools import CallTools
from ..tools.json_tool import JsonTool
from ..tools.ranking import ToolIndex, describe_tool, list_groups
from ..tools.registry import ToolRegistry
from ..tools.settings import check_integer_from
from ..tools.toolset import OWN_NAMES

FIND_TOOLS = "find_tools"
MANY_TOOLS = 40
"""The most tools that a request offers all of."""
SOME_TOOLS = 15
"""The most of them if their schemas take more than `WINDOW_SHARE` of the model's window."""
WINDOW_SHARE = 0.25
CHARS_PER_TOKEN = 4
MAX_FOUND = 64
"""Found tools that are offered; the oldest is dropped first."""
MAX_CHOSEN = 10
"""Tools that a model which cannot look for tools is offered for a question."""


class ToolSearch(Extension):
    """Offer some of many tools, and a tool that finds the others: `extensions=[ToolSearch(always=["look_up"])]`.

    Every agent has it for more than 40 tools, and for more than 15 if their schemas take over a quarter of the model's
    window.  The tools of extensions and of hand-offs are always offered.

    Args:
        always: Tools that are always offered, or their names.
        limit: The most tools that one search finds.
        above: Search with more tools than these.  Default: the rule above; 0 for always, `math.inf` for never.
    """

    name = "ToolSearch"

    def __init__(self, always: Iterable[Any] = (), *, limit: int = 5, above: float | None = None) -> None:
        if isinstance(always, str) or not isinstance(always, Iterable):
            raise DefinitionError(f"ToolSearch(always=...) must be a list of tools or names, got {always!r:.80}")
        check_integer_from("ToolSearch(limit=...)", limit, 1)
        if above is not None and (not isinstance(above, int | float) or isinstance(above, bool)):
            raise DefinitionError(f"ToolSearch(above=...) must be a number or None, got {above!r:.80}")
        self.always = frozenset(map(_name_of, always))
        self.limit = limit
        self.above = above

    def policies(self, context: RunContext[Any]) -> Sequence[Policy]:
        """Return the policy that chooses the tools of each request."""
        return (lambda flow: interpret(flow, _Search(self, context).handle, (AskModel, CallTools)),)


def _name_of(tool: Any) -> str:
    name = tool if isinstance(tool, str) else getattr(tool, "name", getattr(tool, "__name__", None))
    if not isinstance(name, str):
        raise DefinitionError(f"ToolSearch(always=...): expected tools or their names, got {tool!r:.80}")
    return name


@dataclass
class _Search:
    """The search of one run."""

    settings: ToolSearch
    context: RunContext[Any]
    catalog: Catalog | None = None
    """The tools of the last request, if they are searched."""
    tools: ToolRegistry | None = None
    offered: tuple[Sequence[str], ToolRegistry] | None = None
    """The tools found so far, and what the request offered with them."""
    window: int | None = -1
    """The model's window, -1 as long as it was not asked for."""
    question: str = ""
    """The last question that tools were chosen for, if the model cannot look for them."""

    def handle(self, effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, AskModel):
            effect = yield from self._narrow(effect)
        elif isinstance(effect, CallTools):
            if self.catalog is None and any(_is_search(bound) for bound in effect.calls):  # of a run that resumes here
                self.catalog = _make_catalog(self.settings, tuple(self.context.tools().own_tools))
            if (catalog := self.catalog) is not None:
                effect = effect.with_calls(self._bind(bound, catalog) for bound in effect.calls)
        return (yield from ask(effect))

    def _narrow(self, effect: AskModel) -> Flow[AskModel]:
        """Return the request with the tools that are offered now."""
        request = effect.request
        if self.tools is not request.tools:
            self.tools = request.tools
            self.offered = None
            self.question = ""
            is_searched = yield from self._is_searched(effect.model, request.tools)
            self.catalog = _make_catalog(self.settings, tuple(request.tools.own_tools)) if is_searched else None
        if (catalog := self.catalog) is None:
            return effect
        can_look = getattr(effect.model, "finds_tools", True)
        if not can_look and (question := _last_question(request.messages)) != self.question:
            self.question = question
            search = partial(catalog.index.find, question, max(self.settings.limit, MAX_CHOSEN))
            self._add(tool.name for tool in (yield from ask(InThread(search))))
        known = self.context.session_state.get(self.settings.name, {}).get("found", ())
        found = [name for name in known if name in catalog.hidden]
        if self.offered is None or self.offered[0] != found:
            kept = request.tools.filtered(lambda tool: tool.name not in catalog.hidden)
            finder = [catalog.finder] if can_look else []
            self.offered = found, kept.merged(finder, [request.tools[name] for name in found])
        return replace(effect, request=replace(request, tools=self.offered[1]))

    def _add(self, names: Iterable[str]) -> None:
        add_found(self.settings.state(self.context), names)

    def _is_searched(self, model: Model, tools: ToolRegistry) -> Flow[bool]:
        count = len(tools.own_tools)
        if FIND_TOOLS in tools:  # the user's own
            return False
        if self.settings.above is not None:
            return count > self.settings.above
        if count <= SOME_TOOLS or count > MANY_TOOLS:
            return count > MANY_TOOLS
        if self.window == -1:
            self.window = yield from ask(InThread(lambda: getattr(model, "context_window", None)))
        characters = len(json.dumps(tools.schemas("openai"), ensure_ascii=False))
        return self.window is not None and characters / CHARS_PER_TOKEN > WINDOW_SHARE * self.window

    def _bind(self, bound: BoundCall, catalog: Catalog) -> BoundCall:
        """Return a call of `find_tools` or of a tool that was not offered as one that runs."""
        name = bound.call.name
        if bound.tool is not None:
            if bound.tool.name in catalog.hidden:
                self._add([bound.tool.name])
            return bound
        if _is_search(bound):
            again = ToolRegistry(catalog.finder).bind(bound.call, bound.context or self.context)
            return again.change(began_before=bound.began_before)
        if name not in OWN_NAMES:
            near = catalog.index.find(name, self.settings.limit)
            self._add(tool.name for tool in near)
            if near:
                names = ", ".join(tool.name for tool in near)
                return bound.refuse(
                    f"there is no tool {name[:64]!r}. With such a name there are, and can be called: {names}."
                )
        return bound


def _is_search(bound: BoundCall) -> bool:
    return bound.tool is None and bound.call.name == FIND_TOOLS and not bound.is_stored


def _last_question(messages: Sequence[Message]) -> str:
    texts = (text_of(message) for message in reversed(messages) if message["role"] == "user")
    return next((text for text in texts if text and text != REMINDER), "")


def add_found(state: dict[str, Any], names: Iterable[str]) -> None:
    """Add names to those of the found tools of a conversation, without those that are there."""
    found = list(state.get("found", ()))
    new = [name for name in dict.fromkeys(names) if name not in found]
    if new:
        state["found"] = [*found, *new][-MAX_FOUND:]


@frozen(slots=False, eq=False)
class Catalog:
    """The tools of a step: those that are always offered, the index of the others, and the tool that searches it."""

    settings: ToolSearch
    tools: Sequence[JsonTool[..., Any]]

    @cached_property
    def index(self) -> ToolIndex:
        """The index of the tools that are not always offered."""
        always = self.settings.always
        return ToolIndex(tool for tool in self.tools if not tool.always_offered and tool.name not in always)

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The names of those tools."""
        return frozenset(tool.name for tool in self.index.tools)

    @cached_property
    def finder(self) -> JsonTool[..., str]:
        """The tool `find_tools`, whose description has a line for each group of tools."""
        settings = self.settings
        index = self.index

        def find_tools(query: str, run: RunContext[Any]) -> str:
            """Finds tools.

            Args:
                query: What the tool should do, in a few words; one search for each thing that is to be done.
            """
            found = index.find(query, settings.limit)
            add_found(settings.state(run), (tool.name for tool in found))
            if not found:
                return "No tool was found. Describe in other words what it should do."
            return "\n".join(["These tools can be called now:", *map(describe_tool, found)])

        groups = "\n".join(list_groups(index.tools))
        text = f"Find more tools by what they do; those that are found can be called then. There are:\n{groups}"
        return JsonTool(find_tools, description=text, effect="read", trust="trusted")


_make_catalog = lru_cache(maxsize=16)(Catalog)
"""Returns the catalog of a search and its tools; runs with the same ones share it."""
