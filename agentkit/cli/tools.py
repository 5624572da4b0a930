"""Information about tools: `agentkit tools`, `schema`, `lint`, `lock`."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

import agentkit

from ..extend import format_value
from .output import print_text, usage_errors
from .targets import (
    EXISTING_FILE,
    FILE,
    FOLDER,
    MCP,
    TARGETS,
    TOOLS,
    list_tools,
    load_registry,
    load_servers,
    load_targets,
    open_registry,
)

_LOCK_HELP = "Lock the tools of the MCP servers in this file instead."
_SKILLS_HELP = "Lock the skills in this folder instead; may be given several times."
_OPENAPI_HELP = "List the tools that an OpenAPI document (JSON or YAML) makes instead."


@click.command("tools")
@TARGETS
@TOOLS
@MCP
@click.option("--json", "as_json", is_flag=True, help="Print names, descriptions and parameters (JSON Schema) as JSON.")
@click.option("--openapi", type=EXISTING_FILE, metavar="FILE", help=_OPENAPI_HELP)
def tools_command(targets: Sequence[str], configs: Sequence[str], as_json: bool, openapi: Path | None) -> None:
    """List the tools of TARGET (see --tools): name, parameters, description."""
    if openapi:
        with usage_errors():
            listed = agentkit.ToolRegistry.from_openapi(openapi, base_url="https://localhost")  # no request is sent
        print_tools(listed, as_json=as_json)
        return
    with open_registry(targets, configs) as registry:
        print_tools(registry, as_json=as_json)


def print_tools(registry: "agentkit.ToolRegistry", *, as_json: bool = False) -> None:
    """Print tools: names, parameters, descriptions, and what they may do."""
    if as_json:
        _print_json(
            [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "effect": tool.effect,
                    "trust": tool.trust,
                    "egress": agentkit.extend.sends_outside(tool),
                    "readers": None if tool.readers is None else [*tool.readers],
                    "roles": agentkit.extend.list_roles(tool),
                }
                for tool in registry.values()
            ]
        )
        return
    for tool in registry.values():
        required = tool.parameters.get("required", [])
        names = [name if name in required else f"{name}?" for name in tool.parameters["properties"]]
        print_text(f"{tool.name}({', '.join(names)})\n    {tool.description.splitlines()[0]}")
        if notes := _describe_safety(tool):
            print_text(f"    {notes}")


@click.command("schema")
@click.argument("name")
@TOOLS
@click.option(
    "--format",
    "dialect",
    default="json",
    show_default=True,
    help="json, openai, openai_strict, responses, response_format, anthropic, gemini or mcp.",
)
@click.option(
    "--references",
    type=click.Choice(["inline", "keep"]),
    default="inline",
    show_default=True,
    help="Write nested types where they are used, or keep them in $defs.",
)
@click.option("--losses", is_flag=True, help="Print what the format cannot express instead, one line each.")
def schema_command(
    name: str, targets: Sequence[str], dialect: str, references: Literal["inline", "keep"], losses: bool
) -> None:
    """Print the schema of the tool NAME in a provider's format."""
    registry = load_registry(targets)
    if name not in registry:
        raise click.UsageError(f"there is no tool {name!r}; there are: {', '.join(registry)}")
    with usage_errors():
        if losses:
            for loss in registry[name].losses(dialect):
                print_text(f"{loss.path} {loss.keyword} {format_value(loss.value, 80)}: {loss.moved_to}")
        else:
            _print_json(registry[name].schema(dialect, references=references))


def print_findings(findings: Sequence[Any], costs: Mapping[str, int]) -> None:
    """Print what `lint` found, and what the tools cost in each request."""
    for finding in findings:
        place = f"{finding.tool} {finding.path}".strip() or "all tools"
        print_text(f"{finding.severity} {place}: {finding.message}")
    listed = ", ".join(f"{name} {cost}" for name, cost in costs.items())
    print_text(f"tokens per request (characters of the OpenAI JSON / 4): {sum(costs.values())} ({listed})")


@click.command("lint")
@TARGETS
@TOOLS
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@click.option("--json", "as_json", is_flag=True, help="Print findings and token counts as JSON.")
def lint_command(targets: Sequence[str], strict: bool, as_json: bool) -> None:
    """Check the tools of TARGET (see --tools) for problems that models and providers have with them.

    Exit codes: 0 no errors, 1 errors (with --strict: or warnings), 2 wrong usage.
    """
    entries = agentkit.extend.split_toolsets(list_tools(load_targets(targets)))[0]
    findings = agentkit.lint(entries)
    costs = agentkit.extend.estimate_tokens(entries)
    if as_json:
        _print_json({"findings": [asdict(finding) for finding in findings], "tokens": costs})
    else:
        print_findings(findings, costs)
    failing = {"error", "warning"} if strict else {"error"}
    sys.exit(any(finding.severity in failing for finding in findings))


