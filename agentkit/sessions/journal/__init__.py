"""The journal of runs: its stores, what is written and read, and its maintenance; `agentkit.journal` is its face."""
