"""A conversation in pieces that must stay whole."""

from collections.abc import Sequence
from itertools import pairwise

from ...core.messages import Message


def split_groups(messages: Sequence[Message]) -> list[slice]:
    """The conversation in whole groups, in order: an assistant message with its tool messages, any other by itself.

    What is left of a valid conversation without some of its groups is valid too, but for who speaks first.
    """
    starts = [place for place, message in enumerate(messages) if place == 0 or message["role"] != "tool"]
    return [slice(start, end) for start, end in pairwise([*starts, len(messages)])]
