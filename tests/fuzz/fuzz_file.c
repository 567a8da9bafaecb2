/* Any bytes as a local file into what reads files itself: the walk over headers that indexes, and the
 * op that streams records.
 *
 * The first byte chooses the limit, the second how reading goes (whole, short, interrupted, failing,
 * header by header out of the page cache), the third where to begin; the rest is the file. The system
 * calls are stand-ins, so a case takes microseconds, and the build makes windows and chunks so small
 * that short files cross many of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "crc32c/crc32c.h"
#include "oracle.h"
#include "tensorflow/ops/op_blocks.h"
#include "tensorflow/ops/op_decode.h"
#include "tensorflow/ops/op_pack.h"
#include "tfrecord/tfrecord_file.h"

enum { OPTIONS = 3, DESCRIPTOR = 1 << 20 };
enum {
    INTERRUPTED = 1,
    SHORT = 2,
    FAILING = 4,
    CACHED = 8,
    IN_MEMORY = 16,
    UNVERIFIED = 32,
    AUTOMATIC = 64, /* the codec is to be found out */
    CUT = 128,      /* after its size was asked */
};

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *input, size_t size, size_t max_size);

/* ---- the file ------------------------------------------------------------------------------- */

static struct {
    const uint8_t *data;
    size_t size, claimed;
    unsigned manner, random;
    bool failed;
} file;

static unsigned draw(unsigned below) {
    file.random = file.random * 1664525u + 1013904223u;
    return (file.random >> 16) % below;
}

static ssize_t read_at(void *to, size_t size, off_t offset) {
    size_t at = (size_t)offset < file.size ? (size_t)offset : file.size;
    size_t got = file.size - at < size ? file.size - at : size;
    if ((file.manner & SHORT) && got > 1) got = 1 + draw((unsigned)got);
    memcpy(to, file.data + at, got);
    return (ssize_t)got;
}

ssize_t __real_pread(int descriptor, void *to, size_t size, off_t offset);
ssize_t __wrap_pread(int descriptor, void *to, size_t size, off_t offset);
ssize_t __wrap_preadv2(int descriptor, const struct iovec *to, int count, off_t offset, int flags);
int __wrap_fstatfs(int descriptor, struct statfs *status);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_fstat(int descriptor, struct stat *status);
int __wrap_fstat(int descriptor, struct stat *status);
int __real_close(int descriptor);
int __wrap_close(int descriptor);

ssize_t __wrap_pread(int descriptor, void *to, size_t size, off_t offset) {
    if (descriptor != DESCRIPTOR) return __real_pread(descriptor, to, size, offset);
    HOLD(offset >= 0);
    if ((file.manner & INTERRUPTED) && draw(3) == 0) {
        errno = EINTR;
        return -1;
    }
    if ((file.manner & FAILING) && draw(16) == 0) {
        file.failed = true;
        errno = EIO;
        return -1;
    }
    return read_at(to, size, offset);
}

