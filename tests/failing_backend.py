"""A CPU backend on which something fails, to see that everything is freed all the same."""

from every_source import Captures

from snn.errors import OutOfMemory


class FailingBackend(Captures):
    """Fails at its n-th allocation, copy, launch or capture, as a device may.

    While a stream captures, nothing is waited for, allocated or freed, and what failed meanwhile makes the
    capture invalid. ``plan``: whether a whole training in one launch can be planned.
    """

    def __init__(self, fail_at, plan=True):
        super().__init__(plan)
        self.left = fail_at
        self._capturing = False

    def _tick(self):
        self.left -= 1
        if self.left == 0:
            raise OutOfMemory("planted")

    def _check_not_capturing(self):
        if self._capturing:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")

    def graph_begin(self, stream):
        self._tick()
        self._capturing = True

    def graph_end(self, stream, buffer=None):
        assert self._capturing
        self._capturing = False
        if self.left == 0:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        self._tick()
        return super().graph_end(stream, buffer)

    def free(self, buffer):
        self._check_not_capturing()
        super().free(buffer)

    def stream_synchronize(self, stream):
        self._check_not_capturing()
        super().stream_synchronize(stream)

    def stream_destroy(self, stream):
        self._check_not_capturing()
        super().stream_destroy(stream)

    def malloc(self, *arguments):
        self._check_not_capturing()
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

    def steps_per_launch(self, shape):
        self._tick()
        return super().steps_per_launch(shape)

    def advise(self, *arguments):
        self._tick()
        super().advise(*arguments)

    def prefetch_in(self, *arguments):
        self._tick()
        super().prefetch_in(*arguments)
