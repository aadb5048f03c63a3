"""What is alive on a backend: found by its handle, and refused where it is not alive or too small."""

import itertools
from collections import Counter
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import LeakError
from snn.profiling.calls import DEVICE_MEMORY, ENDED_BY, Call, Memory, Ref, Resource
from snn.profiling.memory import count, held

HOST_ARRAYS = ("host_alloc", "pool_host_alloc")
_OTHERS = {"pool": "pool_create", "stream": "stream_create", "event": "event_create", "graph": "graph_end"}


class Live:
    """Every resource that is alive, by its number, and the totals of its bytes.

    Raises LeakError if one is used or freed that is not alive, or freed by a call that it does not belong to.
    The rule of bounds: a copy or a launch must fit the part of a block that it was given.
    """

    def __init__(self, backend: Backend) -> None:
        self.resources: dict[int, Resource] = {}
        self.capturing: dict[int, list[Call]] = {}
        self.device_bytes = self.page_locked_bytes = 0
        self.backend = backend
        self._arrays: dict[int, Resource] = {}
        self._numbers = itertools.count()

    def next_number(self) -> int:
        """A number that no resource has had."""
        return next(self._numbers)

    def update(self, call: Call, result: Any) -> Any:
        """Take note of a call that was made; returns the resource if it made one, else its result."""
        if call.captured and call.stream is not None:
            self.capturing[call.stream.number].append(call)
        if call.ends is not None:
            self._end(call.ends)
        return result if call.makes is None else self._add(call, call.makes, result)

    def device_memory(self, buffer: Any, nbytes: int = 0, *user: object) -> Ref:
        """Where a device buffer is; it must have room for the bytes that its user, in words, needs."""
        block = self.resources.get(buffer.ref.number) if isinstance(buffer, Memory) else None
        if block is None or block.made_by.name not in DEVICE_MEMORY:
            raise LeakError("a device buffer was used that is not allocated (or was freed before)")
        if nbytes > buffer.ref.nbytes:
            words = " ".join(map(str, user))
            raise LeakError(f"{words} needs {nbytes} bytes and does not fit a buffer of {buffer.ref.nbytes}")
        return buffer.ref

    def part(self, of: Ref, offset: int, nbytes: int) -> Ref:
        """A part of device memory, from an offset into it on."""
        if offset < 0 or offset + nbytes > of.nbytes:
            raise LeakError(f"a part of {nbytes} bytes at {offset} is not within {of.nbytes} bytes")
        return Ref(of.number, of.offset + offset, nbytes)

    def array(self, array: np.ndarray, *makers: str) -> Ref:
        """Which allocated array this is, or is a part of: one of these calls made it."""
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise LeakError(
                f"the device needs a C-contiguous float32 array, not {array.dtype} {array.strides}"
            )
        address = address_of(array)
        exact = self._arrays.get(address)
        for block in self._arrays.values() if exact is None else (exact,):
            offset = address - block.address
            if offset >= 0 and offset + array.nbytes <= block.nbytes and block.made_by.name in makers:
                return Ref(block.ref.number, offset, array.nbytes, array.shape)
        kind = "managed" if "managed_alloc" in makers else "host"
        raise LeakError(f"a {kind} array was used that is not allocated (or was freed before)")

    def find(self, handle: Any, noun: str) -> Resource:
        """The pool, stream, event or graph of a handle."""
        if isinstance(handle, Resource) and self.resources.get(handle.ref.number) is handle:
            if handle.made_by.name == _OTHERS[noun]:
                return handle
        article = "an" if noun == "event" else "a"
        raise LeakError(f"{article} {noun} was used that does not exist (or was destroyed before)")

    def unused_pool(self, pool: Any) -> Resource:
        """The pool that is about to be destroyed, of which no memory is in use."""
        found = self.find(pool, "pool")
        if any(
            block.made_by.arguments[0] == found.ref for block in self.of("pool_malloc", "pool_host_alloc")
        ):
            raise LeakError("a pool was destroyed while memory of it is in use")
        return found

    def freed(self, memory: Any, by: str, pool: Resource | None = None) -> Resource:
        """The memory that is about to be freed by a call, to the pool from which it came."""
        resource = self._arrays.get(address_of(memory)) if isinstance(memory, np.ndarray) else memory
        if not isinstance(resource, Resource) or self.resources.get(resource.ref.number) is not resource:
            noun = "host array" if isinstance(memory, np.ndarray) else "device buffer"
            raise LeakError(f"a {noun} was freed that is not allocated (or was freed before)")
        made = resource.made_by
        if by != ENDED_BY[made.name] or (pool is not None and made.arguments[0] != pool.ref):
            raise LeakError(f"memory of {made.name} is freed by {ENDED_BY[made.name]}, where it came from")
        return resource

    def infer_purpose(self, buffer: Ref, array: Ref) -> None:
        """A block without an explicit purpose has that of what is copied in or out; of several, workspace."""
        block, purpose = self.resources[buffer.number], self.resources[array.number].purpose
        if not block.explicit_purpose:
            block.purpose = purpose if block.purpose in (None, purpose) else "workspace"

    def of(self, *makers: str) -> list[Resource]:
        """The resources that these calls made."""
        return [resource for resource in self.resources.values() if resource.made_by.name in makers]

    def pool_bytes(self, call: Call) -> int:
        """Bytes of device memory that the pool of a call has had from the system."""
        return self.backend.pool_bytes(self.resources[call.arguments[0].number].handle)

    def kernels(self, launch: Call) -> int:
        """How many launches the graph that is launched has captured."""
        captured = self.resources[launch.arguments[0].number].made_by.arguments
        return sum(call.name == "launch" for call in captured)

    def check_nothing_held(self) -> None:
        """Raise LeakError, saying what, if anything that was allocated or created is still alive."""
        arrays = self.of(*HOST_ARRAYS)
        text = [
            f"{where}: {held(blocks)}"
            for where, blocks in (
                ("on the device", self.of(*DEVICE_MEMORY)),
                ("page-locked", [array for array in arrays if array.made_by.page_locked]),
                ("pageable", [array for array in arrays if not array.made_by.page_locked]),
            )
            if blocks
        ]
        for noun, maker in _OTHERS.items():
            for site, number in Counter(resource.call_site for resource in self.of(maker)).items():
                text.append(f"{count(number, noun)} created at {site}")
        if text:
            raise LeakError("allocated and never freed: " + "; ".join(text))

    def _add(self, call: Call, number: int, handle: Any) -> Resource:
        shape: tuple[int, ...] = ()
        address = 0
        if isinstance(handle, np.ndarray):
            shape, address = handle.shape, address_of(handle)
        elif call.name in DEVICE_MEMORY:
            address = self.backend.address(handle)
        ref = Ref(number, 0, call.nbytes or 0, shape)
        resource = Resource(ref, handle, call, address, call.purpose, call.purpose is not None)
        self.resources[number] = resource
        if shape:
            self._arrays[address] = resource
        self._total(resource, 1)
        return resource

    def _end(self, number: int) -> None:
        resource = self.resources.pop(number)
        if resource.ref.shape:
            del self._arrays[resource.address]
        self._total(resource, -1)

    def _total(self, resource: Resource, sign: int) -> None:
        if resource.made_by.name in DEVICE_MEMORY:
            self.device_bytes += sign * resource.nbytes
        elif resource.made_by.page_locked:
            self.page_locked_bytes += sign * resource.nbytes


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
