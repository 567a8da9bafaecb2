/* The active kernel against RFC 3720's vectors and a bit-by-bit CRC32C. */
#include "check.h"
#include "crc32c/crc32c.h"

static uint32_t bit_by_bit(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void vectors(void) {
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (uint8_t i = 0; i < 32; i++) {
        up[i] = i;
        down[i] = (uint8_t)(31 - i);
    }
    CHECK(crc32c_extend(0, zeros, 32) == 0x8a9136aau);
    CHECK(crc32c_extend(0, ones, 32) == 0x62a8ab43u);
    CHECK(crc32c_extend(0, up, 32) == 0x46dd794eu);
    CHECK(crc32c_extend(0, down, 32) == 0x113fdb5cu);
    CHECK(crc32c_extend(0, (const uint8_t *)"123456789", 9) == 0xe3069283u);
    CHECK(crc32c_extend(0, NULL, 0) == 0);
}

static void every_size_in_exact_memory(void) {
    for (size_t size = 0; size < 900; size++) {
        uint8_t *data = noise(size, (uint32_t)size);
        CHECK(crc32c_extend(7, data, size) == bit_by_bit(7, data, size));
        free(data);
    }
}

static void every_alignment(void) {
    uint8_t *data = noise(5000, 1);
    for (size_t start = 0; start < 70; start++)
        CHECK(crc32c_extend(0, data + start, 4900) == bit_by_bit(0, data + start, 4900));
    free(data);
}

static void split_anywhere(void) {
    uint8_t *data = noise(2000, 2);
    uint32_t whole = bit_by_bit(0, data, 2000);
    for (size_t cut = 0; cut <= 2000; cut++) {
        uint32_t first = crc32c_extend(0, data, cut);
        CHECK(crc32c_extend(first, data + cut, 2000 - cut) == whole);
        uint32_t second = crc32c_extend(0, data + cut, 2000 - cut);
        CHECK(crc32c_combine(first, second, 2000 - cut) == whole);
    }
    free(data);
}

static void large(void) {
    size_t size = ((size_t)1 << 20) + 77;
    uint8_t *data = noise(size, 3);
    CHECK(crc32c_extend(0, data, size) == bit_by_bit(0, data, size));
    free(data);
}

static void masks(void) {
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t crc = i * 0x9e3779b9u;
        CHECK(crc32c_unmask(crc32c_mask(crc)) == crc);
        CHECK(crc32c_mask(crc) != crc);
    }
}

void test_crc32c(void) {
    vectors();
    every_size_in_exact_memory();
    every_alignment();
    split_anywhere();
    large();
    masks();
}
