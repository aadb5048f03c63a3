// The training of a small network of linear layers, all steps of a launch (steps.cuh): every block holds the whole network
// in shared memory, and CLUSTER blocks share the rows of a batch.
//
//   Z_i = W_i H_{i-1} + b_i, H_i = f_i(Z_i), H_0 = X                                                  i = 1, ..., L
//   dZ_L = scale (Z_L - Y), scale (softmax(Z_L) - Y) or another loss's;  dZ_{i-1} = W_i^T dZ_i times f_{i-1}'(Z_{i-1})
//   dW_i = dZ_i H_{i-1}^T, db_i = the sum of dZ_i's columns, and the update of an optimiser (update.cuh)
//
// A column is a row of the batch. Products run on FP16 tensor cores with float32 accuracy (products.cuh). Every matrix
// has a scale that follows from its largest number in the step before; if a barrier shows that this step's numbers do not fit,
// it is written again. Those largest numbers are kept between launches, so that results do not depend on
// the number of launches.
//
//   forward    A warp has some neurons of some rows. The next layer reads what it writes.
//   backward   The warps divide dW_i by neurons and inputs, and dZ_{i-1} like Z_{i-1}. dZ_{i-1} overwrites H_{i-1} or, with
//              APART, has a separate place, which saves a barrier. Then, with CLUSTER 1, gradients are found once all dZ_i are
//              known (LATE), and each is used before the next one takes its registers.
//   update     CLUSTER 1: a warp updates the weights whose gradient it has; m and v stay in its registers.
//              Otherwise: each block owns some weights. It receives their gradients from all blocks (st.async), adds them
//              up in the order of ranks, updates, and sends the new weights to all blocks. Its warps are workers, which go
//              forwards and backwards, and owners, which find the gradients of later layers at the same time (OWN_FROM),
//              update, and prepare the rows of steps to come. One owner looks whether new weights fit their scales.
//   SENDS_ROWS With 8 rows per block, blocks exchange less and earlier: instead of gradients they send H_i, as soon as it is
//              known, to the owners of layer i + 1's weights, and dZ_i to the owners of layer i's; then the gradients of biases,
//              H_{L-1} and dZ_L. Owners find the gradients of their weights from these in TF32 products. The last warp of
//              owners, which looks at the weights, also finds the rows of steps to come; the workers copy them while the owners
//              update. If weights do not fit their scales, everything is sent again. Each block copies X's rows of the whole
//              batch, and finds them in a table of the epoch's permutation or, if memory has no room for that table (SENDS_X),
//              copies its own rows only, and X is sent as H_i is.
//   NARROW     Up to 4 outputs and their gradients are float32 sums over the neurons that a warp has in registers.
//   SEQUENTIAL dZ_{i-1} follows from the updated W_i (CLUSTER 1, CHUNKS 1).
//   CHUNKS     the rows of a batch take turns in shared memory; gradients are added up in registers.
//   CLIPPED    The update waits for all gradients and their norm: a sum over the warps or, in a cluster, over the parts that
//              blocks own, whose squares they send to each other.
//   WATCHED    After an epoch's last step the workers find the errors of rows held out, while the owners wait. Every block adds
//              up these errors in the same order, so that all agree on the best weights and on the end of training. The first
//              block adds up the epoch's own errors, and reports to the host.
//   data       Rows of X and Y are copied to shared memory (cp.async) during the chunk before, and the numbers of these rows
//              during the one before that. With ORDER_BITS, an epoch's order follows from its number and the member's seed
//              (order.cuh); the tables of its Feistel network are made once per epoch.
//
// Layout: X is (rows, WIDTH[0]) and Y (rows, WIDTH[L]), padded with zeros, in the order of the file. W: W_1 as (inputs,
// outputs), b_1, W_2, ..., one member after the other. M: the optimiser's state, in the order in which threads hold it. E: the
// error or loss of each row in the order of training, one member after the other; without ALL_ERRORS only of the last batch of
// each. After the workspace's head: MEMBER_FLOATS per member (rate, decay, seed, unused; if WATCHED, the host's request to stop
// and, between launches, the seconds of an epoch that has not ended; the least loss as a double, its epoch, and the epochs that
// have ended); with MEMBER_ROWS the rows of each member; from the next multiple of 16 bytes on, the orders of two epochs. If
// WATCHED, X and Y begin with `held` rows held out; B: the weights after each member's best epoch, the errors of held-out rows
// of each member; T: memory of the host (Telemetry in snn/backends/launches/whole.py).
// Launch: MEMBERS clusters of CLUSTER blocks of THREADS threads, `shared_bytes` of dynamic shared memory. Needs sm_90 with
// CLUSTER above 1, else sm_80.
//
// Races that no tool sees, between blocks of a cluster. A block sends gradients once it has received all new parameters of the
// step before (AHEAD, ERROR), so after their owners have read its earlier ones. Weights have two places, which steps use in turn:
// one is written again two steps later, after the owners have received a gradient that the block computed from what it read
// there. A block's biases are written after it has sent all gradients, the first layer's last. With SENDS_ROWS they are written
// after it has sent those of biases, and it has passed a barrier since it read them. dZ_I is sent once all weights of layer I
// have come, so after their owners have used the dZ_I before. H_I is sent once those of layer I have come, and X at the beginning
// of a step, when the owners of layer I + 1 may still use the one before; so each has two places. One is used again two steps
// later, after workers have used weights of layer I + 1, which their owners sent after they had used it.

#include "../../activation_functions.cuh"
#include "../../output_losses.cuh"
#include "../../philox.cuh"
#include "../cluster.cuh"
#include "../copies.cuh"
#include "../positive_part.cuh"
#include "../special/halves.cuh"
#include "../steps.cuh"
#include "../tf32.cuh"
#include "layout.cuh"
#include "products.cuh"
#include "update.cuh"
#include "order.cuh"

