// Clusters of blocks that write to each other's shared memory, and copies that are on their way for a while.

#include "runtime.h"

#include <ctime>

namespace cuda_on_cpu {

unsigned shared_address(const void* pointer) { return (char*)pointer - worker->shared_begin; }
unsigned cluster_rank() { return worker->block_number % worker->job.how.cluster; }

char* resolve(unsigned address)
{
    const unsigned block = address >> 24, offset = address & 0xffffff;
    if (block == 0) return worker->shared_begin + offset;
    const uint64_t cluster = worker->job.how.cluster;
    return worker->job.workers[worker->block_number / cluster * cluster + block - 1]->shared_begin + offset;
}

void copy_async(unsigned to, const float* from)
{
    char* const place = resolve(to);
    if ((size_t)place % 16 || (size_t)from % 16) fail("copies 16 bytes that are not aligned to 16");
    access((void*)from, 16, Kind::read, __builtin_return_address(0));
    access(place, 16, Kind::write, __builtin_return_address(0));
    std::memset(place, 0xff, 16);
    worker->running->copies.push_back({place, from});
}

void copies_done()
{
    for (const Fiber::Copy& copy : worker->running->copies) std::memcpy(copy.to, copy.from, 16);
    worker->running->copies.clear();
}

struct MBarrier {
    int32_t bytes;  // still to come
    uint16_t arrivals;
    uint8_t phase, seen;  // whether a thread of the block knows of the phase
};
static_assert(sizeof(MBarrier) == 8);

void change(unsigned address, int bytes, int arrivals)
{
    const std::lock_guard<std::mutex> guard(worker->job.lock);
    MBarrier& it = *(MBarrier*)resolve(address);
    it.bytes += bytes;
    it.arrivals -= arrivals;
    if (it.bytes == 0 && it.arrivals == 0) it.arrivals = 1, it.phase ^= 1, it.seen = 0;
}

void mbarrier_init(unsigned mbarrier) { *(MBarrier*)resolve(mbarrier) = {0, 1, 0, 1}; }
void mbarrier_expect(unsigned mbarrier, unsigned bytes) { change(mbarrier, bytes, 1); }

// What another block writes is not looked at for races: it cannot know this block's barriers.
void send(unsigned to, const float* values, int count, unsigned mbarrier)
{
    if (to % (4 * count)) fail(text("sends %d bytes to a place that is not aligned to them", 4 * count));
    std::memcpy(resolve(to), values, 4 * count);
    change(mbarrier, -4 * count, 0);
}

// The first thread to know orders what its block did before whatever the block does after, as at a named barrier.
bool mbarrier_try_wait(unsigned mbarrier, unsigned parity)
{
    const std::lock_guard<std::mutex> guard(worker->job.lock);
    MBarrier& it = *(MBarrier*)resolve(mbarrier);
    if (it.phase == parity) return false;
    worker->block_interval += !it.seen;
    worker->now.block_interval = worker->block_interval;
    it.seen = 1;
    return true;
}

void publish(unsigned long long* to, unsigned long long value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }

unsigned long long look(const unsigned long long* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }

void strong_read(const float* from, float* to, int count)
{
    for (int i = 0; i < count; ++i) {
        const uint32_t found = __atomic_load_n((const uint32_t*)from + i, __ATOMIC_ACQUIRE);
        std::memcpy(to + i, &found, 4);
    }
}

void strong_write(float* to, const float* from, int count)
{
    for (int i = 0; i < count; ++i) {
        uint32_t value;
        std::memcpy(&value, from + i, 4);
        __atomic_store_n((uint32_t*)to + i, value, __ATOMIC_RELEASE);
    }
}

void pause() { look_later(); }

unsigned long long nanoseconds()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

unsigned clock_milliseconds()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void give_up(uint64_t name, unsigned layer, unsigned step)
{
    char letters[9] = {};
    std::memcpy(letters, &name, 8);
    fail(text("has waited too long for %s of layer %u in step %u", letters, layer, step));
}

}  // namespace cuda_on_cpu
