"""The wire formats of providers on the server's side: a scripted reply as JSON and as a stream."""

from .anthropic import ANTHROPIC
from .gemini import GEMINI
from .ollama import OLLAMA
from .openai import GROQ, OPENAI
from .reply import Json, Wire, drop_missing
from .responses import RESPONSES

__all__ = ["Json", "Wire", "drop_missing", "find_wire"]


def find_wire(path: str) -> Wire | None:
    """Return the wire format of a path; None for an unknown path."""
    if path.endswith("/chat/completions"):
        return GROQ if path.startswith("/openai/") else OPENAI
    if path.endswith("/v1/responses"):
        return RESPONSES
    if path.endswith("/v1/messages"):
        return ANTHROPIC
    if path.partition(":")[2] in ("generateContent", "streamGenerateContent"):
        return GEMINI
    return OLLAMA if path.endswith("/api/chat") else None
