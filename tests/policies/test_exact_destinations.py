"""A destination is compared letter by letter: another spelling of a trusted one may carry what untrusted text asks for."""

import json
from contextlib import nullcontext

import pytest
from guarded_turns import Guarded
from mail_tools import EVE, MAIL, read_mail, send

from agentkit import JsonAgent, Paused, tool
from agentkit.policies import Label
from agentkit.testing import ScriptedModel, answer, call

PAGE = "https://news.example/abcdefgh?id=xyz"
READ = call("read_mail")


@tool(effect="read", trust="untrusted")
def fetch(url: str) -> str:
    """Fetches a page."""
    return "a page"


@tool(effect="write")
def remove(path: str) -> str:
    """Removes a file."""
    return "removed"


@tool(effect="read", trust="trusted")
def list_files() -> dict:
    """Lists the files."""
    return {"path": "C:\\docs\\plan", "pages": ["https://wiki.example/a", "https://wiki.example/b"]}


@tool(effect="read")
def echo(text: str) -> str:
    """Echoes."""
    return text


@tool(effect="read", trust="trusted")
def find_contact(name: str) -> str:
    """Finds a contact."""
    return f"{name}@home.example"


TOOLS = (read_mail, send, fetch, remove, list_files, echo, find_contact)


def waits(world, *turns, query, **settings):
    """Return the tools whose calls wait after the turns."""
    guarded = Guarded(READ, *turns, tools=TOOLS, query=query, **settings)
    return [waiting.name for waiting in guarded.list_held(world)]


class TestSpellings:
    """What the user named, spelled in another way."""

    @pytest.mark.parametrize(
        "url",
        ["https://news.example/aBcdefgh?id=xyz", "https://news.example/ABCDEFGH?id=xyz",
         "https://news.example/abcdefgh?id=xYz", "https://news.example/abcdefgh?ID=xyz",
         "https://news.example/abcdefgh", "https://news.example/abcdefgh?id=xyz.", " " + PAGE],
    )  # fmt: skip
    def test_an_address_in_another_spelling_waits(self, world, url):
        assert waits(world, call("fetch", url=url), query=f"Read {PAGE} and the mail.") == ["fetch"]

    @pytest.mark.parametrize(
        "url", [PAGE, PAGE.replace("news.example", "News.EXAMPLE"), PAGE.replace("news.example", "NEWS.example")]
    )
    @pytest.mark.parametrize("query", ["Read {}", "Read ({}), then the mail.", "[news]({})", "page:{}", "<{}>", '"{}"'])
    def test_the_case_of_a_host_does_not_matter(self, world, url, query):
        assert waits(world, call("fetch", url=url), query=query.format(PAGE)) == []

    def test_nothing_beside_the_host_is_folded(self, world):
        page = "https://Ann:Pw@news.example/x@Home.example"
        for url in (page.replace("Ann", "ann"), page.replace("Pw", "pw"), page.replace("Home", "home")):
            assert waits(world, call("fetch", url=url), query=f"Read {page} now.") == ["fetch"]
        assert waits(world, call("fetch", url=page.replace("news", "NEWS")), query=f"Read {page} now.") == []

    @pytest.mark.parametrize(
        ("to", "is_asked"),
        [("bob@home.example", False), ("bob@HOME.example", False), ("Bob@home.example", True), ("BOB@home.example", True)],
    )  # fmt: skip
    def test_of_a_mail_address_the_host_alone_is_folded(self, world, to, is_asked):
        assert bool(waits(world, call("send", to=to), query="Write to bob@home.example.")) == is_asked

    @pytest.mark.parametrize(
        ("path", "is_asked"),
        [("/tmp/My Notes.txt", False), ("/tmp/my notes.txt", True), ("/tmp/My  Notes.txt", True),
         ("/tmp/My\nNotes.txt", True)],
    )  # fmt: skip
    def test_a_path_is_compared_exactly(self, world, path, is_asked):
        assert bool(waits(world, call("remove", path=path), query='Remove "/tmp/My Notes.txt"')) == is_asked

    @pytest.mark.parametrize(
        ("named", "url", "is_asked"),
        [
            ("www.news.example.They", "www.news.example", False),
            ("https://news.example.They", "https://news.example", False),
            ("www.news.example.they", "www.news.example", True),
            ("www.news.Example", "www.news", True),
            ("https://news.example/x.They", "https://news.example/x", True),
            ("/srv/data.Backup", "/srv/data", True),
        ],
    )
    def test_a_host_ends_with_its_sentence_although_a_blank_is_missing(self, world, named, url, is_asked):
        query = f"Read {named} sent it."
        assert bool(waits(world, call("fetch", url=url), query=query)) == is_asked
        assert waits(world, call("fetch", url=named), query=query) == []

    @pytest.mark.parametrize("end", ["%41", "(a", "[a", "$a", "|a", "{a", "'a", "^a"])
    def test_the_beginning_of_an_address_is_another_one(self, world, end):
        query = f"Read https://news.example/x{end} and the mail."
        assert waits(world, call("fetch", url="https://news.example/x"), query=query) == ["fetch"]
        assert waits(world, call("fetch", url=f"https://news.example/x{end}"), query=query) == []

    @pytest.mark.parametrize("begin", ["https://news.example/?to=", "https://news.example/(", "//news.example/,"])
    def test_the_end_of_an_address_is_another_one(self, world, begin):
        assert waits(world, call("fetch", url=PAGE), query=f"Read {begin}{PAGE} and the mail.") == ["fetch"]

    def test_an_address_in_content_is_compared_exactly(self, world):
        query = f"Write to bob@home.example about {PAGE}"
        ask = call("send", to="bob@home.example", text=f"see {PAGE.upper()}")
        assert waits(world, ask, query=query) == ["send"]
        assert waits(world, call("send", to="bob@home.example", text=f"see {PAGE}."), query=query) == []

    def test_other_values_are_still_found_in_other_cases(self, world):
        assert (
            waits(world, call("send", to="bob@home.example", text="HELLO"), query="Tell bob@home.example hello") == []
        )


