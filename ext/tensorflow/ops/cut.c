/* TfioStoreCutPack: where in a pack batches begin.
 *
 * `left` are the records of earlier packs that fill no batch, `sizes` the records of a batch and the
 * fewest of a last one. Each row of `cuts` is a batch for `TfioStoreReadPack`: whether it begins with
 * `left`, the segment and the byte of its frames where it goes on in `pack`, and how many records are
 * taken from there. `left_out` is what comes behind the last of them. An empty pack is the end: what is
 * left is the last batch, and then OUT_OF_RANGE.
 */
#include <string.h>

#include "tensorflow/call.h"
#include "tensorflow/ops/kernels.h"
#include "tensorflow/ops/pack.h"

enum { LEFT, PACK, SIZES };
enum { CUT_COLUMNS = 4 };

typedef struct {
    ex_bytes left, pack;
    uint64_t have, more; /* records in them */
    uint64_t size, least;
} cutting;

static bool fail_pack(kernel_call *now) {
    return fail(&now->why, TF_INVALID_ARGUMENT, "the pack makes no sense");
}

static bool input_cutting(kernel_call *now, cutting *all) {
    const int64_t *sizes = NULL;
    if (!input_bytes(now, LEFT, &all->left) || !input_bytes(now, PACK, &all->pack) ||
        !input_numbers(now, SIZES, 2, &sizes))
        return false;
    if (sizes[0] < 1 || sizes[1] < 1)
        return fail(&now->why, TF_INVALID_ARGUMENT, "sizes are not 1 or more records, twice");
    all->size = (uint64_t)sizes[0];
    all->least = (uint64_t)sizes[1];
    bool right = pack_records(all->left, &all->have) && pack_records(all->pack, &all->more);
    return (right && all->have < all->size) || fail_pack(now);
}

static int64_t *output_cuts(kernel_call *now, uint64_t batches) {
    const int64_t dims[2] = {(int64_t)batches, CUT_COLUMNS};
    return output_tensor(now, 1, TF_INT64, dims, 2);
}

/* Notes every batch, and moves behind the last. */
static bool cut_batches(kernel_call *now, const cutting *all, pack_cursor *cursor) {
    const uint64_t batches = (all->have + all->more) / all->size;
    int64_t *row = output_cuts(now, batches);
    if (row == NULL) return false;
    for (uint64_t i = 0; i < batches; i++, row += CUT_COLUMNS) {
        const uint64_t wanted = all->size - (i == 0 ? all->have : 0);
        const int64_t cut[] = {i == 0 && all->have > 0, (int64_t)cursor->segment,
                               (int64_t)cursor->at, (int64_t)wanted};
        ex_bytes ignored;
        memcpy(row, cut, sizeof cut);
        for (uint64_t k = 0; k < wanted; k++)
            if (!cursor_next(cursor, &ignored)) return fail_pack(now);
    }
    return true;
}

/* What is left: of `left` if there was no batch, and what lies behind the cursor. */
static bool output_left(kernel_call *now, const cutting *all, const pack_cursor *cursor) {
    const bool some = cursor->at < cursor->of.frames.size, none = all->have + all->more < all->size;
    pack_segment rest = cursor->of;
    if (some ? cursor->passed >= rest.records : !cursor_ends_segment(cursor)) return fail_pack(now);
    rest.records -= cursor->passed;
    rest.first += cursor->passed;
    rest.frames.data += cursor->at;
    rest.frames.size -= cursor->at;
    const size_t before = none ? all->left.size : 0, behind = all->pack.size - cursor->next;
    const size_t here = some ? SEGMENT_HEAD + rest.name.size + rest.frames.size : 0;
    const int64_t nbytes = (int64_t)(before + here + behind);
    uint8_t *to = output_tensor(now, 0, TF_UINT8, &nbytes, 1);
    if (to == NULL) return false;
    if (before > 0) memcpy(to, all->left.data, before);
    to += before;
    if (some) to = segment_copy(to, &rest);
    if (behind > 0) memcpy(to, all->pack.data + cursor->next, behind);
    return true;
}

/* What is left is the last batch, if it has enough records. */
static void end(kernel_call *now, const cutting *all) {
    const int64_t nothing = 0;
    const bool enough = all->have >= all->least;
    if (all->left.size == 0) {
        fail(&now->why, TF_OUT_OF_RANGE, "the packs have ended");
        return;
    }
    int64_t *row = output_cuts(now, enough ? 1 : 0);
    if (row != NULL && enough)
        memcpy(row, (const int64_t[]){1, 0, 0, 0}, CUT_COLUMNS * sizeof *row);
    output_tensor(now, 0, TF_UINT8, &nothing, 1);
}

void cut_pack(void *kernel, TF_OpKernelContext *context) {
    kernel_call now;
    cutting all;
    pack_cursor cursor;
    (void)kernel;
    if (call_begin(&now, context, 3) && input_cutting(&now, &all)) {
        if (all.pack.size == 0)
            end(&now, &all);
        else if (!cursor_begin(&cursor, all.pack, 0, 0))
            fail_pack(&now);
        else if (cut_batches(&now, &all, &cursor))
            output_left(&now, &all, &cursor);
    }
    call_end(&now);
}
