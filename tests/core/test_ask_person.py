"""A person at a terminal is asked by a plain script: only what is entered after the question counts."""

import pytest
from terminal import Terminal

SCRIPT = """
from agentkit import JsonAgent, tool
from agentkit.testing import ScriptedModel, answer, call

@tool(effect="danger")
def delete(path: str) -> str:
    "Deletes a file."
    print("deleting", path)
    return "deleted"

print("ready")
print(JsonAgent(delete, model=ScriptedModel(call("delete", path="a.txt"), answer("done")), approve="ask")("go"))
"""


@pytest.mark.parametrize(("entered", "is_allowed"), [("y\n", True), ("n\n", False), ("y\nls\n", False)])
def test_input_from_before_the_question_is_no_decision(tmp_path, entered, is_allowed):
    (tmp_path / "script.py").write_text(SCRIPT)
    shown = Terminal(program=(str(tmp_path / "script.py"),))
    try:
        shown.send("yes\ny\nye")
        shown.expect("}: ")
        shown.send(entered)
        shown.expect("done")
        assert shown.end() == 0
    finally:
        shown.close()
    assert ("deleting a.txt" in shown.text) is is_allowed
