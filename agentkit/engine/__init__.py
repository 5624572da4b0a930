"""The agent loop without I/O, what it asks of models, the history that is its state, and the result.

Nothing here decides about steps or talks to a provider: policies and models do.
"""
