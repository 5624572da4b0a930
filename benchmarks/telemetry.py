"""CPU of a turn with telemetry off, on without an SDK, and on with the SDK and a batch processor; no network.

`python benchmarks/telemetry.py` prints one row for each.  Each is measured in a process of its own.
"""

import subprocess
import sys
import time

TURNS = 60
ROUNDS = 25


def measure(kind: str) -> float:
    """Return the least CPU time of a turn, in microseconds."""
    from agentkit import JsonAgent
    from agentkit.testing import ScriptedModel, answer, call

    if kind == "SDK":
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
        trace.set_tracer_provider(provider)

    def add(a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    times = []
    for _ in range(ROUNDS):
        replies = [*(call("add", a=turn, b=2) for turn in range(TURNS)), answer("done")]
        model = ScriptedModel(replies)
        agent = JsonAgent(add, model=model, max_steps=TURNS + 2, **({} if kind == "off" else {"telemetry": True}))
        begin = time.process_time()
        agent("What are the sums?")
        times.append((time.process_time() - begin) / TURNS * 1e6)
    return min(times)


def main() -> None:
    """Print a row for each setting, or measure the one that is named."""
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
        return
    for kind in ("off", "API", "SDK"):
        done = subprocess.run([sys.executable, __file__, kind], check=True, capture_output=True, text=True)
        print(f"{kind:4} {float(done.stdout):5.0f} us of CPU a turn")


if __name__ == "__main__":
    main()
