"""Functions that the ops call for everything but raw local files: blocks, streams, and what was
skipped. No TensorFlow here.
"""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.header_walk import is_remote
from tfio_store.dataset.inflate.checkpoints import Restart
from tfio_store.dataset.inflate.index import checkpointed
from tfio_store.dataset.model import Block, Dataset, Shard, Shards
from tfio_store.dataset.source import is_whole, not_there
from tfio_store.errors import DataLossError, ReplacedError
from tfio_store.read.cursor import Position
from tfio_store.read.decode import NO_OFFSET, Decoding, FileSkips, inflate_block, recover_block
from tfio_store.read.reader import RecordReader
from tfio_store.records.compression import codec_name, decompress, detect
from tfio_store.records.framing import RecordBatch
from tfio_store.records.recovery import SkippedRegion
from tfio_store.storage import Store, Version
from tfio_store.storage.cores import workers
from tfio_store.storage.redaction import redacted
from tfio_store.storage.threads import PerProcess, quietly, start_daemon, then
from tfio_store.tf.bridge import Fetch, Step, code_of, explained
from tfio_store.tf.dataset.options import BlockRequest, Settings, StreamRequest, from_json

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


__all__ = [
    "BlockRequest",
    "BlockSkips",
    "Settings",
    "StreamRequest",
    "begin_block",
    "classify",
    "codec_text",
    "forget_steps",
    "inflate",
    "is_whole",
    "read_block",
    "read_stream",
]
"""The ops' module takes all but `BlockSkips` and `codec_text`: see its ``load_ops``."""


# Tracks what is skipped in files whose blocks are read one by one.
#
# Blocks of a file are read in any order, by any thread, and know nothing of each other. Here they
# come together: a pass over a file is each of its blocks once.


TELLING_SECONDS = 5.0
"""After waiting so long for its next block, a pass reports what it has: the rest may never be
read."""
OVERLAPPING = 2
"""Passes over one file at a time: the next epoch begins before the last one has ended."""
FILES = 4096


@dataclass(slots=True)
class _Pass:
    file: FileSkips = field(default_factory=FileSkips)
    blocks: set[int] = field(default_factory=set)
    used: float = 0.0


class BlockSkips:
    """Gives one `DataLossWarning` for each pass over a damaged file. A file in which nothing could
    be read is an error, which the reader of its last block gets. A pass that never ends (over a
    share of the blocks, or cut short) warns while it waits.
    """

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)
        atexit.register(self._tell, 0.0)

    def forget(self) -> None:
        """Start afresh in a forked child. It has no thread, and perhaps no free lock."""
        self._lock = threading.Lock()
        self._passes: OrderedDict[Hashable, list[_Pass]] = OrderedDict()
        self._watched = False

    def read(
        self,
        way: tuple[Hashable, ...],
        url: str,
        block: tuple[int, int],
        records: int,
        regions: Sequence[SkippedRegion],
    ) -> None:
        """Note the good ``records`` and the damaged ``regions`` of a block: the one at byte
        ``block[0]`` of the ``block[1]`` that the file has. ``way`` says how the file is read.

        Raises CorruptRecordError behind the last block of a file without a good record.
        """
        with self._lock:
            found = self._pass_without((url, *way), block[0])
            found.blocks.add(block[0])
            found.file.records += records
            for region in regions:
                found.file.add(region)
            found.used = time.monotonic()
            ended = len(found.blocks) == block[1]
            given_up = self._given_up((url, *way), found if ended else None)
        for each in given_up:
            each.file.say()
        if ended:
            found.file.end(url)
        elif found.file.untold:
            self._watch()

    def _pass_without(self, key: Hashable, block: int) -> _Pass:
        passes = self._passes.setdefault(key, [])
        self._passes.move_to_end(key)
        for each in passes:
            if block not in each.blocks:
                return each
        passes.append(_Pass())
        return passes[-1]

    def _given_up(self, key: Hashable, ended: _Pass | None) -> list[_Pass]:
        """Forget a pass that has ended. If there are too many passes, forget and return the
        oldest."""
        passes = self._passes[key]
        if ended is not None:
            passes.remove(ended)
        given_up = passes[:-OVERLAPPING]
        del passes[:-OVERLAPPING]
        if not passes:
            del self._passes[key]
        if len(self._passes) > FILES:
            given_up += self._passes.popitem(last=False)[1]
        return given_up

    def _watch(self) -> None:
        with self._lock:
            if self._watched:
                return
            self._watched = True
        # if no thread starts any more, `atexit` says so
        quietly(partial(start_daemon, self._run, "tfio_store-skips"))

    def _run(self) -> None:
        while True:
            time.sleep(TELLING_SECONDS)
            self._tell(TELLING_SECONDS)
            with self._lock:
                self._watched = any(
                    each.file.untold for passes in self._passes.values() for each in passes
                )
                if not self._watched:
                    return

    def _tell(self, idle: float) -> None:
        """Warn of passes that have waited for so many seconds."""
        before = time.monotonic() - idle
        with self._lock:
            waiting = [
                each for passes in self._passes.values() for each in passes if each.used <= before
            ]
        for each in waiting:
            quietly(each.file.say)  # no one here could catch a warning that is made an error