#ifdef CUDA_ON_CPU  // the CPU emulator of the tests defines the others
__device__ void barrier_of_roles(int number, int threads) { named_barrier(number, threads); }
#else
// By warps that wait at different instructions, which the aligned form does not allow.
__device__ void barrier_of_roles(int number, int threads)
{
    asm volatile("barrier.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
// By warps whose threads may have gone separate ways just before.
__device__ void named_barrier(int number, int threads)
{
    __syncwarp();
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
__device__ void named_arrive(int number, int threads)   // without waiting for the others
{
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
#endif

#ifndef CUDA_ON_CPU
__device__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#endif

#ifdef CUDA_ON_CPU
__device__ void shared_max(int* to, int v, int lane)
{
    if (lane == 0) atomicMax(to, v);
}
#else
// By a warp's first lane. The compiler would find the largest of one number first, if it knew that all lanes have one address.
__device__ void shared_max(int* to, int v, int lane)
{
    asm volatile("{\n.reg .pred first;\nsetp.eq.s32 first, %2, 0;\n@first red.shared.max.s32 [%0], %1;\n}"
                 :: "r"(shared_address(to) + 4 * lane), "r"(v), "r"(lane) : "memory");
}
#endif

// To 3 roundings and without branches. exp's and division's approximations are exact enough unless |x| is small; there, x times
// a polynomial of x^2 that was fitted to tanh.
__device__ float fast_tanh(float x)
{
    const float size = fabsf(x), square = x * x;
    float sum = -0.00589394523f;
    sum = sum * square + 0.020794617f;
    sum = sum * square - 0.0537832938f;
    sum = sum * square + 0.133319154f;
    sum = sum * square - 0.333332986f;
    const float large = copysignf(1.0f - __fdividef(2.0f, __expf(2.0f * size) + 1.0f), x);
    return size < 0.6f ? x * square * sum + x : large;
}
__device__ float value_of(int f, float z)
{
    if (f == RELU) return positive_part(z);
    return f == IDENTITY ? z : f == TANH ? fast_tanh(z) : f == SIGMOID ? __fdividef(1.0f, 1.0f + __expf(-z)) : activated(f, z);
}

// Numbers of barriers in a cluster's blocks. AHEAD: the owners have looked at the weights and prepared the next rows; or, with
// SENDS_ROWS, the workers begin a step. ERROR + I: dZ_I is written. FOUND: so are the gradients that the owners compute. TURN:
// the first layer's parameters are sent. LOOKED: an owner has looked at the weights, at the end of an epoch. BEGUN: all workers
// are done with the rows of the chunk before. SEND_H, only with SENDS_ROWS: the owners may send H_I; its numbers are 15 for
// H_{LAST-1}, and for others ERROR + 1 + I, which no other barrier has then.
constexpr int OF_WORKERS = 1, OF_OWNERS = 2, AHEAD = 3, OF_BOTH = 4, ERROR = 3, FOUND = 12, TURN = 13, LOOKED = 14, BEGUN = 15,
              SEND_LAST_H = 15;

// ---- of each layer, in registers

template <int I>
struct Gradient : Gradient<I - 1> {
    float dW[Weights<I>::M][Weights<I>::N][4], db[Weights<I>::M];   // db: neuron g + 8 t of a tile, t < 2
};
template <> struct Gradient<0> {};

template <int I>
struct State : State<I - 1> {
    float w[Weights<I>::M][Weights<I>::N][4][larger(STATES, 1)], b[Weights<I>::M][larger(STATES, 1)];
};
template <> struct State<0> {};

struct Training {
    Shared& shared;
    const float *X, *Y;
    float *weights, *memory, *E, *workspace;
    int rows, batches;
    float x_scale;
    Formula formula;
    int rank, member;
    int thread = threadIdx.x, lane = threadIdx.x % 32, g = (unsigned)lane / 4, t = lane & 3;
    int warp = threadIdx.x / 32 - (OWNERS > 0 && thread >= WORKERS ? WARPS : 0);   // of the workers or of the owners
    Places place;
    int step = 0, batch = 0, chunk = 0, count = 0, turn = 0, now = 0;   // count: rows of this batch; turn: of three; now: of two
    int of_Y = 0, found = 1;   // the places of Y, and of rows that were found before
    const float *held_X = nullptr, *held_Y = nullptr;   // rows held out: `held` of them
    float *held_E = nullptr, *best = nullptr;           // their errors; the weights after the best epoch
    double* telemetry = nullptr;
    int held = 0, held_line = 0, patience = 0, room = 0;
    int next_batch = 0, next_chunk = 0, made = 0, placed = 0;   // how many numbers of the next tables and places are computed
    unsigned next_epoch = 0;
    bool keeps_errors = true;   // of this step
    float decay, rate, max_norm, clip_factor;   // by which gradients are multiplied if they are clipped
    unsigned seed;
    float up_of_H[L], up_of_dZ[L + 1], up_of_W[L + 1];   // scales (products.cuh)

    Gradient<L> gradient;
    State<CLUSTER == 1 ? L : 0> state;
    float hidden[Hidden::M][Hidden::N][4], dz_of_outputs[Hidden::N][2][OUTPUTS];   // H and the outputs' dZ of last_layers
    float error_sums[SENDS_ROWS ? L - 1 : 1][SENDS_ROWS ? most_down() : 1][2];   // sums of dZ_{i+1} over two rows
    int repeated[2] = {};   // how many even and odd steps the owners computed again
    static constexpr int NARROW_EACH = NARROW && CLUSTER > 1 ? up(m_tiles(larger(L - 1, 1)), larger(OWNER_WARPS, 1)) : 1;
    float narrow[NARROW_EACH][2][4], narrow_db;   // of the last layer, in owners

    template <int I> __device__ unsigned* W() const { return shared.W[CLUSTER > 1 ? step % 2 : 0] + weights_before(I) * TILE; }
    template <int I>
    __device__ unsigned* H() const
    {
        if constexpr (I == 0) return shared.H_0[now];
        else return shared.H + (tiles_before(I) - tiles_before(1)) * ROW_TILES * TILE;
    }
    template <int I> __device__ unsigned* dZ() const { return H<I>() + (I < LAST && APART ? DZ_APART : 0); }
    template <int I> __device__ float* slopes() const { return shared.slopes + slopes_before(I) * ROW_TILES * 128; }
    template <int I> __device__ float* biases() const { return shared.biases + first_bias(I); }
    // Otherwise the compiler would compute once what depends on a thread's place, and keep it in registers throughout.
    __device__ void forget_place()
    {
        if (CLUSTER > 1) return;
#ifndef CUDA_ON_CPU
        asm volatile("" : "+r"(thread));
#endif
        lane = thread & 31, g = (unsigned)lane / 4, t = lane & 3, place = Places(lane);
        warp = __shfl_sync(0xffffffff, (unsigned)thread / 32, 0);   // so that the compiler knows it to be the same in all lanes
    }

    __device__ void sync() const   // of the workers
    {
        if constexpr (OWNERS == 0) __syncthreads();
        else named_barrier(OF_WORKERS, WORKERS);
    }

    // The largest number of a matrix is noted by all warps, and known after a barrier.
    __device__ void note(int& place, float largest) const
    {
        const unsigned most = __reduce_max_sync(0xffffffff, __float_as_uint(largest));
        shared_max(&place, (int)most, lane);
    }
    __device__ void clear_next() const
    {
        if (thread > L) return;
        const int next = turn < 2 ? turn + 1 : 0;
        shared.largest_H[next][thread] = shared.largest_dZ[next][thread] = 0;
        if (CLUSTER == 1 && chunk == 0) shared.largest_W[(step + 2) % 3][thread] = 0;
    }
    __device__ int before() const { return turn > 0 ? turn - 1 : 2; }
    template <int I = L>
    __device__ void follow_numbers()   // scales of this chunk, unless its numbers do not fit
    {
        up_of_dZ[I] = up_for(shared.largest_dZ[before()][I]);
        if constexpr (I > 1) up_of_H[I - 1] = up_for(shared.largest_H[before()][I - 1]), follow_numbers<I - 1>();
    }

    // ---- data

    __device__ int rows_of(int of_batch) const { return smaller(BATCH, rows - of_batch * BATCH); }

    __device__ bool look_ahead()   // whether an epoch begins
    {
        if (++next_chunk < CHUNKS) return false;
        next_chunk = 0, next_batch = batch_after(next_batch, batches);
        if (next_batch > 0 || ORDER_BITS == 0) return false;
        ++next_epoch;
        return true;
    }

    // This block's rows of an epoch in the order of training, in device memory; two epochs take turns.
    __device__ unsigned* order_of(unsigned of_epoch) const
    {
        const size_t behind = workspace_floats + (MEMBER_ROWS ? ((size_t)MEMBERS * rows + 3) / 4 * 4 : 0);   // 16 bytes
        unsigned* const all = reinterpret_cast<unsigned*>(workspace + behind);
        return all + ((size_t)blockIdx.x * 2 + of_epoch % 2) * batches * ROWS;
    }

    // Where each place goes, in the place of H, which no chunk needs at its beginning: most numbers take several ways.
    static constexpr bool ALL_PLACES = ORDER_BITS > 0 && ORDER_BITS <= 16 && 2ull << ORDER_BITS <= sizeof Shared::H;
    __device__ unsigned short* all_places() const { return reinterpret_cast<unsigned short*>(shared.H); }

    __device__ void make_order(unsigned of_epoch)
    {
        make_tables<ORDER_BITS>(shared.tables[0], seed, of_epoch, thread, TABLE, WORKERS);
        sync();
        if constexpr (ALL_PLACES) {
#pragma unroll 8
            for (int i = thread; i < 1 << ORDER_BITS; i += WORKERS) all_places()[i] = permuted<ORDER_BITS>(shared.tables[0], i);
            sync();
        }
        unsigned* const to = order_of(of_epoch);
        constexpr int TOGETHER = 5;   // walks that do not wait for each other
        for (int first = thread; first < batches * ROWS; first += TOGETHER * WORKERS) {
            unsigned at[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const int line = smaller(first + i * WORKERS, batches * ROWS - 1);
                at[i] = place_of_row(line / ROWS, line % ROWS);
            }
            if constexpr (ALL_PLACES) find_rows_of_places(all_places(), at);
            else find_rows_at<ORDER_BITS>(shared.tables[0], at, rows);
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i)
                if (first + i * WORKERS < batches * ROWS) to[first + i * WORKERS] = row_at(at[i]);
        }
        sync();
    }

    __device__ int place_of_row(int of_batch, int line) const   // a padding row has the last row's
    {
        return place_in_batch(of_batch, rank * ROWS + line);
    }
    __device__ int place_in_batch(int of_batch, int line) const { return of_batch * BATCH + smaller(line, rows_of(of_batch) - 1); }

    static constexpr bool OWNERS_COPY = OWNERS > 0 && !SENDS_ROWS;
    static constexpr bool PREPARE_FIRST = OWNERS_COPY && CHUNK >= 32;   // with fewer rows, owners are still busy when a step begins
    static constexpr int CREW = OWNERS_COPY ? OWNERS : WORKERS;   // threads that copy rows
    __device__ int of_crew() const { return OWNERS_COPY ? thread - WORKERS : thread; }
    __device__ void sync_crew() const { OWNERS_COPY ? sync_owners() : sync(); }
    static constexpr int FINDERS = SENDS_ROWS ? 32 : CREW;   // threads that find rows: with SENDS_ROWS the last warp of owners
    __device__ int finder_index() const { return SENDS_ROWS ? lane : of_crew(); }
    __device__ bool is_finder() const { return !SENDS_ROWS || thread >= THREADS - 32; }
    __device__ bool is_copier() const { return !SENDS_ROWS || thread < WORKERS; }

    // CLUSTER 1: one chunk is trained, the next is being copied, and the rows of the one after that are looked up.
    __device__ void look_further(int to)
    {
        if (look_ahead()) make_order(next_epoch);
        find_rows(to);
    }
    __device__ void find_rows(int to) const
    {
        const int first = next_chunk * CHUNK;
        if constexpr (ORDER_BITS > 0) {
            const unsigned* const from = order_of(next_epoch) + next_batch * ROWS + first;
#pragma unroll
            for (int f = 0; f < up(CHUNK, 4 * WORKERS); ++f)
                if (const int i = 4 * (WORKERS - 1 - thread + f * WORKERS); i < CHUNK)
                    copy_async(shared_address(&shared.found[to][i]), reinterpret_cast<const float*>(from + i));
        } else {
#pragma unroll 1
            for (int i = thread; i < CHUNK; i += WORKERS) shared.found[to][i] = row_at(place_of_row(next_batch, first + i));
        }
    }
    __device__ unsigned row_at(unsigned place) const   // of the member's
    {
        if (MEMBER_ROWS) return reinterpret_cast<const unsigned*>(workspace + workspace_floats)[(size_t)member * rows + place];
        return place;
    }

    // Each thread copies some parts, of four numbers.
    template <int WIDTH_OF_ROW, int PARTS, int LINES, int LINE>
    __device__ void copy_parts(float (&to)[LINES][LINE], const float* from, const unsigned* rows_of_lines)
    {
#pragma unroll
        for (int f = 0; f < up(LINES * PARTS, CREW); ++f) {
            const unsigned i = of_crew() + f * CREW, line = i / PARTS, part = i % PARTS;
            if (LINES * PARTS % CREW && i >= LINES * PARTS) break;
            copy_async(shared_address(&to[line][4 * part]), from + (size_t)rows_of_lines[line] * WIDTH_OF_ROW + 4 * part);
        }
    }

    __device__ auto own_X(int place) const   // this block's rows, with SENDS_ROWS in one of four places
    {
        return shared.X[SENDS_ROWS ? place : 0] + (HAS_ALL_X ? rank * CHUNK : 0);
    }
    __device__ void take_X(int which, int place = 0)   // of this chunk or the next
    {
        const auto from = own_X(place);
        constexpr int TILES = m_tiles(0) * ROW_TILES, EACH = up(TILES, CREW / 32);
#pragma unroll (EACH <= 4 ? EACH : 1)
        for (int i = 0; i < EACH; ++i) {
            const int tile = warp + i * (CREW / 32);
            if (TILES % (CREW / 32) && tile >= TILES) break;
            const int feature = tile / ROW_TILES * 16 + g, row = tile % ROW_TILES * 8 + 2 * t;
            float v[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) v[j] = from[row + j % 2][feature + j / 2 * 8];
            write_tile(shared.H_0[which] + tile * TILE, lane, v, x_scale);
        }
    }

    // In a cluster, by the owners or, with SENDS_ROWS, by the workers: while a chunk is trained, the next one has been split and the
    // one after that is split. Then a fourth is copied, whose rows have been found, and a fifth's rows are found.

    static constexpr int TABLE = ORDER_BITS ? ROUNDS << RIGHT_BITS : 0;
    __device__ void make_next_tables(int numbers, int first, int apart)
    {
        const int end = smaller(made + numbers, TABLE);
        make_tables<larger(ORDER_BITS, 1)>(shared.tables[(next_epoch + OF_NEXT) % TABLES], seed, next_epoch + OF_NEXT,
                                           made + first, end, apart);
        made = end;
    }
    // With HAS_ALL_X one warp finds all rows of a batch, so it needs few lookups: shared.places has the result of one pass through
    // the Feistel network for every place of an epoch. It is computed an epoch ahead, from tables that are computed two ahead.
    static constexpr int OF_NEXT = HAS_ALL_X ? 2 : 1, PLACES = HAS_ALL_X && ORDER_BITS ? 1 << ORDER_BITS : 0;
    __device__ void make_next_places(int numbers, int first, int apart)
    {
        constexpr int TOGETHER = 4;
        const int end = smaller(placed + numbers, PLACES), to = (next_epoch + 1) % 2;
        for (int i = placed + first; i < end; i += TOGETHER * apart) {
            unsigned at[TOGETHER];
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
                at[j] = permuted<larger(ORDER_BITS, 1)>(shared.tables[to % TABLES], smaller(i + j * apart, PLACES - 1));
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
                if (i + j * apart < end) shared.places[to][i + j * apart] = at[j];
        }
        placed = end;
    }
    __device__ void begin_places()   // the workers compute; the finder counts along
    {
        next_epoch -= 2;
        for (int i = 0; i < 3; ++i) {
            made = 0;
            if (is_copier()) {
                make_next_tables(TABLE, thread, WORKERS);
                sync();
            }
            if (i == 2) break;
            ++next_epoch, placed = 0;
            if (is_copier()) {
                make_next_places(PLACES, thread, WORKERS);
                sync();
            }
        }
        made = TABLE, placed = PLACES;
    }

    __device__ void look_on()
    {
        if (ORDER_BITS) make_next_tables(up(TABLE, batches * CHUNKS), finder_index(), FINDERS);
        if (PLACES) make_next_places(up(PLACES, batches), lane, FINDERS);
        if (look_ahead()) made = placed = 0;
    }
    __device__ void find_next_rows(int to)
    {
        if constexpr (SENDS_X) return look_for_rows(), take_rows(to);
        constexpr int EACH = up(LINES_OF_X, FINDERS);
        if (const int first = FINDERS - 1 - finder_index(); first < LINES_OF_X) {   // the last owners have the most time
            unsigned row[EACH];
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                const int line = smaller(first + i * FINDERS, LINES_OF_X - 1);
                row[i] = HAS_ALL_X ? place_in_batch(next_batch, line) : place_of_row(next_batch, next_chunk * CHUNK + line);
            }
            if constexpr (PLACES > 0) find_rows_of_places(shared.places[next_epoch % 2], row);
            else if constexpr (ORDER_BITS > 0) find_rows_at<ORDER_BITS>(shared.tables[next_epoch % TABLES], row, rows);
#pragma unroll
            for (int i = 0; i < EACH; ++i)
                if (first + i * FINDERS < LINES_OF_X) shared.found[to][first + i * FINDERS] = row_at(row[i]);
        }
        look_on();
        if (PLACES) __syncwarp();
    }
    // With SENDS_X the finder's lanes look for the rows of four chunks, eight lanes for each, with one way through the Feistel
    // network per step. An epoch of few batches ends while its rows are looked for, so they are found at once.
    unsigned sought = 0, table = 0;   // a lane's row, once it is found; of its epoch
    bool is_found = true;
    int looked_for = 0;               // chunks
    __device__ void look_for_rows()   // of one chunk more
    {
        const bool begins = lane / 8 == looked_for++ % 4;
        if (begins) {
            sought = place_of_row(next_batch, lane % 8);
            if constexpr (ORDER_BITS > 0) table = next_epoch % TABLES, is_found = false;
        }
        seek();
        if (begins && batches < TABLES)
            while (!is_found) seek();
        __syncwarp();
        look_on();
        __syncwarp();
    }
    __device__ void seek()
    {
        if (is_found) return;
        if constexpr (ORDER_BITS > 0) sought = permuted<ORDER_BITS>(shared.tables[table], sought);
        is_found = sought < rows;
    }
    __device__ void take_rows(int to)   // of the chunk before the three that were looked for last
    {
        if (lane / 8 == looked_for % 4) {
            while (!is_found) seek();
            shared.found[to][lane % 8] = row_at(sought);
        }
        __syncwarp();
    }
    template <int COUNT>
    __device__ void find_rows_of_places(const unsigned short* to, unsigned (&at)[COUNT]) const   // to: one way from each place
    {
        bool all;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) at[i] = to[at[i]];
        do {
            all = true;
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const unsigned next = to[at[i]];
                at[i] = at[i] < rows ? at[i] : next;
                all &= at[i] < rows;
            }
        } while (!all);
    }
    __device__ void copy_found(int from, int to_Y)
    {
        copy_parts<WIDTH[0], WIDTH[0] / 4>(shared.X[SENDS_ROWS ? to_Y : 0], X, shared.found[from]);
        copy_parts<WIDTH[L], Y_LINE / 4>(shared.Y[to_Y], Y, shared.found[from] + (HAS_ALL_X ? rank * CHUNK : 0));
    }

    __device__ void begin_rows()   // with SENDS_ROWS by all threads
    {
        const auto wait = [&] { SENDS_ROWS ? sync_both() : sync_crew(); };
        if (PLACES) {
            begin_places();
        } else if (ORDER_BITS) {
            --next_epoch;
            if (is_copier()) make_next_tables(TABLE, of_crew(), CREW);
            ++next_epoch, made = 0;
            if (is_copier()) make_next_tables(TABLE, of_crew(), CREW);
            made = TABLE;
        }
        wait();
        for (int i = 0; SENDS_X && is_finder() && i < 3; ++i) look_for_rows();
        for (int i = 0; i < 3; ++i) {
            if (is_finder()) find_next_rows(i % 2);
            if (i > 0 && is_copier()) {
                copies_done();
                sync_crew();
                take_X(i - 1, i - 1);
            }
            wait();
            if (is_copier()) copy_found(i % 2, i);
        }
        if (is_finder()) find_next_rows(1);
    }
    __device__ void prepare_rows()
    {
        copies_done();
        sync_crew();
        take_X(before(), (of_Y + 2) % 4);
        sync_crew();
        copy_found(found, (of_Y + 3) % 4);
    }
    __device__ void sync_owners() const { named_barrier(OF_OWNERS, OWNERS); }
    __device__ void sync_both() const { barrier_of_roles(OF_BOTH, THREADS); }
    __device__ void go_on()
    {
        turn = turn < 2 ? turn + 1 : 0;
        found = 1 - found;
        if (CLUSTER > 1) now = turn, of_Y = (of_Y + 1) % 4;
        else of_Y = now = 1 - now;
    }

    // ---- forward

    template <int I, class Use>
    __device__ void outputs_of(Use use)
    {
        using S = Neurons<I>;
        const S share(warp);
        if (!share.has_some()) return;
        Sums<S::M, S::N> sums;
        const unsigned* const w = W<I>() + share.m_first() * k_tiles(I) * TILE + place.across;
        const unsigned* const h = H<I - 1>() + share.n_first() * TILE + place.one;
        multiply<k_tiles(I) / 2>(sums,
            [&](int k, int m) { return left_across(w + (share.m_step(m) * k_tiles(I) + 2 * k) * TILE); },
            [&](int k, int n) { return right_down(h + (k * ROW_TILES + share.n_step(n)) * TILE); });
        const float down = down_for(up_of_W[I]) * down_for(up_of_H[I - 1]);
#pragma unroll
        for (int m = 0; m < S::M; ++m) {
            const int neuron = share.m_tile(m) * 16 + g;
            const float b[2] = {BIAS[I] ? biases<I>()[neuron] : 0.0f, BIAS[I] ? biases<I>()[neuron + 8] : 0.0f};
#pragma unroll
            for (int n = 0; n < S::N; ++n) {
                float z[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) z[i] = sums.total(m, n, i) * down + b[i / 2];
                use(share, m, n, z);
            }
        }
    }

    // Whether a tile's first or second eight neurons, of those that a warp has, are known to be padding when this is compiled.
    template <int I, class S> __device__ static constexpr bool is_padding(int m, int half)
    {
        return S::DOWN == 1 && m * 16 + half * 8 >= REAL_WIDTH[I];
    }

    template <int I, bool HELD = false>
    __device__ void forward()
    {
        using S = Neurons<I>;
        float h[S::M][S::N][4], largest = 0.0f;
        outputs_of<I>([&](const S& share, int m, int n, const float (&z)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float value = is_padding<I, S>(m, i / 2) ? 0.0f : value_of(F[I], z[i]);
                if (F[I] == SIGMOID && share.m_tile(m) * 16 + g + i / 2 * 8 >= REAL_WIDTH[I]) value = 0.0f;
                h[m][n][i] = value, largest = fmaxf(largest, fabsf(value));
                if (NEEDS_Z(I) && share.has(m, n)) slope_of<I>(share, m, n, i) = differentiated(F[I], 1.0f, z[i]);
            }
        });
        if constexpr (SENDS_ROWS && !HELD) {
            const S share(warp);
            if (share.has_some())
#pragma unroll
                for (int m = 0; m < S::M; ++m)
                    if (share.has_m(m)) outgoing_H<I>(share.m_tile(m)) = make_float4(h[m][0][0], h[m][0][1], h[m][0][2], h[m][0][3]);
        }
        put<I>(H<I>(), shared.largest_H, h, largest, up_of_H[I]);
        if constexpr (SENDS_ROWS && !HELD) named_arrive(SEND_H<I>, WORKERS_AND_SENDERS);
    }
    // H_I for the owners that send it: all warps but the last, which looks at weights.
    static constexpr int SENDERS = OWNERS - 32, WORKERS_AND_SENDERS = SENDS_ROWS ? WORKERS + SENDERS : THREADS;
    template <int I> static constexpr int SEND_H = I == LAST - 1 ? SEND_LAST_H : ERROR + 1 + I;
    template <int I> __device__ float4& outgoing_H(int tile) { return shared.outgoing[32 * (tiles_before(I) - tiles_before(1) + tile) + lane]; }
    __device__ void send_X()
    {
        for (int tile = warp; tile < m_tiles(0); tile += SENDERS / 32) {
            const float* const from = &shared.X[of_Y][2 * t][16 * tile + g];
            const float v[4] = {from[0], from[X_LINE], from[8], from[X_LINE + 8]};
            send_tile<1>(tile, v);
        }
    }
    template <int I = 1>
    __device__ void send_all_inputs()
    {
        if constexpr (I < LAST) {
            named_barrier(SEND_H<I>, WORKERS_AND_SENDERS);
            for (int tile = warp; tile < m_tiles(I); tile += SENDERS / 32) {
                const float4 h = outgoing_H<I>(tile);
                const float v[4] = {h.x, h.y, h.z, h.w};
                send_tile<I + 1>(tile, v);
            }
            send_all_inputs<I + 1>();
        }
    }

    template <int I, class S>
    __device__ float& slope_of(const S& share, int m, int n, int i)
    {
        return slopes<I>()[((share.m_tile(m) * ROW_TILES + share.n_tile(n)) * 4 + i) * 32 + lane];
    }

    // Writes to H_I's or dZ_I's place with the scale of the step before, and again if the largest number does not fit.
    template <int I, int M, int N>
    __device__ void put(unsigned* to, int (&places)[TURNS][L + 1], const float (&v)[M][N][4], float largest, float& up,
                        bool ahead = false)
    {
        int& most = places[turn][I];
        write<I>(to, v, up);
        note(most, largest);
        forget_place();
        if (ahead) named_barrier(AHEAD, WORKERS + 32);
        else sync();
        if (__builtin_expect(!is_usual(most, up), 0)) {
            asm volatile("");   // one test at a time
            if (!fits(most, up)) {
                up = up_for(most);
                write<I>(to, v, up);
                sync();
            }
        }
    }

    // dZ_I to the layer before and, with SENDS_ROWS, to the owners of layer I's weights, who alone need dZ_1.
    template <int I, int M, int N>
    __device__ void hand_on(const float (&dz)[M][N][4], float largest, bool ahead)
    {
        if constexpr (!SENDS_ROWS || I > 1) put<I>(dZ<I>(), shared.largest_dZ, dz, largest, up_of_dZ[I], ahead);
        else if (L == 2) sync();   // all warps have read the last layer's biases, which change once their gradients are sent
        if constexpr (SENDS_ROWS) send_errors<I>(dz);
    }

    template <int I, int M, int N>
    __device__ void write(unsigned* to, const float (&v)[M][N][4], float up)
    {
        const Neurons<I> share(warp);
        if (!share.has_some()) return;
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
                if (share.has(m, n)) write_tile(to + (share.m_tile(m) * ROW_TILES + share.n_tile(n)) * TILE, lane, v[m][n], up);
    }

    __device__ float scale() const
    {
        constexpr int TERMS = Loss::LOSS == Loss::binary_cross_entropy ? OUTPUTS : 1;   // of a row, that are averaged
        constexpr float OVER = Loss::LOSS == Loss::error ? 2.0f : 1.0f;
        if (!MEAN) return OVER;
        return count == BATCH ? OVER / float(BATCH * TERMS) : OVER / float(count * TERMS);
    }

    // Of rows of this batch or, if HELD, of the rows held out.
    template <bool HELD>
    __device__ int row_of(int line) const
    {
        if constexpr (HELD) return held_line + line;
        else return rank * ROWS + chunk * CHUNK + line;
    }
    template <bool HELD>
    __device__ float target_of(int line, int row, int neuron) const
    {
        if constexpr (HELD) return __ldg(held_Y + (size_t)smaller(row, held - 1) * WIDTH[L] + neuron);
        else return shared.Y[of_Y][line][neuron];
    }
    template <bool HELD>
    __device__ float* error_of(int in_batch) const
    {
        if constexpr (HELD) return held_E + (size_t)in_batch * ERRORS;
        const size_t line = ALL_ERRORS ? (size_t)member * rows + (size_t)batch * BATCH : (size_t)member * BATCH;
        return E + (line + in_batch) * ERRORS;
    }

    template <bool HELD>
    __device__ void last_layer()
    {
        using S = Neurons<L>;
        float dz[S::M][S::N][4], largest = 0.0f;
        outputs_of<L>([&](const S& share, int m, int n, const float (&z)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int neuron = m * 16 + g + i / 2 * 8, line = share.n_tile(n) * 8 + 2 * t + i % 2;
                const int in_batch = row_of<HELD>(line);
                if constexpr (CROSS_ENTROPY) {
                    dz[m][n][i] = z[i];
                } else {
                    const bool real = neuron < OUTPUTS && in_batch < count && share.has_n(n);
                    const OfOutput its =
                        of_output<Loss::LOSS>(z[i], real ? target_of<HELD>(line, in_batch, neuron) : z[i]);
                    if (keeps_errors && real) error_of<HELD>(in_batch)[neuron] = its.loss;
                    dz[m][n][i] = real ? scale() * its.slope : 0.0f;
                }
                if (!CROSS_ENTROPY) largest = fmaxf(largest, fabsf(dz[m][n][i]));
            }
        });
        if constexpr (CROSS_ENTROPY) softmax<HELD>(dz, largest);
        if constexpr (!HELD) put<L>(dZ<L>(), shared.largest_dZ, dz, largest, up_of_dZ[L]);
    }

    // ---- few outputs

    // The last two layers, forwards and backwards: H_P, Z_L, dZ_L and dZ_P of P = L - 1. If HELD, only forwards.
    template <bool HELD>
    __device__ void last_layers(bool again)
    {
        constexpr int P = larger(L - 1, 1);
        using S = Hidden;
        const S share(warp);
        float (&h)[S::M][S::N][4] = hidden, (&dz)[S::N][2][OUTPUTS] = dz_of_outputs;
        float slope[S::M][S::N][4], errors[S::M][S::N][4], losses[S::N][2][OUTPUTS];
        const auto weight = [&](int m, int half, int output) {   // read again rather than kept in a register
            return share.has_m(m) ? output_weight(2 * share.m_tile(m) + half, output) : 0.0f;
        };
        outputs_of<P>([&](const S&, int m, int n, const float (&z)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                h[m][n][i] = is_padding<P, S>(m, i / 2) ? 0.0f : value_of(F[P], z[i]);
                if (F[P] == SIGMOID && share.m_tile(m) * 16 + g + i / 2 * 8 >= REAL_WIDTH[P]) h[m][n][i] = 0.0f;
                if (NEEDS_Z(P)) slope[m][n][i] = differentiated(F[P], 1.0f, z[i]);
            }
        });
        if (share.has_some()) {
            float sums[S::N * 2 * OUTPUTS] = {};
#pragma unroll
            for (int m = 0; m < S::M; ++m)
#pragma unroll
                for (int i = 0; i < 2 * OUTPUTS; ++i) {
                    const int half = i % 2, output = i / 2;
                    if (is_padding<P, S>(m, half)) continue;
                    const float w = weight(m, half, output);
#pragma unroll
                    for (int n = 0; n < S::N; ++n)
                        for (int j = 0; j < 2; ++j) sums[(2 * n + j) * OUTPUTS + output] += w * h[m][n][2 * half + j];
                }
            const auto found = sums_over<4, 8>(sums);
#pragma unroll
            for (int i = 0; i < found.COUNT; ++i) {
                const int at = found.first + i, n = at / (2 * OUTPUTS), j = at / OUTPUTS % 2, output = at % OUTPUTS;
                float& place = shared.outputs[share.down][share.n_tile(n) * 8 + 2 * t + j][output];
                if (found.is_only && share.has_n(n)) place = sums[i];
            }
        }
        forget_place();
        sync();
        float largest = 0.0f;
        if (share.has_some()) {
#pragma unroll
            for (int n = 0; n < S::N; ++n)
#pragma unroll
                for (int i = 0; i < 2 * OUTPUTS; ++i) {
                    const int j = i % 2, output = i / 2, line = share.n_tile(n) * 8 + 2 * t + j;
                    const int in_batch = row_of<HELD>(line);
                    const bool real = in_batch < count && share.has_n(n);
                    float z = BIAS[L] ? biases<L>()[output] : 0.0f;
#pragma unroll
                    for (int down = 0; down < up(m_tiles(P), S::M); ++down) z += shared.outputs[down][line][output];
                    const OfOutput its = of_output<Loss::LOSS>(z, real ? target_of<HELD>(line, in_batch, output) : z);
                    losses[n][j][output] = its.loss;
                    dz[n][j][output] = real ? scale() * its.slope : 0.0f;
                }
            if (keeps_errors && share.down == 0 && g == 0)
                for (int n = 0; n < S::N; ++n)
                    for (int i = 0; i < 2 * OUTPUTS; ++i) {
                        const int in_batch = row_of<HELD>(share.n_tile(n) * 8 + 2 * t + i % 2);
                        if (in_batch < count && share.has_n(n)) error_of<HELD>(in_batch)[i / 2] = losses[n][i % 2][i / 2];
                    }
            if constexpr (HELD) return;
            if constexpr (CLUSTER == 1) sum_gradient();
            else if constexpr (!SENDS_ROWS) leave_to_owners();
#pragma unroll
            for (int m = 0; m < S::M; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float w[OUTPUTS];
#pragma unroll
                    for (int output = 0; output < OUTPUTS; ++output) w[output] = weight(m, half, output);
#pragma unroll
                    for (int n = 0; n < S::N; ++n)
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            const int i = 2 * half + j;
                            float error = 0.0f;
#pragma unroll
                            for (int output = 0; output < OUTPUTS; ++output) error += w[output] * dz[n][j][output];
                            if (NEEDS_Z(P)) error *= slope[m][n][i];
                            else if (F[P] != IDENTITY) error = differentiated(F[P], error, h[m][n][i]);
                            errors[m][n][i] = error, largest = fmaxf(largest, fabsf(error));
                        }
                }
        }
        if constexpr (HELD) return;
        if (CLUSTER == 1 && L == 2) copies_done();
        hand_on<P>(errors, largest, CLUSTER > 1 && P == 1 && !again);
    }

    // Sums over LANES lanes whose numbers differ by multiples of NEAREST, divided among them: a lane's first COUNT numbers become
    // sums, number `first` and the ones after it. If several lanes have them, is_only is true for one.
    template <int LEFT> struct Divided {
        static constexpr int COUNT = LEFT;
        int first;
        bool is_only;
    };
    template <int NEAREST, int LANES, int LEFT, int N>
    __device__ auto sums_over(float (&v)[N], int first, bool is_only) const
    {
        constexpr int DISTANCE = NEAREST * LANES / 2;
        if constexpr (LANES == 1) {
            return Divided<LEFT>{first, is_only};
        } else if constexpr (LEFT % 2 == 0) {
            const bool second = lane & DISTANCE;
#pragma unroll
            for (int i = 0; i < LEFT / 2; ++i) {
                const float given = second ? v[i] : v[i + LEFT / 2], kept = second ? v[i + LEFT / 2] : v[i];
                v[i] = kept + __shfl_xor_sync(0xffffffff, given, DISTANCE);
            }
            return sums_over<NEAREST, LANES / 2, LEFT / 2>(v, first + (second ? LEFT / 2 : 0), is_only);
        } else {
#pragma unroll
            for (int i = 0; i < LEFT; ++i) v[i] += __shfl_xor_sync(0xffffffff, v[i], DISTANCE);
            return sums_over<NEAREST, LANES / 2, LEFT>(v, first, is_only && !(lane & DISTANCE));
        }
    }
    template <int NEAREST, int LANES, int N>
    __device__ auto sums_over(float (&v)[N]) const { return sums_over<NEAREST, LANES, N>(v, 0, true); }

    // Of the last layer, over a warp's rows.
    __device__ void sum_gradient()
    {
        using S = Hidden;
        const S share(warp);
        if (!share.has_some()) return;
#pragma unroll
        for (int output = 0; output < OUTPUTS; ++output) {
            float sum = 0.0f;
#pragma unroll
            for (int n = 0; n < S::N; ++n) sum += dz_of_outputs[n][0][output] + dz_of_outputs[n][1][output];
            sum = over_line(sum);
            if (lane == 0 && share.down == 0) shared.narrow_db[share.across][output] = sum;
            float sums[2 * S::M] = {};
#pragma unroll
            for (int i = 0; i < 2 * S::M; ++i)
#pragma unroll
                for (int n = 0; n < S::N; ++n)
#pragma unroll
                    for (int j = 0; j < 2; ++j) sums[i] += dz_of_outputs[n][j][output] * hidden[i / 2][n][2 * (i % 2) + j];
            const auto found = sums_over<1, 4>(sums);
#pragma unroll
            for (int i = 0; i < found.COUNT; ++i) {
                const int at = found.first + i, m = at / 2, neuron = share.m_tile(m) * 16 + 8 * (at % 2) + g;
                if (found.is_only && share.has_m(m)) shared.narrow_dW[share.across][output][neuron] = sums[i];
            }
        }
    }

    // In a cluster, the owners do that.
    __device__ void leave_to_owners() const
    {
        using S = Hidden;
        const S share(warp);
#pragma unroll
        for (int n = 0; n < S::N; ++n) {
            if (!share.has_n(n)) continue;
#pragma unroll
            for (int m = 0; m < S::M; ++m) {
                const float (&h)[4] = hidden[m][n];
                float4& place = shared.hidden[(share.m_tile(m) * ROW_TILES + share.n_tile(n)) * 32 + lane];
                if (share.has_m(m)) place = make_float4(h[0], h[1], h[2], h[3]);
            }
            for (int i = 0; i < 2 * OUTPUTS && share.down == 0 && g == 0; ++i)
                shared.dz_of_outputs[share.n_tile(n) * 8 + 2 * t + i % 2][i / 2] = dz_of_outputs[n][i % 2][i / 2];
        }
    }
    // A warp has two tiles of 8 inputs. A lane's item is the weights of inputs 2 t and 2 t + 1 and output g.
    __device__ void find_narrow_gradient(bool last)
    {
        constexpr int P = larger(L - 1, 1);
        const bool first = CHUNKS == 1 || chunk == 0;
#pragma unroll
        for (int i = 0; i < NARROW_EACH; ++i) {
            const int m = OWNER_WARPS - 1 - warp + i * OWNER_WARPS;   // the first owners update most
            if (m >= m_tiles(P)) break;
            float found[2][2] = {}, db = 0.0f;
#pragma unroll
            for (int output = 0; output < OUTPUTS; ++output) {
                float sum[2] = {}, errors = 0.0f;
#pragma unroll
                for (int n = 0; n < ROW_TILES; ++n) {
                    const float4 h = shared.hidden[(m * ROW_TILES + n) * 32 + lane];
                    const int row = n * 8 + 2 * t;
                    const float a = shared.dz_of_outputs[row][output], b = shared.dz_of_outputs[row + 1][output];
                    sum[0] += a * h.x + b * h.y, sum[1] += a * h.z + b * h.w, errors += a + b;
                }
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    sum[half] = over_line(sum[half]);
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        const float its = __shfl_sync(0xffffffff, sum[half], 8 * t + 4 * j);
                        if (g == output) found[half][j] = its;
                    }
                }
                if (m == 0) errors = over_line(errors), db = g == output && t == 0 ? errors : db;
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float (&its)[4] = narrow[i][half];
                for (int j = 0; j < 4; ++j) its[j] = j < 2 ? (first ? 0.0f : its[j]) + found[half][j] : 0.0f;
                if (last && lane < lanes_of(L)) send_item<L>((2 * m + half) * lanes_of(L) + lane, its);
            }
            narrow_db = (first ? 0.0f : narrow_db) + db;
            if (last && m == 0 && t < 2) send_bias(first_bias(L) + 8 * t + g, narrow_db);
        }
    }

    // A lane's weight between input 8 tile + g and an output.
    __device__ float output_weight(int tile, int output) const
    {
        if constexpr (CLUSTER > 1) {
            const unsigned* const line = W<L>() + tile * TILE + 4 * output + g / 2;
            const float2 big = floats_of(line[0]), small = floats_of(line[64]);
            return (g % 2 ? big.y + small.y : big.x + small.x) * down_for(up_of_W[L]);
        } else {
            return reinterpret_cast<const float*>(shared.items + first_item(L) + tile * lanes_of(L) + 4 * output + g / 2)[g % 2];
        }
    }
    __device__ static float over_line(float v)
    {
        for (int apart = 1; apart < 4; apart *= 2) v += __shfl_xor_sync(0xffffffff, v, apart);
        return v;
    }

    // The last layer's gradient, from the sums of several warps.
    __device__ void take_gradient()
    {
        using S = Weights<L>;
        constexpr int SUMS = up(ROW_TILES, Hidden::N);
        const S share(warp, rank);
        Gradient<L>& its = gradient;
        if (!share.has_some()) return;
        const bool first = CHUNKS == 1 || chunk == 0, real = g < OUTPUTS;
#pragma unroll
        for (int n = 0; n < S::N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (first) its.dW[0][n][i] = 0.0f;
                if (i >= 2 || !real) continue;
#pragma unroll
                for (int across = 0; across < SUMS; ++across)
                    its.dW[0][n][i] += shared.narrow_dW[across][g][8 * share.n_tile(n) + 2 * t + i];
            }
        if (first) its.db[0] = 0.0f;
        if (!real || t > 0 || share.across != of_biases<L>()) return;
#pragma unroll
        for (int across = 0; across < SUMS; ++across) its.db[0] += shared.narrow_db[across][g];
    }

    // Z of whole rows to their gradients. A row's outputs are in the lanes of one t.
    template <bool HELD, int M, int N>
    __device__ void softmax(float (&z)[M][N][4], float& most)
    {
        const Neurons<L> share(warp);
        if (!share.has_some()) return;
        for (int n = 0; n < N; ++n)
            for (int j = 0; j < 2; ++j) {
                const int line = share.n_tile(n) * 8 + 2 * t + j, in_batch = row_of<HELD>(line);
                const bool real = in_batch < count && share.has_n(n);
                float largest = -__int_as_float(0x7f800000), exponentials = 0.0f, loss = 0.0f;
                each_output(z, n, j, [&](float& v, int) { largest = v > largest ? v : largest; });
                for (int apart = 4; apart < 32; apart *= 2) {
                    const float other = __shfl_xor_sync(0xffffffff, largest, apart);
                    largest = other > largest ? other : largest;
                }
                each_output(z, n, j, [&](float& v, int) { exponentials += expf(v - largest); });
                exponentials = over_column(exponentials);
                const float log_sum = logf(exponentials);
                each_output(z, n, j, [&](float& v, int neuron) {
                    const float target = target_of<HELD>(line, in_batch, neuron);
                    loss += target * (log_sum - (v - largest));
                    v = real ? scale() * (expf(v - largest) / exponentials - target) : 0.0f;
                    most = fmaxf(most, fabsf(v));
                });
                loss = over_column(loss);
                if (keeps_errors && real && g == 0) *error_of<HELD>(in_batch) = loss;
            }
    }

    // Calls f(z, neuron) for a lane's outputs of one row; padding becomes 0.
    template <int M, int N, class F>
    __device__ void each_output(float (&z)[M][N][4], int n, int j, F f)
    {
        for (int m = 0; m < M; ++m)
            for (int i = j; i < 4; i += 2) {
                const int neuron = m * 16 + g + i / 2 * 8;
                if (neuron < OUTPUTS) f(z[m][n][i], neuron);
                else z[m][n][i] = 0.0f;
            }
    }
    __device__ static float over_column(float v)
    {
        for (int apart = 4; apart < 32; apart *= 2) v += __shfl_xor_sync(0xffffffff, v, apart);
        return v;
    }

    // ---- backward

    __device__ static unsigned lines_at(unsigned tile) { return tile / 2 * ROW_TILES * TILE + tile % 2 * 32; }
    template <int I>
    __device__ const unsigned* lines_of(unsigned tile) const   // a lane's first one
    {
        return H<I - 1>() + lines_at(tile) + right_place(lane);
    }

    template <int I>
    __device__ void find_gradient()
    {
        using S = Weights<I>;
        constexpr int PAIRS = up(ROW_TILES, 2);
        const S share(warp, rank);
        Gradient<I>& its = gradient;
        if (!share.has_some()) return;
        Sums<S::M, S::N> sums;
        float of_bias[S::M][4] = {};
        const unsigned* const dz = dZ<I>() + share.m_first() * ROW_TILES * TILE + place.across;
        const unsigned* h[S::N];
#pragma unroll
        for (int n = 0; n < S::N; ++n)
            h[n] = S::PAIRED ? lines_of<I>(share.n_first()) + lines_at(n) : lines_of<I>(share.n_tile(n));
#pragma unroll
        for (int k = 0; k < PAIRS; ++k) {
            HalfParts<4> a[S::M];
            HalfParts<2> b[S::N];
            const bool single = 2 * k + 1 == ROW_TILES;
#pragma unroll
            for (int m = 0; m < S::M; ++m)
                a[m] = left_across(dz + (share.m_step(m) * ROW_TILES + 2 * k) * TILE - (single ? place.second_across() : 0));
#pragma unroll
            for (int n = 0; n < S::N; ++n)
                b[n] = single ? right_across<true>(h[n] + 2 * k * TILE, lane) : right_across<false>(h[n] + 2 * k * TILE, lane);
            sums.add(k, a, b);
            if (BIAS[I] && share.across == of_biases<I>()) {
                const unsigned ones[2] = {0x3c003c00u, single ? 0u : 0x3c003c00u};
#pragma unroll
                for (int m = 0; m < S::M; ++m)
                    mma_m16n8k16_fp16(of_bias[m], a[m].small, ones), mma_m16n8k16_fp16(of_bias[m], a[m].big, ones);
            }
        }
        const float of_dz = down_for(up_of_dZ[I]), down = of_dz * down_for(up_of_H[I - 1]);
        const bool first = CHUNKS == 1 || chunk == 0;
#pragma unroll
        for (int m = 0; m < S::M; ++m) {
#pragma unroll
            for (int n = 0; n < S::N; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) its.dW[m][n][i] = (first ? 0.0f : its.dW[m][n][i]) + sums.total(m, n, i) * down;
            its.db[m] = (first ? 0.0f : its.db[m]) + (t == 1 ? of_bias[m][2] : of_bias[m][0]) * of_dz;   // of lanes t < 2
        }
    }

    // By owners, once dZ_FIRST is written.
    static constexpr int FIRST = LAST >= OWN_FROM ? LAST : L;
    template <int I = FIRST>
    __device__ void find_gradients(bool last)
    {
        if constexpr (I >= OWN_FROM) {
            if (I < FIRST) named_barrier(ERROR + I, THREADS);
            if constexpr (!NARROW || I < L) {
                up_of_dZ[I] = scale_for(shared.largest_dZ[turn][I], shared.largest_dZ[before()][I]);
                up_of_H[I - 1] = scale_for(shared.largest_H[turn][I - 1], shared.largest_H[before()][I - 1]);
                find_gradient<I>();
                if (last) send_gradient<I>();
            }
            if constexpr (NARROW && I == FIRST) {
                find_narrow_gradient(last);
            }
            find_gradients<I - 1>(last);
        }
    }

    template <int I>
    __device__ void propagate(float (&dz)[Neurons<I - 1>::M][Neurons<I - 1>::N][4], float& largest)
    {
        using S = Neurons<I - 1>;
        const S share(warp);
        if (!share.has_some()) return;
        Sums<S::M, S::N> sums;
        const unsigned* const w = W<I>() + 2 * share.m_first() * TILE + place.down;
        const unsigned* const from = dZ<I>() + share.n_first() * TILE + place.one;
        multiply<m_tiles(I)>(sums,
            [&](int k, int m) { return left_down(w + (k * k_tiles(I) + 2 * share.m_step(m)) * TILE); },
            [&](int k, int n) { return right_down(from + (k * ROW_TILES + share.n_step(n)) * TILE); });
        const float down = down_for(up_of_W[I]) * down_for(up_of_dZ[I]), of_h = down_for(up_of_H[I - 1]);
#pragma unroll
        for (int m = 0; m < S::M; ++m)
#pragma unroll
            for (int n = 0; n < S::N; ++n) {
                float h[4];
                const unsigned* const tile = H<I - 1>() + (share.m_tile(m) * ROW_TILES + share.n_tile(n)) * TILE + lane;
                if (F[I - 1] != RELU) read_tile(tile, h, of_h);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    dz[m][n][i] = 0.0f;
                    if (is_padding<I - 1, S>(m, i / 2)) continue;
                    float error = sums.total(m, n, i) * down;
                    if (NEEDS_Z(I - 1)) error *= slope_of<I - 1>(share, m, n, i);
                    else if (F[I - 1] == RELU) error = tile[i / 2 * 32] & 0x7fffu << i % 2 * 16 ? error : 0.0f;
                    else if (F[I - 1] != IDENTITY) error = differentiated(F[I - 1], error, h[i]);
                    dz[m][n][i] = error;
                    largest = fmaxf(largest, fabsf(dz[m][n][i]));
                }
            }
    }

    template <int I>
    __device__ void backward(bool last)
    {
        constexpr int TO = larger(I - 1, 1);
        float dz[Neurons<TO>::M][Neurons<TO>::N][4], largest = 0.0f;
        if (!LATE) {
            find_gradient<I>();
            forget_place();
        }
        if (I == 1) take_X(1 - now);
        if constexpr (LATE && I == 1) late_updates<L>(last);
        if constexpr (SEQUENTIAL) {
            update<I>();
            sync();
            settle<I>();
        }
        if constexpr (I > 1) {
            propagate<I>(dz, largest);
            forget_place();
            if (!SEQUENTIAL && !APART) sync();   // H_{i-1} has been read
            put<I - 1>(dZ<I - 1>(), shared.largest_dZ, dz, largest, up_of_dZ[I - 1]);
        }
        if constexpr (!SEQUENTIAL && !LATE) {
            forget_place();
            if constexpr (NARROW && I == L - 1) {
                take_gradient();
                if (last && !CLIPPED) update<L>();
            }
            if (last && !CLIPPED) update<I>();   // all warps have read W_i
        }
    }

    // In a cluster, where the owners find the gradients.
    template <int I>
    __device__ void propagate_from(bool again)
    {
        if (I == LAST && FIRST == L && I < L) named_arrive(ERROR + L, WORKERS_AND_SENDERS);
        if constexpr (I > 1) {
            if (SENDS_ROWS ? I == FIRST : I >= OWN_FROM) named_arrive(ERROR + I, WORKERS_AND_SENDERS);
            float dz[Neurons<I - 1>::M][Neurons<I - 1>::N][4], largest = 0.0f;
            propagate<I>(dz, largest);
            hand_on<I - 1>(dz, largest, I == 2 && !again);
            propagate_from<I - 1>(again);
        } else if constexpr (SENDS_ROWS) {
            send_sums<L>();
            send_hidden();
            send_errors_of_outputs();
        }
    }
    template <int I = FIRST - 1>
    __device__ void let_propagate() const   // by owners
    {
        if constexpr (!SENDS_ROWS && I >= OWN_FROM && I < LAST) {
            named_barrier(ERROR + I, THREADS);
            let_propagate<I - 1>();
        }
    }
    template <int I = 1>
    __device__ void find_first_gradients(bool last)
    {
        if constexpr (I < smaller(OWN_FROM, L + 1)) {
            find_gradient<I>();
            if (last) send_gradient<I>();
            find_first_gradients<I + 1>(last);
        }
    }

    // ---- the update

    // Calls f(item, its weights' gradient, m, n) for each item of the warp's tiles.
    template <int I, class F>
    __device__ void each_item(F f)
    {
        using S = Weights<I>;
        const S share(warp, rank);
        if (!share.has_some() || lane >= lanes_of(I)) return;
#pragma unroll
        for (int m = 0; m < S::M; ++m)
#pragma unroll
            for (int n = 0; n < S::N; ++n)
                if (share.has(m, n)) f((share.m_tile(m) * k_tiles(I) + share.n_tile(n)) * lanes_of(I) + lane, m, n);
    }

    // Which of the warps that share a layer's neurons have its biases: not the same ones for all layers.
    template <int I>
    __device__ static constexpr int of_biases()
    {
        using S = Weights<I>;
        return !S::EVEN ? 0 : I == L ? S::ACROSS / 4 : I % 2 ? S::ACROSS - 1 : 0;
    }

    template <int I, class F>
    __device__ void each_bias(F f)   // f(neuron, m)
    {
        using S = Weights<I>;
        const S share(warp, rank);
        if (!BIAS[I] || share.across != of_biases<I>() || t > 1 || !share.has_some()) return;
#pragma unroll
        for (int m = 0; m < S::M; ++m)
            if (share.has_m(m)) f(share.m_tile(m) * 16 + 8 * t + g, m);
    }

    // Number of a lane's four weights that are not padding.
    template <int I> static constexpr int REAL = I == L && OUTPUTS <= 8 ? 2 : 4;

    template <int I>
    __device__ void update()
    {
        Gradient<I>& its = gradient;
        State<I>& kept = state;
        const float4 of_step = shared.pace[step % (2 * PACES)];
        const Pace now{of_step.x, of_step.y, of_step.z};
        const Weights<I> share(warp, rank);
        float largest = 0.0f;
        const float up = up_for(shared.largest_W[step % 3][I]);
        each_item<I>([&](int item, int m, int n) {
            float4& place_of = shared.items[first_item(I) + item];
            float w[4] = {place_of.x, place_of.y, place_of.z, place_of.w};
#pragma unroll
            for (int i = 0; i < REAL<I>; ++i) {
                w[i] = formula.updated(w[i], scaled(its.dW[m][n][i]), kept.w[m][n][i], now);
                largest = fmaxf(largest, fabsf(w[i]));
            }
            place_of = make_float4(w[0], w[1], w[2], w[3]);
            if (I <= OPERANDS) write_part<I>(share, m, n, w, up);
        });
        each_bias<I>([&](int neuron, int m) {
            biases<I>()[neuron] = formula.updated(biases<I>()[neuron], scaled(its.db[m]), kept.b[m], now);
        });
        if (I > OPERANDS) return;   // few outputs are computed from the float32 weights
        note(shared.largest_W[(step + 1) % 3][I], largest);
        up_of_W[I] = up;
    }
    template <int I>
    __device__ void write_part(const Weights<I>& share, int m, int n, const float (&w)[4], float up) const
    {
        write_tile<lanes_of(I) == 32>(W<I>() + (share.m_tile(m) * k_tiles(I) + share.n_tile(n)) * TILE, lane, w, up);
    }

    __device__ float scaled(float gradient) const { return CLIPPED ? clip_factor * gradient : gradient; }
