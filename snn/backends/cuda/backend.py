"""The CUDA backend, on CuPy's bindings of the CUDA runtime."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

from snn.backends import kernel_source
from snn.backends.base import REGISTERED, Backend
from snn.backends.cuda import loops
from snn.backends.cuda.kernels import Kernels
from snn.backends.cuda.memory import (
    MEMORY_ALLOCATION,
    CupyPool,
    DriverPool,
    ManagedMemory,
    address_of,
    as_array,
    in_own_pages,
)
from snn.backends.cuda.persistent import Trainer, naming_waits
from snn.backends.cuda.several import Communicators
from snn.backends.launches import Steps, TrainingLaunch, TrainingShape, check_precision
from snn.config.groups import ROOT
from snn.errors import DeviceError, OutOfMemory, Unsupported, out_of_memory
from snn.hardware.devices import VISIBLE

_REFUSED_PAGE_LOCK = (MEMORY_ALLOCATION, 304)  # cudaErrorOperatingSystem
_FAIL_AFTER_A_LAUNCH = (
    *("malloc", "free", "host_alloc", "host_free", "copy_in", "copy_out", "launch", "memory", "mark"),
    *("train", "steps_per_launch", "stream_create", "stream_destroy", "stream_synchronize", "synchronize"),
    *("event_create", "event_destroy", "event_record", "event_wait", "event_synchronize", "seconds_between"),
)


class CudaBackend(ManagedMemory):
    """Plain runtime calls: no memory is pooled or cached unless a strategy asks for it."""

    def __init__(
        self, kernel: Mapping[str, Any], precision: str = "fp32", root: Path = ROOT, index: int = 0
    ) -> None:
        try:
            runtime.setDevice(index)
            runtime.free(0)
        except runtime.CUDARuntimeError as error:
            raise DeviceError(f"CUDA device {index} cannot be used: {error}") from error
        self.fused, self.pretransposed = kernel["fused"], kernel["pretransposed"]
        self._kernels = Kernels(kernel, precision, root)
        self.convolves = self._kernels.convolves
        self.no_capture = kernel_source.no_capture(kernel["source"])
        self.no_storage = kernel_source.no_storage(kernel["source"], root)
        self.precision, self._root, self._kernel, self._index = precision, root, kernel, index
        self._others: list[CudaBackend] = []
        self._trainers: dict[TrainingShape, Trainer] = {}
        self._page_locked: set[int] = set()
        self._registered: set[int] = set()
        super().__init__(index)

    def malloc(self, nbytes: int, purpose: str | None = None) -> int:
        try:
            return runtime.malloc(nbytes)
        except runtime.CUDARuntimeError as error:
            if error.status != MEMORY_ALLOCATION:
                raise
            raise out_of_memory("cudaMalloc", nbytes, *self.memory()) from error

    def free(self, buffer: int) -> None:
        runtime.free(buffer)

    def part(self, buffer: int, offset: int, nbytes: int) -> int:
        return buffer + offset

    def host_alloc(
        self, shape: tuple[int, ...], purpose: str = "workspace", page_locked: bool | str = True
    ) -> np.ndarray:
        if not page_locked:
            return np.empty(shape, dtype=np.float32)
        nbytes = 4 * math.prod(shape)
        try:
            if page_locked == REGISTERED:
                array = in_own_pages(nbytes).view(np.float32).reshape(shape)
                runtime.hostRegister(address_of(array), nbytes, 0)
                self._registered.add(address_of(array))
                return array
            address = runtime.hostAlloc(nbytes, runtime.hostAllocDefault)
        except runtime.CUDARuntimeError as error:
            if error.status not in _REFUSED_PAGE_LOCK:
                raise
            self.pageable_fallbacks += 1
            return np.empty(shape, dtype=np.float32)
        self._page_locked.add(address)
        return as_array(address, shape)

    def host_free(self, array: np.ndarray) -> None:
        address = address_of(array)
        if address in self._registered:
            self._registered.remove(address)
            runtime.hostUnregister(address)
        elif address in self._page_locked:
            self._page_locked.remove(address)
            runtime.freeHost(address)

    def pool_create(self, stream: int | None = None) -> CupyPool | DriverPool:
        return CupyPool() if stream is None else DriverPool(stream)

    def pool_destroy(self, pool: CupyPool | DriverPool) -> None:
        pool.close()

    def pool_malloc(self, pool: CupyPool | DriverPool, nbytes: int, purpose: str | None = None) -> int:
        try:
            return pool.malloc(nbytes)
        except (cupy.cuda.memory.OutOfMemoryError, runtime.CUDARuntimeError) as error:
            if getattr(error, "status", MEMORY_ALLOCATION) != MEMORY_ALLOCATION:
                raise
            raise out_of_memory(pool.allocates_by, nbytes, *self.memory()) from error

    def pool_free(self, pool: CupyPool | DriverPool, buffer: int) -> None:
        pool.free(buffer)

    def pool_host_alloc(
        self, pool: CupyPool | DriverPool, shape: tuple[int, ...], purpose: str = "workspace"
    ) -> np.ndarray:
        try:
            return pool.host_alloc(shape)
        except runtime.CUDARuntimeError as error:
            if error.status not in _REFUSED_PAGE_LOCK:
                raise
            self.pageable_fallbacks += 1
            return np.empty(shape, dtype=np.float32)

    def pool_host_free(self, pool: CupyPool | DriverPool, array: np.ndarray) -> None:
        pool.host_free(array)

    def pool_bytes(self, pool: CupyPool | DriverPool) -> int:
        return pool.nbytes()

    def copy_in(self, buffer: int, array: np.ndarray, stream: int | None = None) -> None:
        if stream is None:
            runtime.memcpy(buffer, address_of(array), array.nbytes, runtime.memcpyHostToDevice)
        else:
            runtime.memcpyAsync(buffer, address_of(array), array.nbytes, runtime.memcpyHostToDevice, stream)

    def copy_out(self, array: np.ndarray, buffer: int, stream: int | None = None) -> None:
        if stream is None:
            runtime.memcpy(address_of(array), buffer, array.nbytes, runtime.memcpyDeviceToHost)
        else:
            runtime.memcpyAsync(address_of(array), buffer, array.nbytes, runtime.memcpyDeviceToHost, stream)

    def launch(
        self, op: str, buffers: tuple[int, ...], numbers: tuple[float, ...], stream: int | None = None
    ) -> None:
        self._kernels.launch(op, buffers, numbers, stream or 0)

    def store(self, storage: str) -> None:
        if storage != self.storage:
            super().store(storage)
            self._kernels.store(storage)

    def overlap_launches(self, on: bool) -> None:
        self._kernels.overlap(on)

    def training_launch(self, shape: TrainingShape) -> TrainingLaunch:
        check_precision(self.precision)
        return self._trainer(shape).launch

    def train(
        self, shape: TrainingShape, buffers: tuple[int, ...], steps: Steps, stream: int | None = None
    ) -> None:
        self._trainer(shape).train(buffers, steps, stream or 0)

    def steps_per_launch(self, shape: TrainingShape) -> int:
        return self._trainer(shape).steps_per_launch

    def _trainer(self, shape: TrainingShape) -> Trainer:
        trainer = self._trainers.get(shape)
        if trainer is None:
            trainer = Trainer(shape, self._root)
            if not self._trainers:
                # After a kernel gives up, every further call fails, even calls that free memory.
                for name in _FAIL_AFTER_A_LAUNCH:
                    setattr(self, name, naming_waits(getattr(self, name)))
            self._trainers[shape] = trainer
        return trainer

    def stream_create(self) -> int:
        return runtime.streamCreate()

    def stream_destroy(self, stream: int) -> None:
        runtime.streamDestroy(stream)

    def stream_synchronize(self, stream: int) -> None:
        runtime.streamSynchronize(stream)

    def synchronize(self) -> None:
        runtime.deviceSynchronize()
        for other in self._others:
            other.use()
            runtime.deviceSynchronize()
        if self._others:
            self.use()

    def others(self, devices: int | None) -> list[Backend]:
        here = runtime.getDeviceCount()
        count = here if devices is None else devices
        if count > here or count < 2:
            raise Unsupported(
                f"data_parallel needs {max(count, 2)} GPUs of one model, and this process sees {here}: take "
                f"a machine with as many, or let {VISIBLE} show them"
            )
        if len(self._others) != count - 1:
            try:
                kernel, precision, root = self._kernel, self.precision, self._root
                others = [CudaBackend(kernel, precision, root, number) for number in range(1, count)]
                self._communicators = Communicators(count)
            finally:
                self.use()
            self._others = others
        return [*self._others]

    def use(self) -> None:
        runtime.setDevice(self._index)

    def all_reduce(self, buffer: int, nbytes: int, stream: int, further: Sequence[tuple[int, int]]) -> None:
        self._communicators.all_reduce(((buffer, stream), *further), nbytes // 4)

    def event_create(self) -> int:
        return runtime.eventCreateWithFlags(runtime.eventDisableTiming)

    def event_destroy(self, event: int) -> None:
        runtime.eventDestroy(event)

    def event_record(self, event: int, stream: int) -> None:
        runtime.eventRecord(event, stream)

    def event_wait(self, event: int, stream: int) -> None:
        runtime.streamWaitEvent(stream, event)

    def event_synchronize(self, event: int) -> None:
        runtime.eventSynchronize(event)

    def graph_begin(self, stream: int) -> None:
        if self.no_capture:
            raise Unsupported(self.no_capture)
        runtime.streamBeginCapture(stream, runtime.streamCaptureModeThreadLocal)

    def graph_end(self, stream: int, buffer: int | None = None) -> int:
        graphs = [runtime.streamEndCapture(stream)]
        try:
            if buffer is not None:
                graphs.append(loops.repeated(graphs[0], buffer))
            return runtime.graphInstantiate(graphs[-1])
        except runtime.CUDARuntimeError as error:
            if error.status != MEMORY_ALLOCATION:
                raise
            free, total = self.memory()
            raise OutOfMemory(
                f"cudaGraphInstantiate ran out of memory: {free} of {total} bytes are free"
            ) from error
        finally:
            for graph in graphs:
                runtime.graphDestroy(graph)

    def graph_launch(self, graph: int, stream: int) -> None:
        runtime.graphLaunch(graph, stream)

    def graph_destroy(self, graph: int) -> None:
        runtime.graphExecDestroy(graph)

    def memory(self) -> tuple[int, int]:
        return runtime.memGetInfo()

    def address(self, buffer: int) -> int:
        return buffer

    def mark(self, stream: int | None = None) -> cupy.cuda.Event:
        event = cupy.cuda.Event()
        runtime.eventRecord(event.ptr, stream or 0)
        return event

    def seconds_between(self, first: cupy.cuda.Event, last: cupy.cuda.Event) -> float:
        return cupy.cuda.get_elapsed_time(first, last) / 1000
