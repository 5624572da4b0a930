"""People in the midst of a run: they say something, they stop it, they call the agent from wherever they are."""

import asyncio
import contextvars
import json
import threading
import time

import pytest
from children import interrupted

from agentkit import JsonAgent, RunContext, Session, tool
from agentkit.core.flow import Event
from agentkit.core.messages import pending_calls
from agentkit.engine.history import check_history
from agentkit.engine.loop import CANCELLED
from agentkit.engine.result import RunFinished
from agentkit.testing import ScriptedModel, answer, call
from agentkit.tools.execution.call_tools import ToolFinished, ToolStarted


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def double(a: int) -> int:
    """Doubles."""
    await asyncio.sleep(0)
    return 2 * a


def calls(*entries, **extra):
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in entries], **extra}


def final(text: str = "done"):
    return calls(("final_answer", {"text": text}))


SUM = calls(("add", {"a": 1, "b": 2}))


def said(request) -> list[str]:
    return [message["content"] for message in request.messages if message["role"] == "user"]


class TestSayingSomething:
    def test_a_listener_may_say_it_on_the_way(self, world):
        model = ScriptedModel(SUM, final())

        def listen(event: Event) -> None:
            if isinstance(event, ToolStarted) and event.call.call.name == "add":
                agent.say("Be brief.")

        agent = JsonAgent(add, model=model, listeners=[listen])
        result = world.run(agent, "1 + 2?")
        assert said(model.requests[0]) == ["1 + 2?"]
        assert said(model.requests[1]) == ["1 + 2?", "Be brief."]
        assert model.requests[1].messages[-1]["content"] == "Be brief."
        assert check_history(result.messages) == []

    def test_a_tool_may_say_it(self, world):
        def look(run: RunContext) -> str:
            """Looks."""
            run.say("There is more.")
            return "seen"

        model = ScriptedModel(calls(("look", {})), final())
        world.run(JsonAgent(look, model=model), "go")
        assert said(model.requests[1]) == ["go", "There is more."]

    def test_another_thread_may_say_it(self, world):
        inside, told = threading.Event(), threading.Event()

        def wait() -> str:
            """Waits."""
            inside.set()
            return "told" if told.wait(10) else "never"

        def tell() -> None:
            assert inside.wait(10)
            session.say("Stop soon.")
            told.set()

        session, model = Session(), ScriptedModel(calls(("wait", {})), final())
        thread = threading.Thread(target=tell)
        thread.start()
        world.run(JsonAgent(wait, model=model), "go", session=session)
        thread.join()
        assert said(model.requests[1]) == ["go", "Stop soon."]

    def test_another_task_may_say_it(self):
        inside, told = asyncio.Event(), asyncio.Event()

        async def wait() -> str:
            """Waits."""
            inside.set()
            await told.wait()
            return "told"

        model = ScriptedModel(calls(("wait", {})), final())
        agent = JsonAgent(wait, model=model)

        async def main() -> None:
            run = asyncio.create_task(agent.arun("go"))
            await inside.wait()
            agent.say("Stop soon.")
            told.set()
            await run

        asyncio.run(main())
        assert said(model.requests[1]) == ["go", "Stop soon."]

    def test_what_comes_too_late_goes_out_with_the_next_query(self, world):
        model = ScriptedModel(final(), final())

        def listen(event: Event) -> None:
            if isinstance(event, ToolFinished) and "first" in said(model.requests[-1]) and len(model.requests) == 1:
                agent.say("By the way.")

        agent = JsonAgent(add, model=model, listeners=[listen])
        world.run(agent, "first")
        result = world.run(agent, "second")
        assert said(model.requests[1]) == ["first", "By the way.\n\nsecond"]
        assert check_history(result.messages) == []

    def test_it_can_be_all_that_a_run_goes_on_with(self, world):
        model = ScriptedModel(final(), final("more"))
        agent = JsonAgent(add, model=model)
        world.run(agent, "first")
        agent.say("Go on.")
        assert world.run(agent, None).answer == "more"
        assert said(model.requests[1]) == ["first", "Go on."]


BOTH = calls(("add", {"a": 1, "b": 2}), ("hang", {}))


