/* TfioStoreReadStream, TfioStorePackStream and TfioStorePlainCodec. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crc32c/crc32c.h"
#include "memory/bytes.h"
#include "tensorflow/ops/op_blocks.h"
#include "tensorflow/ops/op_pack.h"
#include "tfrecord/tfrecord.h"

/* --- one file --------------------------------------------------------------------------------- */

#ifndef STREAM_CHUNK /* fuzzing builds this with a small one */
#define STREAM_CHUNK ((uint64_t)1 << 20)
#endif

/* Raw local files are read and checked here. Small local ones that are compressed, or read past damage, are
 * tried as a whole, and where all is well that is it. Python reads everything else, and finds the words
 * for what is wrong. */

/* Stored bytes up to which a file is tried as a whole: a larger one takes Python's reader no longer. */
#define SMALL (STREAM_CHUNK / 4)

/* Whether a file begins with a record: nothing else has a length whose checksum holds. */
static bool looks_raw(const op_file *file) {
    op_chunk head;
    failure ignored;
    if (!op_file_read(file, 0, TFRECORD_HEADER, &head, &ignored)) return false;
    bool raw = head.size == 0;
    if (head.size == TFRECORD_HEADER)
        raw = load32(head.data + 8) == crc32c_mask(crc32c_extend(0, head.data, 8));
    op_chunk_release(&head);
    return raw;
}

/* Moves behind what was found. The end is not looked at by a later call: that nobody has written into the
 * file meanwhile must be seen now. */
static bool move_to(op_stream *from, const op_file *file, const op_part *found, uint64_t offset,
                    failure *why) {
    from->position[0] += (int64_t)found->count;
    from->position[1] = (int64_t)offset;
    from->ended = offset == file->size && op_file_unchanged(file, why);
    return from->ended || offset != file->size;
}

static bool next_raw(op_stream *from, const op_file *file, op_part *found, failure *why) {
    const op_settings *settings = from->settings;
    uint64_t start = from->position[1] < 0 ? 0 : (uint64_t)from->position[1], size = STREAM_CHUNK;
    if (start > file->size)
        return fail(why, TF_DATA_LOSS,
                    "%s: to be read from offset %" PRIu64 ", and has %" PRIu64 " bytes", from->url,
                    start, file->size);
    const uint64_t left = file->size - start;
    op_search wanted = {.url = from->url,
                        .base = (int64_t)start,
                        .take = SIZE_MAX,
                        .verify = settings->verify,
                        .max_record_bytes = settings->max_record_bytes,
                        .sums = {-1, -1}};
    for (;;) {
        wanted.whole = size >= left;
        if (!op_file_read(file, start, start + (wanted.whole ? left : size), &found->bytes, why))
            return false;
        bool good = op_part_search(found, &wanted, why);
        if (!good || found->count > 0 || wanted.whole)
            return move_to(from, file, found, start + found->end, why) && good;
        /* One record larger than the chunk. Its length is checked, and a claim beyond the file's end costs
         * no more than the file. */
        if (found->bytes.size < TFRECORD_HEADER)
            return fail(why, TF_DATA_LOSS, "%s: was cut while it was read", from->url);
        const uint64_t length = load64(found->bytes.data);
        size = length < left ? length + TFRECORD_OVERHEAD : left;
        op_part_release(found);
    }
}

/* All records of a file of which nothing is damaged. Where this fails, nothing has happened. */
static bool read_whole(const op_stream *from, const op_file *file, bool raw, op_part *found) {
    const op_settings *settings = from->settings;
    failure ignored;
    op_chunk stored;
    const op_search wanted = {.url = from->url,
                              .take = SIZE_MAX,
                              .whole = true,
                              .verify = settings->verify || settings->skip_corrupt,
                              .max_record_bytes = settings->max_record_bytes,
                              .sums = {-1, -1}};
    if (!op_file_read(file, 0, file->size, &stored, &ignored)) return false;
    bool good = raw || op_python.inflate(from->codec, &stored, STREAM_CHUNK, &found->bytes);
    if (raw)
        found->bytes = stored;
    else
        op_chunk_release(&stored);
    good = good && op_part_search(found, &wanted, &ignored) && op_file_unchanged(file, &ignored);
    if (!good) op_part_release(found);
    return good;
}

/* Reads the next records, about STREAM_CHUNK of them, and moves behind them. False for a failure: the
 * stream then stands behind part->count good records, where reading meets the failure again. */
