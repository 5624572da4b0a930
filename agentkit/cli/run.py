"""`agentkit run`: one question, one answer."""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import agentkit

from .agents import SESSION, agent_of, agent_options, as_given, resuming, session_of
from .output import answer, complain, exit_code, json_text, remark, told
from .views import followed, view


@click.command(short_help="Answer a question with tools.")
@click.argument("question", nargs=-1)
@agent_options
@SESSION
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--jsonl", "as_events", is_flag=True, help="Print the events as they happen, one JSON object a line.")
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), help="Record the run for agentkit replay.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the run on standard error.")
def run(
    question: Sequence[str],
    file: Path | None,
    as_json: bool,
    as_events: bool,
    record: Path | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Answer QUESTION with tools; a - in it stands for the text on standard input, as no QUESTION does.

    The answer goes to standard output, the run to standard error.  Calls of dangerous tools are asked about at the
    terminal.  With --session and no QUESTION, a run that was stopped goes on.

    Exit codes: 0 answered, 1 the run failed, 2 wrong usage, 3 paused for a person's word, 130 interrupted.
    """
    if as_json and as_events:
        raise click.UsageError("--json and --jsonl exclude each other")
    query, session = _query(question, is_needed=file is None), session_of(file)
    if not query and not any(message["role"] != "system" for message in session.messages):
        raise click.UsageError('no question: agentkit run "What is 2 + 3?", or pipe one in')
    shown = view(quiet=quiet)
    agent = agent_of(**settings, read=shown.read)
    listeners = [shown, *([_printing()] if as_events else [])]
    try:
        with shown:
            result = followed(agent.stream(query or None, session=session, record=record), *listeners)
    except (Exception, KeyboardInterrupt) as error:
        _fail(error, session, file, as_json=as_json, as_events=as_events)
    if file is not None:
        session.save(file)
    if as_json:
        click.echo(json_text(result.as_dict(), indent=2))
    elif not as_events:
        answer(result.text)


def _query(words: Sequence[str], *, is_needed: bool) -> str:
    """The question: the words, with the standard input where they have a dash or, if need be, where there are none."""
    words = words or (["-"] if is_needed or not sys.stdin.isatty() else [])
    piped = "" if "-" not in words or sys.stdin.isatty() else sys.stdin.read().strip()
    return " ".join(piped if word == "-" else word for word in words).strip()


def _printing() -> Callable[[Any], None]:
    recorder = import_module("agentkit.views.json_lines").Recorder()

    def listen(event: Any) -> None:
        for entry in recorder.records(event):
            click.echo(json_text(entry))

    return listen


def _fail(
    error: BaseException, session: "agentkit.Session", file: Path | None, *, as_json: bool, as_events: bool
) -> None:
    """Say what went wrong and where what was done is kept; leaves the program."""
    failure = {"type": type(error).__name__, "message": told(error)}
    usage = session.usage.as_dict()
    if as_json:
        click.echo(json_text({"error": failure, "usage": usage, "messages": session.messages}, indent=2))
    if as_events:
        click.echo(json_text({"event": "RunFailed", **failure, "usage": usage}))
    if isinstance(error, KeyboardInterrupt):
        remark("\nagentkit: interrupted")
    else:
        complain(error)
    if command := resuming(session):
        remark(f"agentkit: what was done is kept: {command} goes on")
    elif any(message["role"] != "system" for message in session.messages):
        remark(f"agentkit: what was done is kept: agentkit run --session {_kept(session, file)}{as_given()} goes on")
    sys.exit(exit_code(error))


def _kept(session: "agentkit.Session", file: Path | None) -> Path:
    """The file that the conversation was saved in: the one that was named, else one for temporary things."""
    if file is None:
        descriptor, name = tempfile.mkstemp(prefix="agentkit-", suffix=".json")
        os.close(descriptor)
        file = Path(name)
    session.save(file)
    return file