class TestStopping:
    """Whatever stops a run: what is done is kept, the rest is answered, and the agent can be used at once."""

    def check(self, agent: JsonAgent, world=None) -> None:
        assert check_history(agent.history) == []
        assert pending_calls(agent.history) == []
        told = [message["content"] for message in agent.history if message["role"] == "tool"]
        assert told == ["3", CANCELLED]
        agent.model.script[len(agent.model.requests) :] = [final("after")]

    def agent(self, hang) -> JsonAgent:
        return JsonAgent(add, hang, model=ScriptedModel(BOTH))

    async def begun(self, agent: JsonAgent, task: asyncio.Task) -> None:
        while not (agent.history[-1]["role"] == "assistant" and self.results):
            assert not task.done(), task
            await asyncio.sleep(0.002)

    async def limited(self, agent: JsonAgent) -> None:
        async with asyncio.timeout(None) as self.limit:
            await agent.arun("go")

    async def together(self, agent: JsonAgent) -> None:
        async with asyncio.TaskGroup() as group:
            await self.begun(agent, group.create_task(agent.arun("go")))
            raise ValueError("another task failed")

    @pytest.fixture(autouse=True)
    def _watch(self):
        self.results: list[Event] = []

    def watched(self, hang) -> JsonAgent:
        agent = self.agent(hang)
        agent.listeners += (lambda event: self.results.append(event) if isinstance(event, ToolFinished) else None,)
        return agent

    @pytest.mark.parametrize("kind", ["plain", "async"])
    @pytest.mark.parametrize("how", ["cancel", "timeout", "wait_for", "group"])
    def test_a_task(self, kind, how):
        free = threading.Event()

        async def hang_too() -> None:
            await asyncio.sleep(30)

        def hang() -> None:
            free.wait(30)

        function = hang if kind == "plain" else hang_too
        function.__doc__, function.__name__ = "Hangs.", "hang"
        agent = self.watched(function)

        async def main() -> str:
            if how == "cancel":
                task = asyncio.create_task(agent.arun("go"))
                await self.begun(agent, task)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            elif how == "timeout":
                task = asyncio.create_task(self.limited(agent))
                await self.begun(agent, task)
                self.limit.reschedule(asyncio.get_running_loop().time())
                with pytest.raises(TimeoutError):
                    await task
            elif how == "wait_for":
                task = asyncio.create_task(agent.arun("go"))
                await self.begun(agent, task)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(task, 0.01)
            else:
                with pytest.raises(ExceptionGroup):
                    await self.together(agent)
            self.check(agent)
            return (await agent.arun("again")).answer

        start = time.perf_counter()
        assert asyncio.run(main()) == "after"
        assert time.perf_counter() - start < 10
        free.set()

    def test_a_request(self):
        class Silent(ScriptedModel):
            async def aask(self, request):
                if not self.requests:
                    list(ScriptedModel.ask(self, request))
                    await asyncio.sleep(30)
                async for piece in super().aask(request):
                    yield piece

        agent = JsonAgent(add, model=Silent(final("never"), final("after")))

        async def main() -> str:
            task = asyncio.create_task(self.limited(agent))
            while not agent.model.requests:
                await asyncio.sleep(0.002)
            self.limit.reschedule(asyncio.get_running_loop().time())
            with pytest.raises(TimeoutError):
                await task
            assert [message["role"] for message in agent.history] == ["system"]
            return (await agent.arun("again")).answer

        assert asyncio.run(main()) == "after"

    SCRIPT = [{"content": "Let me see.", **calls(("add", {"a": 1, "b": 2}), ("double", {"a": 2}))}, final()]

    def left(self, agent: JsonAgent) -> None:
        """After a stream was left: the history is valid, and the next reply is the last one."""
        assert check_history(agent.history) == []
        agent.model.script[len(agent.model.requests) :] = [final("after")]

    def test_a_stream_at_any_event(self):
        for place in range(100):
            agent = JsonAgent(add, double, model=ScriptedModel([*self.SCRIPT]))
            last = None
            for count, event in enumerate(agent.stream("go")):
                last = event
                if count == place:
                    break
            self.left(agent)
            assert agent("again") == "after"
            assert check_history(agent.history) == []
            if isinstance(last, RunFinished):
                break
        assert 15 < place < 99

    @pytest.mark.parametrize("how", ["left", "closed"])
    def test_an_asynchronous_stream_at_any_event(self, how):
        async def leave(agent: JsonAgent, place: int) -> Event:
            stream = agent.astream("go")
            last = await anext(stream)
            for _ in range(place):
                if (event := await anext(stream, None)) is None:
                    break
                last = event
            if how == "closed":
                await stream.aclose()
            return last

        async def main() -> int:
            for place in range(100):
                agent = JsonAgent(add, double, model=ScriptedModel([*self.SCRIPT]))
                last = await leave(agent, place)
                agent.model.script[:] = [
                    *agent.model.script[: len(agent.model.requests)],
                    final("after"),
                    final("after"),
                ]
                assert (await agent.arun("again")).answer == "after"
                assert check_history(agent.history) == []
                if isinstance(last, RunFinished):
                    break
            return place

        assert 15 < asyncio.run(main()) < 99

    def test_a_stream_from_the_outside(self):
        """Somebody else closes it, from another thread, while nobody reads."""
        agent = JsonAgent(add, model=ScriptedModel(SUM, final("after")))
        stream = agent.stream("go")
        for event in stream:
            if isinstance(event, ToolStarted):
                break
        thread = threading.Thread(target=stream.close)
        thread.start()
        thread.join()
        assert check_history(agent.history) == []
        assert agent("again") == "after"


