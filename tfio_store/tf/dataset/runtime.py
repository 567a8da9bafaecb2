"""What the ops call for everything but raw local files. There is no TensorFlow here.

All functions are stateless in effect: the same arguments give the same records, in any process.
`tfio_store.tf.patience` tells how they wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tfio_store.dataset.model import Block
from tfio_store.errors import DataLossError
from tfio_store.read.block import inflate_block, recover_block
from tfio_store.records.compression import codec_name, decompress
from tfio_store.records.framing import RecordBatch
from tfio_store.records.magic import detect
from tfio_store.storage import ReplacedError, threads
from tfio_store.storage.redaction import redacted
from tfio_store.tf.dataset.block_skips import BlockSkips
from tfio_store.tf.dataset.carried_storage import from_json
from tfio_store.tf.patience import Fetch
from tfio_store.tf.status import code_of, explained

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["begin_block", "classify", "inflate", "read_block"]

_skips = BlockSkips()


def _then(first: Future[BytesLike], change: Callable[[BytesLike], BytesLike]) -> Future[BytesLike]:
    """What ``change`` makes of the result of ``first``. As many threads as cores do that work."""
    pool = threads.pool("decode", os.cpu_count() or 1)
    changed: Future[BytesLike] = Future()

    def run() -> None:
        if not changed.set_running_or_notify_cancel():
            return
        try:
            changed.set_result(change(first.result()))
        except BaseException as error:
            changed.set_exception(error)

    def schedule(_: object) -> None:
        try:
            pool.submit(run)
        except RuntimeError as error:  # the interpreter is on its way out
            if changed.set_running_or_notify_cancel():
                changed.set_exception(error)

    first.add_done_callback(schedule)
    return changed


class _Stored(NamedTuple):
    """The stored bytes of one block: their place, and their version ("" where nobody knows it)."""

    url: str
    version: str
    start: int
    stop: int
    options: str

    def load(self, codec: str, raw: tuple[int, int]) -> Fetch[BytesLike]:
        """The bytes, decompressed if there is a codec."""
        store, path = from_json(self.options).open(self.url)
        fetched = store.read(path, self.start, self.stop, etag=self.version or None)
        if not codec:
            return Fetch(fetched)  # the op takes what is there
        block = Block(0, self.start, self.stop, *raw, 0)
        return Fetch(_then(fetched, partial(inflate_block, redacted(self.url), codec, block)))


def begin_block(
    url: str,
    codec: str,
    version: str,
    stored: tuple[int, int],
    raw: tuple[int, int],
    options: str,
) -> Fetch[BytesLike]:
    """Begin to fetch and decompress a block that `read_block` will want."""
    return _Stored(url, version, *stored, options).load(codec, raw)


def read_block(
    fetch: Fetch[BytesLike] | None,
    url: str,
    codec: str,
    version: str,
    stored: tuple[int, int],
    raw: tuple[int, int],
    options: str,
    verify: bool,
    skip_corrupt: bool,
    max_record_bytes: int,
    file_blocks: int,
    sums: tuple[int, int],
) -> BytesLike | RecordBatch:
    """The uncompressed bytes of one block. With ``skip_corrupt``, its good records.

    ``fetch`` is the answer of `begin_block`, if that was called; what it has not brought yet is
    waited for. ``stored`` and ``raw`` are bytes from and to: of the object, and of the uncompressed
    stream. With ``skip_corrupt`` the file is read in ``file_blocks`` blocks, and one warning tells
    of the damage in all of them. ``sums`` are those of its records up to the block and up to its
    end, or negative.
    ReplacedError where the object is no longer of this ``version`` ("" stands for any), or, with
    ``skip_corrupt``, where the block holds other records than ``sums`` tell of.
    """
    wanted = _Stored(url, version, *stored, options)
    try:
        data = (fetch or wanted.load(codec, raw)).result()
    except DataLossError:
        if not skip_corrupt:
            raise
        data, damaged = wanted.load("", raw).result(), codec
    else:
        damaged = ""
    if not skip_corrupt:
        return data
    told = None if sums[1] < 0 else sums
    block = Block(0, *(stored if damaged else raw), *raw, 0, sums=told)  # where `data` is from
    shown = redacted(url)
    batch, regions = recover_block(
        shown, damaged or None, block, data, verify=verify, max_record_bytes=max_record_bytes
    )
    way = (options, version, verify, max_record_bytes)
    _skips.read(way, shown, (stored[0], file_blocks), len(batch), regions)
    return batch


def inflate(stored: bytes, codec: str, limit: int) -> bytes | None:
    """What a whole file holds, uncompressed. None where its codec can't be told. StreamError where
    it is damaged, or more than ``limit`` bytes."""
    found = detect(stored) if codec == "auto" else codec_name(codec)
    return None if found is None else decompress(stored, found, limit=limit)


# --- errors ---------------------------------------------------------------------------------------

_REPLACED = "was replaced while it was being read; make the dataset again to read what is there now"


def classify(error: BaseException) -> tuple[int, str]:
    """The TensorFlow error code that means the same, and the text."""
    if isinstance(error, ReplacedError):
        return code_of(error), f"{error.filename}: {_REPLACED}"
    return code_of(error), explained(error, str(error))
