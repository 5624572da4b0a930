"""`agentkit eval`: run the cases of a file with an agent, compare with a baseline, and tell CI by the exit code."""

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import agentkit

from ..extend import mask
from .output import FAILED, INTERRUPTED, clean_output, print_note, print_text
from .targets import AGENT, FILE, FOLDER, JOURNAL_HELP, JOURNAL_PLACE, choose_agent, load_targets

_MODEL_HELP = "A model in the place of the agent's; several run side by side."
_JUDGE_HELP = "The model of rubrics and simulated users that name none."
_OUT_HELP = "Write the report: .json, which is a baseline later, or .html. May be given several times."


def _take_given(context: click.Context, parameter: click.Parameter, models: Sequence[str]) -> Sequence[str]:
    """Return the models of the command line; that of the settings is for agents that a command makes."""
    is_default = context.get_parameter_source(str(parameter.name)) is ParameterSource.DEFAULT_MAP
    return () if is_default else models


@click.command("eval")
@click.argument("cases", metavar="CASES")
@click.argument("target", required=False)
@AGENT
@click.option("--model", "models", multiple=True, callback=_take_given, help=_MODEL_HELP)
@click.option("--trials", "-k", default=1, show_default=True, type=click.IntRange(1), help="Runs of each case.")
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1), help="Trials at a time.")
@click.option("--judge", metavar="MODEL", help=_JUDGE_HELP)
@click.option("--journal", type=JOURNAL_PLACE, envvar="AGENTKIT_JOURNAL", show_envvar=True, help=JOURNAL_HELP)
@click.option("--fresh", is_flag=True, help="Begin anew, though the journal has this evaluation half done.")
@click.option("--record", type=FOLDER, help="A folder for recordings of all runs.")
@click.option("--replay", type=FOLDER, help="A folder with recordings, which take the place of the model.")
@click.option("--execute", is_flag=True, help="With --replay: run the tools; else their results are recorded, too.")
@click.option("--out", "files", multiple=True, type=FILE, help=_OUT_HELP)
@click.option("--baseline", type=FILE, help="A report .json: fail only if a case is worse than there.")
@click.option("--significance", type=click.FloatRange(0, 1), metavar="P", help="With --baseline: fail only for p < P.")
@click.option(
    "--min-pass", type=click.FloatRange(0, 1), help="Fail if a model passes less. [default: 1; 0 with a baseline]"
)
def eval_command(
    cases: str,
    target: str | None,
    agent: str | None,
    files: Sequence[Path],
    baseline: Path | None,
    significance: float | None,
    min_pass: float | None,
    journal: Any,
    **options: Any,
) -> None:
    """Run the cases of CASES with the agent TARGET, and report what passed.

    CASES is a file .yaml or .json, or file.py:NAME, a list in Python.  TARGET is an agent, module:agent or
    file.py:agent, or a function that returns one for each trial.  With --journal, the same command continues an
    evaluation that was interrupted.

    Exit codes: 0 passed, 1 failed, or worse than the baseline, 2 wrong usage, 130 interrupted.
    """
    if significance is not None and baseline is None:
        raise click.UsageError("--significance needs --baseline, the report to compare with")
    target = choose_agent(target, agent)
    _check_files(files)
    try:
        before = _load_baseline(baseline)
        found = _load_agent(target)
        if before is not None:
            _check_baseline(baseline, before, options["models"] or [agentkit.evals.name_model(found)])
        with clean_output():
            report = agentkit.evals.evaluate(found, cases, journal=journal, **options)
    except KeyboardInterrupt:
        again = "" if journal is None else "; repeat the command to continue"
        print_note(f"\nagentkit: interrupted{again}")
        sys.exit(INTERRUPTED)
    except (agentkit.DefinitionError, OSError) as error:
        raise click.UsageError(str(error)) from error
    changes = report.compare(before) if before else {}
    print_text(mask(str(report)))
    for model, change in changes.items():
        print_text(mask(f"{model}, since the baseline: {change}"))
        for name in change.worse:
            print_text(mask(f"    worse: {name}"))
    for file in files:
        report.save(file, baseline=before)
    least = (0.0 if before else 1.0) if min_pass is None else min_pass
    is_worse = any(change.is_worse(significance) for change in changes.values())
    sys.exit(FAILED if is_worse or report.min_pass_rate < least else 0)


def _check_files(files: Sequence[Path]) -> None:
    """Raise `click.UsageError` for a report that could not be written, before it costs anything."""
    for file in files:
        if file.suffix not in (".json", ".html"):
            raise click.UsageError(f"{file}: expected a file .json or .html for the report")
        if not file.parent.is_dir():
            raise click.UsageError(f"{file}: the folder {file.parent} does not exist. Create it, or name another file.")


def _load_baseline(file: Path | None) -> "agentkit.evals.EvalReport | None":
    if file is None:
        return None
    if not file.exists():
        raise click.UsageError(f"{file}: no such baseline. Write it: agentkit eval ... --out {file}")
    return agentkit.evals.EvalReport.load(file)


def _check_baseline(file: Path | None, before: "agentkit.evals.EvalReport", models: Sequence[str]) -> None:
    """Raise `click.UsageError` for a baseline that nothing can be compared with, before the trials cost anything."""
    planned = agentkit.evals.EvalReport([agentkit.evals.Trial("", model, 1) for model in models])
    if not planned.compare(before):
        named = ", ".join(before.models) or "no model"
        raise click.UsageError(f"{file}: it has no trials of {', '.join(models)}, only of {named}")


def _load_agent(target: str | None) -> Any:
    """Return the agent that a target names, or the function that returns one."""
    if target is None:
        raise click.UsageError("no agent: agentkit eval cases.yaml mine.py:agent")
    found = load_targets([target]) if ":" in target else []
    if len(found) == 1 and (isinstance(found[0], agentkit.JsonAgent) or inspect.isfunction(found[0])):
        return found[0]
    raise click.UsageError(f"{target}: expected an agent or a function that returns one, as file.py:agent")
