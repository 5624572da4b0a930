"""Runs, conversations and tools as HTML: one file that loads nothing else, complete without its script."""

from .evals import eval_page as eval_page
from .evals import format_eval_figures as format_eval_figures
from .markup import write_page as write_page
from .run import agent_view as agent_view
from .run import compare_page as compare_page
from .run import live_view as live_view
from .run import prose_view as prose_view
from .run import result_markdown as result_markdown
from .run import result_page as result_page
from .run import result_view as result_view
from .run import session_markdown as session_markdown
from .run import session_page as session_page
from .run import session_view as session_view
from .run import tools_markdown as tools_markdown
from .tool_catalogue import catalogue_page as catalogue_page
from .tool_catalogue import registry_view as registry_view
from .tool_catalogue import tool_view as tool_view
