"""What a paused run waits for, asked in the editor: permissions, and forms for the questions of tools."""

from collections.abc import Mapping
from typing import Any

from ..core.approval_question import PersonAnswer
from ..core.question_form import SIMPLE_TYPES, describe_schema, read_form, to_form
from ..views.frames import PendingInput
from .api import acp, schema
from .updates import UpdateEncoder

ALLOW, ALLOW_VALUES, REJECT = "allow", "allow_values", "reject"
MAX_OPTION_CHARS = 80


async def ask_permission(
    client: Any, session: str, pending: PendingInput, encoder: UpdateEncoder
) -> PersonAnswer | None:
    """Return the person's decision about a call; None if the client cancelled the question."""
    for update in encoder.announce(pending):
        await client.session_update(session, update)
    call = schema.ToolCallUpdate(
        tool_call_id=pending.id,
        title=encoder.title_of(pending),
        status="pending",
        content=[acp.tool_content(acp.text_block(pending.text))],
    )
    options = [schema.PermissionOption(option_id=ALLOW, name="Allow once", kind="allow_once")]
    if pending.values:
        name = f"Allow, also later with {pending.values[:MAX_OPTION_CHARS]}"
        options.append(schema.PermissionOption(option_id=ALLOW_VALUES, name=name, kind="allow_always"))
    options.append(schema.PermissionOption(option_id=REJECT, name="Reject", kind="reject_once"))
    response = await client.request_permission(session, call, options)
    if not isinstance(response.outcome, schema.AllowedOutcome):
        return None
    chosen = response.outcome.option_id
    return PersonAnswer(chosen in (ALLOW, ALLOW_VALUES), "values" if chosen == ALLOW_VALUES else "call")


async def ask_form(client: Any, session: str, pending: PendingInput, form: Mapping[str, Any]) -> tuple[Any, ...]:
    """Ask a question in a form; return the answer in a tuple, an empty one if the person gave none."""
    mode = schema.ElicitationFormSessionMode(
        session_id=session, requested_schema=schema.ElicitationSchema.model_validate(form)
    )
    response = await client.create_elicitation(pending.text, mode)
    content = getattr(response, "content", None)
    if response.action != "accept" or content is None:
        return ()
    return (read_form(pending.schema or {}, content),)


def form_of(pending: PendingInput) -> Mapping[str, Any] | None:
    """Return the schema of the form for a question; None if a form cannot ask for such a value."""
    form = to_form(pending.schema or {})
    return form if all(map(_is_simple, form["properties"].values())) else None


def _is_simple(wanted: Any) -> bool:
    return isinstance(wanted, dict) and wanted.get("type") in SIMPLE_TYPES


def describe_question(pending: PendingInput) -> str:
    """Return a question as text, for an editor without forms."""
    return f"{pending.text}\n\n(Your next message is the answer: {describe_schema(pending.schema or {})}.)\n\n"
