"""Each reader of a text of a model, a tool, a provider or a file takes time linear in the length of the text.

Each reader gets texts that are hard for regular expressions: one of its own words repeated between two others.  The time
for 10,000 characters is compared with that for 1,000, and for the slowest texts that for 100,000 with that for 10,000.
"""

import json
import random
import re
import time
from contextlib import suppress
from datetime import date
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentkit import JsonTool, RunContext, ToolRegistry
from agentkit.core.errors import AgentkitError, NoAnswer, ToolError
from agentkit.core.flow import ask, drive
from agentkit.core.masking import mask
from agentkit.core.messages import UNKNOWN, ToolCall, assistant, remove_delimiters, tool_message, user
from agentkit.core.portable import split_words, to_object_text, to_portable_name
from agentkit.engine.history import repair_history
from agentkit.engine.history.moved import find_passages
from agentkit.engine.history.size import parse_window
from agentkit.engine.model import AskModel, ModelAsked, PartialAnswerReader, Request, ToolCallDelta
from agentkit.models.led import lead_request
from agentkit.models.litellm.errors import convert_error
from agentkit.models.litellm.limits import mend_body
from agentkit.models.litellm.model import _announces_more
from agentkit.models.litellm.streams import _TEXT_COUNT, ArgumentPieces
from agentkit.models.offline.model import OfflineModel
from agentkit.policies.evidence import find_unsupported
from agentkit.policies.long_results import TruncatedResults, read_more, search_conversation
from agentkit.policies.retries import retry_echoes
from agentkit.policies.taint.hidden import Handles, UnknownHandle
from agentkit.policies.taint.origins import Origins, find_addresses, is_public_page
from agentkit.policies.text_tool_mode import use_schema_mode, use_text_mode
from agentkit.testing import ScriptedModel, answer
from agentkit.tools.final_answer import make_answer_tool
from agentkit.tools.lint import lint
from agentkit.tools.python_functions import has_await
from agentkit.tools.ranking import list_stems
from agentkit.tools.results.result_text import render_result
from agentkit.tools.text_calls import find_text_calls
from agentkit.views.html.markup import render_block
from agentkit.views.html.run import code_span, escape_markdown
from agentkit.views.markdown import parse_markdown
from agentkit_tools import calculate
from agentkit_tools.files import Files
from agentkit_tools.folder import Folder
from agentkit_tools.readable import extract_main, extract_text

ROOT = Path(__file__).parents[2]
CASES = 50
"""Texts for each reader."""
MAX_RATIO = 40
"""Growth of the time where the length grows tenfold: 10 is linear, 100 quadratic."""
FLOOR_SECONDS = 0.004
"""Shorter times are too inexact to compare."""
LITERAL = re.compile(r"(?:[^\\\[\](){}*+?|^$.]|\\[^\w\s])+")
"""Characters of an expression that stand for themselves."""
WORDS = [*" \n\ta1{[(<\"'`\\,.-_~@#*&|é", "```", '{"a":', "[1,", "a=", "\\u", "</b>", "://", "x ", " \n", "**"]


def weather(city: str, days: list[int] | None = None) -> str:
    """Gets the weather of a city."""
    return city


def book(day: date) -> None:
    """Books a day."""


TOOLS = ToolRegistry(weather, answer=make_answer_tool())
BOOK = JsonTool(book)
PAGE = ToolCall("p", "page", "{}")
SAVE = JsonTool.from_schema(name="save", description="Saves.", parameters={"type": "object"}, call=print)
CLAIMS = 'On 3 May 2020, 12:30, 17.5% said "hello you there" at http://x.example/z, 12 times'


def read_pieces(answer):
    def read(text):
        reader = PartialAnswerReader(make_answer_tool(answer))
        list(reader.read(ModelAsked("m", Request([], TOOLS))))
        for letter in text:
            list(reader.read(ToolCallDelta(0, "final_answer", letter)))

    return read


def read_history(text):
    call = {"id": text, "function": {"name": text, "arguments": text}}
    result = {"role": "tool", "tool_call_id": text, "content": text}
    repair_history(
        [{"role": "user", "content": text, "name": text}, {"role": "assistant", "tool_calls": [call]}, result]
    )


