"""A tool's question at the command line: asked at a terminal, and a pause without one."""

import json

ASKING = '''
import agentkit

def book(city: str) -> str:
    """Books a room in a city.

    Args:
        city: The city.
    """
    form = {"type": "object", "properties": {"nights": {"type": "integer"}, "breakfast": {"type": "boolean"}},
            "required": ["nights"]}
    return f"{city}: {agentkit.ask_question('How long?', form)}"
'''


def test_the_person_at_the_terminal_answers_property_by_property(folder, terminal):
    (folder / "asking.py").write_text(ASKING)
    shown = terminal("run", "Book a room in the city Rome", "--tools", "asking.py")
    shown.expect("nights, a whole number: ")
    shown.send("two\n")
    shown.expect("breakfast, y or n (may be left empty): ")
    shown.send("\n")
    shown.expect("nights: 'two' is not of type 'integer'")
    shown.expect("nights, a whole number: ")
    shown.send("2\n")
    shown.expect("left empty): ")
    shown.send("y\n")
    shown.expect("{'nights': 2, 'breakfast': True}")
    assert shown.end() == 0


def test_a_wrong_choice_is_named_without_a_schema_and_words_stay_whole(folder, terminal):
    form = '{"properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"], "type": "object"}'
    (folder / "asking.py").write_text(
        ASKING[: ASKING.index("    form =")]
        + f"    return str(agentkit.ask_question('Which colour would you like to have for the room?', {form}))\n"
    )
    shown = terminal("run", "Book a room in the city Rome", "--tools", "asking.py", width=38)
    shown.expect("colour, one of red, green: ")
    assert "\nWhich colour would you like to have\r\nfor the room?\r\n" in shown.text
    shown.send("purple\n")
    shown.expect("colour, one of red, green: ")
    assert "colour: 'purple' is not one of ['red',\r\n'green']\r\n" in shown.text
    assert "Expected" not in shown.text
    shown.send("red\n")
    shown.expect("{'colour': 'red'}")
    assert shown.end() == 0


def test_without_a_terminal_the_run_pauses_and_the_session_has_the_question(folder, run):
    (folder / "asking.py").write_text(ASKING)
    ended = run("run", "Book a room in the city Rome", "--tools", "asking.py", "--session", "talk.json")
    assert ended.exit_code == 3
    assert "a tool asks: How long?, and no terminal is attached to ask for it" in ended.stderr
    saved = [json.loads(line) for line in (folder / "talk.json").read_text().splitlines()]
    (asked,) = [line["state"]["asked"]["calls"] for line in saved if line["kind"] == "state"]
    assert [entry["questions"][0]["text"] for entry in asked.values()] == ["How long?"]


def test_the_view_stands_still_while_an_agent_of_a_file_asks(folder, terminal):
    (folder / "desk.py").write_text(
        "from agentkit import JsonAgent, tool\n"
        "from agentkit.testing import ScriptedModel, answer, call\n\n"
        '@tool(effect="danger")\ndef send(to: str) -> str:\n    """Sends."""\n    return "sent"\n\n'
        'agent = JsonAgent(send, model=ScriptedModel(call("send", to="Ada"), answer("Done.")), approve="ask")\n'
    )
    shown = terminal("run", "desk.py:agent", "Send it.")
    shown.expect("Allow it?")
    assert shown.text.rindex("\x1b[?25h") > shown.text.rindex("\x1b[?25l")
    shown.send("y\n")
    shown.expect("Done.")
    assert shown.end() == 0
