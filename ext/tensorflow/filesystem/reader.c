/* How a read is served.
 *
 * It is cut at block boundaries into pieces. A piece that the cache has, or that is on its way there,
 * is copied from the cache. So is a piece that covers less than its block: the block is fetched whole,
 * because the next read will want the rest. Whole missing blocks are fetched straight into the
 * caller's buffer, in runs of up to REQUEST_BYTES, at most IN_FLIGHT at a time.
 *
 * A read that begins where the last one ended is sequential. Then the blocks behind it are fetched
 * ahead, in a window. The window grows fourfold with each block passed, up to WINDOW_BYTES or the
 * length of the read, whichever is more, and within the file's share of the cache. It moves with every
 * piece that has come, not with every read: so as many bytes are on their way at the start of a long
 * read as at its end. Its requests take several blocks each, as many as leave IN_FLIGHT requests in the
 * window.
 */
#include "tensorflow/filesystem/files.h"

#include <pthread.h>
#include <stdlib.h>

#include "tensorflow/gate.h"
#include "tensorflow/filesystem/host.h"
#include "tensorflow/abi.h"

enum { IN_FLIGHT = 16, BATCH = 64, ATTEMPTS = 3 };

static const size_t REQUEST_BYTES = 4 * FS_BLOCK_BYTES;
static const uint64_t FIRST_WINDOW_BYTES = 4 * FS_BLOCK_BYTES;
static const uint64_t WINDOW_BYTES = 64 * FS_BLOCK_BYTES;
static const size_t PEEK_BYTES = 64 << 10;

struct fs_reader {
    pthread_mutex_t lock; /* over what follows */
    fs_object *object;
    void *host;
    uint64_t next;    /* where a sequential reader goes on */
    uint64_t window;  /* bytes to fetch ahead of it */
    uint64_t fetched; /* up to where that has been done */
    unsigned ends;    /* reads that found nothing but the end */
};

/* Part of one read. */
typedef struct {
    fs_range *range;
    size_t skip, size; /* which bytes of the range */
    char *into;        /* NULL: the range puts them there itself */
} piece;

/* Ranges to be asked of the store in one entry into Python. */
typedef struct {
    fs_range *ranges[BATCH];
    size_t count;
    size_t request; /* bytes in adjacent ranges to ask for at once */
} batch;

static void batch_send(fs_reader *reader, batch *asked) {
    if (!asked->count) return;
    if (gate_enter()) {
        host_fetch(reader->host, asked->ranges, asked->count, asked->request);
        gate_leave();
    } else {
        for (size_t i = 0; i < asked->count; i++)
            fs_range_fail(asked->ranges[i], TF_CANCELLED, GATE_CLOSED);
    }
    asked->count = 0;
}

static void batch_add(fs_reader *reader, batch *asked, fs_range *range) {
    asked->ranges[asked->count++] = range;
    if (asked->count == BATCH) batch_send(reader, asked);
}

/* ---- opening and closing ---- */

static fs_object *open_snapshot(fs_snapshot *snapshot, failure *error) {
    fs_object *object = fs_object_open(snapshot->version, snapshot->size);
    free(snapshot->version);
    if (!object && snapshot->size > INT64_MAX)
        fail(error, TF_DATA_LOSS, "the store claims %llu bytes, which no object has",
             (unsigned long long)snapshot->size);
    else if (!object)
        fail(error, TF_RESOURCE_EXHAUSTED, "out of memory");
    return object;
}

fs_reader *fs_reader_open(const char *path, failure *error) {
    if (!gate_enter()) {
        fail(error, TF_CANCELLED, "%s", GATE_CLOSED);
        return NULL;
    }
    fs_snapshot snapshot = {0};
    fs_reader *reader = calloc(1, sizeof *reader);
    void *host = reader ? host_open_reader(path, &snapshot, error) : NULL;
    fs_object *object = host ? open_snapshot(&snapshot, error) : NULL;
    if (!reader) fail(error, TF_RESOURCE_EXHAUSTED, "out of memory");
    if (object) {
        reader->host = host;
        reader->object = object;
        pthread_mutex_init(&reader->lock, NULL);
    } else {
        if (host) host_close_reader(host);
        free(reader);
        reader = NULL;
    }
    gate_leave();
    return reader;
}

void fs_reader_close(fs_reader *reader) {
    fs_object_close(reader->object);
    if (gate_enter()) { /* else the interpreter is going, and its object with it */
        host_close_reader(reader->host);
        gate_leave();
    }
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}

uint64_t fs_reader_size(fs_reader *reader) {
    pthread_mutex_lock(&reader->lock);
    const uint64_t size = fs_object_size(reader->object);
    pthread_mutex_unlock(&reader->lock);
    return size;
}

