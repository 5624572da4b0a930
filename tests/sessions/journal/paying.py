"""A program whose runs draw from one quota: python paying.py PLACE RUNS; prints what each run cost.

With 0 runs it begins a request, prints "asked", and waits for its end.
"""

import itertools
import json
import random
import sys
import time

from agentkit import JsonAgent, LimitExceeded, Quota
from agentkit.core.messages import ToolCall, Usage, assistant
from agentkit.engine.model import Reply, Request


class Priced:
    """A model with prices: a cent for a request, and a cent for each 100 tokens of its reply, at most 1000."""

    name = "priced"

    def __init__(self, seed: int = 0, looks: int = 2, hangs: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.looks = looks
        self.hangs = hangs
        self.asked = 0
        self.spent = 0.0

    def worst_case(self, request: Request) -> float:
        return 0.01 + 0.0001 * min(request.max_tokens or 1000, 1000)

    def ask(self, request: Request):
        tokens = self.random.randint(1, min(request.max_tokens or 1000, 1000))
        cost = 0.01 + 0.0001 * tokens
        self.asked += 1
        self.spent += cost
        if self.hangs:
            print("asked", flush=True)
            time.sleep(self.hangs)
        is_last = request.tool_choice == "final_answer" or self.asked % (self.looks + 1) == 0
        name, arguments = ("final_answer", {"text": "done"}) if is_last else ("look", {})
        call = ToolCall(f"c{self.asked}", name, json.dumps(arguments))
        yield Reply(assistant(None, [call]), Usage(1, 10, tokens, cost=cost))

    async def aask(self, request: Request):
        for piece in self.ask(request):
            yield piece


PLACES = itertools.count()


def look() -> str:
    """Look."""
    return f"nothing at place {next(PLACES)}"


def agent_of(place, model: Priced, dollars: float = 1.0, owner: object = "ada", **settings) -> JsonAgent:
    quota = Quota(owner=owner, dollars=dollars, per="month")
    return JsonAgent(look, model=model, journal=place, memory=False, quota=quota, **settings)


if __name__ == "__main__":
    place = sys.argv[1]
    runs = int(sys.argv[2])
    model = Priced(seed=int(sys.argv[3]), hangs=0.0 if runs else 120.0)
    agent = agent_of(place, model)
    for _ in range(runs or 1):
        before = model.spent
        try:
            agent.run("Go")
        except LimitExceeded as error:
            print("" if error.reason == "quota" else error)
        print(model.spent - before, flush=True)