PROGRAM = """
import asyncio, json, os, sys, time
from agentkit import JsonAgent
from agentkit.engine.history import check_history
from agentkit.testing import ScriptedModel, answer, call

def add(a: int, b: int) -> int:
    "Adds."
    return a + b

def show(text):
    os.write(1, (text + chr(10)).encode())

def hang() -> None:
    "Hangs."
    time.sleep(0.2)
    show("begun")
    time.sleep(60)

async def ahang() -> None:
    "Hangs."
    await asyncio.sleep(0.2)
    show("begun")
    await asyncio.sleep(60)

class Silent(ScriptedModel):
    def ask(self, request):
        show("begun")
        time.sleep(60)
        yield from super().ask(request)

    async def aask(self, request):
        show("begun")
        await asyncio.sleep(60)
        async for piece in super().aask(request):
            yield piece

def calls(*entries):
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in entries]}

FINAL = calls(("final_answer", {"text": "after"}))
where, world = "WHERE", "WORLD"
tool = {"tool": hang, "atool": ahang, "model": hang}[where]
script = [calls(("add", {"a": 1, "b": 2}), (tool.__name__, {})), FINAL]
model = Silent(*script) if where == "model" else ScriptedModel(*script)
agent = JsonAgent(add, tool, model=model)
try:
    if world == "sync":
        agent("go")
    elif world == "stream":
        for event in agent.stream("go"):
            pass
    else:
        asyncio.run(agent.arun("go"))
except KeyboardInterrupt:
    show("stopped")
show(json.dumps([message["content"] for message in agent.history if message["role"] == "tool"]))
assert check_history(agent.history) == []
if where == "model":
    assert len(agent.history) == 1
    agent.model = ScriptedModel(FINAL)
show(agent("again") if world != "async" else asyncio.run(agent.arun("again")).answer)
"""


@pytest.mark.parametrize("where", ["tool", "atool", "model"])
@pytest.mark.parametrize("world_", ["sync", "stream", "async"])
def test_a_real_interrupt_stops_at_once_and_the_agent_can_be_used_at_once(where, world_):
    program = PROGRAM.replace("WHERE", where).replace("WORLD", world_)
    told = json.dumps([] if where == "model" else ["3", CANCELLED])
    assert interrupted(program, after="begun").splitlines() == ["begun", "stopped", told, "after"]


class TestAnInterruptThatAToolRaises:
    @pytest.mark.parametrize("error", [KeyboardInterrupt])
    @pytest.mark.parametrize("kind", ["plain", "async"])
    def test_ends_the_run_and_nothing_else(self, world, kind, error):
        def stop() -> None:
            """Stops."""
            raise error

        async def stop_too() -> None:
            """Stops."""
            raise error

        stopping = stop if kind == "plain" else stop_too
        model = ScriptedModel(calls((stopping.__name__, {})), calls(("double", {"a": 4})), final("8"))
        agent = JsonAgent(stopping, double, model=model)
        with pytest.raises(error):
            world.run(agent, "go")
        assert check_history(agent.history) == []
        result = world.run(agent, "and now?")
        assert result.answer == "8"
        assert result.calls[0].content == "8", "coroutines can still be run"


