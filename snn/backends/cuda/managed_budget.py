"""The budget for managed memory: half of the free device memory."""

from collections.abc import Callable

from snn.errors import Unsupported


class ManagedBudget:
    """Bytes of managed memory in use, at most half of the memory that was free before the first allocation.

    Managed memory could be oversubscribed, but then the driver swaps pages, which is a different experiment
    and disturbs other programs on the device. ``free`` returns the bytes that are free now.
    """

    def __init__(self, free: Callable[[], int]) -> None:
        self._free_now = free
        self._held = self._free = 0

    def take(self, nbytes: int) -> None:
        """Count an allocation of ``nbytes``, or raise Unsupported if it exceeds the budget."""
        if not self._held:
            self._free = self._free_now()
        if self._held + nbytes > self._free // 2:
            raise Unsupported(
                f"{nbytes} bytes of managed memory were requested in addition to {self._held}: "
                f"together at most half of the {self._free} bytes that were free on the device"
            )
        self._held += nbytes

    def give(self, nbytes: int) -> None:
        """Count an allocation of ``nbytes`` as freed."""
        self._held -= nbytes
