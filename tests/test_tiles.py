"""How many row tiles a product has where it is left to the program, and that nothing is lost by it."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_strategies import ledger_of, operands, shapes

from snn.profiling.call_costs import CallCost
from snn.profiling.calls import Call
from snn.profiling.events import Event, Signature
from snn.profiling.schedule import simulate
from snn.strategies.common.tiles import HIDDEN_BYTES, PAPER_ROWS, TileSlots, tile_rows


@pytest.mark.parametrize("name", ["streams", "combined"])
@shapes
@settings(max_examples=30, deadline=None)
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


@given(m=st.integers(1, 5000), k=st.integers(1, 3000), n=st.integers(1, 3000))
def test_tile_rows(m, k, n):
    rows = tile_rows(m, k, n)
    tiles = -(-m // rows)
    assert 1 <= rows <= m
    assert tiles <= -(-m // PAPER_ROWS)
    if 4 * m * min(k, n) + m * k * n / 10 < HIDDEN_BYTES:
        assert tiles == 1


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


def microseconds(m, k, n, rows, link, kernel):
    """What a product takes on 3 streams: bytes a microsecond of the link, operations of the kernel."""
    events, costs = [], {}

    def ask(call, size, stream, cost):
        event = Event(Signature(call, size), 0, 0, stream, None, None, 0, 0, Call(call))
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
