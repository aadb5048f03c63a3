"""Storage of inputs, activations and error signals in device memory: float32, or 16 bits.

``training.storage``: a kernel converts these arrays as it reads and writes them, and computes in float32.
Weights, their gradients, an optimiser's state, targets and losses are float32 in any case.

FP16 has 5 bits of exponent: an error signal below 6e-8 becomes 0, and one above 65504 infinite. So the
gradient of the loss is multiplied by ``training.loss_scale``, and updates divide by it: Micikevicius et al.,
"Mixed precision training" (2018). BF16 has float32's exponent.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from snn.errors import ConfigError, Unsupported

FP32, BF16, FP16 = STORAGES = ("fp32", "bf16", "fp16")
"""Values of ``training.storage``."""

LOSS_SCALE = 1024
"""The loss scale for FP16, unless ``training.loss_scale`` is set."""

_LARGEST = 65504.0  # of FP16


def itemsize(storage: str) -> int:
    """Bytes of an element."""
    return 4 if storage == FP32 else 2


def packed(values: np.ndarray, storage: str) -> np.ndarray:
    """The nearest numbers in 16 bits, ties to even: a flat uint16 array in the order of the values."""
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    if storage == FP16:
        with np.errstate(over="ignore"):  # becomes infinite, as on a device
            return flat.astype(np.float16).view(np.uint16)
    bits = flat.view(np.uint32)
    nearest = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(flat), 0x7FFF, nearest).astype(np.uint16)


def check_range(X: np.ndarray, storage: str) -> None:
    """Raise Unsupported if an input would become infinite."""
    if storage == FP16 and (largest := float(np.abs(X).max(initial=0))) > _LARGEST:
        raise Unsupported(
            f"training.storage=fp16 ends at {_LARGEST:g}, and an input is {largest:g}: standardise the "
            "features, or choose training.storage=bf16"
        )


def words(matrix: np.ndarray, storage: str) -> np.ndarray:
    """A matrix as the float32 words that are copied to the device."""
    if storage == FP32:
        return matrix
    halves = packed(matrix, storage)
    return np.append(halves, np.zeros(halves.size % 2, np.uint16)).view(np.float32)


def unpacked(halves: np.ndarray, storage: str) -> np.ndarray:
    """The float32 values of numbers in 16 bits, which are given as uint16."""
    if storage == FP16:
        return halves.view(np.float16).astype(np.float32)
    return (halves.astype(np.uint32) << 16).view(np.float32)


def check(training: Mapping[str, Any]) -> None:
    """Raise ConfigError for a loss scale that rounds gradients, or that nothing reads."""
    storage, scale = training.get("storage", FP32), training.get("loss_scale")
    if scale is None:
        return
    if storage != FP16:
        raise ConfigError(
            f"training.loss_scale is {scale}: it keeps error signals in the range of FP16, and "
            f"training.storage is {storage}: set training.storage=fp16, or training.loss_scale=null"
        )
    if scale & (scale - 1):
        raise ConfigError(
            f"training.loss_scale is {scale}: it must be a power of two, so that gradients are not rounded, "
            f"such as {1 << scale.bit_length() - 1}"
        )


def settled(training: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's section ``training``: no storage key if that is float32, and a loss scale only with FP16."""
    found = {key: value for key, value in training.items() if key not in ("storage", "loss_scale")}
    storage = training.get("storage", FP32)
    if storage == FP32:
        return found
    scale = {"loss_scale": training.get("loss_scale") or LOSS_SCALE} if storage == FP16 else {}
    return found | {"storage": storage} | scale