#if CLIPPED
    // ---- gradients that are clipped together: kernels/layers/optimizers.cu has the formula

    template <int I = L>
    __device__ float square()   // of the gradients that this thread has
    {
        float sum = 0.0f;
        each_item<I>([&](int, int m, int n) {
#pragma unroll
            for (int i = 0; i < REAL<I>; ++i) sum += gradient_of<I>().dW[m][n][i] * gradient_of<I>().dW[m][n][i];
        });
        each_bias<I>([&](int, int m) { sum += gradient_of<I>().db[m] * gradient_of<I>().db[m]; });
        if constexpr (I > 1) return sum + square<I - 1>();
        else return sum;
    }
    template <int I> __device__ Gradient<I>& gradient_of() { return gradient; }

    __device__ void note_square(float sum) const   // of a warp
    {
        for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
        if (lane == 0) shared.squares[warp] = sum;
    }
    template <int COUNT>
    __device__ static float sum_of_squares(const float (&squares)[COUNT], int count)
    {
        float sum = 0.0f;
        for (int i = 0; i < count; ++i) sum += squares[i];
        return sum;
    }
    __device__ void follow_square(float sum)
    {
        const float scale = max_norm / (sqrtf(sum) + 1e-6f);
        clip_factor = scale > 1.0f ? 1.0f : scale;   // a NaN stays
    }

    template <int I = L>
    __device__ void clip_and_update()
    {
        forget_place();
        if constexpr (I == L) {
            note_square(square());
            sync();   // and all warps have read W
            follow_square(sum_of_squares(shared.squares, WARPS));
        }
        update<I>();
        if constexpr (I > 1) clip_and_update<I - 1>();
    }

    // In a cluster, by the owners, from the sums of their slots: each block sends the squares of what it owns to all.
    __device__ void clip(const float (&sums)[SLOTS_EACH][4])
    {
        float sum = 0.0f;
        each_own([&](const Slot& slot, int s) {
            for (int i = 0; i < 4; ++i)
                if (parameter_of(slot, i) >= 0) sum += sums[s][i] * sums[s][i];
        });
        note_square(sum);
        sync_owners();
        const unsigned arrived = shared_address(&shared.squares_arrived);
        if (warp == 0 && lane < CLUSTER) {
            const float v[1] = {sum_of_squares(shared.squares, OWNER_WARPS)};
            send(in_block(shared_address(&shared.squares_sent[step % 2][rank]), lane), v, in_block(arrived, lane));
        }
        mbarrier_wait(arrived, step % 2, {"norm"}, step);
        if (warp == 0 && lane == 0) mbarrier_expect(arrived, 4 * CLUSTER);
        follow_square(sum_of_squares(shared.squares_sent[step % 2], CLUSTER));
    }
