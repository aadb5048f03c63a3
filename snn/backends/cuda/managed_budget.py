"""How much managed memory may be held: half of what is free on the device, never more."""

from collections.abc import Callable

from snn.errors import Unsupported


class ManagedBudget:
    """Bytes that are held, of at most half of what was free before the first of them.

    More could be had, by moving pages out and in again: that is another experiment than the one made here,
    and one that other programs on the device would notice. ``free`` says how many bytes are free now.
    """

    def __init__(self, free: Callable[[], int]) -> None:
        self._free_now = free
        self._held = self._free = 0

    def take(self, nbytes: int) -> None:
        """Hold so many more, or raise Unsupported."""
        if not self._held:
            self._free = self._free_now()
        if self._held + nbytes > self._free // 2:
            raise Unsupported(
                f"{nbytes} bytes of managed memory were asked for beside {self._held}: "
                f"together at most half of the {self._free} bytes that were free on the device"
            )
        self._held += nbytes

    def give(self, nbytes: int) -> None:
        """Hold so many less."""
        self._held -= nbytes
