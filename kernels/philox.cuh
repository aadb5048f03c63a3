// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) of the counter (a, b, c, 0) and the key (k0, k1): four random
// words.

struct Words {
    unsigned of[4];
};

__device__ Words philox(unsigned a, unsigned b, unsigned c, unsigned k0, unsigned k1)
{
    unsigned d = 0;
    for (int i = 0; i < 10; ++i) {
        const unsigned long long p = 0xD2511F53ull * a, q = 0xCD9E8D57ull * c;
        a = (unsigned)(q >> 32) ^ b ^ k0;
        b = (unsigned)q;
        c = (unsigned)(p >> 32) ^ d ^ k1;
        d = (unsigned)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}