ssize_t __wrap_preadv2(int descriptor, const struct iovec *to, int count, off_t offset, int flags) {
    HOLD(descriptor == DESCRIPTOR && count == 1);
    HOLD(flags == (file.manner & IN_MEMORY ? 0 : RWF_NOWAIT));
    if (!(file.manner & CACHED) || draw(4) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return read_at(to->iov_base, to->iov_len, offset);
}

int __wrap_fstatfs(int descriptor, struct statfs *status) {
    HOLD(descriptor == DESCRIPTOR);
    status->f_type = file.manner & IN_MEMORY ? TMPFS_MAGIC : EXT4_SUPER_MAGIC;
    return 0;
}

int __wrap_open(const char *path, int flags, ...) {
    return strcmp(path, "/fuzzed") == 0 ? DESCRIPTOR : __real_open(path, flags, 0600);
}

int __wrap_fstat(int descriptor, struct stat *status) {
    if (descriptor != DESCRIPTOR) return __real_fstat(descriptor, status);
    *status = (struct stat){.st_mode = S_IFREG, .st_size = (off_t)file.claimed};
    unsigned what = file.manner & FAILING ? draw(32) : 2;
    if (what > 1) return 0;
    file.failed = true;
    status->st_ino = 1; /* another file */
    errno = EIO;
    return (int)what - 1;
}

int __wrap_close(int descriptor) { return descriptor == DESCRIPTOR ? 0 : __real_close(descriptor); }

/* ---- TensorFlow and Python ------------------------------------------------------------------ */

op_python_functions op_python;
struct tf_abi tf;

static struct {
    const char *codec;
    int64_t least; /* records of a pack */
    ex_bytes pack; /* NULL: strings were asked for */
    char version[MAX_VERSION];
    int64_t position[3], next[3];
    failure why;
    TF_Code late;     /* of an error that is handed on */
    int64_t from;     /* the first record's number */
    size_t count;     /* records that came, of all calls */
    bool lent;        /* Python was asked instead */
    const truth *all; /* what must come */
} op;

static bool lend_stream(op_stream *from, op_part *found, failure *why) {
    HOLD(from->version[0] != '\0' && found != NULL &&
         why != NULL); /* of the file that was looked at */
    from->ended = op.lent = true;
    return true;
}

/* As it is: no records begin where no header holds. */
static bool inflate(const char *codec, const op_chunk *stored, size_t limit, op_chunk *raw) {
    failure ignored;
    HOLD(strcmp(codec, "auto") == 0 && stored->size <= limit);
    if (draw(2) == 0 || !op_chunk_take(raw, stored->size, &ignored)) return false;
    memcpy(raw->memory, stored->data, stored->size);
    return true;
}

bool op_call_begin(op_call *call, TF_OpKernelContext *context, int inputs) {
    (void)context;
    for (int i = 0; i < inputs; i++) call->inputs[i] = NULL;
    memset(&call->why.code, 0, sizeof call->why.code);
    return true;
}

void op_call_end(op_call *call) { op.why = (failure){.code = call->why.code}; }

bool op_input_text(op_call *call, int input, int64_t index, char *text, size_t size) {
    const char *value = input == 0 ? "/fuzzed" : input == 1 ? op.codec : op.version;
    HOLD(index == 0 && strlen(value) < size);
    memcpy(text, value, strlen(value) + 1);
    (void)call;
    return true;
}

bool op_input_numbers(op_call *call, int input, int64_t count, const int64_t **numbers) {
    HOLD((input == 3 && count == 3) || (input == 4 && count == 1));
    *numbers = input == 3 ? op.position : &op.least;
    (void)call;
    return true;
}

bool op_input_strings(op_call *call, int input, const TF_TString **strings, int64_t *n) {
    static TF_TString name;
    HOLD(input == 0 || input == 5);
    *strings = &name;
    *n = 1;
    (void)call;
    return true;
}

/* The next record that comes. */
static void meet(const uint8_t *data, size_t size) {
    HOLD(op.count < op.all->count && size == (size_t)op.all->lengths[op.count]);
    HOLD(!memcmp(data, file.data + op.all->offsets[op.count], size));
    op.count++;
}

void *op_output_tensor(op_call *call, int index, TF_DataType type, const int64_t *dims, int rank) {
    static uint8_t nothing;
    HOLD(index == 0 && type == TF_UINT8 && rank == 1 && dims[0] >= 0 && op.pack.data == NULL);
    if (dims[0] == 0) return &nothing; /* beside an error that is handed on */
    op.pack = (ex_bytes){malloc((size_t)dims[0]), (size_t)dims[0]};
    (void)call;
    return (void *)op.pack.data;
}

static const char *string_data(const TF_TString *text) { return text != NULL ? "shown" : NULL; }
static size_t string_size(const TF_TString *text) { return text != NULL ? 5 : 0; }

/* What the call packed, at once or in parts of a file. */
static void open_pack(void) {
    size_t before = op.count;
    op_cursor cursor;
    op_segment each;
    ex_bytes record;
    uint64_t claimed = 0;
    if (op.pack.data == NULL) return;
    HOLD(op_pack_records(op.pack, &claimed) && op_cursor_begin(&cursor, op.pack, 0, 0));
    while (op_cursor_next(&cursor, &record)) meet(record.data, record.size);
    HOLD(cursor.next == op.pack.size && claimed == op.count - before);
    for (size_t at = 0; op_segment_at(op.pack, &at, &each); before += each.records) {
        HOLD(each.first == (uint64_t)op.from + before);
        HOLD(each.name.size == 5 && !memcmp(each.name.data, "shown", 5));
    }
    free((void *)op.pack.data);
    op.pack.data = NULL;
}

bool op_output_records(op_call *call, int index, const op_records *records) {
    for (size_t i = 0; i < op_records_count(records); i++)
        meet(op_records_all(records)[i].data, op_records_all(records)[i].size);
    return call != NULL && index == 0;
}

bool op_output_text(op_call *call, int index, const char *text) {
    HOLD(index == 1 && strlen(text) < sizeof op.version);
    memcpy(op.version, text, strlen(text) + 1);
    (void)call;
    return true;
}

bool op_output_error(op_call *call, int index, const failure *why) {
    HOLD(index == 3);
    op.late = why->code;
    (void)call;
    return true;
}

int64_t *op_output_numbers(op_call *call, int index, int64_t n) {
    HOLD(index == 2 && n == 3);
    (void)call;
    return op.next;
}

/* ---- what only the reader of packs calls, which is not run here ------------------------------- */

bool op_input_bytes(op_call *call, int input, ex_bytes *bytes) { return !call && input && bytes; }
bool op_check_outputs(op_call *call, const op_columns *wanted) { return !call && wanted; }
bool op_output_rows(op_call *call, const op_columns *wanted, const ex_bytes *records, size_t count,
                    op_fault *fault) {
    return !call && wanted && records && count && fault;
}
bool op_fault_fail(const op_fault *fault, const char *place, failure *why) {
    return !fault && place && why;
}
void op_columns_attribute(op_columns *of, TF_OpKernelConstruction *context, TF_Status *status) {
    HOLD(!of && context && status);
}
void *op_kernel_made(TF_OpKernelConstruction *context, TF_Status *status, void *kernel,
                     void (*destroy)(void *kernel)) {
    HOLD(!context && status && kernel && destroy);
    return NULL;
}
void op_columns_release(op_columns *of) { HOLD(of == NULL); }

/* ---- what is held --------------------------------------------------------------------------- */

/* A call that does not fail brings records, and stands behind them. */
static void check_position(size_t before, const int64_t *offsets, const int64_t *lengths) {
    HOLD(op.count > before);
    if (op.next[0] == 1) {
        HOLD(op.next[1] == 0 && op.next[2] == -1 && op.version[0] == '\0');
        return;
    }
    HOLD(op.next[0] == 0 && op.version[0] != '\0');
    HOLD(op.next[1] - op.position[1] == (int64_t)(op.count - before));
    HOLD(op.next[2] == offsets[op.count - 1] + lengths[op.count - 1] + TFRECORD_FOOTER);
}

/* Calls until nothing comes: all records from `start` on, then the damage or the end. */
static void check_stream(uint64_t limit, size_t start, bool packed) {
    static truth all;
    /* What was cut off before `start` is nobody's. */
    bool automatic = file.manner & AUTOMATIC,
         cut = file.claimed > file.size && start < file.claimed;
    op_settings settings = {.options = "{}",
                            .verify = !(file.manner & UNVERIFIED),
                            .max_record_bytes = limit};
    bool raw = file.claimed == 0 || (file.size >= TFRECORD_HEADER && header_holds(file.data));
    read_truth(&all, file.data, file.size, start, limit, settings.verify);
    op.codec = automatic ? "auto" : "";
    op.count = 0, op.all = &all, op.lent = false, file.failed = false;
    op.version[0] = '\0';
    op.from = start > 0 ? 7 : 0;
    op.position[0] = 0, op.position[1] = op.from, op.position[2] = (int64_t)start;
    for (;;) {
        size_t before = op.count;
        op.least = draw(8);
        (packed ? op_pack_stream : op_read_stream)(&settings, NULL);
        open_pack();
        if (op.lent || op.why.code != TF_OK) break;
        if (op.late != TF_OK) { /* the damage is told, and the next file is what comes */
            HOLD(op.late == TF_DATA_LOSS && op.count == before);
            HOLD(op.next[0] == 1 && op.next[1] == 0 && op.next[2] == -1);
            op.why.code = op.late;
            break;
        }
        check_position(before, all.offsets, all.lengths);
        memcpy(op.position, op.next, sizeof op.next);
    }
    bool ended = op.why.code == TF_OUT_OF_RANGE;
    HOLD(!cut || op.lent || !ended);
    if ((cut || file.failed) && (op.lent || !ended))
        return; /* Python reads the file anew, and meets what there is to meet */
    HOLD(op.lent == (automatic && !raw));
    if (op.lent) return;
    bool damaged = all.says.fault != TFRECORD_OK || all.says.need > 0 || start > file.claimed;
    TF_Code code = all.says.fault == TFRECORD_TOO_LARGE ? TF_RESOURCE_EXHAUSTED : TF_DATA_LOSS;
    HOLD(op.count == all.count && op.why.code == (damaged ? code : TF_OUT_OF_RANGE));
}

static void check_walk(uint64_t limit, size_t start, size_t capacity) {
    static int64_t frames[MOST], sums[MOST];
    tfrecord_cursor cursor = {.offset = start};
    file.failed = false;
    int error = tfrecord_walk_file(&cursor, DESCRIPTOR, file.size, limit, frames, sums, capacity);
    HOLD(error == (file.failed ? EIO : 0) && cursor.count <= capacity);
    uint64_t offset = start;
    uint32_t sum = 0;
    for (size_t i = 0; i < cursor.count; i++) {
        HOLD(frames[i] == (int64_t)offset && offset + TFRECORD_HEADER <= file.size);
        HOLD(header_holds(file.data + offset) && load64(file.data + offset) <= limit);
        if (i > 0) sum = crc32c_extend(sum, file.data + offset - TFRECORD_FOOTER, TFRECORD_FOOTER);
        HOLD(sums[i] == (int64_t)sum);
        offset += load64(file.data + offset) + TFRECORD_OVERHEAD;
    }
    HOLD(cursor.offset == offset);
    if (error != 0) return;
    if (cursor.count > 0 && offset <= file.size)
        sum = crc32c_extend(sum, file.data + offset - TFRECORD_FOOTER, TFRECORD_FOOTER);
    HOLD(cursor.sum == sum);
    bool stopped = cursor.count == capacity || offset >= file.size;
    if (!stopped && file.size - offset >= TFRECORD_HEADER)
        HOLD(cursor.fault ==
             (header_holds(file.data + offset) ? TFRECORD_TOO_LARGE : TFRECORD_LENGTH_CRC));
    else
        HOLD(cursor.fault == TFRECORD_OK && cursor.need == (stopped ? 0 : TFRECORD_HEADER));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static truth all;
    if (size < OPTIONS || size > (size_t)TFRECORD_OVERHEAD * MOST) return 0;
    uint64_t limit = choose_limit(input[0]);
    size_t capacity = input[0] & 4 ? MOST : (input[0] >> 4) + 1u;
    op_python.read_stream = lend_stream;
    op_python.inflate = inflate;
    tf.StringGetDataPointer = string_data;
    tf.StringGetSize = string_size;
    file.size = file.claimed = size - OPTIONS;
    file.manner = file.random = input[1];
    uint8_t *data = malloc(file.size + !file.size);
    HOLD(data != NULL);
    memcpy(data, input + OPTIONS, file.size);
    file.data = data;
    read_truth(&all, data, file.size, 0, limit, false);
    size_t start = 0;
    if (input[2] & 1) /* at a frame, or just anywhere */
        start = input[2] >> 1;
    else if (all.count > 0)
        start = (size_t)all.offsets[(input[2] >> 1) % all.count] - TFRECORD_HEADER;
    check_walk(limit, start, capacity);
    file.claimed = file.size + (input[1] & CUT ? 1 + input[1] % 100 : 0);
    check_stream(limit, start, false);
    check_stream(limit, start, true);
    free(data);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(input, size, max_size);
    if (size > OPTIONS && seed % 2 == 0) mend(input + OPTIONS, size - OPTIONS, seed / 2);
    return size;
}
