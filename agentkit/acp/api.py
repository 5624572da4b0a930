"""The SDK of ACP, or the error that names the package."""

from ..extend import missing_package

try:
    import acp as acp
    from acp import schema as schema
    from acp.exceptions import RequestError as RequestError
except ImportError:
    raise missing_package("acp", "agent-client-protocol>=0.12.1,<0.13") from None
