#!/usr/bin/env python3
"""Compare the device memory predicted by ``python -m snn plan`` with training runs on this GPU.

    benchmarks/plan_accuracy.py [--count 40] [--seed 1] [--caps 7] [--json FILE]

Draws random networks (MLPs and stacks of layers), batches, kernels and strategies, every strategy in turn.
Predicts the peak of each, then trains it for two epochs in a separate process while nothing else uses the
device, and asks the driver for the free memory after every allocation and launch. Prints both peaks and their
ratio. The strategies' allocations must agree to the byte, by kind; the driver's peak, which includes the CUDA
runtime, within 5%.

Then the largest batch: another process fills the device but for --leave bytes. With the largest batch that
the plan predicts to fit into them a cell must train, and with a batch 1.1 times as large run out of memory.

Exit status: 0; 1 if a prediction is wrong; 2 if nothing can be measured. It takes two minutes or so.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import plan_draws  # it puts snn on the path
from arguments import whole

from snn import backends
from snn.backends.base import Backend
from snn.config.compose import composed
from snn.config.groups import ROOT
from snn.errors import OutOfMemory, SnnError, Unsupported
from snn.files import outputs
from snn.hardware import devices
from snn.hardware.sampling import gpu_state
from snn.planning import gpus
from snn.planning.plan import plan, planned
from snn.profiling.calls import DEVICE_MEMORY
from snn.profiling.ledger import MemoryMap
from snn.profiling.observed import Call, Live, ObservedBackend, Observer
from snn.strategies.factory import Job, start

MIB = 1 << 20
WITHIN = 0.05
_TAKES = (*DEVICE_MEMORY, "launch", "prefetch_in", "graph_end", "graph_launch")
_MOST_OF_OTHERS = 16 * MIB
_ALONE = multiprocessing.get_context("fork")  # CuPy is imported once, and initialised in each process


class LeastFree(Observer):
    """Asks the device how much memory is free, after whatever may take some."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.at_first = self.nbytes = backend.memory()[0]

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        if call.name in _TAKES and not live.capturing:
            self.look()

    def look(self) -> None:
        """Note the free memory once the device has done its work."""
        self._backend.synchronize()
        self.nbytes = min(self.nbytes, self._backend.memory()[0])


def trained(job: Job, backend: Backend) -> dict[str, Any]:
    """Two epochs of a job: bytes by kind at the peak, as asked for, and bytes in use, as the driver has it.

    ``at_first``: in use before anything was allocated. ``status`` is ok, out_of_memory or unsupported.
    """
    free, counted = LeastFree(backend), MemoryMap()
    found: dict[str, Any] = {"status": "ok"}
    try:
        strategy = start(job, ObservedBackend(backend, counted, free))
        try:
            strategy.load([np.zeros(shape, np.float32) for shape in job.network.shapes])
            if strategy.at_once:
                strategy.train(2)
            else:
                for _ in range(2):
                    strategy.epoch()
            free.look()
        finally:
            strategy.close()
    except OutOfMemory as error:
        found = {"status": "out_of_memory", "reason": str(error)}
    except Unsupported as error:
        found = {"status": "unsupported", "reason": str(error)}
    total = backend.memory()[1]
    return found | {
        "asked": counted.device.describe()["peak_by_kind"],
        "at_first_bytes": total - free.at_first,
        "peak_bytes": total - free.nbytes,
    }


