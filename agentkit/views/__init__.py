"""Who watches a run: each listener is a function of one event."""
