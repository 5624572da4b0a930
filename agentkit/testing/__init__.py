"""Test doubles for models, for this project's tests and for its users'.

- `ScriptedModel(reply, ...)`: a model without network, for tests of an agent with given replies.
- `ModelServer(reply, ...)`: a provider on the loopback, for tests of everything between the agent and the wire. It
  implements OpenAI, Groq, Anthropic, Gemini and Ollama, and refuses the requests that they refuse.
- `chaos(model, seed)`: a model that fails at random, reproducibly.
- `agent.run(query, record="run.jsonl")` and `agent.replay("run.jsonl")`: record a real run, replay it without a
  model; the fixture `recorded_run` of the pytest plugin does both.
- `check_store(make_store)`: checks that a store of runs of your own keeps the promises of `agentkit.extend.Store`.

A reply is data: a text, `call("add", a=2, b=3)`, `answer("It is 5.")`, several calls at once (`calls(call(...),
call(...))`), a dict `{"content": ..., "tool_calls": [{"name": ..., "arguments": {...}}]}`, or a function of the
request. The server's replies may also be faults: the number of an HTTP status, or a dict with `status` (and
`headers`, `message`), `body`, `error`, `reset`, `cut`, `delay`, `pace`, `stall`, `wait`: `agentkit.testing.server`.
"""

from ..sessions.recordings import Recording, ReplayDiffers
from .scripted import ScriptedModel, answer, call, calls, chaos
from .server import ModelServer
from .store_checks import check_store

__all__ = [
    "ModelServer",
    "Recording",
    "ReplayDiffers",
    "ScriptedModel",
    "answer",
    "call",
    "calls",
    "chaos",
    "check_store",
]
