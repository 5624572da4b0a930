"""`agentkit run`: one question, one answer."""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from ..core.labels import Label
from .agents import SESSION, agent_options, build_agent, command_to_resume, load_session, options_as_given
from .attachments import ATTACH, join_query, read_attachments
from .output import describe_error, dump_json, exit_code, follow, make_view, print_answer, print_error, print_note
from .targets import FILE


@click.command("run", short_help="Answer a question with tools.")
@click.argument("question", nargs=-1)
@agent_options
@SESSION
@ATTACH
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--jsonl", "as_events", is_flag=True, help="Print the events as they happen, one JSON object a line.")
@click.option("--record", type=FILE, help="Record the run for agentkit replay.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def run_command(
    question: Sequence[str],
    file: Path | None,
    attached: Sequence[Path],
    as_json: bool,
    as_events: bool,
    record: Path | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Answer QUESTION with tools; a - in it stands for the text on standard input, like a missing QUESTION.

    The answer is printed to standard output, the run to standard error.  Calls of dangerous tools need an approval at
    the terminal.  With --session and without QUESTION, the stopped run continues.

    Exit codes: 0 answered, 1 the run failed, 2 wrong usage, 3 paused for a decision, 130 interrupted.
    """
    if as_json and as_events:
        raise click.UsageError("--json and --jsonl exclude each other")
    (query, label) = _read_query(question, is_needed=file is None and not attached)
    session = load_session(file)
    asked = join_query(query, read_attachments(attached))
    if not asked and not _has_messages(session):
        raise click.UsageError('no question: agentkit run "What is 2 + 3?", or pipe one in')
    view = make_view(quiet=quiet)
    agent = build_agent(**settings, read=view.read)
    listeners = [view, *([_event_printer()] if as_events else [])]
    try:
        with view:
            result = follow(agent.stream(asked, session=session, record=record, label=label), *listeners)
    except (Exception, KeyboardInterrupt) as error:
        _exit_failed(error, session, file, as_json=as_json, as_events=as_events)
    if file is not None:
        session.save(file)
    if as_json:
        click.echo(dump_json(result.as_dict(), indent=2))
    elif not as_events:
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


def _event_printer() -> Callable[[Any], None]:
    encoder = import_module("agentkit.views.json_lines").EventEncoder()

    def listen(event: Any) -> None:
        for entry in encoder.encode(event):
            click.echo(dump_json(entry))

    return listen


def _exit_failed(
    error: BaseException, session: "agentkit.Session", file: Path | None, *, as_json: bool, as_events: bool
) -> None:
    """Print the error and the command that continues the run; exit."""
    failure = {"type": type(error).__name__, "message": describe_error(error)}
    usage = session.usage.as_dict()
    if as_json:
        click.echo(dump_json({"error": failure, "usage": usage, "messages": session.messages}, indent=2))
    if as_events:
        click.echo(dump_json({"event": "RunFailed", **failure, "usage": usage}))
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
