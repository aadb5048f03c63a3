"""Generates images of ten classes: gratings whose direction is the class. Downloads nothing."""

import numpy as np

from snn.errors import ConfigError

SHAPE = (1, 28, 28)
CLASSES = 10
_FREQUENCIES = 1 / 10, 1 / 5
"""Cycles per pixel: the slowest and the fastest grating."""
_AMPLITUDES = 0.2, 1.0
_NOISE = 0.3
"""Largest change of a pixel's value, up or down."""
_OF_AN_IMAGE = 4 + SHAPE[1] * SHAPE[2]
"""Random numbers per image."""
_AT_ONCE = 1000
"""Images whose random numbers are in memory at the same time."""


def make(rows: int, test_rows: int, seed: int = 42, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """The float32 table (rows + test_rows, 785): 784 pixels of 28x28 from 0 to 1, and the class k.

    With x and y the distances in pixels from the middle of the image, right and down, a pixel is ::

        p(x, y) = clip(1/2 + a/2 cos(2 pi f (x cos t + y sin t) + s) + e(x, y), 0, 1),   t = pi k / 10

    rounded to a multiple of 1/255, as in image files. An image takes 788 numbers from
    ``numpy.random.RandomState(seed).random_sample``: k, uniform in 0..9; the phase s in [0, 2 pi); the
    amplitude a in [0.2, 1); the frequency f in [0.1, 0.2); and by rows the noise e in [-0.3, 0.3). So the
    first images are the same for any number of rows; test images follow the training images in the stream.

    The phase is uniform, so the mean image of every class is the same grey: a linear model of the pixels
    has an accuracy below one third, while the rectified response to a filter tells the direction. Raises
    ConfigError for another shape.
    """
    if tuple(shape) != SHAPE:
        raise ConfigError(f"dataset.shape is {list(shape)}: the images of dataset=patterns are {list(SHAPE)}")
    random = np.random.RandomState(seed)
    table = np.empty((rows + test_rows, SHAPE[1] * SHAPE[2] + 1), np.float32)
    for start in range(0, len(table), _AT_ONCE):
        part = table[start : start + _AT_ONCE]
        part[:, :-1], part[:, -1] = _images(random.random_sample((len(part), _OF_AN_IMAGE)))
    return table


def _images(random: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (rows, 784) in float32, and classes (rows,), from numbers (rows, 788) in [0, 1)."""
    k = np.floor(CLASSES * random[:, 0])
    s, a, f = (
        low + (high - low) * random[:, [column]]
        for column, (low, high) in enumerate(((0, 2 * np.pi), _AMPLITUDES, _FREQUENCIES), 1)
    )
    t = np.pi * k[:, np.newaxis] / CLASSES
    y, x = (np.indices(SHAPE[1:]) - (SHAPE[1] - 1) / 2).reshape(2, 1, -1)
    e = _NOISE * (2 * random[:, 4:] - 1)
    p = 0.5 + a / 2 * np.cos(2 * np.pi * f * (x * np.cos(t) + y * np.sin(t)) + s) + e
    pixels = np.rint(255 * p.clip(0, 1)).astype(np.uint8)
    return pixels / np.float32(255), k