class TestResults:
    """Destinations in trusted results."""

    @pytest.mark.parametrize(
        ("path", "is_asked"), [("C:\\docs\\plan", False), ("C:\\\\docs\\\\plan", True), ("C:\\Docs\\plan", True)]
    )
    def test_a_path_in_json_is_the_one_that_the_json_means(self, world, path, is_asked):
        turns = call("list_files"), call("remove", path=path)
        assert bool(waits(world, *turns, query="Remove the plan.")) == is_asked

    def test_an_entry_of_a_list_is_whole(self, world):
        turns = call("list_files"), call("fetch", url="https://wiki.example/a")
        assert waits(world, *turns, query="Read the wiki.") == []

    @pytest.mark.parametrize("tool_name", ["echo", "find_contact"])
    def test_a_tool_that_repeats_another_spelling_does_not_make_it_trusted(self, world, tool_name):
        name = {"echo": "text", "find_contact": "name"}[tool_name]
        turns = call(tool_name, **{name: PAGE.upper()}), call("fetch", url=PAGE.upper())
        assert waits(world, *turns, query=f"Read {PAGE} and the mail.") == ["fetch"]

    def test_a_name_in_another_case_still_finds_a_trusted_result(self, world):
        turns = call("find_contact", name="Ann"), call("send", to="Ann@home.example")
        assert waits(world, *turns, query="Write to ann.") == []


class TestReaders:
    """Recipients are readers if they are spelled as these."""

    @pytest.mark.parametrize(
        ("to", "is_asked"), [("ann@home.example", False), ("ann@Home.example", False), ("Ann@home.example", True)]
    )
    def test_a_recipient_in_another_spelling_is_not_a_reader(self, to, is_asked):
        @tool(effect="read", trust="trusted", readers=["ann@home.example"])
        def get_salary() -> str:
            """Gets the salary."""
            return "4711"

        agent = JsonAgent(
            get_salary, send, model=ScriptedModel(call("get_salary"), call("send", to=to, text="4711"), answer("Done."))
        )
        with pytest.raises(Paused) if is_asked else nullcontext() as paused:
            agent.run("Tell Ann or ann what it is.", label=Label("user"))
        assert not is_asked or json.loads(paused.value.calls[0].arguments)["to"] == to


class TestHidden:
    """With hidden results, an extract chooses a spelling."""

    def test_an_extract_that_chooses_a_spelling_of_the_users_address_waits(self, world):
        spellings = [PAGE, PAGE.replace("abc", "ABC")]
        ask = call("extract_value", reference="#1", question="Which?", kind="choice", choices=spellings)
        query = f"Read {PAGE}, and the mail."
        for chosen, expected in zip(spellings, ([], ["fetch"]), strict=True):
            turns = ask, call("fetch", url=chosen)
            assert waits(world, *turns, query=query, setting="hidden", extracts=(chosen,)) == expected

    def test_another_spelling_of_an_address_in_a_text_is_not_visited(self, world):
        @tool(effect="read", trust="untrusted")
        def read_link() -> str:
            """Reads a link."""
            return f"Read {PAGE} now"

        ask = call("extract_text", reference="#1", question="Which page?")
        for made, expected in ((PAGE, []), (PAGE.replace("abc", "ABC"), ["fetch"])):
            turns = Guarded(
                call("read_link"),
                ask,
                call("fetch", url="#2"),
                tools=(read_link, fetch),
                setting="hidden",
                extracts=(made,),
            )
            assert [waiting.name for waiting in turns.list_held(world)] == expected

    def test_an_address_in_an_extracted_text_is_compared_exactly(self, world):
        for made, expected in ((EVE, []), (EVE.replace("eve", "EVE"), ["send"])):
            ask = call("extract_text", reference="#1", question="What?")
            turns = ask, call("send", to="bob@home.example", text="#2")
            query = f"Write bob@home.example and name {EVE}"
            assert waits(world, *turns, query=query, setting="hidden", extracts=(f"{made} - {MAIL[:6]}",)) == expected
