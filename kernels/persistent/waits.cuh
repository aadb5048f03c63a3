#ifndef WAITS   // several headers include this one, and a source is compiled as one text
#define WAITS

// The time limit of waits. A loop that waits for another block counts its failed looks. When it has looked for
// WAIT_LIMIT milliseconds, it reports its block, the step and what it waits for, and ends the launch by a trap. A barrier
// of a block or a cluster needs no limit: whoever does not arrive waits in such a loop. Nor does a loop for whose messages
// another warp of the block waits with a limit (cluster.cuh).
//
// The time between two looks at the clock counts only up to a sixtieth of the limit, so a debugger's stop, or another
// process on the GPU, does not use it up. All of this happens after a first failed look, and takes a register, an addition
// and a branch for each.

#ifndef WAIT_LIMIT
#define WAIT_LIMIT 60000
#endif

// What a loop waits for: a name of at most 8 characters and, if not 0, a layer.
struct Awaited {
    unsigned long long name = 0;
    unsigned layer;

    __device__ constexpr Awaited(const char* text, unsigned layer = 0) : layer(layer)
    {
        for (int i = 0; i < 8 && text[i]; ++i) name |= (unsigned long long)text[i] << 8 * i;
    }
};

constexpr unsigned MOST_PER_LOOK = WAIT_LIMIT / 60 + 1;   // milliseconds that count between two looks at the clock

#ifdef CUDA_ON_CPU
using namespace cuda_on_cpu;   // the CPU emulator of the tests defines pause(), clock_milliseconds() and give_up()
#else
// Two words in memory of the host, since a trap destroys the context; the host sets the pointer after it has loaded the
// module, and unpacks them in snn/backends/cuda/persistent.py. They are written in one store, so that a report is of one
// thread, and have arrived before that thread traps.
extern "C" __device__ unsigned long long* wait_report = nullptr;

// What follows a failed look, in PTX: what the compiler saw of it, it would compute ahead in registers that loops need, and
// it would move computations behind the wait which stand before it. Registers: the looks and, in the upper 24 bits, the
// milliseconds that count; and when the clock was read. Operands: name, layer and step.
#define FAILED_LOOK_REGISTERS ".reg .pred on;\n.reg .b32 looks, last, now, since;\n.reg .b64 time, report;\n"
#define AFTER_FAILED_LOOK(name, layer, step, most, limit)                                                         \
    "add.u32 looks, looks, 1;\nand.b32 now, looks, 255;\nsetp.ne.u32 on, now, 0;\n@on bra ahead;\n"               \
    "mov.u64 time, %%globaltimer;\nshr.u64 time, time, 20;\ncvt.u32.u64 now, time;\n"      /* 1.05 ms */          \
    "sub.u32 since, now, last;\nmov.u32 last, now;\nmin.u32 since, since, " most ";\n"                            \
    "shl.b32 since, since, 8;\nadd.u32 looks, looks, since;\nsub.u32 looks, looks, 256;\n" /* 256: the looks */   \
    "shr.u32 since, looks, 8;\nsetp.lt.u32 on, since, " limit ";\n@on bra ahead;\n"                               \
    "ld.global.u64 report, [wait_report];\nsetp.eq.u64 on, report, 0;\n@on bra end;\n"                            \
    "mov.u32 now, %%ctaid.x;\nshl.b32 now, now, 8;\nor.b32 now, now, " layer ";\nmov.b64 time, {" step ", now};\n" \
    "st.volatile.global.v2.u64 [report], {" name ", time};\nmembar.sys;\n"                                        \
    "end: trap;\nahead:\n"

__device__ void pause() {}
#endif

struct WaitLimit {
    unsigned looks = 0, last = 0;

    __device__ void after_failed_look(const Awaited& awaited, unsigned step)
    {
#ifdef CUDA_ON_CPU
        pause();
        if (++looks % 256) return;
        const unsigned now = clock_milliseconds();
        looks += (min(now - last, MOST_PER_LOOK) - 1) * 256;
        last = now;
        if (looks / 256 >= WAIT_LIMIT) give_up(awaited.name, awaited.layer, step);
#else
        asm volatile("{\n" FAILED_LOOK_REGISTERS "mov.u32 looks, %0;\nmov.u32 last, %1;\n"
                     AFTER_FAILED_LOOK("%2", "%3", "%4", "%5", "%6") "mov.u32 %0, looks;\nmov.u32 %1, last;\n}"
                     : "+r"(looks), "+r"(last)
                     : "l"(awaited.name), "r"(awaited.layer), "r"(step), "n"(MOST_PER_LOOK), "n"(WAIT_LIMIT) : "memory");
#endif
    }
};

// Where a time limit slows a loop down: it looks so many times itself, and then lets await_long() wait. Of four clusters
// that wait for each other, a step takes 3% less (NVIDIA H100).
__device__ bool is_long(unsigned looks)
{
    pause();
    return __builtin_expect(looks == 4096, 0);
}

template <class Look>
__device__ void await_long(const Awaited& awaited, unsigned step, Look has_come)
{
    for (WaitLimit limit; !has_come();) limit.after_failed_look(awaited, step);
}
#endif
