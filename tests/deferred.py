"""A CPU backend whose streams lag or lead: a wait that is missing between two shows as wrong numbers."""

import numpy as np

from snn.backends.cpu.backend import CpuBackend


class DeferredBackend(CpuBackend):
    """Streams are queues, done as late as the calls allow: at a synchronisation, and there only what is
    asked for. The ``eager`` one, by order of creation, does all at once. A copy reads its host array when it
    is done, not when it is asked for. Graphs are captured.
    """

    def __init__(self, fused=False, pretransposed=False, convolves=False, eager=None):
        super().__init__(fused, pretransposed, convolves)
        self._eager = eager
        self._queues = {}
        self._done = {}  # how much of each queue
        self._recorded = {}  # event: (stream, length of its queue then)
        self._capturing = {}
        self._graphs = {}

    def stream_create(self):
        stream = super().stream_create()
        self._queues[stream], self._done[stream] = [], 0
        return stream

    def stream_destroy(self, stream):
        assert self._done[stream] == len(self._queues[stream]), "destroyed before it was done"
        del self._queues[stream]

    def _ask(self, stream, work):
        if stream is None:  # the default stream waits for all others and is waited for
            self.synchronize()
            work()
        elif stream in self._capturing:
            self._capturing[stream].append(work)
        else:
            self._append(stream, work)

    def _append(self, stream, work):
        self._queues[stream].append(work)
        if stream == self._eager:
            self.stream_synchronize(stream)

    def _do(self, stream, until):
        while self._done[stream] < until:
            self._done[stream] += 1
            self._queues[stream][self._done[stream] - 1]()

    def launch(self, op, buffers, numbers, stream=None):
        self._ask(stream, lambda: super(DeferredBackend, self).launch(op, buffers, numbers))

    def train(self, shape, buffers, steps, stream=None):
        self._ask(stream, lambda: super(DeferredBackend, self).train(shape, buffers, steps))

    def copy_in(self, buffer, array, stream=None):
        self._ask(stream, lambda: super(DeferredBackend, self).copy_in(buffer, array))

    def copy_out(self, array, buffer, stream=None):
        self._ask(stream, lambda: super(DeferredBackend, self).copy_out(array, buffer))

    def all_reduce(self, buffer, nbytes, stream, further):
        before = {one: len(self._queues[one]) for one in (stream, *(other for _, other in further))}
        waiting = [lambda: super(DeferredBackend, self).all_reduce(buffer, nbytes, stream, further)]

        def meet():
            """The first stream that comes here waits for the others, and sums."""
            if waiting:
                total = waiting.pop()
                for one, length in before.items():
                    self._do(one, length)
                total()

        for one in before:
            self._append(one, meet)

    def stream_synchronize(self, stream):
        self._do(stream, len(self._queues[stream]))

    def synchronize(self):
        for stream in self._queues:
            self.stream_synchronize(stream)

    def event_destroy(self, event):
        on, length = self._recorded.pop(event, (None, 0))
        assert on is None or self._done[on] >= length, "destroyed before it was reached"

    def event_record(self, event, stream):
        self._recorded[event] = stream, len(self._queues[stream])

    def event_wait(self, event, stream):
        if event in self._recorded:
            on, length = self._recorded[event]
            self._append(stream, lambda: self._do(on, length))

    def event_synchronize(self, event):
        if event in self._recorded:
            self._do(*self._recorded[event])

    def malloc(self, nbytes, kind=None):
        buffer = super().malloc(nbytes, kind)
        buffer.words.fill(np.nan)
        return buffer

    def free(self, buffer):
        self.synchronize()  # as cudaFree does
        super().free(buffer)

    def overlap_launches(self, on):
        """Nothing: kernels wait for those before them."""

    def graph_begin(self, stream):
        self._capturing[stream] = []

    def graph_end(self, stream, buffer=None):
        graph = len(self._graphs) + 1
        self._graphs[graph] = self._capturing.pop(stream), buffer
        return graph

    def graph_launch(self, graph, stream):
        captured, left = self._graphs[graph]
        for work in captured if left is None else [lambda: self._repeat(captured, left)]:
            self._append(stream, work)

    @staticmethod
    def _repeat(captured, left):
        left, every = left.words.view(np.uint32)[:1], left.words.view(np.uint32)[1:2]
        while True:
            for work in captured:
                work()
            left -= 1
            if left == 0:
                left[:] = every
                return

    def graph_destroy(self, graph):
        del self._graphs[graph]
