"""Questions with images: a picture goes with the question, and a tool returns another one.

It runs without a key: a provider on the loopback plays the model's replies.  AGENTKIT_MODEL="openai/gpt-4o-mini", with
its key, asks a real one.
"""

import os
import struct
import zlib

from agentkit import Image, JsonAgent, ModelError
from agentkit.testing import ModelServer, answer, call


def make_picture(width: int, height: int, red: int, green: int, blue: int) -> bytes:
    """Return a PNG of one colour."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes((red, green, blue)) * width) * height)
    chunks = ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def paint(red: int, green: int, blue: int) -> Image:
    """Paint a picture of one colour.

    Args:
        red: 0 to 255.
        green: 0 to 255.
        blue: 0 to 255.
    """
    return Image.from_bytes(make_picture(64, 64, red, green, blue))


def main() -> None:
    picture = Image.from_bytes(make_picture(64, 64, 200, 30, 30), name="wall.png")
    replies = [call("paint", red=200, green=30, blue=30), answer("The wall is red. I painted another one like it.")]
    with ModelServer(replies) as server:
        local = {"api_base": server.api_base("openai"), "api_key": "not-a-real-key"}
        name = os.environ.get("AGENTKIT_MODEL", "")
        agent = JsonAgent(paint, model=name or "openai/gpt-4o-mini", **({} if name else local))
        result = agent.run(["Which colour is this wall? Paint one like it.", picture])
    print(result.answer)
    for message in result.messages:
        if isinstance(message.get("content"), list):
            print(f"{message['role']}: {', '.join(part['type'] for part in message['content'])}")

    blind = JsonAgent(paint, model="openai/gpt-3.5-turbo", api_key="not-a-real-key")
    try:
        blind.run(["And this one?", picture])
    except ModelError as error:  # before a request is sent
        print(error)


main()
