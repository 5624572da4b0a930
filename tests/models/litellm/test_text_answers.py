"""A plain text that ends a turn is the answer at once, where the model is known to call tools."""

from typing import Any

import pytest
from wire_providers import KEY, MODELS

from agentkit import JsonAgent, Session
from agentkit.engine.loop import REMINDER
from agentkit.models.litellm.model import LiteLLMModel
from agentkit.testing import ModelServer, answer, call

NAMES = {**MODELS, "own": "openai/mine", "responses": "openai/responses/gpt-5-mini"}


def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


def model(server: ModelServer, name: str, **options: Any) -> LiteLLMModel:
    wire = {"own": "openai", "responses": "openai"}.get(name, name)
    key = {} if name == "ollama" else {"api_key": KEY}
    return LiteLLMModel(NAMES[name], api_base=server.api_base(wire), **key, **options)


def ask(world: Any, stream: bool, agent: Any, query: str, **how: Any) -> Any:
    if not stream:
        return world.run(agent, query, **how)
    return world.stream(agent, query, **how)[-1].result


def count_reminders(server: ModelServer) -> int:
    return str(server.requests[-1].body).count(REMINDER[:40])


@pytest.mark.parametrize("name", list(NAMES))
def test_after_a_call_a_text_is_the_answer(world: Any, stream: bool, name: str) -> None:
    with ModelServer(call("add", a=1, b=2), "It is 3.", "And that is 4.") as server:
        agent = JsonAgent(add, model=model(server, name), retries=0)
        result = ask(world, stream, agent, "What is 1 + 2?")
        assert (result.answer, result.stopped, len(server.requests)) == ("It is 3.", "text", 2)
        result = ask(world, stream, agent, "And one more?")
        assert (result.answer, len(server.requests)) == ("And that is 4.", 3)
        assert count_reminders(server) == 0
        assert server.violations == []


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_a_listed_model_is_known_from_its_first_reply(world: Any, stream: bool, name: str) -> None:
    with ModelServer("Hello!") as server:
        result = ask(world, stream, JsonAgent(add, model=model(server, name), retries=0), "Hi")
        assert (result.answer, result.stopped, len(server.requests)) == ("Hello!", "text", 1)


@pytest.mark.parametrize("name", ["own", "ollama"])
def test_an_unknown_model_is_asked_once_more(world: Any, stream: bool, name: str) -> None:
    with ModelServer("Hello!", answer("Hello again!")) as server:
        agent = JsonAgent(add, model=model(server, name), retries=0, tool_mode="auto")
        ask(world, stream, agent, "Hi")
        assert len(server.requests) > 1


@pytest.mark.parametrize(
    "text",
    [
        "Let me add them:",
        "Let me add them:\n",
        "I am adding...",
        "I am adding…",
        "Let me add them.",
        "Good question. I'll now add them",
        "Okay, I’m going to call add.",
    ],
)
def test_a_text_that_announces_more_is_no_answer(world: Any, stream: bool, text: str) -> None:
    with ModelServer(text, call("add", a=1, b=2), "It is 3.") as server:
        result = ask(world, stream, JsonAgent(add, model=model(server, "anthropic"), retries=0), "What is 1 + 2?")
        assert (result.answer, len(server.requests)) == ("It is 3.", 3)
        assert count_reminders(server) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Ich werde das jetzt nachschlagen.",
        "Gute Frage. Lass mich den Preis von Milch prüfen.",
        "Ich suche jetzt nach dem Preis",
        "Je vais maintenant chercher le prix.",
        "D'accord, laissez-moi vérifier",
        "Voy a buscarlo.",
        "Buena pregunta. Déjame consultar el precio.",
        "Ora fammi verificare il prezzo.",
        "Controllerò il prezzo del latte.",
        "Vou verificar o preço.",
        "Deixe-me pesquisar isso.",
        "好的，让我查一下牛奶的价格。",
        "我来计算。",
        "让我查一下：",
        "それでは、価格を確認します。",
        "はい。牛乳の値段を調べてみます。",
    ],
)
def test_a_step_is_announced_in_many_languages(text: str) -> None:
    with ModelServer(text, call("add", a=1, b=2), "3") as server:
        agent = JsonAgent(add, model=model(server, "anthropic"), retries=0)
        assert (agent.run("What is 1 + 2?").answer, count_reminders(server)) == ("3", 1)


@pytest.mark.parametrize(
    "text",
    [
        "Es ist 3. Ich werde gern mehr erklären.",
        "Ich suche immer nach dem besten Preis.",
        "Es ist 3. Wenn Sie möchten, werde ich auch den Preis prüfen.",
        "C'est 3. Je vais bien, merci.",
        "Son 3. Si quieres, voy a buscar más.",
        "Sono 3. Fammi sapere se serve altro.",
        "São 3. Deixe-me saber se precisar de mais.",
        "答案是3。如果需要，我会继续查。",
        "答案是3。请让我知道。",
        "答えは3です。この関数は値を計算します。",
        "確認しました。3です。",
    ],
)
def test_an_answer_in_many_languages_is_no_announcement(text: str) -> None:
    with ModelServer(text) as server:
        result = JsonAgent(add, model=model(server, "anthropic"), retries=0).run("What is 1 + 2?")
        assert (result.answer, len(server.requests)) == (text, 1)


@pytest.mark.parametrize(
    "text",
    ["It is 3. Let me know if you need more.", "It is 3. I'll be happy to add more.", "If you like, I'll add more."],
)
def test_a_text_that_offers_more_is_an_answer(world: Any, stream: bool, text: str) -> None:
    with ModelServer(text) as server:
        result = ask(world, stream, JsonAgent(add, model=model(server, "anthropic"), retries=0), "What is 1 + 2?")
        assert (result.answer, len(server.requests)) == (text, 1)


def test_a_truncated_text_is_continued(world: Any, stream: bool) -> None:
    cut = {"content": "It is", "finish_reason": "max_tokens"}
    with ModelServer(call("add", a=1, b=2), cut, " 3.") as server:
        result = ask(world, stream, JsonAgent(add, model=model(server, "anthropic"), retries=0), "What is 1 + 2?")
        assert (result.answer, len(server.requests)) == ("It is 3.", 3)


def test_a_typed_answer_is_always_a_call(world: Any, stream: bool) -> None:
    with ModelServer(call("add", a=1, b=2), "It is 3.", answer(3)) as server:
        agent = JsonAgent(add, model=model(server, "anthropic"), answer=int, retries=0)
        assert ask(world, stream, agent, "What is 1 + 2?").answer == 3
        assert count_reminders(server) == 1


def test_a_recorded_run_is_replayed_with_its_text(world: Any, stream: bool, tmp_path: Any) -> None:
    with ModelServer(call("add", a=1, b=2), "It is 3.", "Four.") as server:
        agent = JsonAgent(add, model=model(server, "anthropic"), journal=tmp_path / "runs.db", retries=0)
        ask(world, stream, agent, "What is 1 + 2?", record=tmp_path / "run.jsonl")
        assert agent.replay(tmp_path / "run.jsonl").answer == "It is 3."
        agent.session.save(tmp_path / "session.json")
        other = JsonAgent(add, model=model(server, "anthropic"), retries=0)
        result = ask(world, stream, other, "And one more?", session=Session.load(tmp_path / "session.json"))
        assert (result.answer, len(server.requests)) == ("Four.", 3)
        assert "ends_turn" not in str([request.body for request in server.requests])
