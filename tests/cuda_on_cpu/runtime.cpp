// Runs a kernel on the CPU: every CUDA thread of a block is a fiber, blocks are spread over
// operating-system threads. A fiber runs until it waits, then the next one does, in an order that
// turns round at every barrier, so that threads interleave as little as a GPU would ever promise.
//
// Every load and store of the kernel calls __tsan_read4 and the like below (the kernel is compiled
// with -fsanitize=thread, but linked with this file in place of that library). They see
//   - accesses outside the arrays that were passed and outside shared memory,
//   - races: two accesses to the same word, one of them a write, with no barrier between them.
// -fsanitize=bounds,alignment adds indices beyond a fixed array and misaligned vectors.
// Whatever is wrong ends the launch with a text.

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <link.h>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <ucontext.h>
#include <vector>

#include "cuda_on_cpu.h"  // last: it defines names that begin with __

namespace cuda_on_cpu {

constexpr size_t stack_bytes = 64 * 1024;
constexpr uint64_t stack_mark = 0x5ca1ab1e0ddba11;

struct Launch {  // as in __init__.py
    uint3 grid, block;
    uint64_t dynamic_shared;
    uint64_t arrays;
    char* const* array_begin;
    const uint64_t* array_bytes;
    const uint64_t* array_argument;
    uint64_t workers;
    char* error;
    uint64_t error_bytes;
};

// ---------------------------------------------------------------------------------------------
// Who touched a word last

struct Access {
    uint64_t block : 20, thread : 10, block_interval : 16, warp_interval : 16;
    uint64_t many : 2;  // readers: 1 several in the warp, 2 several warps, 3 several blocks. Writer: 1 an atomic
};
static_assert(sizeof(Access) == 8);

constexpr uint64_t none = ~0ull;
struct Word {
    std::atomic<uint64_t> writer{none}, reader{none};
};

struct Range {
    char *begin, *end;
    int argument;                    // or one of:
    static constexpr int shared = -1;
    static constexpr int untracked = -2;  // stacks, constants
    Word* words = nullptr;
};

// ---------------------------------------------------------------------------------------------
// Fibers

enum class State { ready, block_barrier, warp_barrier, shuffle, done };

struct Fiber {
    jmp_buf context;
    ucontext_t start;
    uint3 thread;
    int number;
    State state;
    int line;       // of the barrier or shuffle that it waits at
    unsigned mask;  // the lanes that it waits for
    uint64_t value;
    int source;     // the lane whose value it wants
};

struct Job {
    const Launch& how;
    void (*kernel)(void**);
    void** arguments;
    std::vector<Range> arrays;
    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> failed{false};
    std::mutex lock;
    std::string error;
};

struct Worker {
    Job& job;
    std::vector<Range> ranges;
    std::vector<Fiber> fibers;
    std::vector<uint32_t> warp_interval;
    std::unique_ptr<Word[]> shared_words;
    char* stacks;
    jmp_buf home;
    ucontext_t home_start;
    Fiber* running = nullptr;
    uint3 block{};
    uint64_t block_number = 0;
    uint32_t block_interval = 0;
    char *image_begin, *shared_begin, *shared_end;

