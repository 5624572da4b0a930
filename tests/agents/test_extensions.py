"""Extensions: one object brings tools, a part of the instruction, policies, and what is opened for a run."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest

from agentkit import DefinitionError, JsonAgent, Paused, RunContext, RunError, Session, ToolRegistry, tool
from agentkit.extend import Extension
from agentkit.journal import runs
from agentkit.policies import AskModel, CallTools, around, ask
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.tools.json_tool import JsonTool

ANSWER = answer("done")


def look() -> str:
    """Looks around."""
    return "a door"


@tool(effect="danger")
def erase() -> str:
    """Erases all."""
    return "erased"


class Notes(Extension):
    """Notes of the conversation, which the instruction of the next run lists."""

    def __init__(self):
        self.tools = [self.add_note]
        self.happened = []

    def add_note(self, text: str, run: RunContext) -> str:
        """Adds a note.

        Args:
            text: The note.
        """
        notes = self.state(run).setdefault("notes", [])
        notes.append(text)
        return f"{len(notes)} notes, {run.state['opened']}"

    def instruction(self, context):
        return f"Notes: {self.state(context).get('notes', [])}"

    def policies(self, context):
        def handle(effect):
            self.happened.append(f"asked with {self.state(context).get('notes', [])}")
            return (yield from ask(effect))

        return [around(handle, AskModel)]

    async def open(self, context):
        await asyncio.sleep(0)
        context.state["opened"] = "open"
        self.happened.append("opened")

    async def close(self, context):
        await asyncio.sleep(0)
        self.happened.append(f"closed {context.state['opened']}")


def add(text):
    return call("add_note", text=text)


def system_messages(model):
    return [request.messages[0]["content"] for request in model.requests]


def test_an_extension_brings_tools_instruction_policies_and_is_opened(world):
    notes = Notes()
    model = ScriptedModel(add("milk"), ANSWER)
    agent = JsonAgent(look, model=model, description="A clerk.", extensions=[notes])
    result = world.run(agent, "Note milk.")
    assert result.calls[0].content == "1 notes, open"
    assert [*model.requests[0].tools] == ["final_answer", "look", "add_note"]
    assert [*agent.tools] == ["final_answer", "look", "add_note"]
    assert notes.happened == ["opened", "asked with []", "asked with ['milk']", "closed open"]
    assert system_messages(model) == [f"{agent.instruction}\n\nNotes: []"] * 2
    assert agent.instruction.startswith("A clerk.")


def test_the_state_belongs_to_the_conversation_and_the_instruction_to_the_run(world):
    model = ScriptedModel(add("milk"), ANSWER, add("tea"), ANSWER, ANSWER)
    agent = JsonAgent(look, model=model, extensions=[Notes()])
    world.run(agent, "Note milk.")
    world.run(agent, "Note tea.")
    world.run(agent, "And?", session=Session())
    assert [text.rpartition("\n\n")[2] for text in system_messages(model)] == [
        *["Notes: []"] * 2,
        *["Notes: ['milk']"] * 2,
        "Notes: []",
    ]


def test_the_state_is_saved_and_cleared_with_the_session(world, tmp_path):
    agent = JsonAgent(look, model=ScriptedModel(add("milk"), ANSWER, ANSWER), extensions=[Notes()])
    world.run(agent, "Note milk.")
    agent.session.save(tmp_path / "session.jsonl")
    loaded = Session.load(tmp_path / "session.jsonl")
    assert loaded.session_state == {"Notes": {"notes": ["milk"]}}
    assert Session.from_dict(loaded.as_dict()).session_state == loaded.session_state
    agent.clear_history()
    assert agent.session.session_state == {}


def test_a_run_resumes_with_its_state_and_its_instruction_in_another_process(world, tmp_path):
    path = tmp_path / "runs.db"
    model = ScriptedModel(add("milk"), call("erase"), add("tea"), ANSWER)
    first = JsonAgent(erase, model=model, extensions=[Notes()], journal=path)
    with pytest.raises(Paused) as pause:
        world.run(first, "Note milk, then erase.")
    other = Notes()
    second = JsonAgent(erase, model=model, extensions=[other], journal=path)
    approvals = {entry.id: True for entry in pause.value.pending}
    result = second.resume(pause.value.run_id, approvals=approvals)
    assert result.calls[-2].content == "2 notes, open"
    assert second.session.session_state == {"Notes": {"notes": ["milk", "tea"]}}
    assert {text.rpartition("\n\n")[2] for text in system_messages(model)} == {"Notes: []"}
    assert other.happened[:2] == ["opened", "asked with ['milk']"]


def test_a_run_of_an_agent_with_another_fixed_instruction_is_not_resumed(tmp_path):
    path = tmp_path / "runs.db"
    model = ScriptedModel(call("erase"), ANSWER)
    agent = JsonAgent(erase, model=model, extensions=[Notes()], journal=path)
    with pytest.raises(Paused) as pause:
        agent("Erase.")
    for other in (
        JsonAgent(erase, model=model, extensions=[Notes()], description="A pirate."),
        JsonAgent(erase, model=model),
    ):
        with pytest.raises(RunError, match=r"began with another agent"):
            other.resume(pause.value.run_id, journal=path)
    assert agent.resume(pause.value.run_id, approvals={pause.value.pending[0].id: True}).answer == "done"


@pytest.mark.parametrize("kept", ["file", "journal"])
def test_a_run_is_replayed_with_the_state_that_its_calls_left(world, tmp_path, kept):
    model = ScriptedModel(
        add("milk"),
        ANSWER,
        calls(add("tea"), add("bread")),
        add("salt"),
        ANSWER,
    )
    place = {"record": tmp_path / "run.jsonl"} if kept == "file" else {"journal": tmp_path / "runs.db"}
    agent = JsonAgent(look, model=model, extensions=[Notes()], sequential=True)
    world.run(agent, "Note milk.", **(place if kept == "journal" else {}))
    world.run(agent, "Note more.", **place)
    notes = Notes()
    replaying = JsonAgent(look, model=ScriptedModel(), extensions=[notes])
    if kept == "file":
        result = replaying.replay(tmp_path / "run.jsonl")
    else:
        result = replaying.replay(runs(tmp_path / "runs.db")[0].id, journal=tmp_path / "runs.db")
    assert result.answer == "done"
    assert result.messages[0]["content"].endswith("Notes: ['milk']")
    assert notes.happened[1:-1] == [
        "asked with ['milk']",
        "asked with ['milk', 'tea', 'bread']",
        "asked with ['milk', 'tea', 'bread', 'salt']",
    ]


@pytest.mark.parametrize(("step", "kept"), [(0, ["milk"]), (1, ["milk", "tea"]), (2, ["milk", "tea", "salt"])])
def test_a_branch_begins_with_the_state_after_its_step(tmp_path, step, kept):
    path = tmp_path / "runs.db"
    model = ScriptedModel(add("milk"), ANSWER, add("tea"), add("salt"), ANSWER, ANSWER)
    agent = JsonAgent(look, model=model, extensions=[Notes()], journal=path)
    agent("Note milk.")
    agent("Note more.")
    notes = Notes()
    branch = JsonAgent(look, model=model, extensions=[notes], journal=path)
    branch.fork(runs(path)[0].id, step, tools=[])
    assert notes.happened[1] == f"asked with {kept}"
    assert [*model.requests[-1].tools] == ["final_answer", "add_note"]


def test_an_agent_with_extensions_is_a_tool_of_another_with_the_same_one(world):
    notes = Notes()
    inner = JsonAgent(
        look, model=ScriptedModel(add("inside"), answer("noted")), description="Notes.", extensions=[notes]
    )
    outer_model = ScriptedModel(add("outside"), call("clerk", query="Note."), ANSWER)
    outer = JsonAgent(inner.as_tool("clerk"), model=outer_model, extensions=[notes])
    result = world.run(outer, "Note.")
    assert [call.content for call in result.calls][:2] == ["1 notes, open", "noted"]
    assert outer.session.session_state == {"Notes": {"notes": ["outside"]}}
    assert notes.happened.count("opened") == notes.happened.count("closed open") == 2


def test_each_agent_of_a_hand_off_has_its_own_extensions(world):
    model = ScriptedModel(call("transfer_to_clerk", reason="Notes."), add("milk"), ANSWER)
    clerk = JsonAgent(look, model=model, description="A clerk.", extensions=[Notes()])
    desk = JsonAgent(look, model=model, description="A desk.", extensions=[Greeting()], handoffs={"clerk": clerk})
    result = world.run(desk, "Note milk.")
    assert result.answer == "done"
    assert [text.partition(".")[0] + text.rpartition("\n\n")[2] for text in system_messages(model)] == [
        "A deskSay hello.",
        "A clerkNotes: []",
        "A clerkNotes: []",
    ]


class Greeting(Extension):
    def instruction(self, context):
        return "Say hello.\n"


def test_runs_at_the_same_time_have_a_state_each(world):
    notes = Notes()

    def reply(request):
        said = request.messages[-1]
        return ANSWER if said["role"] == "tool" else add(said["content"])

    agent = JsonAgent(look, model=ScriptedModel(*[reply] * 8), extensions=[notes])
    results = agent.map(["a", "b", "c", "d"])
    assert [result.calls[0].content for result in results] == ["1 notes, open"] * 4
    assert notes.happened.count("opened") == notes.happened.count("closed open") == 4


def test_policies_of_extensions_follow_those_of_the_agent_in_order(world):
    order = []

    def noting(name):
        def handle(effect):
            order.append(name)
            return (yield from ask(effect))

        return around(handle, AskModel)

    class First(Extension):
        def policies(self, context):
            return [noting("first")]

    class Second(Extension):
        def policies(self, context):
            return [noting("second"), noting("third")]

    agent = JsonAgent(look, model=ScriptedModel(ANSWER), policies=[noting("own")], extensions=[First(), Second()])
    world.run(agent, "Hello.")
    assert order == ["own", "first", "second", "third"]


def test_a_source_of_tools_may_be_among_the_tools_of_an_extension(world):
    class Server:
        name = "shop"
        tools = ()

        async def open_tools(self):
            self.tools = [JsonTool(look)]

        async def close_tools(self):
            self.tools = ()

        def list_tools(self):
            return self.tools

    class Shop(Extension):
        tools = (erase, Server())

    model = ScriptedModel(call("look"), ANSWER)
    assert world.run(JsonAgent(model=model, extensions=[Shop()]), "Look.").calls[0].content == "a door"
    assert [*model.requests[0].tools] == ["final_answer", "erase", "look"]


def test_what_was_opened_is_closed_when_the_run_fails_or_another_extension_cannot_be_opened(world):
    class Broken(Extension):
        async def open(self, context):
            raise ConnectionError("no such host")

    notes = Notes()
    agent = JsonAgent(look, model=ScriptedModel(ANSWER), extensions=[notes, Broken()])
    with pytest.raises(ConnectionError, match="no such host"):
        world.run(agent, "Hello.")
    assert notes.happened == ["opened", "closed open"]
    failing = JsonAgent(look, model=ScriptedModel(), extensions=[notes])
    with pytest.raises(RunError):
        world.run(failing, "Hello.")
    assert notes.happened[-1] == "closed open"


@pytest.mark.parametrize("kept", [True, False])
def test_an_error_at_the_close_is_a_warning_and_the_outcome_of_the_run_is_kept(world, tmp_path, kept):
    class Broken(Extension):
        async def close(self, context):
            raise ConnectionError("no way")

    notes = Notes()
    place = {"journal": tmp_path / "runs.db"} if kept else {}
    model = ScriptedModel(ANSWER, call("erase"), ValueError("no model"))
    agent = JsonAgent(look, erase, model=model, extensions=[Broken(), notes], **place)
    for outcome in (nullcontext(), pytest.raises(Paused), pytest.raises(RunError)):
        with pytest.warns(RuntimeWarning, match=r"^Broken was not closed: ConnectionError: no way\.") as seen, outcome:
            assert world.run(agent, "Hello.", session=Session()).answer == "done"
        assert len(seen) == 1
        assert notes.happened[-1] == "closed open"


def test_a_policy_may_keep_state_as_well_and_a_value_that_is_not_json_is_refused(world, tmp_path):
    class Counter(Extension):
        def policies(self, context):
            def handle(effect):
                results = yield from ask(effect)
                state = self.state(context)
                state["calls"] = state.get("calls", 0) + len(results)
                return results

            return [around(handle, CallTools)]

    agent = JsonAgent(look, model=ScriptedModel(call("look"), call("look"), ANSWER), extensions=[Counter()])
    world.run(agent, "Look.", record=tmp_path / "run.jsonl")
    assert agent.session.session_state == {"Counter": {"calls": 3}}
    replaying = JsonAgent(look, model=ScriptedModel(), extensions=[Counter()])
    assert replaying.replay(tmp_path / "run.jsonl").answer == "done"

    def spoil(run: RunContext) -> str:
        """Spoils the state."""
        run.session_state["key"] = object()
        return "spoilt"

    agent = JsonAgent(spoil, model=ScriptedModel(call("spoil"), ANSWER), journal=tmp_path / "runs.db")
    with pytest.raises(RunError, match=r"session_state .* is not JSON: .*Keep JSON values"):
        world.run(agent, "Spoil it.")


class Texts(Extension):
    tools = "look"


class Method(Extension):
    def tools(self):
        return [look]


class Looking(Extension):
    tools = (look,)


class AlsoLooking(Extension):
    tools = (ToolRegistry(look),)


class Blocking(Extension):
    def open(self, context):
        pass


class Polite(Extension):
    instruction = "Be kind."


class Late(Extension):
    async def policies(self, context):
        return []


class Quiet(Extension):
    def instruction(self, context):
        return None


class Wrong(Extension):
    def policies(self, context):
        return around


@pytest.mark.parametrize(
    ("extensions", "message"),
    [
        (Notes(), r"extensions must be a list of extensions, got .*Write extensions=\[\.\.\.\]"),
        ([Notes], r"got the class Notes\. Give an object of it: extensions=\[Notes\(\)\]"),
        ([look], "expected objects of Extension, got .*Derive its class from agentkit.extend.Extension"),
        ([Notes(), Notes()], "two extensions are called 'Notes'. Leave one out, or give its class a name"),
        (
            [Looking(), AlsoLooking()],
            "AlsoLooking: its tool 'look' has the name of a tool of the extension Looking. Ren",
        ),
        ([Texts()], "Texts.tools must be a list of tools, got 'look'"),
        ([Method()], "Method.tools must be a list of tools, got <bound method.*write it as a property"),
        ([Blocking()], "Blocking.open must be a coroutine function. Write: async def open"),
        ([Polite()], r"Polite.instruction must be a function, got 'Be kind.'. Write: def instruction\("),
        ([Late()], r"Late.policies must be a function, got <bound method .*. Write: def policies\("),
    ],
)
def test_what_is_no_extension_is_refused_when_the_agent_is_made(extensions, message):
    with pytest.raises(DefinitionError, match=message):
        JsonAgent(erase, extensions=extensions)


def test_a_tool_with_the_name_of_one_of_the_agent_is_refused():
    with pytest.raises(DefinitionError, match="Looking: its tool 'look' has the name of a tool of the agent"):
        JsonAgent(look, extensions=[Looking()])


def test_an_extension_among_the_tools_is_refused():
    with pytest.raises(DefinitionError, match=r"Notes is an extension, no tool\. Write extensions="):
        JsonAgent(look, Notes())


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        (Quiet(), r"Quiet.instruction must return a text, got None. Return '' for none"),
        (Wrong(), "Wrong.policies must return a list of functions, got <function around"),
    ],
)
def test_what_an_extension_returns_is_checked_when_a_run_begins(world, extension, message):
    agent = JsonAgent(look, model=ScriptedModel(ANSWER), extensions=[extension])
    with pytest.raises(DefinitionError, match=message):
        world.run(agent, "Hello.")
    assert len(agent.history) == 1


def test_an_agent_that_has_the_tools_of_its_extensions_alone(world):
    assert world.run(JsonAgent(model=ScriptedModel(ANSWER), extensions=[Looking()]), "Hello.").answer == "done"


def test_a_reader_of_hidden_texts_has_no_extensions(world):
    agent = JsonAgent(look, model=ScriptedModel(ANSWER), extensions=[Notes()], untrusted="hidden")
    spec = replace(agent.spec, extensions=())
    assert spec.is_instructed_by(spec.instruction)
    assert not spec.is_instructed_by(f"{spec.instruction}\n\nNotes: []")
    assert world.run(agent, "Hello.").answer == "done"


def test_a_value_inside_the_state_that_changes_in_place_after_a_resumption_is_written(world, tmp_path):
    def count(run: RunContext) -> int:
        """Counts."""
        inside = run.session_state.setdefault("counts", {"n": 0})
        inside["n"] += 1
        return inside["n"]

    path = tmp_path / "runs.db"
    first = JsonAgent(count, model=ScriptedModel(call("count"), ConnectionError()), journal=path, retries=0)
    with pytest.raises(RunError):
        world.run(first, "Count.")
    run = runs(path)[0].id
    again = JsonAgent(count, model=ScriptedModel(call("count"), ConnectionError()), journal=path, retries=0)
    with pytest.raises(RunError):
        world.run(again, None, session=Session.resumed(run, path))
    assert Session.resumed(run, path).session_state == {"counts": {"n": 2}}
