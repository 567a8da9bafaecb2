/* Blocks that Python fetched and decompressed, for the calls of the ops that each take some of their
 * records: fetched, decompressed and checked once, and let go when the last record was taken.
 *
 * Only ever a cache: whatever is not found is fetched. At most LENT_BYTES of blocks are kept, none is
 * used that nobody has come for in LENT_SECONDS (an iterator was dropped), and a new dataset or iterator
 * begins without any: where nobody knows a file's version, it may be another by then.
 */
#ifndef TFIO_STORE_TF_LENT_H
#define TFIO_STORE_TF_LENT_H

#include "tensorflow/ops/lender.h"

#define LENT_BYTES ((size_t)256 << 20)
#define LENT_SECONDS 30

typedef struct lent_block lent_block;

/* Has the block fetched, unless it is or was. */
void lent_begin(const block_request *block, const read_settings *settings);

/* The block with all its records looked up, held until `lent_release`; `taking` of them are used up by
 * this. NULL: it could not be had. */
lent_block *lent_take(const block_request *block, const read_settings *settings, int64_t taking,
                      failure *why);
void lent_release(lent_block *block);

/* Drops all blocks; calls that hold one keep it. */
void lent_forget(void);

/* Its good records, and what is wrong behind the last of them (TF_OK: nothing). */
const part *lent_records(const lent_block *block);
const failure *lent_damage(const lent_block *block);

#endif
