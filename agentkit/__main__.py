"""`python -m agentkit`, where the script `agentkit` is not on the path."""

from .cli import main

main()
