"""Models in files: how a file is named, found, fetched and checked, and what is sent to llama.cpp."""

import asyncio
import hashlib
import http.server
import json
import math
import struct
import sys
import threading
import types

import jsonschema
import pytest

from agentkit import DefinitionError, JsonAgent, ModelError, ToolRegistry
from agentkit.agents.backends import Backends
from agentkit.core.messages import assistant, calls_of, user
from agentkit.engine.model import ToolCallDelta
from agentkit.models import LocalModel, Request
from agentkit.models.local import (
    fetch_model,
    find_model_file,
    find_projector,
    list_model_files,
    read_context_length,
)
from agentkit.policies.text_tool_mode import SchemaCallModel
from agentkit.tools.final_answer import make_answer_tool


def price_of(item: str, tags: list[str] = ()) -> float:
    """Return the price of an item."""
    return 3.5


def write_gguf(path, context=8192):
    """Write the head of a GGUF file without tensors."""

    def text(value):
        return struct.pack("<Q", len(value)) + value

    entries = [
        text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
        text(b"tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"bc"),
        text(b"scores") + struct.pack("<IIQ", 9, 6, 3) + struct.pack("<3f", 1, 2, 3),
        text(b"llama.context_length") + struct.pack("<II", 4, context),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of its own, an empty home and an empty working directory."""
    monkeypatch.setenv("AGENTKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "cache" / "models"


def test_the_window_is_read_from_the_file(tmp_path):
    assert read_context_length(write_gguf(tmp_path / "a.gguf", 4096)) == 4096
    (tmp_path / "short.gguf").write_bytes(b"GGUF\x03\x00")
    assert read_context_length(tmp_path / "short.gguf") is None


def test_a_file_is_found_by_its_path_and_by_its_name(cache, tmp_path):
    kept = write_gguf(cache / "tiny.gguf")
    mine = write_gguf(tmp_path / "work" / "mine.gguf")
    write_gguf(cache / "mmproj-tiny.gguf")
    assert find_model_file("tiny") == find_model_file("tiny.gguf") == kept
    assert find_model_file("mine.gguf") == find_model_file("./mine.gguf") == mine
    assert list_model_files() == [mine, kept]
    assert find_projector(kept) == cache / "mmproj-tiny.gguf"
    assert find_projector(mine) is None


class TestErrors:
    def ask(self, world, name, **options):
        return world.run(JsonAgent(price_of, model=name, retries=0, **options), "?")

    def test_a_missing_file_is_an_error_that_names_the_remedy(self, world, cache):
        write_gguf(cache / "tiny.gguf")
        with pytest.raises(ModelError) as caught:
            self.ask(world, "local/other")
        text = str(caught.value)
        assert caught.value.kind == "not_found"
        assert f"local/other: no such file, and no model of that name in {cache}. Known: tiny." in text
        assert "agentkit models get smollm2" in text

    def test_a_path_without_the_prefix(self, world):
        with pytest.raises(DefinitionError, match=r'Write model="local/x\.gguf"'):
            self.ask(world, "./x.gguf")

    def test_a_file_of_another_kind(self, world, tmp_path):
        (tmp_path / "work" / "x.gguf").write_text("hello")
        with pytest.raises(ModelError, match="this is no GGUF file"):
            self.ask(world, "local/x.gguf")

    def test_the_package_is_not_installed(self, world, cache, monkeypatch):
        write_gguf(cache / "tiny.gguf")
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
        with pytest.raises(DefinitionError, match=r"package xllamacpp is not installed.*agentkit\[local\]"):
            self.ask(world, "local/tiny")

    @pytest.mark.parametrize("threads", [0, True, "2"])
    def test_wrong_threads(self, threads):
        with pytest.raises(DefinitionError, match="threads must be an integer >= 1"):
            LocalModel("tiny", threads=threads)

    @pytest.mark.parametrize("tokens", [0, -5, True, "2048"])
    def test_wrong_windows(self, tokens):
        with pytest.raises(DefinitionError, match="num_ctx, the tokens of the context window, must be an integer >= 1"):
            LocalModel("tiny", num_ctx=tokens)

    @pytest.mark.parametrize("where", [{"model": "local/tiny"}, {"model": "openai/m", "fallback_models": "local/tiny"}])
    def test_a_wrong_option_is_refused_when_the_agent_is_made(self, where):
        with pytest.raises(DefinitionError, match="threads must be an integer >= 1"):
            JsonAgent(price_of, threads=0, **where)

    def test_a_file_without_the_prefix_is_refused_when_the_agent_is_made(self):
        with pytest.raises(DefinitionError, match=r'Write model="local/tiny\.gguf"'):
            JsonAgent(price_of, model="./tiny.gguf")

    def test_threads_are_an_option_of_local_models_alone(self):
        assert JsonAgent(price_of, model="local/tiny", threads=2, temperature=0.5)
        with pytest.raises(DefinitionError, match="unexpected parameter 'threads'"):
            JsonAgent(price_of, model="openai/m", threads=2)

    def test_keys_of_an_account_are_not_passed_to_a_local_model(self):
        backends = Backends({"api_key": "secret", "temperature": 0.5})
        assert backends.backend("local/tiny")._options == {"temperature": 0.5}

    @pytest.mark.parametrize("variable", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
    def test_an_address_in_the_environment_without_a_key(self, world, monkeypatch, variable):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
        with pytest.raises(ModelError, match='a server of your own that needs no key takes any: api_key="none"'):
            self.ask(world, "openai/m")


class TestRequest:
    def body(self, messages, can_see=False, **request):
        tools = ToolRegistry()
        return LocalModel("x")._write_body(Request(messages, tools, **request), can_see=can_see)

    def test_roles_take_turns(self):
        sent = self.body([user("a"), user("b"), assistant("c"), user("d")])["messages"]
        assert [(message["role"], message["content"]) for message in sent] == [
            ("user", "a\n\nb"),
            ("assistant", "c"),
            ("user", "d"),
        ]

    def test_a_text_model_gets_a_note_in_place_of_an_image(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        seen = user([{"type": "text", "text": "What is this?"}, image])
        assert (
            self.body([seen])["messages"][0]["content"]
            == "What is this?\n[image/png, 3 bytes: this model cannot see it]"
        )
        assert self.body([seen], can_see=True)["messages"][0]["content"][1] == image

    def test_a_projector_is_for_images_alone(self):
        pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        sent = self.body([user([{"type": "text", "text": "?"}, pdf, image])], can_see=True)["messages"][0]["content"]
        note = "[application/pdf a.pdf, 3 bytes: this model cannot see it]"
        assert [part.get("text", part) for part in sent] == ["?", note, image]
        assert self.body([user([{"type": "text", "text": "?"}, pdf])], can_see=True)["messages"][0]["content"] == (
            f"?\n{note}"
        )

    def test_the_lesser_limit_of_the_reply_holds(self):
        assert self.body([user("a")], max_tokens=7)["max_tokens"] == 7
        assert self.body([user("a")])["max_tokens"] == 2048

    def test_the_schema_is_bounded_and_still_one_of_the_tools(self):
        tools = ToolRegistry(price_of, answer=make_answer_tool())
        whole = tools.call_schema()
        before = json.dumps(whole)
        sent = self.body([user("a")], reply_schema=whole)["response_format"]["json_schema"]["schema"]
        assert json.dumps(whole) == before
        call = {"calls": [{"name": "price_of", "arguments": {"item": "tea"}}]}
        jsonschema.validate(call, sent)
        call["calls"][0]["arguments"]["item"] = "a" * 10_000
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(call, sent)


class Engine:
    """A package `xllamacpp` whose server writes what a script says, with the logarithm of its likelihood."""

    def __init__(self, *script):
        self.script = [*script]
        self.bodies = []

    def CommonParams(self):
        return types.SimpleNamespace(**{name: types.SimpleNamespace() for name in self.PARTS})

    PARTS = ("model", "mmproj", "cpuparams", "cpuparams_batch")

    def Server(self, params):
        self.params = params
        return self

    def handle_chat_completions(self, body, take):
        self.bodies.append(body)
        text, logprob = self.script.pop(0)
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            scored = {"content": [{"logprob": logprob / 2}]} if body["logprobs"] else None
            take({"choices": [{"delta": {"content": piece}, "logprobs": scored}]})
        usage = {"prompt_tokens": 10, "completion_tokens": 4}
        take({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})


def find_route(start: str, end: str) -> str:
    """Find a route."""
    return f"{start} to {end}"


def write(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


class TestProjector:
    """A projector beside the file lets the model see images."""

    IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    def ask(self, monkeypatch, file, engine, **options):
        monkeypatch.setitem(sys.modules, "xllamacpp", engine)
        asked = user([{"type": "text", "text": "What is this?"}, self.IMAGE])
        return [*LocalModel(file, **options).ask(Request([asked], ToolRegistry()))][-1].message["content"]

    @pytest.mark.parametrize("name", ["mmproj-tiny.gguf", "tiny.mmproj.gguf", "tiny-mmproj.gguf"])
    def test_the_engine_gets_it_and_the_images(self, tmp_path, monkeypatch, name):
        file = write_gguf(tmp_path / "weights" / "tiny.gguf")
        write_gguf(file.with_name(name))
        engine = Engine(("a cup", 0.0))
        assert self.ask(monkeypatch, file, engine) == "a cup"
        assert engine.params.mmproj.path == str(file.with_name(name))
        assert engine.bodies[0]["messages"][0]["content"][1] == self.IMAGE

    def test_without_it_there_is_a_note(self, tmp_path, monkeypatch):
        engine = Engine(("a cup", 0.0))
        self.ask(monkeypatch, write_gguf(tmp_path / "weights" / "tiny.gguf"), engine)
        assert engine.bodies[0]["messages"][0]["content"].endswith("[image/png, 3 bytes: this model cannot see it]")

    @pytest.mark.parametrize("seconds", [None, math.inf])
    def test_the_model_may_take_any_time(self, tmp_path, monkeypatch, seconds):
        file = write_gguf(tmp_path / "weights" / "tiny.gguf")
        assert self.ask(monkeypatch, file, Engine(("a cup", 0.0)), timeout=seconds) == "a cup"

    def test_one_of_another_model_is_an_error_that_names_it(self, tmp_path, monkeypatch):
        class Failing(Engine):
            def Server(self, params):
                raise RuntimeError("Failed to init server.")

        file = write_gguf(tmp_path / "weights" / "tiny.gguf")
        with pytest.raises(ModelError, match=r"cannot load the file: Failed to init server\.$"):
            self.ask(monkeypatch, file, Failing())
        write_gguf(file.with_name("mmproj-tiny.gguf"))
        with pytest.raises(ModelError, match=r"with the projector mmproj-tiny\.gguf: .* or move this one away\.$"):
            self.ask(monkeypatch, file, Failing())


class TestRevision:
    """A small model that gives one value to two parameters chooses again; the likelier choice stays."""

    FIRST = write("find_route", start="Rome", end="Rome")
    BACK = write("find_route", start="Pisa", end="Rome")
    RIGHT = write("find_route", start="Rome", end="Pisa")

    def run(self, world, tmp_path, monkeypatch, *script, stream=False):
        engine = Engine(*script)
        monkeypatch.setitem(sys.modules, "xllamacpp", engine)
        file = write_gguf(tmp_path / "weights" / "tiny.gguf")
        model = SchemaCallModel(LocalModel(file))
        tools = ToolRegistry(find_route, answer=make_answer_tool())
        request = Request([user("Find a route from Rome to Pisa")], tools, stream=stream)
        if world.name == "sync":
            return engine, [*model.ask(request)]

        async def collect():
            return [piece async for piece in model.aask(request)]

        return engine, asyncio.run(collect())

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(("back", "right", "expected"), [(-5.0, -2.0, RIGHT), (-2.0, -5.0, BACK)])
    def test_the_likelier_choice_stays(self, world, tmp_path, monkeypatch, back, right, expected, stream):
        script = [(self.FIRST, 0.0), (self.BACK, back), (self.RIGHT, right)]
        engine, pieces = self.run(world, tmp_path, monkeypatch, *script, stream=stream)
        reply = pieces[-1]
        (call,) = calls_of(reply.message)
        assert json.loads(call.arguments) == json.loads(expected)["arguments"]
        assert [body["logprobs"] for body in engine.bodies] == [False, True, True]
        assert (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 30, 12)
        streamed = "".join(piece.arguments for piece in pieces[:-1] if isinstance(piece, ToolCallDelta))
        assert streamed == (call.arguments if stream else "")

    def test_a_good_reply_is_asked_for_once(self, world, tmp_path, monkeypatch):
        engine, pieces = self.run(world, tmp_path, monkeypatch, (self.RIGHT, 0.0))
        assert len(engine.bodies) == 1
        assert pieces[-1].usage.input_tokens == 10


class TestFetching:
    @pytest.fixture
    def source(self, tmp_path):
        return write_gguf(tmp_path / "weights" / "tiny.gguf")

    def test_a_file_is_copied_into_the_cache(self, source, cache):
        seen = []
        path = fetch_model(str(source), progress=lambda done, total: seen.append((done, total)))
        assert path == cache / "tiny.gguf"
        assert path.read_bytes() == source.read_bytes()
        assert seen == [(source.stat().st_size,) * 2]

    def test_a_wrong_hash_keeps_nothing(self, source, cache):
        with pytest.raises(ModelError, match=r"expected 00\. It was not kept"):
            fetch_model(str(source), sha256="00")
        assert [*cache.iterdir()] == []
        right = hashlib.sha256(source.read_bytes()).hexdigest()
        assert fetch_model(str(source), sha256=right.upper()).is_file()

    def test_a_file_of_another_kind_is_not_kept(self, source, cache):
        source.write_text("<html>")
        with pytest.raises(ModelError, match=rf"^{source}: this is no GGUF file"):
            fetch_model(str(source))
        assert [*cache.iterdir()] == []

    def test_an_unknown_source(self):
        with pytest.raises(
            ModelError, match=r"no such file\. Name a file, an https address, or a known model: smollm2"
        ):
            fetch_model("nothing")

    def test_a_file_at_an_address(self, source, cache):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=source.parent)

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_address[1]}"
            assert fetch_model(f"{address}/tiny.gguf?download=true") == cache / "tiny.gguf"
            with pytest.raises(ModelError, match="cannot be fetched"):
                fetch_model(f"{address}/other.gguf")
            server.shutdown()

    def test_a_download_that_ends_early_is_not_kept(self, source, cache):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(source.stat().st_size + 1000))
                self.end_headers()
                self.wfile.write(source.read_bytes())

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with pytest.raises(ModelError, match=r"cannot be fetched: it ended after \d+ of \d+ bytes"):
                fetch_model(f"http://127.0.0.1:{server.server_address[1]}/tiny.gguf")
            server.shutdown()
        assert [*cache.iterdir()] == []


def test_the_command_lists_and_fetches_files(tmp_path, cache):
    from click.testing import CliRunner

    from agentkit.cli import main

    source = write_gguf(tmp_path / "weights" / "tiny.gguf")
    fetched = CliRunner().invoke(main, ["models", "get", str(source)])
    assert fetched.exit_code == 0, fetched.output
    assert 'Use it: model="local/tiny"' in fetched.output
    listed = json.loads(CliRunner().invoke(main, ["models", "--json"]).output)
    assert listed["files"] == [{"model": "local/tiny", "bytes": source.stat().st_size}]
    missing = CliRunner().invoke(main, ["models", "get", str(tmp_path / "none.gguf")])
    assert missing.exit_code != 0
    assert "no such file" in missing.output


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b'{"data": [{"id": "qwen3-4b"}, {"id": "gemma"}]}', ["qwen3-4b", "gemma"]),
        (b'{"data": []}', []),
        (b'{"models": [{"name": "qwen3-4b"}]}', None),
        (b"<html>", None),
    ],
)
def test_the_models_of_a_server_that_answers(reply, expected):
    from agentkit.cli.models import list_server_models

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/v1/models"
        assert list_server_models(address, "data", "id") == expected
        server.shutdown()
    assert list_server_models(address, "data", "id") is None  # nothing answers there any more