def read_origins(text):
    origins = Origins([user(text), assistant(None, [PAGE]), tool_message(PAGE, text)])
    arguments = json.dumps({"where": text[: len(text) // 2], "number": 1})
    origins.doubt(arguments, SAVE, origins.find_untrusted(arguments, SAVE))


def read_references(text):
    stored = TruncatedResults()
    stored.store_next(json.dumps({"a": text}), UNKNOWN)
    with suppress(UnknownHandle):
        Handles(stored).resolve({"text": text, "other": "{#1.a}"})


def read_stored(text):
    stored = TruncatedResults()
    stored.store(text)
    for query in (text, "word"):
        search_conversation(query, RunContext(None, texts=stored))
    with suppress(ToolError):
        read_more(text, RunContext(None, texts=stored))


def read_described(text):
    lint(JsonTool.from_schema(name="save", description=text, parameters={"type": "object"}, call=print))


def read_reply(text, policy, *, stream=False):
    model = ScriptedModel(text, text, answer("done"))

    def flow():
        return (yield from ask(AskModel(model, Request([user("?")], TOOLS, stream=stream))))

    with suppress(NoAnswer):
        list(drive(policy(flow())))


PARAGRAPH = f"<p>{'A sentence of some words, and another one. ' * 5}</p>"


def read_file(text):
    """Write, edit, search and read a file with a text."""
    with TemporaryDirectory() as folder:
        files = Files(Folder(folder))
        for content in (text, f"a {text}"):
            with suppress(ToolError):
                files.write_file("a.txt", content, replace=True)
        with suppress(ToolError):
            files.edit_file("a.txt", "a ", "b\n")
        with suppress(ToolError):
            files.edit_file("a.txt", "what is not there", "b")
        with suppress(ToolError):
            files.search_files(text[:1_000])
        files.read_file("a.txt")


READERS = {
    "core.masking": mask,
    "core.portable": lambda text: (to_object_text(text), to_portable_name(text), split_words(text)),
    "core.messages": remove_delimiters,
    "engine.history.moved": lambda text: find_passages({"a": text, "b": "a word"}, text[:100], 3),
    "engine.history.repair": read_history,
    "engine.history.tool_calls": read_history,
    "engine.model": read_pieces(str),
    "tools.ranking": lambda text: [*list_stems(text)],
    "engine.model: data": read_pieces(dict[str, list[int]]),
    "models.led": lambda text: lead_request(Request([user(text)], TOOLS)),
    "models.litellm.model": _announces_more,
    "models.litellm.errors": lambda text: convert_error(ValueError(text), model="m"),
    "models.litellm.limits": lambda text: mend_body(text.encode()),
    "models.litellm.streams": lambda text: ArgumentPieces().add(_TEXT_COUNT.sub("", text)),
    "models.offline.model": lambda text: list(OfflineModel().ask(Request([user(text)], TOOLS))),
    "models.offline.words": lambda text: list(OfflineModel().ask(Request([user(text)], TOOLS))),
    "policies.long_results": read_stored,
    "engine.history.size": parse_window,
    "policies.evidence": lambda text: find_unsupported(CLAIMS, text),
    "policies.evidence: results": lambda text: find_unsupported(text, CLAIMS),
    "policies.taint.hidden": read_references,
    "policies.taint.origins": lambda text: (read_origins(text), find_addresses(text), is_public_page(text)),
    "policies.retries": lambda text: read_reply(text, retry_echoes(["Work through the task with the tools."])),
    "policies.text_tool_mode": lambda text: read_reply(f"<tool_call>{text}</tool_call>", use_text_mode()),
    "policies.text_tool_mode: schema": lambda text: read_reply(text, use_schema_mode(), stream=True),
    "policies.text_tool_mode: calls": lambda text: read_reply(
        '{"calls": [{"name": "f", "arguments": {"x": ' + text, use_schema_mode(), stream=True
    ),
    "tools.python_functions": has_await,
    "tools.python_functions: texts": lambda text: has_await(f"f'{text}'"),
    "schemas.generator": lambda text: BOOK.call_with_raw_arguments({"day": text}),
    "tools.arguments.json_text": TOOLS["weather"].call_with_raw_arguments,
    "tools.arguments.json_text: incomplete": lambda text: TOOLS["weather"].call_with_raw_arguments('{"city": 1, x: ' + text),
    "tools.arguments.fixes": lambda text: TOOLS["weather"].call_with_raw_arguments(json.dumps({"city": 1, "days": text})),
    "tools.arguments.fixes: keys": lambda text: TOOLS["weather"].call_with_raw_arguments(
        {f"{text[place]}{place}": 1 for place in range(0, len(text), 10)}
    ),
    "tools.arguments.fixes: names": lambda text: TOOLS.bind(ToolCall("1", text, "{}")),
    "tools.lint": read_described,
    "tools.results.jsonable": render_result,
    "tools.text_calls": lambda text: find_text_calls(text, TOOLS),
    "views.html.run": lambda text: (escape_markdown(text), code_span(text)),
    "views.html.markup": render_block,
    "views.markdown": parse_markdown,
    "agentkit_tools.calculator": calculate,
    "agentkit_tools.files": read_file,
    "agentkit_tools.readable": extract_text,
    "agentkit_tools.readable: main": lambda text: extract_main(f"<p>{text}</p>" + 9 * PARAGRAPH),
}  # fmt: skip
"""The modules that read texts of others, each with a function that uses its expressions."""
ELSEWHERE = {
    "agents.backends": "options, which the program writes",
    "cli": "command line",
    "cli.chat": "keys that a person presses",
    "dbos.queue_tables": "ids of runs, of at most 100 characters, and names of schedules, which the program writes",
    "dbos.worker": "ids of runs",
    "evals.cases": "files of cases, which the program writes",
    "evals.checks": "patterns of cases, which the program writes",
    "evals.runner": "names of cases",
    "extensions.code": "programs: a single class, and lines without an alternative; names in schemas",
    "extensions.skills": "the head of files in a folder that the program names",
    "mcp.config": "names in the program's own configuration",
    "core.parts": "addresses and types of parts, which the program writes",
    "core.ask_person": "what a person enters at a question",
    "acp.agent": "a name, blanks and a sign, in a line of the editor that started the process",
    "models.litellm.parameters": "names of options, which the program writes",
    "models.litellm.prices": "columns of litellm's table of prices",
    "models.litellm.provider_tools": "names of models",
    "models.litellm.requests": "plain alternatives without a repetition, ids of at most 64 characters, model names",
    "models.offline.planning": "pieces that words.py has found",
    "policies.pending": "places in arguments",
    "tools.registry": "types of tools, which the program writes",
    "tools.roles": "names of parameters",
    "pytest_plugin": "names of tests",
    "sessions.journal.postgres": "plain alternatives without a repetition",
    "sessions.journal.search": "a single class of characters",
    "sessions.journal.store": "names of processes",
    "sessions.notes": "the head of a note of at most 80,000 bytes, and a single class of characters",
    "schemas": "signatures and docstrings of the program",
    "testing": "test doubles",
    "tools.arguments.explain": "patterns of schemas",
    "tools.arguments.validation_errors": "patterns of schemas",
    "tools.lint": "paths in schemas",
    "tools.openapi.tools": "single character classes in names of a document, and scalars without alternatives",
    "tools.http.addresses": "addresses, which are short",
    "tools.http.download": "names of codecs of Python, which are matched as a whole",
    "web.app": "names of dots alone and figures of at most six digits, which are matched as a whole",
    "agentkit_tools.clock": "a name of a zone, which is matched as a whole",
    "agentkit_tools.http_json": "hosts, which the program writes",
    "agentkit_tools.tables": "names of files",
    "agentkit_tools.tables_child": "names of tables and files, and errors",
    "agentkit_tools.wikipedia": "a code of a language, which is matched as a whole",
    "agentkit_tools.web": "heads of at most some kB",
}
"""The modules with expressions that read nothing of others, or only short texts, with the reason."""


def module_of(name):
    place = name.split(":")[0]
    return import_module(place if place.startswith("agentkit_tools") else f"agentkit.{place}")


def patterns_in(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from patterns_in(entry)


def own_words(name):
    """The literal texts in a module's expressions: what stands between their special characters."""
    patterns = patterns_in([value for key, value in vars(module_of(name)).items() if key != "__builtins__"])
    texts = [pattern.pattern for pattern in patterns if isinstance(pattern.pattern, str)]
    return sorted({word.replace("\\", "") for text in texts for word in LITERAL.findall(text)} - {""})


def attacks(name):
    """Texts of a given length: a word, another one repeated, and an end; each a function of the length."""
    dice = random.Random(name)
    own = own_words(name)
    starts = ["", *own, *WORDS]
    units = [*own, *WORDS, *WORDS[:3]]
    for _ in range(CASES):
        start = dice.choice(starts)
        unit = dice.choice(units) if dice.random() < 0.7 else dice.choice(units) + dice.choice(units)
        yield start, unit, dice.choice(["", "!"])
    for start in dice.sample(own, min(len(own), CASES // 5)):
        yield from ((start, unit, "!") for unit in (" ", "\n", "1", "a", start))


def seconds(read, attack, length):
    start, unit, end = attack
    text = start + unit * (length // len(unit)) + end
    began = time.process_time()
    with suppress(ValueError, SyntaxError, ArithmeticError, AgentkitError, ToolError):  # a refusal is an answer
        read(text)
    return time.process_time() - began


def check_growth(read, attack, length):
    """Return the seconds for a text; fail if it takes more than `MAX_RATIO` times as long as a tenth of the text."""
    for _ in range(3):
        long = seconds(read, attack, length)
        if long <= MAX_RATIO * FLOOR_SECONDS or long <= MAX_RATIO * seconds(read, attack, length // 10):
            return long
    raise AssertionError(f"{attack!r}: {long:.2f} s for {length:,} characters")


@pytest.mark.parametrize("name", READERS)
def test_the_time_of_a_reader_is_linear(name):
    read = READERS[name]
    seconds(read, ("", "1", ""), 10)
    for attack in attacks(name):  # some readers read the end of a text alone
        check_growth(read, attack, 400)
    times = {attack: check_growth(read, attack, 10_000) for attack in attacks(name)}
    for attack in sorted(times, key=times.__getitem__)[-3:]:
        check_growth(read, attack, 100_000)


HARD = [
    ("Thought: x\n", "\n", ""), ("Thought:", "\n", "!"), ("", "```\n", ""), ("```", "\n", "!"), ("name=", " ", "!"),
    ("<tool_call>", "\n", "!"), ("maximum context length is ", "1", "!"), ("m", "1", "!"), ("", "@", ""),
    ('{"text": "', "\\", ""), ('{"', "a", ""), ("", " ", ""), ("", '{"a":', ""), ("\ud83d", "x", ""),
    ("", "May 1 ", ""), ("", "[", ""), ("-----BEGIN PRIVATE KEY-----", "\\", ""), ("", "```json\n{", "```"),
]  # fmt: skip


@pytest.mark.parametrize("attack", HARD, ids=repr)
def test_a_text_that_was_slow_for_one_reader_is_linear_for_all(attack):
    for read in READERS.values():
        if check_growth(read, attack, 10_000) > FLOOR_SECONDS:
            check_growth(read, attack, 100_000)


def test_every_module_with_expressions_is_known():
    found = set()
    for root, prefix in ((ROOT / "agentkit", ""), (ROOT / "tools" / "agentkit_tools", "agentkit_tools.")):
        for path in root.rglob("*.py"):
            if re.search(r"^import re$", path.read_text(), re.MULTILINE):
                place = prefix + ".".join(path.relative_to(root).with_suffix("").parts)
                found.add(place.removesuffix(".__init__"))
    read = {name.split(":")[0] for name in READERS}
    excused = {name for name in found if any(f"{name}.".startswith(f"{reason}.") for reason in ELSEWHERE)}
    assert found - read - excused == set(), "add the module to READERS, or to ELSEWHERE with the reason"
