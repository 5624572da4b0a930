"""`JsonAgent`: the options of a run, the order of policies, the runner, agents as tools, hand-offs and batches.

Everything else lies below; only the command line and other doors lie above.
"""