#endif

    // After the barrier that follows an update.
    template <int I>
    __device__ void settle()
    {
        const int most = shared.largest_W[(step + 1) % 3][I];
        if (__builtin_expect(!fits(most, up_of_W[I]), 0)) {
            up_of_W[I] = up_for(most);
            write_W<I>();
            sync();
        }
    }
    template <int I = OPERANDS>
    __device__ bool all_usual() const
    {
        const bool its = is_usual(shared.largest_W[(step + 1) % 3][I], up_of_W[I]);
        if constexpr (I > 1) return its & all_usual<I - 1>();
        else return its;
    }
    template <int I = OPERANDS>
    __device__ void settle_all()
    {
        settle<I>();
        if constexpr (I > 1) settle_all<I - 1>();
    }

    // The float32 weights of the warp's tiles as operands of products.
    template <int I>
    __device__ void write_W()
    {
        each_item<I>([&](int item, int m, int n) {
            const float4 w = shared.items[first_item(I) + item];
            const float v[4] = {w.x, w.y, w.z, w.w};
            write_part<I>(Weights<I>(warp, rank), m, n, v, up_of_W[I]);
        });
    }

    // ---- in a cluster: messages with gradients and parameters

    static constexpr int WITH_BIASES = SENDS_ROWS ? AWAITED : 1;   // where gradients of biases come: with those of a layer, or alone
    __device__ unsigned barrier_of(int which, int i) const { return shared_address(&shared.arrived[which][larger(i, 1) - 1]); }

    __device__ int owned_by(int i, int by) const
    {
        const int left = all_of(i) - by * owned_of(i);
        return left < 0 ? 0 : smaller(left, owned_of(i));
    }

    // An item's gradient is four floats from each block; its parameters are four words or floats, and a slot's largest weight.
    // With SENDS_ROWS: 512 bytes of errors from each block, and 256 bytes of activations from each block for a tile of weights.
    __device__ int bytes_of(int which, int i) const
    {
        if (i > L) return which == 0 ? 16 * CLUSTER * owned_by(0, rank) : 0;   // gradients of biases
        if (SENDS_ROWS && which != 1) {
            const bool has_some = owned_by(i, rank) > 0;
            if (which == 2) return has_some && i >= FIRST_SENT ? 256 * CLUSTER * tiles_each(i) : 0;
            return has_some ? (i < L ? 512 : 32 * OUTPUTS) * CLUSTER : 0;
        }
        int bytes = 0;
        for (int layer = i > 1 ? i : 0; layer <= i; ++layer)   // biases come with the first layer
            bytes += which == 0 ? 16 * CLUSTER * owned_by(layer, rank) : 16 * all_of(layer);
        for (int by = 0; by < CLUSTER && which == 1; ++by) bytes += 4 * up(owned_by(i, by), 32);
        return bytes;
    }
    __device__ void expect(int which, int i) const
    {
        mbarrier_expect(barrier_of(which, i), shared.expected[smaller(which, 2)][i - 1]);
    }

    template <int I>
    __device__ void send_gradient()
    {
        Gradient<I>& its = gradient;
        const Weights<I> share(warp, rank);
        for (int m = 0; m < Weights<I>::M; ++m) {
            if (share.across != of_biases<I>() || t > 1 || !share.has_some() || !share.has_m(m)) continue;
            send_bias(first_bias(I) + share.m_tile(m) * 16 + 8 * t + g, its.db[m]);
        }
        each_item<I>([&](int item, int m, int n) { send_item<I>(item, its.dW[m][n]); });
    }
    __device__ void send_bias(int bias, float gradient)
    {
        const int four = bias / 4, owner = four / owned_of(0), at = 32 * (first_slot(0) - FIRST_SUMMED) + four % owned_of(0);
        const float v[1] = {gradient};
        send(in_block(shared_address(&shared.gradients[rank][at]) + bias % 4 * 4, owner), v,
             in_block(barrier_of(0, WITH_BIASES), owner));
    }
    template <int I>
    __device__ void send_item(int item, const float (&gradient)[4])
    {
        const int owner = item / owned_of(I), at = 32 * first_slot(I) + item % owned_of(I);
        send(in_block(shared_address(&shared.gradients[rank][at]), owner), gradient, in_block(barrier_of(0, I), owner));
    }

    // Sends a tile of H_{I-1} to the blocks that own weights of its inputs. A block that owns a single tile of weights needs only
    // eight inputs.
    template <int I>
    __device__ void send_tile(int tile, const float (&h)[4])
    {
        constexpr int EACH = tiles_each(I), ACROSS = blocks_across(I);
        const int across = 2 * tile / EACH, at = first_received(I) + (EACH > 1 ? 2 * tile % EACH / 2 : 0);
        const unsigned place = shared_address(&shared.activations[step % 2][rank][32 * at + lane]);
        const unsigned arrived = barrier_of(2 + step % 2, I);
#pragma unroll
        for (int i = 0; i < m_tiles(I); ++i) {
            const int to = (i + rank) % m_tiles(I) * ACROSS + across;
            if constexpr (EACH > 1) {
                send(in_block(place, to), h, in_block(arrived, to));
            } else {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float v[2] = {h[2 * half], h[2 * half + 1]};
                    send(in_block(place + 8 * half, to + half), v, in_block(arrived, to + half));
                }
            }
        }
    }
    __device__ void send_hidden()   // H_{L-1}
    {
        const Hidden share(warp);
        if (!share.has_some()) return;
#pragma unroll
        for (int m = 0; m < Hidden::M; ++m)
            if (share.has_m(m)) send_tile<L>(share.m_tile(m), hidden[m][0]);
    }
    // Sends dZ_I to the blocks that own weights of its neurons.
    template <int I, int M, int N>
    __device__ void send_errors(const float (&dz)[M][N][4])
    {
        const Neurons<I> share(warp);
        if (!share.has_some()) return;
        const unsigned place = shared_address(&shared.errors[I - 1][rank][lane]), arrived = barrier_of(0, I);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            if (!share.has_m(m)) continue;
#pragma unroll
            for (int across = 0; across < blocks_across(I); ++across) {
                const int to = share.m_tile(m) * blocks_across(I) + across;
                send(in_block(place, to), dz[m][0], in_block(arrived, to));
            }
            for (int half = 0; half < 2; ++half) error_sums[I - 1][m][half] = dz[m][0][2 * half] + dz[m][0][2 * half + 1];
        }
    }
    __device__ void send_errors_of_outputs()
    {
        constexpr int BLOCKS = k_tiles(L) / tiles_each(L);
        const Hidden share(warp);
        if (!share.has_some() || share.down > 0) return;
#pragma unroll
        for (int output = 0; output < OUTPUTS; ++output) {
            const unsigned place = shared_address(&shared.errors_of_outputs[rank][output][2 * t]), arrived = barrier_of(0, L);
#pragma unroll
            for (int to = g; to < BLOCKS; to += 8) {
                const float v[2] = {dz_of_outputs[0][0][output], dz_of_outputs[0][1][output]};
                send(in_block(place, to), v, in_block(arrived, to));
            }
        }
    }
    // Sends the sums of errors over this block's rows, its part of the biases' gradients.
    template <int I>
    __device__ void send_sums()
    {
        if constexpr (I == L) {
            const Hidden share(warp);
            if (share.has_some() && share.down == 0) {
                float its = 0.0f;
#pragma unroll
                for (int output = 0; output < OUTPUTS; ++output) {
                    const float sum = over_line(dz_of_outputs[0][0][output] + dz_of_outputs[0][1][output]);
                    if (BIAS[L] && g == output && t == 0) its = sum;
                }
                if (t < 2) send_bias(first_bias(L) + 8 * t + g, its);
            }
        } else {
            const Neurons<I> share(warp);
            if (share.has_some())
#pragma unroll
                for (int m = 0; m < Neurons<I>::M; ++m) {
                    const float low = over_line(error_sums[I - 1][m][0]), high = over_line(error_sums[I - 1][m][1]);
                    if (t < 2 && share.has_m(m))
                        send_bias(first_bias(I) + 16 * share.m_tile(m) + 8 * t + g, !BIAS[I] ? 0.0f : t == 0 ? low : high);
                }
        }
        if constexpr (I > 1) send_sums<I - 1>();
    }

    // The layer of a slot (0: biases); a lane's item, and whether it has one. Four neighbours have two lines of a tile, which have
    // four words in each of four matrices. After update_slot's exchange, a lane sends one line of one matrix, and a warp's lanes
    // send lines that follow each other: it has the line of the item `sent` and hears of it from lane `source`.
    struct Slot {
        int layer, item, sent, matrix, source;
        bool real;
    };
    template <int I = L>
    __device__ Slot slot_of(int number) const
    {
        if constexpr (I > 0)
            if (ASCENDING ? number < first_slot(I) : number >= first_slot(I - 1)) return slot_of<I - 1>(number);
        const int before = 32 * (number - first_slot(I)), first = rank * owned_of(I) + before;
        const int left = number < SLOTS ? owned_by(I, rank) - before : 0, lines = larger(smaller(left, 32) / 4, 1);
        const int line = lane % lines, matrix = lane / lines % 4;
        return {I, first + lane, first + 4 * line, matrix, 4 * line + matrix, lane < left};
    }

    // Where a lane sends four words or floats, the same in each block.
    template <int I = L>
    __device__ unsigned place_of(const Slot& slot) const
    {
        if constexpr (I > 0) {
            if (slot.layer != I) return place_of<I - 1>(slot);
            const int tile = slot.sent / lanes_of(I), in_tile = slot.sent % lanes_of(I);
            return shared_address(W<I>() + tile * TILE + 32 * slot.matrix + in_tile);
        } else {
            return shared_address(shared.biases + 4 * slot.item);
        }
    }
    // Its place in W, in device memory.
    template <int I = L>
    __device__ int parameter_of(const Slot& slot, int i) const
    {
        if constexpr (I > 0) {
            if (slot.layer != I) return parameter_of<I - 1>(slot, i);
            return parameter_of_item<I>(slot.item, i);
        } else {
            return parameter_of_bias<L>(4 * slot.item + i);
        }
    }
    template <int I>
    __device__ static int parameter_of_item(int item, int i)
    {
        const int tile = item / lanes_of(I), in_tile = item % lanes_of(I);
        const int neuron = tile / k_tiles(I) * 16 + in_tile / 4 + i / 2 * 8;
        const int input = tile % k_tiles(I) * 8 + in_tile % 4 * 2 + i % 2;
        return first_parameter(I) + input * WIDTH[I] + neuron;
    }
    template <int I>
    __device__ static int parameter_of_bias(int bias)   // -1: the layer has none
    {
        if constexpr (I > 1)
            if (bias < first_bias(I)) return parameter_of_bias<I - 1>(bias);
        return BIAS[I] ? first_parameter(I) + WIDTH[I - 1] * WIDTH[I] + bias - first_bias(I) : -1;
    }

    template <int I = L>
    __device__ void await_parameters(int of_step)
    {
        mbarrier_wait(barrier_of(1, I), of_step % 2, {"weights", I}, of_step);
        if constexpr (I > 1) await_parameters<I - 1>(of_step);
    }

    // ---- a launch

    template <int I = L>
    __device__ void load_weights()
    {
        float largest = 0.0f;
        for (int i = thread; i < items_of(I); i += THREADS) {
            float w[4];
            for (int j = 0; j < 4; ++j) {
                w[j] = __ldcg(weights + parameter_of_item<I>(i, j));
                largest = fmaxf(largest, fabsf(w[j]));
            }
            if (CLUSTER == 1) shared.items[first_item(I) + i] = make_float4(w[0], w[1], w[2], w[3]);
        }
        note(shared.largest_W[step % 3][I], largest);
        if constexpr (I > 1) load_weights<I - 1>();
    }

    template <int I = L>
    __device__ void write_weights()
    {
        up_of_W[I] = scale_for(shared.largest_W[step % 3][I], shared.largest_W[(step + 2) % 3][I]);
        for (int i = thread; I <= OPERANDS && i < items_of(I); i += THREADS) {
            unsigned* const to = W<I>() + i / lanes_of(I) * TILE + i % lanes_of(I);
            float w[4];
            for (int j = 0; j < 4; ++j) w[j] = __ldcg(weights + parameter_of_item<I>(i, j)) * up_of_W[I];
            const Parts16 first(w[0], w[1]), second(w[2], w[3]);
            to[0] = first.big, to[32] = second.big, to[64] = first.small, to[96] = second.small;
        }
        if constexpr (I > 1) write_weights<I - 1>();
    }

    __device__ void end(int steps)
    {
        if constexpr (CLUSTER == 1) {
            __syncthreads();
            save_weights(weights);
        }
        if (rank == 0 && thread == 0) count_steps(workspace, steps);
    }
    template <int I = L>
    __device__ void save_weights(float* to) const
    {
        for (int i = thread; i < 4 * items_of(I); i += THREADS)
            to[parameter_of_item<I>(i / 4, i % 4)] = reinterpret_cast<float*>(shared.items + first_item(I))[i];
        for (int i = thread; BIAS[I] && i < WIDTH[I]; i += THREADS)
            to[first_parameter(I) + WIDTH[I - 1] * WIDTH[I] + i] = biases<I>()[i];
        if constexpr (I > 1) save_weights<I - 1>(to);
    }

    // Calls f(place in memory, the state) for what this thread keeps.
    template <int I = L, class F>
    __device__ void each_state(F f)
    {
        if constexpr (STATES > 0) {
            State<I>& kept = state;
            each_item<I>([&](int item, int m, int n) {
                for (int i = 0; i < 4; ++i) f(4 * (first_item(I) + item) + i, kept.w[m][n][i]);
            });
            each_bias<I>([&](int neuron, int m) { f(4 * ITEMS + first_bias(I) + neuron, kept.b[m]); });
            if constexpr (I > 1) each_state<I - 1>(f);
        }
    }

    // From memory to shared memory, by all threads.
    __device__ void load()
    {
        const float* const scales = memory + STATE_FLOATS + 3 * rank * (L + 1);   // the numbers that scales follow from
        if (thread <= L) {
            shared.largest_W[2][thread] = __float_as_int(scales[thread]);
            shared.largest_H[2][thread] = __float_as_int(scales[L + 1 + thread]);
            shared.largest_dZ[2][thread] = __float_as_int(scales[2 * (L + 1) + thread]);
        }
        load_weights();
        for (int i = thread; i < NEURONS; i += THREADS)
            if (const int from = parameter_of_bias<L>(i); from >= 0) shared.biases[i] = __ldcg(weights + from);
        __syncthreads();
        write_weights();
    }

    __device__ void begin()
    {
        constexpr int WORDS = sizeof(Shared) / 4;
        for (int i = thread; i < WORDS; i += THREADS) reinterpret_cast<unsigned*>(&shared)[i] = 0;
        __syncthreads();
        load();
        if constexpr (CLUSTER > 1) {
            const int i = thread + 1;
            for (int which = 0; which < MBARRIERS && i <= AWAITED; ++which) {
                mbarrier_init(barrier_of(which, i));
                shared.expected[smaller(which, 2)][thread] = bytes_of(smaller(which, 2), i);
            }
#if CLIPPED
            const unsigned of_squares = shared_address(&shared.squares_arrived);
            if (thread == 0) mbarrier_init(of_squares);
#endif
            if (SENDS_ROWS && thread < 2) mbarrier_init(shared_address(&shared.looked[thread]));
            mbarriers_made();
            __syncthreads();
#if CLIPPED
            if (thread == 0) mbarrier_expect(of_squares, 4 * CLUSTER);
#endif
            for (int which = 0; which < MBARRIERS && i <= AWAITED; ++which) expect(which, i);
            cluster_barrier();
        }
        __syncthreads();
    }

    // What a worker does.
    __device__ void work(int steps)
    {
        if constexpr (CLUSTER == 1)
            each_state([&](int from, float (&to)[larger(STATES, 1)]) {
                for (int kind = 0; kind < STATES; ++kind) to[kind] = memory[kind * (4 * ITEMS + NEURONS) + from];
            });
        if constexpr (CLUSTER > 1) {
            if (SENDS_ROWS) begin_rows();
            sync_both();   // the first rows have come
        } else {
            if (ORDER_BITS) make_order(next_epoch);
            find_rows(0);
            copies_done();
            sync();
            copy_found(0, 0);
            look_further(1);
            if (warp == 0) set_paces(0);
            copies_done();
            sync();
            take_X(0);
            sync();
        }
        for (; !(WATCHED && has_ended()) && step < steps; ++step) {
            count = rows_of(batch), keeps_errors = ALL_ERRORS || step + 1 == steps;
            for (chunk = 0; chunk < CHUNKS; ++chunk) train_chunk();
            batch = batch_after(batch, batches);
        }
        if (WATCHED) steps = step;
        if constexpr (CLUSTER == 1)
            each_state([&](int to, const float (&from)[larger(STATES, 1)]) {
                for (int kind = 0; kind < STATES; ++kind) memory[kind * (4 * ITEMS + NEURONS) + to] = from[kind];
            });
        else if (steps > 0) await_parameters(steps - 1), named_barrier(FOUND, WORKERS_AND_SENDERS);
        save_scales(steps);
    }

    __device__ void set_paces(int from) const   // of as many steps as a warp has lanes
    {
        const Pace now = formula.pace(rate, decay, from + lane);
        shared.pace[(from + lane) % (2 * PACES)] = make_float4(now.rate, now.over, now.decay, 0.0f);
    }

    __device__ void train_chunk()
    {
        if (CLUSTER > 1 && chunk == 0 && step > 0) {
            follow_scales();
            follow_numbers();
            named_barrier(FOUND, WORKERS_AND_SENDERS);
        }
        if (SENDS_ROWS) named_arrive(AHEAD, WORKERS + 32);
        else if (PREPARE_FIRST) named_arrive(BEGUN, THREADS);
        clear_next();
        if (CLUSTER == 1 || chunk > 0 || step == 0) follow_numbers();
        if (CLUSTER == 1 && step % PACES == 0 && chunk == 0 && warp == WARPS - 1) set_paces(step + PACES);
        const bool last = chunk == CHUNKS - 1;
        forward_from<1>(false);
        if constexpr (CLUSTER > 1) {
            propagate_from<LAST>(false);
            if (SENDS_ROWS) await_look();
            if (chunk == 0 && __builtin_expect(shared.misfit[step % 2], 0)) {
                renew();
                follow_numbers();   // as the owners do: what was just computed may have changed these scales
                forward_from<1>(true);
                propagate_from<LAST>(true);
            }
            if constexpr (OWNERS_COPY) {
                find_first_gradients(last);
                if (!last) sync_both();   // else the wait for new weights does
            } else {
                prepare_rows();   // while owners update
            }
        } else {
            backward_from<L>(last);
#if CLIPPED
            if (last) clip_and_update();
#endif
            forget_place();
            sync();
            if (!SEQUENTIAL && last && __builtin_expect(!all_usual(), 0)) settle_all();
        }
        go_on();
    }

    template <int I>
    __device__ void forward_from(bool again)
    {
        if (CLUSTER > 1 && chunk == 0 && step > 0) mbarrier_wait(barrier_of(1, I), (step - 1) % 2, {"weights", I}, step);
        if (CLUSTER == 1 && I == 1) {
            copy_found(found, 1 - now);
            look_further(1 - found);
        }
        if constexpr (NARROW && I == L - 1) {
            if (CLUSTER > 1 && chunk == 0 && step > 0) mbarrier_wait(barrier_of(1, L), (step - 1) % 2, {"weights", L}, step);
            last_layers<false>(again);
        } else if constexpr (I < L) {
            forward<I>();
        } else {
            last_layer<false>();
        }
        if constexpr (I < LAST) forward_from<I + 1>(again);
    }

    // If no dZ_i overwrites what gradients are found from.
    static constexpr bool LATE = CLUSTER == 1 && APART && !SEQUENTIAL;
    template <int I>
    __device__ void late_updates(bool last)
    {
        if (I < L) forget_place();
        if constexpr (NARROW && I == L) take_gradient();
        else find_gradient<I>();
        if (last && !CLIPPED) update<I>();
        if constexpr (I > 1) late_updates<I - 1>(last);
    }

    template <int I>
    __device__ void backward_from(bool last)
    {
        if (I == smaller(2, L) && !(NARROW && L == 2)) {   // before a barrier
            copies_done();
            if (L == 1) sync();
        }
        if constexpr (!NARROW || I < L) backward<I>(last);
        if constexpr (I > 1) backward_from<I - 1>(last);
    }

    __device__ void save_scales(int steps) const
    {
        float* const to = memory + STATE_FLOATS + 3 * rank * (L + 1);
        if (thread > L || steps == 0) return;
        to[thread] = __int_as_float(shared.largest_W[(steps - 1) % 3][thread]);
        to[L + 1 + thread] = __int_as_float(shared.largest_H[before()][thread]);
        to[2 * (L + 1) + thread] = __int_as_float(shared.largest_dZ[before()][thread]);
    }

