"""All ways to see a run: log, terminal, notebook, progress, JSON lines and HTML pages.

A view is a function of one event or of plain data.  Nothing here knows policies, models or sessions.
"""