    explicit Worker(Job& job);
    ~Worker() { munmap(stacks, fibers.size() * stack_bytes); }
    void run_blocks();
    void run_block();
    void resume(Fiber& fiber);
    bool release_warps();
    void explain_deadlock();
};

thread_local Worker* worker = nullptr;

// A fiber that waits. Its own frames stay on its stack; those of the scheduler on the worker's.
__attribute__((noinline)) void suspend()
{
    Worker* const here = worker;
    if (!_setjmp(here->running->context)) _longjmp(here->home, 1);
}

void Worker::resume(Fiber& fiber)
{
    running = &fiber;
    if (!_setjmp(home)) _longjmp(fiber.context, 1);
    running = nullptr;
}

void record(Job& job, const std::string& text)
{
    const std::lock_guard<std::mutex> guard(job.lock);
    if (!job.failed) job.error = text;
    job.failed = true;
}

std::string text(const char* format, ...)
{
    char line[600];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    return line;
}

// `where` is an address in this library, which __init__.py turns into file and line.
[[noreturn]] void fail(const std::string& what, void* where = nullptr)
{
    Worker& here = *worker;
    const uint3 t = here.running->thread, b = here.block;
    std::string message =
        text("thread (%u, %u, %u) of block (%u, %u, %u) ", t.x, t.y, t.z, b.x, b.y, b.z) + what;
    if (where) message += text(" at <0x%zx>", (size_t)((char*)where - here.image_begin));
    record(here.job, message);
    for (;;) suspend();
}

void enter()
{
    Worker* const here = worker;
    if (!_setjmp(here->running->context)) setcontext(&here->home_start);
    for (;;) {
        here->job.kernel(here->job.arguments);
        here->running->state = State::done;
        suspend();
    }
}

// ---------------------------------------------------------------------------------------------
// A worker and its blocks

struct Image {
    char *begin = nullptr, *end = nullptr, *shared_begin = nullptr, *shared_end = nullptr;
};

// Where this library lies, and where its thread_local variables do for the calling thread: those are
// the kernel's shared memory (and `worker`).
Image find_image()
{
    Image image;
    (void)*(Worker* volatile*)&worker;  // so that they have been allocated
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* out) {
            Image found;
            size_t shared_bytes = 0;
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const auto& header = info->dlpi_phdr[i];
                char* const begin = (char*)info->dlpi_addr + header.p_vaddr;
                if (header.p_type == PT_LOAD) {
                    if (!found.begin || begin < found.begin) found.begin = begin;
                    if (begin + header.p_memsz > found.end) found.end = begin + header.p_memsz;
                }
                if (header.p_type == PT_TLS) shared_bytes = header.p_memsz;
            }
            if ((char*)&find_image < found.begin || (char*)&find_image >= found.end) return 0;
            found.shared_begin = (char*)info->dlpi_tls_data;
            found.shared_end = found.shared_begin + shared_bytes;
            *(Image*)out = found;
            return 1;
        },
        &image);
    return image;
}

