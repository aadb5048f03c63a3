// What a launch trains: `steps` batches from batch `first` on, one after the other, and after the last batch the first
// again. Between launches the weights are in memory, with three layers also the scales of what is split into halves. A
// launch clears the messages of the one before, or tells them from its own by their steps. So a training ends with the same
// bits however it is split.
//
// A workspace begins with a head, which is 0 before the first launch: the barrier's two counters (barrier.cuh); the steps
// that all launches have trained, of all members, in 64 bits, which the host compares with what it asked for; and, of a
// kernel that may stop, one more than the steps that it could have trained, or 0 if the last launch has not stopped.

// What follows the head begins with a line of L2. Behind 16 bytes a step of two or three layers took 7% longer (NVIDIA H100).

constexpr int HEAD_FLOATS = 32, AT_TRAINED = 2, AT_STOPPED = 4;

__device__ int batch_after(int batch, int batches) { return batch + 1 < batches ? batch + 1 : 0; }

// By one thread for each network, after its last step.
__device__ void count_steps(float* workspace, int trained)
{
    unsigned* const low = reinterpret_cast<unsigned*>(workspace) + AT_TRAINED;
    const unsigned before = atomicAdd(low, (unsigned)trained);
    if (before + trained < before) atomicAdd(low + 1, 1u);
}
