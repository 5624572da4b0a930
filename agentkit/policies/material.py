"""What the answer of a run can rest on."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.delimiters import unfenced
from ..core.messages import Message, text_of
from ..engine.loop import REMINDER


@dataclass(frozen=True, slots=True)
class Material:
    """The conversation that led to an answer; `answer_tool` is the tool whose results are about the answer itself."""

    messages: Sequence[Message]
    answer_tool: str = ""

    @property
    def query(self) -> str:
        """The last that the person said."""
        said = [text_of(message) for message in self.messages if message["role"] == "user"]
        return next((text for text in reversed(said) if text != REMINDER), "")

    @property
    def results(self) -> list[str]:
        """What the tools returned, as the model read it, without the fences around what came from outside."""
        return [
            unfenced(text_of(message))
            for message in self.messages
            if message["role"] == "tool" and message.get("name") != self.answer_tool
        ]

    @property
    def text(self) -> str:
        """All that the model was told: the instruction, what was said by the person, and the tools' results."""
        said = [text_of(message) for message in self.messages if message["role"] in ("system", "user")]
        return "\n".join([*said, *self.results])
