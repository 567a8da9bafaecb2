"""The ops of `tfio_store.tf.dataset.ops` in Python. They serve where the bridge can't be loaded."""

from __future__ import annotations

import atexit
import time
from _thread import get_ident
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfio_store.errors import DataLossError, Reason, RecordTooLargeError
from tfio_store.read.decode import other_records
from tfio_store.records.damage import damaged, lacks_records
from tfio_store.records.framing import RecordBatch, RecordDecoder
from tfio_store.tf import bridge
from tfio_store.tf.dataset import runtime
from tfio_store.tf.dataset.options import BlockRequest, Settings, StreamRequest
from tfio_store.tf.dataset.spans import Blocks, group_of

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


_UINT64 = (1 << 64) - 1
_LATE = (DataLossError, RecordTooLargeError)


EXIT_SECONDS = 60.0
QUIET_LOOKS = 10
"""This many looks in a row, 20 ms apart, must find no call."""

_inside: dict[int, bool] = {}
"""The threads that are in a call."""


def _call(function: Callable[..., Any], inputs: list[Any], outputs: list[Any]) -> Any:
    def enter(*given: Any) -> Any:
        _inside[get_ident()] = True
        try:
            bridge.refuse_when_leaving()
            return function(*given)
        finally:
            _inside.pop(get_ident(), None)

    # for tf.data it is stateless: otherwise a pipeline could not be saved
    return tf.numpy_function(enter, inputs, outputs, stateful=False)


@atexit.register
def _leave() -> None:
    """The interpreter leaves: every call fails from now on. What TensorFlow reads ahead is full of
    failures soon, and then it calls no more."""
    bridge.leave()
    looks, until = 0, time.monotonic() + EXIT_SECONDS
    while looks < QUIET_LOOKS and time.monotonic() < until:
        time.sleep(0.02)  # without Python's lock, which they may wait for
        looks = 0 if _inside else looks + 1


def _strings(records: list[bytes]) -> Any:
    # dtype object: numpy's own strings lose zero bytes at their ends
    return np.array(records, dtype=object)


def read_blocks(
    blocks: Blocks, wanted: Any, seeds: Any, settings: Settings
) -> tuple[tf.Tensor, tf.Tensor]:
    """See `tfio_store.tf.dataset.ops.read_blocks`."""

    def read(
        files: Any,
        codecs: Any,
        versions: Any,
        table: Any,
        spans: Any,
        groups: Any,
        mark: Any,
        wanted: Any,
        seeds: Any,
    ) -> tuple[Any, bytes]:
        records: list[bytes] = []
        names = files, codecs, versions
        named = [[name.decode() for name in row] for row in zip(*names, strict=True)]
        try:
            for number in np.atleast_1d(wanted):
                group = group_of(int(number), mark)
                for block, *span in spans[groups[group] : groups[group + 1]] if group >= 0 else ():
                    _read_span(named, table, block, span, settings, records)
        except _LATE as error:
            if not (records and settings.partial):
                raise
            code, text = runtime.classify(error)
            return _strings(_shuffled(records, seeds)), f"{code}:{text}".encode()
        return _strings(_shuffled(records, seeds)), b""

    _kept.drop()  # a new dataset, whose files may have been overwritten
    inputs = [*blocks.inputs(wanted).values(), seeds]
    records, error = _call(read, inputs, [tf.string, tf.string])
    return records, error


def _shuffled(records: list[bytes], seeds: Any) -> list[bytes]:
    """The records in the order of ``op_records_shuffle`` in ``ext/tensorflow/ops/op_records.c``."""
    if not len(seeds):
        return records
    state = int(seeds[0])
    for left in range(len(records), 1, -1):
        state = state + 0x9E3779B97F4A7C15 & _UINT64  # SplitMix64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _UINT64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _UINT64
        other = ((z ^ z >> 31) >> 32) * left >> 32
        records[left - 1], records[other] = records[other], records[left - 1]
    return records


class _Kept:
    """Blocks of which some records are still to be taken. ``ext/tensorflow/ops/op_lent.c`` does the
    same."""

    MOST = 16

    def __init__(self) -> None:
        self._blocks: OrderedDict[BlockRequest, tuple[BytesLike | RecordBatch, int]]
        self._blocks = OrderedDict()

    def take(self, block: BlockRequest, records: int, taking: int) -> BytesLike | RecordBatch:
        """The block, which has that many ``records``. This call uses up ``taking`` of them."""
        data, left = self._blocks.pop(block, (None, records))
        if data is None:
            data = runtime.read_block(None, block)
        if left > taking:
            self._blocks[block] = (data, left - taking)
        while len(self._blocks) > self.MOST:
            self._blocks.popitem(last=False)
        return data

    def drop(self) -> None:
        self._blocks.clear()


_kept = _Kept()


def _read_span(
    files: list[list[str]],
    table: Any,
    block: int,
    span: list[int],
    settings: Settings,
    records: list[bytes],
) -> None:
    file, start, stop, raw_start, raw_stop, count, before, behind = map(int, table[block])
    skip, take = span
    (url, codec, version), expected = files[file], min(take, count - skip)
    asked = BlockRequest(
        url=url,
        codec=codec,
        version=version,
        stored=(start, stop),
        raw=(raw_start, raw_stop),
        sums=(before, behind),
        file_blocks=int(np.count_nonzero(table[:, 0] == file)) if settings.skip_corrupt else 0,
        settings=settings,
    )
    data = _kept.take(asked, count, expected)
    if isinstance(data, RecordBatch):
        records += data[skip : min(skip + take, len(data))].tolist()
        return
    decoder = RecordDecoder(
        verify=settings.verify,
        max_record_bytes=settings.max_record_bytes,
        path=url,
        offset=raw_start,
        summed=max(before, 0),
    )
    batch = decoder.feed(data)
    if behind >= 0 and len(batch) == count and decoder.summed != behind:
        raise other_records(url, start)
    found = batch[skip : skip + expected].tolist()
    records += found
    if len(found) < expected:
        decoder.finish()
        reason = lacks_records(expected - len(found))
        raise damaged(Reason.SHORT_FILE, reason, path=url, offset=decoder.offset)


def read_stream(
    files: Any, codecs: Any, version: Any, position: Any, settings: Settings
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """See `tfio_store.tf.dataset.ops.read_stream`. All errors are raised."""

    def read(files: Any, codecs: Any, version: bytes, position: Any) -> tuple[Any, bytes, Any]:
        file, *stands = map(int, position)
        held = version.decode()
        while file < len(files):
            name, codec = files[file].decode(), codecs[file].decode()
            at = stands[0], stands[1]
            found = runtime.read_stream(StreamRequest(name, codec, held, at, settings))
            if found is None:
                return _strings([]), held.encode(), np.array([file, *stands], np.int64)
            batch, held, after = found
            if len(batch):
                return _strings(batch.tolist()), held.encode(), np.array([file, *after], np.int64)
            file, stands, held = file + 1, [0, -1], ""
        raise StopIteration  # OUT_OF_RANGE

    runtime.forget_steps()  # a new dataset
    inputs = [files, codecs, version, position]
    records, held, after = _call(read, inputs, [tf.string, tf.string, tf.int64])
    return records, held, after, tf.constant("")


def raise_error(error: Any, later: Any) -> tf.Tensor:
    """See `tfio_store.tf.dataset.ops.raise_error`."""

    def check(error: bytes, later: bytes) -> bytes:
        code, _, text = error.partition(b":")
        if code == b"11":
            raise StopIteration  # OUT_OF_RANGE
        if error:
            raise RuntimeError(text.decode())
        return later

    return _call(check, [error, later], tf.string)
