/* TfioStoreReadStream. */
#include "tensorflow/ops/stream_file.h"

#include <inttypes.h>
#include <string.h>

#include "tensorflow/ops/kernels.h"

/* What one call reads: parts of up to so many files. */
enum { MAX_PARTS = 64 };
typedef struct {
    record_part all[MAX_PARTS];
    size_t count, records;
    uint64_t nbytes;
} parts;

enum { NAMES, NAME_CODECS, VERSION, POSITION };

static bool input_position(kernel_call *now, int64_t files, const int64_t **position) {
    int64_t n = 0;
    if (!input_rows(now, POSITION, 1, position, &n)) return false;
    bool right = n == 3 && 0 <= (*position)[0] && (*position)[0] <= files && 0 <= (*position)[1] &&
                 (*position)[1] <= INT64_MAX / 2;
    return right || fail(&now->why, TF_INVALID_ARGUMENT,
                         "position is not (file of %" PRId64 ", records, offset)", files);
}

static void begin_file(stream *from) {
    from->position[0] = 0;
    from->position[1] = -1;
    from->version[0] = '\0';
    from->ended = false;
}

/* Reads on from a file until there is enough, or nothing more to be had at once. `file` becomes the one
 * where the stream stands. */
static bool read_files(kernel_call *now, const read_settings *settings, stream *from, int64_t *file,
                       int64_t files, parts *found) {
    while (*file < files && found->count < MAX_PARTS && found->nbytes < STREAM_CHUNK) {
        record_part *next = &found->all[found->count];
        *next = (record_part){0};
        if (!input_text(now, NAMES, *file, from->url, sizeof from->url) ||
            !input_text(now, NAME_CODECS, *file, from->codec, sizeof from->codec))
            return false;
        bool good = stream_next(from, settings, next, &now->why);
        found->count += next->count > 0;
        found->records += next->count;
        found->nbytes += next->bytes.size;
        if (next->count == 0) part_release(next);
        if (!good || !from->ended) return good;
        begin_file(from);
        ++*file;
    }
    return true;
}

static void output_stream(kernel_call *now, const parts *found, const stream *from, int64_t file) {
    record_list *records = records_new(found->records, &now->why);
    bool given = records != NULL;
    for (size_t i = 0; given && i < found->count; i++)
        given = records_add(records, &found->all[i], &now->why);
    given = given && output_records(now, 0, records) && output_text(now, 1, from->version);
    int64_t *position = given ? output_numbers(now, 2, 3) : NULL;
    if (position != NULL) {
        position[0] = file;
        memcpy(position + 1, from->position, sizeof from->position);
    }
    records_delete(records);
}

static void read_on(kernel_call *now, const read_settings *settings, parts *found) {
    const int64_t *position = NULL;
    const int64_t files = input_count(now, NAMES);
    stream from;
    if (!input_position(now, files, &position) ||
        !input_text(now, VERSION, 0, from.version, sizeof from.version))
        return;
    int64_t file = position[0];
    memcpy(from.position, position + 1, sizeof from.position);
    from.ended = false;
    bool good = read_files(now, settings, &from, &file, files, found);
    if (good && found->count == 0 && file == files)
        fail(&now->why, TF_OUT_OF_RANGE, "the files have ended");
    if (!good && found->count > 0)
        now->why.code = TF_OK; /* the next call begins at what failed, and reports it */
    if (now->why.code == TF_OK) output_stream(now, found, &from, file);
}

void read_stream(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    parts found;
    found.count = found.records = 0;
    found.nbytes = 0;
    if (call_begin(&now, context, 4)) read_on(&now, kernel, &found);
    for (size_t i = 0; i < found.count; i++) part_release(&found.all[i]);
    call_end(&now);
}
