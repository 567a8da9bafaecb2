/* Strategy: between two calls, and in the careful loop between two symbols, the place is a bit position
 * and nothing else. So a symbol, a Huffman header or a member's header that the input cuts is simply
 * read again when more is there. The fast loop holds bits in a register, as libdeflate does: 56 or more
 * after each refill, of which a length and a distance take 48 at most. It runs while input and output
 * have room for whatever a step takes, and the careful loop does the rest.
 *
 * Codes are refused as zlib refuses them: oversubscribed ones, incomplete ones (but for a single code of
 * one bit), and blocks without an end.
 *
 * A Huffman header has 3 + 14 + 19 * 3 bits, and 286 + 30 lengths that take up to 7 bits each, and 7 more
 * where they repeat three or more: 2,286 bits at most.
 */
#include "inflate.h"

#include <string.h>

#include "memory/bytes.h"

enum { MEMBER, PADDING, BLOCK, SYMBOLS, STORED, TRAILER };

enum { LITERAL_BITS = 11, DISTANCE_BITS = 8, LENGTH_BITS = 7, MOST_BITS = 15 };

/* An entry: bits 0..7 all bits that it takes, with extra ones; 8..11 those of its code; 16..31 a literal,
 * the base of a length or distance, or where a subtable begins, whose bits are in 8..11 then. */
#define LITERAL 0x1000u
#define EXCEPTION 0x2000u /* a subtable, the end of the block, or no code */
#define SUBTABLE 0x4000u
#define END_OF_BLOCK (EXCEPTION | 0x10000u)
#define NO_CODE EXCEPTION
#define TAKES(entry) ((entry)&0xFFu)
#define CODE(entry) (((entry) >> 8) & 15u)
#define BASE(entry) ((entry) >> 16)

