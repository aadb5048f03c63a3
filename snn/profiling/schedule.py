"""How long a strategy's calls should take: what each costs alone, scheduled in their order."""

from collections.abc import Mapping, Sequence

from snn.profiling.call_costs import CallCost
from snn.profiling.events import Event, Signature

_COPIES = ("copy_in", "copy_out")
_ENGINES = {"prefetch_in": "copy_in", "prefetch_out": "copy_out"} | {copy: copy for copy in _COPIES}


def simulate(events: Sequence[Event], costs: Mapping[Signature, CallCost]) -> float:
    """Seconds of these calls without anything between them.

    The host pays each call's cost and goes on. Work that it does not wait for begins when its latency has
    passed, its stream has done what was asked before, and its engine (copies in, copies out, kernels) is
    free; a synchronisation returns when that of its stream, of an event, or of all, is done.
    """
    host = 0.0
    streams: dict[int, float] = {}
    marks: dict[int, float] = {}
    engines = dict.fromkeys((*_COPIES, "compute"), 0.0)
    for event in events:
        cost = costs[event.signature]
        call = event.signature.call
        host += cost.host_us
        if call == "stream_synchronize":
            host = max(host, streams.get(event.stream or 0, 0.0) + cost.host_us)
        elif call == "synchronize":
            host = max(host, max(streams.values(), default=0.0) + cost.host_us)
        elif call == "event_record":
            marks[_event_of(event)] = streams.get(event.stream or 0, 0.0)
        elif call == "event_wait":
            stream = event.stream or 0
            streams[stream] = max(streams.get(stream, 0.0), marks.get(_event_of(event), 0.0))
        elif call == "event_synchronize":
            host = max(host, marks.get(_event_of(event), 0.0))
        elif cost.device_us:
            stream, engine = event.stream or 0, _ENGINES.get(call, "compute")
            begin = max(host + cost.latency_us, streams.get(stream, 0.0), engines[engine])
            streams[stream] = engines[engine] = begin + cost.device_us
    return 1e-6 * host


def _event_of(event: Event) -> int:
    """The number of the CUDA event that a call is about."""
    return event.call.arguments[0].number
