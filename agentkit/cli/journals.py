"""The commands about stored runs.

- `agentkit runs`: the runs of a journal or of workers: their states, and what a person does about them;
- `agentkit sessions`: the named conversations of a journal: search, titles and tags;
- `agentkit notes`: the notes of agents with a memory in a journal;
- `agentkit resume`: continue a stopped run;
- `agentkit show`: a stored run or conversation;
- `agentkit replay`: repeat a recorded run.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import agentkit

from ..extend import MAX_NOTE_CHARS, JournalNotes, SavedNote, escape_unprintable, mask, parse_json
from .agents import agent_options, build_agent
from .output import answered_input, dump_json, follow, make_view, print_answer, print_note, usage_errors
from .targets import AGENT, EXISTING_FILE, FILE, FILE_OR_DASH, JOURNAL_HELP, JOURNAL_PLACE, AgentCommand, load_agent

JOURNAL_VARIABLES = ("AGENTKIT_DB", "AGENTKIT_JOURNAL")
"""The variables that name the journal, the one of workers first."""


def manage_runs(
    place: Path | str, run: str | None, limit: int | None, *, as_json: bool, state: str, retry: bool, cancel: bool
) -> bool:
    """List, retry or cancel submitted runs; return False if the journal has to answer.

    Raises:
        click.UsageError: The options need a database of workers, or the id of a run.
    """
    if (retry or cancel) and (run is None or retry == cancel):
        raise click.UsageError("--retry and --cancel need the id of a run, and exclude each other")
    client = _client_of(place)
    if client is None:
        if state or retry or cancel:
            raise click.UsageError(
                f"{place}: no workers use this journal, so --state, --retry and --cancel mean nothing"
            )
        return False
    with client:
        if retry or cancel:
            handle = client.run(run)
            handle.retry() if retry else handle.stop()
            print_note(_describe(handle.status))
        elif run is not None:
            found = client.states([run])
            for status in found:
                print_note(_describe(status))
            return any(not status.worker for status in found)  # the journal does not have it
        else:
            listed = client.runs(limit=limit or 100, state=state)
            if as_json:
                click.echo(dump_json([asdict(status) for status in listed], indent=2))
            else:
                click.echo("\n".join(map(_describe, listed)) or f"no run {f'is {state}' if state else 'was submitted'}")
    return True


def format_age(seconds: float) -> str:
    """Return a time as a number and a unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _describe(status: Any) -> str:
    query = escape_unprintable(" ".join(mask(status.query).split()), 60)
    cost = "" if status.usage.cost is None or not status.usage.requests else f"${status.usage.cost:.4f}"
    about = [status.agent, *([f"key {status.key}"] if status.key else []), cost, status.worker]
    problems = [mask(status.error), *(f"in doubt: {call}" for call in status.in_doubt)]
    problems += [f"changed: {change}" for change in status.changes]
    line = f"{status.id}  {status.state:<8}  {format_age(status.age):>4}  {'  '.join(filter(None, about))}  {query}"
    return "\n    ".join([escape_unprintable(line, 240), *(escape_unprintable(one, 200) for one in problems if one)])


def _client_of(place: Path | str) -> Any:
    """Return the client of a database that workers use; None for a journal without workers."""
    url = str(place)
    if "://" not in url:
        return None
    with agentkit.extend.opened_store(url, must_exist=True) as store:
        is_used = isinstance(store, agentkit.extend.SqlStore) and store.has_table("run_attempts")
    return agentkit.dbos.Client(url) if is_used else None


