"""Image sets in IDX files for the tests, packed and read with nothing of the engine's."""

import gzip
import struct

import numpy as np

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = NAMES


def idx(values):
    """The IDX file of an array of bytes."""
    values = np.asarray(values, np.uint8)
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


def zipped(content):
    """The same bytes for the same content, whenever."""
    return gzip.compress(content, mtime=0)


def image_set(rows=4, test_rows=2, height=2, width=3, labels=10, seed=1):
    """Four files by their names, of random pixels and labels."""
    random = np.random.default_rng(seed)
    parts = []
    for count in (rows, test_rows):
        parts += [random.integers(0, 256, (count, height, width)), random.integers(0, labels, count)]
    return {name: idx(part) for name, part in zip(NAMES, parts, strict=True)}


def write(folder, files):
    """Write files into a folder, which is made; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def values(content):
    """The array in an IDX file of bytes that is whole; packed or not."""
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    zero, kind, dimensions = struct.unpack(">HBB", content[:4])
    assert (zero, kind) == (0, 8)
    sizes = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
    return np.array(list(content[4 + 4 * dimensions :]), np.uint8).reshape(sizes)


def table(files, rows=None, test_rows=None):
    """The table of four files, in the order of ``NAMES``: pixel / 255, a division of two float32."""
    train_images, train_labels, test_images, test_labels = map(values, files)
    parts = []
    for images, labels, count in ((train_images, train_labels, rows), (test_images, test_labels, test_rows)):
        pixels = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
        parts.append(np.column_stack([pixels, labels.astype(np.float32)])[:count])
    return np.concatenate(parts)
