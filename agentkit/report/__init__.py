"""What happened, as a page: one file of HTML and CSS, without scripts and without anything from outside."""

from .catalogue import catalogue_page, registry_view, tool_view
from .markup import page
from .run import result_page, result_view, session_page, session_view

__all__ = [
    "catalogue_page",
    "page",
    "registry_view",
    "result_page",
    "result_view",
    "session_page",
    "session_view",
    "tool_view",
]
