"""During a run: messages are added, it is stopped, and agents are called from every kind of place."""

import asyncio
import contextvars
import json
import threading

import pytest
from children import interrupted

from agentkit import JsonAgent, RunContext, Session, tool
from agentkit.core.flow import Event
from agentkit.core.messages import pending_calls
from agentkit.engine.history import check_history
from agentkit.engine.loop import CANCELLED
from agentkit.engine.result import RunFinished
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.execution.call_tools import ToolFinished, ToolStarted


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def double(a: int) -> int:
    """Doubles."""
    await asyncio.sleep(0)
    return 2 * a


SUM = call("add", a=1, b=2)


def queries_of(request) -> list[str]:
    """Return the user's messages of a request."""
    return [message["content"] for message in request.messages if message["role"] == "user"]


class TestMessages:
    """`say` adds a message for the next request of the run."""

    def test_a_listener_adds_a_message(self, world):
        model = ScriptedModel(SUM, answer("done"))

        def listen(event: Event) -> None:
            if isinstance(event, ToolStarted) and event.call.call.name == "add":
                agent.say("Be brief.")

        agent = JsonAgent(add, model=model, listeners=[listen])
        result = world.run(agent, "1 + 2?")
        assert queries_of(model.requests[0]) == ["1 + 2?"]
        assert queries_of(model.requests[1]) == ["1 + 2?", "Be brief."]
        assert model.requests[1].messages[-1]["content"] == "Be brief."
        assert check_history(result.messages) == []

    @pytest.mark.parametrize("text", [5, None, ["Be brief."]])
    def test_what_is_no_text_is_refused_and_the_conversation_is_as_it_was(self, world, text):
        agent = JsonAgent(add, model=ScriptedModel(answer("3")))
        with pytest.raises(TypeError, match=f"say: expected a text, got {type(text).__name__}"):
            agent.say(text)
        assert world.run(agent, "1 + 2?").answer == "3"

    def test_a_tool_adds_a_message(self, world):
        def look(run: RunContext) -> str:
            """Looks."""
            run.say("There is more.")
            return "seen"

        model = ScriptedModel(call("look"), answer("done"))
        world.run(JsonAgent(look, model=model), "go")
        assert queries_of(model.requests[1]) == ["go", "There is more."]

    def test_another_thread_adds_a_message(self, world):
        inside = threading.Event()
        spoken = threading.Event()

        def wait() -> str:
            """Waits."""
            inside.set()
            return "done" if spoken.wait(60) else "never"

        def tell() -> None:
            assert inside.wait(60)
            session.say("Stop soon.")
            spoken.set()

        session = Session()
        model = ScriptedModel(call("wait"), answer("done"))
        thread = threading.Thread(target=tell)
        thread.start()
        world.run(JsonAgent(wait, model=model), "go", session=session)
        thread.join()
        assert queries_of(model.requests[1]) == ["go", "Stop soon."]

    def test_another_task_adds_a_message(self):
        inside = asyncio.Event()
        spoken = asyncio.Event()

        async def wait() -> str:
            """Waits."""
            inside.set()
            await spoken.wait()
            return "done"

        model = ScriptedModel(call("wait"), answer("done"))
        agent = JsonAgent(wait, model=model)

        async def main() -> None:
            run = asyncio.create_task(agent.arun("go"))
            await inside.wait()
            agent.say("Stop soon.")
            spoken.set()
            await run

        asyncio.run(main())
        assert queries_of(model.requests[1]) == ["go", "Stop soon."]

    def test_a_message_that_comes_too_late_is_sent_with_the_next_query(self, world):
        model = ScriptedModel(answer("done"), answer("done"))

        def listen(event: Event) -> None:
            if (
                isinstance(event, ToolFinished)
                and "first" in queries_of(model.requests[-1])
                and len(model.requests) == 1
            ):
                agent.say("By the way.")

        agent = JsonAgent(add, model=model, listeners=[listen])
        world.run(agent, "first")
        result = world.run(agent, "second")
        assert queries_of(model.requests[1]) == ["first", "By the way.\n\nsecond"]
        assert check_history(result.messages) == []

    def test_a_message_alone_can_continue_the_conversation(self, world):
        model = ScriptedModel(answer("done"), answer("more"))
        agent = JsonAgent(add, model=model)
        world.run(agent, "first")
        agent.say("Continue.")
        assert world.run(agent, None).answer == "more"
        assert queries_of(model.requests[1]) == ["first", "Continue."]


