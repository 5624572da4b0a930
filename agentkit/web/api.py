"""Starlette and uvicorn, or the error that names the packages."""

from ..extend import missing_package

try:
    import uvicorn as uvicorn
    from starlette.applications import Starlette as Starlette
    from starlette.middleware import Middleware as Middleware
    from starlette.requests import Request as Request
    from starlette.responses import JSONResponse as JSONResponse
    from starlette.responses import Response as Response
    from starlette.responses import StreamingResponse as StreamingResponse
    from starlette.routing import Route as Route
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as AutoHTTPProtocol
except ImportError as error:
    raise missing_package("web", "starlette>=0.45", "uvicorn>=0.30", missing=error.name) from None
