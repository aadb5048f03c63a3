// Checks every load and store of a kernel. They call __tsan_read4 and the like below: the kernel is
// compiled with -fsanitize=thread, but linked with this file in place of that library. Found are
//   - accesses outside the arrays that were passed and outside shared memory,
//   - races: two accesses to the same word, one of them a write, with no barrier between them. (Of the
//     readers of a word only the last is known, with whether there were others; accesses to less than
//     four bytes are not looked at.)
//   - misaligned numbers and vectors.
// -fsanitize=bounds adds indices beyond a fixed array.

#include "runtime.h"

namespace cuda_on_cpu {

// Whether `now` may happen at the same time as the earlier access `then`.
bool unordered(Access then, Access now, bool shared)
{
    if (then.block != now.block) return !shared;
    if (then.block_interval != now.block_interval) return false;
    if (then.thread / 32 != now.thread / 32) return true;
    return then.thread != now.thread && then.warp_interval == now.warp_interval;
}

bool unordered_readers(Access then, Access now, bool shared)
{
    if (then.many == 3) return true;
    if (then.block == now.block && then.block_interval == now.block_interval) {
        if (then.many == 2) return true;
        if (then.many == 1 && then.thread / 32 == now.thread / 32)
            return then.warp_interval == now.warp_interval;
    }
    return unordered(then, now, shared);
}

// Whether both are of one thread in the same intervals.
bool same(Access then, Access now)
{
    then.many = now.many = 0;
    return bits_as<uint64_t>(then) == bits_as<uint64_t>(now);
}

Access joined(Access then, Access now, bool shared)
{
    now.many = 0;
    if (then.many == 3) return then;
    if (then.block != now.block) {
        now.many = shared ? 0 : 3;
        return now;
    }
    if (then.block_interval != now.block_interval) return now;
    if (then.thread / 32 != now.thread / 32) now.many = 2;
    else if (then.many == 2) now.many = 2;
    else if (then.warp_interval == now.warp_interval) now.many = then.many | (then.thread != now.thread);
    return now;
}

std::string place(const Range& range, const char* address)
{
    const size_t offset = address - range.begin;
    if (range.argument == Range::shared) return text("shared memory");
    return text("element %zu of argument %d", offset / 4, range.argument);
}

[[noreturn]] void fail_race(Access then, const char* before, const char* now, const Range& range,
                            const char* address, void* where)
{
    const Launch& how = worker->job.how;
    const unsigned i = then.thread;
    fail(text("%s %s, which thread (%u, %u, %u) of block %u %s with no barrier between: a race", now,
              place(range, address).c_str(), i % how.block.x, i / how.block.x % how.block.y,
              i / how.block.x / how.block.y, (unsigned)then.block, before),
         where);
}

inline __attribute__((always_inline)) void track(Worker& here, const Range& range, char* address, size_t bytes,
                                                 Kind kind, void* where)
{
    const bool shared = range.argument == Range::shared;
    Access now = here.now;
    const char* const doing = kind == Kind::read ? "reads" : "writes";
    constexpr auto relaxed = std::memory_order_relaxed;

    for (size_t i = (address - range.begin) / 4; bytes >= 4; bytes -= 4, ++i) {
        Word& word = range.words[i];
        const uint64_t writer = word.writer.load(relaxed), reader = word.reader.load(relaxed);
        if (writer != none && !(kind == Kind::atomic && bits_as<Access>(writer).many) &&
            unordered(bits_as<Access>(writer), now, shared))
            fail_race(bits_as<Access>(writer), "wrote", doing, range, range.begin + 4 * i, where);
        if (kind == Kind::read) {
            if (reader != none && same(bits_as<Access>(reader), now)) continue;
            const Access readers = reader == none ? now : joined(bits_as<Access>(reader), now, shared);
            word.reader.store(bits_as<uint64_t>(readers), relaxed);
            continue;
        }
        if (reader != none && unordered_readers(bits_as<Access>(reader), now, shared))
            fail_race(bits_as<Access>(reader), "read", doing, range, range.begin + 4 * i, where);
        now.many = kind == Kind::atomic;
        word.writer.store(bits_as<uint64_t>(now), relaxed);
    }
}

[[noreturn]] void fail_outside(char* address, size_t bytes, bool write, void* where)
{
    std::string near = "far from every array";
    long best = 1 << 20;
    for (const Range& range : worker->job.arrays) {
        const long before = range.begin - address, behind = address + bytes - range.end;
        if (before > 0 && before < best)
            best = before, near = text("%ld bytes before argument %d", before, range.argument);
        if (behind > 0 && behind < best)
            best = behind, near = text("%ld bytes past the end of argument %d", behind, range.argument);
    }
    if (address >= worker->shared_begin && address < worker->shared_end)
        near = "beyond the shared memory that the launch gave";
    fail(text("%s %zu bytes out of bounds, %s,", write ? "writes" : "reads", bytes, near.c_str()),
         where);
}

inline __attribute__((always_inline)) void look_at(void* pointer, size_t bytes, Kind kind, void* where,
                                                   size_t alignment)
{
    Worker* const here = worker;
    if (!here || !here->running) return;
    char* const address = (char*)pointer;
    if (address >= here->stacks && address + bytes <= here->stacks_end) return;
    if ((size_t)address % alignment)
        fail(text("%s what is not aligned to %zu bytes", kind == Kind::read ? "reads" : "writes", bytes), where);
    const auto holds = [&](const Range& range) { return address >= range.begin && address + bytes <= range.end; };
    if (!holds(here->ranges[here->recent])) {
        size_t found = 0;
        while (found < here->ranges.size() && !holds(here->ranges[found])) ++found;
        if (found == here->ranges.size()) fail_outside(address, bytes, kind != Kind::read, where);
        here->recent = found;
    }
    const Range& range = here->ranges[here->recent];
    if (range.words) track(*here, range, address, bytes, kind, where);
}

void access(void* pointer, size_t bytes, Kind kind, void* where) { look_at(pointer, bytes, kind, where, 1); }

uint32_t atomic(uint32_t* address, uint32_t (*change)(uint32_t, uint32_t), uint32_t operand)
{
    access(address, 4, Kind::atomic, __builtin_return_address(0));
    uint32_t old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &old, change(old, operand), true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {}
    return old;
}

// As g++ lays out what it passes for -fsanitize=bounds.
struct Type {
    uint16_t kind, info;
    char name[];
};
struct OutOfBounds {
    const char* file;
    uint32_t line, column;
    const Type *array, *index;
};

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

#define HOOK(name, bytes, kind, alignment) \
    void __tsan_##name##bytes(void* p) { look_at(p, bytes, kind, __builtin_return_address(0), alignment); }
#define HOOKS(bytes)                                     \
    HOOK(read, bytes, Kind::read, bytes)                 \
    HOOK(write, bytes, Kind::write, bytes)               \
    HOOK(volatile_read, bytes, Kind::read, bytes)        \
    HOOK(volatile_write, bytes, Kind::write, bytes)      \
    HOOK(unaligned_read, bytes, Kind::read, 1)           \
    HOOK(unaligned_write, bytes, Kind::write, 1)

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void* p, size_t n) { access(p, n, Kind::read, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t n) { access(p, n, Kind::write, __builtin_return_address(0)); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void __ubsan_handle_out_of_bounds(OutOfBounds* data, size_t index)
{
    fail(text("uses index %ld of %s in line %u", (long)index, data->array->name, data->line));
}
}
