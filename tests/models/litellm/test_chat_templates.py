"""Servers that render a chat template accept each conversation: roles alternate, calls go one by one where they must.

The templates follow the rules of the published ones (Hugging Face: mistralai/Mistral-Nemo-Instruct-2407,
Mistral-Small-3.2-24B-Instruct-2506, google/gemma-2-9b-it, meta-llama/Llama-3.1-8B-Instruct, Qwen/Qwen2.5-7B-Instruct).
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import pytest
from provider_rules import prepare_messages

from agentkit import JsonAgent, Session
from agentkit.core.messages import Message, ToolCall, assistant, system, tool_message, user
from agentkit.engine.model import Request
from agentkit.models import LiteLLMModel
from agentkit.testing import ModelServer, answer, call, calls
from agentkit.tools.registry import ToolRegistry

NEMO = """
{%- if messages[0]["role"] == "system" %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
  {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
    {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
      {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/...") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
  {%- endif %}
{%- endfor %}
{%- for message in loop_messages %}[{{ message.role }}]{{ message.content }}{%- endfor %}
"""
SMALL = """
{%- for message in messages %}
  {%- if message.role == "user" and not loop.first and loop.previtem.role in ("user", "tool") %}
    {{- raise_exception("Unexpected role 'user' after role '" ~ loop.previtem.role ~ "'") }}
  {%- endif %}
  {%- if message.role == "assistant" and not message.content and not message.tool_calls %}
    {{- raise_exception("Assistant message must have either content or tool_calls") }}
  {%- endif %}
  [{{ message.role }}]{{ message.content }}
{%- endfor %}
"""
GEMMA = """
{%- if messages[0]["role"] == "system" %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- for message in loop_messages %}
  {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
    {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
  {%- endif %}
  <start_of_turn>{{ message.role }} {{ message.content }}<end_of_turn>
{%- endfor %}
"""
LLAMA = """
{%- for message in messages %}
  {%- if message.tool_calls %}
    {%- if not message.tool_calls | length == 1 %}
      {{- raise_exception("This model only supports single tool-calls at once!") }}
    {%- endif %}
    {{- message.tool_calls[0].function.name }}
  {%- endif %}
  <|start_header_id|>{{ message.role }}<|end_header_id|>{{ message.content }}
{%- endfor %}
"""
QWEN = "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>{%- endfor %}"
TEMPLATES = {"nemo": NEMO, "small": SMALL, "llama": LLAMA, "qwen": QWEN}


def refuse(text: str) -> None:
    raise jinja2.TemplateError(text)


def render(template: str, messages: list[Message]) -> str:
    environment = jinja2.Environment()
    return environment.from_string(template).render(messages=messages, raise_exception=refuse)


def rendering(template: str, replies: list[Any]) -> Iterator[Callable[[dict[str, Any]], Any]]:
    """The scripted replies of a server that renders the template first, and refuses what that refuses."""
    script = iter(replies)

    def reply(body: dict[str, Any]) -> Any:
        try:
            render(template, body["messages"])
        except jinja2.TemplateError as error:
            return {"status": 500, "message": str(error)}
        return next(script)

    return iter(lambda: reply, None)


class TemplateServer(ModelServer):
    """A model server that renders a chat template."""

    def __init__(self, template: str, *replies: Any) -> None:
        super().__init__(strict=False)
        self._replies = rendering(template, list(replies))


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def agent_at(server: ModelServer, name: str = "openai/some-model", **options: Any) -> JsonAgent[Any]:
    model = LiteLLMModel(name, api_base=server.api_base("openai"), api_key="k")
    return JsonAgent(add, model=model, retries=0, **options)


@pytest.mark.parametrize("template", list(TEMPLATES))
@pytest.mark.parametrize("name", ["openai/some-model", "hosted_vllm/some-model"])
def test_a_conversation_of_several_queries_is_accepted(template: str, name: str) -> None:
    replies = [call("add", a=1, b=2), answer("3"), answer("yes"), "It is so:", answer("so"), "So."]
    with TemplateServer(TEMPLATES[template], *replies) as server:
        agent = agent_at(server, name)
        queries = ["What is 1 + 2?", "Really?", "And why?", "And now?"]
        assert [*map(agent, queries)] == ["3", "yes", "so", "So."]


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_empty_replies_words_in_between_and_the_final_request_are_accepted(template: str) -> None:
    with TemplateServer(TEMPLATES[template], "", call("add", a=1, b=2), answer("4")) as server:
        session = Session()
        session.say("By the way, be brief.")
        result = agent_at(server, max_steps=2).run("What is 1 + 3?", session=session)
        assert result.answer == "4"
    with TemplateServer(TEMPLATES[template], call("add", a=1, b=2), answer("3")) as server:
        agent = agent_at(server)
        agent.say("One")
        agent.say("Two")
        assert agent("What is 1 + 2?") == "3"


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_parallel_calls_are_sent_one_by_one_where_the_server_asks_for_it(template: str) -> None:
    both = calls(call("add", a=1, b=2), call("add", a=3, b=4))
    with TemplateServer(TEMPLATES[template], both, answer("3 and 7"), both, answer("again")) as server:
        agent = agent_at(server)
        assert [agent("What is 1 + 2, and 3 + 4?"), agent("Again?")] == ["3 and 7", "again"]
        messages = server.requests[-1].body["messages"]
        refused = len(server.requests) - 4
    counts = [len(message["tool_calls"]) for message in messages if message.get("tool_calls")]
    assert (max(counts), refused) == ((1, 1) if template == "llama" else (2, 0))
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert answered == [one["id"] for message in messages for one in message.get("tool_calls") or ()]


def test_gemma_accepts_a_conversation_without_tools() -> None:
    history = [system("Be brief."), user("a"), user("b"), assistant("c"), assistant(""), user("d"), user("e")]
    sent = prepare_messages(history, "openai", has_template=True)
    render(GEMMA, sent)
    assert [message["content"] for message in sent] == ["Be brief.", "a\n\nb", "c", "d\n\ne"]


NO_SYSTEM = '{%- if messages[0]["role"] == "system" %}{{- raise_exception("System role not supported") }}{%- endif %}'


def test_gemma_2_runs_an_agent_with_tools_though_its_template_has_neither_an_instruction_nor_results() -> None:
    written = ['{"calls": [{"name": "final_answer", "arguments": {"text": "3"}}]}'] * 2
    with TemplateServer(NO_SYSTEM + GEMMA, call("add", a=1, b=2), *written) as server:
        model = LiteLLMModel("openai/gemma-2", api_base=server.api_base("openai"), api_key="k")
        agent = JsonAgent(add, model=model)
        assert [agent("What is 1 + 2?"), agent("Really?")] == ["3", "3"]
        assert len(server.requests) == 6, "the instruction is refused once, a result once in each run"
    assert "Adds two integers" in server.requests[-1].body["messages"][0]["content"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_model_of_openai_without_an_instruction_gets_it_with_the_query(role: str) -> None:
    refusal = {"status": 400, "message": f"Unsupported value: 'messages[0].role' does not support '{role}'."}
    with ModelServer(refusal, answer("3")) as server:
        assert agent_at(server, "openai/o1-mini")("What is 1 + 2?") == "3"
    assert [message["role"] for message in server.requests[-1].body["messages"]] == ["user"]


def test_merged_messages_keep_their_parts_and_the_history_stays() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    done = [assistant(None, [ToolCall("1", "add", "{}")]), tool_message(ToolCall("1", "add", "{}"), "3")]
    history = [user("a"), user([picture]), *done, user("b"), user("c")]
    before = [dict(message) for message in history]
    sent = prepare_messages(history, "openai", has_template=True)
    assert sent[0]["content"] == [{"type": "text", "text": "a"}, picture]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[-1]["content"] == "b\n\nc"
    assert history == before


def test_openai_itself_gets_the_messages_as_they_are(internet: Any) -> None:
    reply = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    }
    route = internet.post("https://api.openai.com/v1/chat/completions").respond(json=reply)
    list(LiteLLMModel("openai/gpt-4o-mini").ask(Request([user("a"), user("b")], ToolRegistry())))
    assert len(json.loads(route.calls[0].request.content)["messages"]) == 2
