"""A CPU backend on which something fails, to see that everything is freed all the same."""

from every_source import EverySource

from snn.errors import OutOfMemory


class FailingBackend(EverySource):
    """Fails at its n-th allocation, copy or launch, as a device may."""

    def __init__(self, fail_at):
        super().__init__()
        self.left = fail_at

    def _tick(self):
        self.left -= 1
        if self.left == 0:
            raise OutOfMemory("planted")

    def malloc(self, *arguments):
        self._tick()
        return super().malloc(*arguments)

    def host_alloc(self, *arguments):
        self._tick()
        return super().host_alloc(*arguments)

    def copy_in(self, *arguments):
        self._tick()
        super().copy_in(*arguments)

    def copy_out(self, *arguments):
        self._tick()
        super().copy_out(*arguments)

    def launch(self, *arguments):
        self._tick()
        super().launch(*arguments)

    def stream_create(self):
        self._tick()
        return super().stream_create()

    def pool_create(self, *arguments):
        self._tick()
        return super().pool_create(*arguments)

    def advise(self, *arguments):
        self._tick()
        super().advise(*arguments)

    def prefetch_in(self, *arguments):
        self._tick()
        super().prefetch_in(*arguments)
