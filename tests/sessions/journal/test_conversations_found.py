"""Conversations are found by the words of their messages, by their titles and by their tags."""

import multiprocessing
import sqlite3

import pytest
from journaled_runs import add, agent_of
from stores import in_databases

from agentkit import DefinitionError, JsonAgent, Session
from agentkit.extend import list_conversations, rename_conversation, tag_conversation
from agentkit.journal import JournalError, delete, find, runs
from agentkit.sessions.journal.connections import opened_store
from agentkit.sessions.journal.search import MAX_INDEXED_CHARS
from agentkit.testing import ScriptedModel, answer, call


def talk(path, name, query, *replies):
    agent = JsonAgent(add, model=ScriptedModel(*replies))
    return agent.run(query, session=Session.open(name, path))


@pytest.fixture
def talks(path):
    talk(path, "ann", "What does the Café serve?", call("add", a=40, b=2), answer("Green tea, for 42 rupees."))
    talk(path, "bob", "Where is the zoo?", answer("In Alipore, near the race course."))
    talk(path, "eve", "Say hello.", answer("Hello! Do you like tea?"))
    return path


def names(found):
    return [one.name for one in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("alipore", ["bob"]),
        ("ALIP", ["bob"]),
        ("cafe", ["ann"]),
        ("CAFÉ serves", []),
        ("café serve", ["ann"]),
        ("race near", ["bob"]),
        ("zoo race", []),  # in two messages
        ("'; drop table search --", []),
        ('"tea" OR zoo', []),
        ("rockets", []),
    ],
)
def test_words_and_their_beginnings_are_found(talks, words, expected):
    assert names(find(words, store=talks)) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("牛奶", ["zh"]),
        ("价格 牛奶", ["zh"]),
        ("値段", ["ja"]),
        ("ミルク", ["ja"]),
        ("กาแฟ", ["th"]),
        ("milk 牛奶", ["zh"]),
        ("ilk 牛奶", []),
        ("牛肉", []),
    ],
)
def test_words_of_scripts_without_spaces_are_found_anywhere(path, words, expected):
    talk(path, "zh", "请告诉我牛奶的价格 (milk)", answer("三元。"))
    talk(path, "ja", "今日のミルクの値段は?", answer("三百円です。"))
    talk(path, "th", "ฉันชอบกาแฟ", answer("ok"))
    found = find(words, store=path)
    assert names(found) == expected
    if expected == ["zh"]:
        assert "牛奶" in found[0].excerpt
    talk(path, "new", "我也要牛奶价格 milk", answer("好"))
    assert names(find(words, store=path)) == (["new", *expected] if expected == ["zh"] else expected)


def test_what_was_found_is_shown_with_its_place(talks):
    assert sorted(names(find("tea", store=talks))) == ["ann", "eve"]
    assert len(find("tea", store=talks, limit=1)) == 1
    (found,) = find("rupees", store=talks)
    assert (found.name, found.title, found.role) == ("ann", "What does the Café serve?", "assistant")
    assert found.excerpt == "Green tea, for 42 rupees."
    assert found.run == next(run.id for run in runs(talks) if run.conversation == found.key)
    (result,) = find("42", store=talks, limit=1)
    assert result.role in ("tool", "assistant")


def test_the_instruction_and_runs_inside_calls_are_not_found(path):
    inner = JsonAgent(add, model=ScriptedModel(answer("Pelicans.")), description="Knows birds.")
    outer = JsonAgent(inner.as_tool("birds"), model=ScriptedModel(call("birds", query="Which?"), answer("Done.")))
    outer.run("Ask.", session=Session.open("outer", path))
    assert names(find("pelicans", store=path)) == ["outer"]  # the result of the call
    assert find("step by step", store=path) == []


@in_databases
def test_later_messages_are_found_and_removed_ones_are_not(talks):
    assert find("giraffe", store=talks) == []
    talk(talks, "bob", "And who lives there?", answer("A giraffe."))
    (found,) = find("giraffe", store=talks)
    for run in [run for run in runs(talks) if run.conversation == found.key]:
        delete(run.id, store=talks)
    assert find("giraffe", store=talks) == []
    assert find("alipore", store=talks) == []
    with opened_store(talks) as store:
        assert store.search(["giraffe"], 10) == []
        assert not [row for row in store.read("SELECT mark, conversation FROM searched") if row[1] == found.key]


