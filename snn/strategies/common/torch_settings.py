"""PyTorch's device and its settings while a strategy trains."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.hardware.devices import usable_processors
from snn.strategies.common.optional import PEERS

_MATMUL = {"fp32": "highest", "tf32": "high"}


class Settings:
    """PyTorch's settings for training in fp32 or tf32, until ``restore``.

    Products and convolutions are in float32 without TF32, or with it. On the CPU they use as many threads as
    PyTorch would by default, although the environment limits NumPy to one. For each shape cuDNN times its
    algorithms, at the first use, and takes the fastest; ``as_published`` has it deterministic instead, as the
    PyTorch program of the CNN report does.
    """

    def __init__(self, torch: Any, precision: str, as_published: bool = False) -> None:
        self._torch = torch
        self._previous = torch.get_float32_matmul_precision(), torch.get_num_threads()
        cudnn = torch.backends.cudnn
        self._cudnn = cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic
        torch.set_float32_matmul_precision(_MATMUL[precision])
        torch.set_num_threads(usable_processors())
        cudnn.allow_tf32 = precision == "tf32"
        cudnn.benchmark, cudnn.deterministic = not as_published, as_published

    def restore(self) -> None:
        """Set everything back."""
        precision, threads = self._previous
        self._torch.set_float32_matmul_precision(precision)
        self._torch.set_num_threads(threads)
        cudnn = self._torch.backends.cudnn
        cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = self._cudnn


@contextmanager
def translated(torch: Any) -> Iterator[None]:
    """A context in which PyTorch's OutOfMemoryError becomes OutOfMemory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(str(error)) from error


def device_of(torch: Any, backend: Backend) -> Any:
    """The PyTorch device of a backend. Raises Unsupported, with the reason, if it has none to train on."""
    if backend.precision not in _MATMUL:
        raise Unsupported(f"this peer trains in float32 or tf32, not {backend.precision}")
    if backend.is_processor:
        if backend.precision != "fp32":
            raise Unsupported(f"on the CPU this peer trains in float32, not {backend.precision}")
        return torch.device("cpu")
    if torch.version.cuda is None:
        raise Unsupported(
            f"torch {torch.__version__} is built without CUDA: run `pip uninstall torch`, then `{PEERS}`"
        )
    if not torch.cuda.is_available():
        raise Unsupported(f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, finds no GPU")
    return torch.device("cuda", 0)