Worker::Worker(Job& job) : job(job), ranges(job.arrays)
{
    const uint3 size = job.how.block;
    const int threads = size.x * size.y * size.z;
    fibers.resize(threads);
    warp_interval.resize((threads + 31) / 32);
    stacks = (char*)mmap(nullptr, threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    const Image image = find_image();
    image_begin = image.begin;
    shared_begin = image.shared_begin;
    shared_end = image.shared_end;
    shared_words.reset(new Word[(shared_end - shared_begin) / 4 + 1]);
    const auto add_shared = [&](char* begin, char* end) {
        if (begin < end) ranges.push_back({begin, end, Range::shared, shared_words.get() + (begin - shared_begin) / 4});
    };
    char* const dynamic = (char*)dynamic_shared();
    if (dynamic) {
        add_shared(dynamic, dynamic + job.how.dynamic_shared);
        add_shared(shared_begin, dynamic);
        add_shared(dynamic + dynamic_shared_limit, shared_end);
    } else {
        add_shared(shared_begin, shared_end);
    }
    ranges.push_back({stacks, stacks + threads * stack_bytes, Range::untracked});
    ranges.push_back({image.begin, image.end, Range::untracked});
}

void Worker::run_blocks()
{
    worker = this;
    for (int i = 0; i < (int)fibers.size(); ++i) {
        Fiber& fiber = fibers[i];
        const uint3 size = job.how.block;
        fiber.number = i;
        fiber.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = stacks + i * stack_bytes;
        fiber.start.uc_stack.ss_size = stack_bytes;
        *(uint64_t*)fiber.start.uc_stack.ss_sp = stack_mark;
        makecontext(&fiber.start, enter, 0);
        running = &fiber;
        swapcontext(&home_start, &fiber.start);
    }
    const uint3 grid = job.how.grid;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    while (!job.failed && (block_number = job.next_block++) < blocks) {
        block.x = block_number % grid.x;
        block.y = block_number / grid.x % grid.y;
        block.z = block_number / grid.x / grid.y;
        run_block();
    }
    worker = nullptr;
}

void Worker::run_block()
{
    std::memset(shared_begin, 0xff, shared_end - shared_begin);  // 0xffffffff is not a number
    worker = this;
    block_interval = 0;
    std::fill(warp_interval.begin(), warp_interval.end(), 0);
    for (Fiber& fiber : fibers) fiber.state = State::ready;

    const int threads = fibers.size();
    for (uint64_t pass = block_number;; ++pass) {
        for (int i = 0; i < threads; ++i) {
            Fiber& fiber = fibers[pass % 2 ? threads - 1 - i : i];
            if (fiber.state == State::ready) resume(fiber);
            if (job.failed) return;
        }
        if (release_warps()) continue;

        const Fiber& first = fibers[0];
        bool alike = true;
        for (const Fiber& fiber : fibers) {
            alike &= fiber.state == first.state && (fiber.state == State::done || fiber.line == first.line);
            if (*(uint64_t*)fiber.start.uc_stack.ss_sp != stack_mark)
                return record(job, "a thread used more than 64 KiB of stack");
        }
        if (!alike) return explain_deadlock();
        if (first.state == State::done) return;
        for (Fiber& fiber : fibers) fiber.state = State::ready;
        if (++block_interval == 1u << 16) return record(job, "more than 65535 barriers in a block");
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
            if (state != State::warp_barrier && state != State::shuffle) continue;
            unsigned together = 0;
            bool all = true;
            for (int i = 0; i < count; ++i) {
                if (!(mask >> i & 1) || lanes[i].state == State::done) continue;
                together |= 1u << i;
                all &= lanes[i].state == state && lanes[i].line == lanes[first].line && lanes[i].mask == mask;
            }
            if (!all) continue;
            any = true;
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
        const char* const what[] = {"", "wait at __syncthreads", "wait at __syncwarp", "wait at a shuffle", "have ended"};
        groups += text("%s%d %s", groups.empty() ? "" : ", ", count, what[(int)fibers[i].state]);
        if (fibers[i].state != State::done) groups += text(" in line %d", fibers[i].line);
        groups += text(" (the first: %u, %u, %u)", fibers[i].thread.x, fibers[i].thread.y, fibers[i].thread.z);
    }
    record(job, text("divergent barrier in block (%u, %u, %u): of %zu threads ", block.x, block.y, block.z, fibers.size()) + groups);
}

bool launch(const Launch& how, void (*kernel)(void**), void** arguments)
{
    Job job{how, kernel, arguments};
    std::vector<std::unique_ptr<Word[]>> words;
    for (uint64_t i = 0; i < how.arrays; ++i) {
        char* const begin = how.array_begin[i];
        words.emplace_back(new Word[how.array_bytes[i] / 4 + 1]);
        job.arrays.push_back({begin, begin + how.array_bytes[i], (int)how.array_argument[i], words.back().get()});
    }
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < how.workers; ++i)
        threads.emplace_back([&job] { Worker(job).run_blocks(); });
    for (std::thread& thread : threads) thread.join();
    snprintf(how.error, how.error_bytes, "%s", job.error.c_str());
    return !job.failed;
}

// ---------------------------------------------------------------------------------------------
// What kernels call

uint3 thread_index() { return worker->running->thread; }
uint3 block_index() { return worker->block; }
uint3 block_dim() { return worker->job.how.block; }
uint3 grid_dim() { return worker->job.how.grid; }

void wait(State state, unsigned mask, int line)
{
    Fiber& fiber = *worker->running;
    if (state != State::block_barrier && !(mask >> fiber.number % 32 & 1))
        fail(text("is not in the mask 0x%08x that it waits for in line %d", mask, line));
    fiber.state = state;
    fiber.mask = mask;
    fiber.line = line;
    suspend();
}

void block_barrier(int line) { wait(State::block_barrier, 0, line); }
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

// ---------------------------------------------------------------------------------------------
// Every load and store

enum class Kind { read, write, atomic };

Access unpack(uint64_t bits)
{
    Access access;
    std::memcpy(&access, &bits, sizeof access);
    return access;
}

uint64_t pack(Access access)
{
    uint64_t bits;
    std::memcpy(&bits, &access, sizeof bits);
    return bits;
}

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
        if (then.many == 1 && then.thread / 32 == now.thread / 32) return then.warp_interval == now.warp_interval;
    }
    return unordered(then, now, shared);
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

[[noreturn]] void fail_race(Access then, const char* before, const char* now, const Range& range, const char* address, void* where)
{
    const Launch& how = worker->job.how;
    const unsigned i = then.thread;
    fail(text("%s %s, which thread (%u, %u, %u) of block %u %s with no barrier between: a race", now, place(range, address).c_str(),
              i % how.block.x, i / how.block.x % how.block.y, i / how.block.x / how.block.y, (unsigned)then.block, before),
         where);
}

