"""Compressed files as other programs write them."""

from __future__ import annotations

import gzip
import io
import random
import zlib
from collections.abc import Callable

import pytest

from tests.support.framed import framed

__all__ = ["KINDS", "codec_of", "many_members", "short_blocks", "texts"]


def texts(count: int, most: int = 20_000, seed: int = 1) -> list[bytes]:
    """Records that compress to a third, of up to ``most`` bytes."""
    chosen = random.Random(seed)
    words = [chosen.randbytes(chosen.randrange(2, 9)).hex().encode() for _ in range(400)]
    lengths = [chosen.randrange(most // 9) for _ in range(count)]
    return [b"%d:" % i + b" ".join(chosen.choices(words, k=n)) for i, n in enumerate(lengths)]


def packed(
    raw: bytes, wbits: int, level: int = 6, strategy: int = zlib.Z_DEFAULT_STRATEGY
) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, wbits, 9, strategy)
    return packer.compress(raw) + packer.flush()


def many_members(raw: bytes, nbytes: int = 65_280) -> bytes:
    """As bgzip does: a member for each so many bytes, with an extra field in its header."""
    parts = [raw[at : at + nbytes] for at in range(0, len(raw), nbytes)]
    return b"".join(map(_member, [*parts, b""]))


def _member(raw: bytes) -> bytes:
    body = packed(raw, -15)
    extra = b"BC\x02\x00" + (len(body) + 25).to_bytes(2, "little")
    head = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff" + len(extra).to_bytes(2, "little") + extra
    ends = zlib.crc32(raw).to_bytes(4, "little") + len(raw).to_bytes(4, "little")
    return head + body + ends


def _flushed(raw: bytes, mode: int, wbits: int = 31) -> bytes:
    """As pigz (sync flushes), or as ``gzip --rsyncable`` (full ones now and then)."""
    packer, found, chosen = zlib.compressobj(6, zlib.DEFLATED, wbits), b"", random.Random(3)
    at = 0
    while at < len(raw):
        step = 128 << 10 if mode == zlib.Z_SYNC_FLUSH else chosen.randrange(1, 30_000)
        found += packer.compress(raw[at : at + step]) + packer.flush(mode)
        at += step
    return found + packer.flush()


def _with_name(raw: bytes) -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile("some name.tfrecord", "wb", fileobj=file, mtime=1) as packer:
        packer.write(raw)
    return file.getvalue()


KINDS: dict[str, Callable[[bytes], bytes]] = {
    **{f"GZIP level {i}": lambda raw, i=i: packed(raw, 31, i) for i in range(10)},
    **{f"ZLIB level {i}": lambda raw, i=i: packed(raw, 15, i) for i in (0, 1, 6, 9)},
    "GZIP of fixed codes, one block": lambda raw: packed(raw, 31, 6, zlib.Z_FIXED),
    "ZLIB of Huffman codes alone": lambda raw: packed(raw, 15, 6, zlib.Z_HUFFMAN_ONLY),
    "GZIP with a name": _with_name,
    "GZIP of many members": many_members,
    "GZIP of three members": lambda raw: b"".join(
        packed(raw[len(raw) * i // 3 : len(raw) * (i + 1) // 3], 31) for i in range(3)
    ),
    "GZIP with sync flushes": lambda raw: _flushed(raw, zlib.Z_SYNC_FLUSH),
    "GZIP with full flushes": lambda raw: _flushed(raw, zlib.Z_FULL_FLUSH),
    "ZLIB with sync flushes": lambda raw: _flushed(raw, zlib.Z_SYNC_FLUSH, 15),
    "GZIP and zeros": lambda raw: packed(raw, 31) + bytes(1000),
    "ZLIB of two streams": lambda raw: packed(raw[:70_000], 15) + packed(raw[70_000:], 15),
}
"""Each makes a file of a raw one."""


def codec_of(kind: str) -> str:
    return kind[:4]


def foreign(kind: str, records: list[bytes]) -> bytes:
    return KINDS[kind](framed(records))


def short_blocks(patch: pytest.MonkeyPatch) -> None:
    """From here on, an index has a checkpoint for each 4 KiB of a file, however much that takes."""
    patch.setattr("tfio_store.dataset.inflate.build.BLOCK_BYTES", 4096)
    patch.setattr("tfio_store.dataset.inflate.build._SHARE", 0)