BOTH = calls(SUM, call("hang"))


class TestStopping:
    """A run that is stopped keeps its results, its other calls are cancelled, and the agent can be used at once."""

    def check(self, agent: JsonAgent, world=None) -> None:
        assert check_history(agent.history) == []
        assert pending_calls(agent.history) == []
        results = [message["content"] for message in agent.history if message["role"] == "tool"]
        assert results == ["3", CANCELLED]
        agent.model.script[len(agent.model.requests) :] = [answer("after")]

    def agent(self, hang) -> JsonAgent:
        return JsonAgent(add, hang, model=ScriptedModel(BOTH), listeners=[self.listen])

    async def begun(self, task: asyncio.Task) -> None:
        """Wait until the sum is known and the other call hangs."""
        for event in (self.added, self.hanging):
            assert await asyncio.to_thread(event.wait, 30)
        assert not task.done(), task

    async def limited(self, agent: JsonAgent) -> None:
        async with asyncio.timeout(None) as self.limit:
            await agent.arun("go")

    async def together(self, agent: JsonAgent) -> None:
        async with asyncio.TaskGroup() as group:
            await self.begun(group.create_task(agent.arun("go")))
            raise ValueError("another task failed")

    @pytest.fixture(autouse=True)
    def _watch(self):
        self.added = threading.Event()
        self.hanging = threading.Event()

    def listen(self, event: Event) -> None:
        if isinstance(event, ToolFinished):
            self.added.set()

    @pytest.mark.parametrize("kind", ["plain", "async"])
    @pytest.mark.parametrize("how", ["cancel", "timeout", "wait_for", "group"])
    def test_a_task(self, kind, how):
        free = threading.Event()

        async def hang_too() -> None:
            self.hanging.set()
            await asyncio.Event().wait()

        def hang() -> None:
            self.hanging.set()
            free.wait(60)

        function = hang if kind == "plain" else hang_too
        function.__doc__ = "Hangs."
        function.__name__ = "hang"
        agent = self.agent(function)

        async def main() -> str:
            if how == "cancel":
                task = asyncio.create_task(agent.arun("go"))
                await self.begun(task)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            elif how == "timeout":
                task = asyncio.create_task(self.limited(agent))
                await self.begun(task)
                self.limit.reschedule(asyncio.get_running_loop().time())
                with pytest.raises(TimeoutError):
                    await task
            elif how == "wait_for":
                task = asyncio.create_task(agent.arun("go"))
                await self.begun(task)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(task, 0.01)
            else:
                with pytest.raises(ExceptionGroup):
                    await self.together(agent)
            self.check(agent)
            return (await agent.arun("again")).answer

        try:
            assert asyncio.run(main()) == "after"
        finally:
            free.set()

    def test_a_request(self):
        asked = asyncio.Event()

        class Silent(ScriptedModel):
            async def aask(self, request):
                if not self.requests:
                    list(ScriptedModel.ask(self, request))
                    asked.set()
                    await asyncio.Event().wait()
                async for piece in super().aask(request):
                    yield piece

        agent = JsonAgent(add, model=Silent(answer("never"), answer("after")))

        async def main() -> str:
            task = asyncio.create_task(self.limited(agent))
            await asked.wait()
            self.limit.reschedule(asyncio.get_running_loop().time())
            with pytest.raises(TimeoutError):
                await task
            assert [message["role"] for message in agent.history] == ["system"]
            return (await agent.arun("again")).answer

        assert asyncio.run(main()) == "after"

    SCRIPT = [{"content": "Let me see.", **calls(SUM, call("double", a=2))}, answer("done")]

    def left(self, agent: JsonAgent) -> None:
        """After a stream was left: the history is valid, and the next reply is the last one."""
        assert check_history(agent.history) == []
        agent.model.script[len(agent.model.requests) :] = [answer("after")]

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
                    answer("after"),
                    answer("after"),
                ]
                assert (await agent.arun("again")).answer == "after"
                assert check_history(agent.history) == []
                if isinstance(last, RunFinished):
                    break
            return place

        assert 15 < asyncio.run(main()) < 99

    def test_a_stream_that_another_thread_closes(self):
        agent = JsonAgent(add, model=ScriptedModel(SUM, answer("after")))
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
import asyncio, json, os, threading
from agentkit import JsonAgent
from agentkit.engine.history import check_history
from agentkit.events import ToolFinished
from agentkit.testing import ScriptedModel, answer, call, calls