@click.command("lock")
@TARGETS
@TOOLS
@click.option("--mcp", "config", type=EXISTING_FILE, metavar="FILE", help=_LOCK_HELP)
@click.option("--skills", "folders", type=FOLDER, multiple=True, metavar="FOLDER", help=_SKILLS_HELP)
@click.option(
    "--file", type=FILE, help="The lock; default: agentkit.lock.json, or FILE.lock.json, or FOLDER.lock.json."
)
@click.option("--check", is_flag=True, help="Write nothing; print the changes since the file was written.")
def lock_command(
    targets: Sequence[str], config: Path | None, folders: Sequence[Path], file: Path | None, check: bool
) -> None:
    """Write the schemas of the tools of TARGET (see --tools) to a file, or print the changes since then.

    With --mcp, the tools are those of the servers: names, descriptions, schemas and hints.  Their lock, mcp.lock.json
    beside mcp.json, is used wherever the servers are: a tool that has changed is refused.

    With --skills, what is locked are the descriptions and the files of skills.  Their lock, skills.lock.json beside the
    folder skills, is used wherever the folder is: a skill that has changed is refused.

    Exit codes of --check: 0 nothing or compatible changes only, 1 breaking changes (of servers and skills: any
    changes), 2 wrong usage or no such file.
    """
    if config is not None:
        _lock_servers(config, file, check=check)
        return
    if folders:
        _lock_skills(folders, file, check=check)
        return
    file = file or Path("agentkit.lock.json")
    current = agentkit.lock(load_registry(targets))
    try:
        if check:
            changes = agentkit.compare_locks(agentkit.extend.read_lock(file.read_text(encoding="utf-8")), current)
        else:
            file.write_text(agentkit.extend.format_lock(current), encoding="utf-8")
    except (OSError, ValueError, RecursionError, agentkit.DefinitionError) as error:
        raise click.UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    if not check:
        print_text(f"{file}: {len(current['tools'])} tools")
        return
    for change in changes:
        print_text(f"{change.kind} {change.tool}{'.' if change.path else ''}{change.path}: {change.message}")
    sys.exit(any(change.kind == "breaking" for change in changes))


def _lock_servers(config: Path, file: Path | None, *, check: bool) -> None:
    servers = load_servers([str(config)], lock=False)
    file = file or agentkit.mcp.lock.lock_path(config)
    with usage_errors(OSError):
        locked = agentkit.mcp.lock.read_servers(file) if check else {}
        current = agentkit.mcp.lock.lock_servers(servers)
        if not check:
            file.write_text(agentkit.mcp.lock.format_servers(current), encoding="utf-8")
    if not check:
        print_text(f"{file}: {sum(map(len, current.values()))} tools of {len(current)} servers")
        return
    _exit_changed(agentkit.mcp.lock.compare_servers(locked, current))


def _lock_skills(folders: Sequence[Path], file: Path | None, *, check: bool) -> None:
    with usage_errors(OSError):
        skills = agentkit.Skills(*folders, lock=False)
        if check:
            changes = skills.find_changes(file)
        else:
            file = skills.write_lock(file)
    if not check:
        print_text(f"{file}: {len(skills.skills)} skills")
        return
    _exit_changed(changes)


def _exit_changed(changes: Sequence[str]) -> None:
    for change in changes:
        print_text(change)
    sys.exit(bool(changes))


def _describe_safety(tool: "agentkit.JsonTool[..., Any]") -> str:
    """Return what counts once untrusted text was read; "" for a tool that only reads what is trusted."""
    notes = ["returns untrusted text"] if tool.is_untrusted else []
    if isinstance(tool.trust, Mapping):
        notes = [f"returns untrusted text, but for {', '.join(tool.trust)}"]
    if tool.readers is not None:
        notes.append(f"results may be read by {', '.join(tool.readers) or 'no recipient'}")
    if agentkit.extend.may_have_effect(tool):
        effect = tool.effect or "effect not declared"
        notes.append(
            " and ".join(filter(None, [effect, "sends data outside" if agentkit.extend.sends_outside(tool) else ""]))
        )
        is_declared = agentkit.extend.is_consequential(tool)  # else its destinations count
        listed = agentkit.extend.list_roles(tool).items()
        notes += [f"{name}: {role}" for name, role in listed if is_declared or role == "destination"]
    return "; ".join(notes)


def _print_json(value: Any) -> None:
    print_text(json.dumps(value, ensure_ascii=False, indent=2))