#if WATCHED
    // ---- between epochs: losses, the best weights, and whether to stop

    static constexpr int BEST = 1, STOP = 2;   // of a verdict
    __device__ float* of_member() const { return workspace + HEAD_FLOATS + MEMBER_FLOATS * member; }
    __device__ bool leads() const { return rank == 0 && thread == 0; }

    // Whether training ends with the epoch that the last step has ended, if it has ended one; by workers.
    __device__ bool has_ended()
    {
        if (step == 0 || batch > 0) return false;
        forget_place();
        if constexpr (CLUSTER > 1) {
            await_parameters(step - 1);
            follow_scales();
            named_barrier(LOOKED, THREADS);
            if (shared.misfit[step % 2]) renew();   // and again in the next step, which finds the same
        }
        Watch& watch = shared.watch;
        unsigned long long trained = 0;
        if (leads()) {
            trained = nanoseconds();
            __stcg(of_member() + 3, *(volatile double*)telemetry != 0.0 ? 1.0f : 0.0f);
        }
        find_held_errors();
        all_blocks();
        double loss = 0.0;
        if (rank == 0) {
            const float* const errors = E + (size_t)member * rows * ERRORS;
            const int last = rows_of(batches - 1), others = rows - last;
            loss = sum_of(errors, others) / (BATCH * ERRORS);
            loss = (loss + sum_of(errors + (size_t)others * ERRORS, last) / (last * ERRORS)) / batches;
        }
        const double of_held = sum_of(held_E, held) / ((double)held * ERRORS);
        if (thread == 0) watch.verdict = verdict_on(of_held);
        all_blocks();   // the next step writes to E
        if constexpr (CLUSTER == 1)
            if (watch.verdict & BEST) save_weights(best);
        if (leads()) report(loss, of_held, trained);
        __syncwarp();
        return watch.verdict & STOP;
    }
    __device__ static void all_blocks()
    {
        __syncwarp();   // the barrier is an aligned one
        if constexpr (CLUSTER > 1) cluster_barrier();
        else __syncthreads();
    }

    __device__ void find_held_errors()
    {
        follow_numbers();
        const int turn_before = turn, now_before = now;
        now = CLUSTER > 1 ? before() : 1 - now;   // where H_0 of no chunk is
        turn = OF_HELD, count = held;
        for (held_line = rank * CHUNK; held_line < held; held_line += CLUSTER * CHUNK) {
            sync();
            if (thread <= L) shared.largest_H[OF_HELD][thread] = 0;
            take_held_X();
            sync();
            held_forward<1>();
        }
        turn = turn_before, now = now_before;
    }
    __device__ void take_held_X()
    {
        for (int tile = warp; tile < m_tiles(0) * ROW_TILES; tile += WARPS) {
            const int feature = tile / ROW_TILES * 16 + g, row = held_line + tile % ROW_TILES * 8 + 2 * t;
            float v[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                v[i] = __ldg(held_X + (size_t)smaller(row + i % 2, held - 1) * WIDTH[0] + feature + i / 2 * 8);
            write_tile(shared.H_0[now] + tile * TILE, lane, v, x_scale);
        }
    }
    template <int I>
    __device__ void held_forward()
    {
        forget_place();
        if constexpr (NARROW && I == L - 1) {
            last_layers<true>(false);
        } else if constexpr (I < L) {
            forward<I, true>();
            held_forward<I + 1>();
        } else {
            last_layer<true>();
        }
    }

    // The sum of the losses of rows, from their errors; the same bits in all threads of all blocks.
    __device__ double sum_of(const float* errors, int of_rows) const
    {
        double sum = 0.0;
        const size_t number = (size_t)of_rows * ERRORS;
        for (size_t i = thread; i < number; i += WORKERS) {
            const double error = __ldcg(errors + i);
            sum += Loss::LOSS == Loss::error ? error * error : error;
        }
        for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
        sync();
        if (lane == 0) shared.watch.sums[warp] = sum;
        sync();
        sum = 0.0;
        for (int from = 0; from < WARPS; ++from) sum += shared.watch.sums[from];
        return sum;
    }

    // By a thread of each block: as Strategy.watch (snn/strategies/base.py) decides for other strategies.
    __device__ int verdict_on(double loss) const
    {
        Watch& watch = shared.watch;
        const int epoch = ++watch.epochs;
        int verdict = __ldcg(of_member() + 3) != 0.0f ? STOP : 0;
        if (patience == 0) return verdict;
        if (loss < watch.lowest) watch.lowest = loss, watch.best_epoch = epoch, verdict |= BEST;
        return epoch - watch.best_epoch >= patience ? verdict | STOP : verdict;
    }

    __device__ int epochs_ended() const   // negative if training has ended with the last one
    {
        return shared.watch.verdict & STOP ? -shared.watch.epochs : shared.watch.epochs;
    }
    __device__ void report(double loss, double of_held, unsigned long long trained) const
    {
        Watch& watch = shared.watch;
        const unsigned long long ended = nanoseconds();
        if (watch.epochs <= room) {
            volatile double* const to = telemetry + 1 + MEMBERS + 4 * ((size_t)member * room + watch.epochs - 1);
            to[0] = loss, to[1] = of_held;
            to[2] = 1e-9 * (trained - watch.since), to[3] = 1e-9 * (ended - trained);
            __threadfence_system();
            ((volatile double*)telemetry)[1 + member] = epochs_ended();
        }
        watch.since = ended;
    }

    // By owners.
    __device__ bool owner_has_ended()
    {
        if (step == 0 || batch > 0) return false;
        if (warp == OWNER_WARPS - 1) look_at_weights();
        sync_owners();
        named_arrive(LOOKED, THREADS);
        if (shared.misfit[step % 2]) {
            write_own(weights);
            renew();
        }
        all_blocks();   // while workers find losses and decide
        all_blocks();
        if (shared.watch.verdict & BEST) write_own(best);
        return shared.watch.verdict & STOP;
    }

    // A run's first launch begins with nothing; a later one with what the one before has left.
    __device__ bool begin_watch(bool is_first)   // whether there is something to train
    {
        Watch& watch = shared.watch;
        if (thread == 0) {
            const float* const left = of_member();
            watch.lowest = is_first ? __longlong_as_double(0x7ff0000000000000) : *(const double*)(left + 4);
            watch.best_epoch = is_first ? 0 : __float_as_int(left[6]);
            const int epochs = is_first ? 0 : __float_as_int(left[7]);
            watch.epochs = abs(epochs), watch.verdict = epochs < 0 ? STOP : 0;
            watch.since = nanoseconds() - (is_first || rank > 0 ? 0ull : (unsigned long long)(1e9 * left[3]));
        }
        __syncthreads();
        return !(watch.verdict & STOP);
    }
    __device__ void end_watch() const
    {
        const Watch& watch = shared.watch;
        float* const to = of_member();
        if (!leads()) return;
        to[3] = 1e-9f * (nanoseconds() - watch.since);
        *(double*)(to + 4) = watch.lowest;
        to[6] = __int_as_float(watch.best_epoch);
        to[7] = __int_as_float(epochs_ended());
    }
#else
    __device__ bool has_ended() { return false; }
    __device__ bool owner_has_ended() { return false; }
#endif

    // ---- in a cluster: scales of weights, the same in all blocks

    template <int I = L>
    __device__ void follow_scales()   // by the weights sent in the step before
    {
        up_of_W[I] = up_for(shared.largest_W[(step + 2) % 3][I]);
        if constexpr (I > 1) follow_scales<I - 1>();
    }

    // All threads of all blocks, if weights did not fit: write the operands again from the weights in device memory.
    __device__ void renew()
    {
        sync_both();
        if (thread <= L) {
            shared.largest_W[step % 3][thread] = 0;
            shared.largest_H[turn][thread] = shared.largest_dZ[turn][thread] = 0;
        }
        cluster_barrier();
        load_weights();
        sync_both();
        write_weights();
        cluster_barrier();
        sync_both();
    }

    // ---- what an owner does

    float own[SLOTS_EACH][4], own_state[SLOTS_EACH][4][larger(STATES, 1)];
    float own_largest[up(SLOTS, 32)];

    Slot slots[SLOTS_EACH];
    unsigned places[SLOTS_EACH], told[SLOTS_EACH], gradient_barriers[SLOTS_EACH], barriers[SLOTS_EACH];   // in shared memory
    __device__ static int place_in_memory(const Slot& slot)
    {
        return slot.layer > 0 ? 4 * (first_item_of(slot.layer) + slot.item) : 4 * (ITEMS + slot.item);
    }
    template <int I = L>
    __device__ static int first_item_of(int layer)
    {
        if constexpr (I > 1) return layer == I ? first_item(I) : first_item_of<I - 1>(layer);
        else return 0;
    }

    template <class F>
    __device__ void each_own(F f)   // f(slot, its number)
    {
#pragma unroll
        for (int s = 0; s < SLOTS_EACH; ++s)
            if (slots[s].real) f(slots[s], s);
    }

    // With SENDS_ROWS: all warps but the last send H_I; then every warp receives its first slot's gradient.
    __device__ void send_and_receive(float (&sum)[4])
    {
        if (warp < OWNER_WARPS - 1) {
            if constexpr (SENDS_X) send_X();
            send_all_inputs();
            named_barrier(ERROR + FIRST, WORKERS_AND_SENDERS);
        }
        receive(0, sum);
    }

    __device__ void serve(int steps)
    {
#pragma unroll
        for (int s = 0; s < SLOTS_EACH; ++s) {
            const int number = warp + s * OWNER_WARPS;
            slots[s] = slot_of(number);
            places[s] = place_of(slots[s]), told[s] = shared_address(&shared.largest_sent[0][rank][smaller(number, SLOTS - 1)]);
            gradient_barriers[s] = barrier_of(0, slots[s].layer > 0 ? slots[s].layer : WITH_BIASES), barriers[s] = barrier_of(1, slots[s].layer);
        }
        each_own([&](const Slot& slot, int s) {
            for (int i = 0; i < 4; ++i) {
                const int from = parameter_of(slot, i);
                own[s][i] = from < 0 ? 0.0f : __ldcg(weights + from);
                for (int kind = 0; kind < STATES; ++kind)
                    own_state[s][i][kind] = memory[kind * (4 * ITEMS + NEURONS) + place_in_memory(slot) + i];
            }
        });
        begin_rows();
        Pace pace = formula.pace(rate, decay, 0);
        sync_both();
        for (; !(WATCHED && owner_has_ended()) && step < steps; ++step) {
            for (chunk = 0; chunk < CHUNKS; ++chunk) {
                float sums[SLOTS_EACH][4];
                if constexpr (PREPARE_FIRST) {
                    named_barrier(BEGUN, THREADS);
                    prepare_rows();   // while workers go forwards
                }
                if (warp == OWNER_WARPS - 1) {
                    if (chunk == 0 && step > 0 && !(WATCHED && batch == 0)) look_at_weights();
                    if (SENDS_ROWS) named_barrier(AHEAD, WORKERS + 32);
                    else named_arrive(AHEAD, WORKERS + 32);
                    if (SENDS_ROWS && lane == 0) mbarrier_expect(shared_address(&shared.looked[step % 2]), 0);
                }
                if constexpr (SENDS_ROWS) {
                    send_and_receive(sums[0]);
                    await_look();
                } else {
                    named_barrier(ERROR + FIRST, THREADS);
                }
                if (chunk == 0 && __builtin_expect(shared.misfit[step % 2], 0)) {
                    let_propagate();
                    if constexpr (SENDS_ROWS) {
                        if (warp == 0) expect_messages();
                        step % 2 ? ++repeated[1] : ++repeated[0];
                    }
                    write_own(weights);
                    renew();
                    if constexpr (SENDS_ROWS) send_and_receive(sums[0]);
                    else named_barrier(ERROR + FIRST, THREADS);
                }
                if constexpr (!SENDS_ROWS) {
                    find_gradients(chunk == CHUNKS - 1);
                    if (chunk < CHUNKS - 1) sync_both();
                    else named_arrive(FOUND, THREADS);
                    if (!PREPARE_FIRST) prepare_rows();   // while gradients are on their way
                }
                if (chunk == CHUNKS - 1) {
#pragma unroll
                    for (int s = SENDS_ROWS; CLIPPED && s < SLOTS_EACH; ++s) receive(s, sums[s]);
#if CLIPPED
                    clip(sums);
#endif
#pragma unroll
                    for (int s = 0; s < SLOTS_EACH; ++s) update_slot(s, pace, sums[s]);
                    if (warp == 0) expect_messages();
                    pace = formula.pace(rate, decay, step + 1);
                }
                if (is_finder()) find_next_rows(1 - found);
                go_on();
            }
            if (WATCHED) batch = batch_after(batch, batches);
        }
        write_own(weights);
        each_own([&](const Slot& slot, int s) {
            for (int i = 0; i < 4; ++i)
                for (int kind = 0; kind < STATES; ++kind)
                    memory[kind * (4 * ITEMS + NEURONS) + place_in_memory(slot) + i] = own_state[s][i][kind];
        });
    }

    __device__ void write_own(float* to_weights)
    {
        each_own([&](const Slot& slot, int s) {
            for (int i = 0; i < 4; ++i)
                if (const int to = parameter_of(slot, i); to >= 0) to_weights[to] = own[s][i];
        });
    }

    // Words of weights go to the place of the next step's.
    __device__ unsigned to_layer(const Slot& slot, unsigned place) const
    {
        return place + (slot.layer > 0 && step % 2 == 0 ? (unsigned)sizeof shared.W[0] : 0);
    }

    // Word i of lane t of four neighbours becomes word t of lane i.
    __device__ void transpose_in_fours(unsigned (&v)[4]) const
    {
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (i & apart) continue;
                unsigned &low = v[i], &high = v[i + apart];
                const bool is_high = lane & apart;
                const unsigned received = __shfl_xor_sync(0xffffffff, is_high ? low : high, apart);
                (is_high ? low : high) = received;
            }
    }

    // The next step begins with biases and the first layer's weights. With 16 blocks, other warps wait until these are sent.
    __device__ void update_slot(int s, const Pace& now, float (&sum)[4])
    {
        const bool in_turn = CLUSTER > 8 && s == 0 && slots_to(1) < OWNER_WARPS;
        const Slot& slot = slots[s];
        const bool is_real = __ballot_sync(0xffffffff, slot.real);
        float message[4] = {};
        unsigned most = 0;
        if (!CLIPPED && !(SENDS_ROWS && s == 0)) receive(s, sum);
        if (SENDS_ROWS && s == SLOTS_EACH - 1 && warp < OWNER_WARPS - 1) named_arrive(FOUND, WORKERS_AND_SENDERS);
        if (is_real) most = updated_slot(s, now, sum, message);
        if (in_turn && slot.layer > 1) named_barrier(TURN, OWNERS);
        if (is_real) send_slot(s, message, most);
        if (in_turn && slot.layer <= 1) named_arrive(TURN, OWNERS);
    }
    // By a warp of owners: the gradient of a slot's weights of layer I, a tile, over all rows, in three TF32 products (tf32.cuh).
    // Row 2 t + j of a block is the products' column t + 4 j.
    template <int I = L>
    __device__ void gradient_of_slot(const Slot& slot, float (&sum)[4]) const
    {
        if (slot.layer != I) {
            if constexpr (I > 1) gradient_of_slot<I - 1>(slot, sum);
            return;
        }
        constexpr int EACH = tiles_each(I);
        const int tile = I < L ? (slot.item - lane - rank * owned_of(I)) / 32 : 0;
        const int n = rank % blocks_across(I) * EACH + tile;   // eight inputs
        float large[2][4] = {}, small[4][4] = {};
        await_messages<I>();
#pragma unroll
        for (int from = 0; from < CLUSTER; ++from) {
            Parts<4, true> dz;
            Parts<2, true> x;
            if constexpr (I < L) {
                const float4 its = shared.errors[I - 1][from][lane];
                dz.set(0, its.x), dz.set(1, its.z), dz.set(2, its.y), dz.set(3, its.w);
            } else {
                const float2 none = make_float2(0.0f, 0.0f);
                const float2 its = g < OUTPUTS ? *reinterpret_cast<const float2*>(&shared.errors_of_outputs[from][g][2 * t]) : none;
                dz.set(0, its.x), dz.set(1, 0.0f), dz.set(2, its.y), dz.set(3, 0.0f);
            }
            if constexpr (I < FIRST_SENT) {
                const float* const column = &shared.X[of_Y][8 * from + 2 * t][8 * n + g];
                x.set(0, column[0]), x.set(1, column[X_LINE]);
            } else {
                const int at = 32 * (first_received(I) + (EACH > 1 ? tile / 2 : 0)) + lane;
                const float2 its = reinterpret_cast<const float2*>(&shared.activations[step % 2][from][at])[n % 2];
                x.set(0, its.x), x.set(1, its.y);
            }
            mma_m16n8k8_tf32(small[2 * (from % 2)], dz.big, x.small);
            mma_m16n8k8_tf32(small[2 * (from % 2) + 1], dz.small, x.big);
            mma_m16n8k8_tf32(large[from % 2], dz.big, x.big);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            sum[i] = (small[0][i] + small[1][i]) + (small[2][i] + small[3][i]) + (large[0][i] + large[1][i]);
    }
    template <int I>
    __device__ void await_messages() const
    {
        if (I >= FIRST_SENT) mbarrier_wait(barrier_of(2 + step % 2, I), activation_parity(), {"activations", I}, step);
        mbarrier_wait(barrier_of(0, I), error_parity(), {"errors", I}, step);
    }
    __device__ unsigned error_parity() const { return (step + repeated[0] + repeated[1]) & 1; }   // parities of mbarriers
    __device__ unsigned activation_parity() const { return (step / 2 + (step % 2 ? repeated[1] : repeated[0])) & 1; }
    // By a warp of owners, once the messages have been used, or are to be ignored.
    __device__ void expect_messages() const
    {
        if (lane >= AWAITED) return;
        if (SENDS_ROWS && lane < L && (SENDS_X || lane > 0)) {
            mbarrier_wait(barrier_of(2 + step % 2, lane + 1), activation_parity(), {"activations", (unsigned)lane + 1}, step);
            expect(2 + step % 2, lane + 1);
        }
        mbarrier_wait(barrier_of(0, lane + 1), error_parity(), {"gradient", (unsigned)lane + 1}, step);
        expect(0, lane + 1);
    }
    // The sum of its gradients over all blocks.
    __device__ void receive(int s, float (&sum)[4])
    {
        if (!__ballot_sync(0xffffffff, slots[s].real)) return;
        for (int i = 0; i < 4; ++i) sum[i] = 0.0f;
        if constexpr (SENDS_ROWS)
            if (slots[s].layer > 0) return gradient_of_slot(slots[s], sum);
        mbarrier_wait(gradient_barriers[s], error_parity(), {"gradient", (unsigned)slots[s].layer}, step);
#pragma unroll
        for (int from = 0; from < CLUSTER; ++from) {
            const float4 v = shared.gradients[from][32 * (warp + s * OWNER_WARPS - FIRST_SUMMED) + lane];
            sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
    }
    __device__ unsigned updated_slot(int s, const Pace& now, const float (&sum)[4], float (&message)[4])   // the largest weight
    {
        const Slot& slot = slots[s];
        float largest = 0.0f;
        if (slot.real)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                own[s][i] = formula.updated(own[s][i], scaled(sum[i]), own_state[s][i], now);
                largest = fmaxf(largest, fabsf(own[s][i]));
            }
        const float up = slot.layer > 0 ? up_for(shared.largest_W[step % 3][slot.layer]) : 1.0f;
        const Parts16 first(own[s][0] * up, own[s][1] * up), second(own[s][2] * up, own[s][3] * up);
        unsigned words[4] = {first.big, second.big, first.small, second.small};
        transpose_in_fours(words);
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = __shfl_sync(0xffffffff, words[i], slot.source);
#pragma unroll
        for (int i = 0; i < 4; ++i) message[i] = slot.layer > 0 ? __uint_as_float(words[i]) : own[s][i];
        return __reduce_max_sync(0xffffffff, __float_as_uint(largest));
    }
    __device__ void send_slot(int s, const float (&message)[4], unsigned most) const
    {
        const Slot& slot = slots[s];
        if (slot.real)
#pragma unroll
            for (int i = 0; i < CLUSTER; ++i) {
                const int to = (rank + i) % CLUSTER;   // not all to the same block at a time
                send(in_block(to_layer(slot, places[s]), to), message, in_block(barriers[s], to));
            }
        if (slot.layer > 0 && lane < CLUSTER) {
            const float v[1] = {__uint_as_float(most)};
            send(in_block(told[s] + step % 2 * (int)sizeof shared.largest_sent[0], lane), v, in_block(barriers[s], lane));
        }
    }

    __device__ void await_look() const   // with SENDS_ROWS
    {
        mbarrier_wait(shared_address(&shared.looked[step % 2]), step / 2 % 2, {"look"}, step);
    }
    // Whether weights of the step before are beyond their scale; one warp looks.
    __device__ void look_at_weights()
    {
        await_parameters(step - 1);
        __syncwarp();   // other blocks may complete a phase once it is expected
        if (lane < L) expect(1, lane + 1);
        largest_of_slots();
        const bool is_misfit = have_misfits();
        if (lane == 0) shared.misfit[step % 2] = is_misfit;
    }
    // Of a lane's slots, over all blocks.
    __device__ void largest_of_slots()
    {
#pragma unroll
        for (int i = 0; i < up(SLOTS, 32); ++i) {
            const int slot = 32 * i + lane;
            own_largest[i] = 0.0f;
#pragma unroll
            for (int from = 0; from < CLUSTER; ++from)
                if (slot < SLOTS) own_largest[i] = fmaxf(own_largest[i], shared.largest_sent[(step - 1) % 2][from][slot]);
        }
    }
    template <int I = L>
    __device__ bool have_misfits() const
    {
        constexpr int BEGIN = first_slot(I), END = BEGIN + slots_of(I);
        float largest = 0.0f;
#pragma unroll
        for (int i = BEGIN / 32; i < up(END, 32); ++i)
            if (32 * i + lane >= BEGIN && 32 * i + lane < END) largest = fmaxf(largest, own_largest[i]);
        const int most = __reduce_max_sync(0xffffffff, __float_as_uint(largest));
        const bool is_misfit = !fits(most, up_for(shared.largest_W[(step + 2) % 3][I]));
        if (lane == 0) shared.largest_W[step % 3][I] = most;
        if constexpr (I > 1) return have_misfits<I - 1>() || is_misfit;
        else return is_misfit;
    }
};

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS_PER_SM) void train_persistent(
    const float* X, const float* Y, float* W, float* M, float* E, float* workspace,
#if WATCHED
    float* B, double* T, int held, int patience, int room,
#endif
#if CLIPPED
    float max_norm,
#endif
    int rows, int first, int steps, int epoch, float x_scale, float a, float b, float eps, float log_a, float log_b,
    int form, int warmup, int length, float end)
{
    extern __shared__ __align__(16) float dynamic[];
    const int member = blockIdx.x / CLUSTER, batches = up(rows, BATCH);
    const float* const its = workspace + HEAD_FLOATS + MEMBER_FLOATS * member;
    Training training{*reinterpret_cast<Shared*>(dynamic), X, Y, W + (size_t)member * PARAMETERS,
                      M + (size_t)member * MEMORY_FLOATS, E, workspace, rows, batches, x_scale,
                      {a, b, eps, log_a, log_b, epoch * batches + first, form, warmup, length, end},
                      CLUSTER > 1 ? (int)cluster_rank() : 0, member};
    training.rate = its[0], training.decay = its[1], training.seed = __float_as_uint(its[2]);
    training.batch = training.next_batch = first, training.next_epoch = epoch;
    training.up_of_H[0] = x_scale;
#if CLIPPED
    training.max_norm = max_norm;
#endif
#if WATCHED
    training.held_X = X, training.held_Y = Y, training.held = held;
    training.X += (size_t)held * WIDTH[0], training.Y += (size_t)held * WIDTH[L];
    training.best = B + (size_t)member * PARAMETERS;
    training.held_E = B + (size_t)MEMBERS * PARAMETERS + (size_t)member * held * ERRORS;
    training.telemetry = T, training.patience = patience, training.room = room;
#endif
    training.begin();
#if WATCHED
    if (!training.begin_watch(epoch == 0 && first == 0)) steps = 0;
#endif
    if (OWNERS == 0 || training.thread < WORKERS) training.work(steps);
    else if constexpr (OWNERS > 0) training.serve(steps);
    if constexpr (CLUSTER > 1) cluster_barrier();   // a block must not end while others write to its memory
#if WATCHED
    steps = training.step;
    training.end_watch();
#endif
    training.end(steps);
}
