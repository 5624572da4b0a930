"""An agent with the tools of a server, over a program's standard input and output."""

import asyncio
import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from servers import ANSWER, SCRIPT, contents, inside, make_calls, scripted, wait_until_nothing_is_left
from waiting import wait_until

from agentkit import DefinitionError, JsonAgent, Paused, RunError
from agentkit.core.messages import Label
from agentkit.events import Progress, ServerLogged
from agentkit.mcp import MCPServer
from agentkit.testing import ScriptedModel, call


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    wait_until_nothing_is_left()


def test_a_run_calls_tools_of_a_server(world):
    result, model = make_calls(world, scripted(), call("echo", text="hi"), call("add", a=1))
    assert contents(result) == ["hi", "2"]
    assert [name for name in model.requests[0].tools if name != "final_answer"] == ["echo", "env", "add"]


def test_the_schema_of_a_tool_is_the_servers_own(world):
    _, model = make_calls(world, scripted())
    assert model.requests[0].tools["add"].parameters == {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_arguments_are_repaired_and_validated_before_they_are_sent(world, tmp_path):
    notes = tmp_path / "notes"
    result, _ = make_calls(world, scripted(notes=notes), call("add", a="2"), call("add", a="two"))
    assert contents(result)[0] == "3"
    assert "integer" in contents(result)[1]
    sent = [json.loads(line) for line in notes.read_text().splitlines()]
    assert [entry["params"]["arguments"] for entry in sent if entry["method"] == "tools/call"] == [{"a": 2}]


def test_a_server_gets_no_variable_of_the_process_but_those_that_are_given(world, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server = scripted()
    server.endpoint.env["CITY"] = "Rome"
    result, _ = make_calls(world, server, call("env"))
    given = set(contents(result)[0].split())
    assert "CITY" in given
    assert given <= {"CITY", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


def test_a_server_stays_open_inside_a_with_block(tmp_path):
    notes = tmp_path / "notes"
    with scripted(notes=notes) as server:
        agent = JsonAgent(server, model=ScriptedModel(call("echo", text="a"), ANSWER, call("echo", text="b"), ANSWER))
        agent("q")
        agent("q")
        assert list(server.tools) == ["echo", "env", "add"]
    assert notes.read_text().count('"initialize"') == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_gets_a_connection_of_its_own_to_a_server_that_its_parent_holds_open(tmp_path):
    notes = tmp_path / "notes"

    def add(server: MCPServer, number: int) -> list[str]:
        return contents(JsonAgent(server, model=ScriptedModel(call("add", a=number), ANSWER)).run("q"))

    with scripted(notes=notes) as server:
        assert add(server, 1) == ["2"]
        if not (child := os.fork()):
            signal.alarm(60)  # a hang ends the child
            found = add(server, 2)
            server.__exit__(None, None, None)
            os._exit(0 if found == ["3"] and add(server, 3) == ["4"] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert add(server, 4) == ["5"]
    assert notes.read_text().count('"initialize"') == 3


def test_a_server_that_was_opened_when_its_opening_is_cancelled_is_closed():
    server = scripted()

    async def work() -> None:
        opening = asyncio.create_task(server.open_tools())
        await asyncio.sleep(0)
        wait_until(lambda: server.list_tools())  # this loop is busy meanwhile
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(work())
    wait_until_nothing_is_left()


def test_closing_a_server_that_is_not_open_does_nothing():
    server = scripted()
    server.__exit__(None, None, None)
    with server:
        server.__exit__(None, None, None)
        server.__exit__(None, None, None)
        assert contents(JsonAgent(server, model=ScriptedModel(call("add", a=1), ANSWER)).run("q")) == ["2"]


def test_a_server_stays_open_inside_an_async_with_block(tmp_path):
    notes = tmp_path / "notes"

    async def use() -> None:
        async with scripted(notes=notes) as server:
            agent = JsonAgent(server, model=ScriptedModel(*[call("echo", text="a"), ANSWER] * 2))
            await agent.arun("q")
            assert (await agent.arun("q")).answer == "done"

    asyncio.run(use())
    assert notes.read_text().count('"initialize"') == 1


def test_many_calls_at_once_get_their_own_answers(world):
    model = ScriptedModel(
        {"tool_calls": [{"name": "echo", "arguments": {"text": f"number {n}"}} for n in range(50)]}, ANSWER
    )
    result = world.run(JsonAgent(scripted(), model=model), "q")
    assert len(result.calls) == 51
    for entry in result.calls[:50]:
        assert inside(entry.content) == json.loads(entry.call.arguments)["text"]


def test_pages_are_read_to_the_end_and_names_are_mapped_back(world):
    result, _ = make_calls(world, scripted("Pages"), call("a_b"), call("a_b_2"), call("bad"))
    assert contents(result)[:2] == ["called a.b", "called a/b"]
    assert "there is no tool 'bad'" in contents(result)[2]  # its schema is not valid


def test_every_name_gets_the_prefix(world):
    result, _ = make_calls(world, scripted(prefix="far_"), call("far_echo", text="x"))
    assert contents(result) == ["x"]


def test_tools_with_equal_names_get_the_name_of_their_server(world):
    def echo(text: str) -> str:
        """Echoes."""
        return f"own {text}"

    model = ScriptedModel(call("echo", text="x"), call("one__echo", text="x"), call("two__add", a=1), ANSWER)
    servers = [scripted(name="one"), scripted(name="two")]
    result = world.run(JsonAgent([echo, servers], model=model), "q")
    assert contents(result) == ["own x", "x", "2"]


def test_new_tools_are_there_at_the_next_step(world):
    result, model = make_calls(world, scripted("Changes"), call("change"), call("fresh"))
    assert contents(result) == ["changed", "fresh"]
    assert "fresh" not in model.requests[0].tools
    assert "echo" not in model.requests[1].tools


def test_progress_and_log_messages_become_events(world):
    events: list = []
    make_calls(world, scripted("Reports"), call("echo"), listeners=[events.append])
    progress = next(event for event in events if isinstance(event, Progress))
    assert (progress.call.name, progress.value) == ("echo", {"progress": 1.0, "total": 2.0, "message": "half"})
    logged = [event for event in events if isinstance(event, ServerLogged)]
    assert logged == [
        ServerLogged("scripted", "warning", "low on ink", "printer"),
        ServerLogged("scripted", "info", '{"pages":3,"color":true}', ""),
    ]
    assert logged[0].level == "WARNING"


def test_structured_content_is_data_and_checked_against_the_output_schema(world):
    result, model = make_calls(world, scripted("Kinds"), call("structured"), call("wrong"))
    assert result.calls[0].value == {"n": 1}
    assert contents(result)[0] == '{"n":1}'  # and not a second time as text
    assert "Invalid structured content" in result.calls[1].error.message
    assert model.requests[0].tools["structured"].output_schema["required"] == ["n"]


def test_structured_content_that_repeats_a_text_is_read_once(world):
    result, _ = make_calls(world, scripted("Kinds"), call("wrapped"), call("both"))
    assert contents(result) == ["one\ntwo", '{"title":"one","n":1}']
    assert [entry.value for entry in result.calls[:2]] == [{"content": "one\ntwo"}, {"title": "one", "n": 1}]


def test_a_tool_that_runs_only_as_a_task_is_not_offered(world):
    _, model = make_calls(world, scripted("Kinds"))
    assert "as_task" not in model.requests[0].tools
    assert "structured" in model.requests[0].tools


def test_a_tool_for_the_page_of_a_server_alone_is_not_offered(world):
    _, model = make_calls(world, scripted("Kinds"))
    offered = [name for name in model.requests[0].tools if name.startswith("of_")]
    assert offered == ["of_both", "of_none", "of_text"]


def test_only_the_chosen_tools_are_offered(world):
    _, model = make_calls(world, scripted(tools=["e*"]))
    assert [*model.requests[0].tools] == ["final_answer", "echo", "env"]


def test_the_filter_decides_about_the_reader_of_resources_too(world):
    result, model = make_calls(world, scripted("Kinds", tools=["linked"]), call("linked"), call("read_resource"))
    assert [[*request.tools] for request in model.requests[:2]] == [["final_answer", "linked"]] * 2
    assert contents(result)[0] == "[resource memo://1 (memo: A memo.)]\n[resource memo://2]\ninline"
    assert result.calls[1].error is not None
    _, model = make_calls(world, scripted("Kinds", tools=["linked", "read_*"]))
    assert [*model.requests[0].tools] == ["final_answer", "linked", "read_resource"]


def test_an_agent_lists_the_tools_of_a_server_that_was_opened():
    server = scripted()
    agent = JsonAgent(server, model=ScriptedModel(ANSWER))
    assert [*agent.tools] == ["final_answer"]
    with server:
        assert [*agent.tools] == ["final_answer", "echo", "env", "add"]
        agent.run("q")


def test_media_are_parts(world):
    result, _ = make_calls(world, scripted("Kinds"), call("media"))
    assert inside(result.calls[0].content) == "look:\n[image/png, 70 bytes]\n[audio/wav, 6 bytes]"
    assert [part["type"] for part in result.calls[0].images] == ["image_url", "input_audio"]


def test_a_program_that_ends_at_a_request_it_does_not_know_is_opened_by_the_handshake(world):
    result, _ = make_calls(world, scripted("Old"), call("echo", text="hi"))
    assert contents(result) == ["hi"]


def test_structured_content_that_repeats_an_image_shows_no_base64(world):
    result, _ = make_calls(world, scripted("Kinds"), call("repeated_media"))
    (made, _) = result.calls
    note = "[image/png, 70 bytes]"
    shown = {"content": [{"type": "image", "data": note, "mimeType": "image/png"}]}
    assert inside(made.content) == f"{json.dumps(shown, separators=(',', ':'))}\n{note}"
    assert [part["type"] for part in made.images] == ["image_url"]
    assert made.images[0]["image_url"]["url"].endswith(made.value["content"][0]["data"]), "the value is whole"


def test_resources_are_shown_and_can_be_read(world):
    calls = call("linked"), call("read_resource"), call("read_resource", uri="memo://1")
    result, _ = make_calls(world, scripted("Kinds"), *calls)
    linked, listed, text = contents(result)
    assert linked == "[resource memo://1 (memo: A memo.); read_resource reads it]\n[resource memo://2]\ninline"
    assert listed == '["memo://1: A memo."]'
    assert text == "the text of memo://1"


def test_an_error_of_the_tool_is_a_failed_call(world):
    result, _ = make_calls(world, scripted("Kinds"), call("fails"), call("invalid"))
    assert [entry.error.message.partition(";")[0] for entry in result.calls[:2]] == [
        "no such city",
        "the server 'scripted' sent an invalid result (1 problems)",
    ]


def test_resources_and_prompts_outside_of_a_run():
    server = scripted("Kinds")
    assert [(entry.uri, entry.name, entry.description) for entry in server.resources()] == [
        ("memo://1", "memo", "A memo.")
    ]
    assert server.read("memo://1") == "the text of memo://1"
    greeting = {"role": "user", "content": "Greet Ada."}
    assert server.prompt("greet", who="Ada") == [{**greeting, "label": Label.untrusted("scripted").as_dict()}]
    assert scripted("Kinds", trust="trusted").prompt("greet", who="Ada") == [greeting]
    assert asyncio.run(server.aread("memo://3")) == "the text of memo://3"


def test_a_tool_can_be_called_without_an_agent():
    with scripted() as server:
        assert server.tools.execute("add", '{"a": 4}').content == "5"
        assert asyncio.run(server.tools["add"](a=1)) == "2"


def effects(**settings) -> dict[str, str]:
    with scripted("Kinds", **settings) as server:
        return {name: tool.effect for name, tool in server.tools.items()}


def test_hints_of_an_untrusted_server_only_make_things_stricter():
    found = effects(effects={})
    assert [found[name] for name in ("fails", "reads", "sets", "deletes")] == ["write", "write", "write", "danger"]


def test_hints_of_a_trusted_server_are_believed():
    found = effects(effects={}, trust="trusted")
    assert [found[name] for name in ("fails", "reads", "sets", "deletes")] == ["write", "read", "idempotent", "danger"]


def test_effects_by_name_overrule_the_hints():
    found = effects(effects={"delete*": "read", "reads": "danger"})
    assert [found[name] for name in ("fails", "reads", "deletes")] == ["write", "danger", "read"]


def test_results_of_an_untrusted_server_are_data(world):
    untrusted, _ = make_calls(world, scripted(), call("echo", text="x"))
    trusted, _ = make_calls(world, scripted(trust="trusted"), call("echo", text="x"))
    assert untrusted.calls[0].content.startswith("<untrusted")
    assert trusted.calls[0].content == "x"


def test_a_dangerous_tool_waits_for_a_person(world):
    agent = JsonAgent(scripted("Kinds", effects={}), model=ScriptedModel(call("deletes"), ANSWER))
    with pytest.raises(Paused) as caught:
        world.run(agent, "q")
    paused = caught.value
    result = agent.run(session=paused.session, approvals={paused.calls[0].id: True})
    assert contents(result) == ["deletes"]


def test_the_trace_of_the_caller_goes_out_with_a_call():
    trace = pytest.importorskip("opentelemetry.trace")
    context = pytest.importorskip("opentelemetry.context")
    span = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1)))
    token = context.attach(trace.set_span_in_context(span))
    try:
        with scripted("Reports") as server:
            meta = json.loads(server.tools.execute("echo").value)
    finally:
        context.detach(token)
    assert meta["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"


def test_a_span_of_the_server_is_below_that_of_the_call(world):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    telemetry = pytest.importorskip("agentkit.telemetry")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    result, _ = make_calls(
        world, scripted("Reports"), call("echo"), telemetry=telemetry.Telemetry(tracer_provider=provider)
    )
    _, trace_id, span_id, _ = json.loads(contents(result)[0])["traceparent"].split("-")
    span = next(one for one in exporter.get_finished_spans() if one.name == "execute_tool echo")
    assert (int(trace_id, 16), int(span_id, 16)) == (span.context.trace_id, span.context.span_id)


def test_blocking_code_under_a_running_loop_can_use_a_server():
    async def cell() -> list[str]:  # as in a notebook
        with scripted() as server:
            agent = JsonAgent(server, model=ScriptedModel(call("echo", text="a"), ANSWER))
            return [*contents(agent.run("q")), server.tools.execute("add", '{"a": 1}').content]

    assert asyncio.run(cell()) == ["a", "2"]


def test_threads_share_a_server():
    with scripted() as server, ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda number: server.tools.execute("add", f'{{"a": {number}}}').content, range(40))
        assert list(found) == [str(number + 1) for number in range(40)]


def test_a_server_that_cannot_be_opened_ends_the_run_with_the_reason(world):
    cases = {
        scripted("Fails"): "no configuration file",
        MCPServer("no-such-program-here"): "there is no program 'no-such-program-here'",
        MCPServer([sys.executable, "-c", ""]): "ended before it answered. Run it in a terminal to see why.$",
        scripted("Silent", timeout=0.3): "no answer within 0.3 seconds",
        MCPServer(url="http://127.0.0.1:9/mcp", timeout=3): "127.0.0.1:9",
    }
    for server, reason in cases.items():
        with pytest.raises(RunError, match=reason):
            make_calls(world, server)


def test_what_is_given_must_make_sense():
    cases = [
        ({}, "give a command"),
        ({"command": "x", "url": "http://x"}, "give a command"),
        ({"command": " "}, "the command is empty"),
        ({"command": "https://example.com/mcp"}, "is an address. Write MCPServer\\(url="),
        ({"url": "ftp://x"}, "must begin with http"),
        ({"url": "http://x", "env": {"A": "b"}}, "env and cwd are for a command"),
        ({"command": "x", "headers": {"A": "b"}}, "headers are for a server at a URL"),
        ({"command": "x", "env": {"A": 1}}, "env must be a dict of texts"),
        ({"command": "x", "trust": "yes"}, "trust must be"),
        ({"command": "x", "effects": {"a": "none"}}, "must be one of 'read'"),
        ({"command": "x", "timeout": 0}, "number of seconds above 0"),
        ({"command": "x", "timeout": None}, "number of seconds above 0"),
    ]
    for settings, message in cases:
        with pytest.raises(DefinitionError, match=message):
            MCPServer(**settings)


def test_the_name_comes_from_the_command_or_the_address():
    cases = {"uvx mcp-server-time": "mcp-server-time", "npx -y @scope/server-x@1.2": "server-x", "python a/b.py": "b"}
    assert {command: MCPServer(command).name for command in cases} == cases
    assert MCPServer(url="https://mcp.example.com:8000/mcp").name == "mcp_example_com"


CONFIG = {
    "mcpServers": {
        "time": {"command": "uvx", "args": ["mcp-server-time", "--tz=${ZONE}"], "env": {"A": "${MISSING:-b}"}},
        "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${ZONE}"}},
        "off": {"command": "x", "disabled": True},
    }
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_servers_come_from_a_file(tmp_path, monkeypatch, encoding):
    monkeypatch.setenv("ZONE", "UTC")
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(CONFIG), encoding=encoding)
    time, web = MCPServer.from_config(path)
    assert (time.name, time.endpoint.words) == ("time", ("uvx", "mcp-server-time", "--tz=UTC"))
    assert time.endpoint.env == {"A": "b"}
    assert web.endpoint.headers == {"Authorization": "Bearer UTC"}
    assert "Bearer" not in repr(web) + str(web.endpoint) + repr(web.endpoint)


