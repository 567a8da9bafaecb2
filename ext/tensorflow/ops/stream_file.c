/* Raw local files are read and checked here. Small local ones that are compressed, or read past damage, are
 * tried as a whole, and where all is well that is it. Python reads everything else, and finds the words
 * for what is wrong. */
#include "tensorflow/ops/stream_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crc32c/crc32c.h"
#include "memory/bytes.h"
#include "tfrecord/tfrecord.h"

/* Stored bytes up to which a file is tried as a whole: a larger one takes Python's reader no longer. */
#define SMALL (STREAM_CHUNK / 4)

/* Whether a file begins with a record: nothing else has a length whose checksum holds. */
static bool looks_raw(const local_file *file) {
    chunk head;
    failure ignored;
    if (!local_read(file, 0, TFRECORD_HEADER, &head, &ignored)) return false;
    bool raw = head.size == 0;
    if (head.size == TFRECORD_HEADER)
        raw = load32(head.data + 8) == crc32c_mask(crc32c_extend(0, head.data, 8));
    chunk_release(&head);
    return raw;
}

/* Moves behind what was found. The end is not looked at by a later call: that nobody has written into the
 * file meanwhile must be seen now. */
static bool move_to(stream *from, const local_file *file, const record_part *found, uint64_t offset,
                    failure *why) {
    from->position[0] += (int64_t)found->count;
    from->position[1] = (int64_t)offset;
    from->ended = offset == file->size && local_unchanged(file, why);
    return from->ended || offset != file->size;
}

static bool next_raw(stream *from, const local_file *file, const read_settings *settings,
                     record_part *found, failure *why) {
    uint64_t start = from->position[1] < 0 ? 0 : (uint64_t)from->position[1], size = STREAM_CHUNK;
    if (start > file->size)
        return fail(why, TF_DATA_LOSS,
                    "%s: to be read from offset %" PRIu64 ", and has %" PRIu64 " bytes", from->url,
                    start, file->size);
    const uint64_t left = file->size - start;
    record_search wanted = {.url = from->url,
                            .base = (int64_t)start,
                            .take = SIZE_MAX,
                            .verify = settings->verify,
                            .limit = settings->limit,
                            .sums = {-1, -1}};
    for (;;) {
        wanted.whole = size >= left;
        if (!local_read(file, start, start + (wanted.whole ? left : size), &found->bytes, why))
            return false;
        bool good = part_search(found, &wanted, why);
        if (!good || found->count > 0 || wanted.whole)
            return move_to(from, file, found, start + found->end, why) && good;
        /* One record larger than the chunk. Its length is checked, and a claim beyond the file's end costs
         * no more than the file. */
        if (found->bytes.size < TFRECORD_HEADER)
            return fail(why, TF_DATA_LOSS, "%s: was cut while it was read", from->url);
        const uint64_t length = load64(found->bytes.data);
        size = length < left ? length + TFRECORD_OVERHEAD : left;
        part_release(found);
    }
}

/* All records of a file of which nothing is damaged. Where this fails, nothing has happened. */
static bool read_whole(const stream *from, const local_file *file, bool raw,
                       const read_settings *settings, record_part *found) {
    failure ignored;
    chunk stored;
    const record_search wanted = {.url = from->url,
                                  .take = SIZE_MAX,
                                  .whole = true,
                                  .verify = settings->verify || settings->skip_corrupt,
                                  .limit = settings->limit,
                                  .sums = {-1, -1}};
    if (!local_read(file, 0, file->size, &stored, &ignored)) return false;
    bool good = raw || lender.inflate(from->codec, &stored, STREAM_CHUNK, &found->bytes);
    if (raw)
        found->bytes = stored;
    else
        chunk_release(&stored);
    good = good && part_search(found, &wanted, &ignored) && local_unchanged(file, &ignored);
    if (!good) part_release(found);
    return good;
}

static bool next_lent(stream *from, const read_settings *settings, record_part *found,
                      failure *why) {
    int64_t next[2] = {0, -1};
    if (!lender.read_stream(from->url, from->codec, from->version, from->position, settings, found,
                            next, &from->waits, why))
        return false;
    from->ended = found->count == 0 && !from->waits;
    memcpy(from->position, next, sizeof next);
    return true;
}