/* ---- what to fetch ahead ---- */

/* Notes this read; the answer is how many bytes to fetch ahead beyond its end. */
static uint64_t note_access(fs_reader *reader, uint64_t offset, size_t n) {
    const uint64_t end = offset + n, share = fs_cache_share();
    pthread_mutex_lock(&reader->lock);
    const bool crosses = end / FS_BLOCK_BYTES != offset / FS_BLOCK_BYTES;
    if (offset != reader->next)
        reader->window = reader->fetched = 0;
    else if (!reader->window && (offset || n > PEEK_BYTES)) /* less, at 0, may be all */
        reader->window = FIRST_WINDOW_BYTES;
    else if (crosses)
        reader->window *= 4;
    if (reader->window && reader->window < n) reader->window = n;
    const uint64_t most = n > WINDOW_BYTES ? n : WINDOW_BYTES;
    if (reader->window > most) reader->window = most;
    if (reader->window > share) reader->window = share;
    reader->next = end;
    const uint64_t window = reader->window;
    pthread_mutex_unlock(&reader->lock);
    return window;
}

/* How much of a window to ask for at once. */
static size_t request_bytes(uint64_t window) {
    const uint64_t blocks = (window / IN_FLIGHT + FS_BLOCK_BYTES - 1) / FS_BLOCK_BYTES;
    const size_t bytes = (size_t)((blocks ? blocks : 1) * FS_BLOCK_BYTES);
    return bytes < REQUEST_BYTES ? bytes : REQUEST_BYTES;
}

/* Claims the blocks of [from, stop) that nobody has; the answer is how far there was room. */
static uint64_t claim_ahead(fs_reader *reader, fs_object *object, uint64_t from, uint64_t stop,
                            batch *asked) {
    for (; from < stop; from += FS_BLOCK_BYTES) {
        bool mine;
        fs_range *block = fs_block_claim(object, from / FS_BLOCK_BYTES, true, &mine);
        if (!block && mine) break; /* no room */
        if (!block) continue;
        batch_add(reader, asked, block);
        fs_range_release(block, false);
    }
    return from;
}

/* Fetches ahead what lies behind a read's end and within the window from `done` on, in whole
 * requests. */
static void read_ahead(fs_reader *reader, fs_object *object, uint64_t end_of_read, uint64_t done,
                       uint64_t window, batch *asked) {
    const uint64_t size = fs_object_size(object), request = asked->request;
    const uint64_t stop = window < size - done ? done + window : size;
    pthread_mutex_lock(&reader->lock);
    uint64_t from = reader->fetched > end_of_read ? reader->fetched : end_of_read;
    pthread_mutex_unlock(&reader->lock);
    from -= from % FS_BLOCK_BYTES;
    while (from < stop && (stop - from >= request || stop == size)) {
        const uint64_t end = stop - from < request ? stop : from + request;
        const uint64_t claimed = claim_ahead(reader, object, from, end, asked);
        if (claimed < end) break;
        from = end;
    }
    pthread_mutex_lock(&reader->lock);
    if (reader->window) reader->fetched = from;
    pthread_mutex_unlock(&reader->lock);
}

/* ---- one read ---- */

/* The longest run of whole blocks from `at` that the cache does not have, up to `stop`. */
static size_t missing_run(fs_object *object, uint64_t at, uint64_t stop) {
    uint64_t end = at;
    while (end < stop && end - at < REQUEST_BYTES) {
        const uint64_t left = fs_object_size(object) - end;
        const uint64_t block = left < FS_BLOCK_BYTES ? left : FS_BLOCK_BYTES;
        fs_range *known = end + block <= stop ? fs_block_find(object, end / FS_BLOCK_BYTES) : NULL;
        if (known) fs_range_release(known, false);
        if (known || end + block > stop) break;
        end += block;
    }
    return (size_t)(end - at);
}

/* The next piece of [at, stop), asked for if it is not on its way. False: out of memory. */
static bool next_piece(fs_reader *reader, fs_object *object, uint64_t at, uint64_t stop, char *into,
                       batch *asked, piece *out) {
    const size_t skip = (size_t)(at % FS_BLOCK_BYTES);
    /* A lone block goes to the cache: small files are read more than once. */
    const size_t run = skip || stop - at <= FS_BLOCK_BYTES ? 0 : missing_run(object, at, stop);
    bool mine = true;
    fs_range *range = run ? fs_direct(object, at, run, into)
                          : fs_block_claim(object, at / FS_BLOCK_BYTES, false, &mine);
    if (!range) return false;
    if (mine) batch_add(reader, asked, range);
    const size_t has = fs_range_size(range) - (run ? 0 : skip);
    const size_t size = stop - at < has ? (size_t)(stop - at) : has;
    *out = (piece){.range = range, .skip = skip, .size = size, .into = run ? NULL : into};
    return true;
}

