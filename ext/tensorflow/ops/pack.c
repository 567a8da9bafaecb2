#include "tensorflow/ops/pack.h"

#include <string.h>

#include "memory/bytes.h"
#include "tfrecord/tfrecord.h"

bool segment_at(ex_bytes pack, size_t *at, pack_segment *found) {
    if (*at > pack.size || pack.size - *at < SEGMENT_HEAD) return false;
    const uint8_t *head = pack.data + *at;
    const size_t room = pack.size - *at - SEGMENT_HEAD;
    const uint64_t nbytes = load64(head), name_size = load64(head + 24);
    found->records = load64(head + 8);
    found->first = load64(head + 16);
    if (name_size > room || nbytes > room - name_size ||
        found->records > nbytes / TFRECORD_OVERHEAD)
        return false;
    found->name = (ex_bytes){head + SEGMENT_HEAD, (size_t)name_size};
    found->frames = (ex_bytes){found->name.data + name_size, (size_t)nbytes};
    *at += SEGMENT_HEAD + (size_t)name_size + (size_t)nbytes;
    return true;
}

bool pack_records(ex_bytes pack, uint64_t *records) {
    pack_segment each;
    *records = 0;
    for (size_t at = 0; at < pack.size;) {
        if (!segment_at(pack, &at, &each)) return false;
        *records += each.records;
    }
    return true;
}

/* --- records ------------------------------------------------------------------------------------ */

static bool open_segment(pack_cursor *cursor, size_t segment, size_t at) {
    cursor->segment = cursor->next = segment;
    cursor->at = at;
    cursor->passed = 0;
    cursor->counts = at == 0;
    return segment_at(cursor->pack, &cursor->next, &cursor->of) && at <= cursor->of.frames.size;
}

bool cursor_begin(pack_cursor *cursor, ex_bytes pack, size_t segment, size_t at) {
    *cursor = (pack_cursor){.pack = pack};
    return open_segment(cursor, segment, at);
}

static bool frame_at(ex_bytes frames, size_t *at, ex_bytes *record) {
    if (frames.size - *at < TFRECORD_OVERHEAD) return false;
    const uint8_t *frame = frames.data + *at;
    const uint64_t length = load64(frame);
    if (length > frames.size - *at - TFRECORD_OVERHEAD) return false;
    *record = (ex_bytes){frame + TFRECORD_HEADER, (size_t)length};
    *at += (size_t)length + TFRECORD_OVERHEAD;
    return true;
}

bool cursor_ends_segment(const pack_cursor *cursor) {
    return cursor->at == cursor->of.frames.size &&
           (!cursor->counts || cursor->passed == cursor->of.records);
}

bool cursor_next(pack_cursor *cursor, ex_bytes *record) {
    while (cursor->at == cursor->of.frames.size)
        if (!cursor_ends_segment(cursor) || !open_segment(cursor, cursor->next, 0)) return false;
    cursor->passed++;
    return frame_at(cursor->of.frames, &cursor->at, record);
}

uint64_t frames_before(ex_bytes frames, size_t at) {
    uint64_t count = 0;
    ex_bytes record;
    for (size_t next = 0; next < at && frame_at(frames, &next, &record);) count++;
    return count;
}

/* --- writing ------------------------------------------------------------------------------------ */

static size_t frames_size(const record_part *part) {
    size_t nbytes = part->count * TFRECORD_OVERHEAD;
    for (size_t i = 0; i < part->count; i++) nbytes += (size_t)part->lengths[i];
    return nbytes;
}

size_t segment_size(const record_part *part, size_t name_size) {
    return SEGMENT_HEAD + name_size + frames_size(part);
}

static uint8_t *put_head(uint8_t *to, size_t nbytes, uint64_t records, uint64_t first,
                         ex_bytes name) {
    store64(to, nbytes);
    store64(to + 8, records);
    store64(to + 16, first);
    store64(to + 24, name.size);
    memcpy(to + SEGMENT_HEAD, name.data, name.size);
    return to + SEGMENT_HEAD + name.size;
}

/* Whether the part's frames lie one behind the other, which those that came past damage may not. */
static bool lie_together(const record_part *part, size_t nbytes) {
    const int64_t first = part->offsets[0] - TFRECORD_HEADER;
    const int64_t end =
        part->offsets[part->count - 1] + part->lengths[part->count - 1] + TFRECORD_FOOTER;
    bool together =
        first >= 0 && end <= (int64_t)part->bytes.size && end - first == (int64_t)nbytes;
    for (size_t i = 1; together && i < part->count; i++)
        together =
            part->offsets[i] == part->offsets[i - 1] + part->lengths[i - 1] + TFRECORD_OVERHEAD;
    return together;
}

uint8_t *segment_put(uint8_t *to, const record_part *part, ex_bytes name, uint64_t first) {
    const size_t nbytes = frames_size(part);
    to = put_head(to, nbytes, part->count, first, name);
    if (part->count > 0 && lie_together(part, nbytes)) {
        memcpy(to, part->bytes.data + part->offsets[0] - TFRECORD_HEADER, nbytes);
        return to + nbytes;
    }
    for (size_t i = 0; i < part->count; i++) {
        const size_t length = (size_t)part->lengths[i];
        memset(to, 0, TFRECORD_HEADER);
        store64(to, length);
        memcpy(to + TFRECORD_HEADER, part->bytes.data + part->offsets[i], length);
        memset(to + TFRECORD_HEADER + length, 0, TFRECORD_FOOTER);
        to += length + TFRECORD_OVERHEAD;
    }
    return to;
}

uint8_t *segment_copy(uint8_t *to, const pack_segment *segment) {
    to = put_head(to, segment->frames.size, segment->records, segment->first, segment->name);
    memcpy(to, segment->frames.data, segment->frames.size);
    return to + segment->frames.size;
}
