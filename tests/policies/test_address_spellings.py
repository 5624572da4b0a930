"""Addresses in content wait in each spelling in which a client or a reader follows them."""

import pytest
from guarded_turns import Guarded
from mail_tools import read_mail, send

from agentkit.policies.taint.origins import find_addresses
from agentkit.testing import call

BOB = "bob@home.example"
SPELLINGS = {
    "an IPv4 address": [
        "192.0.2.7/collect?c=4711", "192.0.2.7:8080", "192.0.2.7#4711", "192.0.2.7?c=4711", "0xC0.0.2.7/x", "eve@[192.0.2.7]",
    ],
    "an IPv6 address in brackets": [
        "[2001:db8::1]/x", "[2001:db8::1]:8080", "[::ffff:192.0.2.7]/x", "//[2001:db8::1]/x", "https://[2001:db8::1]/x",
        "eve@[IPv6:2001:db8::1]",
    ],
    "a name in punycode or in other letters": [
        "xn--bcher-kva.example/x", "evil.xn--p1ai/x", "bücher.example/x", "пример.рф/x", "例え。テスト/x", "eve@пример.рф",
    ],
    "quotes": [
        '"evil.example/x"', "“evil.example/x”", 'https://"evil.example"/x', '"evil.example"/x', 'www."evil.example"',
        'eve@"evil.example"',
    ],
    "a dot or an at sign before": [
        ".evil.example/x", "..evil.example/x", "@evil.example/x", "@evil.example:8080", ".eve@evil.example", "@eve@evil.example",
    ],
    "a quoted local part": [
        '"eve mallory"@evil.example', '"eve@home"@evil.example', '"eve"@evil.example', "'eve'@evil.example",
        '"eve\\"x"@evil.example', "eve!@evil.example",
    ],
}  # fmt: skip
MORE = [
    "https:\\\\evil.example\\x",
    "https:/evil.example/x",
    "e\u200bvil.example/x",
    "evil\u200b.example/x",
    "evil.example\\x",
]


def waits(world, text, query=f"Tell {BOB} hello."):
    turns = Guarded(call("read_mail"), call("send", to=BOB, text=text), tools=(read_mail, send), query=query)
    return [waiting.name for waiting in turns.list_held(world)] == ["send"]


def test_the_table_has_36_spellings():
    assert len({spelling for spellings in SPELLINGS.values() for spelling in spellings}) == 36


@pytest.mark.parametrize("address", [*(one for many in SPELLINGS.values() for one in many), *MORE])
def test_an_address_waits_in_each_spelling(world, address):
    assert waits(world, f"see {address} now")
    assert waits(world, address)


@pytest.mark.parametrize(
    "text",
    ["and/or", "1.2.3.4", "10.11.2026/27", "v1.2.3/4", "x[1:2]/3", "[a:b]", "[12:30]", "../docs/readme.md/x", "@ann",
     "@app.route", "@pytest.mark.slow", "3.5/4", "see [1]/[2]", 'a "b"/"c"', "src/a.b.c/d", "at 10:30", "ratio 1:2/3",
     "C:\\my.docs\\file", "node_modules/@types.x/y", "http: no", "https:"],
)  # fmt: skip
def test_a_value_that_is_not_an_address_does_not_wait(world, text):
    assert find_addresses(text) == []
    assert not waits(world, text)


@pytest.mark.parametrize("sign", ["", ".", ",", "!", "?", ";", ":", "...", ")", ").", '"', "'", "”", ">"])
@pytest.mark.parametrize(
    "address", ["https://wiki.example/a?b=c", "ann@home.example", "www.wiki.example", "192.0.2.7/x"]
)
def test_an_address_of_the_user_does_not_wait_at_the_end_of_a_sentence(world, address, sign):
    assert not waits(world, f"see {address}{sign}", query=f"Tell {BOB} of {address} soon.")
