"""Purposes of memory, the chunks in which it is mapped, and sizes in words."""

PURPOSES = ("data", "weights", "activations", "gradients", "optimizer", "workspace")
CHUNK = 2 << 20
"""Bytes that a CUDA driver maps at a time, and a huge page of a host: small blocks share such a chunk."""


def size(nbytes: int) -> str:
    """Bytes for a reader: 12 bytes, 96 KiB, 1.5 GiB."""
    value, unit = float(nbytes), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
