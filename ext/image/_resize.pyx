"""Pixels to another size, and scans of a JPEG. The contract is tfio_store/example/_resize.pyi, the way ext/image/resize.h."""

from libc.stdint cimport uint8_t
from libc.string cimport memchr

cdef extern from "image/resize.h" nogil:
    ctypedef enum resize_status:
        RESIZE_OK
        RESIZE_NO_MEMORY
        RESIZE_TOO_MANY
    ctypedef struct resize_box:
        double left
        double top
        double right
        double bottom
    resize_status resize_pixels(const uint8_t *pixels, size_t height, size_t width, size_t deep,
                                const resize_box *box, uint8_t *out, size_t out_height,
                                size_t out_width)


def resize(const uint8_t[:, :, ::1] pixels, uint8_t[:, :, ::1] out, box=None):
    cdef Py_ssize_t height = pixels.shape[0], width = pixels.shape[1], deep = pixels.shape[2]
    cdef resize_box part = resize_box(0, 0, <double> width, <double> height)
    cdef resize_status status
    if not (height and width and out.shape[0] and out.shape[1]):
        raise ValueError("pixels and out must not be empty")
    if deep != out.shape[2] or deep not in (1, 3, 4):
        raise ValueError(f"cannot make {out.shape[2]} channels of {deep}")
    if box is not None:
        part.left, part.top, part.right, part.bottom = box
        if not (0 <= part.left < part.right <= width and 0 <= part.top < part.bottom <= height):
            raise ValueError(f"box {box} is not inside {height} x {width} pixels")
    with nogil:
        status = resize_pixels(&pixels[0, 0, 0], <size_t> height, <size_t> width, <size_t> deep,
                               &part, &out[0, 0, 0], <size_t> out.shape[0], <size_t> out.shape[1])
    if status == RESIZE_NO_MEMORY:
        raise MemoryError
    return status == RESIZE_OK


def count_scans(const uint8_t[::1] data):
    cdef const uint8_t *at
    cdef const uint8_t *last
    cdef Py_ssize_t count = 0
    if data.shape[0] < 2:
        return 0
    at = &data[0]
    last = at + data.shape[0] - 1
    while at < last:
        at = <const uint8_t *> memchr(at, 0xFF, <size_t> (last - at))
        if not at:
            break
        at += 1
        count += at[0] == 0xDA
    return count


cdef const uint8_t *next_marker(const uint8_t *at, const uint8_t *end) noexcept:
    """Where the byte of the next marker lies, as libjpeg looks for it; NULL if there is none."""
    while True:
        at = <const uint8_t *> memchr(at, 0xFF, <size_t> (end - at))
        while at and at < end and at[0] == 0xFF:
            at += 1
        if not at or at == end:
            return NULL
        if at[0]:
            return at
        at += 1


def jpeg_size(const uint8_t[::1] data):
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef uint8_t marker
    cdef Py_ssize_t length
    if data.shape[0] < 4 or data[0] != 0xFF or data[1] != 0xD8:
        return None
    at, end = &data[0] + 2, &data[0] + data.shape[0]
    while at < end:
        at = next_marker(at, end)
        if not at or end - at < 9:
            return None
        marker = at[0]
        if 0xD0 <= marker <= 0xD9 or marker == 0xDA or marker == 0x01:  # without a length, or too late
            return None
        length = at[1] << 8 | at[2]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame
            return at[4] << 8 | at[5], at[6] << 8 | at[7], at[8]
        if length < 2 or end - at - 1 < length:
            return None
        at += 1 + length
    return None
