import socket
import threading

import pytest
from waiting import HANGS

from agentkit import ToolError
from agentkit.http import settings
from agentkit.tools.http.addresses import is_public, parse_url, resolve_target

PRIVATE = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.31.255.255",
    "192.0.0.192",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.251",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001:0:53aa:64c:0:fffd:80ff:fffe",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "64:ff9b::8.8.8.8",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_that_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "normalized"),
    [
        ("http://example.com", "http://example.com/"),
        ("  HTTPS://Example.COM:443/a?b=c#d ", "https://example.com/a?b=c"),
        ("http://example.com:8080/", "http://example.com:8080/"),
        ("http://example.com/a b/ü?q=ö c%20d", "http://example.com/a%20b/%C3%BC?q=%C3%B6%20c%20d"),
        ("http://exämple.de/", "http://xn--exmple-cua.de/"),
        ("http://[2606:4700::1111]:81/", "http://[2606:4700::1111]:81/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
    ],
)
def test_a_url_is_normalized(url, normalized):
    assert parse_url(url).url == normalized


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "Only http"),
        ("example.com", "Only http"),
        ("ftp://example.com/", "Only http"),
        ("file:///etc/passwd", "Only http"),
        ("javascript:alert(1)", "Only http"),
        ("http://", "no valid host"),
        ("http:///path", "no valid host"),
        ("http://a_b c/", "no valid host"),
        ("http://a%2eb/", "no valid host"),
        ("http://a\\b/", "no valid host"),
        ("http://[fe80::1%25eth0]/", "no valid host"),
        ("http://example.com:0/", "no valid host"),
        ("http://example.com:99999/", "not a valid URL"),
        ("http://[::1", "not a valid URL"),
        ("http://a..b/", "not a valid URL"),
        (f"http://{'a' * 70}.com/", "not a valid URL"),
        ("http://example.com/\r\nHost: evil", "control character"),
        ("http://exa\tmple.com/", "control character"),
        ("http://user:secret@example.com/", "user name or password"),
        ("http://example.com\\@127.0.0.1/", "user name or password"),
        ("http://example.com/\ud800", "not a valid URL"),
        ("http://\ud800.com/", "not a valid URL"),
        ("http://example.com/\x7f", "control character"),
        ("gopher://127.0.0.1:25/", "Only http"),
        ("data:text/html,x", "Only http"),
        ("http://example.com/" + "a" * 8_000, "too long: 8,019 characters, at most 8,000"),
    ],
)
def test_a_url_that_is_not_one_is_refused(url, message, internet):
    with pytest.raises(ToolError, match=message) as error:
        parse_url(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "0x7f.1",
            "0x7f000001",
            "0X7F.0.0.1",
            "2130706433",
            "017700000001",
            "0177.0.0.01",
        ),
        *("１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "0", "0.0.0.0", "0x0"),
        *("[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:7f00:1]", "[::127.0.0.1]"),
        *("[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:1:2:3:4:80ff:fffe]", "[::]"),
    ],
)
def test_every_spelling_of_loopback_is_refused(host, internet):
    with pytest.raises(ToolError, match="is not on the public internet"):
        resolve_target(parse_url(f"http://{host}/"), timeout=60)


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST.", "127.0.0.1.", "metadata.google.internal", "1.0.0.127.nip.example"]
)
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "fe80::1", "224.0.0.1", "fd00::1"]
)
def test_a_name_is_checked_by_its_addresses(name, address, internet):
    internet.names[name.lower()] = [[address]]
    with pytest.raises(ToolError, match="is not on the public internet"):
        resolve_target(parse_url(f"http://{name}/"), timeout=60)


def test_a_name_with_one_private_address_among_public_ones_is_refused(internet):
    internet.names["mixed.example"] = [["93.184.216.34", "2606:4700::1111", "10.0.0.1"]]
    with pytest.raises(ToolError, match=r"^mixed\.example is not on the public internet"):
        resolve_target(parse_url("http://mixed.example/"), timeout=60)


def test_a_public_name_gives_all_its_addresses(internet):
    internet.names["public.example"] = [["93.184.216.34", "2606:4700::1111"]]
    found = resolve_target(parse_url("https://public.example/"), timeout=60)
    assert [(endpoint.family, endpoint.address[:2]) for endpoint in found] == [
        (socket.AF_INET, ("93.184.216.34", 443)),
        (socket.AF_INET6, ("2606:4700::1111", 443)),
    ]


@pytest.mark.parametrize(
    ("allowance", "url", "is_allowed"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/", True),
        ("127.0.0.1:8000", "http://127.0.0.1:8001/", False),
        ("Intranet:443 , 127.0.0.1:80", "http://127.0.0.1/", True),
        ("[::1]:8000", "http://[::1]:8000/", True),
        ("127.0.0.1:8000", "http://127.1:8000/", False),
        ("", "http://127.0.0.1/", False),
    ],
)
def test_the_operator_lets_a_host_and_port_through(allowance, url, is_allowed, monkeypatch):
    monkeypatch.setenv("AGENTKIT_FETCH_ALLOW", allowance)
    hosts = settings().hosts
    if is_allowed:
        assert resolve_target(parse_url(url), timeout=5, hosts=hosts)
    else:
        with pytest.raises(ToolError, match="not allowed in AGENTKIT_FETCH_ALLOW"):
            resolve_target(parse_url(url), timeout=5, hosts=hosts)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.7.7.7", "fd00::7"])
def test_a_refusal_does_not_reveal_the_address_of_an_internal_name(address, internet):
    internet.names["wiki.corp.example"] = [[address]]
    with pytest.raises(ToolError) as error:
        resolve_target(parse_url("http://wiki.corp.example/"), timeout=60)
    assert "wiki.corp.example is not on the public internet" in str(error.value)
    assert address not in repr(error.value) + repr(error.value.__cause__) + repr(error.value.__context__)


def test_an_unknown_name_is_reported(internet):
    internet.names["nowhere.example"] = [[]]
    with pytest.raises(ToolError, match=r"The host nowhere\.example could not be found\."):
        resolve_target(parse_url("http://nowhere.example/"), timeout=60)


def test_a_lookup_that_hangs_is_abandoned(monkeypatch):
    release = threading.Event()

    def look_up(*args, **kwargs):
        release.wait(HANGS)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(TimeoutError):
        resolve_target(parse_url("http://slow.example/"), timeout=0.1)
    release.set()
