"""``python -m bench.codecs``: what compresses and decompresses blocks of 1 MiB how fast.

The table by which `tfio_store.records.deflate` chose its libraries.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from typing import Any

import deflate
import zstandard
from isal import isal_zlib

from bench.timing import machine, table
from bench.writer import source_text

BLOCK = 1 << 20
GZIP = 31


def compressors() -> dict[str, Callable[[bytes], Any]]:
    found: dict[str, Callable[[bytes], Any]] = {}
    for level in (1, 6, 9):
        found[f"zlib {level}"] = lambda b, n=level: zlib.compress(b, n, GZIP)  # type: ignore[call-arg]
        found[f"libdeflate {level}"] = lambda b, n=level: deflate.gzip_compress(b, n)
    for level in (0, 1, 2, 3):
        found[f"isal {level}"] = lambda b, n=level: isal_zlib.compress(b, n, GZIP)
    for level in (1, 3, 6):
        found[f"zstd {level}"] = lambda b, n=level: zstandard.ZstdCompressor(level=n).compress(b)
    return found


DECOMPRESSORS: dict[str, Callable[[bytes], Any]] = {
    "zlib": lambda b: zlib.decompress(b, GZIP),
    "isal": lambda b: isal_zlib.decompress(b, GZIP),
    "libdeflate": deflate.gzip_decompress,
}


def rate(call: Callable[[bytes], Any], blocks: list[bytes], nbytes: int) -> str:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for block in blocks:
            call(block)
        best = min(best, time.perf_counter() - start)
    return f"{nbytes / best / 1e6:,.0f}"


def main() -> None:
    print(machine(), "\n")
    for kind, data in {"text": source_text(8 * BLOCK), "random": os.urandom(8 * BLOCK)}.items():
        blocks = [data[i : i + BLOCK] for i in range(0, len(data), BLOCK)]
        rows = [
            [
                name,
                rate(call, blocks, len(data)),
                f"{sum(map(len, map(call, blocks))) / len(data):.0%}",
            ]
            for name, call in compressors().items()
        ]
        print(table(f"compressing {kind}", ["", "MB/s", "size"], rows))
        packed = [zlib.compress(block, 6, GZIP) for block in blocks]  # type: ignore[call-arg]
        rows = [[name, rate(call, packed, len(data))] for name, call in DECOMPRESSORS.items()]
        print(table(f"decompressing {kind}", ["", "MB/s"], rows))


if __name__ == "__main__":
    main()
