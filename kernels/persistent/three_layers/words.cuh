// Splitting float32 numbers into halves (halves.cuh), into messages or into shared memory. Whoever computes H_1,
// H_2, dZ_2, W_2 or W_3 splits them, once.

// Publishes four numbers as the words of their halves: two of each.
template <class Of>
__device__ void put_words(const Of& of, int step, int at, const float (&v)[4], const Scale& scale)
{
    unsigned words[4];
    const float scaled[] = {v[0] * scale.over, v[1] * scale.over, v[2] * scale.over, v[3] * scale.over};
    words_of(scaled, words);
    const float bits[] = {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
                          __uint_as_float(words[3])};
    of.put(step, at, bits);
}

// The same for a lane's place in a tile.
template <class Of> __device__ void put_place(const Of& of, int step, int tile, const float (&v)[4])
{
    unsigned words[4];
    words_of(v, words);
    for (int i = 0; i < 4; ++i) {
        const float one[] = {__uint_as_float(words[i])};
        of.put(step, tile + 32 * i + threadIdx.x % 32, one);
    }
}

// Writes four numbers of a lane's place in a tile as halves.
__device__ void write_place(unsigned* tile, const float (&v)[4])
{
    unsigned words[4];
    words_of(v, words);
    for (int i = 0; i < 4; ++i) tile[32 * i + threadIdx.x % 32] = words[i];
}

// Writes four words that a message brought.
__device__ void write_words(unsigned* to, const float (&v)[4])
{
    *reinterpret_cast<uint4*>(to) = make_uint4(
        __float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
}
