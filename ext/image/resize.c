/* Strategy: for each row of the result, the rows that it stands for are added up into one row of
 * 16-bit numbers, which stays in the first cache; then the columns of that row. Both loops multiply
 * and add pairs, which one instruction does for eight numbers. */
#include "image/resize.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_AVX2 /* code for it is compiled, and asked for where the processor has it */
#endif

#define WEIGHT_BITS 14
#define ONE (1 << WEIGHT_BITS)
#define KEPT_BITS 6 /* of what lies behind the point, in a row that was added up */

/* Along one axis: result i is the sum of `taps` values from starts[i] on, by weights[i * taps].
 * `taps` is even, and a value with a weight of 0 may lie behind the end. */
typedef struct {
    size_t taps, first, end; /* what lies in [first, end) is needed */
    size_t *starts;
    int16_t *weights;
} axis;

static size_t whole(double value, size_t most) {
    return value <= 0 ? 0 : value >= (double)most ? most : (size_t)value;
}

/* Weights that sum up to ONE: what rounding leaves over goes to the next. */
static void put_weights(int16_t *weights, const double *shares, size_t count, double all) {
    double sum = 0;
    int32_t before = 0;
    for (size_t k = 0; k < count; k++) {
        sum += shares[k];
        int32_t now = k + 1 == count ? ONE : (int32_t)(sum / all * ONE + 0.5);
        weights[k] = (int16_t)(now - before);
        before = now;
    }
}

static resize_status axis_make(axis *self, size_t size, double from, double to, size_t out) {
    double scale = (to - from) / (double)out;
    double reach = scale < 1 ? 1 : scale;
    double shares[RESIZE_TAPS + 2];
    if (reach * 2 + 2 > RESIZE_TAPS) return RESIZE_TOO_MANY;
    self->taps =
        ((size_t)(reach * 2) + 2) & ~(size_t)1; /* of `whole`, both ends are rounded alike */
    if (out > SIZE_MAX / (self->taps * sizeof(size_t))) return RESIZE_NO_MEMORY;
    self->starts = malloc(out * sizeof *self->starts);
    self->weights = calloc(out * self->taps, sizeof *self->weights);
    if (!self->starts || !self->weights) return RESIZE_NO_MEMORY;
    self->first = size;
    self->end = 0;
    for (size_t i = 0; i < out; i++) {
        double center = from + ((double)i + 0.5) * scale, sum = 0;
        size_t start = whole(center - reach + 0.5, size - 1);
        size_t stop = whole(center + reach + 0.5, size), count = 0;
        if (stop <= start) stop = start + 1;
        if (stop - start > self->taps) stop = start + self->taps;
        for (size_t k = start; k < stop; k++) {
            double apart = ((double)k - center + 0.5) / reach;
            double share = 1 - (apart < 0 ? -apart : apart);
            sum += shares[count++] = share > 0 ? share : 0;
        }
        if (sum <= 0) sum = shares[0] = 1;
        put_weights(self->weights + i * self->taps, shares, count, sum);
        self->starts[i] = start;
        if (start < self->first) self->first = start;
        if (stop > self->end) self->end = stop;
    }
    return RESIZE_OK;
}

static void axis_free(axis *self) {
    free(self->starts);
    free(self->weights);
}

