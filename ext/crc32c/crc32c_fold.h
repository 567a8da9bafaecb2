/* Folding. Data is a polynomial. A vector of it may be multiplied by x^d modulo the CRC's polynomial,
 * and added d bits further on: the CRC stays the same. Four vectors are folded at a time, over each
 * other, until one is left. The CRC of that one is the CRC of all. After V. Gopal et al., "Fast
 * CRC Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009).
 *
 * A file that includes this defines TARGET; VECTOR, a type of LANES times 128 bits; LOAD(p),
 * BROADCAST(pair), XOR3(a, b, c), LOW(a, k) and HIGH(a, k), products of the lanes' low and high
 * halves with those of k; WITH_CRC(crc, v), which adds a CRC's state to the first bytes; and LANE(v, i).
 */
#include "memory/bytes.h"
#include "crc32c/crc32c.h"
#include "crc32c/crc32c_polynomial.h"
#include "crc32c/crc32c_sse42.h"

#define WIDTH ((size_t)16 * LANES)
#define STRIDE (4 * WIDTH)

/* What the low and high 64 bits of a lane are multiplied by to move it over `bits`. In the reflected
 * representation a product comes out as a * b * x^33 for b in the low half of its 64 bits. */
static uint64_t constants[3][2];          /* over 1, 2 and 4 vectors */
static uint64_t lane_constants[LANES][2]; /* over 1, 2, ... lanes */

static void fill_pair(uint64_t pair[2], uint64_t bits) {
    pair[0] = crc32c_power(bits + 64 - 33);
    pair[1] = crc32c_power(bits - 33);
}

__attribute__((constructor)) static void fill_constants(void) {
    for (int i = 0; i < 3; i++) fill_pair(constants[i], (uint64_t)(8 * WIDTH) << i);
    for (int i = 1; i < LANES; i++) fill_pair(lane_constants[i], 128 * (uint64_t)i);
}

#define FOLD(v, k, onto) XOR3(LOW(v, k), HIGH(v, k), onto)

