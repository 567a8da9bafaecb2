/* A record writer appends 12 bytes, the record, 4 bytes: sent on to Python one by one, that would
 * take the GIL three times per record. */
#include "tensorflow/filesystem/files.h"

#include <stdlib.h>
#include <string.h>

#include "tensorflow/gate.h"
#include "tensorflow/filesystem/host.h"
#include "tensorflow/abi.h"

enum { BUFFER_BYTES = 1 << 20 };

struct fs_writer {
    void *host;
    uint64_t position;
    bool log; /* it was synced: an event file or the like. From then on nothing stays here, so that
               the host has all when the program ends without closing it. */
    size_t filled;
    char buffer[BUFFER_BYTES];
};

static bool enter(failure *error) {
    if (gate_enter()) return true;
    fail(error, TF_CANCELLED, "%s; close files before the program ends", GATE_CLOSED);
    return false;
}

/* The buffer, to Python. Inside the gate. */
static bool drain(fs_writer *writer, failure *error) {
    if (writer->filled) host_write(writer->host, writer->buffer, writer->filled, error);
    writer->filled =
        0; /* also after a failure: the host has noted it, and fails all that follows */
    return !error->code;
}

fs_writer *fs_writer_open(const char *path, bool append, failure *error) {
    fs_writer *writer = malloc(sizeof *writer);
    if (!writer) {
        fail(error, TF_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    writer->filled = 0;
    writer->log = false;
    writer->host = NULL;
    if (enter(error)) {
        writer->host = host_open_writer(path, append, &writer->position, error);
        gate_leave();
    }
    if (writer->host) return writer;
    free(writer);
    return NULL;
}

static bool append_through(fs_writer *writer, const char *bytes, size_t n, failure *error) {
    if (!enter(error)) return false;
    if (drain(writer, error)) host_write(writer->host, bytes, n, error);
    gate_leave();
    return !error->code;
}

void fs_writer_append(fs_writer *writer, const char *bytes, size_t n, failure *error) {
    if (writer->log || n > BUFFER_BYTES - writer->filled) {
        if (!append_through(writer, bytes, n, error)) return;
    } else {
        memcpy(writer->buffer + writer->filled, bytes, n);
        writer->filled += n;
    }
    writer->position += n;
}

int64_t fs_writer_position(const fs_writer *writer) { return (int64_t)writer->position; }

void fs_writer_sync(fs_writer *writer, failure *error) {
    writer->log = true;
    if (!enter(error)) return;
    if (drain(writer, error)) host_sync(writer->host, error);
    gate_leave();
}

void fs_writer_finish(fs_writer *writer, failure *error) {
    if (!enter(error)) return;
    host_finish(writer->host, writer->buffer, writer->filled, error);
    writer->filled = 0;
    gate_leave();
}

void fs_writer_release(fs_writer *writer) {
    if (gate_enter()) { /* this may be a finalizer, so nothing is waited for here */
        host_release_writer(writer->host, writer->buffer, writer->filled);
        gate_leave();
    }
    free(writer);
}
