"""Sums over several GPUs of one process by NCCL, through CuPy's binding."""

import warnings
from collections.abc import Sequence
from typing import Any

from cupy.cuda import runtime

from snn.errors import Unsupported


class Communicators:
    """One communicator for each of the first GPUs that CUDA shows to this process."""

    def __init__(self, devices: int) -> None:
        with warnings.catch_warnings():  # CuPy's, if the library is missing
            warnings.simplefilter("ignore")
            from cupy.cuda import nccl

        if not nccl.available:
            major = runtime.runtimeGetVersion() // 1000
            raise Unsupported(
                f"NCCL cannot be loaded: install it with `pip install nvidia-nccl-cu{major}`, or PyTorch, "
                "which brings it"
            )
        self._library = nccl
        try:
            self._communicators = nccl.NcclCommunicator.initAll(list(range(devices)))
        except nccl.NcclError as error:
            raise Unsupported(f"NCCL cannot connect {devices} GPUs: {error}") from error

    def all_reduce(self, buffers: Sequence[tuple[Any, Any]], elements: int) -> None:
        """Sum float32 numbers in place; a buffer and a stream of each device, in order.

        The calls of one thread on several devices must be a group: each would wait for the next one.
        """
        nccl = self._library
        nccl.groupStart()
        try:
            for communicator, (buffer, stream) in zip(self._communicators, buffers, strict=True):
                communicator.allReduce(buffer, buffer, elements, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream)
        finally:
            nccl.groupEnd()
