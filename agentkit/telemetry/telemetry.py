"""The settings of the telemetry, its tracer and its histograms, shared by all runs that it observes."""

import os
from typing import Any

from ..agents.instruments import ObservedRun
from . import names
from .api import metrics, trace
from .run_spans import RunSpans
from .span import Attributes

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Telemetry:
    """Report runs to OpenTelemetry: `JsonAgent(..., telemetry=Telemetry(content=True))`.

    Args:
        content: Record messages, arguments and results as well, secrets masked.  Default: the environment variable
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, else no.
        agent_name: The name of an agent that no other one uses; agents inside tools have their tool's name.
        tracer_provider: Where spans go; default: OpenTelemetry's global provider.
        meter_provider: Where metrics go; default: OpenTelemetry's global provider.
    """

    def __init__(
        self,
        *,
        content: bool | None = None,
        agent_name: str = "",
        tracer_provider: "trace.TracerProvider | None" = None,
        meter_provider: "metrics.MeterProvider | None" = None,
    ) -> None:
        if content is None:
            content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() in ("1", "true")
        self.content = content
        self.agent_name = agent_name
        self.tracer = trace.get_tracer("agentkit", tracer_provider=tracer_provider)
        meter = metrics.get_meter("agentkit", meter_provider=meter_provider)
        self._histograms = {
            name: meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
            for name, unit, description, bounds in (
                (names.OPERATION_DURATION, "s", "GenAI operation duration.", names.SECONDS_BOUNDS),
                (names.TOKEN_USAGE, "{token}", "Number of input and output tokens used.", names.TOKEN_BOUNDS),
                (names.AGENT_DURATION, "s", "The duration of an agent invocation.", names.AGENT_SECONDS_BOUNDS),
                (names.TOOL_DURATION, "s", "The duration of a single tool execution.", names.SECONDS_BOUNDS),
            )
        }

    def observe(self, run: ObservedRun) -> RunSpans:
        """Return the listener and the policy of one run."""
        return RunSpans(self, self, run)

    def record(self, metric: str, value: float, attributes: Attributes, context: Any = None) -> None:
        """Add a value to a histogram; `context` holds the span that it belongs to."""
        self._histograms[metric].record(value, attributes, context)
