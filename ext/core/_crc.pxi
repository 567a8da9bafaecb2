# CRC32C of anything that exports a buffer.


cdef uint32_t to_crc(object value, str name) except? 0:
    number = operator.index(value)
    if not 0 <= number <= 0xFFFFFFFF:
        raise ValueError(f"{name} must be a CRC (0 to 2**32 - 1), got {number}")
    return <uint32_t> number


cdef uint32_t crc_of(object data, uint32_t value) except? 0:
    cdef Py_buffer view
    if PyBytes_CheckExact(data) and PyBytes_GET_SIZE(data) < NOGIL_BYTES:
        return crc32c_extend(
            value, <const uint8_t *> PyBytes_AS_STRING(data), <size_t> PyBytes_GET_SIZE(data))
    get_buffer(data, &view, "data")
    if view.len < NOGIL_BYTES:
        value = crc32c_extend(value, <const uint8_t *> view.buf, <size_t> view.len)
    else:
        with nogil:
            value = crc32c_extend(value, <const uint8_t *> view.buf, <size_t> view.len)
    PyBuffer_Release(&view)
    return value


def crc32c(data, value=0):
    """Compute the CRC32C (Castagnoli) of bytes.

    Args:
        data (bytes-like): The bytes.
        value (int): The CRC32C of the bytes before them. Default 0.

    Returns:
        int: From 0 to 2**32 - 1.

    Example:
        >>> tfs.crc32c(b"123456789") == tfs.crc32c(b"6789", tfs.crc32c(b"12345")) == 0xE3069283
        True
    """
    return crc_of(data, 0 if value is 0 else to_crc(value, "value"))


def masked_crc32c(data):
    """Compute the CRC as TFRecord stores it: rotated right by 15 bits, plus 0xa282ead8.

    Args:
        data (bytes-like): The bytes.

    Returns:
        int: From 0 to 2**32 - 1.

    Example:
        >>> hex(tfs.masked_crc32c(b"123456789"))
        '0xc78ab0e5'
    """
    return crc32c_mask(crc_of(data, 0))


def crc32c_combine(first, second, second_length):
    """CRC32C of a+b from ``first`` = crc32c(a), ``second`` = crc32c(b), in O(log n)."""
    length = operator.index(second_length)
    if not 0 <= length < 2**64:
        raise ValueError(f"second_length must be from 0 to 2**64 - 1, got {length}")
    return combine(to_crc(first, "first"), to_crc(second, "second"), <uint64_t> length)


def crc_backend():
    """The CRC kernel in use."""
    return crc32c_active.name.decode()
