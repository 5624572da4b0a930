"""What is checked of a trial: calls, answers, limits, and what judges say."""

import pytest
from evaluated_shop import RIGHT, TEA, make_agent, scripted
from pydantic import Base64Bytes, BaseModel

from agentkit import DefinitionError, JsonAgent
from agentkit.evals import evaluate
from agentkit.testing import ScriptedModel, answer, call, calls


def failures_of(agent, case, **how):
    (trial,) = evaluate(agent, [{**TEA, "answer": {"pattern": ""}, "calls": [], **case}], progress=False, **how).trials
    return [*trial.failures]


def price(item, **more):
    return {"price_of": {"item": item, **more}}


@pytest.mark.parametrize(
    ("made", "expected", "is_right"),
    [
        ([("tea", 1), ("coffee", 2)], [price("coffee"), price("tea")], True),
        ([("tea", 1), ("coffee", 2)], ["price_of"], True),
        ([("tea", 1)], [price("tea"), price("tea")], False),
        ([("tea", 1), ("tea", 2)], ["price_of", price("tea", pieces=1)], True),
        ([("tea", 2), ("tea", 1)], [price({"pattern": "^t"}), price("tea", pieces={"one_of": [2, 3]})], True),
        ([("tea", "2")], [price("tea", pieces=2)], True),
        ([("tea", 2)], [price("tea", pieces=2.0)], True),
        ([("tea", 2)], [price("Tea")], False),
        ([("tea", 2)], [price({"contains": "EA"})], True),
        ([("tea", 2)], [{"refund": {}}], False),
        ([], ["price_of"], False),
    ],
)
def test_expected_calls_are_a_part_in_any_order_and_each_needs_a_call_of_its_own(made, expected, is_right):
    written = [call("price_of", item=item, pieces=pieces) for item, pieces in made]
    agent = make_agent(*([calls(*written)] if written else []), answer("Done."))
    found = failures_of(agent, {"calls": expected})
    assert (not found) == is_right
    assert all(text.startswith("calls: expected ") for text in found)


def test_a_default_counts_as_the_value_of_an_argument_that_is_not_written():
    agent = scripted([call("price_of", item="tea"), answer("3.50")])
    assert failures_of(agent, {"calls": [price("tea", pieces=2)]}) == [
        'calls: expected price_of(item="tea", pieces=2), got price_of(item="tea")'
    ]


def test_a_call_that_could_not_be_bound_is_no_call():
    agent = make_agent(call("price_of", itm="tea"), call("price", item="tea"), answer("Done."))
    assert failures_of(agent, {"calls": ["price_of"]}) == ["calls: expected price_of(), got no calls"]


@pytest.mark.parametrize("name", ["refund", "nothing"])
def test_a_call_that_a_limit_kept_from_running_is_no_call(name):
    late = call(name, order="A", euros=1)
    agent = make_agent(call("price_of", item="tea"), late, approve=lambda call: True, max_steps=1)
    case = {"calls": ["refund"], "not_called": ["refund"], "limits": {"tool_calls": 1}}
    assert failures_of(agent, case) == [
        "LimitExceeded: no final answer after 1 step, nor in one last request for it",
        "calls: expected refund(), got other tools: price_of",
    ]


def test_a_tool_that_must_not_be_called():
    agent = make_agent(call("refund", order="A", euros=1), answer("Done."), approve=lambda call: True)
    assert failures_of(agent, {"not_called": ["refund"]}) == [
        'calls: refund must not be called, got refund(order="A", euros=1)'
    ]


class Quote(BaseModel):
    item: str
    euros: float


def quote_agent(**fields):
    return JsonAgent(print, model=ScriptedModel(answer(**fields)), answer=Quote)


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        ("3.50 euros", "3.50 euros", ""),
        (" 3.50 euros\n", "3.50 euros", ""),
        ("3.50 Euros", "3.50 euros", 'answer: expected "3.50 euros", got "3.50 Euros"'),
        ("3.5", 3.5, ""),
        ("3.51", 3.5, 'answer: expected 3.5, got "3.51"'),
        ("true", 1, 'answer: expected 1, got "true"'),
        ("[1, 2]", [1, 2.0], ""),
        ("It costs 3.50 EUROS", {"contains": ["3.50", "euros"]}, ""),
        ("It costs 3.50", {"contains": ["3.50", "euros"]}, 'answer: expected a text with "euros", got "It costs 3.50"'),
        ("It costs 3.50", {"pattern": r"\d\.\d\d$", "contains": "cost"}, ""),
        ("It costs 3.50", {"pattern": r"^\d"}, 'answer: expected a match of the pattern "^\\\\d", got "It costs 3.50"'),
        ("tea", {"one_of": ["coffee", "tea"]}, ""),
        ("tea", {"one_of": ["a", "b"]}, 'answer: expected one of "a", "b", got "tea"'),
        ('{"euros": 3.5}', {"schema": {"type": "object", "required": ["euros"]}}, ""),
        ("tea", {"schema": {"type": "string", "maxLength": 3}}, ""),
        ("tea", {"schema": {"type": "number"}}, "answer: expected a value of the schema: $: 'tea' is not of type"),
        ("tea", {"equals": "tea"}, ""),
        pytest.param("9" * 400, 1.0, "answer: expected 1.0, got ", id="huge and another"),
        pytest.param("9" * 400, int("9" * 400), "", id="huge"),
        ("tea", {"schema": {"$ref": "#/$defs/tea"}}, "answer: schema cannot be checked: "),
    ],
)
def test_an_answer_is_a_value_or_what_must_hold_for_it(text, expected, message):
    found = failures_of(make_agent(answer(text)), {"answer": expected})
    assert (found == []) if not message else found[0].startswith(message)


