"""Ask the person for what only they know."""

from collections.abc import Sequence

import agentkit

from .declarations import declare


@declare(effect="read")
def ask_user(question: str, choices: Sequence[str] = ()) -> str:
    """Ask the person who gave the task, where something that only they know is missing. Never guess it.

    Args:
        question: The question, in one or two sentences, in the person's language.
        choices: The answers to choose from; leave it out for an answer in their own words.

    Returns:
        The person's answer.
    """
    options = list(dict.fromkeys(choices))
    answer: str = agentkit.ask_question(
        question, {"type": "string", "enum": options} if options else {"type": "string"}
    )
    return answer
