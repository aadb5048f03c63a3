"""Why a cell takes the time it takes: passes of their own, after the timed runs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.profiling.call_costs import LEAST_SECONDS, Price, price
from snn.profiling.events import Signature, Trace
from snn.profiling.schedule import predict
from snn.profiling.time_breakdown import Attribution, attribute
from snn.profiling.tracer import trace
from snn.strategies.common.job import Job


@dataclass(frozen=True)
class Explanation:
    """Where one run's time goes, its calls with their prices, and what these prices foretell.

    ``calls`` counts a run's calls by signature. ``predicted_seconds`` is of a run's calls alone, without host
    arithmetic.
    """

    attribution: Attribution
    trace: Trace
    calls: Mapping[Signature, int]
    prices: Mapping[Signature, Price]
    predicted_seconds: float

    def plain(self) -> dict[str, Any]:
        """As a record holds it."""
        return {
            "attribution": asdict(self.attribution),
            "trace": self.trace.plain(),
            "calls": [
                {**signature._asdict(), "count": count, **asdict(self.prices[signature])}
                for signature, count in self.calls.items()
            ],
            "predicted_calls_seconds": self.predicted_seconds,
        }


def explain(job: Job, backend: Backend, max_seconds: float = 0.0) -> Explanation:
    """Attribute a run's time to its parts, trace two steps, price their calls. Raises OutOfMemory.

    No pass goes on for much longer than ``max_seconds``.
    """
    traced = trace(job, backend)
    steps = job.epochs * -(-len(job.X) // job.batch_size) / traced.steps
    calls = {one: round(n * steps) for one, n in Counter(e.signature for e in traced.events).items()}
    prices = price(backend, traced, min(LEAST_SECONDS, max_seconds))
    attribution = _with_kernels(
        attribute(job, backend, max_seconds), steps * _kernel_seconds(traced), backend
    )
    return Explanation(attribution, traced, calls, prices, steps * predict(traced.events, prices))


def _kernel_seconds(traced: Trace) -> float:
    """Seconds that the device computed, in all steps of the trace."""
    return sum(
        event.device_end - event.device_start
        for event in traced.events
        if (event.signature.call in OPS or event.signature.call == "graph_launch")
        and event.device_start is not None
        and event.device_end is not None
    )


def _with_kernels(attribution: Attribution, seconds: float, backend: Backend) -> Attribution:
    """The kernels as a part of their own: out of the waiting that hides them, or, where a launch returns only
    when all is done, out of the launches."""
    parts = dict(attribution.seconds)
    hidden_in = "waiting" if backend.asynchronous else "launch"
    parts["kernels"] = min(seconds, parts[hidden_in])
    parts[hidden_in] -= parts["kernels"]
    return Attribution(attribution.epochs, parts)
