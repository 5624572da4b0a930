"""Schema mode: a reply is calls as JSON under one schema over all tools; "auto" takes it where native calls fail."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentkit import JsonAgent, JsonTool, LimitExceeded, ModelError, NoAnswer, ToolRegistry
from agentkit.core.messages import ToolCall, assistant, calls_of, user
from agentkit.engine.model import AnswerForming, Reply, TextDelta, ToolCallDelta
from agentkit.models import LiteLLMModel, Request
from agentkit.models.led import is_final, lead_request, list_rivals
from agentkit.policies.text_tool_mode import SchemaCallModel, SchemaModeUsed, read_call_object
from agentkit.testing import ScriptedModel, answer, call
from agentkit.testing.server import ModelServer
from agentkit.tools.final_answer import make_answer_tool


@dataclass
class Line:
    item: str
    parts: "list[Line]" = field(default_factory=list)


def price_of(item: str, unit: str = "euro") -> float:
    """Return the price of an item."""
    return {"tea": 3.5, "coffee": 4.25}[item]


def order(lines: list[Line]) -> int:
    """Order items."""
    return len(lines)


def write(*calls):
    return json.dumps({"calls": [{"name": name, "arguments": arguments} for name, arguments in calls]})


TEA = write(("price_of", {"item": "tea"}))
ORDERED = write(("order", {"lines": [{"item": "tea"}]}))
DONE = write(("final_answer", {"text": "3.50 euros"}))
TOOLS = ToolRegistry(price_of, order, answer=make_answer_tool())


class Textual(ScriptedModel):
    """A scripted model that is known to have no tool calling."""

    tool_calling = "none"


class Small(Textual):
    """A scripted model that is led."""

    lead = staticmethod(lead_request)


class Unproven(ScriptedModel):
    """A scripted model on an address of the user."""

    tool_calling = "unknown"


WIRES = {
    "openai": ("openai/gpt-4o-mini", ("response_format", "json_schema", "schema")),
    "responses": ("openai/responses/gpt-4o", ("text", "format", "schema")),
    "vllm": ("hosted_vllm/some-model", ("response_format", "json_schema", "schema")),
    "lm_studio": ("lm_studio/some-model", ("response_format", "json_schema", "schema")),
    "ollama": ("ollama_chat/llama3.1", ("format",)),
    "anthropic": ("anthropic/claude-sonnet-4-5", ("output_format", "schema")),
    "anthropic by a tool": ("anthropic/claude-3-haiku-20240307", ("tools", 0, "input_schema")),
    "gemini": ("gemini/gemini-2.5-flash", ("generationConfig", "response_json_schema")),
    "groq": ("groq/llama-3.1-8b-instant", ("tools", 0, "function", "parameters")),
    "mistral": ("mistral/mistral-small-latest", ("response_format", "json_schema", "schema")),
}


@pytest.mark.parametrize(("model", "place"), WIRES.values(), ids=WIRES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_schema_stands_on_every_wire_and_the_calls_run(world, model, place, stream):
    provider = model.partition("/")[0].removesuffix("_chat")
    with ModelServer(TEA, DONE) as server:
        agent = JsonAgent(
            price_of, order, model=model, api_base=server.api_base(provider), api_key="k", tool_mode="schema", retries=0
        )
        assert (world.stream(agent, "?")[-1].result.answer if stream else world.run(agent, "?").answer) == "3.50 euros"
        assert server.violations == []
        sent = server.requests[0].body
        for key in place:
            sent = sent[key]
        assert list(sent["properties"]) == ["calls"]
        jsonschema.Draft202012Validator.check_schema(sent)
        if place[0] != "tools":
            assert not server.requests[0].body.get("tools")
    assert [calls_of(message)[0].name for message in agent.history if calls_of(message)] == ["price_of", "final_answer"]


def test_openai_itself_gets_its_strict_dialect():
    request = Request([user("?")], ToolRegistry(), reply_schema=TOOLS.call_schema())
    for name, options, strict in [
        ("openai/gpt-4o-mini", {}, True),
        ("openai/some-model", {"api_base": "http://localhost:8080/v1"}, None),
    ]:
        model = LiteLLMModel(name, api_key="k", **options)
        arguments = model._arguments(request)
        assert arguments["response_format"]["json_schema"].get("strict") is strict


class TestSchema:
    VALID = [
        TEA,
        DONE,
        write(("price_of", {"item": "a", "unit": "b"}), ("order", {"lines": [{"item": "x", "parts": []}]})),
    ]
    INVALID = [
        "{}",
        '{"calls": []}',
        write(("other", {})),
        write(("price_of", {})),
        write(("price_of", {"item": "a", "x": 1})),
        write(("price_of", {"item": "tea"}), ("final_answer", {"text": "3.50"})),
        write(("order", {"lines": [{"x": 1}]})),
    ]

    @pytest.mark.parametrize("text", VALID)
    def test_it_takes_calls_of_the_tools(self, text):
        jsonschema.validate(json.loads(text), TOOLS.call_schema())

    @pytest.mark.parametrize("text", INVALID)
    def test_it_takes_nothing_else(self, text):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(text), TOOLS.call_schema())

    def test_a_forced_call_leaves_one_tool(self):
        schema = TOOLS.call_schema("final_answer")
        jsonschema.validate(json.loads(DONE), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(TEA), schema)

    def test_it_is_built_once_and_leaves_the_tools_unchanged(self):
        before = json.dumps(TOOLS.schemas("mcp"))
        assert TOOLS.call_schema() is TOOLS.call_schema()
        assert json.dumps(TOOLS.schemas("mcp")) == before


def test_a_whole_run_in_schema_mode(world):
    model = ScriptedModel(TEA, DONE)
    agent = JsonAgent(price_of, model=model, tool_mode="schema")
    result = world.run(agent, "?")
    assert (result.answer, result.stopped) == ("3.50 euros", "answer")
    for request in model.requests:
        assert not request.tools
        assert request.reply_schema is not None
        assert {message["role"] for message in request.messages} <= {"system", "user", "assistant"}
    assert "price_of" in model.requests[0].messages[0]["content"]
    assert json.loads(model.requests[1].messages[-2]["content"]) == json.loads(TEA)
    assert "3.5" in model.requests[1].messages[-1]["content"]
    assert "price_of" not in agent.instruction


def test_several_calls_of_one_reply(world):
    text = write(("price_of", {"item": "tea"}), ("price_of", {"item": "coffee"}))
    agent = JsonAgent(price_of, model=ScriptedModel(text, DONE), tool_mode="schema")
    messages = world.run(agent, "?").messages
    assert [message["content"] for message in messages if message["role"] == "tool"][:2] == ["3.5", "4.25"]


def test_a_reply_that_no_engine_constrained_is_validated(world):
    unknown = write(("price", {"thing": "tea"}))
    agent = JsonAgent(price_of, model=ScriptedModel(unknown, f"Sure!\n```json\n{TEA}\n```", DONE), tool_mode="schema")
    result = world.run(agent, "?")
    results = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert "there is no tool 'price'" in results[0]
    assert results[1] == "3.5"


def test_a_truncated_reply_is_asked_for_again_and_not_continued(world):
    cut = Reply(assistant(TEA[:30]), finish_reason="length")
    agent = JsonAgent(price_of, model=ScriptedModel(cut, TEA, DONE), tool_mode="schema")
    result = world.run(agent, "?")
    assert result.answer == "3.50 euros"
    assert [calls_of(message)[0].name for message in result.messages if calls_of(message)] == [
        "price_of",
        "final_answer",
    ]


def test_a_reply_that_is_nested_too_deeply_to_read_is_asked_for_again(world):
    deep = "[" * 100_000
    agent = JsonAgent(price_of, model=ScriptedModel(deep, TEA, DONE), tool_mode="schema")
    assert world.run(agent, "?").answer == "3.50 euros"


def test_an_answer_of_a_type_is_validated(world):
    text = write(("final_answer", {"item": "tea", "parts": []}))
    agent = JsonAgent(price_of, model=ScriptedModel(write(("final_answer", {})), text), answer=Line, tool_mode="schema")
    assert world.run(agent, "?").answer == Line("tea")


def test_a_server_that_refuses_the_schema_gets_the_instruction_alone(world):
    refused = ModelError("response_format of type json_schema is not supported", kind="bad_request")
    model = ScriptedModel(refused, TEA, DONE)
    assert world.run(JsonAgent(price_of, model=model, tool_mode="schema"), "?").answer == "3.50 euros"
    assert [request.reply_schema is None for request in model.requests] == [False, True, True]


class TestStreaming:
    PIECES = st.lists(st.integers(1, 9), min_size=1)

    def read(self, text, sizes):
        class Pieces:
            name = "pieces"

            def ask(self, request):
                at = 0
                while at < len(text):
                    size = sizes[at % len(sizes)]
                    yield TextDelta(text[at : at + size])
                    at += size
                yield Reply(assistant(text), finish_reason="stop")

        return [*SchemaCallModel(Pieces()).ask(Request([user("?")], TOOLS, stream=True))]

    @given(
        PIECES,
        st.lists(st.tuples(st.sampled_from(["price_of", "order"]), st.dictionaries(st.text(), st.text())), min_size=1),
    )
    def test_the_pieces_of_calls_join_to_the_calls(self, sizes, calls):
        *deltas, reply = self.read(write(*calls), sizes)
        assert all(isinstance(delta, ToolCallDelta) for delta in deltas)
        for index, made in enumerate(calls_of(reply.message)):
            mine = [delta for delta in deltas if delta.index == index]
            assert {delta.name for delta in mine} == {made.name}
            assert json.loads("".join(delta.arguments for delta in mine)) == json.loads(made.arguments)
        assert len(calls_of(reply.message)) == len(calls) == len({delta.index for delta in deltas})

    @given(st.text())
    def test_any_text_is_read_without_an_error(self, text):
        self.read(text, [3])
        read_call_object(Reply(assistant(text)), TOOLS)

    def test_the_answer_arrives_in_pieces(self, world):
        agent = JsonAgent(price_of, model=ScriptedModel(TEA, DONE), tool_mode="schema")
        events = world.stream(agent, "?")
        assert not any(isinstance(event, TextDelta) for event in events)
        assert "".join(event.added for event in events if isinstance(event, AnswerForming)) == "3.50 euros"


def names_in(schema):
    """The tools of which a schema takes a call."""
    return {form["properties"]["name"]["enum"][0] for form in schema.get("anyOf", [schema])}


def parameters_in(schema):
    """The parameters of the one call that a schema takes, with what they can be."""
    return schema["properties"]["arguments"]["properties"]


class TestLed:
    def test_a_small_model_gets_examples_and_one_call_a_reply(self, world):
        model = Small(TEA, DONE)
        result = world.run(JsonAgent(price_of, order, model=model), "What does tea cost?")
        assert result.answer == "3.50 euros"
        first, second = model.requests
        assert len([message for message in first.messages if message["role"] == "assistant"]) == 4
        assert names_in(first.reply_schema) == {"price_of"}
        one = {"name": "price_of", "arguments": {"item": "tea"}}
        jsonschema.validate(one, first.reply_schema)
        for other in ([one, one], {"calls": [one]}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(other, first.reply_schema)
        assert second.messages[-1]["content"] == "Result of price_of: 3.5\nQuestion: What does tea cost?"
        assert {message["role"] for message in second.messages} == {"system", "user", "assistant"}

    def test_a_call_is_not_offered_again_before_the_answer(self, world):
        model = Small(TEA, DONE, TEA, DONE)
        agent = JsonAgent(price_of, order, model=model)
        world.run(agent, "tea?")
        world.run(agent, "and now?")
        offered = [names_in(request.reply_schema) for request in model.requests]
        assert offered == [{"price_of", "order"}, {"final_answer"}] * 2

    def test_the_tools_whose_words_suit_the_question_are_offered(self, world):
        model = Small(TEA, DONE, TEA, ORDERED, DONE)
        agent = JsonAgent(price_of, order, model=model)
        world.run(agent, "What is the price of tea?")
        world.run(agent, "Look up the price of an item, tea, and order items")
        offered = [names_in(request.reply_schema) for request in model.requests]
        assert offered == [
            {"price_of"},
            {"final_answer"},
            {"price_of", "order"},
            {"order", "final_answer"},
            {"final_answer"},
        ]

    def test_only_parameters_that_the_question_names_are_offered(self, world):
        model = Small(TEA, DONE, TEA, DONE)
        agent = JsonAgent(price_of, model=model)
        world.run(agent, "What is the price of tea?")
        world.run(agent, "What is the price of tea in the unit 'dollar'?")
        asked = [parameters_in(request.reply_schema) for request in model.requests[::2]]
        assert [[*each] for each in asked] == [["item"], ["item", "unit"]]
        assert asked[1]["unit"]["enum"] == ["dollar"]
        assert "enum" not in parameters_in(model.requests[1].reply_schema)["text"]

    def test_what_does_not_change_stands_first(self, world):
        model = Small(TEA, DONE, TEA, DONE)
        agent = JsonAgent(price_of, order, model=model)
        for query in ("What is the price of tea?", "Order what is there."):
            world.run(agent, query)
            agent.clear_history()
        one, two, other, _ = ([*map(str, request.messages)] for request in model.requests)
        assert two[: len(one)] == one
        assert other[: len(one) - 1] == one[:-1]

    def test_numbers_are_shown_without_separators(self, world):
        model = Small(TEA, DONE)
        world.run(JsonAgent(price_of, model=model), "What is the price of 1,250,000 items, or 3,4 or [200,300]?")
        shown = model.requests[0].messages[-1]["content"]
        assert shown.endswith("Question: What is the price of 1250000 items, or 3,4 or [200,300]?")

    def test_a_call_with_wrong_arguments_is_made_again(self, world):
        model = Small(write(("price_of", {})), TEA, DONE)
        assert world.run(JsonAgent(price_of, model=model), "tea?").answer == "3.50 euros"
        assert names_in(model.requests[1].reply_schema) == {"price_of"}

    def test_the_final_request_leaves_the_answer_and_its_prompt_out(self, world):
        model = Small(TEA, DONE)
        agent = JsonAgent(price_of, order, model=model, max_steps=1)
        assert world.run(agent, "tea?").answer == "3.50 euros"
        assert names_in(model.requests[-1].reply_schema) == {"final_answer"}
        assert model.requests[-1].messages[-1]["content"] == "Result of price_of: 3.5\nQuestion: tea?"


def pay(amount: float, share: float, discount_percent: float, months: int) -> str:
    """Pay an amount."""
    return "ok"


def book(title: str, day: str, people: list[str], size: Literal["small", "large"], window: bool = False) -> str:
    """Book a table.

    Args:
        title: Name of the restaurant.
        day: The day, YYYY-MM-DD.
        people: Who comes.
        size: The size.
        window: Whether at the window.
    """
    return "ok"


def mean(values: list[float], digits: int | None = None) -> float:
    """Return the mean of numbers.

    Args:
        values: The numbers.
        digits: Decimal places.
    """
    return 1.0


def find_route(
    start: str, end: str, avoid_tolls: bool = False, extras: list[Literal["Child Seat", "Roof Box"]] = ()
) -> str:
    """Find a route.

    Args:
        start: City and state, e.g. Boston, MA.
        end: The last place.
        avoid_tolls: Whether to avoid toll roads. Default is false.
        extras: What the car must have.
    """
    return "ok"


def measure_circle(radius: int, unit: str = "cm", digits: int = 2) -> float:
    """Return the area of a circle.

    Args:
        radius: The radius.
        unit: The unit of the radius.
        digits: Decimal places.
    """
    return 1.0


def ask_about(function, query, **settings):
    """What each parameter can be in the first request about `query`, which lets the model call `function` alone."""
    tools = ToolRegistry(function, answer=make_answer_tool())
    schema = lead_request(Request([user(query)], tools), **settings).reply_schema
    return {name: inner.get("enum", inner) for name, inner in parameters_in(schema).items()}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


class TestLedParts:
    """A model with a projector sees the images of a question and of a result."""

    def test_an_image_of_the_question_stays_beside_the_functions(self):
        tools = ToolRegistry(price_of, answer=make_answer_tool())
        asked = [user([{"type": "text", "text": "What is the price of this tea?"}, IMAGE])]
        content = lead_request(Request(asked, tools)).messages[-1]["content"]
        assert content[0]["text"].startswith("Functions:\nprice_of(item")
        assert content[0]["text"].endswith("Question: What is the price of this tea?")
        assert content[1:] == [IMAGE]

    def test_an_image_of_a_result_stands_between_the_result_and_the_question(self):
        tools = ToolRegistry(price_of, answer=make_answer_tool())
        made = assistant(None, [ToolCall("c1", "price_of", '{"item": "tea"}')])
        result = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a label"}, IMAGE]}
        content = lead_request(Request([user("Price of tea?"), made, result], tools)).messages[-1]["content"]
        assert content == [
            {"type": "text", "text": "Result of price_of: a label"},
            IMAGE,
            {"type": "text", "text": "Question: Price of tea?"},
        ]


class TestLedValues:
    def test_numbers_are_those_of_the_question(self):
        offered = ask_about(pay, "Pay 1,200 or 2.5 million with a share of 5% in the next two months")
        assert offered["amount"] == [1200, 2500000, 0.05, 2]
        assert offered["share"] == [1200, 2500000, 0.05, 2]
        assert offered["discount_percent"] == [1200, 2500000, 5, 2]
        assert offered["months"] == [1200, 2500000, 5, 2]

    def test_a_period_is_counted_in_the_unit_of_the_parameter_and_a_number_that_is_missing_can_be_0(self):
        assert ask_about(pay, "Pay 30 in the next year")["months"] == [30, 12, 0]

    def test_texts_dates_lists_and_options(self):
        query = "Book a small table at 'Chez Paul' on March 5, 2026 for Anna Bell, Ben and Carl"
        offered = ask_about(book, query)
        assert offered["title"] == ["Chez Paul"]
        assert offered["day"] == ["2026-03-05"]
        assert offered["size"] == ["small"]
        assert ["Anna Bell", "Ben", "Carl"] in offered["people"]["enum" if isinstance(offered["people"], dict) else 0 :]
        assert "window" not in offered

    def test_no_text_begins_or_ends_with_a_word_without_content_or_holds_a_part_of_a_name(self):
        texts = ask_about(price_of, "What is the price of a cup of tea in New York City?")["item"]
        assert {"cup", "cup of tea", "New York City"} <= {*texts}
        assert not {"What", "cup of", "a cup", "New York", "City", "price"} & {*texts}

    def test_a_flag_and_an_option_are_offered_if_the_question_has_a_word_of_them(self):
        plain = ask_about(find_route, "Find a route from Rome to Pisa")
        assert [*plain] == ["start", "end"]
        offered = ask_about(
            find_route, "Find a route from Rome to Pisa with toll roads avoided and a seat for my child"
        )
        assert (offered["avoid_tolls"], offered["extras"]) == ([True], [["Child Seat"]])

    def test_an_example_of_the_description_completes_a_text(self):
        offered = ask_about(find_route, "Find a route from Boston to Reno")
        assert (offered["start"], offered["end"]) == (["Boston, MA"], ["Reno"])

    def test_a_value_of_any_type_has_an_end(self):
        def keep(value: Any) -> str:
            """Keep a value."""
            return "ok"

        assert ask_about(keep, "Keep the blue cup")["value"]["anyOf"] == [
            {"type": "string", "enum": ["blue", "blue cup", "cup"]}
        ]
        forms = ask_about(keep, "Keep 3 and 4")["value"]["anyOf"]
        assert [form["enum"] for form in forms[1:]] == [[3, 4], [[3, 4]]]

        def keep_all(values: dict) -> str:
            """Keep values."""
            return "ok"

        offered = ask_about(keep_all, "Keep the age 30 and the city 'Oslo'")["values"]
        assert offered["additionalProperties"] is False
        assert {"age", "city"} <= {*offered["properties"]}

    def test_a_unit_is_the_word_behind_a_number(self):
        assert ask_about(measure_circle, "What is the area of a circle with a radius of 4 inches?") == {
            "radius": [4],
            "unit": ["inches"],
        }
        assert [*ask_about(measure_circle, "What is the area of a circle with the radius 4?")] == ["radius"]

    def test_a_country_of_the_question_is_not_its_code_where_the_description_asks_for_none(self):
        def find_events(place: str) -> str:
            """Find events.

            Args:
                place: Where, for example Reno.
            """
            return "ok"

        assert ask_about(find_events, "Find events in France")["place"] == ["France"]

    def test_names_of_two_words_in_a_list_stay_whole(self):
        offered = ask_about(book, "Book a table at 'Chez Paul' tomorrow for Ann Bell, Ben Cole, Dan Eck, and Fay")
        assert ["Ann Bell", "Ben Cole", "Dan Eck", "Fay"] in offered["people"]

    @pytest.mark.parametrize("query", ["Pack the things ['hat', 'coat'] into a bag", 'Pack: ["hat", "coat"]'])
    def test_a_list_in_brackets_is_offered_to_an_optional_parameter(self, query):
        def pack(bag: str, things: list[str] | None = None) -> str:
            """Pack things into a bag."""
            return "ok"

        offered = ask_about(pack, query)["things"]
        assert offered == {"anyOf": [{"type": "array", "enum": [["hat", "coat"]]}]}

    def test_quotes_around_a_question_are_left_out(self):
        plain = ask_about(price_of, "What is the price of apple pie for lunch?")
        assert ask_about(price_of, "'What is the price of apple pie for lunch?'") == plain

    def test_texts_of_several_parts_are_offered_to_parameters_that_take_them_alone(self):
        query = "Remind me of the dinner with Anna in Rome"

        def remind(message: str, guest: str) -> str:
            """Remind somebody of something."""
            return "ok"

        offered = ask_about(remind, query)
        assert "dinner with Anna in Rome" in offered["message"]
        assert offered["guest"] == ["dinner", "Anna", "Rome"]

    @pytest.mark.parametrize(
        ("query", "values", "digits"),
        [
            ("What is the mean of 3, 4 and 5?", [[3, 4, 5]], None),
            ("What is the mean of 3, 4 and 5, with 2 decimal digits?", [[3, 4, 5]], 2),
            ("What is the mean of [3, 4]?", [[3, 4]], None),
        ],
    )
    def test_numbers_that_are_listed_stay_together(self, query, values, digits):
        offered = ask_about(mean, query)
        assert offered["values"] == values
        assert ("digits" in offered) == (digits is not None)

    def test_each_value_is_accepted_by_the_schema_of_the_tool(self):
        query = "Book a large table at 'Chez Paul' tomorrow for Anna and Ben"
        for name, values in ask_about(book, query).items():
            for value in values:
                jsonschema.validate(value, JsonTool(book).parameters["properties"][name])

    def test_a_tool_that_needs_a_number_is_not_offered_without_one(self):
        tools = ToolRegistry(price_of, mean, pay, answer=make_answer_tool())
        request = lead_request(Request([user("Pay or price of tea?")], tools))
        assert names_in(request.reply_schema) == {"price_of"}

    def test_texts_are_written_freely_where_there_is_much_to_copy_from(self):
        query = "What is the price of tea? " + "It is for my friends. " * 40
        assert set(ask_about(price_of, query)["item"]) >= {"type", "maxLength"}

    def test_a_larger_model_writes_its_values(self):
        offered = ask_about(price_of, "What is the price of tea?", offers_values=False)
        assert "enum" not in offered["item"]
        assert offered["item"]["maxLength"] < 100


class TestAuto:
    def run(self, world, model, **settings):
        events = world.stream(JsonAgent(price_of, model=model, **settings), "?")
        return events[-1].result.answer, [event for event in events if isinstance(event, SchemaModeUsed)]

    def test_a_model_known_to_have_no_tool_calling_gets_the_schema(self, world):
        model = Textual(TEA, DONE)
        given, notices = self.run(world, model)
        assert given == "3.50 euros"
        assert all(request.reply_schema for request in model.requests)
        assert [notice.notice for notice in notices] == [
            "scripted: it is known to have no tool calling; its replies are read as calls under one JSON Schema "
            '(tool_mode="schema")'
        ]

    def test_a_text_instead_of_the_first_call_brings_the_schema_on_an_own_address(self, world):
        model = Unproven("I would look at the price list.", TEA, DONE)
        given, notices = self.run(world, model)
        assert given == "3.50 euros"
        assert [request.reply_schema is not None for request in model.requests] == [False, True, True]
        assert [notice.reason for notice in notices] == ["its first reply made no tool call"]

    def test_a_first_call_proves_tool_calling(self, world):
        model = Unproven(call("price_of", item="tea"), "It is 3.50.", "3.50 euros")
        given, notices = self.run(world, model)
        assert (given, notices) == ("3.50 euros", [])
        assert not any(request.reply_schema for request in model.requests)

    def test_the_choice_holds_for_the_rest_of_a_conversation(self, world):
        model = Unproven("Hm.", TEA, DONE, DONE)
        agent = JsonAgent(price_of, model=model)
        world.run(agent, "?")
        assert world.run(agent, "again?").answer == "3.50 euros"
        assert model.requests[-1].reply_schema is not None

    def test_models_of_providers_keep_native_calls(self, world):
        model = ScriptedModel("Hm.", answer("3.50 euros"))
        given, notices = self.run(world, model)
        assert (given, notices) == ("3.50 euros", [])
        assert not any(request.reply_schema for request in model.requests)

    @pytest.mark.parametrize(
        "error",
        [
            "registry.ollama.ai/library/gemma:2b does not support tools",
            "tools param requires --jinja flag",
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        ],
    )
    def test_a_server_that_accepts_no_tools_gets_the_schema(self, world, error):
        model = ScriptedModel(ModelError(error, kind="bad_request"), TEA, DONE)
        given, notices = self.run(world, model)
        assert given == "3.50 euros"
        assert [notice.reason for notice in notices] == ["the server accepts no tools for it"]

    @pytest.mark.parametrize(
        ("name", "options", "expected"),
        [
            ("openai/gpt-4o-mini", {}, "native"),
            ("gpt-4o-mini", {}, "native"),
            ("openai/m", {"api_base": "http://127.0.0.1:8080/v1"}, "unknown"),
            ("openai/m", {"api_base": "https://eu.api.openai.com/v1"}, "native"),
            ("ollama_chat/m", {}, "unknown"),
            ("hosted_vllm/m", {}, "unknown"),
            ("anthropic/m", {}, "native"),
            ("perplexity/sonar", {}, "none"),
        ],
    )
    def test_what_is_known_of_a_model_of_litellm(self, name, options, expected):
        assert LiteLLMModel(name, **options).tool_calling == expected


ECHOES = {
    "the final request": "This is the last request of this run, and no other tool can be used any more. Call final_answer now.",
    "the reminder": "Go on by calling a tool. When the task is done, or cannot be done, call final_answer with the answer.",
    "the instruction": "Work through the task step by step with the tools.",
    "the description of the answer": "The whole answer, as the person should read it.",
    "again and again, and cut": "Go on by calling a tool. Go on by calling a tool. Go on by calling a tool. Go on,",
    "with a little beside it": "Sure: Rely on what the tools return; when one fails, try another way or say so.",
}


class TestEchoes:
    @pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
    @pytest.mark.parametrize("form", ["text", "call", "schema"])
    def test_a_repetition_of_our_own_text_is_no_answer(self, world, echo, form):
        reply = {"text": echo, "call": answer(echo), "schema": write(("final_answer", {"text": echo}))}[form]
        mode = "schema" if form == "schema" else "auto"
        good = DONE if form == "schema" else answer("3.50 euros")
        model = ScriptedModel(reply, good)
        assert world.run(JsonAgent(price_of, model=model, tool_mode=mode), "?").answer == "3.50 euros"
        assert len(model.requests) == 2

        with pytest.raises(NoAnswer, match="its replies repeat the instruction"):
            world.run(JsonAgent(price_of, model=ScriptedModel(*[reply] * 9), tool_mode=mode), "?")

    def test_an_echo_of_the_final_request_is_not_asked_for_again(self, world):
        echo = answer(ECHOES["the final request"])
        model = ScriptedModel(call("price_of", item="tea"), *[echo] * 9)
        with pytest.raises(LimitExceeded, match="its replies repeat the instruction"):
            world.run(JsonAgent(price_of, model=model, max_steps=1), "?")
        assert len(model.requests) == 2

    @pytest.mark.parametrize(
        "text",
        [
            "When the task is done, call Ms Meyer.",
            "3.50 euros. The whole answer, as the person should read it, is that tea costs 3.50 euros and coffee 4.25.",
            "call final_answer",
            "42",
        ],
    )
    def test_an_answer_that_shares_words_is_accepted(self, world, text):
        assert world.run(JsonAgent(price_of, model=ScriptedModel(answer(text))), "?").answer == text

    def test_an_example_in_the_description_of_a_field_is_a_valid_value(self, world):
        class Note(BaseModel):
            line: str = Field(description="A sentence, for example: The shop is closed on all Sundays.")

        said = call("final_answer", line="The shop is closed on all Sundays.")
        assert world.run(JsonAgent(price_of, model=ScriptedModel(said), answer=Note), "?").answer.line.startswith("The")


class TestRivals:
    """A value that a reply gives to two parameters is taken from one of them."""

    def ask(self, function, query):
        tools = ToolRegistry(function, answer=make_answer_tool())
        return lead_request(Request([user(query)], tools))

    def reply(self, name, **arguments):
        return json.dumps({"name": name, "arguments": arguments})

    def offered(self, rivals, *names):
        return [[parameters_in(rival)[name]["enum"] for name in names] for rival in rivals]

    def test_a_text_stands_for_one_parameter(self):
        request = self.ask(find_route, "Find a route from Rome to Pisa")
        rivals = list_rivals(request, self.reply("find_route", start="Rome, GA", end="Rome"))
        assert self.offered(rivals, "end") == [[["Rome", "Pisa"]], [["Pisa"]]]
        assert not any("Rome" in text for text in parameters_in(rivals[0])["start"]["enum"])
        assert list_rivals(request, self.reply("find_route", start="Rome", end="Pisa")) == []

    def test_a_number_stands_for_one_parameter_unless_the_question_has_it_twice(self):
        reply = self.reply("pay", amount=30, share=0.05, discount_percent=30, months=2)
        once = list_rivals(self.ask(pay, "Pay 30 with a share of 5% in 2 months"), reply)
        assert self.offered(once, "amount", "discount_percent") == [
            [[0.05, 2, 0], [30, 5, 2, 0]],
            [[30, 0.05, 2, 0], [5, 2, 0]],
        ]
        assert list_rivals(self.ask(pay, "Pay 30 with a share of 5% and a discount of 30 in 2 months"), reply) == []

    def test_a_parameter_without_another_value_keeps_its_own(self):
        request = self.ask(book, "Book a small table at 'Chez Paul' on March 5, 2026 for Chez Paul")
        reply = self.reply("book", title="Chez Paul", day="2026-03-05", people=["Chez Paul"], size="small")
        assert list_rivals(request, reply) == []

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "other", "arguments": {}}', '{"name": 3}'])
    def test_other_replies_have_none(self, text):
        assert list_rivals(self.ask(find_route, "Find a route from Rome to Pisa"), text) == []

    def test_the_beginning_of_an_answer_is_final(self):
        request = self.ask(find_route, "Find a route from Rome to Pisa")
        assert not is_final(request, '{"name": "find_route", ')
        assert not is_final(request, '{"na')
        assert is_final(request, '{"name": "final_answer", ')
        assert is_final(Request([user("?")], ToolRegistry()), "Once")

    def test_a_reply_of_a_larger_model_is_final_at_once(self):
        """It is a list of calls, which has no rivals, so nothing of it is held back from a stream."""
        call = {"type": "object", "properties": {"name": {"enum": ["find_route"]}, "arguments": {"type": "object"}}}
        calls = {"type": "object", "properties": {"calls": {"type": "array", "items": call}}}
        request = Request([user("?")], ToolRegistry(find_route), reply_schema=calls)
        assert is_final(request, '{"ca')
