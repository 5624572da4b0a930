"""Views of a run: the log, terminals, notebooks, pages.  A view is a listener, a function of one event."""