# Streams of records, for the op that reads them.
#
# `read_stream` keeps its streams open, so that it costs nothing to go on where a call ended. Where
# it finds no such stream (after a restore, or on another worker), it opens one and goes there.


STREAMS_KEPT = 256
IDLE_SECONDS = 30.0
"""A stream that is not read on gives up its memory after this: an iterator was dropped."""
STREAM_BUDGET = 32 << 20
TWINS = 4
"""Streams that are kept where they stand at the same place of the same file."""


class _Open(NamedTuple):
    reader: RecordReader
    batches: Iterator[RecordBatch]
    version: Version


def _open(asked: StreamRequest) -> _Open:
    """A reader of this version, which stands at the position.

    ReplacedError where the object is another by now."""
    storage = from_json(asked.settings.storage)
    codec = asked.codec if asked.codec == "auto" else codec_name(asked.codec)
    if not asked.url:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    store, path = storage.open(asked.url)
    try:
        info = store.info(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise not_there(asked.url, storage, error) from None
    version = Version(asked.version or None)
    version.hold(info.etag, store.url(path))
    shard = Shard(redacted(asked.url), info.size, codec, version=version)
    shard = shard.known(secret_url=asked.url)
    records, offset = asked.position
    reader = RecordReader.of(
        Dataset(Shards([shard]), storage),
        verify=asked.settings.verify,
        on_corrupt="skip" if asked.settings.skip_corrupt else "raise",
        memory_budget=STREAM_BUDGET,
        max_record_bytes=asked.settings.max_record_bytes,
        start=Position(records=records, offset=offset if records else NO_OFFSET),
    )
    return _Open(reader, reader.batches(), version)


class _Found(NamedTuple):
    """The next records of a stream, or None at its end."""

    opened: _Open
    batch: RecordBatch | None


class _Standing(NamedTuple):
    """The item at a place: an open stream, or the step that goes on from there."""

    what: _Open | Step[_Found]
    since: float

    def drop(self) -> None:
        if isinstance(self.what, _Open):
            self.what.reader.close()


def _place(asked: StreamRequest, records: int) -> StreamRequest:
    """The key of a stream that stands behind so many records."""
    return asked._replace(position=(records, NO_OFFSET))


class _OpenStreams:
    """Open streams by the places where calls ended. Without a lock (see `tfio_store.tf.bridge`):
    each method changes the table by operations that are whole by themselves."""

    def __init__(self) -> None:
        self._kept: dict[tuple[StreamRequest, int], _Standing] = {}

    def take(self, place: StreamRequest) -> _Open | Step[_Found] | None:
        for twin in range(TWINS):
            found = self._kept.pop((place, twin), None)
            if found is not None:
                return found.what
        return None

    def keep(self, place: StreamRequest, what: _Open | Step[_Found]) -> None:
        standing = _Standing(what, time.monotonic())
        for twin in range(TWINS):
            if self._kept.setdefault((place, twin), standing) is standing:
                break
        else:
            standing.drop()
        for key in self._outdated(standing.since):
            old = self._kept.pop(key, None)
            if old is not None:
                old.drop()

    def forget_steps(self) -> None:
        for key, each in self._kept.copy().items():
            if isinstance(each.what, Step) and not key[0].version:
                self._kept.pop(key, None)

    def _outdated(self, now: float) -> list[tuple[StreamRequest, int]]:
        """Those at the front of the table, which is in the order of time."""
        kept = self._kept.copy()
        surplus = len(kept) - STREAMS_KEPT
        old = []
        for i, (key, each) in enumerate(kept.items()):
            if i >= surplus and now - each.since < IDLE_SECONDS:
                break
            old.append(key)
        return old


_streams = PerProcess(_OpenStreams)


def forget_steps() -> None:
    """Leave steps that read any version to themselves. A new iterator must not find them, because
    the file may have been another when they began."""
    _streams.here.forget_steps()


def read_stream(asked: StreamRequest) -> tuple[RecordBatch, str, tuple[int, int]] | None:
    """Read about 1 MiB of a file's records; none at the end.

    The answer is the records; their version, which is that of ``asked`` unless that is ""; and the
    position behind them. None: they are on their way, and another call may find them."""
    place, streams = _place(asked, asked.position[0]), _streams.here
    standing = streams.take(place)
    if not isinstance(standing, Step):
        read = partial(_read_on, standing, asked)
        if not is_remote(asked.url):
            return _answer(read(), asked)
        standing = Step(read)
    if not standing.wait():
        streams.keep(place, standing)
        return None
    return _answer(standing.result(), asked)


def _read_on(opened: _Open | None, asked: StreamRequest) -> _Found:
    opened = opened or _open(asked)
    return _Found(opened, next((batch for batch in opened.batches if len(batch)), None))


def _answer(found: _Found, asked: StreamRequest) -> tuple[RecordBatch, str, tuple[int, int]]:
    opened, batch = found
    held = opened.version.etag or ""
    if batch is None:
        opened.reader.close()
        return RecordBatch.from_records([]), held, asked.position
    records = asked.position[0] + len(batch)
    _streams.here.keep(_place(asked._replace(version=held), records), opened)
    return batch, held, (records, opened.reader.state()["offset"])


# Blocks. These functions are stateless in effect: the same arguments give the same records, in any
# process. `tfio_store.tf.bridge` says how they wait.


_skips = BlockSkips()

_INDEXED = "@index"


def codec_text(shard: Shard) -> str:
    """A shard's compression, as the ops have it and hand it on to these functions."""
    codec = shard.compression or ""
    indexed = shard.blocks is not None and shard.blocks.checkpoints is not None
    return codec + _INDEXED if indexed else codec


def _wherever(
    store: Store, path: str, start: int, stop: int, version: Version
) -> Future[BytesLike]:
    """Begin to read bytes of a version, wherever it is by now."""
    first = store.read(path, start, stop, etag=version)
    if version.etag is None:
        return first
    found: Future[BytesLike] = Future()

    def elsewhere(missing: FileNotFoundError) -> BytesLike:
        version.move(store, path, missing)
        assert version.now is not None
        at, there = version.now
        return store.read(at, start, stop, etag=there).result()

    def look(missing: FileNotFoundError) -> None:
        try:
            found.set_result(elsewhere(missing))
        except BaseException as error:
            found.set_exception(error)

    def arrived(first: Future[BytesLike]) -> None:
        if not found.set_running_or_notify_cancel():
            return
        try:
            found.set_result(first.result())
        except FileNotFoundError as missing:
            start_daemon(partial(look, missing), "tfio_store-elsewhere")  # not in who calls back
        except BaseException as error:
            found.set_exception(error)

    first.add_done_callback(arrived)
    return found


def _load(asked: BlockRequest, codec: str) -> Fetch[BytesLike]:
    """The stored bytes of a block, decompressed if there is a codec."""
    store, path = from_json(asked.settings.storage).open(asked.url)
    fetched = _wherever(store, path, *asked.stored, Version(asked.version or None))
    if not codec:
        return Fetch(fetched)  # the op takes what is there
    name, block = _block(asked)
    inflate = partial(inflate_block, redacted(asked.url), name, block)
    if block.restart is None:
        return Fetch(then(workers(), fetched, lambda: inflate(fetched.result())))
    seed = _seed(asked, block.restart)
    return Fetch(then(workers(), fetched, lambda: inflate(fetched.result(), seed.result())))


def _block(asked: BlockRequest) -> tuple[str, Block]:
    """The plain name of the codec, and the block. ReplacedError if its index no longer has it, and
    ValueError for a codec that there is not, which only a graph of others can name."""
    given, indexed, _ = asked.codec.partition(_INDEXED)
    name = codec_name(given, argument="codecs")
    if name is None:
        raise ValueError(f"codecs must not be {asked.codec!r}: a raw file has no checkpoints")
    block = Block(0, *asked.stored, *asked.raw, 0)
    if not indexed:
        return name, block
    table = _table(asked.url, name, asked.version, asked.settings.storage)
    at = -1 if table is None else int(table.raw_offsets[:-1].searchsorted(asked.raw[0]))
    bounds = asked.stored, asked.raw
    if table is None or not 0 <= at < len(table) or _bounds(table, at) != bounds:
        raise ReplacedError(
            errno.ESTALE,
            "the index of this file was replaced or removed since the dataset was made; make "
            "it again",
            redacted(asked.url),
        )
    assert table.checkpoints is not None
    return name, replace(block, restart=table.checkpoints[at])


def _seed(asked: BlockRequest, restart: Restart) -> Future[BytesLike]:
    """Begin to read what the inflater of a block needs."""
    store, path = from_json(asked.settings.storage).open(restart.address)
    return store.read(path, restart.start, restart.stop, etag=restart.version)


def _bounds(table: BlockTable, at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The stored and the uncompressed bytes of a block, from and to."""
    stored = int(table.offsets[at]), int(table.stops[at])
    return stored, (int(table.raw_offsets[at]), int(table.raw_offsets[at + 1]))


@lru_cache(maxsize=256)
def _table(url: str, codec: str, version: str, options: str) -> BlockTable | None:
    """The blocks of a file by its index, which is read once."""
    storage = from_json(options)
    store, path = storage.open(url)
    nbytes = store.info(path).size
    shard = Shard.at(store, path, nbytes, compression=codec, version=Version(version or None))
    return checkpointed(Dataset(Shards(), storage), shard).blocks


def begin_block(asked: BlockRequest) -> Fetch[BytesLike]:
    """Begin to fetch and decompress a block that `read_block` will want."""
    return _load(asked, asked.codec)


def read_block(fetch: Fetch[BytesLike] | None, asked: BlockRequest) -> BytesLike | RecordBatch:
    """The uncompressed bytes of one block. With ``skip_corrupt``, its good records.

    ``fetch`` is the answer of `begin_block`, if that was called; what it has not brought yet is
    waited for. With ``skip_corrupt``, one warning tells of the damage in all blocks of the file.
    ReplacedError where the object is no longer of this version, or, with ``skip_corrupt``, where
    the block holds other records than the sums say.
    """
    settings = asked.settings
    try:
        data = (fetch or begin_block(asked)).result()
    except DataLossError:
        if not settings.skip_corrupt:
            raise
        data, damaged = _load(asked, "").result(), asked.codec
    else:
        damaged = ""
    if not settings.skip_corrupt:
        return data
    told, seed = None if asked.sums[1] < 0 else asked.sums, memoryview(b"")
    shown = redacted(asked.url)
    if damaged:
        damaged, block = _block(asked)
        block = replace(block, sums=told)
        if block.restart is not None:
            seed = memoryview(_seed(asked, block.restart).result())
    else:
        block = Block(0, *asked.raw, *asked.raw, 0, sums=told)  # where `data` is from
    how = Decoding(settings.verify, settings.max_record_bytes)
    batch, regions = recover_block(shown, damaged or None, block, data, how, seed)
    way = (asked.version, settings)
    _skips.read(way, shown, (asked.stored[0], asked.file_blocks), len(batch), regions)
    return batch


def inflate(stored: bytes, codec: str, limit: int) -> bytes | None:
    """The contents of a whole file, uncompressed. None where its codec is unknown. StreamError
    where it is damaged, or more than ``limit`` bytes."""
    found = detect(stored) if codec == "auto" else codec_name(codec)
    return None if found is None else decompress(stored, found, limit=limit)


# --- errors ---------------------------------------------------------------------------------------

_REPLACED = "was replaced while it was being read; make the dataset again to read what is there now"


def classify(error: BaseException) -> tuple[int, str]:
    """The TensorFlow error code that means the same, and the text."""
    if isinstance(error, ReplacedError):
        return code_of(error), f"{error.filename}: {_REPLACED}"
    return code_of(error), explained(error, str(error))