#ifdef HAS_AVX2
/* As add_rows, 32 values at a time. Returns where it ended. */
__attribute__((target("avx2"))) static size_t add_wide_rows(const uint8_t *const *rows,
                                                            const int16_t *weights, size_t taps,
                                                            size_t from, size_t to, int16_t *sums) {
    size_t i = from;
    const __m256i zero = _mm256_setzero_si256();
    const __m256i halves = _mm256_set1_epi32(1 << (WEIGHT_BITS - KEPT_BITS - 1));
    for (; i + 32 <= to; i += 32) {
        __m256i sum[4] = {halves, halves, halves, halves};
        for (size_t k = 0; k < taps; k += 2) {
            int32_t pair;
            memcpy(&pair, weights + k, sizeof pair);
            __m256i by = _mm256_set1_epi32(pair);
            __m256i one = _mm256_loadu_si256((const __m256i *)(const void *)(rows[k] + i));
            __m256i two = _mm256_loadu_si256((const __m256i *)(const void *)(rows[k + 1] + i));
            __m256i low = _mm256_unpacklo_epi8(one, two), high = _mm256_unpackhi_epi8(one, two);
            __m256i pairs[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                                _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
            for (int q = 0; q < 4; q++)
                sum[q] = _mm256_add_epi32(sum[q], _mm256_madd_epi16(pairs[q], by));
        }
        for (int q = 0; q < 4; q++) sum[q] = _mm256_srai_epi32(sum[q], WEIGHT_BITS - KEPT_BITS);
        /* each half of a vector holds every other eight values */
        __m256i first = _mm256_packs_epi32(sum[0], sum[1]);
        __m256i second = _mm256_packs_epi32(sum[2], sum[3]);
        __m256i *place = (__m256i *)(void *)(sums + i);
        _mm256_storeu_si256(place, _mm256_permute2x128_si256(first, second, 0x20));
        _mm256_storeu_si256(place + 1, _mm256_permute2x128_si256(first, second, 0x31));
    }
    return i;
}
#endif

/* Add up two rows at a time: sums[i] of values [from, to) with KEPT_BITS behind the point. */
static void add_rows(const uint8_t *const *rows, const int16_t *weights, size_t taps, size_t from,
                     size_t to, int16_t *sums) {
    size_t i = from;
    const int32_t half = 1 << (WEIGHT_BITS - KEPT_BITS - 1);
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2")) i = add_wide_rows(rows, weights, taps, from, to, sums);
#endif
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128(), halves = _mm_set1_epi32(half);
    for (; i + 16 <= to; i += 16) {
        __m128i sum[4] = {halves, halves, halves, halves};
        for (size_t k = 0; k < taps; k += 2) {
            int32_t pair;
            memcpy(&pair, weights + k, sizeof pair);
            __m128i by = _mm_set1_epi32(pair);
            __m128i one = _mm_loadu_si128((const __m128i *)(const void *)(rows[k] + i));
            __m128i two = _mm_loadu_si128((const __m128i *)(const void *)(rows[k + 1] + i));
            __m128i low = _mm_unpacklo_epi8(one, two), high = _mm_unpackhi_epi8(one, two);
            __m128i pairs[4] = {_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero),
                                _mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero)};
            for (int q = 0; q < 4; q++)
                sum[q] = _mm_add_epi32(sum[q], _mm_madd_epi16(pairs[q], by));
        }
        for (int q = 0; q < 4; q++) sum[q] = _mm_srai_epi32(sum[q], WEIGHT_BITS - KEPT_BITS);
        __m128i *place = (__m128i *)(void *)(sums + i);
        _mm_storeu_si128(place, _mm_packs_epi32(sum[0], sum[1]));
        _mm_storeu_si128(place + 1, _mm_packs_epi32(sum[2], sum[3]));
    }
#endif
    for (; i < to; i++) {
        int32_t sum = half;
        for (size_t k = 0; k < taps; k++) sum += rows[k][i] * weights[k];
        sums[i] = (int16_t)(sum >> (WEIGHT_BITS - KEPT_BITS));
    }
}

#ifdef HAS_AVX2
/* As add_columns, two pixels at a time, of 3 or 4 channels. Returns where it ended, which leaves at
 * least one pixel over: the bytes behind the last one are not to be touched. */
__attribute__((target("avx2"))) static size_t
add_column_pairs(const int16_t *sums, const axis *across, size_t deep, uint8_t *out, size_t count) {
    const __m256i halves = _mm256_set1_epi32(1 << (WEIGHT_BITS + KEPT_BITS - 1));
    /* three of a pixel's channels and the next pixel's, in turns, as madd wants them */
    const __m256i mix = _mm256_broadcastsi128_si256(
        deep == 4 ? _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
                  : _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 6, 7, 12, 13));
    size_t i = 0;
    for (; i + 2 < count; i += 2) {
        const int16_t *values[2] = {sums + across->starts[i] * deep,
                                    sums + across->starts[i + 1] * deep};
        const int16_t *weights = across->weights + i * across->taps;
        __m256i sum = halves;
        for (size_t k = 0; k < across->taps; k += 2) {
            int32_t pairs[2];
            memcpy(pairs, weights + k, sizeof *pairs);
            memcpy(pairs + 1, weights + across->taps + k, sizeof *pairs);
            __m256i two = _mm256_inserti128_si256(
                _mm256_castsi128_si256(
                    _mm_loadu_si128((const __m128i *)(const void *)(values[0] + k * deep))),
                _mm_loadu_si128((const __m128i *)(const void *)(values[1] + k * deep)), 1);
            __m256i by = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi32(pairs[0])),
                                                 _mm_set1_epi32(pairs[1]), 1);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(two, mix), by));
        }
        sum = _mm256_srai_epi32(sum, WEIGHT_BITS + KEPT_BITS);
        sum = _mm256_packs_epi32(sum, sum);
        sum = _mm256_packus_epi16(sum, sum);
        int32_t first = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
        int32_t second = _mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1));
        memcpy(out + i * deep, &first, 4); /* the next pixel covers a fourth byte */
        memcpy(out + (i + 1) * deep, &second, 4);
    }
    return i;
}
#endif