added = threading.Event()

def add(a: int, b: int) -> int:
    "Adds."
    return a + b

def show(text):
    os.write(1, (text + chr(10)).encode())

def hang() -> None:
    "Hangs when the sum is known."
    added.wait()
    show("begun")
    threading.Event().wait()

async def ahang() -> None:
    "Hangs when the sum is known."
    await asyncio.to_thread(added.wait)
    show("begun")
    await asyncio.Event().wait()

class Silent(ScriptedModel):
    def ask(self, request):
        show("begun")
        threading.Event().wait()
        yield from super().ask(request)

    async def aask(self, request):
        show("begun")
        await asyncio.Event().wait()
        async for piece in super().aask(request):
            yield piece

def listen(event):
    if isinstance(event, ToolFinished) and event.result.call.name == "add":
        added.set()

where, world = "WHERE", "WORLD"
tool = {"tool": hang, "atool": ahang, "model": hang}[where]
script = [calls(call("add", a=1, b=2), call(tool.__name__)), answer("after")]
model = Silent(*script) if where == "model" else ScriptedModel(*script)
agent = JsonAgent(add, tool, model=model, listeners=[listen])
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
    agent.model = ScriptedModel(answer("after"))
show(agent("again") if world != "async" else asyncio.run(agent.arun("again")).answer)
"""


@pytest.mark.parametrize("where", ["tool", "atool", "model"])
@pytest.mark.parametrize("world_", ["sync", "stream", "async"])
def test_a_real_interrupt_stops_at_once_and_the_agent_can_be_used_at_once(where, world_):
    program = PROGRAM.replace("WHERE", where).replace("WORLD", world_)
    results = json.dumps([] if where == "model" else ["3", CANCELLED])
    assert interrupted(program, after="begun").splitlines() == ["begun", "stopped", results, "after"]


class TestInterruptsOfTools:
    @pytest.mark.parametrize("error", [KeyboardInterrupt])
    @pytest.mark.parametrize("kind", ["plain", "async"])
    def test_an_interrupt_that_a_tool_raises_ends_the_run_and_nothing_else(self, world, kind, error):
        def stop() -> None:
            """Stops."""
            raise error

        async def stop_too() -> None:
            """Stops."""
            raise error

        stopping = stop if kind == "plain" else stop_too
        model = ScriptedModel(call(stopping.__name__), call("double", a=4), answer("8"))
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
        return JsonAgent(add, double, model=ScriptedModel(SUM, call("double", a=3), answer("6")))

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
            thread.join()
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
        model = ScriptedModel(calls(*(call(function.__name__) for function in tools)), answer("done"))
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
            return JsonAgent(deeper, model=ScriptedModel(call("deeper"), answer(f"level {depth}")))

        assert world.run(level(4), "go").answer == "level 4"

    def test_on_one_loop_after_another(self):
        agent = JsonAgent(double, model=ScriptedModel([call("double", a=1), answer("done")] * 3))
        for _ in range(3):
            assert asyncio.run(agent.arun("go")).answer == "done"

    def test_many_at_once_do_not_mix(self):
        def who() -> str:
            """Tells who."""
            return WHO.get()

        agents = {}
        for number in range(12):
            agents[number] = JsonAgent(who, model=ScriptedModel(call("who"), answer(str(number))))

        async def one(number: int) -> tuple[str, str]:
            WHO.set(f"run {number}")
            result = await agents[number].arun("go")
            return result.calls[0].content, result.answer

        async def main() -> list[tuple[str, str]]:
            return await asyncio.gather(*map(one, agents))

        assert asyncio.run(main()) == [(f"run {number}", str(number)) for number in agents]


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


def test_a_plain_tool_does_not_block_the_loop_of_the_run():
    begun = threading.Event()
    free = threading.Event()

    @tool
    def slow() -> str:
        """Works until the loop lets it go."""
        begun.set()
        return "let go" if free.wait(60) else "the loop stood still"

    async def tick() -> None:
        assert await asyncio.to_thread(begun.wait, 30)
        free.set()

    async def main() -> list[str]:
        agent = JsonAgent(slow, model=ScriptedModel(call("slow"), answer("done")))
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
