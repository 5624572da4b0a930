"""What providers say of their windows, in the words in which they say it."""

import pytest
from wire_providers import Play, Provider

from agentkit.core.errors import ModelError
from agentkit.core.messages import user
from agentkit.engine.history.size import Window, parse_window
from agentkit.testing.server import ModelServer

SAID = [
    (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please "
        "reduce the length of the messages.",
        Window(8192, 9000),
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (8000 in the messages, "
        "500 in the functions, 1000 in the completion). Please reduce the length of the messages or completion.",
        Window(7192, 8500),
    ),
    (
        "This model's maximum context length is 16385 tokens. However, your messages resulted in 17000 tokens (16000 in "
        "the messages, 1000 in the functions).",
        Window(16385, 17000),
    ),
    (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (139000 of "
        "text input, 1000 in the output). Please reduce the length of either one.",
        Window(130072, 139000),
    ),
    ("prompt is too long: 210000 tokens > 200000 maximum", Window(200000, 210000)),
    (
        "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input length or "
        "`max_tokens` and try again",
        Window(191808, 198000),
    ),
    (
        "The input token count (1,048,577) exceeds the maximum number of tokens allowed (1,048,576).",
        Window(1048576, 1048577),
    ),
    (
        "Request too large for model `llama-3.1-8b-instant` in organization `o` on tokens per minute (TPM): Limit 6000, "
        "Requested 7500, please reduce your message size and try again.",
        Window(6000, 7500),
    ),
    ("Please reduce the length of the messages or completion.", None),
    ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", Window(4096, 5000)),
    ("the request exceeds the available context size. try increasing the context size", None),
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        Window(32768, 40000),
    ),
    (
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        Window(131072, 140000),
    ),
    (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        Window(4096, 5000),
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 4096 tokens "
        "and your request has 3500 input tokens (1000 > 4096 - 3500).",
        Window(3096, 3500),
    ),
    (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        Window(4081, 5000),
    ),
    ("The prompt is too long: 9000, model maximum context length: 8191", Window(8191, 9000)),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and "
        "1000 `max_new_tokens`",
        Window(7193, 8000),
    ),
    ("Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", Window(4096, 5000)),
    (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        Window(4096, 5000),
    ),
    ("input length exceeds maximum context length", None),
    ("Input is too long for requested model.", None),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", None),
    ("This model's maximum context length is 10 tokens", Window(10)),
    (
        "Unable to submit request because the input token count is 40000 but model only supports up to 32768. Reduce the "
        "input token count and try again.",
        Window(32768, 40000),
    ),
    ("prompt token count of 130000 exceeds the limit of 128000", Window(128000, 130000)),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please "
        "reduce the length of the messages.",
        Window(272000, 300000),
    ),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", Window(1048576)),
    (
        "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
        None,
    ),
    ("Too many input tokens. Max input tokens: 8192, request input token count: 9279", Window(8192, 9279)),
    ("prompt tokens (200001) exceed model maximum (131072)", Window(131072, 200001)),
    (
        "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
        Window(8192, 9000),
    ),
    ("Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)", Window(8192, 9000)),
    ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", Window(30720)),
    ("Prompt exceeds max length", None),
    ("the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model", Window(4096, 5000)),
    (
        "Input length (40000 tokens) exceeds the maximum allowed length (32762 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
        Window(32762, 40000),
    ),
    ("Prompt length (5000) exceeds maximum input length (4096).", Window(4096, 5000)),
    ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", Window(7424, 15028)),
    ("Context size has been exceeded.", None),
    ("context shift is disabled", None),
    ("max_tokens must be at least 1, got -904.", None),
]


@pytest.mark.parametrize(("text", "window"), SAID)
def test_a_window_is_read_from_the_provider_s_error(text: str, window: Window | None) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize("text", ["no such model", "", "error 404 at 12:30", "context of 4k"])
def test_other_words_tell_no_window(text: str) -> None:
    assert parse_window(text) is None


@pytest.mark.parametrize("text", [text for text, _ in SAID])
@pytest.mark.parametrize("status", [400, 500])
def test_they_all_mean_that_the_conversation_is_too_long(text: str, status: int, play: Play) -> None:
    with ModelServer({"status": status, "message": text}) as server, pytest.raises(ModelError) as caught:
        play(Provider("openai").at(server), [user("hi")])
    assert (caught.value.kind, caught.value.transient) == ("context", False)
    assert parse_window(str(caught.value)) == parse_window(text)


def test_a_request_above_the_tokens_of_a_minute_is_too_long_and_many_requests_are_not(play: Play) -> None:
    large = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000."
    many = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000."
    for text, kind, transient in ((large, "context", False), (many, "rate_limit", True)):
        with ModelServer({"status": 429, "message": text}) as server, pytest.raises(ModelError) as caught:
            play(Provider("openai").at(server), [user("hi")])
        assert (caught.value.kind, caught.value.transient) == (kind, transient)
