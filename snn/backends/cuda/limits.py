"""The limits of a CUDA device: peak rates and latencies, each measured by a kernel of ``kernels/limits``."""

import ctypes
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import driver, runtime

from snn.backends.cuda.cooperative import CooperativeLaunch, compiled_launches
from snn.backends.cuda.timing import Launch, load, memory_of, seconds_per_round, warm_up
from snn.errors import Unsupported
from snn.hardware.limits import BYTES, CYCLES, FLOPS, SECONDS, Limit, Measured, too_old

KERNELS = ("kernels/limits/rates.cu", "kernels/limits/waits.cu", "kernels/limits/latencies.cu")
"""The launched kernels, on which the limits depend."""

_THREADS = 512  # block size that keeps an SM busy
_CHAINS = 8  # of kernels/limits/rates.cu
_CLUSTERS = (2, 4, 8, 16)
_L2_SHARE = 0.25  # fraction of L2 to read, small enough to stay there

_LINE = 128  # bytes, as in the kernels
_L1_BYTES = 16 << 10  # less than any L1 has
_CHAIN_SHARE = 8  # of L2: size of a chain that stays in it
_FAR_BYTES = 256 << 20  # several times the L2 of any device, and few enough pages for its tables
_STEPS = 4096  # loads per sample
_SAMPLES = 15
_WARP = 32  # lanes

