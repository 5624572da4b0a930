"""`python -m agentkit.cli`, where the script `agentkit` is not on the path."""

from . import main

main()
