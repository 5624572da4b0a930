"""Every scenario that an agent must survive is played somewhere in this folder."""

import re
from pathlib import Path

import pytest

NAMES = """
name_ unknown near_miss namespaced with_control_tokens empty multi_tool_use
args_ single_quotes trailing_comma unclosed fenced double_encoded list wrapped_arguments wrapped_parameters
args_ wrapper_is_real empty_for_no_parameters null_for_no_parameters nan missing_required wrong_type number_as_string
args_ bool_as_string null_as_string list_as_string enum_case extra surrogate object huge broken_strict_provider
args_ broken_forever
parallel_ calls order one_raises mixed_bad
ids_ duplicate missing null empty reused reused_strict_provider
call_ type_missing
final_ twice with_tools bad_args broken_json plain_text
content_ and_calls
empty_ once null forever
refusal
finish_ content_filter unknown null stop_with_calls calls_without_calls length_args length_args_strict_provider
finish_ length_text
choices_ empty
text_call_ json tags react
loop_ same_call endless default_limit
anthropic_ parallel thinking redacted streamed overloaded refusal max_tokens empty broken_stream_args
gemini_ parallel thought_signature malformed_call blocked
stream_ basic cut_eof cut_text reset error_event stall same_index
tool_ raises raises_huge returns_huge raises_odd raises_interrupt raises_exit returns_none returns_bytes
tool_ returns_objects returns_dataclass returns_pydantic returns_cycle returns_surrogate returns_generator
tool_ returns_coroutine returns_image hangs hangs_async blocks_loop async_in_sync_run sync_run_in_loop mutates_args
tool_ calls_agent not_thread_safe same_name_twice
net_ 500 502_html 503 refused reset reset_body read_timeout 429_retry_after 429_long invalid_json html_200 error_in_200
net_ 401 404_model context_length down fallback
concurrent_ threads async
cancel_ in_tool in_request
interrupt_ ctrl_c
two_ event_loops
turns_ 1000
injection_ is_data quoted_in_answer
key_ not_logged not_in_error
prints_ stay_local
no_ phone_home
"""


def names() -> list[str]:
    found = []
    for line in filter(None, NAMES.splitlines()):
        prefix, *rest = line.split()
        found += [prefix + name for name in rest or [""]]
    return found


SOURCE = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_scenarios_*.py"))


@pytest.mark.parametrize("name", names())
def test_a_scenario_is_played(name: str):
    assert re.search(rf'def test_{name}\(|"{name}"', SOURCE)
