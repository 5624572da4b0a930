"""A model that pays money back when it is asked to, and else repeats what the user has written."""

from agentkit.testing import answer, call


def reply(request):
    """Refund once when it is asked for; else tell what the user has written so far."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return answer("done")
    if "refund" in last["content"]:
        return call("refund", euros=4)
    return answer(" / ".join(message["content"] for message in request.messages if message["role"] == "user"))
