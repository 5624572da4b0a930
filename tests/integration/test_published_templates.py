"""Published chat templates accept each conversation that goes to a server of one's own.

The templates are those that llama.cpp tests itself with, from the source of the package `llama-cpp-python`
(`tests/integration/install.sh` unpacks them). They are rendered as llama.cpp does: arguments as objects or texts, and
content as a text or as parts, the instruction as a message or in the query, whichever the template takes.
"""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.sandbox
import pytest

from agentkit import JsonAgent, Session
from agentkit.models import LiteLLMModel
from agentkit.testing import ModelServer, answer, call, calls

FOLDER = Path(__file__).parents[2] / ".cache" / "integration" / "templates"
TEMPLATES = sorted(FOLDER.glob("*.jinja"))
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not TEMPLATES, reason="the templates of llama-cpp-python are missing: make integration"),
]


def refuse(text: str) -> None:
    raise jinja2.TemplateError(text)


def write_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=list)


@cache
def compile_template(path: Path) -> jinja2.Template:
    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = write_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    text = re.sub(r"\{%-?\s*(?:end)?generation\s*-?%\}", "", path.read_text(encoding="utf-8"))  # marks of a trainer
    return environment.from_string(text)


def variants(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The forms of a request in which llama.cpp may hand it to a template."""
    for as_object, as_parts, with_nothing, in_query in product((True, False), repeat=4):
        given = deepcopy(messages)
        if in_query and given[0]["role"] == "system" and given[1]["role"] == "user":
            given[:2] = [{"role": "user", "content": f"{given[0]['content']}\n{given[1]['content']}"}]
        for message in given:
            for one in message.get("tool_calls") or ():
                if as_object:
                    one["function"]["arguments"] = json.loads(one["function"]["arguments"])
            content = message.get("content")
            if as_parts and isinstance(content, str):
                message["content"] = [{"type": "text", "text": content}]
            elif not as_parts and isinstance(content, list) and all(part["type"] == "text" for part in content):
                message["content"] = "\n".join(part["text"] for part in content)
            if content is None:
                message["content"] = None if with_nothing else ""
        yield given


def refusal(path: Path, body: dict[str, Any]) -> str:
    """Return why a template refuses a request, "" if it renders it in one of the forms."""
    errors = []
    for messages in variants(body["messages"]):
        try:
            compile_template(path).render(
                messages=messages,
                tools=body.get("tools"),
                functions="[]",
                datetime="",
                add_generation_prompt=True,
                bos_token="<s>",
                eos_token="</s>",
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            errors.append(f"{type(error).__name__}: {error}")
        else:
            return ""
    return errors[-1]


def has_tools(path: Path) -> bool:
    """Return whether a template writes tools; llama.cpp describes them in a text to the model otherwise."""
    return "tool" in path.read_text(encoding="utf-8")


def write_calls(reply: Any) -> Any:
    """Return the reply of a model that writes its calls as text."""
    return "\n".join(json.dumps(one) for one in reply["tool_calls"]) if isinstance(reply, dict) else reply


def number_calls(reply: Any, number: int) -> Any:
    """Return the reply with ids of nine letters and digits, which Mistral's servers give and its templates want."""
    if not isinstance(reply, dict):
        return reply
    made = [{**one, "id": f"call{number:03}{place:02}"} for place, one in enumerate(reply["tool_calls"])]
    return {**reply, "tool_calls": made}


class TemplateServer(ModelServer):
    """A model server that renders a template first, and refuses what the template refuses."""

    def __init__(self, path: Path, *replies: Any) -> None:
        super().__init__(strict=False)
        self.tool_mode: Any = "auto" if has_tools(path) else "text"
        given = replies if has_tools(path) else map(write_calls, replies)
        script = (number_calls(reply, number) for number, reply in enumerate(given))

        def reply(body: dict[str, Any]) -> Any:
            wrong = refusal(path, body)
            return {"status": 500, "message": wrong} if wrong else next(script)

        self._replies: Iterator[Callable[[dict[str, Any]], Any]] = iter(lambda: reply, None)


def add(a: int, b: int) -> int:
    """Adds two integers.

    Args:
        a: The first summand.
        b: The second summand.
    """
    return a + b


def agent_at(server: TemplateServer, **options: Any) -> JsonAgent[Any]:
    model = LiteLLMModel("openai/m", api_base=server.api_base("openai"), api_key="k")
    return JsonAgent(add, model=model, retries=0, tool_mode=server.tool_mode, **options)


def ask_again(server: TemplateServer) -> None:
    agent = agent_at(server)
    assert [agent("What is 1 + 2?"), agent("Really?"), agent("And why?")] == ["3", "yes", "so"]


def ask_with_words(server: TemplateServer) -> None:
    session = Session()
    session.say("By the way, be brief.")
    assert agent_at(server, max_steps=2).run("What is 1 + 3?", session=session).answer == "4"


def ask_in_parallel(server: TemplateServer) -> None:
    agent = agent_at(server)
    assert [agent("What is 1 + 2, and 3 + 4?"), agent("Again?")] == ["3 and 7", "again"]


BOTH = calls(call("add", a=1, b=2), call("add", a=3, b=4))
SHAPES: dict[str, tuple[Callable[[TemplateServer], None], list[Any]]] = {
    "further queries": (ask_again, [call("add", a=1, b=2), answer("3"), answer("yes"), "It is so:", answer("so")]),
    "words, an empty reply, the final request": (ask_with_words, ["", call("add", a=1, b=2), answer("4")]),
    "parallel calls": (ask_in_parallel, [BOTH, answer("3 and 7"), BOTH, answer("again")]),
}


@pytest.mark.parametrize("path", TEMPLATES or [FOLDER], ids=lambda path: path.stem)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_published_template_accepts_each_conversation(path: Path, shape: str) -> None:
    ask, replies = SHAPES[shape]
    with TemplateServer(path, *replies) as server:
        ask(server)


def test_there_are_about_seventy_templates() -> None:
    assert len(TEMPLATES) >= 60
