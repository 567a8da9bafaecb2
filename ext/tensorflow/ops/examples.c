/* TfioStoreReadExamples and TfioStoreReadPicked: one batch, from the blocks to the tensors that a
 * training step takes. The records of the second are those that TfioStorePickRecords has picked.
 *
 * `wanted` is the number of a group, whose records are the batch; or group, batch and seed: then the
 * group is a window, its records are shuffled by the seed, and the batch is the n-th run of `batch_size`
 * records of it. A negative group is the end: OUT_OF_RANGE.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/ops/decode.h"
#include "tensorflow/ops/held.h"
#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/windows.h"
#include "tfrecord/tfrecord.h"

enum { GROUP, BATCH, SEED, WANTED_COUNT };

typedef struct {
    read_settings *settings;
    int64_t batch_size;
    column_list columns; /* none: records as they are */
    window_cache *shared;
    held_epochs *held;
} examples_kernel;

/* --- the kernel --------------------------------------------------------------------------------- */

void examples_delete(void *kernel) {
    examples_kernel *of = kernel;
    if (of == NULL) return;
    settings_delete(of->settings);
    columns_release(&of->columns);
    windows_delete(of->shared);
    held_delete(of->held);
    free(of);
}

static void examples_fill(examples_kernel *of, TF_OpKernelConstruction *context,
                          TF_Status *status) {
    size_t size = 0;
    failure why = {TF_OK, ""};
    of->shared = windows_new();
    of->held = held_new();
    of->batch_size = (int64_t)size_attribute(context, "batch_size", status);
    char *text = text_attribute(context, "columns", &size, status);
    if (tf.GetCode(status) != TF_OK) return;
    if (of->shared == NULL || of->held == NULL)
        fail(&why, TF_RESOURCE_EXHAUSTED, "out of memory");
    else if (of->batch_size < 1)
        fail(&why, TF_INVALID_ARGUMENT, "batch_size takes 1 or more records");
    else if (of->settings->skip_corrupt) /* then nobody knows which records a batch has */
        fail(&why, TF_INVALID_ARGUMENT, "skip_corrupt is not for batches of known records");
    if (!columns_parse(&of->columns, text, size, &why) || why.code != TF_OK)
        tf.SetStatus(status, why.code, why.message);
}

