/* Framing: put, scan, walk and find, in memory of the exact size. */
#include "check.h"
#include "crc32c/crc32c.h"
#include "tfrecord/tfrecord.h"

#define MANY 64

typedef struct {
    tfrecord_cursor cursor;
    int64_t offsets[MANY];
    int64_t lengths[MANY];
} scanned;

static scanned scan(const uint8_t *data, size_t size, uint64_t limit, bool verify) {
    scanned found = {{0}, {0}, {0}};
    uint8_t *exact = copy_of(data, size);
    tfrecord_scan(&found.cursor, exact, size, limit, verify, found.offsets, found.lengths, MANY);
    free(exact);
    return found;
}

/* One frame of `size` bytes of noise, in memory of its own. */
static uint8_t *frame_of(size_t size, size_t *framed) {
    uint8_t *record = noise(size, (uint32_t)size + 1);
    const uint8_t *records[] = {record};
    uint8_t *frame = copy_of("", 0);
    *framed = size + TFRECORD_OVERHEAD;
    frame = realloc(frame, *framed);
    if (frame == NULL) abort();
    CHECK(tfrecord_put(frame, records, &size, 1) == frame + *framed);
    CHECK(memcmp(frame + TFRECORD_HEADER, record, size) == 0);
    free(record);
    return frame;
}

static void every_size_there_and_back(void) {
    for (size_t size = 0; size < 600; size++) {
        size_t framed;
        uint8_t *frame = frame_of(size, &framed);
        scanned found = scan(frame, framed, 1 << 20, true);
        CHECK(found.cursor.count == 1 && found.cursor.offset == framed);
        CHECK(found.cursor.fault == TFRECORD_OK && found.cursor.need == 0);
        CHECK(found.offsets[0] == 12 && found.lengths[0] == (int64_t)size);
        free(frame);
    }
}

static void every_flipped_bit(void) {
    for (size_t size = 0; size < 40; size++) {
        size_t framed;
        uint8_t *frame = frame_of(size, &framed);
        for (size_t bit = 0; bit < 8 * framed; bit++) {
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
            scanned found = scan(frame, framed, 1 << 20, true);
            CHECK(found.cursor.count == 0 && found.cursor.offset == 0);
            CHECK(found.cursor.fault == (bit / 8 < 12 ? TFRECORD_LENGTH_CRC : TFRECORD_DATA_CRC));
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(frame);
    }
}

static void every_cut(void) {
    size_t framed;
    uint8_t *frame = frame_of(100, &framed);
    for (size_t size = 0; size < framed; size++) {
        scanned found = scan(frame, size, 1 << 20, true);
        CHECK(found.cursor.count == 0 && found.cursor.fault == TFRECORD_OK);
        CHECK(found.cursor.need == (size == 0 ? 0 : size < 12 ? 12 : 116));
    }
    free(frame);
}

static void header_of(uint64_t length, uint8_t header[TFRECORD_HEADER]) {
    for (int i = 0; i < 8; i++) header[i] = (uint8_t)(length >> 8 * i);
    uint32_t crc = crc32c_mask(crc32c_extend(0, header, 8));
    for (int i = 0; i < 4; i++) header[8 + i] = (uint8_t)(crc >> 8 * i);
}

static void huge_claims(void) {
    const uint64_t claims[] = {1u << 31,        (uint64_t)1 << 60, (uint64_t)1 << 62,
                               INT64_MAX - 15,  (uint64_t)1 << 63, UINT64_MAX - 15,
                               UINT64_MAX - 11, UINT64_MAX};
    uint8_t header[TFRECORD_HEADER];
    int64_t frames[MANY];
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        header_of(claims[i], header);
        scanned found = scan(header, sizeof header, 1 << 20, true);
        CHECK(found.cursor.fault == TFRECORD_TOO_LARGE && found.cursor.need == claims[i]);
        found = scan(header, sizeof header, UINT64_MAX, true);
        bool taken = claims[i] <= TFRECORD_MAX_LIMIT;
        CHECK(found.cursor.fault == (taken ? TFRECORD_OK : TFRECORD_TOO_LARGE));
        CHECK(found.cursor.need == (taken ? claims[i] + TFRECORD_OVERHEAD : claims[i]));
        tfrecord_cursor walked = {0};
        tfrecord_walk(&walked, header, sizeof header, UINT64_MAX, frames, MANY);
        CHECK(walked.offset == (taken ? claims[i] + TFRECORD_OVERHEAD : 0));
    }
}

static void many_at_once(void) {
    const uint8_t *records[MANY];
    size_t sizes[MANY], total = 0, seen = 0;
    for (size_t i = 0; i < MANY; i++) {
        sizes[i] = i * i % 700;
        records[i] = noise(sizes[i], (uint32_t)i);
        total += sizes[i] + TFRECORD_OVERHEAD;
    }
    uint8_t *frames = noise(total, 0);
    CHECK(tfrecord_put(frames, records, sizes, MANY) == frames + total);
    tfrecord_cursor cursor = {0};
    while (cursor.offset < total) { /* three at a time */
        int64_t offsets[3], lengths[3];
        tfrecord_scan(&cursor, frames, total, 1 << 20, true, offsets, lengths, 3);
        CHECK(cursor.count > 0 && cursor.fault == TFRECORD_OK && cursor.need == 0);
        for (size_t i = 0; i < cursor.count; i++, seen++) {
            CHECK(lengths[i] == (int64_t)sizes[seen]);
            CHECK(memcmp(frames + offsets[i], records[seen], sizes[seen]) == 0);
        }
        if (cursor.count == 0) break;
    }
    CHECK(seen == MANY);
    free(frames);
    for (size_t i = 0; i < MANY; i++) free((void *)(uintptr_t)records[i]);
}

static void walk_skips_data(void) {
    size_t framed;
    uint8_t *frame = frame_of(50, &framed);
    int64_t frames[MANY];
    for (size_t size = 0; size <= framed; size++) {
        uint8_t *exact = copy_of(frame, size);
        tfrecord_cursor cursor = {0};
        tfrecord_walk(&cursor, exact, size, 1 << 20, frames, MANY);
        CHECK(cursor.count == (size >= 12) && cursor.offset == (size >= 12 ? framed : 0));
        free(exact);
    }
    free(frame);
}

static void find_past_rubbish(void) {
    size_t framed;
    uint8_t *frame = frame_of(30, &framed);
    for (size_t rubbish = 0; rubbish < 40; rubbish++)
        for (size_t cut = 0; cut < framed; cut++) {
            size_t size = rubbish + framed - cut;
            uint8_t *data = noise(rubbish + framed, 9);
            memcpy(data + rubbish, frame, framed);
            uint8_t *exact = copy_of(data, size);
            bool found;
            uint64_t patience = 0;
            size_t at = tfrecord_find(exact, size, 0, 1 << 20, false, &patience, &found);
            CHECK(found == (cut == 0));
            CHECK(at == (framed - cut >= 12 ? rubbish : size < 12 ? 0 : size - 11));
            free(exact);
            free(data);
        }
    free(frame);
}

void test_tfrecord(void) {
    every_size_there_and_back();
    every_flipped_bit();
    every_cut();
    huge_claims();
    many_at_once();
    walk_skips_data();
    find_past_rubbish();
}