def on_gpu(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Result of ``trained`` on the GPU for a cell with all its rows; their values do not matter."""
    job, rows = planned(cell, batches=sys.maxsize)
    assert len(job.X) == rows
    try:
        backend = backends.make("cuda", cell["kernel"], ROOT, cell["precision"]["name"])
    except Unsupported as error:
        return {"status": "unsupported", "reason": str(error)}
    return trained(job, backend)


def compared(wanted: Mapping[str, int], found: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction with the measurement: the ``ratio`` of the peaks, and whether both are right."""
    peak = sum(wanted.values())
    ratio = peak / found["peak_bytes"]
    asked = {kind: n for kind, n in wanted.items() if n and kind not in ("rounding", "runtime")}
    to_the_byte = asked == found["asked"]
    return {
        "predicted": dict(wanted),
        "predicted_bytes": peak,
        "measured_bytes": found["peak_bytes"],
        "runtime_bytes": found["at_first_bytes"],
        "asked": found["asked"],
        "ratio": ratio,
        "right": to_the_byte and abs(ratio - 1) <= WITHIN,
    }


def peaks(cells: Iterator[plan_draws.Draw], count: int, gpu: gpus.Gpu) -> list[dict[str, Any]]:
    """The rows of ``count`` networks, each trained in a separate process; printed one by one."""
    print("strategy          kernel        strategy's MiB  predicted  measured   ratio")
    rows: list[dict[str, Any]] = []
    for draw in cells:
        if len(rows) == count:
            break
        found = in_a_process(on_gpu, draw.cell)
        if found["status"] == "unsupported":
            print(f"{draw.words}: not supported on the GPU: {found['reason']}", flush=True)
            continue
        if found["status"] != "ok":
            rows.append({"settings": draw.settings, "right": False, **found})
            print(f"{draw.words}: {found['status']}: {found['reason']}", flush=True)
            continue
        row = {"settings": draw.settings, **compared(draw.predicted, found)}
        rows.append(row)
        own, both = sum(row["asked"].values()), (row["predicted_bytes"], row["measured_bytes"])
        strategy, kernel = draw.cell["strategy"]["name"], draw.cell["kernel"]["name"]
        print(
            f"{strategy:17} {kernel:13} {own / MIB:14.2f} {both[0] / MIB:10.1f} {both[1] / MIB:9.1f} "
            f"{row['ratio']:8.4f}  {draw.words}{'' if row['right'] else '  WRONG'}",
            flush=True,
        )
    return rows


def caps(count: int, leave: int, gpu_of: Callable[[int], gpus.Gpu]) -> list[dict[str, Any]]:
    """For each capped cell: the largest batch predicted to fit, and how it and a larger one end."""
    print("largest batch in   batch     ends as        1.1 times  ends as")
    rows = []
    for settings in plan_draws.CAPPED[:count]:
        cell = composed(settings, checks_memory=False)
        with Ballast(leave) as free:
            largest = plan(cell, gpu_of(free), free)["largest_batch"]
            batches = [] if largest is None else [largest, ceil(1.1 * largest)]
            ends = [
                in_a_process(on_gpu, {**cell, "training": {**cell["training"], "batch_size": batch}})
                for batch in batches
            ]
        status = [end["status"] for end in ends]
        right = status == ["ok", "out_of_memory"]
        rows.append(
            {"settings": settings, "free_bytes": free, "batches": batches, "ends": ends, "right": right}
        )
        said = "  ".join(f"{batch:9}  {end:13}" for batch, end in zip(batches, status, strict=True))
        print(f"{free / MIB:8.0f} MiB  {said}  {' '.join(settings)}{'' if right else '  WRONG'}", flush=True)
    return rows


class Ballast:
    """A process that holds all of the device's memory but about ``leave`` bytes; it says how much is left."""

    def __init__(self, leave: int) -> None:
        self._leave = leave

    def __enter__(self) -> int:
        self._ours, theirs = _ALONE.Pipe()
        self._process = _ALONE.Process(target=_hold, args=(self._leave, theirs, self._ours))
        self._process.start()
        theirs.close()
        free: int = self._ours.recv()
        return free

    def __exit__(self, *error: object) -> None:
        self._ours.close()
        self._process.join()


def _hold(leave: int, pipe: Any, other_end: Any) -> None:
    other_end.close()  # inherited: while it is open here, the end of the other process is not seen
    backend = backends.make("cuda", plan_draws.NAIVE, ROOT)
    block = backend.malloc(backend.memory()[0] - leave)
    pipe.send(backend.memory()[0])
    try:
        pipe.recv()
    except EOFError:
        backend.free(block)


def in_a_process(work: Callable[[Any], dict[str, Any]], argument: Any) -> dict[str, Any]:
    """Result of a function in a separate process, whose CUDA context ends with it."""
    ours, theirs = _ALONE.Pipe(duplex=False)
    process = _ALONE.Process(target=_answer, args=(theirs, work, argument))
    process.start()
    theirs.close()
    try:
        found: dict[str, Any] = ours.recv()
    except EOFError:
        found = {"status": "failed", "reason": "its process ended without an answer"}
    process.join()
    return found


def _answer(pipe: Any, work: Callable[[Any], dict[str, Any]], argument: Any) -> None:
    try:
        pipe.send(work(argument))
    except Exception as error:  # said in the row; the traceback goes to stderr
        pipe.send({"status": "failed", "reason": f"{type(error).__name__}: {error}"})
        raise


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--count", type=whole(0), default=40, help="networks; 0: only the largest batches")
    options.add_argument("--seed", type=int, default=1)
    most = len(plan_draws.CAPPED)
    options.add_argument("--caps", type=whole(0), default=most, help="cells whose largest batch is tried out")
    options.add_argument("--leave", type=whole(1), default=1024, metavar="MIB", help="that caps leave free")
    options.add_argument("--json", metavar="FILE")
    given = options.parse_args(arguments)
    try:
        target = None if given.json is None else outputs.checked(given.json, (), "--json")
        device = devices.find("cuda")
        free = devices.free_bytes(device)
        others = gpu_state(device)["memory_used_bytes"]
    except SnnError as error:
        print(f"plan_accuracy: {error}", file=sys.stderr)
        return 2
    if others > _MOST_OF_OTHERS:
        print(f"plan_accuracy: other processes hold {others / MIB:.0f} MiB of {device.name}", file=sys.stderr)
        return 2
    if given.leave * MIB >= free:
        print(
            f"plan_accuracy: --leave {given.leave}: {device.name} has {free / MIB:.0f} MiB", file=sys.stderr
        )
        return 2
    import cupy  # noqa: F401 - once for all processes; importing it does not initialise CUDA

    started = time.monotonic()
    gpu = gpus.of_memory(device.name, free)
    rows = peaks(plan_draws.draws(given.seed, gpu), given.count, gpu)
    capped = caps(given.caps, given.leave * MIB, lambda free: gpus.of_memory(device.name, free))
    seconds = time.monotonic() - started
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    wrong = sum(not row["right"] for row in (*rows, *capped))
    if ratios:
        print(f"{len(rows)} networks: predicted / measured {min(ratios):.4f} to {max(ratios):.4f}")
    print(f"{len(capped)} largest batches; {wrong} wrong; {seconds:.0f} s on {device.name}")
    if target is not None:
        said = {"device": device.name, "seed": given.seed, "seconds": seconds, "peaks": rows, "caps": capped}
        with outputs.replaced(target) as file:
            file.write(f"{json.dumps(said, indent=1)}\n".encode())
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
