"""The tool that ends a run: its argument is the answer, so the answer's type is validated like any argument."""

import inspect
from typing import Any

from .json_tool import JsonTool

FINAL_ANSWER = "final_answer"
DESCRIPTION = "Give the final answer and end the task: when it is done, or to say why it cannot be done."


def answer_tool(answer: Any = str) -> JsonTool[..., Any]:
    """The tool `final_answer` for answers of type `answer`: any type that pydantic can validate."""
    if answer is str:
        return JsonTool(_text, name=FINAL_ANSWER, description=DESCRIPTION)

    def typed(answer: Any) -> Any:
        return answer

    typed.__annotations__ = {"answer": answer, "return": answer}
    typed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("answer", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=answer)]
    )
    return JsonTool(typed, name=FINAL_ANSWER, description=DESCRIPTION)


def _text(text: str) -> str:
    """The plain answer.

    Args:
        text: The whole answer, as the person should read it.
    """
    return text
