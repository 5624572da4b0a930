"""`python -m agentkit.cli`, where the script is not on the path."""

from . import main

main()
