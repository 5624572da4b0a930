"""The tools for handles: a model without tools answers questions about a hidden result, or it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import Any, Literal, TypeAlias

from ...core.context import RunContext
from ...core.errors import ToolError
from ...core.labels import Label
from ...tools.json_tool import JsonTool
from ...tools.results.result_text import render_text
from .handles import Handles, UnknownHandle

REVEAL, EXTRACT, EXTRACT_TEXT = "reveal_result", "extract_value", "extract_text"
Kind: TypeAlias = Literal["yes_or_no", "number", "date", "choice"]
Extractor: TypeAlias = Callable[[Any, str, str, RunContext[Any]], Awaitable[Any]]
"""Asks a model without tools: the type of the answer, the question, the text, the run."""
Find: TypeAlias = Callable[[str, RunContext[Any]], Any]
"""Returns the value of a reference, and adds its label to the run's call."""


def make_handle_tools(handles: Handles, extract: Extractor) -> Sequence[JsonTool[..., Any]]:
    """Return the tools with which a model uses hidden results.

    Args:
        handles: The hidden results.
        extract: Answers a question about a text.
    """

    def find(reference: str, run: RunContext[Any]) -> Any:
        try:
            value, label = handles.find(reference.strip())
        except UnknownHandle as error:
            raise ToolError(str(error)) from None
        run.origin.add(label)
        return value

    def reveal_result(reference: str, run: RunContext[Any]) -> str:
        """Shows the text of a hidden result. Then later calls with effects need a person's decision.

        Where you can, pass it on unread: give #3 or #3.body as an argument of another tool or of the answer, or write
        {#3.body} inside a text.

        Args:
            reference: The result or one of its fields, such as #3 or #3.subject.
        """
        return render_text(find(reference, run))

    return tuple(JsonTool(tool, effect="read") for tool in (reveal_result, *_make_extract_tools(find, extract)))


def _make_extract_tools(find: Find, extract: Extractor) -> Sequence[Callable[..., Any]]:
    async def extract_value(
        reference: str, question: str, kind: Kind, run: RunContext[Any], choices: list[str] | None = None
    ) -> Any:
        """Answers a question about a hidden result, by a value of a limited kind.

        Args:
            reference: The result or one of its fields, such as #3 or #3.subject.
            question: What to find out.
            kind: The kind of the answer.
            choices: The possible answers, if the kind is choice.
        """
        if kind == "choice" and not choices:
            raise ToolError("choices: expected the possible answers.")
        kinds: dict[Kind, Any] = {"yes_or_no": bool, "number": float, "date": date}
        wanted = Literal[tuple(choices)] if kind == "choice" and choices else kinds[kind]
        return await extract(wanted, question, render_text(find(reference, run)), run)

    async def extract_text(reference: str, question: str, run: RunContext[Any]) -> str:
        """Writes a text from a hidden result, such as an address in it, a list or a summary. The text is hidden, too.

        Pass it on by its own reference, such as #4.

        Args:
            reference: The result or one of its fields, such as #3 or #3.subject.
            question: What to write.
        """
        text = render_text(find(reference, run))
        run.origin.add(Label.untrusted(EXTRACT_TEXT))
        return str(await extract(str, question, text, run))

    return extract_value, extract_text
