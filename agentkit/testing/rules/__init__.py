"""The providers' rules for requests, from their documentation and their error messages.

This package shares no code with `agentkit.models.litellm`, because its purpose is to find the defects there.
"""
