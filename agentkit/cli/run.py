"""Questions on the command line: `agentkit run` answers one, `agentkit map` a file of them."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TextIO

import click

import agentkit

from ..extend import Label, mask, mask_data, open_private
from .agents import SESSION, agent_options, build_agent, command_to_resume, load_session, options_as_given
from .output import (
    INTERRUPTED,
    answered_input,
    clean_output,
    dump_json,
    exit_code,
    follow,
    format_error,
    make_view,
    print_answer,
    print_error,
    print_note,
)
from .targets import ATTACH, FILE, AgentCommand, join_query, read_attachments

if sys.platform != "win32":
    import fcntl

LINES_HELP = "Print the run as it happens, one JSON object a line; --jsonl=events: the objects of former versions."


class LinesCommand(AgentCommand):
    """A command of a question whose flag --jsonl may have the value `events`, after an equals sign."""

    takes_text = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--jsonl-events" if word == "--jsonl=events" else word for word in args])


@click.command("run", cls=LinesCommand)
@click.argument("question", nargs=-1)
@agent_options
@SESSION
@ATTACH
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--jsonl", "lines", flag_value="frames", help=LINES_HELP)
@click.option("--jsonl-events", "lines", flag_value="events", hidden=True)
@click.option("--record", type=FILE, help="Record the run for agentkit replay.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def run_command(
    question: Sequence[str],
    file: Path | None,
    attached: Sequence[Path],
    as_json: bool,
    lines: str | None,
    record: Path | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Answer QUESTION with tools; a - in it stands for the text on standard input, like a missing QUESTION.

    The answer is printed to standard output, the run to standard error.  Calls of dangerous tools need an approval at
    the terminal.  With --session and without QUESTION, the stopped run continues.

    Exit codes: 0 answered, 1 the run failed, 2 wrong usage, 3 paused for a decision, 130 interrupted.
    """
    if as_json and lines:
        raise click.UsageError("--json and --jsonl exclude each other")
    (query, label) = _read_query(question, is_needed=file is None and not attached)
    session = load_session(file)
    asked = join_query(query, read_attachments(attached))
    if not asked and not _has_messages(session):
        raise click.UsageError('no question: agentkit run "What is 2 + 3?", or pipe one in')
    view = make_view(quiet=quiet)
    agent = build_agent(**settings, read=view.read)
    printer = {"frames": FramePrinter, "events": EventPrinter}.get(lines or "", SilentPrinter)()
    how: Any = {"session": session, "record": record, "label": label, "listeners": [printer.listen]}
    try:
        with view, answered_input(view.read):
            result = follow(agent, asked, view.draw, printer.draw, **how)
    except (Exception, KeyboardInterrupt) as error:
        printer.fail(error, session.usage)
        _exit_failed(error, session, file, as_json=as_json)
    if file is not None:
        session.save(file)
    if as_json:
        click.echo(dump_json(result.as_dict(), indent=2))
    elif not lines:
        print_answer(result.text)


def _read_query(words: Sequence[str], *, is_needed: bool) -> tuple[str, Label | None]:
    """Return the words of the question, with standard input in the place of a dash or of a missing question.

    A question without standard input in the place of a dash has no label: it is the user's.  Otherwise the label is
    untrusted, except for the words around the dash.
    """
    words = words or (["-"] if is_needed or not sys.stdin.isatty() else [])
    piped = "" if "-" not in words or sys.stdin.isatty() else sys.stdin.read().strip()
    parts = " ".join("\0" if word == "-" else word for word in words).split("\0")
    query = piped.join(parts).strip()
    own = [part.strip() for part in parts if part.strip()]
    return query, replace(Label.untrusted("standard input"), vouched=tuple(own)) if piped and own else None


def _has_messages(session: "agentkit.Session") -> bool:
    return any(message["role"] != "system" for message in session.messages)