static bool stream_next(op_stream *from, op_part *found, failure *why) {
    const bool automatic = strcmp(from->codec, "auto") == 0;
    const bool ours = op_is_raw_local(from->url, automatic ? "" : from->codec, from->settings);
    op_file file;
    failure closed;
    if (op_local_path(from->url) == NULL) return op_python.read_stream(from, found, why);
    if (!op_file_open(&file, from->url, from->version, &closed)) {
        /* Python says what else has a name like one that is not there. */
        if (!ours || closed.code == TF_NOT_FOUND || closed.code == TF_FAILED_PRECONDITION)
            return op_python.read_stream(from, found, why);
        *why = closed;
        return false;
    }
    memcpy(from->version, file.version, sizeof file.version);
    const bool raw = automatic ? looks_raw(&file) : from->codec[0] == '\0';
    const bool whole = from->position[0] == 0 && from->position[1] <= 0 && file.size <= SMALL;
    bool good = true, lent = false;
    if (ours && raw)
        good = next_raw(from, &file, found, why);
    else if (whole && read_whole(from, &file, raw, found))
        from->ended = true;
    else
        lent = true;
    op_file_close(&file);
    return lent ? op_python.read_stream(from, found, why) : good;
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

/* Whether TensorFlow's own reader gives the file's records too: it is local, and begins as a raw or a GZIP
 * file does. `plain` is then what TensorFlow takes as its compression. The codec may be "auto". */
static bool stream_plain(const char *url, const char *codec, char plain[MAX_CODEC]) {
    static const uint8_t GZIP[] = {0x1f, 0x8b, 0x08};
    const bool automatic = strcmp(codec, "auto") == 0;
    op_file file;
    failure ignored;
    /* a name with a scheme means to TensorFlow what its filesystems make of it */
    if (op_local_path(url) != url || !op_file_open(&file, url, "", &ignored)) return false;
    op_chunk head;
    const bool raw = looks_raw(&file);
    bool packed = !raw && op_file_read(&file, 0, sizeof GZIP, &head, &ignored);
    if (packed) {
        packed = head.size == sizeof GZIP && memcmp(head.data, GZIP, sizeof GZIP) == 0;
        op_chunk_release(&head);
    }
    op_file_close(&file);
    strcpy(plain, packed ? "GZIP" : "");
    if (!(raw || packed) || !(automatic || strcmp(codec, plain) == 0)) return false;
    return !has_manifest(url) ||
           op_python.is_whole(url); /* TensorFlow may take a cut for the end */
}

/* --- files one after the other ---------------------------------------------------------------- */

/* TfioStoreReadStream, TfioStorePackStream and TfioStorePlainCodec. */

/* What one call reads: parts of up to so many files. */
enum { MAX_PARTS = 64 };
typedef struct {
    op_part all[MAX_PARTS];
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

static bool input_position(op_call *call, int64_t files, const int64_t **position) {
    if (!op_input_numbers(call, POSITION, 3, position)) return false;
    bool right = 0 <= (*position)[0] && (*position)[0] <= files && 0 <= (*position)[1] &&
                 (*position)[1] <= INT64_MAX / 2;
    return right || fail(&call->why, TF_INVALID_ARGUMENT,
                         "position is not (file of %" PRId64 ", records, offset)", files);
}

static void begin_file(op_stream *from) {
    from->position[0] = 0;
    from->position[1] = -1;
    from->version[0] = '\0';
    from->ended = from->waits = false;
}

/* Reads on from a file until there is enough, or nothing more to be had at once; on and on for the `least`
 * records, unless they must be waited for. `file` becomes the one where the stream stands. What is found is
 * one part at least, if without records, unless the files have ended. */
static bool read_files(op_call *call, op_stream *from, int64_t *file, int64_t files, uint64_t least,
                       parts *found) {
    while (*file < files && found->count < MAX_PARTS &&
           (found->nbytes < STREAM_CHUNK || found->records < least)) {
        op_part *next = &found->all[found->count];
        *next = (op_part){0};
        found->file[found->count] = *file;
        found->first[found->count] = from->position[0];
        if (!op_input_text(call, NAMES, *file, from->url, sizeof from->url) ||
            !op_input_text(call, NAME_CODECS, *file, from->codec, sizeof from->codec))
            return false;
        bool good = stream_next(from, next, &call->why);
        const bool waits = good && from->waits;
        found->count += next->count > 0 || (waits && found->count == 0);
        found->records += next->count;
        found->nbytes += next->bytes.size;
        if (next->count == 0) op_part_release(next);
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

static bool output_strings_of(op_call *call, const parts *found) {
    op_records *records = op_records_new(found->records, &call->why);
    bool given = records != NULL;
    for (size_t i = 0; given && i < found->count; i++)
        given = op_records_add(records, &found->all[i], &call->why);
    given = given && op_output_records(call, 0, records);
    op_records_delete(records);
    return given;
}

static bool input_name(op_call *call, int64_t file, ex_bytes *name) {
    const TF_TString *texts = NULL;
    int64_t n = 0;
    if (!op_input_strings(call, SHOWN, &texts, &n)) return false;
    if (file >= n)
        return fail(&call->why, TF_INVALID_ARGUMENT, "file %" PRId64 " has no name to show", file);
    *name = (ex_bytes){(const uint8_t *)tf.StringGetDataPointer(&texts[file]),
                       tf.StringGetSize(&texts[file])};
    return true;
}

static bool output_pack(op_call *call, const parts *found) {
    ex_bytes names[MAX_PARTS];
    size_t nbytes = 0;
    for (size_t i = 0; i < found->count; i++) {
        if (!input_name(call, found->file[i], &names[i])) return false;
        nbytes += op_segment_size(&found->all[i], names[i].size);
    }
    const int64_t size = (int64_t)nbytes;
    uint8_t *to = op_output_tensor(call, 0, TF_UINT8, &size, 1);
    for (size_t i = 0; to != NULL && i < found->count; i++)
        to = op_segment_put(to, &found->all[i], names[i], (uint64_t)found->first[i]);
    return to != NULL;
}

typedef bool parts_output(op_call *call, const parts *found);

static void output_stream(op_call *call, const parts *found, const op_stream *from, int64_t file,
                          const failure *late, parts_output *output) {
    int64_t *position = NULL;
    if (output(call, found) && op_output_text(call, 1, from->version) &&
        op_output_error(call, 3, late))
        position = op_output_numbers(call, 2, 3);
    if (position == NULL) return;
    position[0] = file;
    memcpy(position + 1, from->position, sizeof from->position);
}

/* A file that can't be read on. What was found before goes out first: the next call begins at what failed,
 * and reports it. The error of damage is handed on, with the place of the next file: whoever does not mind
 * the error goes on there, as with TensorFlow's reader. */
static void pass_by(op_call *call, const parts *found, op_stream *from, int64_t *file,
                    failure *late) {
    if (found->count > 0) {
        call->why.code = TF_OK;
    } else if (call->why.code == TF_DATA_LOSS) {
        *late = call->why;
        call->why.code = TF_OK;
        begin_file(from);
        ++*file;
    }
}

/* --- the ops ------------------------------------------------------------------------------------ */

static void read_on(op_call *call, const op_settings *settings, uint64_t least, parts *found,
                    parts_output *output) {
    const int64_t *position = NULL;
    const TF_TString *names = NULL;
    int64_t files = 0;
    op_stream from;
    if (!op_input_strings(call, NAMES, &names, &files) || !input_position(call, files, &position) ||
        !op_input_text(call, VERSION, 0, from.version, sizeof from.version))
        return;
    int64_t file = position[0];
    memcpy(from.position, position + 1, sizeof from.position);
    from.settings = settings;
    from.ended = from.waits = false;
    bool good = read_files(call, &from, &file, files, least, found);
    failure late;
    late.code = TF_OK;
    if (!good)
        pass_by(call, found, &from, &file, &late);
    else if (found->count == 0 && file == files)
        fail(&call->why, TF_OUT_OF_RANGE, "the files have ended");
    if (call->why.code == TF_OK) output_stream(call, found, &from, file, &late, output);
}

static void release_parts(parts *found) {
    for (size_t i = 0; i < found->count; i++) op_part_release(&found->all[i]);
}

void op_read_stream(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    parts found;
    found.count = found.records = 0;
    found.nbytes = 0;
    if (op_call_begin(&call, context, STREAM_INPUT_COUNT))
        read_on(&call, kernel, 0, &found, output_strings_of);
    release_parts(&found);
    op_call_end(&call);
}

void op_pack_stream(void *kernel, TF_OpKernelContext *context) {
    op_call call;
    parts found;
    const int64_t *least = NULL;
    found.count = found.records = 0;
    found.nbytes = 0;
    if (op_call_begin(&call, context, SHOWN + 1) && op_input_numbers(&call, LEAST, 1, &least)) {
        if (least[0] >= 0)
            read_on(&call, kernel, (uint64_t)least[0], &found, output_pack);
        else
            fail(&call.why, TF_INVALID_ARGUMENT, "least is not a number of records");
    }
    release_parts(&found);
    op_call_end(&call);
}

/* Files of one codec, so that one reader of TensorFlow's reads all; or others. */
void op_plain_codec(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    op_call call;
    char url[MAX_NAME], codec[MAX_CODEC], first[MAX_CODEC] = "", plain[MAX_CODEC];
    const TF_TString *names = NULL;
    int64_t files = 0;
    if (op_call_begin(&call, context, NAME_CODECS + 1) &&
        op_input_strings(&call, NAMES, &names, &files) &&
        op_input_text(&call, NAME_CODECS, 0, codec, sizeof codec)) {
        bool same = true;
        for (int64_t i = 0; same && i < files && op_input_text(&call, NAMES, i, url, sizeof url);
             i++) {
            same = stream_plain(url, codec, plain) && (i == 0 || strcmp(plain, first) == 0);
            if (i == 0) strcpy(first, same ? plain : "");
        }
        bool *other = NULL;
        if (call.why.code == TF_OK && op_output_text(&call, 0, same ? first : ""))
            other = op_output_tensor(&call, 1, TF_BOOL, NULL, 0);
        if (other != NULL) *other = !same;
    }
    op_call_end(&call);
}
