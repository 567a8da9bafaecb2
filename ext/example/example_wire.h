/* The wire, one field at a time. The files of the Example codec share it. */
#ifndef TFIO_STORE_EXAMPLE_WIRE_H
#define TFIO_STORE_EXAMPLE_WIRE_H

#include <stdbool.h>
#include <string.h>

#include "example/example.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "floats are copied as the wire has them: little-endian"
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Protobuf wire types, the low three bits of a tag. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
enum { TAG_BITS = 3, MAX_VARINT = 10 };
#define TAG(field, type) ((uint32_t)((field) << TAG_BITS | (type)))

static inline ex_status long_varint(ex_bytes *in, uint64_t *value) {
    uint64_t result = 0;
    for (size_t i = 0; i < in->size && i < MAX_VARINT; i++) {
        /* One bit of the tenth byte counts. The others fall off, as in protobuf. */
        result |= (uint64_t)(in->data[i] & 0x7f) << (7 * i);
        if (in->data[i] < 0x80) {
            in->data += i + 1;
            in->size -= i + 1;
            *value = result;
            return EX_OK;
        }
    }
    return EX_VARINT;
}

ALWAYS_INLINE ex_status get_varint(ex_bytes *in, uint64_t *value) {
    if (in->size && in->data[0] < 0x80) {
        *value = in->data[0];
        in->data++;
        in->size--;
        return EX_OK;
    }
    return long_varint(in, value);
}

/* Take the field at the front of `in`. `body` is its payload: the bytes that a length counts,
 * the 4 or 8 bytes of a fixed field, or the bytes of a varint. */
ALWAYS_INLINE ex_status next_field(ex_bytes *in, uint32_t *tag, ex_bytes *body) {
    uint64_t wide, size;
    ex_status status = get_varint(in, &wide);
    if (UNLIKELY(status)) return status;
    if (UNLIKELY(wide > UINT32_MAX || wide >> TAG_BITS == 0)) return EX_TAG;
    *tag = (uint32_t)wide;
    *body = *in;
    switch (*tag & 7) {
    case LENGTH:
        if (UNLIKELY((status = get_varint(in, &size)))) return status;
        body->data = in->data;
        break;
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case VARINT:
        if (UNLIKELY((status = get_varint(in, &size)))) return status;
        body->size = (size_t)(in->data - body->data);
        return EX_OK;
    default: return EX_GROUP;
    }
    if (UNLIKELY(size > in->size)) return EX_CUT;
    body->size = (size_t)size;
    in->data += size;
    in->size -= (size_t)size;
    return EX_OK;
}

#endif
