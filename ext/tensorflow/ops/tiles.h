/* Where the wanted features of records lie, a tile of records at a time: so many that what is noted of
 * them stays in the cache until it was read. */
#ifndef TFIO_STORE_TF_TILES_H
#define TFIO_STORE_TF_TILES_H

#include "tensorflow/ops/columns.h"

#ifndef TILE /* fuzzing builds this with a small one */
#define TILE ((size_t)1024)
#endif

typedef struct {
    const ex_bytes *records;
    size_t count, columns;
    size_t stride; /* slots from one column of a tile to the next */
    size_t kept;   /* tiles of which there are slots: all, or one */
    ex_keys features, lists;
    ex_bytes *slots;
    chunk memory;
} tiles;

/* With `all`, every tile's slots stay until the end; else each tile takes the place of the last. */
bool tiles_begin(tiles *of, const column_list *wanted, const ex_bytes *records, size_t count,
                 bool all, failure *why);
void tiles_release(tiles *of);

/* How many records the tile has that begins at record `start`. */
size_t tile_count(const tiles *of, size_t start);

/* Where column `k` of that tile lies, record by record. */
const ex_bytes *tile_column(const tiles *of, size_t start, size_t k);

/* Notes it. On failure *failed is the record. */
ex_status tile_locate(tiles *of, size_t start, size_t *failed);

#endif
