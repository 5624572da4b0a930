"""What is secret is not written down."""

import copy
import gc
import html
import json
import os
import pickle
import re
from base64 import b64decode, b64encode, encodebytes, urlsafe_b64encode
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from timing import takes_at_most
from unknown_secrets import secrets_unknown

from agentkit.core import masking as secrets
from agentkit.core.masking import (
    MaskedDict,
    MaskedStream,
    find_secret,
    hide,
    hide_named,
    iterate_causes,
    mask,
    mask_data,
    mask_exception,
    mask_json,
    mask_pieces,
)

PEM = "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"
BASE64 = "MIIEowIBAAKCAQEAx0lmCyQ+d1Zb3Gq/8HkY5pTqW2rVn7LsOe4JfUaXcKdBwEoP"
KEYS = {
    "openai": "sk-proj-abcDEF1234567890abcd_xyz",
    "anthropic": "sk-ant-api03-" + "aB3-" * 20,
    "google": "AIza" + "Sy0-_" * 7,
    "github": "ghp_" + "a1B2" * 9,
    "github pat": "github_pat_11ABCDEFG0" + "abc_" * 10,
    "gitlab": "glpat-" + "xY3-" * 6,
    "slack": "xoxb-123456789012-abcdefGHIJKL",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "hugging face": "hf_" + "aBcD" * 9,
    "groq": "gsk_" + "aB12" * 13,
    "xai": "xai-" + "aB12" * 20,
    "stripe": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
}


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    for name in os.environ:
        if secrets._is_named(name):
            monkeypatch.delenv(name)
    with secrets_unknown():
        yield


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("the key ", " is wrong"), ("key=", "&x=1"), ('{"key": "', '"}'), ("(", ")."), ("'", "'"), ("\n", "\n"), ('"a\\n', '\\nb"'), ("x: ", ",")],
)  # fmt: skip
def test_a_key_is_masked_wherever_it_stands(key, before, after):
    assert mask(f"{before}{key}{after}") == f"{before}***{after}"


def test_a_bearer_token_is_masked_and_the_word_stays():
    assert mask("Authorization: Bearer abcdef0123456789abcd==, x") == "Authorization: Bearer ***, x"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n"])
def test_a_private_key_is_masked_whole_or_cut(newline):
    body = newline.join([BASE64] * 20)
    whole = PEM.replace("\n", newline).format(body)
    assert mask(f"a {whole} b") == "a -----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY----- b"
    assert mask(whole[: whole.rindex(newline)]) == "-----BEGIN RSA PRIVATE KEY-----***"
    assert BASE64 not in mask(PEM.format(f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,1F\n\n{body}"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The task-based risk-free desk-research method of scikit-learn-contrib-packages",
        "sk-learn-contrib-packages-of-old",
        "Use sk-... as the key, or AIza..., or ghp_xxx.",
        "the bearer of this letter is responsible",
        "bearer responsibilities",
        "-----BEGIN PRIVATE KEY----- and then come many lines - see below - which end",
        "-----BEGIN CERTIFICATE-----\n" + BASE64 + "\n-----END CERTIFICATE-----",
        "eyJ is how it begins. eyJhbGciOiJIUzI1NiJ9 alone is none",
        "x" * 30 + "AIza" + "b" * 40,
        "data:image/png;base64," + "iVBORw0KGgoAIzaSyAKIAIOSFODNN7EXAMPLEhf" * 3,
        "6bc1bee22e409f96e93d7e117393172a 550e8400-e29b-41d4-a716-446655440000",
        "call_abc123 toolu_01A09q90qw90lq917835lq9 resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
    ],
)
def test_what_is_not_a_secret_stays(text):
    assert mask(text) == text


