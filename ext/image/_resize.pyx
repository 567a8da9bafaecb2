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
