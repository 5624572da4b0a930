"""Tools whose results have limited readers, and tools that send data."""

from agentkit import tool
from agentkit.testing import call

ANN = "ann@home.example"
BOB = "bob@home.example"
QUERY = f"Tell {ANN} and {BOB} hello."


@tool(effect="read", readers=[ANN, "keep"])
def get_pay() -> str:
    """Gets the pay."""
    return "Cid earns 4,711 a month."


@tool(effect="read", readers=[BOB, ANN])
def get_plan() -> str:
    """Gets the plan."""
    return "We move in May."


@tool(effect="read")
def get_news() -> str:
    """Gets the news."""
    return "It rains in Rome."


@tool(effect="write")
def send(to: str | list[str], text: str = "", urgent: bool = False) -> str:
    """Sends a mail."""
    return "sent"


@tool(effect="write")
def keep(text: str) -> str:
    """Keeps a note."""
    return "kept"


@tool(effect="write")
def post(text: str = "", loud: bool = False) -> str:
    """Posts on the wall."""
    return "posted"


@tool(effect="read")
def fetch(url: str) -> str:
    """Fetches a page."""
    return "a page"


@tool
def count(text: str) -> int:
    """Counts letters."""
    return len(text)


TOOLS = (get_pay, get_plan, get_news, send, keep, post, fetch, count)
PAY = call("get_pay")
