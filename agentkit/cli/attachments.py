"""Files that belong to a question: images, documents and audio."""

from collections.abc import Iterable
from pathlib import Path

import click

import agentkit

from ..extend import ContentPart, Query, read_file
from .targets import EXISTING_FILE

ATTACH = click.option(
    "--attach",
    "attached",
    multiple=True,
    type=EXISTING_FILE,
    help="Send this image, PDF or sound with the question; several are possible.",
)


def read_attachments(files: Iterable[Path]) -> list[ContentPart]:
    """Return the files as parts of a query; raise `click.UsageError` for one that cannot be read or sent."""
    try:
        return [read_file(file) for file in files]
    except (agentkit.DefinitionError, OSError) as error:
        raise click.UsageError(str(error)) from error


def join_query(question: str, parts: list[ContentPart]) -> Query | None:
    """Return the question with its parts; None if it is empty and has none."""
    return [question, *parts] if parts else question or None
