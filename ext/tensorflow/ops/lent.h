/* Blocks that Python fetches and decompresses, or that lie in raw local files, for the calls of the ops that each take some of their
 * records: fetched ahead, decompressed and checked once, and let go when the last record was taken.
 * There is no other place where blocks are kept.
 *
 * Only ever a cache: whatever is not found is fetched. At most LENT_BYTES of blocks are kept, and none
 * is used that nobody has come for in LENT_SECONDS (an iterator was dropped). A new iterator begins
 * without those whose version nobody knows: the file may be another by then.
 */
#ifndef TFIO_STORE_TF_LENT_H
#define TFIO_STORE_TF_LENT_H

#include "tensorflow/ops/lender.h"

#define LENT_BYTES ((size_t)256 << 20)
#define LENT_SECONDS 30
#define LENT_MOMENT 100000000 /* nanoseconds for which a call waits */

typedef struct lent_block lent_block;

/* Has the block fetched, unless it is or was. */
void lent_begin(const block_request *block, const read_settings *settings);

/* Has the block fetched as well, and waits a moment for it. False: it is still on its way. */
bool lent_await(const block_request *block, const read_settings *settings);

/* The block with all its records looked up, held until `lent_release`; `taking` of them are used up by
 * this. NULL: it could not be had. */
lent_block *lent_take(const block_request *block, const read_settings *settings, int64_t taking,
                      failure *why);
void lent_release(lent_block *block);

/* Drops the blocks of no known version, and those that nobody came for; calls that hold one keep it. */
void lent_forget(void);

/* In a forked child, where nobody goes on with what its parent began. */
void lent_after_fork(void);

/* Its good records, and what is wrong behind the last of them (TF_OK: nothing). */
const record_part *lent_records(const lent_block *block);
const failure *lent_damage(const lent_block *block);

#endif
