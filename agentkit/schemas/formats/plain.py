"""The plain form: the JSON Schema of the arguments (draft 2020-12), with the tool's name and description."""

from .declaration import ROOT, Declaration, Loss, RenderedTool


def to_plain(declaration: Declaration) -> RenderedTool:
    """Return the schema itself; its `description` is the tool's."""
    schema = {**declaration.parameters}
    losses = []
    own = schema.pop("description", None)
    text = declaration.description or own
    if own and own != text:
        losses.append(Loss(ROOT, "description", own, "dropped: the tool's own description stands there"))
    head = {"description": text} if text else {}
    return RenderedTool({**head, **schema}, tuple(losses))
