/* DEFLATE (RFC 1951) in gzip members (RFC 1952) or zlib streams (RFC 1950), in plain C: no Python.h,
 * no allocation, no I/O.
 *
 * What other inflaters lack: this one stops between any two symbols, tells all that is needed to go on
 * there, and goes on there in another process. The whole state between two calls is a bit position, the
 * bits of the Huffman header that holds there, and up to 32 KiB of output.
 */
#ifndef TFIO_STORE_INFLATE_H
#define TFIO_STORE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFLATE_WINDOW 32768
#define INFLATE_MOST_HEADER                                                                        \
    320                       /* bytes; 3 + 14 + 19 * 3 + 320 * 14 bits never come: see inflate.c */
#define INFLATE_SPARE 320     /* bytes behind the limit that a call may write */
#define INFLATE_LITERALS 2342 /* entries of the two tables, subtables among them: zlib's enough.c */
#define INFLATE_DISTANCES 402

typedef enum {
    INFLATE_MORE = 0, /* the input is used up as far as it tells anything */
    INFLATE_FULL,     /* the output is; exact: the next symbol would go beyond the limit */
    INFLATE_MEMBER,   /* a member has ended: see `check` and `length` */
    INFLATE_END,      /* the data has ended where it may */
    INFLATE_CUT,      /* the data has ended too early */
    INFLATE_BAD       /* see `why` */
} inflate_status;

typedef enum { INFLATE_GZIP, INFLATE_ZLIB } inflate_container;

typedef struct {
    inflate_container container;
    int phase;
    bool last;        /* no block follows this one in its member */
    uint64_t bit;     /* in the input of the next call */
    uint64_t members; /* that have begun */
    uint32_t stored;  /* bytes left of a stored block */
    size_t
        reach; /* bytes of output before the next one that may be copied, INFLATE_WINDOW at most */
    uint32_t check;  /* CRC-32 or Adler-32 of the member that has ended, as it says */
    uint32_t length; /* its bytes modulo 2^32, as it says; gzip only */
    const char *why;
    /* Which of the INFLATE_WINDOW bytes before a mark are copied by what follows it. NULL: nobody asks. */
    uint8_t *marks;
    size_t since_mark;    /* bytes of output since then */
    uint32_t header_bits; /* of the block that we are in */
    uint8_t header[INFLATE_MOST_HEADER];
    uint32_t literals[INFLATE_LITERALS];
    uint32_t distances[INFLATE_DISTANCES];
} inflater;

/* Begin at the first byte of a file. */
void inflate_begin(inflater *state, inflate_container container);

/* Begin inside of a block: `header` has its first bits, from bit 0 on, and `reach` bytes of output are
 * known. No bits: begin at a member's first byte. False if there is no such header. */
bool inflate_resume(inflater *state, inflate_container container, const uint8_t *header,
                    uint32_t bits, size_t reach);

/* Inflate from bit `state->bit` of `in` to out[*at], up to out[limit]. `final`: no input follows.
 * out[*at - state->reach] and what is behind it is earlier output, and INFLATE_SPARE bytes behind the
 * limit may be written. The last symbol may reach beyond the limit, unless `exact`: then the call ends
 * before it. */
inflate_status inflate_run(inflater *state, const uint8_t *in, size_t size, bool final,
                           uint8_t *out, size_t *at, size_t limit, bool exact);

/* What `inflate_resume` needs of the place where the state stands. Its bits; 0 at a member's beginning. */
uint32_t inflate_header(const inflater *state, uint8_t header[INFLATE_MOST_HEADER]);

#endif
