"""The probe of call costs: it measures, and frees what it allocated."""

import pytest

from snn.measurement.passes import probe


@pytest.fixture
def held(monkeypatch):
    """Watches what a backend has allocated and not freed."""

    def watched(backend):
        alive, malloc, free = [], backend.malloc, backend.free
        monkeypatch.setattr(backend, "malloc", lambda nbytes: alive.append(malloc(nbytes)) or alive[-1])
        monkeypatch.setattr(backend, "free", lambda buffer: alive.remove(buffer) or free(buffer))
        return alive

    return watched


@pytest.mark.alone
def test_the_probe_measures_and_frees(backend, held):
    alive = held(backend)
    costs = probe(backend)
    assert not alive
    assert set(costs) == {"malloc_us", "copy_us", "launch_us", "product_us"}
    assert all(cost > 0 for cost in costs.values())
    assert costs["product_us"] > costs["launch_us"]


def test_the_probe_frees_when_memory_runs_out(held):
    from failing_backend import FailingBackend

    from snn.errors import OutOfMemory

    for fail_at in (1, 18, 19, 20, 22):
        backend = FailingBackend(fail_at)
        alive = held(backend)
        with pytest.raises(OutOfMemory):
            probe(backend)
        assert not alive
