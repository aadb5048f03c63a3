"""How many row tiles a product has where it is left to the program, and that nothing is lost by it."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import ledger_of, operands, shapes

from snn.backends.cpu.backend import CpuBackend
from snn.profiling.call_costs import CallCost, simulate
from snn.profiling.observed import Call
from snn.profiling.tracer import Event, Signature
from snn.strategies.host_driven import PAPER_ROWS, TileSlots, tile_rows


@pytest.mark.parametrize("name", ["streams", "combined"])
@shapes
@settings(max_examples=30)
def test_tiles_as_many_as_are_worth_it(name, hidden, rows, batch, epochs):
    """Products this small are one tile each, on one stream."""
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of(name, hidden, rows, batch, epochs, tile_rows="auto")
    assert ledger.launches == ledger.d2h_copies == ledger.synchronizations == len(products)
    assert ledger.h2d_copies == 2 * len(products)
    if name == "streams":
        assert ledger.mallocs == ledger.frees == 3 * len(products)
        assert ledger.streams_created == len(products)
    else:
        assert ledger.streams_created == 1


def test_large_products_have_tiles_that_overlap():
    """A step of 300 rows by 1024, 1024 with slots that grow: H1 = X W1 moves 1.2 MB, H2 = H1 W2 2.5 MB."""
    fixed, auto = (ledger_of("combined", (1024, 1024), 300, 300, 1, tile_rows=r) for r in (128, "auto"))
    assert 8 < auto.launches < fixed.launches
    assert auto.streams_created == 3
    assert auto.peak_device_bytes > 0


def test_only_slots_that_a_product_uses_grow(backend):
    """Else they fill the driver's chunks of memory, and B has one mapped at every product."""
    slots = TileSlots(backend, 3, "auto")
    slots.ensure(256, 256, 1024)  # two tiles
    assert [[tile.nbytes for tile in tiles] for tiles in (slots._A, slots._C)] == [[131072] * 2, [524288] * 2]
    slots.ensure(1024, 256, 1)  # one
    slots.ensure(256, 1, 1024)
    assert [[tile.nbytes for tile in tiles] for tiles in (slots._A, slots._C)] == [
        [1 << 20, 131072],
        [1 << 20, 524288],
    ]
    slots.ensure(256, 256, 1024)
    assert sum(tile.nbytes for tile in slots._A) == (1 << 20) + 131072
    slots.close()
    assert not slots._A and not slots._C


@pytest.mark.parametrize(
    ("product", "rows"),
    [
        ((256, 32, 256), 256),  # 32 KiB in and a short kernel: hidden behind 256 KiB out, but worth no tile
        ((32, 256, 256), 32),
        ((256, 1024, 1), 256),  # 1 MiB in, next to nothing out
        ((1024, 256, 1), 1024),  # 1 MiB in, next to nothing out: one tile, not eight
        ((256, 1, 1024), 256),
        ((256, 256, 1024), 128),  # 256 KiB in and 1 MiB out behind the kernel: the paper's tiles
        ((2560, 1024, 1024), 128),
        ((4096, 32, 32), 586),  # 512 KiB and a kernel worth 409 KiB: seven tiles, not 32
    ],
)
def test_tile_rows_of_some_products(product, rows):
    assert tile_rows(*product) == rows


