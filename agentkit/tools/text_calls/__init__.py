"""Tool calls that a model wrote as text instead of calling the tool."""
