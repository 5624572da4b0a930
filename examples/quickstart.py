"""Questions answered with the bundled tools: `python examples/quickstart.py`.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

import sys
from textwrap import indent

import agentkit
from agentkit import JsonAgent
from agentkit_tools import calculate, current_time, days_between, get_weather

agentkit.log.show(sys.stdout)

agent = JsonAgent([calculate, current_time, days_between, get_weather], description="You answer everyday questions.")

for query in (
    "What is 15% of 2,340?",
    "What time is it in Tokyo, and how many days are there between 2026-11-21 and 2026-12-25?",
    "What is the weather in Kolkata?",
):
    answer = agent(query=query)
    print(f"\n{query}\n{indent(answer, '    ')}\n")
