/* Pixels to another size in plain C: no Python.h, no I/O.
 *
 * Each pixel is the mean of those that it stands for, weighted by a triangle, as Pillow's bilinear
 * filter and torchvision's with antialiasing have it. Rows are added up first, then columns, with
 * whole numbers: weights have 14 bits, and there is one rounding at the end, so that values are at
 * most 1 apart from Pillow's.
 */
#ifndef TFIO_STORE_RESIZE_H
#define TFIO_STORE_RESIZE_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    RESIZE_OK = 0,
    RESIZE_NO_MEMORY,
    RESIZE_TOO_MANY, /* a pixel stands for more than RESIZE_TAPS in a row or column */
} resize_status;

/* Weights of so many pixels still have enough bits. */
#define RESIZE_TAPS 1024

/* The part of a picture that is taken, in pixels and parts of one. */
typedef struct {
    double left, top, right, bottom;
} resize_box;

/* `pixels`: rows of `width` pixels of 1, 3 or 4 bytes (`deep`), without gaps. `out`: rows of
 * `out_width` pixels of as many bytes.
 * The box lies within the picture, and no size is 0. */
resize_status resize_pixels(const uint8_t *pixels, size_t height, size_t width, size_t deep,
                            const resize_box *box, uint8_t *out, size_t out_height,
                            size_t out_width);

#endif