void track(const Range& range, char* address, size_t bytes, Kind kind, void* where)
{
    const bool shared = range.argument == Range::shared;
    Worker& here = *worker;
    Access now{};
    now.block = here.block_number;
    now.thread = here.running->number;
    now.block_interval = here.block_interval;
    now.warp_interval = here.warp_interval[now.thread / 32];
    const char* const doing = kind == Kind::read ? "reads" : "writes";
    constexpr auto relaxed = std::memory_order_relaxed;

    for (size_t i = (address - range.begin) / 4; bytes >= 4; bytes -= 4, ++i) {
        Word& word = range.words[i];
        const uint64_t writer = word.writer.load(relaxed), reader = word.reader.load(relaxed);
        if (writer != none && !(kind == Kind::atomic && unpack(writer).many) && unordered(unpack(writer), now, shared))
            fail_race(unpack(writer), "wrote", doing, range, range.begin + 4 * i, where);
        if (kind == Kind::read) {
            word.reader.store(pack(reader == none ? now : joined(unpack(reader), now, shared)), relaxed);
            continue;
        }
        if (reader != none && unordered_readers(unpack(reader), now, shared))
            fail_race(unpack(reader), "read", doing, range, range.begin + 4 * i, where);
        now.many = kind == Kind::atomic;
        word.writer.store(pack(now), relaxed);
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
    for (const Range& range : worker->ranges)
        if (range.argument == Range::shared && address >= worker->shared_begin && address < worker->shared_end)
            near = "beyond the shared memory that the launch gave";
    fail(text("%s %zu bytes out of bounds, %s,", write ? "writes" : "reads", bytes, near.c_str()), where);
}

inline void access(void* pointer, size_t bytes, Kind kind, void* where)
{
    if (!worker || !worker->running) return;
    char* const address = (char*)pointer;
    for (const Range& range : worker->ranges) {
        if (address < range.begin || address + bytes > range.end) continue;
        if (range.words) track(range, address, bytes, kind, where);
        return;
    }
    fail_outside(address, bytes, kind != Kind::read, where);
}

uint32_t atomic(uint32_t* address, uint32_t (*change)(uint32_t, uint32_t), uint32_t operand)
{
    access(address, 4, Kind::atomic, __builtin_return_address(0));
    uint32_t old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &old, change(old, operand), true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}
    return old;
}

// As g++ lays out what it passes for -fsanitize=bounds,alignment.
struct Type {
    uint16_t kind, info;
    char name[];
};
struct OutOfBounds {
    const char* file;
    uint32_t line, column;
    const Type *array, *index;
};
struct Mismatch {
    const char* file;
    uint32_t line, column;
    const Type* type;
    uint8_t log_alignment, kind;
};

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

#define HOOKS(bytes)                                                                                       \
    void __tsan_read##bytes(void* p) { access(p, bytes, Kind::read, __builtin_return_address(0)); }         \
    void __tsan_write##bytes(void* p) { access(p, bytes, Kind::write, __builtin_return_address(0)); }       \
    void __tsan_volatile_read##bytes(void* p) { access(p, bytes, Kind::read, __builtin_return_address(0)); } \
    void __tsan_volatile_write##bytes(void* p) { access(p, bytes, Kind::write, __builtin_return_address(0)); } \
    void __tsan_unaligned_read##bytes(void* p) { access(p, bytes, Kind::read, __builtin_return_address(0)); } \
    void __tsan_unaligned_write##bytes(void* p) { access(p, bytes, Kind::write, __builtin_return_address(0)); }

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void* p, size_t bytes) { access(p, bytes, Kind::read, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t bytes) { access(p, bytes, Kind::write, __builtin_return_address(0)); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void __ubsan_handle_out_of_bounds(OutOfBounds* data, size_t index)
{
    fail(text("uses index %ld of %s in line %u", (long)index, data->array->name, data->line));
}

void __ubsan_handle_type_mismatch_v1(Mismatch* data, size_t address)
{
    fail(text("uses %s at 0x%zx in line %u, which is not aligned to %d bytes", data->type->name, address, data->line,
              1 << data->log_alignment));
}
}
