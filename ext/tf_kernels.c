#define _GNU_SOURCE
#include "tf_kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "tf_string.h"
#include "tfrecord.h"

tf_lender lender;
static bool long_strings; /* whether tf_string_take may be used */

/* --- tensors in and out ------------------------------------------------------------------------ */

enum { MAX_INPUTS = 6, MAX_OUTPUTS = 2, MAX_ATTRIBUTES = 5 };

/* The inputs of one call, and how it goes. */
typedef struct {
    TF_OpKernelContext *context;
    TF_Status *status;
    TF_Tensor *inputs[MAX_INPUTS];
    failure why;
} call;

static bool call_begin(call *now, TF_OpKernelContext *context, int inputs) {
    *now = (call){.context = context, .status = tf.NewStatus()};
    for (int i = 0; i < inputs; i++) {
        tf.GetInput(context, i, &now->inputs[i], now->status);
        if (tf.GetCode(now->status) != TF_OK)
            return fail(&now->why, tf.GetCode(now->status), "%s", tf.Message(now->status));
    }
    return true;
}

static void call_end(call *now) {
    if (now->why.code != TF_OK) {
        tf.SetStatus(now->status, now->why.code, now->why.message);
        tf.OpKernelContext_Failure(now->context, now->status);
    }
    for (int i = 0; i < MAX_INPUTS; i++)
        if (now->inputs[i] != NULL)
            tf.DeleteTensor(now->inputs[i]);
    tf.DeleteStatus(now->status);
}

/* Rows of an int64 matrix [n, columns], or of a vector or scalar where columns is 1. */
static bool input_rows(call *now, int input, int64_t columns, const int64_t **rows, int64_t *n) {
    const TF_Tensor *tensor = now->inputs[input];
    int dims = tf.NumDims(tensor);
    bool right = columns == 1 ? dims <= 1 : dims == 2 && tf.Dim(tensor, 1) == columns;
    if (!right)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d does not have %" PRId64 " columns",
                    input, columns);
    *n = dims == 0 ? 1 : tf.Dim(tensor, 0);
    *rows = tf.TensorData(tensor);
    return true;
}

/* A string of a tensor, with a final NUL, in `text`. */
static bool input_text(call *now, int input, int64_t index, char *text, size_t size) {
    const TF_Tensor *tensor = now->inputs[input];
    int64_t n = tf.NumDims(tensor) == 0 ? 1 : tf.Dim(tensor, 0);
    if (index < 0 || index >= n)
        return fail(&now->why, TF_INVALID_ARGUMENT, "input %d has no element %" PRId64, input,
                    index);
    const TF_TString *string = (const TF_TString *)tf.TensorData(tensor) + index;
    size_t length = tf.StringGetSize(string);
    if (length >= size)
        return fail(&now->why, TF_INVALID_ARGUMENT, "a name of %zu bytes is too long", length);
    memcpy(text, tf.StringGetDataPointer(string), length);
    text[length] = '\0';
    return true;
}

/* An output of n elements, or a scalar for n = -1. */
static void *output(call *now, int index, TF_DataType type, int64_t n) {
    size_t each = type == TF_STRING ? sizeof(TF_TString) : sizeof(int64_t);
    size_t nbytes = each * (size_t)(n < 0 ? 1 : n);
    TF_Tensor *tensor =
        tf.AllocateOutput(now->context, index, type, &n, n < 0 ? 0 : 1, nbytes, now->status);
    if (tf.GetCode(now->status) != TF_OK) {
        fail(&now->why, tf.GetCode(now->status), "%s", tf.Message(now->status));
        return NULL;
    }
    void *data = tf.TensorData(tensor);
    tf.DeleteTensor(tensor); /* our handle; the context keeps the tensor */
    return data;
}

static bool output_records(call *now, const part *parts, int64_t n) {
    size_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += parts[i].count;
    TF_TString *strings = output(now, 0, TF_STRING, (int64_t)total);
    for (int64_t i = 0; i < n && strings != NULL; i++)
        strings = part_fill(&parts[i], strings);
    return now->why.code == TF_OK;
}

