/* TfioStoreReadStream, TfioStorePackStream and TfioStorePlainCodec. */
#include "tensorflow/ops/stream_file.h"

#include <inttypes.h>
#include <string.h>

#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/pack.h"

/* What one call reads: parts of up to so many files. */
enum { MAX_PARTS = 64 };
typedef struct {
    record_part all[MAX_PARTS];
    int64_t file[MAX_PARTS], first[MAX_PARTS]; /* whose part it is, and its first record's number */
    size_t count, records;
    uint64_t nbytes;
} parts;

enum {
    NAMES,
    NAME_CODECS,
    VERSION,
    POSITION,
    STREAM_INPUT_COUNT,
    LEAST = STREAM_INPUT_COUNT,
    SHOWN
};

static bool input_position(kernel_call *now, int64_t files, const int64_t **position) {
    if (!input_numbers(now, POSITION, 3, position)) return false;
    bool right = 0 <= (*position)[0] && (*position)[0] <= files && 0 <= (*position)[1] &&
                 (*position)[1] <= INT64_MAX / 2;
    return right || fail(&now->why, TF_INVALID_ARGUMENT,
                         "position is not (file of %" PRId64 ", records, offset)", files);
}

static void begin_file(stream *from) {
    from->position[0] = 0;
    from->position[1] = -1;
    from->version[0] = '\0';
    from->ended = from->waits = false;
}

/* Reads on from a file until there is enough, or nothing more to be had at once; on and on for the `least`
 * records, unless they must be waited for. `file` becomes the one where the stream stands. What is found is
 * one part at least, if without records, unless the files have ended. */
static bool read_files(kernel_call *now, const read_settings *settings, stream *from, int64_t *file,
                       int64_t files, uint64_t least, parts *found) {
    while (*file < files && found->count < MAX_PARTS &&
           (found->nbytes < STREAM_CHUNK || found->records < least)) {
        record_part *next = &found->all[found->count];
        *next = (record_part){0};
        found->file[found->count] = *file;
        found->first[found->count] = from->position[0];
        if (!input_text(now, NAMES, *file, from->url, sizeof from->url) ||
            !input_text(now, NAME_CODECS, *file, from->codec, sizeof from->codec))
            return false;
        bool good = stream_next(from, settings, next, &now->why);
        const bool waits = good && from->waits;
        found->count += next->count > 0 || (waits && found->count == 0);
        found->records += next->count;
        found->nbytes += next->bytes.size;
        if (next->count == 0) part_release(next);
        if (!good) return false;
        if (from->ended) {
            begin_file(from);
            ++*file;
        } else if (waits || found->records >= least) {
            return true;
        }
    }
    return true;
}

/* --- what was read ------------------------------------------------------------------------------ */

static bool output_strings_of(kernel_call *now, const parts *found) {
    record_list *records = records_new(found->records, &now->why);
    bool given = records != NULL;
    for (size_t i = 0; given && i < found->count; i++)
        given = records_add(records, &found->all[i], &now->why);
    given = given && output_records(now, 0, records);
    records_delete(records);
    return given;
}

static bool input_name(kernel_call *now, int64_t file, ex_bytes *name) {
    const TF_TString *texts = NULL;
    int64_t n = 0;
    if (!input_strings(now, SHOWN, &texts, &n)) return false;
    if (file >= n)
        return fail(&now->why, TF_INVALID_ARGUMENT, "file %" PRId64 " has no name to show", file);
    *name = (ex_bytes){(const uint8_t *)tf.StringGetDataPointer(&texts[file]),
                       tf.StringGetSize(&texts[file])};
    return true;
}

static bool output_pack(kernel_call *now, const parts *found) {
    ex_bytes names[MAX_PARTS];
    size_t nbytes = 0;
    for (size_t i = 0; i < found->count; i++) {
        if (!input_name(now, found->file[i], &names[i])) return false;
        nbytes += segment_size(&found->all[i], names[i].size);
    }
    const int64_t size = (int64_t)nbytes;
    uint8_t *to = output_tensor(now, 0, TF_UINT8, &size, 1);
    for (size_t i = 0; to != NULL && i < found->count; i++)
        to = segment_put(to, &found->all[i], names[i], (uint64_t)found->first[i]);
    return to != NULL;
}