bool stream_next(stream *from, const read_settings *settings, record_part *found, failure *why) {
    const bool automatic = strcmp(from->codec, "auto") == 0;
    const bool ours = is_raw_local(from->url, automatic ? "" : from->codec, settings);
    local_file file;
    failure closed;
    if (local_path(from->url) == NULL) return next_lent(from, settings, found, why);
    if (!local_open(&file, from->url, from->version, &closed)) {
        /* Python says what else has a name like one that is not there. */
        if (!ours || closed.code == TF_NOT_FOUND || closed.code == TF_FAILED_PRECONDITION)
            return next_lent(from, settings, found, why);
        *why = closed;
        return false;
    }
    memcpy(from->version, file.version, sizeof file.version);
    const bool raw = automatic ? looks_raw(&file) : from->codec[0] == '\0';
    const bool whole = from->position[0] == 0 && from->position[1] <= 0 && file.size <= SMALL;
    bool good = true, lent = false;
    if (ours && raw)
        good = next_raw(from, &file, settings, found, why);
    else if (whole && read_whole(from, &file, raw, settings, found))
        from->ended = true;
    else
        lent = true;
    local_close(&file);
    return lent ? next_lent(from, settings, found, why) : good;
}

/* --- what TensorFlow's own reader reads as well ------------------------------------------------- */

/* How much of "name-00001-of-00016.tfrecord" or "name-00001.tfrecord" is the dataset's name; 0 if it is no
 * such name. */
static size_t dataset_part(const char *name) {
    static const char SUFFIX[] = ".tfrecord", OF[] = "-of-";
    enum { DIGITS = 5, SUFFIX_SIZE = sizeof SUFFIX - 1, OF_SIZE = sizeof OF - 1 };
    const size_t size = strlen(name);
    if (size < SUFFIX_SIZE || strcmp(name + size - SUFFIX_SIZE, SUFFIX) != 0) return 0;
    size_t number = size - SUFFIX_SIZE, at = number;
    while (at > 0 && isdigit((unsigned char)name[at - 1])) at--;
    if (number - at < DIGITS) return 0;
    if (at >= OF_SIZE && memcmp(name + at - OF_SIZE, OF, OF_SIZE) == 0) {
        size_t first = number = at - OF_SIZE;
        while (first > 0 && isdigit((unsigned char)name[first - 1])) first--;
        if (number - first >= DIGITS) at = first;
    }
    return at > 1 && name[at - 1] == '-' ? at - 1 : 0;
}

/* Whether the manifest of the dataset of which this shard may be lies beside it. */
static bool has_manifest(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    const int folder = (int)(name - path), part = (int)dataset_part(name);
    char beside[MAX_NAME + sizeof "_.manifest.json"];
    if (part == 0) return false;
    snprintf(beside, sizeof beside, "%.*s_%.*s.manifest.json", folder, path, part, name);
    return access(beside, F_OK) == 0;
}

bool stream_plain(const char *url, const char *codec, char plain[MAX_CODEC]) {
    static const uint8_t GZIP[] = {0x1f, 0x8b, 0x08};
    const bool automatic = strcmp(codec, "auto") == 0;
    local_file file;
    failure ignored;
    /* a name with a scheme means to TensorFlow what its filesystems make of it */
    if (local_path(url) != url || !local_open(&file, url, "", &ignored)) return false;
    chunk head;
    const bool raw = looks_raw(&file);
    bool packed = !raw && local_read(&file, 0, sizeof GZIP, &head, &ignored);
    if (packed) {
        packed = head.size == sizeof GZIP && memcmp(head.data, GZIP, sizeof GZIP) == 0;
        chunk_release(&head);
    }
    local_close(&file);
    strcpy(plain, packed ? "GZIP" : "");
    if (!(raw || packed) || !(automatic || strcmp(codec, plain) == 0)) return false;
    return !has_manifest(url) || lender.is_whole(url); /* TensorFlow may take a cut for the end */
}