/* Waits for a piece and puts its bytes in place. A block that another reader asked for and gave up
 * (its file was closed) is asked for anew. */
static bool finish_piece(fs_reader *reader, fs_object *object, piece *part, failure *error) {
    for (int attempt = 0;; attempt++) {
        const uint64_t start = fs_range_start(part->range);
        const bool ready = fs_range_wait(part->range, error);
        if (ready && part->into) fs_range_copy(part->range, part->skip, part->into, part->size);
        fs_range_release(part->range,
                         ready && part->skip + part->size == fs_range_size(part->range));
        if (ready || !part->into || error->code != TF_CANCELLED || attempt == ATTEMPTS)
            return ready;
        batch asked = {.request = FS_BLOCK_BYTES};
        bool mine;
        part->range = fs_block_claim(object, start / FS_BLOCK_BYTES, false, &mine);
        if (!part->range) return false;
        if (mine) batch_add(reader, &asked, part->range);
        batch_send(reader, &asked);
        error->code = TF_OK;
    }
}

/* Reads [offset, offset + n), all of it inside the object. */
static bool read_pieces(fs_reader *reader, fs_object *object, uint64_t offset, size_t n,
                        uint64_t ahead, char *buffer, failure *error) {
    piece parts[IN_FLIGHT]; /* a ring */
    size_t first = 0, last = 0;
    uint64_t at = offset, done = offset;
    const uint64_t stop = offset + n;
    batch asked = {.request = request_bytes(ahead)};
    bool ok = true;
    while (ok && done < stop) {
        while (ok && at < stop && last - first < IN_FLIGHT) {
            piece *part = &parts[last % IN_FLIGHT];
            ok = next_piece(reader, object, at, stop, buffer + (at - offset), &asked, part);
            if (!ok) fail(error, TF_RESOURCE_EXHAUSTED, "out of memory");
            if (ok) last++, at += part->size;
        }
        if (!ok) break;
        done += parts[first % IN_FLIGHT].size;
        if (ahead) read_ahead(reader, object, stop, done, ahead, &asked);
        batch_send(reader, &asked);
        ok = finish_piece(reader, object, &parts[first++ % IN_FLIGHT], error);
    }
    batch_send(reader, &asked);
    while (first < last) fs_range_release(parts[first++ % IN_FLIGHT].range, false);
    return ok;
}

/* At the end of a file for the second time: somebody may be following a file that grows (TensorBoard
 * an event file), so see whether it did. */
static void look_again(fs_reader *reader) {
    fs_snapshot snapshot = {0};
    failure error = {0};
    if (!gate_enter()) return;
    host_look_again(reader->host, &snapshot, &error);
    gate_leave();
    fs_object *now = error.code ? NULL : open_snapshot(&snapshot, &error);
    error.code = TF_OK;
    if (!now) return;
    pthread_mutex_lock(&reader->lock);
    fs_object *before = reader->object;
    reader->object = now;
    pthread_mutex_unlock(&reader->lock);
    fs_object_close(before);
}

/* The object, held for this read. */
static fs_object *current_object(fs_reader *reader, uint64_t offset) {
    pthread_mutex_lock(&reader->lock);
    const bool at_end = offset >= fs_object_size(reader->object);
    const bool again = at_end && reader->ends++ > 0;
    pthread_mutex_unlock(&reader->lock);
    if (again) look_again(reader);
    pthread_mutex_lock(&reader->lock);
    fs_object *object = fs_object_hold(reader->object);
    pthread_mutex_unlock(&reader->lock);
    return object;
}

static int64_t read_now(fs_reader *reader, uint64_t offset, size_t n, char *buffer,
                        failure *error) {
    fs_object *object = current_object(reader, offset);
    const uint64_t size = fs_object_size(object);
    const uint64_t left = offset < size ? size - offset : 0;
    const size_t length = left < n ? (size_t)left : n;
    const uint64_t ahead = length ? note_access(reader, offset, length) : 0;
    const bool ok = read_pieces(reader, object, offset, length, ahead, buffer, error);
    fs_object_release(object);
    return ok ? (int64_t)length : -1;
}

int64_t fs_reader_read(fs_reader *reader, uint64_t offset, size_t n, char *buffer, failure *error) {
    const bool inside = gate_enter(); /* outside there is no GIL, but maybe the bytes */
    void *released = inside ? host_release_gil() : NULL;
    const int64_t got = read_now(reader, offset, n, buffer, error);
    if (inside) {
        host_restore_gil(released);
        gate_leave();
    }
    return got;
}
