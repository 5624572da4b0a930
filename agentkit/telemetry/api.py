"""OpenTelemetry's API, or the error that names its package."""

from ..extend import missing_package

try:
    from opentelemetry import context as context
    from opentelemetry import metrics as metrics
    from opentelemetry import propagate as propagate
    from opentelemetry import trace as trace
except ImportError:
    raise missing_package("telemetry", "opentelemetry-api>=1.30") from None