typedef bool parts_output(kernel_call *now, const parts *found);

static void output_stream(kernel_call *now, const parts *found, const stream *from, int64_t file,
                          const failure *late, parts_output *output) {
    int64_t *position = NULL;
    if (output(now, found) && output_text(now, 1, from->version) && output_error(now, 3, late))
        position = output_numbers(now, 2, 3);
    if (position == NULL) return;
    position[0] = file;
    memcpy(position + 1, from->position, sizeof from->position);
}

/* A file that can't be read on. What was found before goes out first: the next call begins at what failed,
 * and reports it. The error of damage is handed on, with the place of the next file: whoever does not mind
 * the error goes on there, as with TensorFlow's reader. */
static void pass_by(kernel_call *now, const parts *found, stream *from, int64_t *file,
                    failure *late) {
    if (found->count > 0) {
        now->why.code = TF_OK;
    } else if (now->why.code == TF_DATA_LOSS) {
        *late = now->why;
        now->why.code = TF_OK;
        begin_file(from);
        ++*file;
    }
}

/* --- the ops ------------------------------------------------------------------------------------ */

static void read_on(kernel_call *now, const read_settings *settings, uint64_t least, parts *found,
                    parts_output *output) {
    const int64_t *position = NULL;
    const TF_TString *names = NULL;
    int64_t files = 0;
    stream from;
    if (!input_strings(now, NAMES, &names, &files) || !input_position(now, files, &position) ||
        !input_text(now, VERSION, 0, from.version, sizeof from.version))
        return;
    int64_t file = position[0];
    memcpy(from.position, position + 1, sizeof from.position);
    from.ended = from.waits = false;
    bool good = read_files(now, settings, &from, &file, files, least, found);
    failure late;
    late.code = TF_OK;
    if (!good)
        pass_by(now, found, &from, &file, &late);
    else if (found->count == 0 && file == files)
        fail(&now->why, TF_OUT_OF_RANGE, "the files have ended");
    if (now->why.code == TF_OK) output_stream(now, found, &from, file, &late, output);
}

static void release_parts(parts *found) {
    for (size_t i = 0; i < found->count; i++) part_release(&found->all[i]);
}

void read_stream(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    parts found;
    found.count = found.records = 0;
    found.nbytes = 0;
    if (call_begin(&now, context, STREAM_INPUT_COUNT))
        read_on(&now, kernel, 0, &found, output_strings_of);
    release_parts(&found);
    call_end(&now);
}

void pack_stream(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    parts found;
    const int64_t *least = NULL;
    found.count = found.records = 0;
    found.nbytes = 0;
    if (call_begin(&now, context, SHOWN + 1) && input_numbers(&now, LEAST, 1, &least)) {
        if (least[0] >= 0)
            read_on(&now, kernel, (uint64_t)least[0], &found, output_pack);
        else
            fail(&now.why, TF_INVALID_ARGUMENT, "least is not a number of records");
    }
    release_parts(&found);
    call_end(&now);
}

/* Files of one codec, so that one reader of TensorFlow's reads all; or others. */
void plain_codec(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    kernel_call now;
    char url[MAX_NAME], codec[MAX_CODEC], first[MAX_CODEC] = "", plain[MAX_CODEC];
    const TF_TString *names = NULL;
    int64_t files = 0;
    if (call_begin(&now, context, NAME_CODECS + 1) && input_strings(&now, NAMES, &names, &files) &&
        input_text(&now, NAME_CODECS, 0, codec, sizeof codec)) {
        bool same = true;
        for (int64_t i = 0; same && i < files && input_text(&now, NAMES, i, url, sizeof url); i++) {
            same = stream_plain(url, codec, plain) && (i == 0 || strcmp(plain, first) == 0);
            if (i == 0) strcpy(first, same ? plain : "");
        }
        bool *other = NULL;
        if (now.why.code == TF_OK && output_text(&now, 0, same ? first : ""))
            other = output_tensor(&now, 1, TF_BOOL, NULL, 0);
        if (other != NULL) *other = !same;
    }
    call_end(&now);
}
