"""`python -m agentkit.cli`, the former spelling of `python -m agentkit`."""

from . import main

main()
