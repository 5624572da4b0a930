"""The files of tools in the folder of the command line's tests."""

TOOLS = '''
import time
from os.path import join
from agentkit import tool

def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b

def greet(name: str, loud: bool = False) -> str:
    """Greets a person.

    Args:
        name: Whom to greet.
    """
    return f"Hello {name}!"

def _private() -> None:
    pass
'''
MORE = '''
import time
from agentkit import tool

@tool
def wait_for(seconds: int) -> str:
    """Waits for some seconds."""
    time.sleep(seconds)
    return "waited"

@tool(effect="danger")
def delete_file(name: str) -> str:
    """Deletes a file."""
    return f"deleted {name}"

@tool(on_error="raise")
def burn(place: str) -> str:
    """Burns something."""
    raise ValueError(f"{place} is\\non fire")
'''