/* --- settings: the ops' attributes ------------------------------------------------------------- */

static void settings_delete(void *kernel) {
    read_settings *settings = kernel;
    if (settings != NULL)
        free(settings->options);
    free(settings);
}

static void *settings_new(TF_OpKernelConstruction *context) {
    TF_Status *status = tf.NewStatus();
    read_settings *settings = calloc(1, sizeof *settings);
    int32_t list_size = 0, size = 0;
    int64_t limit = 0;
    unsigned char verify = 1, skip = 0, partial = 0;
    tf.OpKernelConstruction_GetAttrSize(context, "options", &list_size, &size, status);
    if (settings != NULL && tf.GetCode(status) == TF_OK)
        settings->options = calloc(1, (size_t)size + 1);
    if (settings == NULL || settings->options == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrString(context, "options", settings->options, (size_t)size,
                                              status);
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrBool(context, "verify", &verify, status);
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrBool(context, "skip_corrupt", &skip, status);
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrBool(context, "partial", &partial, status);
    if (tf.GetCode(status) == TF_OK)
        tf.OpKernelConstruction_GetAttrInt64(context, "max_record_bytes", &limit, status);
    if (tf.GetCode(status) != TF_OK) {
        tf.OpKernelConstruction_Failure(context, status);
        settings_delete(settings);
        settings = NULL;
    } else {
        settings->verify = verify != 0;
        settings->skip_corrupt = skip != 0;
        settings->partial = partial != 0;
        settings->limit = limit < 0 ? 0 : (uint64_t)limit;
    }
    tf.DeleteStatus(status);
    return settings;
}

/* --- TfioStoreReadBlocks ----------------------------------------------------------------------- */

enum { TABLE_COLUMNS = 6, SPAN_COLUMNS = 3, MAX_NAME = 4096, MAX_CODEC = 16 };

/* A row of the block table. */
typedef struct {
    int64_t file, start, stop, raw_start, raw_stop, records;
} block_row;

/* Records [skip, skip + take) of a block. */
typedef struct {
    int64_t block, skip, take;
} span_row;

static bool is_local(const char *url, const char *codec, const read_settings *settings) {
    return codec[0] == '\0' && !settings->skip_corrupt && local_path(url) != NULL;
}

/* How many bytes of a block to read for the records up to `last` of it: all, unless they are few. */
static int64_t stop_for(const block_request *block, int64_t last) {
    int64_t bytes = block->stop - block->start;
    if (last >= block->records)
        return block->stop;
    double guess = (double)bytes * (double)last / (double)block->records * 1.1 + 4096;
    return guess < (double)bytes / 2 ? block->start + (int64_t)guess : block->stop;
}

static bool read_local(const block_request *block, search *wanted, part *found, failure *why) {
    local_file file;
    if (!local_open(&file, block->url, why))
        return false;
    int64_t stop = stop_for(block, (int64_t)(wanted->skip + wanted->take));
    for (;;) {
        wanted->whole = stop == block->stop;
        bool good = local_read(&file, (uint64_t)block->start, (uint64_t)stop, &found->bytes, why) &&
                    part_search(found, wanted, why);
        if (wanted->whole || !good || found->count == wanted->take) {
            local_close(&file);
            return good;
        }
        part_release(found); /* the records are longer there than on average */
        stop = block->stop;
    }
}

static bool read_lent(const block_request *block, const read_settings *settings, search *wanted,
                      part *found, failure *why) {
    if (!lender.read_block(block, settings, found, why))
        return false;
    if (settings->skip_corrupt)
        return true;
    wanted->whole = true;
    return part_search(found, wanted, why);
}

/* What a call of the block ops asks for: the spans of the groups that are wanted. */
typedef struct {
    const block_row *table;
    const span_row *spans;
    const int64_t *groups; /* group g is spans [groups[g], groups[g + 1]) */
    const int64_t *wanted; /* numbers of groups; negative: nothing */
    int64_t table_rows, span_rows, group_rows, wanted_rows;
} request;

enum { FILES, CODECS, TABLE, SPANS, GROUPS, WANTED, BLOCK_INPUTS };

static bool input_request(call *now, request *asked) {
    const int64_t *table = NULL, *spans = NULL;
    if (!input_rows(now, TABLE, TABLE_COLUMNS, &table, &asked->table_rows) ||
        !input_rows(now, SPANS, SPAN_COLUMNS, &spans, &asked->span_rows) ||
        !input_rows(now, GROUPS, 1, &asked->groups, &asked->group_rows) ||
        !input_rows(now, WANTED, 1, &asked->wanted, &asked->wanted_rows))
        return false;
    asked->table = (const block_row *)(const void *)table;
    asked->spans = (const span_row *)(const void *)spans;
    return true;
}

/* The spans of the i-th wanted group: [*first, *last). */
static bool group_spans(call *now, const request *asked, int64_t i, int64_t *first,
                        int64_t *last) {
    int64_t group = asked->wanted[i];
    *first = *last = 0;
    if (group < 0)
        return true; /* nothing: what `TfioStoreRaise` needs to get behind the last block */
    if (group >= asked->group_rows - 1)
        return fail(&now->why, TF_INVALID_ARGUMENT, "there is no group %" PRId64, group);
    *first = asked->groups[group];
    *last = asked->groups[group + 1];
    bool right = 0 <= *first && *first <= *last && *last <= asked->span_rows;
    return right ||
           fail(&now->why, TF_INVALID_ARGUMENT, "group %" PRId64 " makes no sense", group);
}

/* A table claims what it likes: nothing is allocated for more records than its bytes can hold. */
static bool check_span(call *now, const request *asked, const span_row *span) {
    if (span->block < 0 || span->block >= asked->table_rows)
        return fail(&now->why, TF_INVALID_ARGUMENT, "there is no block %" PRId64, span->block);
    const block_row *row = &asked->table[span->block];
    bool right = 0 <= row->start && row->start <= row->stop && 0 <= row->raw_start &&
                 row->raw_start <= row->raw_stop && 0 <= row->records &&
                 row->records <= (row->raw_stop - row->raw_start) / TFRECORD_OVERHEAD &&
                 0 <= span->skip && 0 <= span->take;
    return right || fail(&now->why, TF_INVALID_ARGUMENT, "block %" PRId64 " makes no sense",
                         span->block);
}

static int64_t wanted_records(const block_row *row, const span_row *span) {
    int64_t left = row->records > span->skip ? row->records - span->skip : 0;
    return span->take < left ? span->take : left;
}

/* A checked span's block, as Python's side wants it. `url` and `codec` are filled in. */
static bool input_block(call *now, const request *asked, const span_row *span, char *url,
                        char *codec, block_request *block) {
    if (!check_span(now, asked, span))
        return false;
    const block_row *row = &asked->table[span->block];
    *block = (block_request){
        .url = url,
        .codec = codec,
        .start = row->start,
        .stop = row->stop,
        .raw_start = row->raw_start,
        .raw_stop = row->raw_stop,
        .records = row->records,
        .take = wanted_records(row, span),
    };
    return input_text(now, FILES, row->file, url, MAX_NAME) &&
           input_text(now, CODECS, row->file, codec, MAX_CODEC);
}

static bool read_span(call *now, const read_settings *settings, const request *asked,
                      const span_row *span, part *found) {
    char url[MAX_NAME], codec[MAX_CODEC];
    block_request block;
    if (!input_block(now, asked, span, url, codec, &block))
        return false;
    search wanted = {.url = url,
                     .base = block.raw_start,
                     .skip = (size_t)span->skip,
                     .take = (size_t)block.take,
                     .verify = settings->verify,
                     .limit = settings->limit};
    bool good = is_local(url, codec, settings)
                    ? read_local(&block, &wanted, found, &now->why)
                    : read_lent(&block, settings, &wanted, found, &now->why);
    if (!good || settings->skip_corrupt || found->count == wanted.take)
        return good;
    return fail(&now->why, TF_DATA_LOSS,
                "%s: the data ends inside a block: %zu of its records are missing (offset %" PRId64
                ")",
                url, wanted.take - found->count, block.raw_start + (int64_t)found->end);
}

/* What is done with each span that a call asks for, in order; false ends it. */
typedef bool span_visitor(call *now, const request *asked, const span_row *span, void *state);

static bool each_span(call *now, const request *asked, span_visitor *visit, void *state) {
    int64_t first = 0, last = 0;
    for (int64_t i = 0; i < asked->wanted_rows; i++) {
        if (!group_spans(now, asked, i, &first, &last))
            return false;
        for (int64_t s = first; s < last; s++)
            if (!visit(now, asked, &asked->spans[s], state))
                return false;
    }
    return true;
}

/* "15:what happened", as TfioStoreRaise reads it. */
static void output_error(call *now, int index, const failure *why) {
    char text[sizeof why->message + 16] = "";
    int size = why->code == TF_OK ? 0 : snprintf(text, sizeof text, "%d:%s", (int)why->code,
                                                 why->message);
    TF_TString *string = output(now, index, TF_STRING, -1);
    if (string != NULL)
        tf.StringCopy(string, text, (size_t)size);
}

/* Good records before damage come first, and the damage after them. */
static void output_parts(call *now, const read_settings *settings, const part *parts, size_t n) {
    bool some = false;
    for (size_t i = 0; i < n; i++)
        some = some || parts[i].count > 0;
    failure late = {TF_OK, ""};
    if (settings->partial && some) {
        late = now->why;
        now->why.code = TF_OK;
    }
    if (now->why.code == TF_OK && output_records(now, parts, (int64_t)n))
        output_error(now, 1, &late);
}

typedef struct {
    const read_settings *settings;
    size_t spans;
    int64_t records;
    part *next;
    TF_TString *strings;
} reading;

static bool count_span(call *now, const request *asked, const span_row *span, void *state) {
    reading *all = state;
    if (!check_span(now, asked, span))
        return false;
    all->spans++;
    all->records += wanted_records(&asked->table[span->block], span);
    return true;
}

static bool keep_span(call *now, const request *asked, const span_row *span, void *state) {
    reading *all = state;
    return read_span(now, all->settings, asked, span, all->next++);
}

/* Whether a span is one long record of a local file, which can be read into its string. */
static bool is_long_record(const request *asked, const span_row *span) {
    const block_row *row = &asked->table[span->block];
    return long_strings && row->records == 1 && wanted_records(row, span) == 1 &&
           (uint64_t)(row->stop - row->start) >= TF_STRING_LONG + TFRECORD_OVERHEAD;
}

static bool read_long_record(const block_request *block, const search *wanted, TF_TString *string,
                             failure *why) {
    uint8_t header[TFRECORD_HEADER], footer[TFRECORD_FOOTER];
    uint64_t start = (uint64_t)block->start, size = (uint64_t)(block->stop - block->start);
    size_t length = (size_t)size - TFRECORD_OVERHEAD;
    local_file file;
    if (!local_open(&file, block->url, why))
        return false;
    bool good = file.size >= start + size ||
                fail(why, TF_DATA_LOSS, "%s: the data ends inside a record (offset %" PRId64 ")",
                     block->url, block->start);
    void *data = good ? tf_string_take(string, length) : NULL;
    if (good && data == NULL)
        good = fail(why, TF_RESOURCE_EXHAUSTED, "out of memory: no room for %zu bytes", length);
    struct iovec places[] = {{header, sizeof header}, {data, length}, {footer, sizeof footer}};
    good = good && local_read_into(&file, start, places, 3, why) &&
           record_check_header(header, size, wanted, why) &&
           record_check_data(data, length, footer, wanted, why);
    local_close(&file);
    return good;
}

static bool fill_span(call *now, const request *asked, const span_row *span, void *state) {
    reading *all = state;
    part found = {0};
    char url[MAX_NAME], codec[MAX_CODEC];
    block_request block;
    if (is_long_record(asked, span)) {
        if (!input_block(now, asked, span, url, codec, &block))
            return false;
        search wanted = {.url = url,
                         .base = block.raw_start,
                         .verify = all->settings->verify,
                         .limit = all->settings->limit};
        if (is_local(url, codec, all->settings))
            return read_long_record(&block, &wanted, all->strings++, &now->why);
    }
    bool good = read_span(now, all->settings, asked, span, &found);
    if (good)
        all->strings = part_fill(&found, all->strings);
    part_release(&found);
    return good;
}

/* All or nothing: the counts are known, so each span's records become strings while its bytes are
 * in the CPU's cache, and one piece of memory serves all spans. */
static void read_exactly(call *now, const request *asked, reading *all) {
    failure none = {TF_OK, ""};
    all->strings = output(now, 0, TF_STRING, all->records);
    if (all->strings != NULL && each_span(now, asked, fill_span, all))
        output_error(now, 1, &none);
}

/* As far as it goes: only having looked at every record tells how many there are. */
static void read_partly(call *now, const request *asked, reading *all) {
    part *parts = calloc(all->spans + 1, sizeof *parts);
    if (parts == NULL) {
        fail(&now->why, TF_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    all->next = parts;
    each_span(now, asked, keep_span, all);
    output_parts(now, all->settings, parts, all->spans);
    for (size_t i = 0; i < all->spans; i++)
        part_release(&parts[i]);
    free(parts);
}

static void read_blocks(void *kernel, TF_OpKernelContext *context) {
    call now;
    request asked;
    reading all = {.settings = kernel};
    if (call_begin(&now, context, BLOCK_INPUTS) && input_request(&now, &asked) &&
        each_span(&now, &asked, count_span, &all)) {
        if (all.settings->partial || all.settings->skip_corrupt)
            read_partly(&now, &asked, &all);
        else
            read_exactly(&now, &asked, &all);
    }
    call_end(&now);
}

/* --- TfioStoreBeginBlocks ---------------------------------------------------------------------- */

static bool begin_span(call *now, const request *asked, const span_row *span, void *state) {
    const read_settings *settings = state;
    char url[MAX_NAME], codec[MAX_CODEC];
    block_request block;
    if (!input_block(now, asked, span, url, codec, &block))
        return false;
    if (!is_local(url, codec, settings))
        lender.begin_block(&block, settings);
    return true;
}

static void begin_blocks(void *kernel, TF_OpKernelContext *context) {
    call now;
    request asked;
    if (call_begin(&now, context, BLOCK_INPUTS) && input_request(&now, &asked) &&
        each_span(&now, &asked, begin_span, kernel)) {
        bool scalar = tf.NumDims(now.inputs[WANTED]) == 0;
        int64_t *same = output(&now, 0, TF_INT64, scalar ? -1 : asked.wanted_rows);
        if (same != NULL)
            memcpy(same, asked.wanted, (size_t)asked.wanted_rows * sizeof *same);
    }
    call_end(&now);
}

/* --- TfioStoreReadStream ----------------------------------------------------------------------- */

enum { STREAM_CHUNK = 1 << 20 };

/* Whether a file begins with a record: nothing else has a length whose checksum holds. */
static bool looks_raw(const local_file *file) {
    chunk head;
    failure ignored;
    if (!local_read(file, 0, TFRECORD_HEADER, &head, &ignored))
        return false;
    uint32_t stored = 0;
    bool raw = head.size == 0;
    if (head.size == TFRECORD_HEADER) {
        const uint8_t *p = head.data + 8;
        stored = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        raw = stored == crc32c_mask(crc32c_extend(0, head.data, 8));
    }
    chunk_release(&head);
    return raw;
}

static bool stream_local(const local_file *file, int64_t offset, const read_settings *settings,
                         part *found, int64_t *next, failure *why) {
    uint64_t start = (uint64_t)offset, size = STREAM_CHUNK;
    search wanted = {.url = file->url,
                     .base = offset,
                     .take = SIZE_MAX,
                     .verify = settings->verify,
                     .limit = settings->limit};
    for (;;) {
        wanted.whole = start + size >= file->size;
        if (!local_read(file, start, start + size, &found->bytes, why))
            return false;
        bool good = part_search(found, &wanted, why);
        *next = offset + (int64_t)found->end;
        if (!good || found->count > 0 || wanted.whole)
            return good;
        /* One record larger than the chunk. Its length is checked, and a claim beyond the file's end costs
         * no more than the file. */
        const uint8_t *p = found->bytes.data;
        uint64_t length = 0;
        for (int i = 7; i >= 0; i--)
            length = length << 8 | p[i];
        size = length + TFRECORD_OVERHEAD;
        part_release(found);
    }
}

static bool stream_read(call *now, const read_settings *settings, part *found, int64_t *next) {
    char url[MAX_NAME], codec[MAX_CODEC];
    const int64_t *position = NULL;
    int64_t n = 0;
    local_file file;
    if (!input_text(now, 0, 0, url, sizeof url) || !input_text(now, 1, 0, codec, sizeof codec) ||
        !input_rows(now, 2, 1, &position, &n))
        return false;
    if (n != 2 || position[0] < 0)
        return fail(&now->why, TF_INVALID_ARGUMENT, "position is not (records, offset)");
    bool automatic = strcmp(codec, "auto") == 0;
    if (is_local(url, automatic ? "" : codec, settings)) {
        if (!local_open(&file, url, &now->why))
            return false;
        bool raw = !automatic || looks_raw(&file);
        int64_t offset = position[1] < 0 ? 0 : position[1];
        bool good = !raw || stream_local(&file, offset, settings, found, &next[1], &now->why);
        next[0] = position[0] + (int64_t)found->count;
        local_close(&file);
        if (raw)
            return good;
    }
    return lender.read_stream(url, codec, position, settings, found, next, &now->why);
}

static void read_stream(void *kernel, TF_OpKernelContext *context) {
    call now;
    part found = {0};
    int64_t next[2] = {0, -1};
    if (call_begin(&now, context, 3) && !stream_read(&now, kernel, &found, next) &&
        found.count > 0)
        now.why.code = TF_OK; /* the next call begins at the damage, and reports it */
    if (now.why.code == TF_OK && output_records(&now, &found, 1)) {
        int64_t *position = output(&now, 1, TF_INT64, 2);
        if (position != NULL)
            memcpy(position, next, sizeof next);
    }
    part_release(&found);
    call_end(&now);
}

/* --- TfioStoreRaise ---------------------------------------------------------------------------- */

static void raise_error(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    call now;
    char text[sizeof now.why.message + 16], *message = NULL;
    if (call_begin(&now, context, 2) && input_text(&now, 0, 0, text, sizeof text) && text[0]) {
        long code = strtol(text, &message, 10);
        bool known = TF_OK < code && code <= TF_UNAUTHENTICATED && *message == ':';
        fail(&now.why, known ? (TF_Code)code : TF_UNKNOWN, "%s", known ? message + 1 : text);
    }
    if (now.why.code == TF_OK && input_text(&now, 1, 0, text, sizeof text)) {
        TF_TString *string = output(&now, 0, TF_STRING, -1);
        if (string != NULL)
            tf.StringCopy(string, text, strlen(text));
    }
    call_end(&now);
}

/* --- registration ------------------------------------------------------------------------------ */

static void infer_unknown(TF_ShapeInferenceContext *context, TF_Status *status) {
    tf.ShapeInferenceContextSetUnknownShape(context, status);
}

static void infer_scalar(TF_ShapeInferenceContext *context, TF_Status *status) {
    TF_ShapeHandle *scalar = tf.ShapeInferenceContextScalar(context);
    tf.ShapeInferenceContextSetOutput(context, 0, scalar, status);
    tf.DeleteShapeHandle(scalar);
}

typedef struct {
    const char *name;
    const char *inputs[MAX_INPUTS];
    const char *outputs[MAX_OUTPUTS];
    const char *attributes[MAX_ATTRIBUTES];
    void (*infer)(TF_ShapeInferenceContext *context, TF_Status *status);
    void *(*create)(TF_OpKernelConstruction *context);
    void (*compute)(void *kernel, TF_OpKernelContext *context);
    void (*destroy)(void *kernel);
} op;

static void *nothing_new(TF_OpKernelConstruction *context) {
    (void)context;
    return NULL;
}

static void nothing_delete(void *kernel) {
    (void)kernel;
}

#define SETTINGS                                                                                 \
    { "options: string = '{}'", "verify: bool = true", "skip_corrupt: bool = false",             \
      "partial: bool = false", "max_record_bytes: int = 1073741824" }

#define BLOCKS                                                                                   \
    { "files: string", "codecs: string", "table: int64", "spans: int64", "groups: int64",        \
      "wanted: int64" }

static const op OPS[] = {
    {
        .name = "TfioStoreReadBlocks",
        .inputs = BLOCKS,
        .outputs = {"records: string", "error: string"},
        .attributes = SETTINGS,
        .infer = infer_unknown,
        .create = settings_new,
        .compute = read_blocks,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreBeginBlocks",
        .inputs = BLOCKS,
        .outputs = {"wanted_out: int64"},
        .attributes = SETTINGS,
        .infer = infer_unknown,
        .create = settings_new,
        .compute = begin_blocks,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreReadStream",
        .inputs = {"file: string", "codec: string", "position: int64"},
        .outputs = {"records: string", "next: int64"},
        .attributes = SETTINGS,
        .infer = infer_unknown,
        .create = settings_new,
        .compute = read_stream,
        .destroy = settings_delete,
    },
    {
        .name = "TfioStoreRaise",
        .inputs = {"error: string", "later: string"},
        .outputs = {"error_out: string"},
        .infer = infer_scalar,
        .create = nothing_new,
        .compute = raise_error,
        .destroy = nothing_delete,
    },
};

static void register_op(const op *each, TF_Status *status) {
    TF_OpDefinitionBuilder *builder = tf.NewOpDefinitionBuilder(each->name);
    for (int i = 0; i < MAX_INPUTS && each->inputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddInput(builder, each->inputs[i]);
    for (int i = 0; i < MAX_OUTPUTS && each->outputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddOutput(builder, each->outputs[i]);
    for (int i = 0; i < MAX_ATTRIBUTES && each->attributes[i] != NULL; i++)
        tf.OpDefinitionBuilderAddAttr(builder, each->attributes[i]);
    tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, each->infer);
    tf.RegisterOpDefinition(builder, status);
    if (tf.GetCode(status) != TF_OK)
        return;
    TF_KernelBuilder *kernel =
        tf.NewKernelBuilder(each->name, "CPU", each->create, each->compute, each->destroy);
    tf.RegisterKernelBuilder(each->name, kernel, status);
}

const char *tf_kernels_register(void) {
    static char message[512];
    long_strings = tf_string_probe();
    TF_Status *status = tf.NewStatus();
    message[0] = '\0';
    for (size_t i = 0; i < sizeof OPS / sizeof OPS[0] && message[0] == '\0'; i++) {
        register_op(&OPS[i], status);
        if (tf.GetCode(status) != TF_OK)
            snprintf(message, sizeof message, "%s: %s", OPS[i].name, tf.Message(status));
    }
    tf.DeleteStatus(status);
    return message[0] ? message : NULL;
}
