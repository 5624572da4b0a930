"""Forms of the final answer."""

from play import TEA, Play, call, calls, final


def answers(*texts):
    return [call("final_answer", {"text": text}) for text in texts]


def test_final_twice(play: Play):
    outcome = play([calls(*answers("3.5", "4.25"))])
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) == 1
    assert len(outcome.tool_texts) == 2


def test_final_twice_the_first_valid_one_counts(play: Play):
    outcome = play([calls(call("final_answer", {}), *answers("4.25"))])
    assert outcome.answer == "4.25"
    assert "text" in outcome.tool_texts[0]


def test_final_with_tools(play: Play):
    outcome = play([calls(*answers("3.5"), TEA)])
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) == 1
    assert len(outcome.tool_texts) == 2
    assert len(outcome.ran) <= 1


def test_final_bad_args(play: Play):
    outcome = play([calls(TEA), calls(call("final_answer", {})), final("3.5")])
    assert outcome.answer == "3.5"
    assert "text" in outcome.tool_texts[1]


def test_final_broken_json(play: Play):
    outcome = play([calls(TEA), calls(call("final_answer", '{"text": "3.5')), final("3.5")])
    assert outcome.answer == "3.5"
    assert len(outcome.bodies) <= 3


def test_final_plain_text(play: Play):
    outcome = play([calls(TEA), "Tea costs 3.5.", "Tea costs 3.5."])
    assert outcome.answer == "Tea costs 3.5."
    assert len(outcome.bodies) <= 3
    assert len(outcome.ran) == 1
