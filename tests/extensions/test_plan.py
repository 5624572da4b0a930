"""A plan: the model writes its steps and ticks them off; people see it, and the requests keep it."""

import io
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.console import Console

from agentkit import ContextWindow, JsonAgent, Plan, Session
from agentkit.acp.editor_session import UpdateEncoder
from agentkit.core.flow import Hooks, interpret
from agentkit.engine.model import AskModel
from agentkit.events import PlanChanged, PlanStep
from agentkit.extend import PlanShown, decode_frame, draw_frames, encode_frame
from agentkit.testing import ScriptedModel, answer, call, calls
from agentkit.views.lines import MAX_PLAN_ROWS, Running
from agentkit.views.notebook import CellView
from agentkit.views.terminal import LiveView
from agentkit.web.encode import AguiEncoder

STEPS = ["Look up the price", "Buy tea", "Tell Ann"]
WRITE = call("write_plan", steps=STEPS)
LIST = "1. [{}] Look up the price\n2. [{}] Buy tea\n3. [{}] Tell Ann"


def plan_of(*done):
    return LIST.format(*("x" if number in done else " " for number in (1, 2, 3)))


def results(result):
    return [message["content"] for message in result.messages if message["role"] == "tool"][:-1]


def test_the_model_writes_a_plan_and_ticks_it_off(world):
    script = ScriptedModel(WRITE, call("tick_off", steps=[1]), call("tick_off", steps=[2, 3]), answer("done"))
    events = []
    agent = JsonAgent(model=script, extensions=[Plan()], listeners=[events.append])
    result = world.run(agent, "Buy tea for Ann.")
    assert results(result) == [plan_of(), plan_of(1), plan_of(1, 2, 3)]
    changes = [event.steps for event in events if isinstance(event, PlanChanged)]
    assert changes[1] == (PlanStep(STEPS[0], True), PlanStep(STEPS[1]), PlanStep(STEPS[2]))
    assert "write_plan" in result.messages[0]["content"]


def test_parallel_ticks_are_all_kept_and_done_steps_stay_done_in_a_new_plan(world):
    script = ScriptedModel(
        WRITE,
        calls(*(call("tick_off", steps=[number]) for number in (1, 2))),
        call("write_plan", steps=["Look up the price", "Buy  coffee", "Tell Ann", "Tell Ann"]),
        answer("done"),
    )
    agent = JsonAgent(model=script, extensions=[Plan()])
    last = results(world.run(agent, "Go."))[-1]
    assert last == "1. [x] Look up the price\n2. [ ] Buy coffee\n3. [ ] Tell Ann"


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (call("tick_off", steps=[1]), "there is no plan. Write one with write_plan."),
        (call("write_plan", steps=["Go", " "]), "a step has no text. Write a short sentence for each step."),
        (
            call("write_plan", steps=[f"Step {number}" for number in range(51)]),
            "the plan has 51 steps. Write at most 50.",
        ),
        (call("write_plan", steps=["x" * 201]), "has 201 characters. Write at most 200."),
    ],
)
def test_what_is_no_plan_is_refused(world, made, error):
    agent = JsonAgent(model=ScriptedModel(made, answer("done")), extensions=[Plan()])
    assert error in results(world.run(agent, "Go."))[0]


def test_a_step_that_is_not_there_is_named(world):
    agent = JsonAgent(model=ScriptedModel(WRITE, call("tick_off", steps=[4]), answer("done")), extensions=[Plan()])
    assert "the plan has no step 4. Its steps are 1 to 3." in results(world.run(agent, "Go."))[1]


def test_the_plan_belongs_to_the_conversation(world, tmp_path):
    agent = JsonAgent(model=ScriptedModel(WRITE, answer("begun")), extensions=[Plan()])
    world.run(agent, "Begin.")
    agent.session.save(tmp_path / "s.jsonl")
    later = JsonAgent(model=ScriptedModel(call("tick_off", steps=[2]), answer("done")), extensions=[Plan()])
    result = world.run(later, "Go on.", session=Session.load(tmp_path / "s.jsonl"))
    assert plan_of(2) in results(result)
    assert not any("plan" in str(message["content"]) for message in result.messages if message["role"] == "user")


