"""tau2-bench through `agentkit.evals`: the tasks of a domain as they come, with a simulated user and the benchmark's checkers.

    python benchmarks/evals_tau2.py CHECKOUT DOMAIN MODEL [--user MODEL] [--judge MODEL] [--first N] [--show]

The head of `tau2_bench.py` tells how to get the checkout.  The agent has the benchmark's instruction, its policy and its
tools.  The user has the benchmark's guidelines, the scenario of the task, and the user's tools where the domain has some.
The calls of both run in the benchmark's environment, and a task passes by the benchmark's own evaluators: of the databases,
the assertions, the calls and what was told, whatever the task names.  What the agent said (NL_ASSERTION) is judged by
the model `--judge`, through litellm; without one it is not checked.

MODEL may be "gold": a script that makes the calls of the task, those of the user between them, and tells what is to be
told.  It shows that the tasks can be passed.  The user is then not asked.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python
from tau2_bench import EFFECTS, Domain, use_checkout

from agentkit import JsonAgent, JsonTool
from agentkit.evals import Attempt, Case, evaluate
from agentkit.testing import ScriptedModel, answer, call

GOLD = "gold"
GREETING = "Hello, I need your help."
TURNS = 100
"""Queries of the user in a conversation."""
MAX_STEPS = 100
ENDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""With one of these, the user ends the conversation."""
STATE = ("DB", "ENV_ASSERTION")


class Event(NamedTuple):
    """Something that happened: a call and its result, or a text without a call."""

    requestor: str
    name: str
    arguments: dict[str, Any]
    text: str
    failed: bool = False


class Conversation:
    """The environment of a trial, what happened in it, and the agent that plays the user."""

    def __init__(self, domain: Any, task: Any) -> None:
        self.domain = domain
        self.environment = domain.open(task)
        self.events: list[Event] = []
        self.user: JsonAgent[str] | None = None

    def call(self, requestor: str, name: str, arguments: dict[str, Any]) -> str:
        """Make a call in the environment, and return its result; raise `RuntimeError` if it failed."""
        plain = to_jsonable_python(arguments)
        text, failed = self.domain.call(self.environment, requestor, name, plain)
        self.events.append(Event(requestor, name, plain, text, failed))
        if failed:
            raise RuntimeError(text)
        return str(text)

    def make_tools(self, requestor: str) -> list[JsonTool]:
        """Return the tools of the agent or of the user."""
        listed = self.domain.list_functions(self.environment, requestor)
        return [
            JsonTool(self._wrap(requestor, name, function), name=name, effect=effect, trust="trusted")
            for name, function, effect in listed
        ]

    def _wrap(self, requestor: str, name: str, function: Callable[..., Any]) -> Callable[..., str]:
        @wraps(function)
        def run(**given: Any) -> str:
            return self.call(requestor, name, given)

        run.__annotations__ = {**function.__annotations__, "return": str}
        return run