class SilentPrinter:
    """Prints nothing of a run on standard output."""

    def draw(self, frame: Any) -> None:
        """Ignore a frame."""

    def listen(self, event: Any) -> None:
        """Ignore an event."""

    def fail(self, error: BaseException, usage: "agentkit.Usage") -> None:
        """Ignore the error that ended the run."""


class FramePrinter(SilentPrinter):
    """Prints the frames of a run, each as one JSON object with its time."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._is_closed = False
        self._file = sys.stdout  # what tools print goes elsewhere

    def draw(self, frame: Any) -> None:
        """Print a frame."""
        self._is_closed = self._is_closed or (isinstance(frame, agentkit.extend.RunClosed) and not frame.agent)
        click.echo(dump_json(agentkit.extend.encode_frame(frame, time.perf_counter() - self._began)), self._file)

    def fail(self, error: BaseException, usage: "agentkit.Usage") -> None:
        """Print the end of a run that did not begin, or that a listener has not seen."""
        if not self._is_closed:
            text = format_error(error)
            kind = type(error).__name__
            self.draw(agentkit.extend.RunClosed("", "error", error=text, kind=kind, usage=usage.as_dict()))


class EventPrinter(SilentPrinter):
    """Prints the events of a run as former versions did; for one release."""

    def __init__(self) -> None:
        self._encoder = agentkit.events.EventEncoder()
        self._file = sys.stdout

    def listen(self, event: Any) -> None:
        """Print the objects of an event; the end of a run was none."""
        if not isinstance(event, agentkit.events.RunEnded):
            for entry in self._encoder.encode(event):
                click.echo(dump_json(entry), self._file)

    def fail(self, error: BaseException, usage: "agentkit.Usage") -> None:
        """Print the error."""
        failure = {"type": type(error).__name__, "message": format_error(error)}
        click.echo(dump_json({"event": "RunFailed", **failure, "usage": usage.as_dict()}), self._file)


def _exit_failed(error: BaseException, session: "agentkit.Session", file: Path | None, *, as_json: bool) -> None:
    """Print the error and the command that continues the run; exit."""
    failure = {"type": type(error).__name__, "message": format_error(error)}
    usage = session.usage.as_dict()
    if as_json:
        click.echo(dump_json({"error": failure, "usage": usage, "messages": session.messages}, indent=2))
    if isinstance(error, KeyboardInterrupt):
        print_note("\nagentkit: interrupted")
    else:
        print_error(error)
    command = command_to_resume(session)
    if not command and _has_messages(session):
        command = f"agentkit run --session {_save_session(session, file)}{options_as_given()}"
    if command:
        print_note(f"agentkit: finished steps are kept. Continue with: {command}")
    sys.exit(exit_code(error))


def _save_session(session: "agentkit.Session", file: Path | None) -> Path:
    """Save the conversation to `file`, or to a new temporary file; return the file."""
    if file is None:
        descriptor, name = tempfile.mkstemp(prefix="agentkit-", suffix=".json")
        os.close(descriptor)
        file = Path(name)
    session.save(file)
    return file


@click.command("map", cls=AgentCommand)
@click.argument("queries", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@agent_options
@click.option("--out", type=FILE, help="The file for the answers; default: standard output.")
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1), help="Queries at a time.")
@click.option("--retry-failed", is_flag=True, help="Ask the queries again that failed before.")
def map_command(queries: Path, out: Path | None, concurrency: int, retry_failed: bool, **settings: Any) -> None:
    """Answer each line of QUERIES (- for standard input), one JSON object a line: query, answer or error, usage.

    Queries that have a line in OUT are skipped, so a stopped command can continue; --retry-failed asks those again that
    have an error there.  The lines are in the order of the answers; a repeated query is asked once.

    Exit codes: 0 all answered, 1 a query failed, now or before, 2 wrong usage, 130 interrupted.
    """
    if retry_failed and out is None:
        raise click.UsageError("--retry-failed needs --out, the file with the answers so far")
    lines = dict.fromkeys(filter(None, map(str.strip, _read_text(queries).split("\n"))))
    agent = build_agent(**settings)
    file = click.get_current_context().with_resource(_open(out))
    is_answered = _read_outcomes(out) if out is not None and out.is_file() else {}
    before = [is_answered.get(_key(line)) for line in lines]
    wanted = [line for line, had in zip(lines, before, strict=True) if had is None or (retry_failed and not had)]
    if answered := before.count(True):
        print_note(f"{answered} of {len(lines)} queries are answered already")
    failed = 0 if retry_failed else before.count(False)
    if failed:
        print_note(f"{failed} of {len(lines)} queries failed before")
    is_watched = out is not None or not sys.stdout.isatty()  # else the bar would stand among the answers
    bar = agentkit.extend.ProgressBar(len(wanted), None if is_watched else False)
    done = 0
    usage = agentkit.Usage()
    started = time.monotonic()
    try:
        answers = agent.imap(wanted, concurrency=concurrency)
        with agentkit.extend.opened_toolsets(agent.toolsets), bar, clean_output(), closing(answers) as arriving:
            for place, outcome in arriving:
                failed += isinstance(outcome, Exception)
                done += 1
                usage += getattr(outcome, "usage", agentkit.Usage())
                _write(file, wanted[place], outcome)
                bar.advance(failed=isinstance(outcome, Exception))
    except KeyboardInterrupt:
        _print_total(usage, started)
        print_note(f"agentkit: interrupted; {done} of {len(wanted)} are done. Repeat the command to continue.")
        sys.exit(INTERRUPTED)
    _print_total(usage, started)
    if failed:
        print_note(f"agentkit: {failed} of {len(lines)} queries failed; --retry-failed asks them again")
    sys.exit(failed > 0)


def _print_total(usage: "agentkit.Usage", started: float) -> None:
    """Print the usage of all answers, if there was a request."""
    if usage.requests:
        text = agentkit.extend.format_usage(usage, time.monotonic() - started)
        print_note(f"{'total':<9}{text}")


def _read_text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: cannot be read: {error}") from error


def _open(out: Path | None) -> Any:
    """Return the file for the answers, locked: a second command would ask its queries again."""
    if out is None:
        return nullcontext(sys.stdout)
    try:
        file = open_private(out, "a", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{out}: cannot be written: {error.strerror}") from error
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            text = f"{out}: another agentkit map writes to it. Wait until it ends, or name another file."
            raise click.UsageError(text) from error
        except OSError:
            pass  # a file system without locks
    return file


def _read_outcomes(out: Path) -> dict[str, bool]:
    """Return, by the keys of the queries in `out`, whether they have an answer; the others failed.

    An incomplete last line is removed from the file.
    """
    data = out.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    found: dict[str, bool] = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            key = entry.get("key", entry["query"])
            found[key] = "answer" in entry or found.get(key, False)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise click.UsageError(f"{out}: line {number} is no answer of agentkit map") from error
    if whole != data:
        if not whole and not data.startswith(b"{"):
            raise click.UsageError(f"{out}: line 1 is no answer of agentkit map")
        with out.open("r+b") as file:
            file.truncate(len(whole))
    return found


def _key(query: str) -> str:
    """Return what identifies a query in the file: its text, or a hash of a text that holds a secret."""
    return query if mask(query) == query else blake2b(query.encode(errors="replace"), digest_size=16).hexdigest()


def _write(file: TextIO, query: str, outcome: "agentkit.Result[Any] | Exception") -> None:
    if isinstance(outcome, Exception):
        entry: dict[str, Any] = {"error": f"{type(outcome).__name__}: {format_error(outcome)}"}
    else:
        answer = agentkit.extend.to_json_data(outcome.answer)
        entry = {"answer": answer, "stopped": outcome.stopped, "usage": outcome.usage.as_dict()}
    named = {"query": mask(query)} if (key := _key(query)) == query else {"query": mask(query), "key": key}
    file.write(json.dumps({**named, **mask_data(entry)}, ensure_ascii=False) + "\n")
    file.flush()