def test_people_see_the_plan(world):
    """The frames of a run, which every view draws, have the whole plan; an editor and a page get it in their form."""
    frames = []
    script = ScriptedModel(WRITE, call("tick_off", steps=[1]), answer("done"))
    agent = JsonAgent(model=script, extensions=[Plan()], listeners=[draw_frames(frames.append)])
    world.run(agent, "Buy tea for Ann.")
    plans = [frame for frame in frames if isinstance(frame, PlanShown)]
    assert [[step.done for step in plan.steps] for plan in plans] == [[False] * 3, [True, False, False]]
    assert [decode_frame(json.loads(json.dumps(encode_frame(plan)))) for plan in plans] == plans

    (update,) = UpdateEncoder().encode(plans[1])
    assert [(entry.content, entry.status) for entry in update.entries] == [
        ("Look up the price", "completed"),
        ("Buy tea", "in_progress"),
        ("Tell Ann", "pending"),
    ]
    (event,) = AguiEncoder("thread", "run").encode(plans[1])
    assert (event["type"], event["name"]) == ("CUSTOM", "agentkit.plan")
    assert event["value"]["steps"][0] == {"text": "Look up the price", "done": True}

    cell = CellView()
    for frame in frames[:-1]:
        cell.draw(frame)
    past, _, _ = cell.snapshot()
    assert past[:3] == [("", "☑ Look up the price"), ("", "☐ Buy tea"), ("", "☐ Tell Ann")]
    terminal = LiveView(Console(file=io.StringIO(), width=80))
    for frame in frames[:-1]:
        terminal.draw(frame)
    terminal.console.print(terminal.render())
    assert "☑ Look up the price" in terminal.console.file.getvalue()


def test_of_a_long_plan_the_steps_around_the_open_one_are_shown():
    running = Running()
    running.update(PlanShown("", tuple(PlanStep(f"Step {number}", number < 10) for number in range(1, 21))))
    rows = running.plan_rows()
    assert rows[:2] == ["☑ Step 9", "☐ Step 10"]
    assert len(rows) == MAX_PLAN_ROWS + 1
    assert rows[-1] == "and 12 more, 11 open"


def forget(after):
    """A policy that leaves everything but the query and the last messages out of a request, as one that cuts does."""

    def cut(effect):
        messages = effect.request.messages
        if len(messages) <= after:
            return effect
        kept = [*messages[:2], *messages[2 + 2 * ((len(messages) - after) // 2 + 1) :]]
        return with_messages(effect, kept)

    return lambda flow: interpret(flow, Hooks(cut), AskModel)


def with_messages(effect, messages):
    return replace(effect, request=replace(effect.request, messages=messages))


def look(place: int) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def test_a_plan_that_left_the_request_is_shown_again_at_one_place(world):
    turns = [call("look", place=place) for place in range(6)]
    script = ScriptedModel(WRITE, *turns, call("tick_off", steps=[1, 2, 3]), call("look", place=9), answer("done"))
    agent = JsonAgent(look, model=script, policies=[forget(6)], extensions=[Plan()])
    world.run(agent, "Buy tea for Ann.")
    shown = [[plan_of() in str(message["content"]) for message in request.messages] for request in script.requests]
    assert [sum(places) for places in shown[1:8]] == [1] * 7  # always once
    reminders = [
        [message["content"] for message in request.messages if message["role"] == "user"][1:]
        for request in script.requests
    ]
    assert reminders[1] == []
    assert reminders[6] == [f"The plan of this conversation:\n{plan_of()}"]
    assert reminders[9] == []  # every step is done


def test_a_reminder_keeps_its_place_so_that_requests_extend_each_other(world):
    dropped = []

    def cut_once(effect):
        """Leave the plan's turn out of all requests from the fourth on."""
        messages = effect.request.messages
        if len(messages) > 8:
            dropped.append(True)
            effect = with_messages(effect, [*messages[:2], *messages[4:]])
        return effect

    turns = [call("look", place=place) for place in range(8)]
    script = ScriptedModel(WRITE, *turns, answer("done"))
    policy = lambda flow: interpret(flow, Hooks(cut_once), AskModel)  # noqa: E731
    agent = JsonAgent(look, model=script, policies=[policy], extensions=[Plan()])
    world.run(agent, "Buy tea for Ann.")
    requests = [request.messages for request in script.requests]
    assert len(dropped) >= 4
    cut = len(requests) - len(dropped)
    for before, after in zip(requests[cut:], requests[cut + 1 :], strict=False):
        assert after[: len(before)] == before


def read_page(number: int) -> str:
    """Read a page."""
    return f"Page {number}: " + "words of the page " * 60


def test_a_plan_survives_the_window(world):
    """In a run of 60 turns with a small window each request has the plan, and few begin otherwise than the one before."""
    turns = [call("read_page", number=number) for number in range(60)]
    script = ScriptedModel(WRITE, *turns, call("tick_off", steps=[1]), *turns[:9], answer("done"))
    agent = JsonAgent(read_page, model=script, extensions=[Plan(), ContextWindow(4_000)], max_steps=100)
    world.run(agent, "Buy tea for Ann.")
    requests = [request.messages for request in script.requests]
    for number, messages in enumerate(requests[1:], 1):
        plan = plan_of() if number < 62 else plan_of(1)
        assert sum(plan in str(message["content"]) for message in messages) == 1, number
    broken = [after[: len(before)] != before for before, after in pairwise(requests)]
    left = sum(len(after) < len(before) for before, after in pairwise(requests))
    assert 1 <= left <= sum(broken) <= 2 * left + 2
