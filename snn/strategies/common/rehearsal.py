"""A rehearsal of a host-driven step: what host matrices and products it asks for, without a device."""

from math import prod
from typing import NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.host_driven import HostDriven


class Request(NamedTuple):
    """A host matrix that a step asks for; ``freed_before``: how many requests there are until it is freed."""

    elements: int
    purpose: str
    freed_before: int


class Rehearsal(HostDriven):
    """One step on zeros, without a device and without arithmetic: it tells what memory a step asks for.

    ``requests``: its host matrices in turn. ``products``: bytes of A, B and C of each product.
    """

    def __init__(self, backend: Backend, network: Network, rows: int) -> None:
        super().__init__(backend)
        self.computes = False
        self.network, self._rate = network, 0.0
        self.requests: list[Request] = []
        self.products: list[tuple[int, int, int]] = []
        self._numbers: dict[int, tuple[int, np.ndarray]] = {}
        self._parameters = {
            parameter.name: np.zeros(parameter.shape, np.float32) for parameter in network.parameters
        }
        self._plan_steps([rows])
        self._train(
            *(np.zeros((rows, width), np.float32) for width in (prod(network.inputs), network.outputs))
        )

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        self.products.append((A.nbytes, B.nbytes, C.nbytes))
        return C

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._request(shape, self.purpose)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._request(shape, "workspace")

    def discard(self, array: np.ndarray) -> None:
        number, _ = self._numbers.pop(id(array))
        self.requests[number] = self.requests[number]._replace(freed_before=len(self.requests))

    def _request(self, shape: tuple[int, ...], purpose: str) -> np.ndarray:
        array = np.zeros(shape, dtype=np.float32)
        self._numbers[id(array)] = len(self.requests), array
        self.requests.append(Request(array.size, purpose, 0))
        return array
