"""The run as lines for people: into the log (loguru), and on request straight to the terminal or the notebook.

agentkit logs as a library should: it is silent until the program says `logger.enable("agentkit")`, and it never adds
or removes a sink.  `show()` is the short way for scripts and notebooks: it prints the lines itself, past the log.
Secrets are masked in all of it; also in the traceback of a tool, which is therefore logged as text: loguru would print
the variables of its frames.
"""

import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from loguru import logger

from ..calls import ToolRetried
from ..context import Progress
from ..fences import unfenced
from ..flow import Event
from ..loop import text_of
from ..messages import Message
from ..model import ModelAsked, ModelReplied
from ..policies.approve import ApprovalAsked, ApprovalGiven, Decision
from ..policies.checks import AnswerDoubted
from ..policies.compact import Compacted
from ..policies.ends import ReplyDropped
from ..policies.fallback import FallenBack
from ..policies.landing import Landing
from ..policies.prices import PriceUnknown
from ..policies.retry import Retrying
from ..policies.text_calls import TextCallFound
from ..policies.throttle import Throttled
from ..results import render
from ..run import HandedOver, RunFinished, RunStarted
from ..running import ToolAbandoned, ToolFinished, ToolStarted
from ..secrets import mask

WIDTH = 1_000
"""How many characters of a value are shown in one line."""
_LONGEST_SECRET = 5_000
COLOURS = {"role": "7", "SUCCESS": "32", "WARNING": "33", "ERROR": "31"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line for people: its level, its text, and whether it names the one who speaks."""

    level: str
    text: str
    is_role: bool = False


def lines(event: Event) -> Iterator[Line]:
    """What `event` says to people; many events say nothing."""
    match event:
        case RunStarted(query, _, note):
            if note:
                yield Line("INFO", f"ℹ️ {note}")
            yield Line("INFO", f"🖋️ Query: {_cut(query)}" if query else "▶️ going on")
        case ModelAsked(model, request):
            yield Line("DEBUG", f"asking {model}: {len(request.messages)} messages, {len(request.tools)} tools")
        case ModelReplied(reply):
            yield Line("INFO", "[SELF]", is_role=True)
            if text := text_of(reply.message):
                yield Line("INFO", f"📝 Content: {_cut(text)}")
        case ToolStarted(bound):
            if not bound.is_answer:
                yield Line("INFO", f"⚙️ Tool: {bound.call.name}")
                yield Line("INFO", f"⌨️ Arguments: {_cut(bound.call.arguments)}")
            for repair in bound.repairs:
                yield Line("WARNING", f"🔧 {bound.call.name}: {repair}")
        case ToolFinished(result) if result.error is not None:
            yield Line("ERROR", f"❌ {result.call.name}: {_cut(unfenced(result.content))}")
        case ToolFinished(result) if not result.is_answer:
            yield Line("SUCCESS", f"✅ {result.call.name}: {_cut(unfenced(result.content))}")
        case RunFinished(result):
            yield Line("INFO", f"📌 Final answer: {_cut(render(result.answer))}")
        case ApprovalAsked(call, reason):
            yield Line("WARNING", f"✋ {call.name} waits for a decision: {reason}")
        case ApprovalGiven(call, decision):
            yield Line("INFO", f"👤 {call.name}: {_cut(_said(decision))}")
        case HandedOver(name, reason):
            yield Line("INFO", f"🤝 handed over to {name}: {_cut(reason)}")
        case Progress(call, value):
            yield Line("INFO", f"⏳ {call.name if call else 'a tool'}: {_cut(render(value))}")
        case _:
            yield from _troubles(event)


def _troubles(event: Event) -> Iterator[Line]:
    match event:
        case Retrying(error, seconds):
            yield Line("WARNING", f"🔁 {_cut(str(error))}; asking again in {seconds:.1f} s")
        case FallenBack(error, model):
            yield Line("WARNING", f"🔁 {_cut(str(error))}; going on with {model}")
        case Throttled(model):
            yield Line("INFO", f"🚦 waiting until {model} may be asked")
        case Compacted(model, left_out, shrunk):
            yield Line("WARNING", f"🗜️ too long for {model}: {left_out} messages left out, {shrunk} results shrunk")
        case PriceUnknown(model):
            yield Line("WARNING", f"💰 nobody knows the price of {model}: its dollars are not counted")
        case ReplyDropped(why):
            yield Line("WARNING", f"🔁 the reply was {why}; asking again")
        case ToolRetried(call, info):
            yield Line("WARNING", f"🔁 {call.name}: {_cut(str(info))}; calling it again")
        case ToolAbandoned(bound, threads):
            yield Line("WARNING", f"⌛ {bound.call.name} goes on in vain; {threads} such threads are left")
        case TextCallFound(calls):
            yield Line("WARNING", f"🔧 written as text, run as a call: {_cut(', '.join(call.name for call in calls))}")
        case AnswerDoubted(reason):
            yield Line("WARNING", f"🤔 the answer is taken in spite of this: {_cut(reason)}")
        case Landing(reason):
            yield Line("WARNING", f"🛬 {reason} reached: asking for the final answer")


def log(event: Event) -> None:
    """The listener that every agent has: the lines of an event go to loguru, and to where `show` said."""
    for line in lines(event):
        if not line.is_role:
            logger.log(line.level, mask(line.text))  # no arguments, so that braces and tags in the text stay text
        for printer in _printers:
            printer.write(line)
    exception = event.result.exception if isinstance(event, ToolFinished) else None
    if exception is not None:
        text = "".join(traceback.format_exception(exception))
        logger.debug(mask(f"the tool raised\n{text}"))


@dataclass(frozen=True, slots=True)
class Printer:
    """Writes lines to a stream, coloured if wanted."""

    file: TextIO
    colour: bool

    def write(self, line: Line) -> None:
        """Write one line; the debug level is left to the log."""
        if line.level == "DEBUG":
            return
        code = COLOURS.get("role" if line.is_role else line.level) if self.colour else None
        text = mask(line.text)
        print(f"\033[{code}m{text}\033[0m" if code else text, file=self.file, flush=True)

    def listen(self, event: Event) -> None:
        """The listener that prints an event's lines."""
        for line in lines(event):
            self.write(line)


_printers: list[Printer] = []


def show(file: TextIO | None = None, *, colour: bool | None = None) -> None:
    """Print every run from now on as it goes: what the model says, each call with arguments and result, the answer.

    `file` is where to (without it: standard error, or the cell's output in a notebook); `colour` is by default on for
    terminals and notebooks.  Calling it again changes where; `hide()` ends it.
    """
    _printers[:] = [printer(file, colour=colour)]


def hide() -> None:
    """End what `show` began."""
    _printers.clear()


def printer(file: TextIO | None = None, *, colour: bool | None = None) -> Printer:
    """The printer that suits `file`."""
    in_notebook = "ipykernel" in sys.modules
    file = file or (sys.stdout if in_notebook else sys.stderr)
    return Printer(file, in_notebook or file.isatty() if colour is None else colour)


def show_messages(messages: Iterable[Message], file: TextIO | None = None) -> None:
    """Print a conversation to standard output (or `file`): each message under its role, calls as indented JSON."""
    out = printer(file or sys.stdout)
    for message in messages:
        out.write(Line("INFO", f"[{message['role'].upper()}]", is_role=True))
        for text in (text_of(message), *(json.dumps(call, indent=4) for call in message.get("tool_calls") or ())):
            if text:
                out.write(Line("INFO", text))
        out.write(Line("INFO", ""))


def _said(decision: Decision) -> str:
    match decision:
        case True:
            return "allowed"
        case dict():
            return f"allowed with other arguments: {render(decision)}"
    return f"refused: {decision}" if decision else "refused"


def _cut(text: str) -> str:
    if len(text) <= WIDTH:
        return text
    head = mask(text[: WIDTH + _LONGEST_SECRET])[:WIDTH]  # masked first: what is left of a secret that is cut is none
    return f"{head}... ({len(text) - WIDTH} more characters)"
