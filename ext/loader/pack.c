#include "loader/pack.h"

#include <stdlib.h>
#include <string.h>

pack_status pack_check(const int64_t *splits, size_t documents, int64_t values, int64_t length,
                       size_t *most) {
    if (splits[0] != 0 || splits[documents] != values) return PACK_SPLITS;
    for (size_t i = 0; i < documents; i++)
        if (splits[i] > splits[i + 1]) return PACK_SPLITS;
    *most = documents + (size_t)(values / length) + 1;
    return PACK_OK;
}

static int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }

void pack_concat(const int64_t *splits, size_t documents, int64_t length, pack_plan *plan) {
    int64_t room = 0;
    plan->pieces = plan->rows = 0;
    for (size_t i = 0; i < documents; i++) {
        for (int64_t at = splits[i]; at < splits[i + 1];) {
            if (room == 0) {
                plan->splits[plan->rows++] = (int64_t)plan->pieces;
                room = length;
            }
            int64_t size = smaller(room, splits[i + 1] - at);
            plan->begins[plan->pieces] = at;
            plan->sizes[plan->pieces++] = size;
            at += size;
            room -= size;
        }
    }
    plan->splits[plan->rows] = (int64_t)plan->pieces;
}

/* ---- first fit -------------------------------------------------------- */

typedef struct {
    int64_t begin, size, row;
} piece;

static size_t cut(const int64_t *splits, size_t documents, int64_t length, piece *pieces) {
    size_t count = 0;
    for (size_t i = 0; i < documents; i++) {
        for (int64_t at = splits[i]; at < splits[i + 1]; at += pieces[count++].size)
            pieces[count] = (piece){at, smaller(length, splits[i + 1] - at), 0};
    }
    return count;
}

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* The numbers of the pieces, the largest first, and of the same size the first one first: in `order`.
 * A radix sort by what each leaves of a row. `other` has as many places. Answers the one of the two
 * that holds them. */
static size_t *largest_first(const piece *pieces, size_t count, int64_t length, size_t *order,
                             size_t *other) {
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (int shift = 0; (length - 1) >> shift; shift += DIGIT) {
        size_t ends[DIGITS + 1] = {0};
        for (size_t i = 0; i < count; i++)
            ends[((length - pieces[i].size) >> shift & (DIGITS - 1)) + 1]++;
        for (size_t digit = 0; digit < DIGITS; digit++) ends[digit + 1] += ends[digit];
        for (size_t i = 0; i < count; i++)
            other[ends[(length - pieces[order[i]].size) >> shift & (DIGITS - 1)]++] = order[i];
        size_t *sorted = other;
        other = order;
        order = sorted;
    }
    return order;
}

/* `most[1]` is the root of a tree over the rows' room; each node has the most of those below it. So
 * the first row that has enough is found, and a row more is always there. */
static size_t first_with_room(int64_t *most, size_t leaves, int64_t size) {
    size_t node = 1;
    while (node < leaves) {
        node *= 2;
        if (most[node] < size) node++;
    }
    most[node] -= size;
    for (size_t up = node / 2; up > 0; up /= 2)
        most[up] = most[2 * up] > most[2 * up + 1] ? most[2 * up] : most[2 * up + 1];
    return node - leaves;
}

/* The pieces by their rows, which are counted as they are met. `starts` has a place for each piece. */
static void lay_out(const piece *pieces, size_t count, int64_t *starts, pack_plan *plan) {
    for (size_t i = 0; i < count; i++) starts[i] = -1;
    plan->rows = 0;
    memset(plan->splits, 0, (count + 1) * sizeof *plan->splits);
    for (size_t i = 0; i < count; i++) {
        int64_t *number = &starts[pieces[i].row];
        if (*number < 0) *number = (int64_t)plan->rows++;
        plan->splits[*number + 1]++;
    }
    for (size_t row = 0; row < plan->rows; row++) plan->splits[row + 1] += plan->splits[row];
    for (size_t i = 0; i < count; i++) { /* which moves the start of each row to its end */
        int64_t at = plan->splits[starts[pieces[i].row]]++;
        plan->begins[at] = pieces[i].begin;
        plan->sizes[at] = pieces[i].size;
    }
    memmove(plan->splits + 1, plan->splits, plan->rows * sizeof *plan->splits);
    plan->splits[0] = 0;
    plan->pieces = count;
}

