"""From the content of a message of AG-UI to a query: a text, or texts with images, documents and audio."""

from typing import Any

Json = dict[str, Any]


def query_of(content: str | list[Json] | None) -> Any:
    """Return the query in the content of a user message, None without one."""
    if content is None or isinstance(content, str):
        return content
    texts = [part.get("text", "") for part in content if part.get("type") == "text"]
    return "\n".join(texts)
