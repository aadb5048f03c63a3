// What the threads of a warp, a block and a grid do together: who waits for whom, and who goes on.

#include "runtime.h"

#include <algorithm>

namespace cuda_on_cpu {

bool of_warp(State state)
{
    return state == State::warp_barrier || state == State::shuffle || state == State::warp_work;
}

void wait(State state, unsigned mask, int line)
{
    Fiber& fiber = *worker->running;
    if (of_warp(state) && !(mask >> fiber.number % 32 & 1))
        fail(text("is not in the mask 0x%08x that it waits for in line %d", mask, line));
    fiber.state = state;
    fiber.mask = mask;
    fiber.line = line;
    suspend();
}

void block_barrier(int line) { wait(State::block_barrier, 0, line); }

// Named barriers are told apart by their numbers, as others are by their lines. The mask is the number of threads.
void named_barrier(int number, int threads)
{
    if (threads > (int)worker->fibers.size() || threads % 32)
        fail(text("waits at barrier %d for %d of %zu threads", number, threads, worker->fibers.size()));
    wait(State::block_barrier, threads, -number);
}

void named_arrive(int number, int) { ++worker->arrived[number]; }

// Lets those threads go on that wait at a named barrier for each other only, and orders what they did before whatever any
// thread of the block does after it.
bool Worker::release_named()
{
    for (const Fiber& first : fibers) {
        if (first.state != State::block_barrier || first.line > 0) continue;
        if (first.mask == fibers.size() && arrived[-first.line] == 0) continue;
        const auto waits = [&](const Fiber& it) {
            return it.state == State::block_barrier && it.line == first.line && it.mask == first.mask;
        };
        if (std::count_if(fibers.begin(), fibers.end(), waits) + arrived[-first.line] != (int)first.mask) continue;
        arrived[-first.line] = 0;
        for (Fiber& it : fibers)
            if (&it != &first && waits(it)) it.state = State::ready;
        const_cast<Fiber&>(first).state = State::ready;
        ++block_interval;
        return true;
    }
    return false;
}

void grid_barrier(int line) { wait(State::grid_barrier, 0, line); }
void warp_barrier(unsigned mask, int line) { wait(State::warp_barrier, mask, line); }

// The lane that a thread hears is its own where the one asked for lies outside its segment of `width`.
uint64_t shuffle(Shuffle how, unsigned mask, uint64_t value, int argument, int width, int line)
{
    Fiber& fiber = *worker->running;
    const int lane = fiber.number % 32, first = lane / width * width;
    int source = lane;
    switch (how) {
        case Shuffle::from: source = first + (argument & (width - 1)); break;
        case Shuffle::up: source = lane - argument >= first ? lane - argument : lane; break;
        case Shuffle::down: source = lane + argument < first + width ? lane + argument : lane; break;
        case Shuffle::across: source = (lane ^ argument) < first + width ? lane ^ argument : lane; break;
    }
    fiber.value = value;
    fiber.source = source;
    wait(State::shuffle, mask, line);
    return fiber.value;
}

void warp_work(void (*work)(void* const (&lanes)[32]), void* mine, int line)
{
    worker->running->work = work;
    worker->running->brought = mine;
    wait(State::warp_work, ~0u, line);
}

// The last block to come lets all others go on; nothing that any did before it races with what any does after.
void Job::wait_for_all_blocks()
{
    std::unique_lock<std::mutex> guard(lock);
    const uint64_t now = grid_barriers;
    if (how.workers < blocks()) {
        error = "a barrier of the grid needs a cooperative launch";
        failed = true;
    } else if (++waiting == blocks()) {
        for (const Range& range : arrays)
            for (size_t i = 0; i < (range.end - range.begin + 3) / 4u; ++i)
                range.words[i].writer = range.words[i].reader = none;
        waiting = 0;
        ++grid_barriers;
    }
    changed.notify_all();
    changed.wait(guard, [&] { return failed || grid_barriers != now || ended; });
    if (!failed && grid_barriers == now) {
        error = "some blocks wait at a barrier of the grid, others have ended";
        failed = true;
    }
}

// Lets those lanes go on that wait for each other at the same line. Lanes that have ended, or that the
// block does not have, are not waited for.
bool Worker::release_warps()
{
    bool any = false;
    const int threads = fibers.size();
    for (int base = 0; base < threads; base += 32) {
        Fiber* const lanes = &fibers[base];
        const int count = threads - base < 32 ? threads - base : 32;
        for (int first = 0; first < count; ++first) {
            const State state = lanes[first].state;
            const unsigned mask = lanes[first].mask;
            if (!of_warp(state)) continue;
            unsigned together = 0;
            bool all = true;
            for (int i = 0; i < count; ++i) {
                if (!(mask >> i & 1) || lanes[i].state == State::done) continue;
                together |= 1u << i;
                all &= lanes[i].state == state && lanes[i].line == lanes[first].line &&
                       lanes[i].mask == mask;
            }
            if (!all) continue;
            any = true;
            if (state == State::warp_work) {
                if (together != ~0u) {
                    record(job, text("a warp of %d lanes at what all 32 must do, in line %d",
                                     __builtin_popcount(together), lanes[first].line));
                    return any;
                }
                void* brought[32];
                for (int i = 0; i < 32; ++i) brought[i] = lanes[i].brought;
                lanes[first].work(brought);
            }
            uint64_t values[32];
            for (int i = 0; i < 32; ++i) values[i] = together >> i & 1 ? lanes[i].value : none;
            for (int i = 0; i < count; ++i) {
                if (!(together >> i & 1)) continue;
                lanes[i].state = State::ready;
                if (state == State::shuffle) lanes[i].value = values[lanes[i].source];
            }
            // A shuffle orders no memory accesses; __syncwarp does.
            if (state == State::warp_barrier) warp_interval[base / 32]++;
        }
    }
    return any;
}

void Worker::explain_deadlock()
{
    std::string groups;
    std::vector<bool> told(fibers.size());
    for (size_t i = 0; i < fibers.size(); ++i) {
        if (told[i]) continue;
        int count = 0;
        for (size_t j = i; j < fibers.size(); ++j) {
            if (fibers[j].state != fibers[i].state) continue;
            if (fibers[i].state != State::done && fibers[j].line != fibers[i].line) continue;
            told[j] = true;
            ++count;
        }
        const char* const what[] = {"", "wait at __syncthreads", "wait at __syncwarp",
                                    "wait at a shuffle", "wait at an instruction of the warp",
                                    "wait at a barrier of the grid", "have ended"};
        groups += groups.empty() ? "" : ", ";
        if (fibers[i].line < 0) groups += text("%d wait at barrier %d", count, -fibers[i].line);
        else groups += text("%d %s", count, what[(int)fibers[i].state]);
        if (fibers[i].state != State::done && fibers[i].line > 0) groups += text(" in line %d", fibers[i].line);
        const uint3 t = fibers[i].thread;
        groups += text(" (the first: %u, %u, %u)", t.x, t.y, t.z);
    }
    const std::string where = text("divergent barrier in block (%u, %u, %u)", block.x, block.y, block.z);
    record(job, where + text(": of %zu threads ", fibers.size()) + groups);
}

}  // namespace cuda_on_cpu
