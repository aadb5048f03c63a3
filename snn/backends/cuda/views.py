"""Memory that the CUDA runtime allocates for the host, as NumPy sees it."""

import numpy as np


class _Memory:
    """Shows memory to NumPy as a float32 array; its life is the care of who allocated it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "shape": shape,
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def as_array(address: int, shape: tuple[int, ...]) -> np.ndarray:
    """The memory from an address on, as a float32 array."""
    return np.asarray(_Memory(address, shape))


def address_of(array: np.ndarray) -> int:
    """Where an array begins."""
    return array.__array_interface__["data"][0]
