"""A web service that answers GET /?q=... with an agent, many requests concurrently on one event loop.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

import asyncio
import json
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

from agentkit import JsonAgent, RunError

arrived = asyncio.Barrier(3)


async def price_of(item: Literal["tea", "coffee", "cocoa"]) -> float:
    """Look up the price of an item of the shop, in euros."""
    await arrived.wait()  # as slow as a database: continues when all three requests are here
    return {"tea": 3.5, "coffee": 4.25, "cocoa": 5.0}[item]


agent = JsonAgent([price_of], memory=False)  # for all requests, each of them a conversation of its own


async def answer_query(query: str) -> tuple[str, dict]:
    try:
        result = await agent.arun(query)
    except RunError as error:
        return "502 Bad Gateway", {"error": str(error), "requests": error.usage.requests}
    return "200 OK", {"answer": result.answer, "steps": result.steps, "dollars": result.cost}


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")
    query = parse_qs(urlsplit(head[1]).query).get("q", [""])[0]
    status, reply = await answer_query(query) if query else ("400 Bad Request", {"error": "ask with /?q=..."})
    body = json.dumps(reply)
    writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}".encode())
    writer.close()


async def get(port: int, query: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /?q={quote(query)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    reply = (await reader.read()).decode()
    writer.close()
    return f"{reply.splitlines()[0]}  {reply.splitlines()[-1]}"


async def main() -> None:
    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        queries = [f"What is the price of {item}?" for item in ("tea", "coffee", "cocoa")]
        for query, reply in zip(queries, await asyncio.gather(*(get(port, query) for query in queries)), strict=True):
            print(f"{query:28} {reply}")
        print(f"{'':28} {await get(port, '')}")


asyncio.run(main())