pack_status pack_first_fit(const int64_t *splits, size_t documents, int64_t length,
                           pack_plan *plan) {
    size_t most = documents + (size_t)(splits[documents] / length) + 1, leaves = 1;
    pack_status status = PACK_NO_MEMORY;
    int64_t *rooms = NULL;
    size_t *orders = calloc(2 * most, sizeof *orders);
    piece *pieces = calloc(most, sizeof *pieces);
    if (pieces == NULL || orders == NULL) goto done;
    size_t count = cut(splits, documents, length, pieces);
    while (leaves < count) leaves *= 2;
    rooms = calloc(2 * leaves, sizeof *rooms);
    if (rooms == NULL) goto done;
    for (size_t i = 0; i < 2 * leaves; i++) rooms[i] = length;
    const size_t *order = largest_first(pieces, count, length, orders, orders + most);
    for (size_t i = 0; i < count; i++) {
        piece *next = &pieces[order[i]];
        next->row = (int64_t)first_with_room(rooms, leaves, next->size);
    }
    lay_out(pieces, count, rooms, plan);
    status = PACK_OK;
done:
    free(orders);
    free(pieces);
    free(rooms);
    return status;
}

/* ---- rows ------------------------------------------------------------- */

pack_status pack_check_rows(const pack_plan *plan, size_t first, size_t last, int64_t length) {
    if (first > last || last > plan->rows) return PACK_PLAN;
    for (size_t row = first; row < last; row++) {
        int64_t room = length, stop = plan->splits[row + 1];
        if (plan->splits[row] < 0 || stop > (int64_t)plan->pieces) return PACK_PLAN;
        for (int64_t p = plan->splits[row]; p < stop; p++) {
            if (plan->sizes[p] < 1 || plan->sizes[p] > room) return PACK_PLAN;
            room -= plan->sizes[p];
        }
    }
    return PACK_OK;
}

/* The last part that begins at a value or before it. */
static const pack_part *part_of(const pack_part *parts, size_t count, int64_t value) {
    size_t first = 0;
    while (count > 1) {
        size_t half = count / 2;
        if (parts[first + half].begin <= value) first += half;
        count -= half;
    }
    return &parts[first];
}

pack_status pack_copy(const pack_plan *plan, size_t first, size_t last, const pack_part *parts,
                      size_t count, size_t size, const uint8_t *padding, int64_t length,
                      uint8_t *out) {
    for (size_t row = first; row < last; row++) {
        uint8_t *end = out + (size_t)length * size;
        for (int64_t p = plan->splits[row]; p < plan->splits[row + 1]; p++) {
            int64_t begin = plan->begins[p];
            const pack_part *part = part_of(parts, count, begin);
            if (begin < part->begin || begin > part->end - plan->sizes[p]) return PACK_PLAN;
            size_t bytes = (size_t)plan->sizes[p] * size;
            memcpy(out, part->data + (size_t)(begin - part->begin) * size, bytes);
            out += bytes;
        }
        for (; out < end; out += size) memcpy(out, padding, size);
    }
    return PACK_OK;
}

int64_t pack_mark(const pack_plan *plan, size_t first, size_t last, int64_t length,
                  int32_t *segments, int32_t *positions) {
    int64_t values = 0;
    for (size_t row = first; row < last; row++) {
        int32_t number = 0;
        size_t left = (size_t)length;
        for (int64_t p = plan->splits[row]; p < plan->splits[row + 1]; p++) {
            int32_t size = (int32_t)plan->sizes[p];
            number++;
            for (int32_t i = 0; i < size; i++) segments[i] = number;
            for (int32_t i = 0; i < size; i++) positions[i] = i;
            segments += size;
            positions += size;
            left -= (size_t)size;
        }
        memset(segments, 0, left * sizeof *segments);
        memset(positions, 0, left * sizeof *positions);
        segments += left;
        positions += left;
        values += length - (int64_t)left;
    }
    return values;
}
