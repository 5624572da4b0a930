"""The agent of the tests of the page and of AG-UI: its model replies by the words of the query."""

import asyncio
from base64 import b64decode

from agentkit import Image, JsonAgent, ModelError, Plan, ask_question, tool
from agentkit.testing import ScriptedModel, answer, call, calls

PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
HOSTILE = """The price is **3.50 euros**.

# Heading <script>window.hacked = 1</script>

<img src=x onerror="window.hacked = 1"> ![pixel](http://127.0.0.1:9/pixel.png) [click](javascript:window.hacked=1)
[data](data:text/html;base64,PHNjcmlwdD4=) <javascript:window.hacked=1> [safe](https://example.com/?a=1&b=<b>)

| item | price |
|---|---|
| tea<svg onload=window.hacked=1> | 3.50 |

```html
<script>window.hacked = 1</script>
```
"""


def price_of(item: str) -> float:
    """Look up the price of an item, in euros."""
    return {"tea": 3.5, "coffee": 4.25}[item]


@tool(effect="danger")
def refund(customer: str, euros: float) -> str:
    """Pay money back."""
    return f"{euros} euros went to {customer}"


def book(city: str) -> str:
    """Book a room."""
    return f"{ask_question(f'How many nights in {city}?', int)} nights"


def draw() -> Image:
    """Draw a pixel."""
    return Image.from_bytes(PIXEL)


async def work() -> str:
    """Work for a while."""
    await asyncio.sleep(4)
    return "worked"


stumbles: list[str] = []
"""The queries over which the model has stumbled: it does so once."""


def reply(request):
    """Choose the reply by the last message and the last query."""
    last = request.messages[-1]
    if last["role"] == "tool" and last["content"] == "1. [ ] Look\n2. [ ] Tell <b>Ada</b>":
        return call("tick_off", steps=[1])
    query = [str(message["content"]) for message in request.messages if message["role"] == "user"][-1]
    if last["role"] == "tool" and "slowly" in query and last["content"] != "worked":
        return call("work")
    if last["role"] == "tool" and "stumble" in query:
        if query not in stumbles:
            stumbles.append(query)
            return ModelError("the key was refused", kind="authentication")
        return {**answer(f"It is done: {last['content']}"), "usage": {"input_tokens": 1200, "cost": 0.0123}}
    if last["role"] == "tool":
        return answer(HOSTILE if "price" in query else f"It is done: {last['content']}")
    if "fail" in query:
        return ModelError("the key was refused", kind="authentication")
    for word, chosen in {
        "twice": calls(call("refund", customer="Ada", euros=3), call("refund", customer="Ada", euros=4)),
        "refund": call("refund", customer="Ada", euros=4),
        "clerk": call("clerk", query="price of tea"),
        "consult": call("consult"),
        "book": call("book", city="Rome"),
        "stumble": call("price_of", item="coffee"),
        "work": call("work"),
        "steps": call("write_plan", steps=["Look", "Tell <b>Ada</b>"]),
        "map": call("show_map", place="Rome"),
        "draw": call("draw"),
        "long": answer("\n\n".join(["a paragraph of words"] * 500)),
        "price": calls(call("price_of", item="tea"), call("price_of", item="gold")),
    }.items():
        if word in query:
            return chosen
    return answer(f"You wrote {len(query)} characters.")


def clerk_reply(request):
    """Look up the price of tea, and report it."""
    return call("price_of", item="tea") if request.messages[-1]["role"] == "user" else answer("3.5")


clerk = JsonAgent(price_of, model=ScriptedModel([clerk_reply] * 100, name="small"), description="Knows the prices.")


def consult() -> str:
    """Consult the clerk."""
    return clerk("price of tea")


agent = JsonAgent(
    price_of, refund, book, draw, work, consult, clerk.as_tool("clerk"), model=ScriptedModel([reply] * 500, name="scripted"),
    description="I know the prices of the shop.", extensions=[Plan()],
)  # fmt: skip