# limit, kernel, operations per thread and round, minimum compute capability of its instruction
_PRODUCTS = (
    ("fp32", "multiply_add", 2 * _CHAINS, (5, 0), "fma"),
    ("tf32", "mma_tf32", 2 * 16 * 8 * 8 * _CHAINS // 32, (8, 0), "mma.m16n8k8 of tf32"),
    ("fp16", "mma_fp16", 2 * 16 * 8 * 16 * _CHAINS // 32, (8, 0), "mma.m16n8k16 of fp16"),
    ("bf16", "mma_bf16", 2 * 16 * 8 * 16 * _CHAINS // 32, (8, 0), "mma.m16n8k16 of bf16"),
)


@dataclass(frozen=True)
class Effort:
    """Durations and counts of the measurements; a smaller effort only exercises the kernels."""

    least_seconds: float = 3e-3  # per launch, so that its fixed cost does not matter
    warm_up_seconds: float = 0.1  # for the clocks to rise
    repeats: int = 7
    launches: int = 1000  # consecutive launches, or nodes of a graph
    most_copied_bytes: int = 1 << 30


def measure(root: Path, effort: Effort = Effort()) -> Measured:
    """All limits of the current device; takes a few seconds, and frees what it allocates."""
    runtime.free(0)  # creates the context
    device = cupy.cuda.Device()
    capability = int(device.compute_capability[:-1]), int(device.compute_capability[-1])
    multiprocessors = device.attributes["MultiProcessorCount"]
    l2_bytes = device.attributes["L2CacheSize"]
    rates, waits = (load(root / source) for source in KERNELS[:2])
    limits = [
        *_products(effort, rates, multiprocessors, capability),
        *_memory(effort, rates, multiprocessors, l2_bytes),
        *_launches(effort, waits),
        _graph_node(effort, waits),
        *_clusters(effort, waits, capability),
        *_grids(effort, waits, multiprocessors),
        *_latencies(root, l2_bytes),
    ]
    return Measured(tuple(limits), multiprocessors, l2_bytes)


# ---- rates


def _products(
    effort: Effort, module: cupy.RawModule, multiprocessors: int, capability: tuple[int, int]
) -> Iterator[Limit]:
    """Operations per second of a single SM, and of all SMs, whose clocks may be lower."""
    with memory_of(4 * _THREADS * multiprocessors) as out:
        for what, name, operations, needed, instruction in _PRODUCTS:
            how = f"{name}, one block of {_THREADS} threads per SM"
            function = module.get_function(name)
            more = (np.float32(0.5), np.float32(1.0)) if what == "fp32" else ()
            reason = too_old(capability, needed, instruction) if capability < needed else ""
            for blocks in (1, multiprocessors):

                def launch(rounds: int, function=function, blocks=blocks, more=more) -> None:
                    function((blocks,), (_THREADS,), (np.uint64(out), np.int32(rounds), *more))

                samples: tuple[float, ...] = ()
                if not reason:
                    warm_up(launch, effort.warm_up_seconds)
                    done = operations * _THREADS * blocks
                    samples = tuple(done / s for s in _seconds_per_round(effort, launch))
                yield Limit(what, blocks, FLOPS, how, samples, reason)


def _memory(effort: Effort, module: cupy.RawModule, multiprocessors: int, l2_bytes: int) -> Iterator[Limit]:
    """Bytes per second of reading, and of copying, which counts each byte twice: read and written."""
    free, _ = runtime.memGetInfo()
    far = min(effort.most_copied_bytes, free // 4)
    reads, copies = (module.get_function(name) for name in ("read_memory", "copy_memory"))
    with (
        memory_of(far) as source,
        memory_of(far) as target,
        memory_of(4 * _THREADS * multiprocessors) as sums,
    ):
        for level, held in (("dram", far), ("l2", min(far, int(_L2_SHARE * l2_bytes)))):
            quads = {"read": held // 16, "copy": (held if level == "dram" else held // 2) // 16}

            for what, function, to, passes in (("read", reads, sums, 1), ("copy", copies, target, 2)):

                def launch(rounds: int, function=function, to=to, count=quads[what]) -> None:
                    arguments = (np.uint64(source), np.uint64(to), np.uint32(count), np.int32(rounds))
                    function((multiprocessors,), (_THREADS,), arguments)

                moved = 16 * quads[what] * passes
                how = f"{moved} bytes{' read and written' if passes == 2 else ' read'}, repeatedly"
                samples = tuple(moved / s for s in _seconds_per_round(effort, launch))
                yield Limit(f"{level}_{what}", None, BYTES, how, samples)


# ---- waits


def _launches(effort: Effort, module: cupy.RawModule) -> Iterator[Limit]:
    """Seconds per launch in a loop in Python, which includes the loop's time, and in a compiled loop."""
    pointer = module.get_function("empty").kernel.ptr

    def from_python(count: int) -> None:
        for _ in range(count):
            driver.launchKernel(pointer, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)

    def samples(launch: Callable[[int], None]) -> tuple[float, ...]:
        found = []
        for _ in range(effort.repeats + 1):
            started = time.perf_counter()
            launch(effort.launches)
            runtime.deviceSynchronize()
            found.append((time.perf_counter() - started) / effort.launches)
        return tuple(found[1:])

    how = f"{effort.launches} consecutive launches of an empty kernel, from a"
    yield _limit("launch", 1, f"{how} loop in Python", lambda: samples(from_python))

    def from_compiled() -> tuple[float, ...]:
        launch = compiled_launches()
        return samples(lambda count: launch(pointer, count))

    yield _limit("launch_compiled", 1, f"{how} compiled loop", from_compiled)


def _graph_node(effort: Effort, module: cupy.RawModule) -> Limit:
    """Seconds per empty kernel in a graph of many consecutive kernels."""
    pointer = module.get_function("empty").kernel.ptr
    stream = runtime.streamCreate()
    try:
        runtime.streamBeginCapture(stream, runtime.streamCaptureModeThreadLocal)
        for _ in range(effort.launches):
            driver.launchKernel(pointer, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)
        captured = runtime.streamEndCapture(stream)
        graph = runtime.graphInstantiate(captured)
        runtime.graphDestroy(captured)
        try:

            def launch(rounds: int) -> None:
                for _ in range(rounds):
                    runtime.graphLaunch(graph, stream)

            samples = tuple(s / effort.launches for s in _seconds_per_round(effort, launch, stream=stream))
        finally:
            runtime.graphExecDestroy(graph)
    finally:
        runtime.streamDestroy(stream)
    return Limit("graph_node", 1, SECONDS, f"a graph of {effort.launches} consecutive empty kernels", samples)


def _clusters(effort: Effort, module: cupy.RawModule, capability: tuple[int, int]) -> Iterator[Limit]:
    """Seconds of a barrier, and of an exchange of one word, between the blocks of a cluster."""
    said = {
        "cluster_barrier": "blocks of one warp arrive and wait",
        "cluster_exchange": "one word from each block to the shared memory of every other",
    }
    with memory_of(4 * max(_CLUSTERS)) as out:
        for what, how in said.items():
            for blocks in _CLUSTERS:
                given = [ctypes.c_void_p(out)] if what == "cluster_exchange" else []

                def measure(what=what, blocks=blocks, given=given) -> tuple[float, ...]:
                    if capability < (9, 0):
                        raise Unsupported(too_old(capability, (9, 0), "barrier.cluster"))
                    together = CooperativeLaunch(module.get_function(what), blocks, 32, cluster=blocks)
                    if not together.held_clusters():
                        raise Unsupported(f"the device runs no cluster of {blocks} blocks")
                    return _seconds_per_round(effort, lambda rounds: together([*given, ctypes.c_int(rounds)]))

                yield _limit(what, blocks, how, measure)


def _grids(effort: Effort, module: cupy.RawModule, multiprocessors: int) -> Iterator[Limit]:
    """Seconds of a barrier over one block per SM, and of an exchange of one word between them."""
    said = {
        "grid_barrier": "blocks of one warp increment a counter in global memory and wait",
        "grid_exchange": "one word from each block to every other through global memory",
    }
    with memory_of(4 * multiprocessors) as words:
        for what, how in said.items():
            function = module.get_function(what)
            for blocks in (multiprocessors,) if what == "grid_barrier" else (2, multiprocessors):
                threads = 32 if what == "grid_barrier" else -(-blocks // 32) * 32
                together = CooperativeLaunch(function, blocks, threads)

                def launch(rounds: int, together: CooperativeLaunch = together) -> None:
                    together([ctypes.c_void_p(words), ctypes.c_int(rounds)])

                def clear() -> None:
                    runtime.memset(words, 0, 4 * multiprocessors)

                yield _limit(what, blocks, how, lambda: _seconds_per_round(effort, launch, before=clear))


def _limit(what: str, blocks: int, how: str, measure: Callable[[], tuple[float, ...]]) -> Limit:
    """The limit, or the reason if the driver does not allow its launch."""
    try:
        return Limit(what, blocks, SECONDS, how, measure())
    except Unsupported as error:
        return Limit(what, blocks, SECONDS, how, reason=str(error))


def _seconds_per_round(effort: Effort, launch: Launch, **further: Any) -> tuple[float, ...]:
    return tuple(seconds_per_round(launch, effort.least_seconds, effort.repeats, **further))


# ---- latencies in cycles: chains of loads that wait for each other


def _latencies(root: Path, l2_bytes: int, samples: int = _SAMPLES) -> Iterator[Limit]:
    """Cycles per multiply-add of registers, per load from shared memory, L1, L2 and main memory, and per sum
    over a warp; frees what it allocates."""
    module = load(root / KERNELS[2])
    registers, shared, l1, memory = (
        module.get_function(f"chase_{name}") for name in ("registers", "shared", "l1", "memory")
    )
    fill = module.get_function("fill_chain")
    how = f"{_STEPS} multiply-adds, each of what the last one gave in a register"
    yield _latency("register_latency", how, registers, (), 0, samples)
    yield _latency("shared_latency", _loads("shared memory"), shared, (), 0, samples)
    for by in ("shuffles", "atomics"):
        how = f"{_STEPS} sums over {_WARP} lanes by {by}, each of what the last one gave"
        yield _latency(f"sum_by_{by}", how, module.get_function(f"sum_by_{by}"), (), 0, samples, _WARP)
    free, _ = runtime.memGetInfo()
    for what, where, function, nbytes in (
        ("l1_latency", "L1", l1, _L1_BYTES),
        ("l2_latency", "L2", memory, _power_of_two(l2_bytes // _CHAIN_SHARE)),
        ("dram_latency", "main memory", memory, _power_of_two(min(_FAR_BYTES, free // 4))),
    ):
        lines = nbytes // _LINE
        with memory_of(nbytes) as chain:
            fill((256,), (256,), (np.uint64(chain), np.uint32(lines)))
            with memory_of(2 * l2_bytes):  # evicts the chain from L2
                warm = 0 if what == "dram_latency" else lines
                how = _loads(f"{where}, {nbytes} bytes")
                yield _latency(what, how, function, (np.uint64(chain),), warm, samples)


def _loads(where: str) -> str:
    return f"{_STEPS} loads from {where}, each from where the last one said"


def _latency(
    what: str, how: str, function: Any, chain: tuple[Any, ...], warm: int, samples: int, threads: int = 1
) -> Limit:
    """Cycles per step, ``warm`` steps after the launch; the first sample is dropped."""
    found, cycles = [], np.zeros(1, np.int64)
    with memory_of(16) as state:  # the word, and 8 bytes later the cycles
        for _ in range(samples + 1):
            numbers = (np.int32(warm), np.int32(_STEPS))
            function((1,), (threads,), (*chain, np.uint64(state), np.uint64(state + 8), *numbers))
            runtime.memcpy(cycles.ctypes.data, state + 8, cycles.nbytes, runtime.memcpyDeviceToHost)
            found.append(int(cycles[0]) / _STEPS)
    return Limit(what, 1, CYCLES, how, tuple(found[1:]))


def _power_of_two(nbytes: int) -> int:
    """The largest power of two that is not more, at least a line."""
    return 1 << (max(nbytes, _LINE).bit_length() - 1)