def test_keys_of_other_programs_cause_a_warning_and_the_server_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("ZONE", "UTC")
    path = tmp_path / "mcp.json"
    entry = {"command": "x", "env": {"A": "${env:ZONE}"}, "autoApprove": ["y"], "description": "z", "trsut": "trusted"}
    path.write_text(json.dumps({"servers": {"a": entry}}))
    with pytest.warns(UserWarning, match="is ignored") as caught:
        (server,) = MCPServer.from_config(path)
    assert server.endpoint.env == {"A": "UTC"}
    texts = [str(warning.message).partition("the key ")[2] for warning in caught]
    assert [text.partition(" ")[0] for text in texts] == ["'autoApprove'", "'description'", "'trsut'"]
    assert "Did you mean 'trust'?" in texts[2]


def read_one(path, text):
    """Return the only server of a file with this text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (server,) = MCPServer.from_config(path)
    return server


def test_a_file_may_have_comments_and_last_commas_as_editors_write_them(tmp_path):
    text = r"""{
        // the servers, "all" of them
        "servers": {
            "a": {"type": "stdio", "command": "x", "args": ["http://y/*", "a\\",  // "b", */
                "c\"//,]",], /* "no": 1,
            */ "disabled": false,},
        },
        "inputs": [],
    }"""
    assert read_one(tmp_path / "mcp.json", text).endpoint.words == ("x", "http://y/*", "a\\", 'c"//,]')


def test_a_file_may_have_servers_alone(tmp_path):
    assert read_one(tmp_path / ".mcp.json", '{"look": {"command": "npx", "args": ["look"]}}').name == "look"


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_an_address_may_have_the_names_of_other_programs(tmp_path, key):
    server = read_one(tmp_path / "mcp.json", json.dumps({"mcpServers": {"a": {key: "https://x/mcp"}}}))
    assert server.endpoint.url == "https://x/mcp"


def test_tools_that_another_program_leaves_out_are_left_out(tmp_path):
    path = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": [str(SCRIPT), "Scripted"]}
    for keys, names in (
        ({}, ["echo", "env", "add"]),
        ({"disabledTools": ["add"]}, ["echo", "env"]),
        ({"excludeTools": ["e*"], "includeTools": ["*"]}, ["add"]),
        ({"enabledTools": ["env"], "autoApprove": []}, ["env"]),
        ({"tools": ["*", "!env"]}, ["echo", "add"]),
    ):
        with read_one(path, json.dumps({"mcpServers": {"a": {**entry, **keys}}})) as server:
            assert [*server.tools] == names
    path.write_text(json.dumps({"mcpServers": {"a": {**entry, "enabled": False}}}))
    assert MCPServer.from_config(path) == []


def test_variables_are_those_of_the_entry_the_folder_and_the_process(tmp_path, monkeypatch):
    """Programs like `mcp-remote` are given their secret in `env`, and `${NAME}` in `args`."""
    monkeypatch.setenv("TOKEN", "of the process")
    entry = {
        "command": "${workspaceFolder}/run",
        "args": ["--header", "Authorization: ${HEADER}", "${TOKEN}"],
        "env": {"HEADER": "Bearer ${env:TOKEN}"},
        "cwd": "${userHome}",
    }
    for place in (tmp_path / "mcp.json", tmp_path / ".vscode" / "mcp.json"):
        endpoint = read_one(place, json.dumps({"servers": {"a": entry}})).endpoint
        assert endpoint.words == (
            f"{tmp_path}/run",
            "--header",
            "Authorization: Bearer of the process",
            "of the process",
        )
        assert endpoint.cwd == str(Path.home())


def test_the_variables_of_a_file_beside_are_those_of_the_program(tmp_path):
    lines = [
        "# the keys",
        "KEY=secret",
        'export TEXT = "two\\nlines" # a comment',
        "SINGLE='a # b\\n'",
        "PLAIN=a#b # a comment",
        "NONE=",
        "no variable",
        "PORT=1",
    ]
    (tmp_path / ".env").write_text("\n".join(lines), encoding="utf-8-sig")
    entry = {"command": "x", "args": ["${KEY}"], "env": {"PORT": 8080, "OFF": None}}
    for name in ("${workspaceFolder}/.env", ".env", str(tmp_path / ".env")):
        text = json.dumps({"servers": {"a": {**entry, "envFile": name}}})
        endpoint = read_one(tmp_path / ".vscode" / "mcp.json", text).endpoint
        assert endpoint.words == ("x", "secret")
        assert endpoint.env == {
            "KEY": "secret",
            "TEXT": "two\nlines",
            "SINGLE": "a # b\\n",
            "PLAIN": "a#b",
            "NONE": "",
            "PORT": "8080",
        }


def test_variables_of_editors_are_known(tmp_path):
    entry = {"command": "x", "args": ["${workspaceFolderBasename}", "${pathSeparator}", "${/}"]}
    endpoint = read_one(tmp_path / ".cursor" / "mcp.json", json.dumps({"mcpServers": {"a": entry}})).endpoint
    assert endpoint.words == ("x", tmp_path.name, os.sep, os.sep)


def test_another_programs_trust_causes_a_warning_and_trusts_nothing(tmp_path):
    entry = {"command": sys.executable, "args": [str(SCRIPT), "Kinds"], "trust": True}
    with pytest.warns(UserWarning, match="the value of 'trust' is ignored. Write 'trusted'"):
        server = read_one(tmp_path / "mcp.json", json.dumps({"mcpServers": {"a": entry}}))
    with server:
        assert server.tools["reads"].effect == "write"


def test_a_file_that_makes_no_sense_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    path = tmp_path / "mcp.json"
    cases = [
        ("{", "cannot be read as JSON"),
        ('{"mcpServers": {"a": {"command": "x"}}, /* no end', "cannot be read as JSON: Expecting property name"),
        ("[]", "expected"),
        ("{}", "expected"),
        ('{"tools": [{"command": "x"}]}', "expected"),
        ('{"a": {"command": "x"}, "version": 1}', "expected"),
        ('{"mcpServers": {"a": 1}}', "must be an object"),
        ('{"mcpServers": {"a": {"url": "https://x", "type": "ws"}}}', "the transport 'ws' is not supported"),
        ('{"mcpServers": {"a": {"command": "x", "tools": "y"}}}', "tools must be a list of name patterns"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": "${input:key}"}}}}', "is asked by an editor"),
        ('{"mcpServers": {"a": {"command": "${NOWHERE}"}}}', "the environment variable 'NOWHERE' is not set"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args a list of texts"),
        ('{"mcpServers": {"a": {}}}', "mcp.json: 'a': MCPServer: give a command"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": [1]}}}}', "mcp.json: 'a': .*env must be a dict of texts"),
        ('{"mcpServers": {"a": {"command": "x", "envFile": "none"}}}', "envFile 'none' cannot be read: No such file"),
        (
            '{"mcpServers": {"a": {"url": "https://x", "auth": {"CLIENT_ID": "x"}}}}',
            "auth must be 'oauth' .*, got dict",
        ),
    ]
    for text, message in cases:
        path.write_text(text)
        with pytest.raises(DefinitionError, match=message):
            MCPServer.from_config(path)
    with pytest.raises(DefinitionError, match="No such file"):
        MCPServer.from_config(tmp_path / "none.json")
