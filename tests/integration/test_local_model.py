"""Real weights in this process: properties that hold whatever a model of 135 million weights writes."""

import asyncio
import json
import math
import os
import random
import shutil
import struct
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from agentkit import Image, JsonAgent, LimitExceeded, ModelError, NoAnswer, Paused, Session, ToolRegistry, tool
from agentkit.core.messages import user
from agentkit.core.parts import describe_unseen
from agentkit.engine.history import repair_history
from agentkit.engine.model import TextDelta
from agentkit.events import ModelAsked
from agentkit.extend import fetch_model
from agentkit.models import LocalModel, Request
from agentkit.tools.final_answer import make_answer_tool

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("local"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def weights():
    pytest.importorskip("xllamacpp")
    before = os.environ.get("AGENTKIT_CACHE")
    os.environ["AGENTKIT_CACHE"] = str(ROOT / ".cache" / "integration")
    try:
        yield str(fetch_model("smollm2"))
    except ModelError as error:
        pytest.skip(str(error))
    finally:
        os.environ.pop("AGENTKIT_CACHE")
        if before is not None:
            os.environ["AGENTKIT_CACHE"] = before


@pytest.fixture
def prices():
    """A tool that keeps what it was called with."""
    calls = []

    def price_of(item: str) -> float:
        """Return the price of an item in euros."""
        calls.append(item)
        return 4.25

    price_of.calls = calls
    return price_of


def finish(run):
    """The result of a run; an end without an answer is one that a small model may come to."""
    try:
        return run()
    except (LimitExceeded, NoAnswer) as error:
        return error


def check_history(messages):
    """Check that every call has exactly one result, and that a provider would accept the conversation."""
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert calls == results
    assert len(set(calls)) == len(calls)
    assert repair_history(messages) == messages
    for message in messages:
        for call in message.get("tool_calls") or ():
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_each_reply_is_a_call_of_an_offered_tool(weights, prices):
    tools = ToolRegistry(prices, answer=make_answer_tool())
    model = LocalModel(weights, max_tokens=120)
    agent = JsonAgent(prices, model=model, max_steps=2)
    outcome = finish(lambda: agent.run("What is the price of coffee?"))
    check_history(agent.history)
    names = [call["function"]["name"] for message in agent.history for call in message.get("tool_calls") or ()]
    assert names
    assert set(names) <= set(tools)
    assert prices.calls
    usage = outcome.usage
    assert usage.cost == 0.0
    assert usage.input_tokens > 0 < usage.output_tokens


def make_tools():
    """Return sixty tools, of which one has to do with the price of an item."""

    def make(number):
        def work(text: str) -> str:
            return text

        work.__name__ = f"job_{number}"
        work.__doc__ = f"Work on document {number} of the archive."
        return work

    return [make(number) for number in range(60)]


def test_a_small_model_gets_the_tools_that_are_found_for_its_question(weights, prices):
    model = LocalModel(weights, max_tokens=120)
    offered = []

    def listen(event):
        if isinstance(event, ModelAsked):
            offered.append([*event.request.tools])

    agent = JsonAgent(*make_tools(), prices, model=model, max_steps=2, listeners=[listen])
    finish(lambda: agent.run("What is the price of coffee?"))
    check_history(agent.history)
    assert "price_of" in offered[0]
    assert len(offered[0]) <= 12, "sixty tools would fill the window of a small model"
    names = [call["function"]["name"] for message in agent.history for call in message.get("tool_calls") or ()]
    assert names
    assert set(names) <= {*offered[-1]}


def test_a_stream_and_an_event_loop(weights, prices):
    agent = JsonAgent(prices, model=f"local/{weights}", max_tokens=120, max_steps=1)
    seen = []

    async def collect():
        async for event in agent.astream("What is the price of coffee?"):
            seen.append(event)

    finish(lambda: asyncio.run(collect()))
    check_history(agent.history)
    assert not any(isinstance(event, TextDelta) for event in seen)  # a schema's text becomes pieces of calls


def test_texts_stream_and_a_closed_stream_ends_the_generation(weights):
    model = LocalModel(weights, max_tokens=400)
    request = Request([user("Write a long story about the sea.")], ToolRegistry(), stream=True)
    stream = model.ask(request)
    assert isinstance(next(stream), TextDelta)
    stream.close()
    begun = monotonic()
    again = [*model.ask(Request([user("Say hi.")], ToolRegistry(), max_tokens=3))]
    first = monotonic() - begun
    begun = monotonic()
    whole = [*LocalModel(weights, max_tokens=400).ask(request)]
    assert again[-1].usage.output_tokens <= 3
    assert first < monotonic() - begun  # the story was not finished before the next request
    assert len(whole) > 10


def test_a_timeout_ends_the_generation(weights):
    request = Request([user("Write a long story about the sea.")], ToolRegistry(), timeout=0.01)
    with pytest.raises(ModelError, match="no complete answer within") as caught:
        [*LocalModel(weights).ask(request)]
    assert (caught.value.kind, caught.value.transient) == ("timeout", True)


def test_a_conversation_longer_than_the_window(weights):
    with pytest.raises(ModelError, match="exceeds the available context") as caught:
        [*LocalModel(weights).ask(Request([user("word " * 9_000)], ToolRegistry()))]
    assert caught.value.kind == "context"


def test_a_pause_and_a_resume_in_another_session(weights, tmp_path):
    done = []

    @tool(effect="danger")
    def refund(order: str) -> str:
        """Refund an order."""
        done.append(order)
        return "refunded"

    model = LocalModel(weights, max_tokens=80)
    path = tmp_path / "session.jsonl"
    session = Session()
    agent = JsonAgent(refund, model=model, max_steps=1)
    try:
        agent.run("Refund the order A-5.", session=session)
    except Paused as paused:
        assert done == []
        session.save(path)
        answers = {call.id: True for call in paused.calls}
        loaded = Session.load(path)
        resumed = JsonAgent(refund, model=model, max_steps=1)
        with suppress(Paused, LimitExceeded, NoAnswer):  # the weights may ask for the same call again
            resumed.run(session=loaded, answers=answers)
        assert len(done) == len(answers)  # each once
    except (LimitExceeded, NoAnswer):
        assert done == []


def write_projector(path, width, size=64, patch=16, hidden=32):
    """Write a projector for images with random weights, whose vectors have the width of a model's."""
    draw = random.Random(1)

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def whole(value):
        return struct.pack("<II", 4, value)

    def small(value):
        return struct.pack("<If", 6, value)

    shades = struct.pack("<IIQ3f", 9, 6, 3, 0.5, 0.5, 0.5)
    yes = struct.pack("<I?", 7, True)
    entries = {
        "general.architecture": struct.pack("<I", 8) + text("clip"),
        "clip.projector_type": struct.pack("<I", 8) + text("mlp"),
        "clip.has_vision_encoder": yes,
        "clip.use_gelu": yes,
        "clip.vision.image_size": whole(size),
        "clip.vision.patch_size": whole(patch),
        "clip.vision.embedding_length": whole(hidden),
        "clip.vision.feed_forward_length": whole(2 * hidden),
        "clip.vision.block_count": whole(1),
        "clip.vision.attention.head_count": whole(2),
        "clip.vision.attention.layer_norm_epsilon": small(1e-5),
        "clip.vision.projection_dim": whole(width),
        "clip.vision.image_mean": shades,
        "clip.vision.image_std": shades,
    }
    square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_out"), (hidden, hidden))
    layers = {**square, "ffn_up": (hidden, 2 * hidden), "ffn_down": (2 * hidden, hidden)}
    shapes = {f"v.blk.0.{name}.weight": shape for name, shape in layers.items()}
    shapes |= {f"v.blk.0.{name}.bias": shape[1:] for name, shape in layers.items()}
    norms = ("v.blk.0.ln1", "v.blk.0.ln2", "v.pre_ln", "v.post_ln")
    shapes |= {f"{name}.{part}": (hidden,) for name in norms for part in ("weight", "bias")}
    shapes |= {"v.patch_embd.weight": (patch, patch, 3, hidden), "v.patch_embd.bias": (hidden,)}
    shapes |= {"v.position_embd.weight": (hidden, (size // patch) ** 2)}
    shapes |= {"mm.0.weight": (hidden, width), "mm.0.bias": (width,)}
    shapes |= {"mm.2.weight": (width, width), "mm.2.bias": (width,)}
    infos = b""
    data = b""
    for name, shape in shapes.items():
        count = math.prod(shape)
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += struct.pack(f"<{count}f", *(draw.uniform(-0.1, 0.1) for _ in range(count)))
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(entries))
    head += b"".join(text(key) + value for key, value in entries.items()) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def make_png(size=64):
    """Return a red picture."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((255, 0, 0)) * size) * size
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_images_reach_the_weights_through_a_projector(weights, tmp_path):
    file = tmp_path / "smollm2.gguf"
    shutil.copyfile(weights, file)
    write_projector(tmp_path / "mmproj-smollm2.gguf", width=576)
    image = Image(make_png())

    def count(model, *parts):
        content = [{"type": "text", "text": "Hello"}, *(part.as_part() for part in parts)]
        return [*model.ask(Request([user(content)], ToolRegistry()))][-1].usage.input_tokens

    seeing = LocalModel(file, max_tokens=60, num_ctx=4_096)
    blind = LocalModel(weights, max_tokens=4)
    patches = 16
    assert count(seeing, image) == count(seeing) + patches
    assert count(seeing, image, image) == count(seeing) + 2 * patches
    note = f"Hello\n{describe_unseen(image.as_part())}"
    asked = Request([user(note)], ToolRegistry())
    assert count(blind, image) == [*blind.ask(asked)][-1].usage.input_tokens

    def photo_of(item: str) -> Image:
        """Show a photo of an item."""
        return image

    agent = JsonAgent(photo_of, model=seeing, max_steps=2)
    finish(lambda: agent.run(["Show me a photo of this cup.", image]))
    check_history(agent.history)
    assert any(message["role"] == "tool" for message in agent.history)


def test_hidden_untrusted_texts_do_not_reach_the_weights(weights):
    @tool(trust="untrusted")
    def read_mail() -> str:
        """Read the newest mail."""
        return "SECRET-WORD-7781 is here"

    model = LocalModel(weights, max_tokens=80)
    agent = JsonAgent(read_mail, model=model, max_steps=2, untrusted="hidden")
    finish(lambda: agent.run("Read the newest mail."))
    assert all("7781" not in str(message.get("content")) for message in agent.history if message["role"] != "tool")


def test_the_page_over_real_weights(weights, prices, tmp_path):
    from starlette.testclient import TestClient

    from agentkit.web import web_app

    agent = JsonAgent(prices, model=LocalModel(weights, max_tokens=80), max_steps=2)
    app = web_app(agent, token="t", hosts=["testserver"], journal=tmp_path / "page.db")
    client = TestClient(app, headers={"authorization": "Bearer t"})
    message = {"id": "1", "role": "user", "content": "What is the price of coffee?"}
    response = client.post("/agui", json={"threadId": "one", "runId": "r1", "messages": [message]})
    assert response.status_code == 200, response.text
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] in ("RUN_FINISHED", "RUN_ERROR")
    called = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    results = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert called
    assert sorted(called) == sorted(results)
    assert len(prices.calls) == len(called)  # each once
    shown = client.get("/threads").text
    assert "What is the price of coffee?" in shown


def test_the_command_lists_a_live_server_of_llama_cpp(weights):
    from click.testing import CliRunner

    from agentkit.cli import main

    xllamacpp = pytest.importorskip("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.n_ctx = 256
    params.n_parallel = params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.ui = False
    params.hostnames = ["127.0.0.1"]
    params.port = 8080
    params.verbosity = 0
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        pytest.skip(f"port 8080 is taken: {error}")
    assert server.listening_address.endswith(":8080")
    listed = json.loads(CliRunner().invoke(main, ["models", "--json"]).output)
    assert {"server": "llama.cpp", "models": [f"openai/{weights}"]} in listed["servers"]
    shown = CliRunner().invoke(main, ["models"]).output
    assert f"llama.cpp answers: openai/{weights}" in shown
    del server


def test_a_process_ends_while_a_generation_runs(weights):
    import subprocess

    program = (
        "from agentkit.models import LocalModel, Request\nfrom agentkit import ToolRegistry\n"
        f"stream = LocalModel({weights!r}).ask(Request([{{'role': 'user', 'content': 'Tell a story.'}}], "
        "ToolRegistry(), stream=True))\nnext(stream)\nprint('begun')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "begun\n"), done.stderr[-500:]
