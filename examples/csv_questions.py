"""Questions about tables in files, answered by SQL with the rows behind the answer.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model, which
writes the queries itself.  It needs the package duckdb.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from agentkit import JsonAgent
from agentkit_tools import table_tools

ORDERS = """\
day,city,item,pieces,euros
2026-03-02,Rome,tea,12,42.00
2026-03-02,Pune,coffee,5,21.25
2026-03-09,Rome,coffee,8,34.00
2026-03-16,Oslo,tea,30,105.00
2026-03-16,Pune,tea,7,24.50
2026-04-06,Rome,tea,4,14.00
2026-04-13,Oslo,coffee,11,46.75
"""
QUESTIONS = (
    "Describe the tables.",
    "How many euros for tea in Rome? Query: \"SELECT sum(euros) FROM orders WHERE city = 'Rome' AND item = 'tea'\"",
    'Query the pieces of each city: "SELECT city, avg(pieces) AS average FROM orders GROUP BY city ORDER BY average"',
    "Query the largest order of coffee: \"SELECT max(euros) FROM 'orders.csv' WHERE item = 'coffee'\"",
)

with TemporaryDirectory() as folder:
    (Path(folder) / "orders.csv").write_text(ORDERS)
    agent = JsonAgent(table_tools(folder))
    for question in QUESTIONS:
        result = agent.run(question)
        for call in result.calls[:-1]:
            print(f"{call.call.name}({call.call.arguments})")
        print(result.answer, end="\n\n")