@shapes
@settings(max_examples=30)
def test_a_kept_product_has_a_tile_for_each_stream(hidden, rows, batch, epochs):
    products = operands(hidden, rows, batch, epochs)
    ledger = ledger_of("preallocated", hidden, rows, batch, epochs, streams=3)
    tiles = sum(-(-m // -(-m // 3)) for m, _, _ in products)
    assert ledger.launches == ledger.d2h_copies == ledger.synchronizations == tiles
    assert ledger.h2d_copies == len(products) + tiles
    assert ledger.streams_created == min(3, max(-(-m // -(-m // 3)) for m, _, _ in products))
    whole = ledger_of("preallocated", hidden, rows, batch, epochs)
    assert ledger.h2d_bytes == whole.h2d_bytes and ledger.d2h_bytes == whole.d2h_bytes


KEPT = {  # of each call: its stream, and the sizes of what it was given
    "malloc": lambda nbytes: ("malloc", nbytes),
    "free": lambda buffer: ("free", buffer.words.nbytes),
    "stream_create": lambda: ("stream_create",),
    "copy_in": lambda buffer, array, stream=None: ("copy_in", array.shape, stream),
    "launch": lambda op, buffers, numbers, stream: (op, numbers, stream),
    "copy_out": lambda array, buffer, stream: ("copy_out", array.shape, stream),
    "stream_synchronize": lambda stream: ("stream_synchronize", stream),
    "stream_destroy": lambda stream: ("stream_destroy", stream),
}


class Spied(CpuBackend):
    def __init__(self):
        super().__init__()
        self.calls = []
        for name, kept in KEPT.items():
            setattr(self, name, partial(self._keep, getattr(self, name), kept))

    def _keep(self, call, kept, *arguments):
        self.calls.append(kept(*arguments))
        return call(*arguments)


def test_tiles_take_the_streams_in_turn_and_all_are_waited_for():
    """Five rows in tiles of two on two streams; streams and buffers are made once and freed."""
    backend = Spied()
    slots = TileSlots(backend, 2, 2)
    A, B = (np.arange(20, dtype=np.float32).reshape(shape) for shape in ((5, 4), (4, 5)))
    C = np.empty((5, 5), dtype=np.float32)
    dB = backend.malloc(80)
    backend.copy_in(dB, B)
    del backend.calls[:]
    for _ in range(2):
        slots.ensure(5, 4, 5)
    slots.multiply(A, dB, C)
    slots.close()
    np.testing.assert_array_equal(C, A @ B)
    tiles = [(1, 2), (2, 2), (1, 1)]
    work = [
        call
        for stream, rows in tiles
        for call in (
            ("copy_in", (rows, 4), stream),
            ("matmul", (rows, 4, 5), stream),
            ("copy_out", (rows, 5), stream),
        )
    ]
    assert backend.calls == [
        *(("malloc", 32), ("malloc", 32), ("malloc", 40), ("malloc", 40)),
        *(("stream_create",), ("stream_create",)),
        *work,
        *(("stream_synchronize", 1), ("stream_synchronize", 2)),
        *(("stream_destroy", 2), ("stream_destroy", 1)),
        *(("free", 32), ("free", 32), ("free", 40), ("free", 40)),
    ]


def test_streams_are_waited_for_where_a_tile_fails():
    backend = Spied()
    slots = TileSlots(backend, 2, 1)
    slots.ensure(2, 1, 1)
    with pytest.raises(AttributeError):
        slots.multiply(np.ones((2, 1), np.float32), None, np.ones((2, 1), np.float32))
    assert backend.calls[-2:] == [("stream_synchronize", 1), ("stream_synchronize", 2)]


def test_a_fixed_number_of_rows_grows_every_slot_in_its_place():
    """The larger of two products decides; a smaller one later changes nothing."""
    backend = Spied()
    slots = TileSlots(backend, 2, 3)
    slots.ensure(9, 2, 1)
    del backend.calls[:]
    slots.ensure(9, 4, 1)
    slots.ensure(9, 1, 1)
    slots.ensure(9, 4, 1)
    assert backend.calls == [("free", 24), ("free", 24), ("malloc", 48), ("malloc", 48)]


def test_an_automatic_number_of_rows_has_as_many_slots_as_tiles():
    slots = TileSlots(backend := Spied(), 3, "auto")
    slots.ensure(32, 256, 256)
    assert backend.calls == [("malloc", 4 * 32 * 256)] * 2 + [("stream_create",)]
    del backend.calls[:]
    slots.ensure(2560, 1024, 1024)
    assert [call[0] for call in backend.calls].count("stream_create") == 2
    assert [call for call in backend.calls if call[0] == "malloc"] == [("malloc", 4 * 128 * 1024)] * 6


@given(m=st.integers(1, 5000), k=st.integers(1, 3000), n=st.integers(1, 3000))
def test_a_tile_for_each_128_kib_that_the_longest_stage_hides(m, k, n):
    stages = sorted((4 * m * k, 4 * m * n, 2 * m * k * n // 20))
    tiles = max(1, min((stages[0] + stages[1]) // (128 * 1024), math.ceil(m / 128)))
    assert tile_rows(m, k, n) == math.ceil(m / tiles)


def microseconds(m, k, n, rows, link, kernel):
    """What a product takes on 3 streams: bytes a microsecond of the link, operations of the kernel."""
    events, costs = [], {}

    def ask(call, size, stream, cost):
        event = Event(
            Signature(call, size),
            0,
            0,
            stream,
            None,
            None,
            0,
            0,
            Call("launch" if call == "matmul" else call),
        )
        costs[event.signature] = cost
        events.append(event)

    for tile, start in enumerate(range(0, m, rows)):
        height, stream = min(rows, m - start), 1 + tile % 3
        ask("copy_in", (4 * height * k,), stream, CallCost(5, 4 * height * k / link, 4))
        work = max(2 + 0.01 * k, 2 * height * k * n / kernel)
        ask("matmul", (height, k, n), stream, CallCost(7, work, 4))
        ask("copy_out", (4 * height * n,), stream, CallCost(5, 4 * height * n / link, 4))
    for stream in range(1, 1 + min(3, -(-m // rows))):
        ask("stream_synchronize", (), stream, CallCost(2))
    return 1e6 * simulate(events, costs)


@pytest.mark.parametrize("link", [12e3, 25e3, 50e3])
@pytest.mark.parametrize("kernel", [1e6, 4e6, 20e6])
def test_by_the_prices_of_many_devices_it_never_loses_to_the_papers_tiles(link, kernel):
    """PCIe 3 to 5, kernels of 1 to 20 TFLOP/s; the host's calls as measured through CuPy."""
    ratios = []
    for m, k, n in product((32, 256, 512, 1024, 4096), (1, 32, 256, 1024), (1, 32, 256, 1024)):
        found, fixed = (
            microseconds(m, k, n, rows, link, kernel) for rows in (tile_rows(m, k, n), PAPER_ROWS)
        )
        ratios.append(found / fixed)
    assert max(ratios) < 1.01
    assert min(ratios) < 0.5