void *examples_new(TF_OpKernelConstruction *context) {
    lent_forget(); /* a kernel is made when an iterator is */
    read_settings *settings = settings_new(context);
    if (settings == NULL) return NULL; /* which was told */
    TF_Status *status = tf.NewStatus();
    examples_kernel *of = calloc(1, sizeof *of);
    if (of != NULL) {
        of->settings = settings;
        examples_fill(of, context, status);
    } else {
        settings_delete(settings);
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (tf.GetCode(status) != TF_OK) {
        tf.OpKernelConstruction_Failure(context, status);
        examples_delete(of);
        of = NULL;
    }
    tf.DeleteStatus(status);
    return of;
}

/* --- outputs ------------------------------------------------------------------------------------ */

/* Which record of which file does not parse. */
static void fail_record(kernel_call *now, const blocks_request *asked, const record_window *of,
                        const uint8_t *record, const decode_fault *fault) {
    const span_row *span = NULL;
    int64_t offset = 0;
    named_block named;
    char place[MAX_NAME + 64] = "a record";
    if (window_place(of, now, asked, record, &span, &offset) &&
        input_block(now, asked, span, &named))
        snprintf(place, sizeof place, "%s: the record at offset %" PRId64, named.url, offset);
    decode_fail(fault, place, &now->why);
}

static void output_records_of(kernel_call *now, const examples_kernel *of,
                              const blocks_request *asked, const record_window *from, size_t first,
                              size_t count) {
    const ex_bytes *records = records_all(window_records(from)) + first;
    decode_fault fault;
    if (!output_rows(now, &of->columns, records, count, &fault) && fault.status != EX_OK)
        fail_record(now, asked, from, records[fault.record].data, &fault);
}

/* Records [first, last) of those that the window announces. */
static void output_batch(kernel_call *now, const examples_kernel *of, const blocks_request *asked,
                         const record_window *from, int64_t first, int64_t last) {
    const record_list *good = window_records(from);
    int64_t count = good != NULL ? (int64_t)records_count(good) : 0;
    if (last > count || good == NULL)
        now->why = *window_damage(from);
    else
        output_records_of(now, of, asked, from, (size_t)first, (size_t)(last - first));
}

/* --- the op ------------------------------------------------------------------------------------- */

static void read_group(kernel_call *now, const examples_kernel *of, const blocks_request *asked) {
    record_window *whole = window_new(now, asked, wanted_group(asked, GROUP));
    if (whole == NULL) return;
    window_read(whole, now, asked, of->settings, NULL);
    output_batch(now, of, asked, whole, 0, window_expected(whole));
    window_delete(whole);
}

static void read_shuffled(kernel_call *now, const examples_kernel *of,
                          const blocks_request *asked) {
    int64_t group = wanted_group(asked, GROUP), batch = asked->wanted[BATCH], first = 0;
    uint64_t seed = (uint64_t)asked->wanted[SEED];
    shared_window *held = windows_take(of->shared, now, asked, group, seed, of->batch_size);
    if (held == NULL) return;
    record_window *from = windows_window(held);
    int64_t expected = window_expected(from);
    if (batch < 0 || __builtin_mul_overflow(batch, of->batch_size, &first) || first >= expected) {
        fail(&now->why, TF_INVALID_ARGUMENT, "group %" PRId64 " has no batch %" PRId64, group,
             batch);
    } else {
        window_read(from, now, asked, of->settings, &seed);
        int64_t left = expected - first;
        output_batch(now, of, asked, from, first,
                     first + (left < of->batch_size ? left : of->batch_size));
    }
    windows_give(of->shared, held);
}

/* --- TfioStoreWindowRows ------------------------------------------------------------------------ */

enum { WINDOW, WINDOW_SEED, WINDOW_SIZES, WINDOW_INPUT_COUNT };
enum { WINDOWS, PER_WINDOW, IN_LAST, WINDOW_MARK, SIZE_COUNT };

/* [window, batch, seed] for each batch of a window, whose number has a mark. */
void window_rows(void *kernel, TF_OpKernelContext *context) {
    (void)kernel;
    kernel_call now;
    const int64_t *window = NULL, *seed = NULL, *sizes = NULL;
    if (call_begin(&now, context, WINDOW_INPUT_COUNT) && input_numbers(&now, WINDOW, 1, &window) &&
        input_numbers(&now, WINDOW_SEED, 1, &seed) &&
        input_numbers(&now, WINDOW_SIZES, SIZE_COUNT, &sizes) &&
        check_mark(&now, window[0], sizes[WINDOW_MARK])) {
        const int64_t number = marked_group(window[0]);
        const bool whole = 0 <= number && number < sizes[WINDOWS];
        const bool last = whole && number == sizes[WINDOWS] - 1;
        const int64_t batches = sizes[last ? IN_LAST : PER_WINDOW];
        const int64_t dims[2] = {whole ? batches : 1, WANTED_COUNT};
        int64_t *rows = dims[0] < 0 ? NULL : output_tensor(&now, 0, TF_INT64, dims, 2);
        for (int64_t i = 0; rows != NULL && i < dims[0]; i++) {
            rows[WANTED_COUNT * i + GROUP] = window[0];
            rows[WANTED_COUNT * i + BATCH] = i;
            rows[WANTED_COUNT * i + SEED] = seed[0];
        }
        if (rows == NULL && now.why.code == TF_OK)
            fail(&now.why, TF_INVALID_ARGUMENT, "a window has no %" PRId64 " batches", dims[0]);
    }
    call_end(&now);
}

/* ------------------------------------------------------------------------------------------------ */

void read_examples(void *kernel, TF_OpKernelContext *context) {
    const examples_kernel *of = kernel;
    kernel_call now;
    blocks_request asked;
    if (call_begin(&now, context, REQUEST_INPUT_COUNT) && check_outputs(&now, &of->columns) &&
        input_request(&now, &asked) && check_marks(&now, &asked, asked.wanted_rows > 0)) {
        bool whole = asked.wanted_rows == 1;
        if (!whole && asked.wanted_rows != WANTED_COUNT)
            fail(&now.why, TF_INVALID_ARGUMENT, "wanted is not [group, batch, seed]");
        else if (asked.wanted[GROUP] < 0)
            fail(&now.why, TF_OUT_OF_RANGE, "the end");
        else if (whole)
            read_group(&now, of, &asked);
        else
            read_shuffled(&now, of, &asked);
    }
    call_end(&now);
}

/* --- TfioStoreReadPicked ------------------------------------------------------------------------ */

enum { PICKED_BATCH, PICKED_EPOCH, PICKED };

/* Which record does not parse: where it lies is found by reading its block once more. */
static void fail_picked(kernel_call *now, const examples_kernel *of, const blocks_request *asked,
                        int64_t pick, const decode_fault *fault) {
    const int64_t block = pick >> 32;
    const span_row whole = {block, 0, asked->table[block].records};
    span_run run = {0};
    named_block named;
    char place[MAX_NAME + 64];
    if (input_block(now, asked, &whole, &named) &&
        run_read(now, asked, &whole, of->settings, &run) &&
        (size_t)(pick & UINT32_MAX) < run.found.count) {
        const int64_t offset =
            asked->table[block].raw_start + run.found.offsets[pick & UINT32_MAX] - TFRECORD_HEADER;
        snprintf(place, sizeof place, "%s: the record at offset %" PRId64, named.url, offset);
        decode_fail(fault, place, &now->why);
    }
    run_release(&run);
}

/* A last batch may have fewer records than there is room for. */
static size_t picked_count(const blocks_request *asked) {
    size_t count = 0;
    while ((int64_t)count < asked->wanted_rows - PICKED && asked->wanted[PICKED + count] >= 0)
        count++;
    return count;
}

void read_picked(void *kernel, TF_OpKernelContext *context) {
    const examples_kernel *of = kernel;
    kernel_call now;
    blocks_request asked;
    if (call_begin(&now, context, REQUEST_INPUT_COUNT) && check_outputs(&now, &of->columns) &&
        input_request(&now, &asked) && check_marks(&now, &asked, asked.wanted_rows > 0)) {
        held_picks *taken = NULL;
        const size_t count = picked_count(&asked);
        if (asked.wanted_rows > 0 && asked.wanted[PICKED_BATCH] < 0)
            fail(&now.why, TF_OUT_OF_RANGE, "the end");
        else if (asked.wanted_rows <= PICKED)
            fail(&now.why, TF_INVALID_ARGUMENT, "wanted is not [batch, epoch, records]");
        else
            taken = held_take(of->held, &now, &asked, of->settings, asked.wanted[PICKED_EPOCH],
                              asked.wanted + PICKED, count);
        decode_fault fault;
        if (taken != NULL && !output_rows(&now, &of->columns, held_records(taken), count, &fault) &&
            fault.status != EX_OK)
            fail_picked(&now, of, &asked, asked.wanted[PICKED + fault.record], &fault);
        held_give(taken);
    }
    call_end(&now);
}
