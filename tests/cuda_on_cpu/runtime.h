// What these files share: the fibers of a block, and who touched a word of memory last.
#pragma once

#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <deque>
#include <memory>
#include <mutex>
#include <semaphore.h>
#include <string>
#include <ucontext.h>
#include <vector>

#include "cuda_on_cpu.h"  // last: it defines names that begin with __

namespace cuda_on_cpu {

struct Launch {  // as in __init__.py
    uint3 grid, block;
    uint64_t dynamic_shared;
    uint64_t arrays;
    char* const* array_begin;
    const uint64_t* array_bytes;
    const uint64_t* array_argument;
    uint64_t workers, cluster;
    char* error;
    uint64_t error_bytes;
};

// Who touched a word last: a thread between two barriers of its block and two of its warp.
struct Access {
    uint64_t block : 20, thread : 10, block_interval : 16, warp_interval : 16;
    uint64_t many : 2;  // readers: 1 several in the warp, 2 in the block, 3 in the grid; writer: 1 an atomic
};
static_assert(sizeof(Access) == 8);

constexpr uint64_t none = ~0ull;
struct Word {
    std::atomic<uint64_t> writer{none}, reader{none};
};

// Memory that a kernel may use: an argument, shared memory, or what races are not looked for in.
struct Range {
    static constexpr int shared = -1, untracked = -2;

    char *begin, *end;
    int argument;  // its position, or one of the above
    Word* words = nullptr;
};

enum class State { ready, block_barrier, warp_barrier, shuffle, warp_work, grid_barrier, done };

// A CUDA thread.
struct Fiber {
    jmp_buf context;
    ucontext_t start;
    uint3 thread;
    int number;
    State state;
    int line;       // of the barrier or shuffle that it waits at
    unsigned mask;  // the lanes that it waits for
    uint64_t value;
    int source;  // the lane whose value it wants
    struct Copy {
        char* to;
        const float* from;
    };
    std::vector<Copy> copies;  // asynchronous ones, on their way
    void (*work)(void* const (&lanes)[32]);
    void* brought;  // to the work of its warp
};

struct Worker;

// A launch.
struct Job {
    const Launch& how;
    void (*kernel)(void**);
    void** arguments;
    std::vector<Range> arrays;
    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> failed{false};
    std::mutex lock;
    std::string error;
    std::condition_variable changed;  // what the blocks at a barrier of the grid wait for
    uint64_t waiting = 0, ended = 0, grid_barriers = 0;
    std::vector<Worker*> workers;  // of each block, in a cooperative launch
    uint64_t at_work = 0;          // workers whose turn it is: as many as there are processors
    std::deque<Worker*> in_line;

    uint64_t blocks() const { return (uint64_t)how.grid.x * how.grid.y * how.grid.z; }
    void wait_for_all_blocks();
    void begin_turn(Worker& worker);
    void end_turn();
};

// An operating-system thread that runs blocks, one after the other.
struct Worker {
    Job& job;
    std::vector<Range> ranges;
    std::vector<Fiber> fibers;
    std::vector<uint32_t> warp_interval;
    std::unique_ptr<Word[]> shared_words;
    char *stacks, *stacks_end;
    size_t recent = 0;  // the range that was used last
    jmp_buf home;
    Fiber* running = nullptr;
    Access now{};  // of the running fiber, until it waits
    sem_t turn;
    bool looks = false;  // at what another block has to write
    uint3 block{};
    uint64_t block_number = 0;
    uint32_t block_interval = 0;
    int arrived[16] = {};  // threads that wait for nobody, at each named barrier
    char *image_begin, *shared_begin, *shared_end;

    explicit Worker(Job& job);
    ~Worker();
    void run_blocks();
    void run_block();
    void start(Fiber& fiber);
    void resume(Fiber& fiber);
    bool release_warps();
    bool release_named();
    void explain_deadlock();
};

extern thread_local Worker* worker;

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...);

// Ends the launch with an error of the running thread. `where` is an address in this library, which
// __init__.py turns into file and line.
[[noreturn]] void fail(const std::string& what, void* where = nullptr);

void record(Job& job, const std::string& text);  // that a launch failed: the first text stays

void suspend();     // the running fiber, until its block comes back to it
void look_later();  // the same, where it waits for what another block writes

// A load or store by the running thread, before it happens; fails where it must not be.
enum class Kind { read, write, atomic };
void access(void* address, size_t bytes, Kind kind, void* where);

}  // namespace cuda_on_cpu
