"""The backends that answer requests, and the parts to write one; nothing here knows policies or views."""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..core.messages import assistant as assistant
    from ..engine.model import Model as Model
    from ..engine.model import Reply as Reply
    from ..engine.model import Request as Request
    from ..engine.model import TextDelta as TextDelta
    from ..engine.model import ThinkingDelta as ThinkingDelta
    from ..engine.model import ToolCallDelta as ToolCallDelta
    from .litellm.importing import tune as tune
    from .litellm.model import LiteLLMModel as LiteLLMModel
    from .offline.model import OfflineModel as OfflineModel

_HOMES = {
    "core.messages": ["assistant"],
    "engine.model": ["Model", "Reply", "Request", "TextDelta", "ThinkingDelta", "ToolCallDelta"],
    "models.litellm.importing": ["tune"],
    "models.litellm.model": ["LiteLLMModel"],
    "models.offline.model": ["OfflineModel"],
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