def test_titles_and_tags_are_found_and_listed(talks):
    keys = {info.name: info.key for info in list_conversations(talks)}
    rename_conversation(keys["bob"], "A trip with Zoë", store=talks)
    tag_conversation(keys["bob"], "travel", "india", store=talks)
    tag_conversation(keys["eve"], "travel", store=talks)
    assert names(find("zoe", store=talks)) == ["bob"]
    assert names(find("", tag="travel", store=talks)) == ["eve", "bob"]
    assert names(find("tea", tag="travel", store=talks)) == ["eve"]
    assert names(find("india", store=talks)) == ["bob"]
    (found,) = find("alipore", store=talks)
    assert (found.title, found.tags) == ("A trip with Zoë", ("travel", "india"))
    assert {info.name: info.tags for info in list_conversations(talks)}["bob"] == ("travel", "india")
    tag_conversation(keys["bob"], store=talks)
    assert names(find("", tag="travel", store=talks)) == ["eve"]


def test_a_secret_is_not_shown(path, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "s3cr3tvalue")
    talk(path, "ann", "The key is s3cr3tvalue for the shop.", answer("Fine."))
    (found,) = find("shop", store=path)
    assert "s3cr3t" not in found.excerpt + found.title


@in_databases
def test_an_interrupted_run_is_indexed_again_by_each_search(world, path):
    agent = agent_of(path, answer("first"))
    world.run(agent, "Look for pelicans.")
    with opened_store(path) as store:
        store.execute([("UPDATE runs SET ended = NULL, status = 'open'", ())])
    assert len(find("pelicans", store=path)) == 1
    assert len(find("pelicans", store=path)) == 1
    with opened_store(path) as store:
        assert len(store.search(["pelicans"], 10)) == 1  # indexed again, not twice


def test_a_message_that_cannot_be_read_is_left_out_and_a_long_one_is_cut(path):
    talk(path, "ann", "word " + "x" * (2 * MAX_INDEXED_CHARS) + " later", answer("Fine."))
    assert len(find("word", store=path)) == 1
    assert find("later", store=path) == []


@pytest.mark.parametrize("words", ["", "  ", "--", "%"])
def test_a_search_without_words_is_refused(talks, words):
    with pytest.raises(DefinitionError, match=r"has no words. Give words of the conversation, or a tag"):
        find(words, store=talks)


@pytest.mark.parametrize("tag", ["", "two words", "x" * 41, "a\nb"])
def test_what_is_no_tag_is_refused(talks, tag):
    key = list_conversations(talks)[0].key
    with pytest.raises(DefinitionError, match="expected up to 40 letters"):
        tag_conversation(key, tag, store=talks)


def test_an_unknown_conversation_or_journal_is_named(talks, tmp_path):
    with pytest.raises(JournalError, match="there is no conversation 1 in"):
        tag_conversation(1, "travel", store=talks)
    with pytest.raises(JournalError, match="does not exist"):
        find("tea", store=tmp_path / "other.db")


def test_a_store_that_cannot_search_says_which_method_it_needs(talks):
    with opened_store(talks) as store:

        class Other:
            named = "the store of the shop"

            def __getattr__(self, name):
                if name == "search":
                    raise AttributeError(name)
                return getattr(store, name)

        with pytest.raises(JournalError, match=r"the store of the shop: the store has no method search\(\)"):
            find("tea", store=Other())


def _search(path, results):
    results.put(len(find("tea", store=path)))


@in_databases
def test_processes_that_search_first_at_the_same_time(talks):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_search, args=(talks, results)) for _ in range(3)]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [2, 2, 2]
    for process in processes:
        process.join()
    with opened_store(talks) as store:
        assert len(store.search(["alipore"], 10)) == 1


def test_more_conversations_are_searched_than_a_query_may_have_values(tmp_path):
    """SQLite allows 32,766 of them, PostgreSQL 65,535."""
    path = tmp_path / "runs.db"
    agent_of(path, answer("Tea.")).run("Hello")
    with opened_store(path) as store:
        numbers = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION SELECT n + 1 FROM numbers WHERE n < 1000)"
        rest = "model, setup, first, begun, ended, status, outcome, origin, last FROM runs, numbers"
        store.execute([(f"{numbers} INSERT INTO runs SELECT id || n, n, query, {rest}", ())])
        store._file.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 500)
        (found,) = find("tea", store=path)
    assert found.title == "Hello"