class Tau2(Domain):
    """A domain of the benchmark, with its prompts and its evaluators."""

    def __init__(self, name: str, judge: str = "") -> None:
        super().__init__(name)
        self.judge = judge
        self._numbers = count()

    def list_functions(self, environment: Any, requestor: str) -> list[tuple[str, Any, str]]:
        """Return the names, the functions and the effects of the tools of the agent or of the user."""
        kinds = environment.tools if requestor == "assistant" else environment.user_tools
        names = self.names if requestor == "assistant" else [*(kinds.get_tools() if kinds else ())]
        return [(name, kinds.tools[name], EFFECTS[kinds.tool_type(name).name]) for name in names]

    def call(self, environment: Any, requestor: str, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Return the result of a call, and whether it failed."""
        messages = import_module("tau2.data_model.message")
        made = messages.ToolCall(id=f"call_{next(self._numbers)}", name=name, arguments=arguments, requestor=requestor)
        result = environment.get_response(made)
        return result.content, result.error

    def describe_agent(self, environment: Any) -> str:
        """Return the benchmark's instruction of the agent."""
        prompts = import_module("tau2.agent.llm_agent")
        policy = environment.get_policy()
        return str(prompts.SYSTEM_PROMPT.format(agent_instruction=prompts.AGENT_INSTRUCTION, domain_policy=policy))

    def describe_user(self, task: Any, tools: Sequence[Any]) -> str:
        """Return the benchmark's instruction of the user."""
        simulator = import_module("tau2.user.user_simulator").UserSimulator
        return str(simulator(llm="", instructions=str(task.user_scenario), tools=[*tools] or None).system_prompt)

    def score(self, task: Any, events: Sequence[Event]) -> dict[str, float]:
        """Return the rewards of a conversation, by what the task is measured by."""
        criteria = task.evaluation_criteria
        if criteria is None:
            return {}
        basis = {kind.name for kind in criteria.reward_basis}
        spoken = [*((task.initial_state and task.initial_state.message_history) or ()), *self._read(events)]
        found = {}
        if basis & {*STATE}:
            evaluator = import_module("tau2.evaluator.evaluator_env").EnvironmentEvaluator
            reward = evaluator.calculate_reward(lambda **_: self.new(task), task, spoken, strict_replay=False)
            found |= {kind.name: value for kind, value in (reward.reward_breakdown or {}).items()}
        for kind, module, name in (
            ("ACTION", "action", "ActionEvaluator"),
            ("COMMUNICATE", "communicate", "CommunicateEvaluator"),
            ("NL_ASSERTION", "nl_assertions", "NLAssertionsEvaluator"),
        ):
            if kind in basis and (kind != "NL_ASSERTION" or self.judge):
                evaluators = import_module(f"tau2.evaluator.evaluator_{module}")
                if kind == "NL_ASSERTION":
                    evaluators.DEFAULT_LLM_NL_ASSERTIONS = self.judge
                found[kind] = getattr(evaluators, name).calculate_reward(task, spoken).reward
        return found

    def _read(self, events: Sequence[Event]) -> Iterator[Any]:
        """Yield the messages of the benchmark for what happened."""
        messages = import_module("tau2.data_model.message")
        kinds = {"assistant": messages.AssistantMessage, "user": messages.UserMessage}
        for number, (requestor, name, arguments, text, failed) in enumerate(events):
            if not name:
                yield kinds[requestor](role=requestor, content=text)
                continue
            made = messages.ToolCall(id=str(number), name=name, arguments=arguments, requestor=requestor)
            yield kinds[requestor](role=requestor, tool_calls=[made])
            yield messages.ToolMessage(id=str(number), role="tool", content=text, requestor=requestor, error=failed)


def make_agent(domain: Any, task: Any, model: Any) -> JsonAgent[str]:
    """Return an agent with the tools of the domain, in a new environment."""
    conversation = Conversation(domain, task)
    return JsonAgent(
        conversation.make_tools("assistant"),
        model=ScriptedModel(make_gold(conversation, task), name=GOLD) if model == GOLD else model,
        description=domain.describe_agent(conversation.environment),
        deps=conversation,
        max_steps=MAX_STEPS,
        sequential=True,
        untrusted="values",
    )


def make_gold(conversation: Conversation, task: Any) -> list[Any]:
    """Return the replies that make the calls of the task; the user's own calls are made before those after them."""
    criteria = task.evaluation_criteria
    actions = [*((criteria and criteria.actions) or ())]
    replies: list[Any] = []
    before: list[Any] = []

    def act(made: Sequence[Any], reply: Any) -> Callable[[Any], Any]:
        def send(_: Any) -> Any:
            for action in made:
                _try(conversation, action)
            return reply

        return send

    for action in actions:
        if action.requestor == "user":
            before.append(action)
        else:
            replies.append(act(before, call(action.name, **action.arguments)))
            before = []
    told = ". ".join((criteria and criteria.communicate_info) or ()) or "Done."
    return [*replies, act(before, answer(told))]


def _try(conversation: Conversation, action: Any) -> None:
    try:
        conversation.call("user", action.name, action.arguments)
    except RuntimeError:
        return  # a result for the benchmark, too


def make_speaker(domain: Any, task: Any, model: Any) -> Callable[[Attempt], Any]:
    """Return the function that speaks as the user of a task."""

    async def speak(attempt: Attempt) -> str | None:
        conversation = attempt.agent.deps
        conversation.events.append(Event("assistant", "", {}, str(attempt.answer)))
        if conversation.user is None:
            tools = conversation.make_tools("user")
            description = domain.describe_user(task, tools)
            conversation.user = JsonAgent(tools=tools or (lambda _: []), model=model, description=description)
        said = (await conversation.user.arun(str(attempt.answer))).answer
        conversation.events.append(Event("user", "", {}, said))
        return None if any(mark in said for mark in ENDS) else said

    return speak


def make_case(domain: Any, task: Any, user: Any, number: int) -> Case:
    """Return the case of a task, whose ids may be long; `user` is the model of the user, "" for a script."""

    def judge(said: Any, attempt: Attempt) -> None:
        events = [*attempt.agent.deps.events, Event("assistant", "", {}, str(said))]
        missed = {kind: reward for kind, reward in domain.score(task, events).items() if reward < 1}
        assert not missed, f"rewards: {json.dumps(missed)}"

    speaks: Any = {"function": make_speaker(domain, task, user), "turns": TURNS} if user else ()
    query = GREETING if user else str(task.user_scenario.instructions)
    return Case(query, name=f"{number}: {task.id}", user=speaks, answer={"judge": judge})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("domain")
    parser.add_argument("model")
    parser.add_argument("--user", default="", help="the model of the user")
    parser.add_argument("--judge", default="", help="the model that judges what the agent said")
    parser.add_argument("--first", type=int, help="tasks of the domain")
    parser.add_argument("--show", action="store_true", help="print all failures")
    given = parser.parse_args()
    if given.model != GOLD and not given.user:
        parser.error("a model talks with a user: --user MODEL")
    use_checkout(Path(given.checkout))
    domain = Tau2(given.domain, given.judge)
    cases = [make_case(domain, task, given.user, number) for number, task in enumerate(domain.tasks[: given.first])]
    tasks = dict(zip((case.name for case in cases), domain.tasks, strict=False))

    def make(case: Case) -> JsonAgent[str]:
        return make_agent(domain, tasks[case.name], given.model)

    report = evaluate(make, cases, concurrency=1 if given.model.startswith("local/") else 8)
    print(f"{given.domain}, {given.model}\n{report}", flush=True)
    if given.show:
        print(*(f"{trial.case}: {trial.failures[0]:.300}" for trial in report.failed), sep="\n")


if __name__ == "__main__":
    main()
