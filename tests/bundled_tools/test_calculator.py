import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import ToolError
from agentkit_tools import calculate


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 // 2", 3),
        ("7 / 2", 3.5),
        ("-2 ** 2", -4),
        ("2 ^ 3 ^ 2", 512),
        ("2**-1", 0.5),
        ("6 × 7 ÷ 2 · 1", 21.0),
        ("5 − 7", -2),
        (" 3.5e2\n", 350.0),
        (".5 + 1.", 1.5),
        ("007 + 1", 8),
        ("0.1 + 0.2", 0.3),
        ("1/3", 0.333333333333333),
        ("2 ** 100", 2**100),
    ],
)
def test_arithmetic_is_that_of_mathematics(expression, result):
    value = calculate(expression)
    assert value == result
    assert type(value) is type(result)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("sqrt(16)", 4.0),
        ("abs(-3)", 3),
        ("round(2.567, 2)", 2.57),
        ("round(2.5)", 2),
        ("min(3, 1, 2)", 1),
        ("max(3, 1, 2)", 3),
        ("floor(2.7) + ceil(2.1)", 5),
        ("exp(0)", 1.0),
        ("log(8, 2)", 3.0),
        ("ln(e)", 1.0),
        ("log10(1000) + log2(8)", 6.0),
        ("sin(pi / 2) + cos(0)", 2.0),
        ("degrees(PI)", 180.0),
        ("factorial(5)", 120),
        ("factorial(5.0)", 120),
        ("gcd(12, 18)", 6),
    ],
)
def test_functions_and_constants(expression, result):
    assert calculate(expression) == pytest.approx(result, rel=1e-14)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("15% of 80", 12),
        ("15% * 80", 12),
        ("50% of 20% of 10", 1),
        ("200 + 10%", 220),
        ("200 - 10%", 180),
        ("200 + 10% + 5", 225),
        ("2 + 15% of 80", 14),
        ("(5 + 5)% of 50", 5),
        ("max(10%, 0.2)", 0.2),
        ("10%", 0.1),
        ("10 % 3", 1),
        ("10%(-3)", -2),
        ("10% - 3", -2.9),
        ("100 % e", 100 % math.e),
    ],
)
def test_a_percent_sign_is_a_remainder_only_before_an_operand(expression, result):
    assert calculate(expression) == pytest.approx(result, rel=1e-14)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1,000 + 1", 1001),
        ("1,234,567.5", 1234567.5),
        ("(1,000) * 2", 2000),
        ("max(1,200)", 200),
        ("max((1+1),200) + 1,000", 1200),
    ],
)
def test_a_comma_separates_thousands_outside_functions_and_arguments_inside(expression, result):
    assert calculate(expression) == result


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("2 + * 3", "Cannot parse the expression, at character 5: '* 3'"),
        ("(1 + 2", "Cannot parse the expression, at character 1"),
        ("1 × × 2", "at character 5"),
        ("2pi", "Cannot parse the expression, at character 2"),
        ("2 of 3", "at character 3"),
        ("1 / 0", "Division by zero, at character 5: '0'"),
        ("5 % (3 - 3)", "Division by zero"),
        ("5 // 0", "Division by zero"),
        ("0 ** -1", "Division by zero"),
        ("log(8, 1)", "Division by zero"),
        ("1,00", 'A comma belongs between thousands ("1,000")'),
        ("2(3)", "Write the multiplication sign"),
        ("foo(2)", "Unknown function 'foo'; the functions are abs"),
        ("x + 1", "Unknown constant 'x'; the constants are pi, e, at character 1"),
        ("sqrt(-1)", "no real number"),
        ("(-8) ^ (1/3)", "no real number"),
        ("factorial(2.5)", "no real number"),
        ("sqrt()", "no real number"),
        ("", "empty"),
        ("  ", "empty"),
    ],
)
def test_a_mistake_is_reported_with_its_position(expression, message):
    with pytest.raises(ToolError) as error:
        calculate(expression)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "expression",
    [
        "9 ** 9 ** 9",
        "10 ** 1001",
        "10.0 ** 400",
        "(10 ** 999) * (10 ** 999)",
        "factorial(500)",
        "factorial(10 ** 900)",
        "exp(1000)",
        "1e999",
        "1e308 * 10",
        "10 ** 400 / 3",
        "round(5, -10 ** 9)",
        "1" * 999 + "0" + "*10",
    ],
)
def test_huge_numbers_are_refused_before_they_are_made(expression):
    with pytest.raises(ToolError, match=r"Too large|too long"):
        calculate(expression)


@pytest.mark.parametrize(
    "expression", ["-" * 900 + "1", "(" * 400 + "1" + ")" * 400, "+".join(["1"] * 300), "1" * 1001]
)
def test_depth_and_length_are_bounded(expression):
    with pytest.raises(ToolError, match=r"nested too deeply|too long|Cannot parse"):
        calculate(expression)


def test_a_sum_of_many_terms_is_not_too_deep():
    assert calculate("+".join(["1"] * 200)) == 200


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "a.b",
        "[1]",
        "1 if 1 else 2",
        "lambda: 1",
        "True",
        "not 1",
        "max(*1)",
        "f'1'",
        "1 < 2",
        "(yield)",
        "1j",
    ],
)
def test_python_is_not_arithmetic(expression):
    with pytest.raises(ToolError):
        calculate(expression)


@given(st.text(alphabet="0123456789.,+-*/%^()e pilogmaxsqrt×of", max_size=40))
def test_whatever_is_written_gives_a_number_or_a_tool_error(expression):
    try:
        value = calculate(expression)
    except ToolError:
        return
    assert math.isfinite(value) if isinstance(value, float) else len(str(value)) <= 1001
