// What a launch trains: `steps` batches from batch `first` on, one after the other, and after the last batch the first
// again. The weights, on which the next launch goes on, are in memory between launches; all else that a launch reads of
// the workspace, but for its head, it has written or cleared itself. So launches of any lengths, one after the other,
// end with the bits of one launch.
//
// A workspace begins with a head, which is 0 before the first launch: two counters of the barrier (barrier.cuh), and
// the steps that all launches have trained, of all members, a number of 64 bits: what the host compares with what it
// asked for.

constexpr int HEAD_FLOATS = 4;
constexpr int AT_TRAINED = 2;

__device__ int batch_after(int batch, int batches) { return batch + 1 < batches ? batch + 1 : 0; }

// By one thread per network, behind its last step.
__device__ void count_steps(float* workspace, int trained)
{
    unsigned* const low = reinterpret_cast<unsigned*>(workspace) + AT_TRAINED;
    const unsigned before = atomicAdd(low, (unsigned)trained);
    if (before + trained < before) atomicAdd(low + 1, 1u);
}