def test_bytes_that_are_no_text_are_compared_in_base64():
    def put(data: Base64Bytes) -> str:
        """Put."""
        return "done"

    for expected in ("/w==", {"pattern": "^/"}):
        agent = JsonAgent(put, model=ScriptedModel(call("put", data="/w=="), answer("Done.")))
        assert failures_of(agent, {"calls": [{"put": {"data": expected}}]}) == []


def test_a_typed_answer_is_compared_as_data():
    fields = {"item": "tea", "euros": 3.5}
    assert failures_of(quote_agent(**fields), {"answer": {"equals": fields}}) == []
    (wrong,) = failures_of(quote_agent(**fields), {"answer": {"equals": {"item": "tea"}}})
    assert wrong.startswith('answer: expected {"item": "tea"}, got ')


def asks_attempt(value, attempt):
    assert attempt.agent.deps == "the shop"
    assert [call.name for call in attempt.calls] == ["price_of"]
    assert attempt.messages[1]["content"] == "What does tea cost?"
    return attempt.text == value


async def is_short(value):
    return len(value) < 5


def raises(value):
    raise ValueError("it names no shop")


class Undecided:
    def __bool__(self):
        raise ValueError("neither")


def is_wrong(value):
    return value.no_such_attribute


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (is_wrong, "answer: is_wrong failed: AttributeError: 'str' object has no attribute 'no_such_attribute', got "),
        (asks_attempt, ""),
        (lambda value: None, ""),
        (lambda value: "euros" in value, ""),
        (is_short, "answer: is_short returned False, got "),
        (raises, "answer: it names no shop, got "),
        (lambda value: Undecided(), "answer: neither, got "),
    ],
)
def test_a_judge_function_gets_the_answer_and_the_attempt(judge, message):
    found = failures_of(make_agent(deps="the shop"), {"answer": {"judge": judge}})
    assert (found == []) if not message else found[0].startswith(message)


@pytest.mark.parametrize("passed", [True, False])
def test_a_model_judges_by_a_rubric(passed):
    judge = ScriptedModel(answer(reason="It names the price.", passed=passed))
    found = failures_of(make_agent(), {"answer": {"rubric": "It names the price in euros."}}, judge=judge)
    assert found == ([] if passed else ['answer: the rubric is not met: It names the price., got "3.50 euros"'])
    (request,) = judge.requests
    asked = request.messages[-1]["content"]
    assert all(
        part in asked for part in ("It names the price in euros.", "What does tea cost?", "3.50 euros", "price_of")
    )


def test_without_a_verdict_a_case_fails():
    found = failures_of(make_agent(), {"answer": {"rubric": "Good."}}, judge=ScriptedModel(ValueError("away")))
    assert found[0].startswith("answer: the judge gave no verdict: ")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"steps": 2, "tool_calls": 1, "tokens": 30, "seconds": 60, "dollars": 0}, ""),
        ({"steps": 1}, "limits.steps: at most 1, got 2"),
        ({"tool_calls": 0}, "limits.tool_calls: at most 0, got 1"),
        ({"tokens": 29}, "limits.tokens: at most 29, got 30"),
        ({"seconds": 0}, "limits.seconds: at most 0, got "),
    ],
)
def test_limits_are_checked_after_the_trial(limits, message):
    counted = {**answer("3.50 euros"), "usage": {"input_tokens": 20, "output_tokens": 10}}
    found = failures_of(make_agent(call("price_of", item="tea"), counted), {"limits": limits})
    assert (found == []) if not message else found[0].startswith(message)


def test_an_unknown_price_exceeds_a_limit_of_dollars():
    unpriced = {**answer("3.50"), "usage": {"cost": None}}
    assert failures_of(make_agent(unpriced), {"limits": {"dollars": 1}}) == [
        "limits.dollars: at most 1, but the price is unknown"
    ]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"calls": ["price"]}, "cases: case 'tea': calls: the agent has no tool 'price'. Did you mean 'price_of'?"),
        ({"calls": ["final_answer"]}, "the agent has no tool 'final_answer'. There are: price_of, refund."),
        ({"not_called": ["refnd"]}, "case 'tea': not_called: the agent has no tool 'refnd'. Did you mean 'refund'?"),
        ({"calls": [{"price_of": {"itm": 1}}]}, "calls: price_of has no parameter 'itm'. Did you mean 'item'?"),
        ({"answer": {"rubric": "Good."}}, "cases: case 'tea': answer.rubric: no model is named. Write model: ..."),
        ({"user": {"instruction": "You want tea."}}, "cases: case 'tea': user: no model is named."),
    ],
)
@pytest.mark.parametrize("is_function", [False, True])
def test_what_a_case_lacks_is_an_error_before_anything_runs(case, message, is_function):
    model = ScriptedModel(*RIGHT)
    agent = make_agent()
    agent.model = model
    with pytest.raises(DefinitionError) as caught:
        failures_of((lambda: agent) if is_function else agent, {"name": "tea", **case})
    assert message in str(caught.value)
    assert not model.requests
