"""The paper's synthetic regression data, bit for bit the same as the authors'."""

import numpy as np


def make(rows: int, features: int = 32, noise: float = 0.1, seed: int = 42) -> np.ndarray:
    """x ~ U(-1, 1) in float64, y = sum of x_i^2 + N(0, noise^2); float32 (rows, features + 1)."""
    random = np.random.RandomState(seed)
    X = random.uniform(-1, 1, size=(rows, features))
    y = (X**2).sum(axis=1) + random.normal(0, noise, size=rows)
    return np.column_stack([X, y]).astype(np.float32)