/* The columns of what `add_rows` gave, as bytes. */
static void add_columns(const int16_t *sums, const axis *across, size_t deep, uint8_t *out,
                        size_t count) {
    const int32_t half = 1 << (WEIGHT_BITS + KEPT_BITS - 1);
    size_t i = 0;
#ifdef HAS_AVX2
    if (deep >= 3 && __builtin_cpu_supports("avx2"))
        i = add_column_pairs(sums, across, deep, out, count);
#endif
    for (; i < count; i++) {
        const int16_t *values = sums + across->starts[i] * deep;
        const int16_t *weights = across->weights + i * across->taps;
        int32_t pixel[4] = {half, half, half, half};
#if defined(__SSE2__)
        if (deep >= 3) {
            __m128i sum = _mm_set1_epi32(half);
            for (size_t k = 0; k < across->taps; k += 2) {
                int32_t pair;
                memcpy(&pair, weights + k, sizeof pair);
                __m128i two = _mm_loadu_si128((const __m128i *)(const void *)(values + k * deep));
                __m128i next = deep == 4 ? _mm_srli_si128(two, 8) : _mm_srli_si128(two, 6);
                __m128i mixed = _mm_unpacklo_epi16(two, next);
                sum = _mm_add_epi32(sum, _mm_madd_epi16(mixed, _mm_set1_epi32(pair)));
            }
            sum = _mm_packs_epi32(_mm_srai_epi32(sum, WEIGHT_BITS + KEPT_BITS), sum);
            int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
            if (deep == 4 || i + 1 < count)
                memcpy(out + i * deep, &bytes, 4); /* the next pixel covers a fourth byte */
            else
                memcpy(out + i * deep, &bytes, 3);
            continue;
        }
#endif
        for (size_t k = 0; k < across->taps; k++)
            for (size_t c = 0; c < deep; c++) pixel[c] += values[k * deep + c] * weights[k];
        for (size_t c = 0; c < deep; c++)
            out[i * deep + c] = (uint8_t)(pixel[c] >> (WEIGHT_BITS + KEPT_BITS));
    }
}

resize_status resize_pixels(const uint8_t *pixels, size_t height, size_t width, size_t deep,
                            const resize_box *box, uint8_t *out, size_t out_height,
                            size_t out_width) {
    axis down = {0}, across = {0};
    int16_t *sums = NULL;
    resize_status status = axis_make(&down, height, box->top, box->bottom, out_height);
    if (!status) status = axis_make(&across, width, box->left, box->right, out_width);
    if (!status) {
        sums =
            calloc(width + across.taps + 2, deep * sizeof *sums); /* vectors reach a bit further */
        if (!sums) status = RESIZE_NO_MEMORY;
    }
    for (size_t i = 0; !status && i < out_height; i++) {
        const uint8_t *rows[RESIZE_TAPS + 2];
        for (size_t k = 0; k < down.taps; k++) {
            size_t row = down.starts[i] + k;
            rows[k] = pixels + (row < height ? row : height - 1) * width * deep;
        }
        add_rows(rows, down.weights + i * down.taps, down.taps, across.first * deep,
                 across.end * deep, sums);
        add_columns(sums, &across, deep, out + i * out_width * deep, out_width);
    }
    axis_free(&down);
    axis_free(&across);
    free(sums);
    return status;
}