@click.command("show", cls=AgentCommand)
@click.argument("file", type=FILE_OR_DASH)
@AGENT
@click.option("--journal", "--db", type=JOURNAL_PLACE, help=f"Show the run with the id FILE. {JOURNAL_HELP}")
@click.option("--html", "page", type=FILE_OR_DASH, help="Write a page to this file (- for standard output) instead.")
@click.option(
    "--compare",
    "other",
    type=EXISTING_FILE,
    help="With --html: another result, shown beside FILE with the differences.",
)
def show_command(
    file: Path, agent: str | None, journal: Path | str | None, page: Path | None, other: Path | None
) -> None:
    """Show FILE as text, or as a page that loads nothing else.

    FILE is the result of `run --json`, the lines of `run --jsonl`, a run of `run --record`, or a saved session; - for
    standard input.  With the variable AGENTKIT_DB or AGENTKIT_JOURNAL, or an agent that has a journal, FILE may be the
    id of a run there.
    """
    if agent is not None and journal is None:
        journal = _journal_of(agent)
    if other is not None and page is None:
        raise click.UsageError("--compare needs --html: two runs are shown as a page")
    if journal is None and str(file) != "-" and not file.exists():
        journal = next(filter(None, map(os.environ.get, JOURNAL_VARIABLES)), None)
        if journal is None:
            raise click.UsageError(f"File {str(file)!r} does not exist. For a run in a journal, add --journal.")
    in_doubt = file
    try:
        data = _read(file) if journal is None else agentkit.journal.show(str(file), store=journal).as_dict()
        lines = [*agentkit.extend.render_result_data(data)]
        in_doubt = other or file
        text = "" if page is None else _render_page(data, other)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        expected = "a result (agentkit run --json or --jsonl), a recorded run or a saved session"
        raise click.UsageError(f"{in_doubt}: not {expected}, or damaged") from None
    if page is None:
        agentkit.extend.print_lines(lines)
        return
    if str(page) == "-":
        click.echo(text, nl=False)
        return
    try:
        agentkit.extend.write_page(text, page)
    except OSError as error:
        raise click.UsageError(f"{page}: cannot be written: {error.strerror}") from error
    click.echo(f"{page}: {page.stat().st_size:,} bytes")


def _journal_of(target: str) -> Any:
    """Return the place of an agent's journal."""
    if (journal := load_agent(target).journal) is None:
        raise click.UsageError(f"{target} has no journal. Name one with --journal.")
    return journal.path if isinstance(journal, agentkit.journal.Journal) else journal


def _render_page(data: dict[str, Any], other: Path | None) -> str:
    if other is not None:
        second = _read(other)
        [*agentkit.extend.render_result_data(second)]  # raises for anything else
        return agentkit.extend.compare_page(data, second)
    if "answer" in data:
        return agentkit.extend.result_page(data)
    return agentkit.extend.session_page(data["messages"], data["usage"])


def _read(file: Path) -> dict[str, Any]:
    """Return the data of a result, a recorded run or a session; of lines of a run, its result."""
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror}") from error
    if content.lstrip().startswith(b'{"frame"'):
        lines = map(json.loads, content.splitlines())
        return agentkit.extend.result_of_frames((line["at"], agentkit.extend.decode_frame(line)) for line in lines)
    if not content.lstrip().startswith(b'{"event"'):
        return dict(agentkit.extend.read_saved(content))
    finished = [line for line in content.splitlines() if line.startswith(b'{"event": "RunFinished"')]
    return dict(json.loads(finished[-1])["result"])


