/* TfioStoreReadStream. */
#include <inttypes.h>
#include <string.h>

#include "memory/bytes.h"
#include "crc32c/crc32c.h"
#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/request.h"
#include "tfrecord/tfrecord.h"

#ifndef STREAM_CHUNK /* fuzzing builds this with a small one */
#define STREAM_CHUNK ((uint64_t)1 << 20)
#endif

/* Whether a file begins with a record: nothing else has a length whose checksum holds. */
static bool looks_raw(const local_file *file) {
    chunk head;
    failure ignored;
    if (!local_read(file, 0, TFRECORD_HEADER, &head, &ignored))
        return false;
    bool raw = head.size == 0;
    if (head.size == TFRECORD_HEADER)
        raw = load32(head.data + 8) == crc32c_mask(crc32c_extend(0, head.data, 8));
    chunk_release(&head);
    return raw;
}

static bool stream_local(const local_file *file, int64_t offset, const read_settings *settings,
                         part *found, int64_t *next, failure *why) {
    uint64_t start = (uint64_t)offset, size = STREAM_CHUNK;
    if (start > file->size)
        return fail(why, TF_DATA_LOSS, "%s: to be read from offset %" PRId64 ", and has %" PRIu64 " bytes",
                    file->url, offset, file->size);
    const uint64_t left = file->size - start;
    search wanted = {.url = file->url,
                     .base = offset,
                     .take = SIZE_MAX,
                     .verify = settings->verify,
                     .limit = settings->limit};
    for (;;) {
        wanted.whole = size >= left;
        if (!local_read(file, start, start + (wanted.whole ? left : size), &found->bytes, why))
            return false;
        bool good = part_search(found, &wanted, why);
        *next = offset + (int64_t)found->end;
        if (!good || found->count > 0 || wanted.whole)
            return good;
        /* One record larger than the chunk. Its length is checked, and a claim beyond the file's end costs
         * no more than the file. */
        if (found->bytes.size < TFRECORD_HEADER)
            return fail(why, TF_DATA_LOSS, "%s: was cut while it was read", file->url);
        const uint64_t length = load64(found->bytes.data);
        size = length < left ? length + TFRECORD_OVERHEAD : left;
        part_release(found);
    }
}

static bool stream_read(call *now, const read_settings *settings, part *found, char *version,
                        int64_t *next) {
    char url[MAX_NAME], codec[MAX_CODEC];
    const int64_t *position = NULL;
    int64_t n = 0;
    local_file file;
    if (!input_text(now, 0, 0, url, sizeof url) || !input_text(now, 1, 0, codec, sizeof codec) ||
        !input_text(now, 2, 0, version, MAX_VERSION) || !input_rows(now, 3, 1, &position, &n))
        return false;
    if (n != 2 || position[0] < 0 || position[0] > INT64_MAX / 2)
        return fail(&now->why, TF_INVALID_ARGUMENT, "position is not (records, offset)");
    bool automatic = strcmp(codec, "auto") == 0;
    if (is_raw_local(url, automatic ? "" : codec, settings)) {
        if (!local_open(&file, url, version, &now->why))
            return false;
        memcpy(version, file.version, sizeof file.version);
        bool raw = !automatic || looks_raw(&file);
        int64_t offset = position[1] < 0 ? 0 : position[1];
        bool good = !raw || stream_local(&file, offset, settings, found, &next[1], &now->why);
        next[0] = position[0] + (int64_t)found->count;
        local_close(&file);
        if (raw)
            return good;
    }
    return lender.read_stream(url, codec, version, position, settings, found, next, &now->why);
}

static void output_stream(call *now, const part *found, const char *version,
                          const int64_t next[2]) {
    record_list *records = records_new(found->count, &now->why);
    if (records == NULL)
        return;
    bool given = records_add(records, found, &now->why) && output_records(now, 0, records) &&
                 output_text(now, 1, version);
    int64_t *position = given ? output_numbers(now, 2, 2) : NULL;
    if (position != NULL)
        memcpy(position, next, 2 * sizeof *next);
    records_delete(records);
}

void read_stream(void *kernel, TF_OpKernelContext *context) {
    call now;
    part found = {0};
    char version[MAX_VERSION] = "";
    int64_t next[2] = {0, -1};
    if (call_begin(&now, context, 4) && !stream_read(&now, kernel, &found, version, next) &&
        found.count > 0)
        now.why.code = TF_OK; /* the next call begins at the damage, and reports it */
    if (now.why.code == TF_OK)
        output_stream(&now, &found, version, next);
    part_release(&found);
    call_end(&now);
}
