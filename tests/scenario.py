"""A scenario with a call of every kind, on a backend that has whatever can be asked for."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
from deferred import DeferredBackend
from every_source import EverySource

from snn.profiling.observed import ObservedBackend, Observer
from snn.profiling.tracer import Tracer


class Everything(DeferredBackend, EverySource):
    """Has whatever can be asked for, numbers its marks, and keeps what was asked of streams and copied in."""

    asynchronous = True

    def __init__(self):
        super().__init__()
        self.asked, self.copied, self.marks = [], [], 0

    def mark(self, stream=None):
        self.marks += 1
        self.asked.append(("mark", stream))
        return self.marks

    def seconds_between(self, first, last):
        return float(last - first)

    def synchronize(self):
        self.asked.append(("synchronize", None))
        super().synchronize()

    def stream_synchronize(self, stream):
        self.asked.append(("stream_synchronize", stream))
        super().stream_synchronize(stream)

    def host_alloc(self, shape, purpose="workspace", page_locked=True):
        array = super().host_alloc(shape, purpose, page_locked)
        array.fill(np.nan)
        return array

    def copy_in(self, buffer, array, stream=None):
        self.copied.append(array.copy())
        super().copy_in(buffer, array, stream)


class Log(Observer):
    """The calls in order."""

    def __init__(self):
        self.calls = []

    def after(self, call, live, started, ended):
        self.calls.append(call)


def before(on):
    """What is held when a scenario begins."""
    held = SimpleNamespace(stream=on.stream_create(), pool=on.pool_create())
    held.driver = on.pool_create(held.stream)
    held.data = on.host_alloc((4, 4), "data")
    held.block = on.malloc(64, "weights")
    held.of_pool = on.pool_malloc(held.pool, 32)
    held.managed = on.managed_alloc((2, 4), "weights")
    held.event = on.event_create()
    on.copy_in(held.block, held.data)
    on.launch("relu", (held.block,), (16,))
    on.graph_begin(held.stream)
    on.launch("relu", (held.block,), (16,), held.stream)
    on.launch("relu", (held.block,), (8,), held.stream)
    held.graph = on.graph_end(held.stream)
    held.later = on.event_create()
    return held


def steps(on, held):
    """Calls of every kind."""
    on.copy_in(held.block, held.data, held.stream)
    on.stream_synchronize(held.stream)
    other = on.stream_create()
    array = on.host_alloc((2, 4), "activations", False)
    array.fill(3.0)
    block = on.malloc(32)
    on.copy_in(on.part(held.block, 32, 32), array, other)
    on.event_record(held.event, other)
    on.event_wait(held.event, held.stream)
    on.event_synchronize(held.event)
    on.launch("relu", (on.part(held.block, 16, 16),), (4,), other)
    on.copy_out(held.data[1:3], block)
    back = on.host_alloc((4,))
    on.copy_out(back, on.part(block, 0, 16))
    on.copy_in(on.part(block, 16, 16), back)
    on.host_free(back)
    on.graph_launch(held.graph, held.stream)
    on.stream_synchronize(held.stream)
    on.stream_synchronize(other)
    on.stream_destroy(other)
    again = on.stream_create()
    on.launch("relu", (block,), (8,), again)
    on.stream_synchronize(again)
    of_pool, of_driver = on.pool_malloc(held.pool, 16), on.pool_malloc(held.driver, 48, "data")
    locked = on.pool_host_alloc(held.pool, (4,))
    locked.fill(2.0)
    on.copy_in(of_pool, locked)
    on.pool_host_free(held.pool, locked)
    on.pool_free(held.driver, of_driver)
    on.pool_free(held.pool, of_pool)
    on.advise(held.managed, "read_mostly")
    on.prefetch_in(held.managed)
    on.prefetch_out(held.managed[1:])
    on.launch("relu", (on.managed_buffer(held.managed),), (8,))
    on.synchronize()
    on.stream_destroy(again)
    on.free(block)
    on.host_free(array)


def close(on, held):
    on.free(held.block)
    on.pool_free(held.pool, held.of_pool)
    on.graph_destroy(held.graph)
    on.event_destroy(held.event)
    on.event_destroy(held.later)
    on.managed_free(held.managed)
    on.host_free(held.data)
    on.pool_destroy(held.driver)
    on.pool_destroy(held.pool)
    on.stream_destroy(held.stream)
    on.live.check_nothing_held()


def clock_of(monkeypatch, *modules):
    """A clock of these modules that advances by one second whenever it is read."""
    clock = SimpleNamespace(now=0.0)

    def perf_counter():
        clock.now += 1
        return clock.now

    for module in modules:
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=perf_counter))
    return clock


@contextmanager
def traced():
    """A scenario that was traced: the backend, what is held, the tracer, and the calls before and after."""
    tracing, log = Tracer(backend := Everything()), Log()
    on = ObservedBackend(backend, tracing, log)
    held = before(on)
    kept = [resource.made_by for resource in on.live.resources.values()]
    count = len(log.calls)
    asked = len(backend.asked)
    tracing.begin()
    begun = backend.asked[asked:]
    steps(on, held)
    yield SimpleNamespace(
        on=on, backend=backend, tracing=tracing, kept=kept, calls=log.calls[count:], begun=begun
    )
    close(on, held)
