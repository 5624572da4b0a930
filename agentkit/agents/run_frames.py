"""A run as a stream of frames, for doors and views that drive it themselves."""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, closing
from typing import Any, Unpack

from ..core.flow import Listener
from ..core.parts import Query
from ..views.frames import Frame, draw_frames
from .agent import JsonAgent
from .options import RunOptions


def stream_frames(
    agent: JsonAgent[Any], query: Query | None = None, **how: Unpack[RunOptions]
) -> Generator[Frame, None, None]:
    """Run an agent and yield the frames of the run as they happen; `RunClosed` is the last one of the run itself.

    Args:
        agent: The agent.
        query: As for `JsonAgent.run`; None continues the conversation.
        **how: The options of `JsonAgent.run`.

    Raises:
        AgentkitError: The run failed or was paused; the last frame is its `RunClosed` then, too.
    """
    frames: list[Frame] = []
    try:
        with closing(agent.stream(query, **_with_listener(how, draw_frames(frames.append)))) as events:
            for _ in events:
                yield from frames
                frames.clear()
    except Exception:
        yield from frames
        raise
    yield from frames


async def astream_frames(
    agent: JsonAgent[Any], query: Query | None = None, **how: Unpack[RunOptions]
) -> AsyncGenerator[Frame, None]:
    """Do `stream_frames` on the running event loop."""
    frames: list[Frame] = []
    try:
        async with aclosing(agent.astream(query, **_with_listener(how, draw_frames(frames.append)))) as events:
            async for _ in events:
                for frame in frames:
                    yield frame
                frames.clear()
    except Exception:
        for frame in frames:
            yield frame
        raise
    for frame in frames:
        yield frame


def _with_listener(how: RunOptions, listener: Listener) -> RunOptions:
    given: Sequence[Listener] = how.get("listeners", ())
    return {**how, "listeners": [*given, listener]}
