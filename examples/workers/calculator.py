"""The agent of the workers in compose.yaml; alone: `agentkit worker calculator.py:agent --db sqlite:///runs.db`."""

from agentkit import JsonAgent, tool


@tool(effect="read")
def multiply(a: int, b: int) -> int:
    """Multiply two integers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a * b


agent = JsonAgent(multiply, model="offline")
