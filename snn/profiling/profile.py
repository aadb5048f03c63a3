"""The profile of a cell: why it takes the time it takes, from separate passes after the timed runs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.profiling.call_costs import LEAST_SECONDS, CallCost, call_costs
from snn.profiling.events import Signature, Trace
from snn.profiling.schedule import simulate
from snn.profiling.time_breakdown import TimeBreakdown, break_down
from snn.profiling.tracer import trace
from snn.strategies.common.job import Job


@dataclass(frozen=True)
class Profile:
    """Where one run's time goes, its calls with their costs, and the time predicted from these.

    ``calls`` counts a run's calls by signature. ``predicted_seconds`` is of a run's calls alone, without host
    arithmetic.
    """

    time_breakdown: TimeBreakdown
    trace: Trace
    calls: Mapping[Signature, int]
    call_costs: Mapping[Signature, CallCost]
    predicted_seconds: float

    def plain(self) -> dict[str, Any]:
        """The profile as a record holds it, under ``explanation``."""
        return {
            "attribution": asdict(self.time_breakdown),
            "trace": self.trace.plain(),
            "calls": [
                {**signature._asdict(), "count": count, **asdict(self.call_costs[signature])}
                for signature, count in self.calls.items()
            ],
            "predicted_calls_seconds": self.predicted_seconds,
        }


def profile(job: Job, backend: Backend, max_seconds: float = 0.0) -> Profile:
    """Break a run's time down, trace two steps and measure what their calls cost. Raises OutOfMemory.

    No pass goes on for much longer than ``max_seconds``.
    """
    traced = trace(job, backend)
    steps = job.epochs * -(-len(job.X) // job.batch_size) / traced.steps
    counts = Counter(event.signature for event in traced.events)
    calls = {signature: round(n * steps) for signature, n in counts.items()}
    costs = call_costs(backend, traced, min(LEAST_SECONDS, max_seconds))
    breakdown = break_down(job, backend, max_seconds)
    breakdown = _with_kernels(breakdown, steps * _kernel_seconds(traced), backend)
    return Profile(breakdown, traced, calls, costs, steps * simulate(traced.events, costs))


def _kernel_seconds(traced: Trace) -> float:
    """Seconds that the device computed, in all steps of the trace."""
    return sum(
        event.device_end - event.device_start
        for event in traced.events
        if (event.signature.call in OPS or event.signature.call == "graph_launch")
        and event.device_start is not None
        and event.device_end is not None
    )


def _with_kernels(breakdown: TimeBreakdown, seconds: float, backend: Backend) -> TimeBreakdown:
    """The kernels as a part of their own: out of the waiting that hides them, or, where a launch returns only
    when all is done, out of the launches."""
    parts = dict(breakdown.seconds)
    hidden_in = "waiting" if backend.asynchronous else "launch"
    parts["kernels"] = min(seconds, parts[hidden_in])
    parts[hidden_in] -= parts["kernels"]
    return TimeBreakdown(breakdown.epochs, parts)
