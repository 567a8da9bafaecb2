"""Sources whose records count from 0 on, and what the standard library reads in them."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tfio_store.example import decode_examples, encode_example
from tfio_store.records.framing import FrameWriter
from tfio_store.testing.site import Site
from tfio_store.write.sharded_writer import ShardedWriter

COUNT = 503
SCHEMA = {"x": "int64"}
KINDS = ("dataset", "GZIP dataset", "ZLIB dataset", "file", "files", "GZIP file")

_INFLATED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "GZIP": gzip.decompress,
    "ZLIB": zlib.decompress,
}


def framed(numbers: Iterable[int], pad: int = 40) -> bytes:
    """A file of Examples whose feature ``x`` is a number."""
    writer = FrameWriter()
    writer.write_many(encode_example({"x": number, "pad": bytes(pad)}) for number in numbers)
    return bytes(writer.take())


def written(site: Site, kind: str, numbers: range = range(COUNT)) -> Any:
    """A source of one of `KINDS`, of several blocks or files."""
    codec, _, what = kind.rpartition(" ")
    if what == "dataset":
        with ShardedWriter(
            site.url("train"),
            num_shards=3,
            block_bytes=4096,
            compression=codec or None,
            schema=SCHEMA,
            storage=site.storage,
        ) as writer:
            for number in numbers:
                writer.write(encode_example({"x": number, "pad": bytes(40)}))
        return site.url("train")
    if what == "files":
        for name, part in zip("cab", (numbers[:200], numbers[:0], numbers[200:]), strict=True):
            site.put(f"part-{name}", framed(part))
        return [site.url(f"part-{name}") for name in "cab"]
    site.put("x", gzip.compress(framed(numbers), 1) if codec else framed(numbers))
    return site.url("x")


def numbers_of(site: Site, kind: str) -> list[int]:
    """The numbers of a source of a kind, in their order."""
    shards = [name for name in site.names() if name.startswith("train-")]
    names = {"dataset": shards, "files": ["part-c", "part-a", "part-b"], "file": ["x"]}
    codec, _, what = kind.rpartition(" ")
    found: list[int] = []
    for name in names[what]:
        data, at = _INFLATED[codec](site.get(name)), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            found += numbers_in(data[at + 12 : at + 12 + size])
            at += size + 16
    return found


def numbers_in(*records: bytes) -> list[int]:
    """The numbers of records."""
    found: list[int] = np.asarray(decode_examples(list(records), SCHEMA)["x"]).tolist()
    return found
