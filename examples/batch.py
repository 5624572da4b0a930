"""Many queries at once with `map`: results in order, a failure in its place, and the total usage.

It runs without a key and without a network; AGENTKIT_MODEL="openai/gpt-4o-mini", with its key, asks a real model.
"""

from agentkit import JsonAgent, Result, Usage, tool

POPULATION = {"Oslo": 709_000, "Rome": 2_755_000, "Pune": 3_124_000, "Kolkata": 4_497_000, "Vaduz": 5_700}


@tool(effect="read")
def population_of(city: str) -> int:
    """Look up the population of a city."""
    return POPULATION[city]


agent = JsonAgent([population_of], answer=int)  # every answer is an integer, or the query fails
queries = [f"What is the population of {city}?" for city in (*POPULATION, "Atlantis")]

total = Usage()
outcomes = agent.map(queries, concurrency=4)  # imap yields each as it is ready; amap and aimap are for async code
for query, outcome in zip(queries, outcomes, strict=True):
    total += outcome.usage  # a failed run has its usage as well
    if isinstance(outcome, Result):
        print(f"{query:36} {outcome.answer:>9,}")
    else:
        print(f"{query:36} {type(outcome).__name__}: {str(outcome).splitlines()[0]:.60}")
answers = [outcome.answer for outcome in outcomes if isinstance(outcome, Result)]
print(f"\n{len(answers)} of {len(queries)} answered; together {sum(answers):,} people")
print(f"{total.requests} requests, {total.input_tokens + total.output_tokens} tokens, ${total.cost:.4f}")
