"""What the inputs of a product become before they are multiplied: the oracle of the reduced precisions."""

import numpy as np

_DROPPED_BITS = {"fp32": 0, "tf32": 13, "bf16": 16}


def rounded(matrix: np.ndarray, precision: str) -> np.ndarray:
    """The nearest float32 that a precision has; of two as near, the larger (TF32) or the even one (BF16)."""
    dropped = _DROPPED_BITS[precision]
    if not dropped:
        return matrix
    bits = np.ascontiguousarray(matrix).view(np.uint32).astype(np.uint64)
    half = np.uint64(1 << (dropped - 1))
    if precision == "bf16":
        half = half - 1 + (bits >> np.uint64(dropped) & np.uint64(1))
    bits = (bits + half) >> np.uint64(dropped) << np.uint64(dropped)
    return np.where(np.isfinite(matrix), bits.astype(np.uint32).view(np.float32), matrix)
