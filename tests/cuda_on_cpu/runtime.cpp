// Runs a kernel on the CPU: every CUDA thread of a block is a fiber, blocks are spread over
// operating-system threads. A fiber runs until it waits, then the next one does, in an order that
// turns round at every barrier. Whatever is wrong ends the launch with a text.

#include "runtime.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <link.h>
#include <sys/mman.h>
#include <thread>

namespace cuda_on_cpu {

constexpr size_t stack_bytes = 64 * 1024, page_bytes = 4096;
constexpr size_t stacks_at = page_bytes - 64;  // the mark where one ends is in the page where the one before begins
constexpr uint64_t stack_mark = 0x5ca1ab1e0ddba11;

thread_local Worker* worker = nullptr;

// A fiber that waits. Its own frames stay on its stack; those of the scheduler on the worker's.
__attribute__((noinline)) void suspend()
{
    Worker* const here = worker;
    if (!_setjmp(here->running->context)) _longjmp(here->home, 1);
}

void look_later()
{
    worker->running->state = State::ready;
    worker->looks = true;
    suspend();
}

void Worker::start(Fiber& fiber)
{
    running = &fiber;
    if (!_setjmp(home)) setcontext(&fiber.start);
    running = nullptr;
}

void Worker::resume(Fiber& fiber)
{
    running = &fiber;
    now.block = block_number;
    now.thread = fiber.number;
    now.block_interval = block_interval;
    now.warp_interval = warp_interval[fiber.number / 32];
    if (!_setjmp(home)) _longjmp(fiber.context, 1);
    running = nullptr;
}

void record(Job& job, const std::string& text)
{
    const std::lock_guard<std::mutex> guard(job.lock);
    if (!job.failed) job.error = text;
    job.failed = true;
    job.changed.notify_all();
}

// Blocks that wait for each other take turns: all at once, those that only look would keep the processors from those
// that have something to do.
void Job::begin_turn(Worker& next)
{
    {
        const std::lock_guard<std::mutex> guard(lock);
        if (at_work < std::max(1u, std::thread::hardware_concurrency())) {
            ++at_work;
            return;
        }
        in_line.push_back(&next);
    }
    while (sem_wait(&next.turn)) {}
}

void Job::end_turn()
{
    const std::lock_guard<std::mutex> guard(lock);
    if (in_line.empty()) {
        --at_work;
        return;
    }
    sem_post(&in_line.front()->turn);
    in_line.pop_front();
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

void fail(const std::string& what, void* where)
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
    suspend();
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
    sem_init(&turn, 0, 0);
    fibers.resize(threads);
    warp_interval.resize((threads + 31) / 32);
    stacks = (char*)mmap(nullptr, threads * stack_bytes + page_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stacks += stacks_at;
    stacks_end = stacks + threads * stack_bytes;

    const Image image = find_image();
    image_begin = image.begin;
    shared_begin = image.shared_begin;
    shared_end = image.shared_end;
    shared_words.reset(new Word[(shared_end - shared_begin) / 4 + 1]);
    const auto add_shared = [&](char* begin, char* end) {
        Word* const words = shared_words.get() + (begin - shared_begin) / 4;
        if (begin < end) ranges.push_back({begin, end, Range::shared, words});
    };
    char* const dynamic = (char*)dynamic_shared();
    if (dynamic) {
        add_shared(dynamic, dynamic + job.how.dynamic_shared);
        add_shared(shared_begin, dynamic);
        add_shared(dynamic + dynamic_shared_limit, shared_end);
    } else {
        add_shared(shared_begin, shared_end);
    }
    ranges.push_back({image.begin, image.end, Range::untracked});
}

Worker::~Worker()
{
    sem_destroy(&turn);
    munmap(stacks - stacks_at, fibers.size() * stack_bytes + page_bytes);
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
        start(fiber);
    }
    job.begin_turn(*this);
    const uint3 grid = job.how.grid;
    while (!job.failed && (block_number = job.next_block++) < job.blocks()) {
        block.x = block_number % grid.x;
        block.y = block_number / grid.x % grid.y;
        block.z = block_number / grid.x / grid.y;
        run_block();
        const std::lock_guard<std::mutex> guard(job.lock);
        ++job.ended;
        job.changed.notify_all();
    }
    job.end_turn();
    worker = nullptr;
}

void Worker::run_block()
{
    std::memset(shared_begin, 0xff, shared_end - shared_begin);  // 0xffffffff is not a number
    worker = this;
    block_interval = 0;
    std::fill(std::begin(arrived), std::end(arrived), 0);
    std::fill(warp_interval.begin(), warp_interval.end(), 0);
    for (Fiber& fiber : fibers) fiber.state = State::ready;
    if (!job.workers.empty()) job.workers[block_number] = this;

    const int threads = fibers.size();
    for (uint64_t pass = block_number;; ++pass) {
        for (int i = 0; i < threads; ++i) {
            Fiber& fiber = fibers[pass % 2 ? threads - 1 - i : i];
            if (fiber.state == State::ready) resume(fiber);
            if (job.failed) return;
        }
        if (looks) {
            looks = false;
            job.end_turn();
            job.begin_turn(*this);
        }
        const auto looks_again = [](const Fiber& fiber) { return fiber.state == State::ready; };
        if (release_warps() || release_named() || std::any_of(fibers.begin(), fibers.end(), looks_again)) continue;

        const Fiber& first = fibers[0];
        bool alike = true;
        for (const Fiber& fiber : fibers) {
            alike &= fiber.state == first.state;
            alike &= fiber.state == State::done || fiber.line == first.line;
            if (*(uint64_t*)fiber.start.uc_stack.ss_sp != stack_mark)
                return record(job, "a thread used more than 64 KiB of stack");
        }
        if (!alike) return explain_deadlock();
        if (first.state == State::done) return;
        if (first.state == State::grid_barrier) {
            job.end_turn();
            job.wait_for_all_blocks();
            job.begin_turn(*this);
            if (job.failed) return;
        }
        for (Fiber& fiber : fibers) fiber.state = State::ready;
        if (++block_interval == 1u << 16) return record(job, "more than 65535 barriers in a block");
    }
}

uint3 thread_index() { return worker->running->thread; }
uint3 block_index() { return worker->block; }
uint3 block_dim() { return worker->job.how.block; }
uint3 grid_dim() { return worker->job.how.grid; }

bool launch(const Launch& how, void (*kernel)(void**), void** arguments)
{
    Job job{how, kernel, arguments};
    std::vector<std::unique_ptr<Word[]>> words;
    for (uint64_t i = 0; i < how.arrays; ++i) {
        char* const begin = how.array_begin[i];
        words.emplace_back(new Word[how.array_bytes[i] / 4 + 1]);
        job.arrays.push_back(
            {begin, begin + how.array_bytes[i], (int)how.array_argument[i], words.back().get()});
    }
    if (how.workers == job.blocks()) job.workers.resize(job.blocks());
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < how.workers; ++i)
        threads.emplace_back([&job] { Worker(job).run_blocks(); });
    for (std::thread& thread : threads) thread.join();
    snprintf(how.error, how.error_bytes, "%s", job.error.c_str());
    return !job.failed;
}

}  // namespace cuda_on_cpu