TARGET static inline __m128i fold_lane(__m128i lane, int over, __m128i onto) {
    __m128i k = _mm_loadu_si128((const __m128i *)lane_constants[over]);
    __m128i low = _mm_clmulepi64_si128(lane, k, 0x00), high = _mm_clmulepi64_si128(lane, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

/* The CRC's state after the bytes that `v` stands for. */
TARGET static inline uint64_t reduce(VECTOR v) {
    __m128i sum = LANE(v, LANES - 1);
    sum = fold_lane(LANE(v, LANES - 2), 1, sum);
#if LANES == 4
    sum = fold_lane(LANE(v, 1), 2, sum);
    sum = fold_lane(LANE(v, 0), 3, sum);
#endif
    uint64_t state = CRC32C_SSE42_STEP(0, (uint64_t)_mm_cvtsi128_si64(sum));
    return CRC32C_SSE42_STEP(state, (uint64_t)_mm_extract_epi64(sum, 1));
}

/* Folding keeps one port of the CPU busy. The CRC instruction uses another. So three lanes behind the
 * folded part take some words each while four vectors are folded. */
#define BESIDE 4 /* words of each lane to four vectors */
#define MOST_STEPS 96
#define FEWEST_STEPS (LANES == 4 ? 20 : 5) /* below, joining costs more than it gains */
#define STEP_BYTES (STRIDE + 24 * BESIDE)

/* shift[k] moves a state over k words; 33 less for the reason above. */
static uint32_t shift[3 * BESIDE * MOST_STEPS + 1];

__attribute__((constructor)) static void fill_shift(void) {
    uint32_t word = crc32c_power(64);
    shift[1] = crc32c_power(64 - 33);
    for (int k = 2; k <= 3 * BESIDE * MOST_STEPS; k++)
        shift[k] = crc32c_multiply(shift[k - 1], word);
}

TARGET static inline uint64_t shifted(uint64_t state, size_t words) {
    __m128i by = _mm_cvtsi32_si128((int)shift[words]);
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)state), by, 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

typedef struct {
    uint64_t x, y, z;
} lanes;

TARGET static inline lanes take_words(lanes l, const uint8_t *data, size_t lane_bytes) {
    for (size_t i = 0; i < BESIDE; i++, data += 8) {
        l.x = CRC32C_SSE42_STEP(l.x, load64(data));
        l.y = CRC32C_SSE42_STEP(l.y, load64(data + lane_bytes));
        l.z = CRC32C_SSE42_STEP(l.z, load64(data + 2 * lane_bytes));
    }
    return l;
}

/* The state after steps * STEP_BYTES bytes: the first steps * STRIDE folded, then the three lanes. */
TARGET static inline uint64_t fold_and_step(uint64_t state, const uint8_t *p, size_t steps) {
    size_t words = steps * BESIDE;
    const uint8_t *lane = p + steps * STRIDE, *end = lane;
    VECTOR over1 = BROADCAST(constants[0]), over2 = BROADCAST(constants[1]);
    VECTOR over4 = BROADCAST(constants[2]);
    VECTOR a = WITH_CRC(state, LOAD(p)), b = LOAD(p + WIDTH);
    VECTOR c = LOAD(p + 2 * WIDTH), d = LOAD(p + 3 * WIDTH);
    lanes l = take_words((lanes){0, 0, 0}, lane, 8 * words);
    for (p += STRIDE; p < end; p += STRIDE) {
        a = FOLD(a, over4, LOAD(p));
        b = FOLD(b, over4, LOAD(p + WIDTH));
        c = FOLD(c, over4, LOAD(p + 2 * WIDTH));
        d = FOLD(d, over4, LOAD(p + 3 * WIDTH));
        lane += 8 * BESIDE;
        l = take_words(l, lane, 8 * words);
    }
    b = FOLD(a, over1, b);
    d = FOLD(c, over1, d);
    uint64_t folded = reduce(FOLD(b, over2, d));
    uint64_t joined = shifted(folded, 3 * words) ^ shifted(l.x, 2 * words) ^ shifted(l.y, words);
    return l.z ^ CRC32C_SSE42_STEP(0, joined);
}

/* Takes as many whole vectors as there are, at least four; moves *data and *size past them. */
TARGET static inline uint64_t fold(uint64_t state, const uint8_t **data, size_t *size) {
    const uint8_t *p = *data, *end = p + *size;
    VECTOR over1 = BROADCAST(constants[0]), over2 = BROADCAST(constants[1]);
    VECTOR over4 = BROADCAST(constants[2]);
    VECTOR a = WITH_CRC(state, LOAD(p)), b = LOAD(p + WIDTH);
    VECTOR c = LOAD(p + 2 * WIDTH), d = LOAD(p + 3 * WIDTH);
    for (p += STRIDE; (size_t)(end - p) >= STRIDE; p += STRIDE) {
        a = FOLD(a, over4, LOAD(p));
        b = FOLD(b, over4, LOAD(p + WIDTH));
        c = FOLD(c, over4, LOAD(p + 2 * WIDTH));
        d = FOLD(d, over4, LOAD(p + 3 * WIDTH));
    }
    b = FOLD(a, over1, b);
    d = FOLD(c, over1, d);
    d = FOLD(b, over2, d);
    for (; (size_t)(end - p) >= WIDTH; p += WIDTH) d = FOLD(d, over1, LOAD(p));
    *data = p;
    *size = (size_t)(end - p);
    return reduce(d);
}

typedef struct {
    uint64_t state;
    size_t size;
} progress;

/* Takes as many whole steps as there are. Not inlined, so that shorter data does not pay for its
 * registers. */
TARGET static __attribute__((noinline)) progress take_steps(uint64_t state, const uint8_t *data,
                                                            size_t size) {
    size_t taken = 0;
    while (size - taken >= FEWEST_STEPS * STEP_BYTES) {
        size_t steps = (size - taken) / STEP_BYTES;
        steps = steps < MOST_STEPS ? steps : MOST_STEPS;
        state = fold_and_step(state, data + taken, steps);
        taken += steps * STEP_BYTES;
    }
    return (progress){state, taken};
}

TARGET static uint32_t extend(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t state = ~crc;
    if (size >= FEWEST_STEPS * STEP_BYTES) {
        progress taken = take_steps(state, data, size);
        state = taken.state;
        data += taken.size;
        size -= taken.size;
    }
    if (size >= STRIDE) state = fold(state, &data, &size);
    for (; size >= 8; size -= 8, data += 8) state = CRC32C_SSE42_STEP(state, load64(data));
    for (; size > 0; size--, data++) state = CRC32C_SSE42_BYTE(state, *data);
    return ~(uint32_t)state;
}
