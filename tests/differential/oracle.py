"""TFRecord files in plain Python, of these tests' own: nothing here is the library's."""

from __future__ import annotations

import gzip
import struct
import zlib

import google_crc32c
import zstandard


def masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + masked_crc(length) + record + masked_crc(record)


def write(records: list[bytes]) -> bytes:
    return b"".join(map(frame, records))


def read(data: bytes) -> tuple[list[bytes], bool]:
    """The records before the first damage, and whether there was none."""
    records: list[bytes] = []
    at = 0
    while at < len(data):
        header = data[at : at + 12]
        if len(header) < 12 or masked_crc(header[:8]) != header[8:]:
            return records, False
        stop = at + 12 + struct.unpack("<Q", header[:8])[0]
        if masked_crc(data[at + 12 : stop]) != data[stop : stop + 4]:
            return records, False
        records.append(data[at + 12 : stop])
        at = stop + 4
    return records, True


def compress(data: bytes, codec: str | None) -> bytes:
    """One member, stream or frame; none at all for no data."""
    match codec:
        case "GZIP":
            return gzip.compress(data, 1)
        case "ZLIB":
            return zlib.compress(data, 1)
        case "ZSTD":
            return zstandard.compress(data)
    return data


def decompress(data: bytes, codec: str | None) -> bytes:
    """All members, streams or frames."""
    if codec == "GZIP":
        return gzip.decompress(data)
    if codec == "ZSTD":
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        return bytes(reader.read())
    if codec != "ZLIB":
        return data
    out = []
    while data:
        stream = zlib.decompressobj()
        out.append(stream.decompress(data))
        data = stream.unused_data
    return b"".join(out)
