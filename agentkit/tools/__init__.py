"""A Python callable as a tool: its definition, the validation and repair of its arguments, its execution, the registry.

Nothing here knows models, the loop or policies.
"""