@click.command("replay", cls=AgentCommand)
@click.argument("file", type=FILE)
@agent_options
@click.option("--execute", is_flag=True, help="Run the tools; without it, the recorded results are used.")
@click.option("--any-model", is_flag=True, help="Replay under the name of another provider's model, too.")
@click.option("--timed", is_flag=True, help="At the recorded speed.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def replay_command(
    file: Path, execute: bool, any_model: bool, timed: bool, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Repeat the run recorded in FILE, without model, key and network; no tool is run.

    With --journal, FILE is the id of a run in that journal.
    The tools' schemas and the description must be those of the recorded run: the first difference ends the replay and
    is printed.  Without --model the recorded model's name is used.

    Exit codes: 0 the same answer, 1 it differs, 2 wrong usage, 3 paused as the recorded run did.
    """
    if settings["model"] is None and settings["agent"] is None:
        settings["model"] = "offline"
        any_model = True
    journal = settings.pop("journal")
    if file.exists():
        if click.get_current_context().get_parameter_source("journal") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--journal: {str(file)!r} is a file, and a replayed run is not stored.")
        journal = None  # that of the environment
        with usage_errors(agentkit.RunError, OSError):
            agentkit.extend.Recording.load(file)
    elif journal is None:
        raise click.UsageError(f"File {str(file)!r} does not exist. For a run in a journal, add --journal.")
    with make_view(quiet=quiet) as view, answered_input(view.read):
        agent: agentkit.JsonAgent[str] = build_agent(**settings, listeners=[agentkit.extend.draw_frames(view.draw)])
        result = agent.replay(file, execute=execute, any_model=any_model, timed=timed, journal=journal)
    if as_json:
        click.echo(dump_json(result.as_dict(), indent=2))
    else:
        print_answer(result.text)


DEFAULT_JOURNAL = Path("runs.db")
LISTED_FIELDS = ("id", "state", "query", "model", "steps", "last", "error", "origin", "begun", "seen", "title")
RUN_OPTIONS = ("html", "export", "delete")
JOURNAL_OPTIONS = ("prune", "check", "salvage", "sum")
"""The options of `agentkit runs` that need a run, and those about the whole journal."""


@click.command("resume", cls=AgentCommand)
@click.argument("run_id", required=False)
@agent_options
@click.option("--approve", "approved", multiple=True, metavar="CALL", help="Allow a call, by its id or its tool.")
@click.option("--deny", "denied", multiple=True, metavar="CALL[=REASON]", help="Refuse a call; the model reads why.")
@click.option("--answer", "answered", multiple=True, metavar="ID=JSON", help="Answer a question: JSON, or a text.")
@click.option("--go-on", is_flag=True, help="Continue although the tools or the instruction have changed.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def resume_command(
    run_id: str | None,
    approved: Sequence[str],
    denied: Sequence[str],
    answered: Sequence[str],
    go_on: bool,
    quiet: bool,
    journal: Path | str | None,
    **settings: Any,
) -> None:
    """Continue the run RUN_ID of the journal (default: runs.db); without RUN_ID, list the runs that can continue.

    Pass the tools and the description that the run started with.  Finished steps are not repeated.  You are asked about
    calls that were running when the run stopped, because their effect is unknown.  --approve, --deny and --answer, each
    several times if needed, decide without a terminal.

    Exit codes: those of `agentkit run`.
    """
    target = settings["agent"]
    journal = journal or (_journal_of(target) if target else DEFAULT_JOURNAL)
    if run_id is None:
        _print_runs(agentkit.journal.runs(journal, unfinished=True), "no run is waiting to continue")
        return
    changed: Any = "go on" if go_on else "refuse"
    session = agentkit.Session.resumed(run_id, journal, on_uncertain="ask", changed=changed)
    has_answer = session.journaled is not None and session.journaled.stored is not None
    if has_answer and not quiet:
        print_note("the run has ended; this is its answer")
    view = make_view(quiet=quiet or has_answer)
    agent = build_agent(**settings, journal=journal, read=view.read)
    answers = _read_answers(session.pending, approved, denied, answered)
    with view, answered_input(view.read):
        result = follow(agent, None, view.draw, session=session, answers=answers or None)
    print_answer(result.text)


def _read_answers(
    waiting: Sequence[Any], approved: Sequence[str], denied: Sequence[str], answered: Sequence[str]
) -> dict[str, Any]:
    """Return the decisions and the answers of a command line, by the ids of what waits.

    Raises:
        click.UsageError: Nothing waits by that id or tool, it is decided twice, or an answer has no value.
    """
    given: list[tuple[str, Any]] = [(word, True) for word in approved]
    for word in denied:
        name, _, reason = word.partition("=")
        given.append((name, reason or False))
    for word in answered:
        name, is_given, text = word.partition("=")
        if not is_given:
            raise click.UsageError(f"--answer {word}: expected ID=JSON")
        given.append((name, parse_json(text)))
    found: dict[str, Any] = {}
    for name, decision in given:
        identity = _find_waiting(waiting, name)
        if identity in found:
            raise click.UsageError(f"{identity} is decided twice. Give one of --approve, --deny and --answer for it.")
        found[identity] = decision
    return found


def _find_waiting(waiting: Sequence[Any], word: str) -> str:
    """Return the id of what waits, by its id, or by the tool where one call of it waits."""
    ids = [entry.id for entry in waiting if word in (entry.id, entry.call.id)]
    ids = ids or [entry.id for entry in waiting if entry.call.name == word]
    if len(ids) != 1:
        known = ", ".join(f"{entry.id} ({entry.call.name})" for entry in waiting) or "nothing"
        raise click.UsageError(f"{word}: {len(ids) or 'nothing'} of that name waits. It waits for: {known}")
    return str(ids[0])


_journal_option = click.option(
    "--journal",
    "--db",
    type=JOURNAL_PLACE,
    default=DEFAULT_JOURNAL,
    show_default=True,
    envvar=JOURNAL_VARIABLES,
    show_envvar=True,
    help=JOURNAL_HELP,
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("sessions", invoke_without_command=True)
@_journal_option
@_json_option
@click.pass_context
def sessions_command(context: click.Context, journal: Path | str, as_json: bool) -> None:
    """List the named conversations of a journal, the newest first; or search them, and give them titles and tags."""
    if context.invoked_subcommand is not None:
        return
    listed = agentkit.extend.list_conversations(journal)
    if as_json:
        click.echo(dump_json([asdict(info) for info in listed], indent=2))
        return
    for info in listed:
        state = f"{escape_unprintable(info.name, 40)}  {info.state:<11}  {format_age(time.time() - info.seen):>4}"
        click.echo(f"{state}  {_describe_title(info.title, info.tags)}")
    if not listed:
        print_note("the journal has no named conversation")


def _describe_title(title: str, tags: Sequence[str]) -> str:
    shown = escape_unprintable(" ".join(title.split()), 60)
    return "  ".join([shown, *(f"#{tag}" for tag in tags)])


@sessions_command.command("find")
@click.argument("words", nargs=-1)
@click.option("--tag", default="", help="Only conversations with this tag.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most conversations.")
@_journal_option
@_json_option
def find_command(words: Sequence[str], tag: str, limit: int, journal: Path | str, as_json: bool) -> None:
    """Find conversations by words of their messages, titles and tags; words may be beginnings of words."""
    found = agentkit.journal.find(" ".join(words), tag=tag, limit=limit, store=journal)
    if as_json:
        click.echo(dump_json([asdict(one) for one in found], indent=2))
        return
    for one in found:
        place = escape_unprintable(one.name, 40) or f"run {one.run}"
        click.echo(f"{place}  {format_age(time.time() - one.begun):>4}  {_describe_title(one.title, one.tags)}")
        if one.excerpt:
            click.echo(f"    {one.role}: {escape_unprintable(one.excerpt, 200)}")
    if not found:
        print_note("nothing was found")


@sessions_command.command("rename")
@click.argument("session")
@click.argument("title")
@_journal_option
def rename_command(session: str, title: str, journal: Path | str) -> None:
    """Give the conversation SESSION a title, "" for its first query.

    SESSION is the name of the conversation, or the id of one run.
    """
    agentkit.extend.rename_conversation(_find_conversation(session, journal), title, store=journal)


@sessions_command.command("tag")
@click.argument("session")
@click.argument("tags", nargs=-1)
@_journal_option
def tag_command(session: str, tags: Sequence[str], journal: Path | str) -> None:
    """Give the conversation SESSION these tags in the place of its own.

    SESSION is the name of the conversation, or the id of one run.
    """
    agentkit.extend.tag_conversation(_find_conversation(session, journal), *tags, store=journal)


def _find_conversation(session: str, journal: Path | str) -> int:
    """Return the key of a conversation, by its name or by the id of one of its runs."""
    for key, name in agentkit.extend.name_conversations(journal).items():
        if name == session:
            return int(key)
    try:
        return int(agentkit.journal.show(session, store=journal).run.conversation)
    except agentkit.journal.JournalError as error:
        raise agentkit.journal.JournalError(f"no conversation has the name {session!r}, and {error}") from None


@click.command("runs")
@click.argument("run_id", required=False)
@_journal_option
@click.option("--limit", type=click.IntRange(1), metavar="N", help="List only the newest N runs.")
@click.option("--html", type=FILE, help="Write the run as a page.")
@click.option("--json", is_flag=True, help="Print the list, the run or the sums as JSON.")
@click.option("--sum", is_flag=True, help="Print what all runs cost, by user, by tool and by model.")
@click.option("--state", default="", help="List only submitted runs in this state: queued, running, paused ...")
@click.option("--retry", is_flag=True, help="Submit the run again that failed, was stopped or is dead.")
@click.option("--cancel", is_flag=True, help="Cancel the submitted run.")
@click.option("--export", type=FILE, help="Write the run into a file for agentkit replay and show.")
@click.option("--delete", is_flag=True, help="Remove the run.")
@click.option(
    "--prune",
    type=click.FloatRange(0),
    metavar="DAYS",
    help="Remove all runs without activity for this number of days.",
)
@click.option("--check", is_flag=True, help="Report damage of the file.")
@click.option("--salvage", type=FILE, help="Copy the sound runs to a new file.")
def runs_command(run_id: str | None, journal: Path | str, limit: int | None, **options: Any) -> None:
    """List the runs of a journal, the newest first; or show the run RUN_ID.

    In a database that workers use, the list has the submitted runs with their states, costs and workers.
    """
    action = _find_action(run_id, options)
    named = run_id or ""
    queued = {name: options[name] for name in ("state", "retry", "cancel")}
    if action in ("", "json") and manage_runs(journal, run_id, limit, as_json=options["json"], **queued):
        return
    if action == "check":
        problems = agentkit.extend.find_problems(journal)
        click.echo("\n".join(problems) or "no damage found")
        sys.exit(bool(problems))
    elif action == "salvage":
        click.echo(f"{agentkit.extend.salvage(journal, options['salvage'])} runs copied to {options['salvage']}")
    elif action == "sum":
        _print_costs(agentkit.journal.costs(journal), as_json=options["json"])
    elif action == "prune":
        click.echo(f"{agentkit.journal.prune(options['prune'], store=journal)} runs removed")
    elif action == "export":
        agentkit.journal.export(named, options["export"], store=journal)
    elif action == "delete":
        agentkit.journal.delete(named, store=journal)
    elif action == "html":
        agentkit.journal.show(named, store=journal).to_html(options["html"])
    elif run_id is not None:
        data = agentkit.journal.show(run_id, store=journal).as_dict()
        if options["json"]:
            click.echo(dump_json(data, indent=2))
        else:
            agentkit.extend.print_lines(agentkit.extend.render_result_data(data))
    elif options["json"]:
        listed = [
            {name: getattr(run, name) for name in LISTED_FIELDS} for run in agentkit.journal.runs(journal, limit=limit)
        ]
        click.echo(dump_json(listed, indent=2))
    else:
        _print_runs(agentkit.journal.runs(journal, limit=limit), "the journal is empty")


def _find_action(run_id: str | None, options: Mapping[str, Any]) -> str:
    """Return the option that decides what is done, or ""; raise `click.UsageError` for one that has no effect."""
    names = (*RUN_OPTIONS, "json", *JOURNAL_OPTIONS)
    given = [name for name in names if options[name] is not None and options[name] is not False]
    if given == ["json", "sum"]:
        given = ["sum"]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(f'--{name}' for name in given)} exclude each other")
    action = given[0] if given else ""
    if run_id is None and action in RUN_OPTIONS:
        raise click.UsageError(f"--{action} needs the id of a run: agentkit runs RUN_ID --{action}")
    if run_id is not None and action in JOURNAL_OPTIONS:
        raise click.UsageError(f"--{action} is about the whole journal: leave the id of the run out")
    return action


def _print_costs(sums: Sequence[agentkit.journal.CostSum], *, as_json: bool) -> None:
    if as_json:
        click.echo(dump_json([one.as_dict() for one in sums], indent=2))
        return
    if not sums:
        print_note("the journal is empty")
    kind = ""
    for one in sums:
        if one.kind != kind:
            kind = one.kind
            click.echo(f"by {kind}")
        unpriced = f" + {one.unpriced:,.3g} requests of unknown price" if one.unpriced else ""
        tokens = f"{one.input_tokens:,.0f} in ({one.cached_tokens:,.0f} cached), {one.output_tokens:,.0f} out"
        calls = f", {one.calls:,} calls in {one.seconds:,.3g} s" if one.calls else ""
        name = escape_unprintable(mask(one.name), 40) or "-"
        parts = f"{one.runs:,} runs, {one.requests:,.4g} requests, {tokens}{calls}"
        click.echo(f"  {name:<24} ${one.cost:.4f}{unpriced}  {parts}")


def _print_runs(listed: list[Any], if_empty: str) -> None:
    for run in listed:
        words = f"{run.title}: {run.query}" if run.title else run.query
        query = escape_unprintable(" ".join(mask(words).split()), 60)
        last = escape_unprintable(mask(run.error or run.last), 100)
        state = f"{escape_unprintable(run.id)}  {escape_unprintable(run.state):<11}"
        click.echo(f"{state}  {format_age(run.age):>4}  {query}\n    {last}")
    if not listed:
        print_note(if_empty)


@click.command("notes")
@click.argument("name", required=False)
@click.option("--owner", help="Whose notes they are. Without it, the list has the notes of all.")
@click.option("--edit", is_flag=True, help="Open the note in the editor of $EDITOR.")
@click.option("--forget", is_flag=True, help="Delete the note.")
@_journal_option
def notes_command(name: str | None, owner: str | None, edit: bool, forget: bool, journal: Path | str) -> None:
    """List the notes of Memory(journal=...), the newest first; or print, edit or delete the note NAME.

    The head of a note has its origin: only a note with `{"integrity": "trusted"}` may name a destination.
    """
    notes = agentkit.extend.JournalNotes(journal, must_exist=True)
    if name is None:
        if edit or forget:
            raise click.UsageError("--edit and --forget need the name of a note: agentkit notes NAME")
        _list_notes(notes, notes.owners() if owner is None else [owner])
        return
    if edit and forget:
        raise click.UsageError("--edit and --forget exclude each other")
    of = owner or ""
    found = notes.read(of)
    if name not in found:
        hint = agentkit.extend.suggest(name, found, then="agentkit notes lists them, and whose they are.")
        raise click.UsageError(f"there is no note {name!r}{f' of {owner!r}' if owner else ''}. {hint}")
    if forget:
        notes.remove(name, of)
    elif edit:
        _edit_note(notes, found[name], of)
    else:
        click.echo(found[name].markdown, nl=False)


def _list_notes(notes: JournalNotes, owners: Sequence[str]) -> None:
    listed = [(note, owner) for owner in owners for note in notes.read(owner).values()]
    for note, owner in sorted(listed, key=lambda entry: entry[0].changed, reverse=True):
        age = format_age(time.time() - note.changed / 1e9)
        origin = "untrusted" if note.origin.is_untrusted else "trusted"
        of = f"  --owner {escape_unprintable(owner, 40)}" if owner else ""
        begin = escape_unprintable(" ".join(mask(note.text).split()), 60)
        click.echo(f"{escape_unprintable(note.name, 64)}{of}  {origin:<9}  {age:>4}  {begin}")
    if not listed:
        print_note("there are no notes")


def _edit_note(notes: JournalNotes, note: SavedNote, owner: str) -> None:
    """Let a person edit a note; the text is printed where it cannot be kept."""
    text = click.edit(note.markdown, extension=".md", require_save=False)
    if text is None or text == note.markdown:
        print_note("nothing was changed")
        return
    edited = SavedNote.parse(note.name, text)
    problem = ""
    if len(edited.text) > MAX_NOTE_CHARS:
        problem = f"the note has {len(edited.text)} characters, at most {MAX_NOTE_CHARS} are kept. Shorten it."
    elif notes.read(owner).get(note.name) != note:
        problem = f"the note {note.name!r} was changed meanwhile. Edit it again."
    if problem:
        click.echo(text)
        raise click.UsageError(problem)
    notes.write(edited, owner)
    if edited.origin.is_untrusted and not note.origin.is_untrusted:
        print_note(
            f"the note has no readable head and is untrusted now. A trusted one begins with: {note.markdown[:44]!r}"
        )