class TestFromAnywhere:
    """Every way of calling an agent in every place, with both kinds of tools: the same answer."""

    def agent(self) -> JsonAgent:
        return JsonAgent(add, double, model=ScriptedModel(SUM, calls(("double", {"a": 3})), final("6")))

    def ways(self):
        def call() -> str:
            return self.agent()("go")

        def stream() -> str:
            return list(self.agent().stream("go"))[-1].result.answer

        def batch() -> str:
            (result,) = self.agent().map(["go"], progress=False)
            return result.answer

        async def acall() -> str:
            return (await self.agent().arun("go")).answer

        async def astream() -> str:
            return [event async for event in self.agent().astream("go")][-1].result.answer

        async def abatch() -> str:
            (result,) = await self.agent().amap(["go"], progress=False)
            return result.answer

        return [call, stream, batch], [acall, astream, abatch]

    def test_in_a_script(self):
        plain, coroutines = self.ways()
        assert [way() for way in plain] == ["6"] * 3
        assert [asyncio.run(way()) for way in coroutines] == ["6"] * 3

    def test_in_a_running_loop(self):
        plain, coroutines = self.ways()

        async def main() -> list[str]:
            return [*[way() for way in plain], *[await way() for way in coroutines]]

        assert asyncio.run(main()) == ["6"] * 6

    def test_in_threads(self):
        plain, coroutines = self.ways()
        answers: list[str] = []
        threads = [threading.Thread(target=lambda way=way: answers.append(way())) for way in plain * 3]
        threads += [
            threading.Thread(target=lambda way=way: answers.append(asyncio.run(way()))) for way in coroutines * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert answers == ["6"] * 18

    def test_in_tools_of_another_agent(self, world):
        plain, coroutines = self.ways()

        async def blocking() -> list[str]:
            """Calls them blocking, in a coroutine."""
            return [way() for way in plain]

        async def awaiting() -> list[str]:
            """Awaits them."""
            return [await way() for way in coroutines]

        def calling() -> list[str]:
            """Calls them."""
            return [way() for way in plain]

        def running() -> list[str]:
            """Runs them on loops of their own."""
            return [asyncio.run(way()) for way in coroutines]

        tools = [blocking, awaiting, calling, running]
        model = ScriptedModel(calls(*[(function.__name__, {}) for function in tools]), final())
        result = world.run(JsonAgent(tools, model=model), "go")
        assert {outcome.call.name: outcome.value for outcome in result.calls[:4]} == {
            function.__name__: ["6"] * 3 for function in tools
        }

    def test_three_levels_deep(self, world):
        def level(depth: int) -> JsonAgent:
            async def deeper() -> str:
                """Goes deeper."""
                inner = level(depth - 1)
                return inner("go") if depth % 2 else (await inner.arun("go")).answer

            if depth == 0:
                return self.agent()
            return JsonAgent(deeper, model=ScriptedModel(calls(("deeper", {})), final(f"level {depth}")))

        assert world.run(level(4), "go").answer == "level 4"

    def test_on_one_loop_after_another(self):
        agent = JsonAgent(double, model=ScriptedModel([calls(("double", {"a": 1})), final()] * 3))
        for _ in range(3):
            assert asyncio.run(agent.arun("go")).answer == "done"

    def test_many_at_once_do_not_mix(self):
        def who() -> str:
            """Tells who."""
            return WHO.get()

        agents = {}
        for number in range(12):
            agents[number] = JsonAgent(who, model=ScriptedModel(calls(("who", {})), final(str(number))))

        async def one(number: int) -> tuple[str, str]:
            WHO.set(f"run {number}")
            result = await agents[number].arun("go")
            return result.calls[0].content, result.answer

        async def main() -> list[tuple[str, str]]:
            return await asyncio.gather(*map(one, agents))

        assert asyncio.run(main()) == [(f"run {number}", str(number)) for number in agents]


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


def test_a_plain_tool_does_not_block_the_loop_of_whoever_awaits_the_run():
    begun, free = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Works until the loop lets it go."""
        begun.set()
        return "let go" if free.wait(10) else "the loop stood still"

    async def tick() -> None:
        while not begun.is_set():
            await asyncio.sleep(0.005)
        free.set()

    async def main() -> list[str]:
        agent = JsonAgent(slow, model=ScriptedModel(calls(("slow", {})), final()))
        result, _ = await asyncio.gather(agent.arun("go"), tick())
        return [outcome.content for outcome in result.calls]

    assert asyncio.run(main())[0] == "let go"


def test_a_run_with_added_messages_is_replayed(world, tmp_path):
    def look(run: RunContext) -> str:
        """Looks."""
        run.say("the tool adds this")
        return "nothing"

    def from_outside(event):
        if isinstance(event, ToolFinished) and not event.result.is_answer:
            agent.say("the person adds this")

    script = "first a text", call("look"), call("look"), answer("done")
    agent = JsonAgent(look, model=ScriptedModel(*script), journal=tmp_path / "runs.db", listeners=[from_outside])
    result = world.run(agent, "Look.", record=tmp_path / "run.jsonl")
    assert [message["role"] for message in result.messages].count("user") == 6
    for place, how in ((tmp_path / "run.jsonl", {}), (result.run_id, {"journal": tmp_path / "runs.db"})):
        assert JsonAgent(look).replay(place, any_model=True, **how).messages == result.messages