@given(st.text())
def test_texts_without_keys_stay(text):
    assert mask(text) == text


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MY_TOKEN", "APP_SECRET", "DB_PASSWORD", "my_api_key", "TOKEN"])
def test_values_of_the_environment_are_masked_as_they_are_now(name, monkeypatch):
    assert mask("it is tr0ub4dor!") == "it is tr0ub4dor!"
    monkeypatch.setenv(name, "tr0ub4dor!")
    assert mask("it is tr0ub4dor!, xtr0ub4dor!x") == "it is ***, x***x"
    monkeypatch.setenv(name, "an0ther-one")
    assert mask("tr0ub4dor! an0ther-one") == "tr0ub4dor! ***"
    monkeypatch.delenv(name)
    assert mask("tr0ub4dor! an0ther-one") == "tr0ub4dor! an0ther-one"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH_TO_THINGS", "tr0ub4dor!"),
        ("KEYBOARD", "tr0ub4dor!"),
        ("MY_TOKENS_LEFT", "12345678"),
        ("MY_API_KEY", "short1"),
        ("MY_API_KEY", ""),
        ("DB_PASSWORD", "postgres"),
        ("USE_TOKEN", "disabled"),
        ("USE_TOKEN", "DISABLED"),
        ("SSH_KEY", __file__),
    ],
)
def test_what_only_looks_like_a_setting_is_not_masked(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert mask(f"a {value} b") == f"a {value} b"


@pytest.mark.parametrize("value", ["/abcDEF123+/", str(Path(__file__).with_name("missing.pem")), "test-key", "aB" * 8])
def test_what_may_be_a_key_is_masked(value, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", value)
    assert mask(f"a {value} b") == "a *** b"


def test_a_program_hides_what_it_likes():
    hide("hunter2", "abc", "")
    assert mask("hunter2 abc") == "*** abc"


def test_settings_are_hidden_by_their_names():
    hide_named(
        {
            "api_key": "k3y-number-one",
            "temperature": 0.5,
            "model": "not-a-secret-1",
            "aws_session_token": "t0ken-number",
            "extra_headers": {
                "X-Api-Key": "k3y-number-two",
                "Authorization": "Basic dXNlcjpwYXNz",
                "X-Id": "id-number-9",
            },
            "client_secret": None,
        }
    )
    assert mask("k3y-number-one t0ken-number k3y-number-two dXNlcjpwYXNz") == "*** *** *** ***"
    assert mask("not-a-secret-1 id-number-9") == "not-a-secret-1 id-number-9"


def test_settings_show_themselves_without_their_secrets():
    options = MaskedDict({"api_key": "k3y-number-one", "temperature": 0})
    assert repr(options) == "{'api_key': '***', 'temperature': 0}"
    assert {**options} == {"api_key": "k3y-number-one", "temperature": 0}


SECRET = 'päss "wörd"/\n+1'


@pytest.mark.parametrize(
    "written",
    [str, json.dumps, lambda text: json.dumps(text, ensure_ascii=False), quote, lambda text: quote(text, safe="")],
)
def test_a_secret_is_masked_however_it_is_written(written):
    hide(SECRET)
    assert mask(f"a {written(SECRET)} b").replace('"', "") == "a *** b"


def test_of_secrets_in_one_another_the_longer_one_is_masked():
    hide("abc1", "xxabc1xx")
    assert mask("xxabc1xx abc1") == "*** ***"


def test_data_is_masked_inside_and_stays_the_same_object_if_there_is_nothing():
    hide("hunter2")
    data = {"a": ["x", 1, None, {"b": "y"}], "c": 0.5, "d": ("t", True)}
    assert mask_data(data) is data
    safe = {"b": "y"}
    masked = mask_data({"hunter2": ["is hunter2", 1, safe, ("hunter2",)], "ok": safe})
    assert masked == {"***": ["is ***", 1, {"b": "y"}, ("***",)], "ok": {"b": "y"}}
    assert masked["ok"] is safe


class Request:
    url = "http://x.example/?key=hunter2"
    headers = {"authorization": "hunter2"}


class Response:
    def __init__(self, request=None, headers=None):
        self.request = request
        self.headers = headers or {}


class Odd(Exception):
    def __init__(self, *args, **attributes):
        super().__init__(*args)
        vars(self).update(attributes)


class Broken:
    def __repr__(self):
        raise RuntimeError


def failed() -> Exception:
    try:
        try:
            try:
                raise KeyError("first hunter2")
            except KeyError as first:
                first.add_note("note hunter2")
                raise OSError(2, "no hunter2", "/tmp/hunter2") from first
        except OSError:
            group = ExceptionGroup("many", [ValueError("in group hunter2")])
            odd = Odd(
                {"key": "hunter2"},
                ["x"],
                Request(),
                message="hunter2",
                body={"a": ["hunter2"]},
                code=5,
                response=Response(Request()),
                plain=Response(),
                inner=TypeError("inner hunter2"),
                odd=Broken(),
            )
            raise odd from group
    except Exception as error:
        return error


def test_an_exception_is_masked_with_all_that_led_to_it():
    hide("hunter2")
    error = failed()
    plain = error.plain
    mask_exception(error)
    links = list(iterate_causes(error))
    assert {type(link).__name__ for link in links} == {
        "Odd",
        "ExceptionGroup",
        "ValueError",
        "FileNotFoundError",
        "KeyError",
        "TypeError",
    }
    for link in links:
        shown = f"{link} {link!r} {vars(link)} {getattr(link, '__notes__', '')} {getattr(link, 'filename', '')}"
        assert "hunter2" not in shown
        assert "***" in shown or isinstance(link, ExceptionGroup)
    assert error.body == {"a": ["***"]}
    assert (error.code, error.response, error.plain, error.odd) == (5, None, plain, None)


def test_an_exception_that_was_handled_already_is_not_touched():
    hide("hunter2")
    outer = ValueError("hunter2")
    with pytest.raises(TypeError) as caught:  # noqa: PT012
        try:
            raise outer
        except ValueError:
            raise TypeError("hunter2")  # noqa: B904
    mask_exception(caught.value, outer=outer)
    assert (str(caught.value), str(outer)) == ("***", "hunter2")


def test_an_exception_without_secrets_keeps_what_it_has():
    marks = [object(), Response(Request())]
    error = Odd(*marks, response=marks[1])
    mask_exception(error)
    assert error.args == tuple(marks)
    assert error.response is marks[1]


BEGIN = "-----BEGIN PRIVATE KEY-----"
LONG = {
    "words": "the quick ask-me task has eyes, Bearing x https://x.example/?a=1 12345 " * 14_000,
    "sk-": "sk-" * 333_000,
    "jwt": "eyJ" * 333_000,
    "jwts": "-eyJaaaaaaaa" * 83_000,
    "jwt parts": "eyJaaaaaaaa." * 83_000,
    "begins": BEGIN * 37_000,
    "begin and base64": (BEGIN + "a" * 40) * 15_000,
    "begin and lines": (BEGIN + "\n" * 40) * 15_000,
    "begin and dashes": BEGIN + "a-" * 490_000,
    "bearers": "Bearer " * 140_000,
    "half a begin": "-----BEGIN " + "A" * 990_000,
    "escapes": "\\n" * 490_000,
    "backslashes": BEGIN + "\\" * 900_000,
    "schemes": "://" * 330_000,
    "users": "://a:" * 200_000,
    "hosts": "://a:" + "a@" * 450_000,
    "letters in JSON": "\\u0073" * 160_000,
    "slashes in JSON": "\\/" * 490_000,
    "backslashes and a slash": "\\" * 900_000 + "/",
    "user": "://" + "a" * 900_000,
    "percents": "%25" * 330_000,
    "letters of bytes": "\\x73" * 240_000,
    "base64": ("c2st" * 19 + "\n") * 13_000,
    "breaks": ("c2st" * 19 + "\n" * 77) * 6_500,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_megabyte_takes_no_time_whatever_is_in_it(text, monkeypatch):
    for number in range(10):
        monkeypatch.setenv(f"NUMBER{number}_API_KEY", f"sk-number-{number}-0123456789")
    with takes_at_most(300):  # 5 to 30 are usual; what is not linear takes minutes
        mask(text[:1_000_000])


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://ada:p4ss:w0rd@db.example/x", "postgres://ada:***@db.example/x"),
        ('{"url": "redis://:hunter2@cache:6379/0"}', '{"url": "redis://:***@cache:6379/0"}'),
        ("https://ada:hunter2@h.example, https://b:c@h", "https://ada:***@h.example, https://b:***@h"),
        ("https://h.example:8080/@ada", "https://h.example:8080/@ada"),
        ("ssh://git@h.example/x mail ada@h.example", "ssh://git@h.example/x mail ada@h.example"),
        ("http://h.example/?a=b:c@d", "http://h.example/?a=b:c@d"),
        ("postgres://ada:p@ss@w0rd@db.example/x", "postgres://ada:***@db.example/x"),
        ("https://ada:b@h.example?to=c@d", "https://ada:***@h.example?to=c@d"),
        (r'{"url": "https:\/\/ada:hunter2@h.example\/x"}', r'{"url": "https:\/\/ada:***@h.example\/x"}'),
    ],
)
def test_a_password_in_a_url_is_masked(text, masked):
    assert mask(text) == masked


PHRASE = "correct horse battery staple"


@pytest.mark.parametrize("written", [PHRASE, "correct%20horse%20battery%20staple", "correct+horse+battery+staple"])
@pytest.mark.parametrize("given", [PHRASE, f" {PHRASE}\n", "correct  horse battery\nstaple"])
def test_a_pass_phrase_with_blanks_is_masked_whole(given, written, monkeypatch):
    monkeypatch.setenv("APP_PASSWORD", given)
    assert mask(f"a {written} b") == "a *** b"


def test_a_pass_phrase_among_settings_is_hidden_whole():
    hide_named({"db_password": PHRASE, "pin_token": 4711_0815, "authorization": "token abcdef012345", "is_key": True})
    assert mask(f"{PHRASE}, 47110815, token abcdef012345") == "***, ***, token ***"


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_secret_inside_of_json_inside_of_json_is_masked(levels, is_ascii):
    hide(SECRET)
    text = SECRET
    for _ in range(levels):
        text = json.dumps({"a": text}, ensure_ascii=is_ascii)
    assert "***" in mask(text)
    assert "rd" not in mask(text)


def test_keys_and_numbers_of_data_are_masked(monkeypatch):
    hide("hunter2", "hunter3")
    monkeypatch.setenv("ACCOUNT_TOKEN", "1234567890")
    data = {"hunter2": 1234567890, "hunter3": [1234567890.0, 123456789, True], "url": {"hunter2": 1}}
    masked = mask_data(data)
    assert masked == {"***": "***", "*** (2)": [1234567890.0, 123456789, True], "url": {"***": 1}}


@given(
    st.lists(st.text(max_size=5), max_size=5), st.lists(st.integers(1, 6), min_size=1), st.lists(st.text(max_size=5))
)
def test_a_secret_in_pieces_is_masked(before, sizes, after):
    key = KEYS["anthropic"]
    cuts = [sum(sizes[:place]) for place in range(len(sizes) + 1)]
    pieces = [
        *before,
        " ",
        *(key[start:end] for start, end in pairwise(cuts)),
        key[cuts[-1] :],
        " ",
        *after,
    ]
    masked = mask_pieces(pieces)
    assert len(masked) == len(pieces)
    assert "".join(masked) == mask("".join(pieces))
    assert mask_pieces(["a", "", "b"]) == ["a", "", "b"]
    assert mask_pieces([]) == []


def _escape(found):
    return f"\\u{ord(found[0]):04x}"


PHRASES = ["k3y/number+0ne?", "correct horse & battery 'staple'", "pässwörd <tag>"]
ENCODINGS = {
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: b64encode(text.encode()).decode().rstrip("="),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "HEXADECIMAL": lambda text: text.encode().hex().upper(),
    "HTML": html.escape,
    "HTML without quotes": lambda text: html.escape(text, quote=False),
    "numbers in HTML": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "hexadecimal numbers in HTML": lambda text: "".join(f"&#x{ord(letter):04X};" for letter in text),
    "JSON of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON of Go": lambda text: re.sub("[<>&]", _escape, json.dumps(text, ensure_ascii=False)[1:-1]),
    "JSON of .NET": lambda text: re.sub(
        r"""[^ -~]|[<>&+'"]""", lambda found: _escape(found).replace("u00e", "u00E"), text
    ),
    "each letter in JSON": lambda text: re.sub(".", _escape, text),
    "URL": quote,
    "URL of a form": quote_plus,
    "each letter in a URL": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "URL in a URL": lambda text: quote(quote(text)),
    "form in a form in a URL": lambda text: quote(quote_plus(quote_plus(text))),
    "letters of Python and JavaScript": lambda text: re.sub(r"[^\w ]", lambda found: f"\\x{ord(found[0]):02X}", text),
    "letters of bytes in Python": lambda text: repr(text.encode())[2:-1],
    "some letters in a URL": lambda text: quote(text[:3], safe=text[:3]) + quote(text[3:], safe="?<&'"),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("phrase", PHRASES)
def test_a_secret_is_masked_in_each_encoding(phrase, encode):
    hide(phrase)
    assert mask(f"a {encode(phrase)} b") == "a *** b"
    assert mask_data([encode(phrase)]) == ["***"]


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "a user: "])
@pytest.mark.parametrize("after", ["", "\n", " and more"])
@pytest.mark.parametrize("phrase", PHRASES)
def test_a_secret_inside_of_data_in_base64_is_masked(before, after, phrase):
    hide(phrase)
    written = b64encode(f"{before}{phrase}{after}".encode()).decode()
    core = "".join(part for part in mask(written).split("***"))
    assert "***" in mask(written)
    assert len(core) <= len(b64encode(f"{before}{after}".encode())) + 4  # of the secret, parts of two letters at most


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\n    "])
@pytest.mark.parametrize("before", range(50, 60))
@pytest.mark.parametrize("phrase", PHRASES)
def test_a_secret_is_masked_in_base64_of_several_lines(phrase, before, newline):
    hide(phrase)
    written = encodebytes(f"{before * 'x'}{phrase} and more".encode()).decode()
    assert written.count("\n") > 1
    masked = mask(written.replace("\n", newline))
    shown = b64decode("".join(masked.split("***")[0].replace("\\n", "").split())[: before // 3 * 4])
    assert shown.decode() == before // 3 * 3 * "x"
    assert "***" in masked
    assert len(masked.replace(newline, "")) <= len(b64encode(f"{before * 'x'} and more".encode())) + 8


def test_the_secret_around_a_place_is_found():
    hide(PHRASES[0])
    text = f"ab {PHRASES[0]} {quote(quote(PHRASES[0]))} sk-{20 * 'a1'} cd"
    for place in range(len(text) + 1):
        begin, end = find_secret(text, place)
        assert begin <= place <= end
        masked = f"{mask(text[:begin])}{mask(text[begin:end])}{mask(text[end:])}"
        assert masked.replace("******", "***") == "ab *** *** *** cd"


def test_a_short_secret_is_not_searched_in_base64_and_hexadecimal_digits():
    hide("4711")
    assert mask("34373131 NDcxMQ 4711") == "34373131 NDcxMQ ***"


@pytest.mark.parametrize("phrase", [*PHRASES, "a b c d e f g h", "two  blanks"])
@given(sizes=st.lists(st.integers(1, 9), min_size=1), before=st.sampled_from(["", "it is ", "correct ", "k3y"]))
@example(sizes=[100], before="")
@example(sizes=[1], before="")
def test_no_part_of_a_secret_is_shown_before_the_rest_arrives(phrase, sizes, before):
    secrets.HIDDEN_VALUES.clear()
    hide(phrase)
    text = f"{before}{phrase}, then {phrase} and on"
    cuts = [*range(0, len(text), sizes[0])] if len(sizes) == 1 else [sum(sizes[:place]) for place in range(len(sizes))]
    pieces = [text[start:end] for start, end in pairwise([*cuts, max(len(text), cuts[-1])])]
    stream = MaskedStream()
    shown = [stream.feed(piece) for piece in pieces]
    assert "".join([*shown, stream.flush()]) == mask(text)


@given(st.lists(st.text(max_size=9)))
def test_a_stream_without_secrets_arrives_whole(pieces):
    secrets.HIDDEN_VALUES.clear()
    hide(*PHRASES)
    stream = MaskedStream()
    assert "".join([*map(stream.feed, pieces), stream.flush()]) == mask("".join(pieces))


@pytest.mark.parametrize(
    "settings",
    [
        {"api_base": "https://models.example/v1?key=k3y-number-one"},
        {"api_base": "https://models.example/v1?x=1&api_key=k3y-number-one#end"},
        {"extra_headers": {"Cookie": "theme=dark; session=k3y-number-one"}},
        {"cookies": {"session": "k3y-number-one"}},
        {"cookies": [("session", "k3y-number-one")]},
        {"headers": [("Authorization", "Bearer k3y-number-one")]},
        {"headers": [[b"x-api-key", "k3y-number-one"], ["X-Api-Key", b"k3y-number-one"]]},
        {"metadata": [{"api_key": "k3y-number-one"}]},
        {"metadata": {"keys": [{"inner": ({"token": "k3y-number-one"},)}]}},
        {"tokens": ["k3y-number-one"], "token": ["k3y-number-one"]},
    ],
)
def test_a_secret_deep_in_settings_is_masked(settings):
    assert "k3y-number-one" not in repr(MaskedDict(settings))
    assert mask("k3y-number-one") == "***"


def test_a_secret_of_settings_is_known_as_long_as_a_copy_of_them_is_there():
    settings = MaskedDict({"api_key": "k3y-number-one"})
    copies = [copy.copy(settings), copy.deepcopy(settings), pickle.loads(pickle.dumps(settings))]
    for held in (settings, *copies):
        assert held["api_key"] == "k3y-number-one"
    while copies:
        settings = copies.pop()
        others = [MaskedDict({"api_key": f"k3y-of-other-{number}"}) for number in range(200)]
        assert mask("k3y-number-one, k3y-of-other-0") == "***, ***"
        del others
        gc.collect()
    assert mask("k3y-number-one") == "***"


def test_the_secrets_of_settings_that_are_gone_are_no_longer_looked_for():
    hide("hunter2-always")
    for number in range(2_000):
        MaskedDict({"api_key": f"k3y-of-user-{number:04}"})
    gc.collect()
    assert len(secrets._HELD) == secrets.MAX_RELEASED_SECRETS
    assert mask("k3y-of-user-0000 k3y-of-user-1999 hunter2-always") == "k3y-of-user-0000 *** ***"


def test_a_secret_is_found_beside_thousands_of_others():
    kept = [MaskedDict({"api_key": f"k3y-{number:04}-of-a-user"}) for number in range(1_000)]
    hide("\U0001f511 \xe9t\xe9", "  ab ")
    known = secrets._known_secrets()
    assert len(known.texts) > 5_000
    text = f"{'x' * 49_995}k3y-0500-of-a-user, ab, k3y%2D0007-of-a-user " + "y" * 100_000
    assert [*secrets._list_texts("word " * 1_000, known)] == ["ab"]  # those that are too short to have a head
    for spelling in secrets._list_spellings("k3y-0999-of-a-user") + secrets._list_spellings("\U0001f511 \xe9t\xe9"):
        assert mask(f"it is {spelling}.") == "it is ***."
    assert mask(text) == f"{'x' * 49_995}***, ***, *** " + "y" * 100_000
    assert find_secret("x k3y-0500-of-a-user", 10) == (2, 20)
    assert len(kept) == 1_000


def test_what_is_not_a_secret_in_settings_is_shown():
    settings = {"api_base": "https://models.example/v1?x=k3y-number-one", "stop": ["k3y-number-one"], "timeout": 5}
    assert "k3y-number-one" in repr(MaskedDict(settings))


def test_several_values_are_masked_with_one_look_at_the_environment(monkeypatch):
    class Counted(dict):
        reads = 0

        def __iter__(self):
            Counted.reads += 1
            return super().__iter__()

    monkeypatch.setattr(os, "environ", Counted(os.environ, MY_API_KEY="the-secret-of-4711"))
    lines = [{"text": f"{number}: the-secret-of-4711"} for number in range(100)]
    masked = [json.loads(text) for text in mask_json(map(json.dumps, lines))]
    assert masked == [{"text": f"{number}: ***"} for number in range(100)] == [*map(mask_data, lines)]
    assert Counted.reads == 1 + len(lines)


@pytest.mark.parametrize("key", [*KEYS.values(), *(f"g{kind}_{'a1B2' * 9}" for kind in ("ho", "hu", "hs", "hr", "hp"))])
def test_the_form_of_a_key_is_masked_in_json_text(key):
    assert [*mask_json([json.dumps({"text": f"a {key}"}), "[1]"])] == ['{"text": "a ***"}', "[1]"]


SECRETS_WITH_LETTERS = [
    "tr0ub4\x85dor \u20ac",
    'a"b\\c\nd\te',
    "p%ss w&rd <1>",
    "41147114",
    "\ud800 and more",
    "é" * 9,
    "-4.71125",
]


@given(st.lists(st.sampled_from(SECRETS_WITH_LETTERS), max_size=3), st.data())
@example(SECRETS_WITH_LETTERS, None)
def test_json_text_is_masked_as_its_data(values, data):
    hide(*values)
    forms = [form for value in values for form in secrets._iterate_spellings(value)]
    texts = st.one_of(
        st.text(), st.sampled_from([*KEYS.values(), *forms, "http://u:pass@h", 41147114, -4.71125, 1e300])
    )
    values = st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
    items = [{"a": form, form: [form, f"x{form}y"]} for form in forms]
    if data:
        items = data.draw(st.lists(values, min_size=1))
    for is_ascii in (True, False):
        written = [json.dumps(item, ensure_ascii=is_ascii) for item in items]
        assert [*map(json.loads, mask_json(written))] == [*map(mask_data, map(json.loads, written))]


@pytest.mark.parametrize("text", ["://:x@", "http://u:x@h"])
def test_the_shortest_password_in_an_address_is_masked(text):
    assert mask(text) == text.replace(":x@", ":***@")