static const uint16_t LENGTH_BASE[29] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                         15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                         67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t LENGTH_EXTRA[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t DISTANCE_BASE[30] = {1,    2,    3,    4,     5,     7,    9,    13,
                                           17,   25,   33,   49,    65,    97,   129,  193,
                                           257,  385,  513,  769,   1025,  1537, 2049, 3073,
                                           4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t ORDER[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

typedef enum { LENGTHS, LITERALS, DISTANCES } code_kind;

/* What is inflated: one call's view of it. */
typedef struct {
    inflater *state;
    const uint8_t *in;
    size_t size;
    uint64_t bits; /* in all of the input */
    bool final;
    uint8_t *out;
    size_t at, limit, floor; /* floor: the first byte of `out` that may be copied */
    bool exact;
} work;

static inline uint64_t mask(uint32_t bits) { return ((uint64_t)1 << bits) - 1; }

/* The next 57 bits or more. Behind the end there are zeros. */
static inline uint64_t peek(const work *w) {
    size_t byte = (size_t)(w->state->bit >> 3);
    uint64_t found = 0;
    if (w->size >= 8 && byte <= w->size - 8) {
        found = load64(w->in + byte);
    } else {
        for (uint32_t i = 0; i < 8 && byte + i < w->size; i++)
            found |= (uint64_t)w->in[byte + i] << (8 * i);
    }
    return found >> (w->state->bit & 7);
}

static inline uint64_t left(const work *w) { return w->bits - w->state->bit; }

static inflate_status bad(work *w, const char *why) {
    w->state->why = why;
    return INFLATE_BAD;
}

static inflate_status short_of(const work *w) { return w->final ? INFLATE_CUT : INFLATE_MORE; }

/* ---- codes ---------------------------------------------------------------------------------------- */

static uint32_t entry_of(code_kind kind, uint32_t symbol, uint32_t bits) {
    if (kind == LENGTHS) return symbol << 16 | bits << 8 | bits;
    if (kind == LITERALS) {
        if (symbol < 256) return symbol << 16 | LITERAL | bits << 8 | bits;
        if (symbol == 256) return END_OF_BLOCK | bits << 8 | bits;
        if (symbol > 285) return NO_CODE | bits << 8 | bits;
        return (uint32_t)LENGTH_BASE[symbol - 257] << 16 | bits << 8 |
               (bits + LENGTH_EXTRA[symbol - 257]);
    }
    if (symbol > 29) return NO_CODE | bits << 8 | bits;
    uint32_t extra = symbol < 4 ? 0 : symbol / 2 - 1;
    return (uint32_t)DISTANCE_BASE[symbol] << 16 | bits << 8 | (bits + extra);
}

static uint32_t reversed(uint32_t code, uint32_t bits) {
    uint32_t found = 0;
    for (; bits; bits--, code >>= 1) found = found << 1 | (code & 1);
    return found;
}

/* Make the table of a canonical code. False if there is no such code. */
static bool make_table(uint32_t *table, uint32_t room, uint32_t main, code_kind kind,
                       const uint8_t *lengths, uint32_t symbols) {
    uint32_t counts[MOST_BITS + 1] = {0}, starts[MOST_BITS + 2] = {0}, longest = 0;
    uint16_t sorted[320];
    for (uint32_t i = 0; i < symbols; i++) counts[lengths[i]]++;
    counts[0] = 0;
    int32_t free = 1;
    for (uint32_t bits = 1; bits <= MOST_BITS; bits++) {
        free = 2 * free - (int32_t)counts[bits];
        if (free < 0) return false;
        if (counts[bits]) longest = bits;
        starts[bits + 1] = starts[bits] + counts[bits];
    }
    if (free > 0 && (kind == LENGTHS || longest > 1)) return false;
    for (uint32_t i = 0; i < symbols; i++) {
        if (lengths[i]) sorted[starts[lengths[i]]++] = (uint16_t)i;
    }
    uint32_t used = 1u << main, code = 0, next = 0, at = 0, sub_bits = 0, prefix = UINT32_MAX;
    for (uint32_t i = 0; i < used; i++) table[i] = NO_CODE;
    for (uint32_t bits = 1; bits <= longest; bits++, code <<= 1) {
        for (; counts[bits]; counts[bits]--, code++) {
            uint32_t entry = entry_of(kind, sorted[next++], bits), first = reversed(code, bits);
            if (bits <= main) {
                for (uint32_t i = first; i < 1u << main; i += 1u << bits) table[i] = entry;
                continue;
            }
            if ((first & mask(main)) != prefix) {
                prefix = (uint32_t)(first & mask(main));
                sub_bits = bits - main;
                int32_t open = 1 << sub_bits;
                while (main + sub_bits < longest) {
                    open -= (int32_t)counts[main + sub_bits];
                    if (open <= 0) break;
                    sub_bits++;
                    open *= 2;
                }
                at = used;
                used += 1u << sub_bits;
                if (used > room) return false;
                for (uint32_t i = at; i < used; i++) table[i] = NO_CODE;
                table[prefix] = at << 16 | EXCEPTION | SUBTABLE | sub_bits << 8;
            }
            for (uint32_t i = first >> main; i < 1u << sub_bits; i += 1u << (bits - main))
                table[at + i] = entry;
        }
    }
    return true;
}

static inline uint32_t look_up(const uint32_t *table, uint32_t main, uint64_t bits) {
    uint32_t entry = table[bits & mask(main)];
    if (entry & SUBTABLE) entry = table[BASE(entry) + ((bits >> main) & mask(CODE(entry)))];
    return entry;
}

/* ---- headers -------------------------------------------------------------------------------------- */

/* Take bits [from, state->bit) of the input as the block's header. */
static bool keep_header(work *w, uint64_t from) {
    inflater *state = w->state;
    uint64_t bits = state->bit - from;
    if (bits > 8 * INFLATE_MOST_HEADER) return false;
    memset(state->header, 0, sizeof state->header);
    for (uint32_t i = 0; 8 * i < bits; i++) {
        uint64_t bit = from + 8 * i;
        size_t byte = (size_t)(bit >> 3);
        uint32_t two = w->in[byte] | (byte + 1 < w->size ? (uint32_t)w->in[byte + 1] << 8 : 0);
        state->header[i] = (uint8_t)(two >> (bit & 7));
    }
    if (bits & 7) state->header[bits >> 3] &= (uint8_t)mask(bits & 7);
    state->header_bits = (uint32_t)bits;
    return true;
}

static inflate_status dynamic_block(work *w) {
    inflater *state = w->state;
    const uint64_t from = state->bit;
    uint8_t lengths[320] = {0}, order[19] = {0};
    uint32_t table[1 << LENGTH_BITS];
    if (left(w) < 17) return short_of(w);
    uint64_t bits = peek(w) >> 3;
    uint32_t literals = 257 + (bits & 31), distances = 1 + ((bits >> 5) & 31),
             count = 4 + ((bits >> 10) & 15);
    if (literals > 286 || distances > 30) return bad(w, "too many length or distance symbols");
    if (left(w) < 17 + 3 * count) return short_of(w);
    state->bit += 17;
    for (uint32_t i = 0; i < count; i++, state->bit += 3) order[ORDER[i]] = (uint8_t)(peek(w) & 7);
    inflate_status found = INFLATE_FULL;
    if (!make_table(table, 1 << LENGTH_BITS, LENGTH_BITS, LENGTHS, order, 19)) {
        found = bad(w, "invalid code lengths set");
    }
    uint32_t i = 0;
    while (found == INFLATE_FULL && i < literals + distances) {
        bits = peek(w);
        uint32_t entry = table[bits & mask(LENGTH_BITS)], symbol = BASE(entry),
                 takes = TAKES(entry);
        uint32_t extra = symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
        if (takes + extra > left(w)) {
            found = short_of(w);
        } else if (entry & EXCEPTION) {
            found = bad(w, "invalid code lengths set");
        } else if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
        } else if (symbol == 16 && i == 0) {
            found = bad(w, "invalid bit length repeat");
        } else {
            uint32_t times = (symbol == 18 ? 11u : 3u) + (uint32_t)((bits >> takes) & mask(extra));
            uint8_t value = symbol == 16 ? lengths[i - 1] : 0;
            if (times > literals + distances - i)
                found = bad(w, "invalid bit length repeat");
            else
                memset(lengths + i, value, times), i += times;
        }
        if (found == INFLATE_FULL) state->bit += takes + extra;
    }
    if (found == INFLATE_FULL) {
        if (lengths[256] == 0)
            found = bad(w, "invalid code: no end of block");
        else if (!make_table(state->literals, INFLATE_LITERALS, LITERAL_BITS, LITERALS, lengths,
                             literals))
            found = bad(w, "invalid literal/lengths set");
        else if (!make_table(state->distances, INFLATE_DISTANCES, DISTANCE_BITS, DISTANCES,
                             lengths + literals, distances))
            found = bad(w, "invalid distances set");
        else if (!keep_header(w, from))
            found = bad(w, "invalid code lengths set");
    }
    if (found != INFLATE_FULL) state->bit = from; /* read again when more is there */
    return found;
}

static void fixed_tables(inflater *state) {
    uint8_t lengths[288], distances[32];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    memset(distances, 5, sizeof distances);
    make_table(state->literals, INFLATE_LITERALS, LITERAL_BITS, LITERALS, lengths, 288);
    make_table(state->distances, INFLATE_DISTANCES, DISTANCE_BITS, DISTANCES, distances, 32);
}

/* FULL: there is a block to go on with. */
static inflate_status block_header(work *w) {
    inflater *state = w->state;
    if (left(w) < 3) return short_of(w);
    const uint64_t from = state->bit, bits = peek(w);
    const uint32_t type = (bits >> 1) & 3;
    inflate_status found = INFLATE_FULL;
    if (type == 0) {
        uint64_t data = (from + 3 + 7) / 8 + 4; /* LEN and NLEN are in whole bytes */
        if (8 * data > w->bits) return short_of(w);
        uint32_t both = load32(w->in + data - 4), length = both & 0xFFFF;
        if ((length ^ 0xFFFF) != both >> 16) return bad(w, "invalid stored block lengths");
        state->stored = length;
        state->bit = 8 * data;
        state->phase = STORED;
    } else if (type == 1) {
        fixed_tables(state);
        state->bit += 3;
        keep_header(w, from);
        state->phase = SYMBOLS;
    } else if (type == 2) {
        found = dynamic_block(w);
        if (found == INFLATE_FULL) state->phase = SYMBOLS;
    } else {
        found = bad(w, "invalid block type");
    }
    if (found == INFLATE_FULL) state->last = bits & 1;
    return found;
}

/* Skip one zero-terminated text of a gzip header. 0 if the input ends before its end does. */
static size_t behind_text(const work *w, size_t at) {
    const uint8_t *end = at < w->size ? memchr(w->in + at, 0, w->size - at) : NULL;
    return end == NULL ? 0 : (size_t)(end - w->in) + 1;
}

/* The CRC that gzip has of a header: few have one, and so no table is kept for it. */
static uint32_t crc_of_header(const uint8_t *head, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= head[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static inflate_status gzip_header(work *w, size_t at) {
    const uint8_t *head = w->in + at;
    size_t size = w->size - at;
    if (head[0] != 0x1F)
        return bad(w, w->state->members ? "other bytes lie behind the end of the gzip data"
                                        : "incorrect header check");
    if (size >= 2 && head[1] != 0x8B) return bad(w, "incorrect header check");
    if (size < 10) return short_of(w);
    if (head[2] != 8) return bad(w, "unknown compression method");
    uint8_t flags = head[3];
    if (flags & 0xE0) return bad(w, "unknown header flags set");
    at += 10;
    if (flags & 4) {
        if (w->size - at < 2) return short_of(w);
        at += 2u + (size_t)(w->in[at] | w->in[at + 1] << 8);
    }
    for (int text = 8; text <= 16; text *= 2) {
        if (flags & text && (at = behind_text(w, at)) == 0) return short_of(w);
    }
    if (at > w->size) return short_of(w);
    if (flags & 2) {
        if (w->size - at < 2) return short_of(w);
        uint32_t crc = crc_of_header(head, (size_t)(w->in + at - head)) & 0xFFFF;
        if (crc != (uint32_t)(w->in[at] | w->in[at + 1] << 8)) return bad(w, "header crc mismatch");
        at += 2;
    }
    w->state->bit = 8 * (uint64_t)at;
    return INFLATE_FULL;
}

static inflate_status zlib_header(work *w, size_t at) {
    if (w->size - at < 2) return short_of(w);
    uint32_t method = w->in[at], flags = w->in[at + 1];
    if ((method << 8 | flags) % 31) return bad(w, "incorrect header check");
    if ((method & 15) != 8) return bad(w, "unknown compression method");
    if (method >> 4 > 7) return bad(w, "invalid window size");
    if (flags & 32) return bad(w, "a preset dictionary is needed, and nobody has it");
    w->state->bit += 16;
    return INFLATE_FULL;
}

static inflate_status padding(work *w) {
    for (size_t at = (size_t)(w->state->bit >> 3); at < w->size; at++) {
        if (w->in[at]) return bad(w, "other bytes lie behind the zeros that follow the gzip data");
    }
    w->state->bit = w->bits;
    return w->final ? INFLATE_END : INFLATE_MORE;
}

static inflate_status member_header(work *w) {
    inflater *state = w->state;
    size_t at = (size_t)(state->bit >> 3);
    if (at == w->size) return !w->final ? INFLATE_MORE : state->members ? INFLATE_END : INFLATE_CUT;
    const bool gzip = state->container == INFLATE_GZIP;
    if (gzip && state->members && w->in[at] == 0) {
        state->phase = PADDING;
        return INFLATE_FULL;
    }
    inflate_status found = gzip ? gzip_header(w, at) : zlib_header(w, at);
    if (found != INFLATE_FULL) return found;
    state->members++;
    state->phase = BLOCK;
    w->floor = w->at;
    return INFLATE_FULL;
}

static inflate_status trailer(work *w) {
    inflater *state = w->state;
    const bool gzip = state->container == INFLATE_GZIP;
    uint64_t at = (state->bit + 7) / 8, end = at + (gzip ? 8 : 4);
    if (end > w->size) return short_of(w);
    state->check = load32(w->in + at);
    if (gzip)
        state->length = load32(w->in + at + 4);
    else
        state->check = state->check >> 24 | (state->check >> 8 & 0xFF00) |
                       (state->check & 0xFF00) << 8 | state->check << 24;
    state->bit = 8 * end;
    state->phase = MEMBER;
    return INFLATE_MEMBER;
}

/* ---- data ----------------------------------------------------------------------------------------- */

static inflate_status stored(work *w) {
    inflater *state = w->state;
    size_t from = (size_t)(state->bit >> 3), size = w->size - from, room = w->limit - w->at;
    size_t take = state->stored < size ? state->stored : size;
    if (take > room) take = room;
    memcpy(w->out + w->at, w->in + from, take);
    w->at += take;
    state->stored -= (uint32_t)take;
    state->bit += 8 * (uint64_t)take;
    if (state->stored == 0) {
        state->phase = state->last ? TRAILER : BLOCK;
        return INFLATE_FULL;
    }
    return w->at == w->limit ? INFLATE_FULL : short_of(w);
}

/* Remember which bytes before the mark are copied. */
static void mark(const work *w, size_t mark_at, size_t from, size_t length) {
    if (from >= mark_at) return;
    if (length > mark_at - from) length = mark_at - from;
    memset(w->state->marks + (INFLATE_WINDOW - (mark_at - from)), 1, length);
}

static inline uint8_t *copied(uint8_t *out, size_t distance, size_t length) {
    const uint8_t *from = out - distance;
    uint8_t *end = out + length;
    if (distance >= 16) {
        do {
            memcpy(out, from, 16);
            out += 16, from += 16;
        } while (out < end);
    } else if (distance >= 8) {
        do {
            memcpy(out, from, 8);
            out += 8, from += 8;
        } while (out < end);
    } else if (distance == 1) {
        memset(out, *from, length);
    } else {
        while (out < end) *out++ = *from++;
    }
    return end;
}

/* As far as neither input nor output can end within a step, or to a symbol that is wrong: the careful
 * loop meets it again, and says why. */
static void fast_symbols(work *w) {
    enum { INPUT = 16, OUTPUT = 258 + 3 };
    inflater *state = w->state;
    const uint32_t *literals = state->literals, *distances = state->distances;
    if (w->size < INPUT || w->limit < OUTPUT) return;
    const uint8_t *in = w->in + (state->bit >> 3), *in_end = w->in + w->size - INPUT;
    uint8_t *out = w->out + w->at, *floor = w->out + w->floor;
    const uint8_t *out_end = w->out + w->limit - OUTPUT;
    if (in > in_end || out > out_end) return;
    uint64_t bits = load64(in) >> (state->bit & 7);
    uint32_t held = 64 - (uint32_t)(state->bit & 7);
    in += 8;
#define REFILL()                                                                                   \
    do {                                                                                           \
        bits |= load64(in) << held;                                                                \
        in += (63 - held) >> 3;                                                                    \
        held |= 56;                                                                                \
    } while (0)
#define TAKE(entry) (bits >>= TAKES(entry), held -= TAKES(entry))
    if (held == 64) { /* a shift by 64 is undefined */
        in -= 1;
        held = 56;
        bits &= mask(56);
    }
    while (in <= in_end && out <= out_end) {
        REFILL();
        uint32_t entry = literals[bits & mask(LITERAL_BITS)];
        if (entry & LITERAL) {
            TAKE(entry);
            *out++ = (uint8_t)BASE(entry);
            entry = literals[bits & mask(LITERAL_BITS)];
            if (entry & LITERAL) {
                TAKE(entry);
                *out++ = (uint8_t)BASE(entry);
                entry = literals[bits & mask(LITERAL_BITS)];
                if (entry & LITERAL) {
                    TAKE(entry);
                    *out++ = (uint8_t)BASE(entry);
                    continue;
                }
            }
            REFILL();
        }
        if (entry & EXCEPTION) {
            if (entry & SUBTABLE)
                entry = literals[BASE(entry) + ((bits >> LITERAL_BITS) & mask(CODE(entry)))];
            if (entry & LITERAL) {
                TAKE(entry);
                *out++ = (uint8_t)BASE(entry);
                continue;
            }
            if (entry & EXCEPTION) {
                if (BASE(entry)) {
                    TAKE(entry);
                    state->phase = state->last ? TRAILER : BLOCK;
                }
                break;
            }
        }
        uint64_t before = bits;
        const uint32_t held_before = held;
        TAKE(entry);
        const size_t length = BASE(entry) + (size_t)((before & mask(TAKES(entry))) >> CODE(entry));
        entry = look_up(distances, DISTANCE_BITS, bits);
        if (entry & EXCEPTION) {
            held = held_before;
            break;
        }
        before = bits;
        TAKE(entry);
        const size_t distance =
            BASE(entry) + (size_t)((before & mask(TAKES(entry))) >> CODE(entry));
        if (distance > (size_t)(out - floor)) {
            held = held_before;
            break;
        }
        out = copied(out, distance, length);
    }
#undef REFILL
#undef TAKE
    w->at = (size_t)(out - w->out);
    state->bit = 8 * (uint64_t)(in - w->in) - held;
}

/* Symbol by symbol, to the end of the block, of the input or of the room. */
static inflate_status careful_symbols(work *w, size_t mark_at) {
    inflater *state = w->state;
    const bool marks = state->marks != NULL;
    while (state->phase == SYMBOLS) {
        if (w->at >= w->limit && !w->exact) return INFLATE_FULL;
        if (marks && w->at >= mark_at + INFLATE_WINDOW)
            return INFLATE_FULL; /* nothing is copied from there */
        const uint64_t have = left(w);
        uint64_t bits = peek(w);
        const uint32_t entry = look_up(state->literals, LITERAL_BITS, bits);
        uint32_t takes = TAKES(entry);
        if (takes > have) return short_of(w);
        if (entry & LITERAL) {
            if (w->at >= w->limit) return INFLATE_FULL;
            w->out[w->at++] = (uint8_t)BASE(entry);
            state->bit += takes;
            continue;
        }
        if (entry & EXCEPTION) {
            if (!BASE(entry))
                return have < MOST_BITS ? short_of(w) : bad(w, "invalid literal/length code");
            state->phase = state->last ? TRAILER : BLOCK;
            state->bit += takes;
            break;
        }
        const size_t length = BASE(entry) + (size_t)((bits & mask(takes)) >> CODE(entry));
        bits >>= takes;
        const uint32_t far = look_up(state->distances, DISTANCE_BITS, bits);
        takes += TAKES(far);
        if (takes > have) return short_of(w);
        if (far & EXCEPTION) return have < 48 ? short_of(w) : bad(w, "invalid distance code");
        const size_t distance = BASE(far) + (size_t)((bits & mask(TAKES(far))) >> CODE(far));
        if (distance > w->at - w->floor) return bad(w, "invalid distance too far back");
        if (w->exact && length > w->limit - w->at) return INFLATE_FULL;
        if (marks) mark(w, mark_at, w->at - distance, length);
        for (uint8_t *out = w->out + w->at, *end = out + length; out < end; out++)
            *out = *(out - distance);
        w->at += length;
        state->bit += takes;
    }
    return INFLATE_FULL;
}

static inflate_status symbols(work *w, size_t begin) {
    inflater *state = w->state;
    if (state->marks != NULL) {
        /* the mark may be before out[0]: all is counted from there */
        size_t since = state->since_mark + (w->at - begin);
        if (since < INFLATE_WINDOW) return careful_symbols(w, w->at - since);
        state->marks = NULL;
    }
    fast_symbols(w);
    return state->phase != SYMBOLS ? INFLATE_FULL : careful_symbols(w, 0);
}

/* ---- a call --------------------------------------------------------------------------------------- */

static inflate_status step(work *w, size_t begin) {
    switch (w->state->phase) {
    case MEMBER: return member_header(w);
    case PADDING: return padding(w);
    case BLOCK: return block_header(w);
    case STORED: return stored(w);
    case TRAILER: return trailer(w);
    default: return symbols(w, begin);
    }
}

/* Whether the room is used up: within a block, or where another member begins. */
static bool is_full(const work *w) {
    const inflater *state = w->state;
    const size_t byte = (size_t)(state->bit >> 3);
    if (state->phase == MEMBER) {
        return w->at >= w->limit && w->exact && state->members && byte < w->size &&
               w->in[byte] != 0;
    }
    if (state->phase == STORED) return w->at >= w->limit && state->stored;
    return w->at >= w->limit && !w->exact && state->phase == SYMBOLS;
}

inflate_status inflate_run(inflater *state, const uint8_t *in, size_t size, bool final,
                           uint8_t *out, size_t *at, size_t limit, bool exact) {
    const size_t begin = *at;
    work w = {.state = state,
              .in = in,
              .size = size,
              .bits = 8 * (uint64_t)size,
              .final = final,
              .out = out,
              .at = begin,
              .limit = limit,
              .floor = begin - state->reach,
              .exact = exact};
    inflate_status found = INFLATE_FULL;
    while (found == INFLATE_FULL && !is_full(&w)) {
        const uint64_t bit = state->bit;
        const size_t was = w.at;
        const int phase = state->phase;
        found = step(&w, begin);
        /* exact: a symbol goes beyond the limit, and so nothing has moved */
        if (found == INFLATE_FULL && state->bit == bit && w.at == was && state->phase == phase)
            break;
    }
    state->since_mark += w.at - begin;
    state->reach = w.at - w.floor < INFLATE_WINDOW ? w.at - w.floor : INFLATE_WINDOW;
    *at = w.at;
    return found;
}

void inflate_begin(inflater *state, inflate_container container) {
    memset(state, 0, offsetof(inflater, literals));
    state->container = container;
    state->phase = MEMBER;
}

bool inflate_resume(inflater *state, inflate_container container, const uint8_t *header,
                    uint32_t bits, size_t reach) {
    inflate_begin(state, container);
    state->members = 1;
    if (bits == 0) return true;
    if (bits > 8 * INFLATE_MOST_HEADER || reach > INFLATE_WINDOW) return false;
    const size_t size = (bits + 7) / 8;
    work w = {.state = state, .in = header, .size = size, .bits = bits, .final = true};
    if (block_header(&w) != INFLATE_FULL || state->bit != bits) return false;
    if (state->phase == STORED && state->stored == 0) return false;
    state->bit = 0;
    state->reach = reach;
    return true;
}

uint32_t inflate_header(const inflater *state, uint8_t header[INFLATE_MOST_HEADER]) {
    if (state->phase == STORED) { /* a block of the bytes that are left */
        const uint32_t length = state->stored;
        header[0] = state->last ? 1 : 0;
        store32(header + 1, length | (length ^ 0xFFFF) << 16);
        return 40;
    }
    if (state->phase != SYMBOLS) return 0;
    memcpy(header, state->header, INFLATE_MOST_HEADER);
    return state->header_bits;
}
