import sys

import pytest

from agentkit import DefinitionError, JsonAgent, Paused, ToolError
from agentkit.testing import ScriptedModel, answer, call
from agentkit_tools import shell_tool
from agentkit_tools.folder import Folder
from agentkit_tools.shell import Shell


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "notes.txt").write_text("tea 2\nmilk 1\ntea 3\n")
    (root / "src" / "app.py").write_text("x = 1\n")
    (root / "data.bin").write_bytes(bytes(range(256)))
    return root


def output_of(root, script, **settings):
    return shell_tool(root, **settings).call({"script": script})


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("pwd; ls", "/work\ndata.bin\nnotes.txt\nsrc"),
        ("grep tea notes.txt | awk '{n += $2} END {print n}'", "5"),
        ("sort notes.txt | uniq -c | wc -l; wc -c < data.bin", "3\n256"),
        ("find . -name '*.py' | sed 's/py$/PY/'", "./src/app.PY"),
        ("""echo '{"a": [1, 2]}' | jq -c '.a | add'""", "3"),
        ("for f in *.txt; do n=$(wc -l < $f); echo $f:$n; done", "notes.txt:3"),
        ("grep coffee notes.txt", "[exit code 1]"),
        ("true", "[no output]"),
        ("echo out; echo problem >&2; exit 3", "out\nproblem\n[exit code 3]"),
    ],
)
def test_a_script_reads_the_files(root, script, shown):
    assert output_of(root, script) == shown


def test_without_write_changes_are_named_and_dropped(root):
    shown = output_of(root, "echo x > new.txt; rm notes.txt; sed -i s/1/2/ src/app.py; cat src/app.py")
    assert shown.splitlines()[0] == "x = 2"
    assert shown.splitlines()[1].startswith("[changes are not kept: ")
    assert {"new.txt", "notes.txt", "src/app.py"} <= set(shown.split(": ")[1].rstrip("]").split(", "))
    assert sorted(path.name for path in root.rglob("*")) == ["app.py", "data.bin", "notes.txt", "src"]


def test_empty_folders_are_there_and_are_kept(root):
    (root / "empty").mkdir()
    assert (
        output_of(root, "ls -d empty; mkdir -p new/inner", write=False) == "empty\n[changes are not kept: new/inner/]"
    )
    shown = output_of(root, "mkdir -p new/inner; rmdir empty", write=True)
    assert shown == "[written: new/inner/]\n[deleted: empty/]"
    assert (root / "new" / "inner").is_dir()
    assert not (root / "empty").exists()


def test_with_write_changes_are_kept(root):
    shown = output_of(root, "mkdir -p a/b; cp data.bin a/b/; sed -i s/tea/mate/ notes.txt; rm -r src", write=True)
    assert "[deleted: src/app.py, src/]" in shown
    assert (root / "a/b/data.bin").read_bytes() == bytes(range(256))
    assert (root / "notes.txt").read_text() == "mate 2\nmilk 1\nmate 3\n"
    assert not (root / "src").exists()


def test_each_script_begins_anew(root):
    tool = shell_tool(root)
    tool.call({"script": "cd src; x=1; export y=2"})
    assert tool.call({"script": "echo $PWD $x $y"}) == "/work"


def test_a_long_output_states_how_to_read_a_part(root):
    shown = output_of(root, "seq 1 10000")
    assert "\n[12,000 of 48,893 characters; sed -n '100,200p', head or tail show a part]" in shown


def test_large_files_are_left_out_and_named_and_not_replaced(root):
    with open(root / "huge.log", "wb") as stream:
        stream.truncate(6_000_000)
    assert output_of(root, "ls") == "data.bin\nnotes.txt\nsrc\n[left out, as they are too large or too many: huge.log]"
    assert "[not kept: 'huge.log' was left out, so it cannot be replaced.]" in output_of(root, "> huge.log", write=True)
    assert (root / "huge.log").stat().st_size == 6_000_000


@pytest.mark.parametrize(
    "script", ["while :; do :; done", "sleep 60", ":(){ :|:& };:", "yes > x; while :; do cat x x > y; mv y x; done"]
)
def test_a_script_without_end_is_stopped(root, script):
    shown = Shell(Folder(root), seconds=0.3).run_shell(script)
    assert "exit code" in shown or "limit" in shown


def test_a_script_for_too_much_memory_is_stopped(root):
    assert "memory limit exceeded" in output_of(root, "x=aaaaaaaa; while :; do x=$x$x; done")


def test_an_empty_script_is_refused(root):
    with pytest.raises(ToolError, match="script must have 1 to 20,000 characters, got 1"):
        output_of(root, " ")


def test_only_a_shell_that_writes_waits_for_a_person(world, root):
    for write in (False, True):
        model = ScriptedModel(call("run_shell", script="rm notes.txt"), answer("Done."))
        agent = JsonAgent(shell_tool(root, write=write), model=model)
        if write:
            with pytest.raises(Paused):
                world.run(agent, "Remove notes.txt.")
        else:
            world.run(agent, "Remove notes.txt.")
        assert (root / "notes.txt").exists()


def test_without_bashkit_the_error_names_what_to_install(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "bashkit", None)
    with pytest.raises(DefinitionError, match=r'pip install "bashkit>=0\.20,<0\.21"'):
        shell_tool(root)
