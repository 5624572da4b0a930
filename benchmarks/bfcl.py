"""The package of the Berkeley Function Calling Leaderboard (v4): its rows, its objects with a state, its own checkers.

    pip download bfcl-eval==2026.3.23 --no-deps
    pip install -r benchmarks/requirements-bfcl.txt

The package itself needs the libraries of all providers, so it is not installed.  A `Leaderboard` unpacks the wheel and lets
Python import from there; the modules of the package that load those libraries are replaced, since nothing here uses them.
"""

import copy
import os
import sys
import tempfile
import types
import zipfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

Calls = list[dict[str, dict[str, Any]]]
"""Calls as the leaderboard writes them: the name of the function with its arguments."""
NAME = "agentkit"
"""The name under which the leaderboard knows the model."""
REPLACED = {
    "bfcl_eval.constants.model_config": {
        "MODEL_CONFIG_MAPPING": {NAME: types.SimpleNamespace(underscore_to_dot=False)}
    },
    "bfcl_eval.model_handler.parser.java_parser": {"parse_java_function_call": None},
    "bfcl_eval.model_handler.parser.js_parser": {"parse_javascript_function_call": None},
}
MULTI_TURN = "bfcl_eval.eval_checker.multi_turn_eval"
LANGUAGES = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}
NO_TRUTH = ("irrelevance", "live_irrelevance", "live_relevance")
REMEDY = "pip install -r benchmarks/requirements-bfcl.txt"


class Entry(NamedTuple):
    """A row: its category, the row as the model gets it and as the checker reads it, and what is right."""

    category: str
    shown: dict[str, Any]
    plain: dict[str, Any]
    truth: Any


class Leaderboard:
    """The unpacked package; `path` is the wheel, or a folder that has the folder `bfcl_eval`."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        source = Path(path)
        if source.suffix == ".whl":
            zipfile.ZipFile(source).extractall(self._folder.name)
            source = Path(self._folder.name)
        if not (source / "bfcl_eval").is_dir():
            raise SystemExit(f"{path}: expected the wheel of bfcl-eval, or a folder with bfcl_eval. {__doc__}")
        sys.path.insert(0, str(source))
        os.environ["BFCL_PROJECT_ROOT"] = str(self.results)  # the package makes folders there
        for name, content in REPLACED.items():
            vars(sys.modules.setdefault(name, types.ModuleType(name))).update(content)
        try:
            self._utils = import_module("bfcl_eval.utils")
            self._prompts = import_module("bfcl_eval.model_handler.utils")
        except ImportError as error:
            raise SystemExit(f"bfcl-eval: {error}. {REMEDY}") from error
        self.categories: list[str] = import_module("bfcl_eval.constants.category_mapping").ALL_CATEGORIES
        self.more_functions: str = import_module(
            "bfcl_eval.constants.default_prompts"
        ).DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
        self._numbers = count()

    @property
    def results(self) -> Path:
        """The folder for what the leaderboard writes."""
        return Path(self._folder.name, "results")

    def read_rows(self, category: str) -> list[Entry]:
        """Return the rows of a category; what is right in a memory has the text in which it stands."""
        load = self._utils.load_dataset_entry
        shown = load(category, include_prereq=False)
        plain = load(category, include_prereq=False, include_language_specific_hint=False)
        truths: list[Any] = [[]] * len(shown)
        if category not in NO_TRUTH:
            rows = self._utils.load_ground_truth_entry(category)
            truths = rows if category.startswith("memory") else [row["ground_truth"] for row in rows]
        return [Entry(category, *one) for one in zip(shown, plain, truths, strict=True)]

    def read_earlier_talks(self, category: str) -> list[dict[str, Any]]:
        """Return the conversations before the questions of a memory category, in their order."""
        return [row for row in self._utils.load_dataset_entry(category) if "prereq" in row["id"]]

    def make_objects(self, row: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the objects of a row in their first state, by the names of their classes."""
        backends = import_module("bfcl_eval.constants.executable_backend_config")
        objects = {}
        for name in row["involved_classes"]:
            made = getattr(import_module(backends.CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in backends.STATELESS_CLASSES:
                first = copy.deepcopy((config or row.get("initial_config", {})).get(name, {}))
                made._load_scenario(first, long_context="long_context" in row["id"])
            objects[name] = made
        return objects

    def find_missing(self, row: Mapping[str, Any]) -> str:
        """Return why the objects of a row cannot be made; "" if they can."""
        paths = import_module("bfcl_eval.constants.executable_backend_config").CLASS_FILE_PATH_MAPPING
        try:
            for name in row.get("involved_classes", ()):
                import_module(paths[name])
        except Exception as error:  # also a download that fails
            return f"{type(error).__name__}: {error}"
        return ""

    def describe_memory(self, category: str, scenario: str, memory: Any) -> str:
        """Return what a model reads of its memory when a conversation begins."""
        asked = self._prompts.add_memory_instruction_system_prompt([[{"role": "user"}]], category, scenario, memory)
        return str(asked[0][0]["content"])

    def describe_format(self, config: str, functions: Sequence[Any]) -> str:
        """Return the instruction of a model that writes its calls as text."""
        return str(self._prompts.formulate_system_prompt(config, functions))

    def read_text(self, text: str, config: str) -> Calls:
        """Return the calls in a text."""
        shape, has_tag, *_ = self._prompts.parse_prompt_variation_params(config)
        kinds = import_module("bfcl_eval.constants.enums").ReturnFormat
        read: Calls = self._prompts.default_decode_ast_prompting(text, kinds(shape), has_tag)
        return read

    def check_calls(self, category: str, functions: Sequence[Any], made: Calls, truth: Any) -> str:
        """Return what is wrong with the calls of a row with one query; "" if nothing."""
        check = import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker
        languages = import_module("bfcl_eval.constants.enums").Language
        language = languages[LANGUAGES.get(category, "PYTHON")]
        return _explain(check(functions, made, truth, language, category, NAME))

    def check_talk(self, row: Mapping[str, Any], made: list[list[list[str]]], truth: list[list[str]]) -> str:
        """Return what is wrong with the calls of a conversation, those of each reply in each turn; "" if nothing."""
        if len(made) != len(truth):
            return f"the conversation ended after {len(made)} of {len(truth)} turns"
        name = f"{NAME}_{next(self._numbers)}_"  # the checker keeps the objects of a name and a row
        check = import_module(f"{MULTI_TURN}.multi_turn_checker").multi_turn_checker
        try:
            return _explain(check(made, truth, row, row["id"].rsplit("_", 1)[0], name))
        finally:
            kept = vars(import_module(f"{MULTI_TURN}.multi_turn_utils"))
            for key in [key for key in kept if key.startswith(name)]:
                del kept[key]

    def check_answer(self, answer: Any, truth: Sequence[str]) -> str:
        """Return what is wrong with an answer; "" if nothing."""
        check = import_module("bfcl_eval.eval_checker.agentic_eval.agentic_checker").agentic_checker
        return _explain(check(str(answer), truth))


def _explain(verdict: Mapping[str, Any]) -> str:
    if verdict["valid"]:
        return ""
    return f"{verdict.get('error_type', 'wrong')}: {verdict.get('error_message') or verdict.get('error')}"
