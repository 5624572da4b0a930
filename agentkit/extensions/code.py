"""Code mode: the model writes a program, in which every tool is a typed function; each call is a call of the agent.

The program runs in Monty, a Python interpreter without access to the host, as a run inside the call of `run_code` (see
`RunProgram`).  It is the model of that run: it stops at a call of a tool, or where it waits for several, and its next
reply is these calls.  The reply keeps a snapshot of the interpreter, so any process can continue from there.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import json
import math
import os
import re
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from importlib import import_module
from types import FunctionType
from typing import Any

from pydantic_core import PydanticSerializationError

from ..core.background import InThread
from ..core.context import Extension, RunContext, enclosing
from ..core.errors import DefinitionError, missing_package
from ..core.flow import Effect, Flow, Hooks, Policy, around, ask, interpret
from ..core.messages import Message, ToolCall, Usage, assistant, calls_of, remove_delimiters, text_of
from ..core.threads import is_cancelled
from ..engine.model import AskModel, Reply
from ..sessions.journal.maintenance import TRANSFER_PREFIX
from ..sessions.journal.writer import JournalWriter
from ..sessions.session import Session
from ..tools.arguments.fixes import match_tool_name
from ..tools.execution.call import ToolResult
from ..tools.execution.call_tools import CallTools
from ..tools.final_answer import FINAL_ANSWER
from ..tools.json_tool import JsonTool
from ..tools.python_functions import describe_functions, has_await, name_functions, write_arguments
from ..tools.registry import ToolRegistry
from ..tools.results.jsonable import to_json_data
from ..tools.roles import RUNS_AGENT, RUNS_PROGRAM

RUN_CODE = "run_code"
MAX_WORKERS = 64  # programs that run or wait for a call at the same time in a process
INNER_WAIT_SECONDS = 60.0
"""How long a program inside a call of another one waits for an interpreter: all others may wait for such calls."""
_NOTHING = (lambda *_: None).__code__
_FENCE = re.compile(r"\A```[\w+-]*\n(.*)```\Z", re.DOTALL)
_HANDLE = re.compile(r"^(#\d+) from .*, [\d,]+ characters.*\Z", re.MULTILINE)
_GUIDE = """\
Runs Python code, in which the functions below can be called. Write one program for all that needs no decision between.
Only what you print is shown. Variables, functions and imports stay for the next call. A failed function raises \
RuntimeError. `await asyncio.gather(f(1), f(2))` calls them side by side; in a program without any await, f(1) alone \
returns the value. There are no files, no network, and few modules: asyncio, datetime, json, math, random, re ..."""


class CodeMode(Extension):
    """Offer the tools as functions in a program that the model writes: `extensions=[CodeMode()]`.

    The model calls `run_code(code)` in the place of the tools.  Each call in the program is validated, approved,
    limited, labelled and journaled as a call of the model is.

    Args:
        beside: Whether the tools are offered as tools, too.
        seconds: Seconds that a program may compute, and as many that it may sleep, without the time of its calls.
        memory: Bytes of its values.
        calls: Calls that one program may make.
        output: Characters that it may print; the rest is left out.

    Raises:
        DefinitionError: A limit is no number above 0, or the package pydantic-monty is not installed.
    """

    name = "CodeMode"

    def __init__(
        self,
        *,
        beside: bool = False,
        seconds: float = 10.0,
        memory: int = 32_000_000,
        calls: int = 500,
        output: int = 20_000,
    ) -> None:
        for name, value in (("seconds", seconds), ("memory", memory), ("calls", calls), ("output", output)):
            if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
                raise DefinitionError(f"CodeMode({name}=...) must be a number > 0, got {value!r:.80}")
        _monty()
        self.beside = beside
        self.limits = {"max_feed_duration_secs": seconds, "max_total_sleep_secs": seconds}
        self.limits |= {"max_memory": memory, "max_suspensions": 20 * calls + 1_000}
        self.calls = calls
        self.output = output
        self.tools = [self._make_tool()]
        self._describe = lru_cache(maxsize=16)(self._make_tool)

    def policies(self, context: RunContext[Any]) -> Sequence[Policy]:
        """Return the policy that offers `run_code` in the place of the tools, but for hand-offs and `find_tools`."""
        last: list[tuple[ToolRegistry, ToolRegistry]] = []  # few steps have other tools

        def is_function(tool: JsonTool[..., Any]) -> bool:
            hands_over = tool.always_offered and tool.name.startswith(TRANSFER_PREFIX)
            return tool.name in context.tools() and tool.name != RUN_CODE and not hands_over

        def offer(effect: AskModel) -> AskModel:
            tools = effect.request.tools
            if not last or last[0][0] is not tools:
                offered = [tool for tool in tools.own_tools if is_function(tool)]
                names = {tool.name: name for name, tool in name_functions(context.tools().own_tools).items()}
                own = self._describe(tuple((names[tool.name], tool) for tool in offered))
                kept = tools.filtered(lambda tool: tool.name != RUN_CODE and (self.beside or not is_function(tool)))
                last[:] = [(tools, kept.merged(own))]
            return replace(effect, request=replace(effect.request, tools=last[0][1]))

        return (around(Hooks(offer), AskModel),)

    def _make_tool(self, others: tuple[tuple[str, JsonTool[..., Any]], ...] = ()) -> JsonTool[..., Any]:
        """Return `run_code` with these tools as functions, each with its name there."""
        text = [_GUIDE, *describe_functions(others)]
        return JsonTool(self.run_code, description="\n\n".join(text), timeout=None, on_error="raise")

    async def run_code(self, code: str, run: RunContext[Any]) -> str:
        """Runs Python code.

        Args:
            code: The program.
        """
        assert run.run_program is not None  # the tools of an extension are those of an agent
        lock = run.state.setdefault(f"_{self.name}", asyncio.Lock())
        async with lock:  # programs of one conversation share their values
            program = _Program(self, _FENCE.sub(r"\1", code.strip()) or "pass", Session(), run)
            return await run.run_program(run, program.code, program.policy, program.session)

    setattr(run_code, RUNS_AGENT, True)
    setattr(run_code, RUNS_PROGRAM, True)


@dataclass(eq=False)
class _Program:
    """One program while it runs: the policy that answers in the place of a model.

    `session` has the code, the calls and their results.  `stopped` is where the interpreter stopped, `turn` the calls
    that it waits for there, by its own ids, and `waiting` all calls that are begun and have no result.  `fresh` is what
    was printed since then, and `awaits` says of each source whether its calls are awaited.
    """

    mode: CodeMode
    code: str
    session: Session
    run: RunContext[Any]
    worker: Any = None
    stopped: Any = None
    is_busy: bool = False
    is_over: bool = False
    reply: Message | None = None
    printed: list[str] = field(default_factory=list)
    size: int = 0
    fresh: list[str] = field(default_factory=list)
    made: int = 0
    awaits: dict[str, bool] = field(default_factory=dict)
    turn: list[int] = field(default_factory=list)
    waiting: dict[int, ToolCall] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.has_await = has_await(self.code)
        self.is_journaled = enclosing(JournalWriter) is not None
        self.is_inner = enclosing(_Program) is not None
        self.tools = name_functions(self.run.tools().own_tools)

    def policy(self, flow: Flow[Any]) -> Flow[Any]:
        """Answer requests, and take the results of calls."""
        try:
            return (yield from interpret(flow, self._handle, (AskModel, CallTools)))
        finally:
            self.is_over = True
            self.run = replace(self.run, session_state={})  # what a cancelled run still does changes nothing
            release = partial(_release, self.worker)  # the thread of a cancelled run has it until the time is over
            threading.Thread(target=release, daemon=True).start() if self.is_busy else release()

    def _handle(self, effect: Effect[Any]) -> Flow[Any]:
        if isinstance(effect, AskModel):
            if self.reply is None:
                yield from ask(InThread(self._advance))
            reply = Reply(self.reply or {}, Usage())  # each step sets one
            self.reply = None
            return reply
        if not isinstance(effect, CallTools) or any(bound.is_answer for bound in effect.calls):
            return (yield from ask(effect))
        try:
            inside = [bound.within(lambda: self) for bound in effect.calls]
            results: list[ToolResult] = yield from ask(effect.with_calls(inside))
        except BaseException:
            self._take(effect.finished.values())
            self._keep()
            raise
        self._take(results)
        last = self._last
        self.outcomes = {**last["program"].get("outcomes", {}), **self.outcomes}
        # before the results are in the history: a journal has them only together with the next calls
        if all(call.id in self.outcomes for call in calls_of(last)):
            yield from ask(InThread(self._advance))
        return results

    @property
    def _last(self) -> Message:
        """The last reply, which has the snapshot."""
        return next((message for message in reversed(self.session.messages) if "program" in message), {})

    def _take(self, results: Iterable[ToolResult]) -> None:
        """Store the outcomes of calls as the program gets them: a hidden result as its handle."""
        for result in results:
            if not result.is_open:
                shown = remove_delimiters(result.content)
                found = None if result.rendered else _HANDLE.search(shown)
                self.hidden += [found[0]] if found else []
                value = found[1] if found else shown if result.rendered is None else to_json_data(result.value)
                failed = {"exc_type": "RuntimeError", "message": shown}
                self.outcomes[result.call.id] = {"return_value": value} if result.error is None else failed

    def _keep(self) -> None:
        """Store the snapshot and the outcomes so far in the last reply, for the run that continues."""
        last = self._last
        place = next((place for place, message in enumerate(self.session.messages) if message is last), None)
        if place is not None:
            snapshot = last["program"]["snapshot"] or _encode(self.stopped.dump())
            kept = {**last["program"], "snapshot": snapshot, "outcomes": {**self.outcomes}, "hidden": self.hidden}
            self.session.messages[place] = {**last, "program": kept}

    def _advance(self) -> None:
        """Run the program to its next calls, or to its end; set the reply."""
        monty = _monty()
        self.is_busy = True
        try:
            step = self._resume() if self._last else self._begin()
            while not isinstance(step, monty.MontyComplete):
                if isinstance(step, monty.NameLookupSnapshot):  # it may be passed on before it is called
                    name = step.variable_name
                    step = step.resume(**({"value": FunctionType(_NOTHING, {}, name)} if name in self.tools else {}))
                elif isinstance(step, monty.FutureSnapshot):
                    self.turn = sorted(self.waiting.keys() & step.pending_call_ids)
                    if not self.turn:
                        return self._end("Stopped: it awaits a call of an earlier program.", is_whole=False)
                    return self._stop(step)
                elif step.is_os_function:
                    step = _answer_system(step)
                elif isinstance(call := self._read_call(step), dict):
                    step = step.resume(call)
                else:
                    self.made += 1
                    if self.made > self.mode.calls:
                        return self._end(f"Stopped: a program may make {self.mode.calls} calls.", is_whole=False)
                    self.waiting[step.call_id] = call
                    if not self._is_awaited(step.position.filename):
                        self.turn = [step.call_id]
                        return self._stop(step)
                    step = step.resume({"future": ...})
            self._end()
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            text = re.sub(r'File "<python-input-\d+>", line', "line", error.display())
            self._end(text, is_whole=not isinstance(error.exception(), TimeoutError | MemoryError))
        except monty.MontyError as error:  # it has crashed
            self._end(f"The interpreter ended: {error}", is_whole=False)
        except TimeoutError:
            self._end(f"Stopped after {self.made} calls: no interpreter is free. Run the rest later.", is_whole=False)
        finally:
            self.is_busy = False

    def _begin(self) -> Any:
        """Start the program with the values of the programs before it."""
        self._take_worker()
        state = self.mode.state(self.run)
        if values := state.get("values"):
            self.worker.load_session(zlib.decompress(base64.b64decode(values)))
            self.awaits = dict(state["awaits"])
        return self.worker.feed_start(self.code, print_callback=self._print)

    def _resume(self) -> Any:
        """Continue with the outcomes of the calls; in another process, from the snapshot."""
        last = self._last
        stopped = self.stopped or self._restore(last["program"])
        results = {}
        for number, call in zip(self.turn, calls_of(last), strict=True):
            if call.id not in self.outcomes:  # the run was stopped before it had one
                texts = (text_of(one) for one in self.session.messages if one.get("tool_call_id") == call.id)
                self.outcomes[call.id] = {"exc_type": "RuntimeError", "message": remove_delimiters(next(texts, ""))}
            results[number] = self.outcomes.pop(call.id)
            del self.waiting[number]
        self.stopped = None
        return stopped.resume(results if isinstance(stopped, _monty().FutureSnapshot) else results[self.turn[0]])

    def _restore(self, kept: Mapping[str, Any]) -> Any:
        self.made = kept["made"]
        self.awaits = dict(kept["awaits"])
        self.turn = [*kept["turn"]]
        self.waiting = {int(number): ToolCall(*call) for number, call in kept["waiting"].items()}
        self.hidden = [*kept["hidden"], *self.hidden]
        self.outcomes = {**kept.get("outcomes", {}), **self.outcomes}
        self.printed = [one["program"]["printed"] for one in self.session.messages if "program" in one]
        self.size = kept.get("size", sum(map(len, self.printed)))
        self._take_worker()
        snapshot = zlib.decompress(base64.b64decode(kept["snapshot"]))
        return self.worker.load_snapshot(snapshot, print_callback=self._print)

    def _take_worker(self) -> None:
        """Wait for an interpreter as long as the run lasts; one sleep may last as long as all of a program."""
        policy = {"sleep_system_max": math.inf}
        begun = time.monotonic()
        while self.worker is None:
            try:
                self.worker = _pool(os.getpid()).checkout(limits=self.mode.limits, os_policy=policy).__enter__()
            except TimeoutError:
                is_late = self.is_inner and time.monotonic() - begun > INNER_WAIT_SECONDS
                if is_late or self.is_over or is_cancelled():
                    raise
        if self.is_over:  # nothing else releases it
            _release(self.worker)
            raise TimeoutError

    def _print(self, _: str, text: str) -> None:
        if shown := text[: max(0, self.mode.output - self.size)]:
            self.fresh.append(shown)
        self.size += len(text)

    def _is_awaited(self, source: str) -> bool:
        """Return whether the calls in a source are awaited; in one without any await, a call returns its value."""
        if not source.startswith("<string"):
            self.awaits.setdefault(source, self.has_await)
        return self.awaits.get(source, self.has_await)

    def _read_call(self, step: Any) -> ToolCall | dict[str, Any]:
        """Return the call at which the program stopped; what it raises there, if that is no call."""
        name = step.function_name
        known = match_tool_name(name, [*self.tools, FINAL_ANSWER, RUN_CODE])
        tool = self.tools.get(known or "")
        if known in (FINAL_ANSWER, RUN_CODE):
            return {"exc_type": "NameError", "message": f"{name} cannot be called in a program"}
        try:
            arguments = write_arguments(name, tool, step.args, step.kwargs)
        except (TypeError, ValueError, PydanticSerializationError) as error:
            return {"exc_type": "TypeError", "message": str(error)}
        return ToolCall(f"c{step.call_id}", self.tools[name].name if name in self.tools else name, arguments)

    def _stop(self, step: Any) -> None:
        """Set the reply to the calls that the program waits for."""
        self.stopped = step
        kept = {
            "snapshot": _encode(step.dump()) if self.is_journaled else "",
            "printed": "".join(self.fresh),
            "size": self.size,
            "made": self.made,
            "awaits": {**self.awaits},
            "turn": self.turn,
            "waiting": {number: [call.id, call.name, call.arguments] for number, call in self.waiting.items()},
            "hidden": [*self.hidden],
        }
        self.printed += self.fresh
        self.fresh = []
        self.reply = {**assistant(None, [self.waiting[number] for number in self.turn]), "program": kept}

    def _end(self, problem: str = "", *, is_whole: bool = True) -> None:
        """Set the reply to the answer: what the program has printed, and its error."""
        if is_whole:
            self.mode.state(self.run).update(values=_encode(self.worker.dump()), awaits={**self.awaits})
        elif problem:
            problem += "\nThe values are those before this program."
        printed = "".join([*self.printed, *self.fresh])
        if self.size > len(printed):
            printed += f"\n[{self.size - len(printed):,} more characters were printed and left out]"
        missed = ", ".join(dict.fromkeys(f"{call.name}()" for call in self.waiting.values()))
        missed = missed and f"Not called, because it was not awaited: {missed}"
        hidden = [f"[hidden: {line}. Pass the reference on.]" for line in dict.fromkeys(self.hidden)]
        text = "\n".join(filter(None, [printed.rstrip("\n"), problem, missed, *hidden])) or "Nothing was printed."
        call = ToolCall("answer", FINAL_ANSWER, json.dumps({"text": text}, ensure_ascii=False))
        self.reply = assistant(None, [call])


def _monty() -> Any:
    """Return the package of the interpreter, which is an extra."""
    try:
        return import_module("pydantic_monty")
    except ImportError as error:
        raise missing_package("CodeMode", "agentkit[code]", missing="pydantic_monty") from error


@cache
def _pool(process: int) -> Any:
    """Return the interpreters of a process, which start when they are needed; one that was forked has its own."""
    pool = _monty().Monty(max_processes=MAX_WORKERS, checkout_timeout=1.0)
    pool.__enter__()
    atexit.register(lambda: _release(pool) if os.getpid() == process else None)
    return pool


def _release(opened: Any) -> None:
    with suppress(Exception):  # it is gone already
        opened.__exit__(None, None, None)


def _encode(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def _answer_system(step: Any) -> Any:
    """Continue a program that asks for the host: it can sleep, and has nothing else."""
    if step.function_name not in ("system.sleep", "system.async_sleep"):
        return step.resume_not_handled()
    time.sleep(float(step.args[0]))  # the limit of the sleep has been checked
    return step.resume({"return_value": None})
