"""The groups of messages that must stay together."""

from collections.abc import Sequence
from itertools import pairwise

from ...core.messages import Message


def split_groups(messages: Sequence[Message]) -> list[slice]:
    """Split a conversation into groups, in order: an assistant message with its tool messages, any other one alone.

    A valid conversation stays valid when whole groups are removed, except for the role that comes first.
    """
    starts = [place for place, message in enumerate(messages) if place == 0 or message["role"] != "tool"]
    return [slice(start, end) for start, end in pairwise([*starts, len(messages)])]
