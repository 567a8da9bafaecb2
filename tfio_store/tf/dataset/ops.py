"""The ops that datasets are made of: the bridge's, or the same made of TensorFlow's own.

The bridge (``ext/tensorflow/ops/op_kernels.c``) is loaded when this module is first imported. Where
it can't be loaded, or ``TFIO_STORE_TF_BRIDGE=off`` forbids it, `tf.numpy_function` calls the same
code in Python. That gives the same records. But it is slower, its errors are
`tf.errors.UnknownError`, and tf.data service can't run it, because it is bound to this process. A
warning says so once. `bridge` says so at any time.

Some processes run a graph that was made elsewhere, for example a worker of tf.data service. They
must import this module, or `tfio_store.TFRecordDataset`, before the graph arrives.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_library

from tfio_store.tf.bridge import bridge_module, end_threads_quietly
from tfio_store.tf.dataset import runtime
from tfio_store.tf.dataset.options import Settings
from tfio_store.tf.dataset.spans import Blocks
from tfio_store.tf.garbage import destroy_later


def _load() -> bool:
    if os.environ.get("TFIO_STORE_TF_BRIDGE") == "off":
        reason = "TFIO_STORE_TF_BRIDGE=off"
    else:
        try:
            bridge_module().load_ops(runtime)
            return True
        except ImportError as error:
            reason = str(error)
    warnings.warn(
        f"tfio_store's native TensorFlow ops are not in use ({reason}): datasets read several "
        "times slower, and can't be sent to tf.data service",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


_NATIVE = _load()
destroy_later()
end_threads_quietly()
_AS_THEY_ARE: dict[str, Any] = {"columns": b"", "Tout": [tf.string]}


def bridge() -> str:
    """ "native", or "tensorflow" where the ops are made of TensorFlow's own."""
    return "native" if _NATIVE else "tensorflow"


def begin_blocks(blocks: Blocks, wanted: tf.Tensor, settings: Settings) -> tf.Tensor:
    """Begin to fetch the groups' blocks that `read_blocks` will want. The answer is ``wanted``."""
    if not _NATIVE:
        return wanted
    same = _apply("TfioStoreBeginBlocks", settings, **blocks.inputs(wanted))
    same.set_shape(wanted.shape)
    return same


def await_blocks(blocks: Blocks, wanted: tf.Tensor, settings: Settings) -> tf.Tensor:
    """Wait until the groups' blocks have come. The answer is ``wanted``.

    Each call of the op waits for a moment. TensorFlow can end the loop between two of them.
    """
    if not _NATIVE:
        return wanted

    def ask(attempt: tf.Tensor) -> tf.Tensor:
        again = _apply("TfioStoreAwaitBlocks", settings, **blocks.inputs(wanted), attempt=attempt)
        again.set_shape([])
        return again

    begin = tf.constant(0, tf.int64)
    (end,) = tf.while_loop(lambda attempt: attempt >= 0, ask, [begin])
    _keep_whole(end)
    return wanted + (end + 1)  # which is 0; TensorFlow leaves out a loop whose result is not used


def _keep_whole(end: tf.Tensor) -> None:
    """Let the loop that ``end`` comes from stay one op. Otherwise TensorFlow takes it apart, and
    `map_in_place` can't run the parts."""
    loop = end.op
    while "While" not in loop.type:
        loop = loop.inputs[0].op
    loop._set_attr("_lower_using_switch_merge", attr_value_pb2.AttrValue(b=False))


def read_blocks(
    blocks: Blocks, wanted: tf.Tensor, settings: Settings, *, seed: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Records of groups of blocks: (string [n], what is wrong behind them: string []).

    ``wanted`` is int64 [] or [k]: numbers of groups, with marks if ``blocks`` have one, or -1 for
    none. ``seed``, int64 [], shuffles the records. Where ``settings`` are partial, damage behind
    good records does not fail the op: it is the second output, which is empty otherwise.
    """
    seeds = tf.zeros([0], tf.int64) if seed is None else tf.reshape(seed, [1])
    if _NATIVE:
        records, error = _apply(
            "TfioStoreReadBlocks", settings, **blocks.inputs(wanted), seed=seeds
        )
    else:
        from tfio_store.tf.dataset import fallback

        records, error = fallback.read_blocks(blocks, wanted, seeds, settings)
    records.set_shape([None])
    error.set_shape([])
    return records, error


def read_examples(
    blocks: Blocks,
    wanted: tf.Tensor,
    settings: Settings,
    batch_size: int,
    columns: Mapping[str, Any] | None = None,
) -> list[tf.Tensor]:
    """A batch of records, string [n], or of the columns of `tfio_store.tf.dataset.columns`.

    ``wanted``, int64 [], is a group as `read_blocks` takes it, all of whose records are the batch.
    Or it is int64 [3]: group, batch and seed. Then the seed shuffles the group's records, and batch
    i is the i-th run of ``batch_size`` of them; calls of one seed share what is read. A group of -1
    is the end, OUT_OF_RANGE. There is no such op but the bridge's.
    """
    return _read_batch("TfioStoreReadExamples", blocks, wanted, settings, batch_size, columns)


def _read_batch(
    op: str,
    blocks: Blocks,
    wanted: tf.Tensor,
    settings: Settings,
    batch_size: int,
    columns: Mapping[str, Any] | None,
) -> list[tf.Tensor]:
    given = {**blocks.inputs(wanted), "batch_size": batch_size, **(columns or _AS_THEY_ARE)}
    found: list[tf.Tensor] = _apply(op, settings, **given)
    return found


def begin_epoch(
    names: tf.Tensor, all_names: tf.Tensor, seeds: tf.Tensor, key: tf.Tensor
) -> tf.Tensor:
    """What `pick_records` must know of an epoch: int64 [3 + f].

    ``names``, string [f], are its files in their order, of ``all_names``, string [n]; none are all.
    [""] is no epoch, of the number -1. ``seeds``, int64 [3], are the shuffle's, and 1 if each epoch
    has others. Then ``key``, int64 [2], are the first numbers that TensorFlow draws in this one.
    There is no such op but the bridge's.
    """
    given = {"names": names, "all_names": all_names, "seeds": seeds, "key": key}
    epoch = op_def_library.apply_op("TfioStoreBeginEpoch", **given)
    epoch.set_shape([None])
    return epoch


def pick_records(
    batch: tf.Tensor, epoch: tf.Tensor, table: tf.Tensor, spans: tf.Tensor, sizes: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The records of some batches from a marked one on, in the order in which TensorFlow reads and
    shuffles files: (rows for `read_picked`: int64 [batches, 2 + n]; marked numbers of the blocks
    that are needed for the first time: int64 [k]). They are to be asked for in turn.

    ``table`` and ``spans`` are those of `Blocks`, a span for each block. ``sizes``, int64 [8]:
    records of a batch, batches of a call and of the epoch, records of the shuffle's buffer; files
    that are read in turns, and the records of a turn; files of the table; bytes of blocks that are
    told at a time. There is no such op but the bridge's.
    """
    given = {"batch": batch, "epoch": epoch, "table": table, "spans": spans, "sizes": sizes}
    wanted, fresh = op_def_library.apply_op("TfioStorePickRecords", **given)
    wanted.set_shape([None, None])
    fresh.set_shape([None])
    return wanted, fresh


def read_picked(
    blocks: Blocks,
    wanted: tf.Tensor,
    settings: Settings,
    batch_size: int,
    columns: Mapping[str, Any] | None = None,
) -> list[tf.Tensor]:
    """As `read_examples`, the batch that `pick_records` has picked."""
    return _read_batch("TfioStoreReadPicked", blocks, wanted, settings, batch_size, columns)


def window_rows(window: tf.Tensor, seed: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """What `read_examples` wants of each batch of a window, a marked one: int64 [n, 3].

    ``sizes``, int64 [4], are how many windows there are, the batches of each and of the last, and
    the mark of the files. Any other number than that of a window is one batch. One op, where
    TensorFlow would take ten times as long to set up a dozen. There is no such op but the bridge's.
    """
    rows = op_def_library.apply_op("TfioStoreWindowRows", window=window, seed=seed, sizes=sizes)
    rows.set_shape([None, 3])
    return rows


def read_stream(
    files: tf.Tensor,
    codecs: tf.Tensor,
    version: tf.Tensor,
    position: tf.Tensor,
    settings: Settings,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The next records of files, string [f], one file after the other: (string [n], version that
    the file at the position behind them is read in: string [], that position: int64 [3], error:
    string []). OUT_OF_RANGE where there are no more.

    Errors are raised. But that of a damaged file, once its records before the damage have come, is
    a text for `raise_error`, and the position is that of the next file.

    ``codecs`` may also be "auto". A position is (file, records before it, byte offset or -1); start
    at (0, 0, -1) with the version "", and go on with those that came. Small local files are read
    several at a time. There may be no records, if they are still on their way.
    """
    given = {"files": files, "codecs": codecs, "version": version, "position": position}
    if _NATIVE:
        return _shaped(_apply("TfioStoreReadStream", settings, **given))
    from tfio_store.tf.dataset import fallback

    return _shaped(fallback.read_stream(**given, settings=settings))


def plain_codec(files: tf.Tensor, codec: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The ``compression_type``, string [], with which TensorFlow's own reader gives the records of
    all these files too; and whether there is none, bool []. ``codec`` may also be "auto". There is
    no such op but the bridge's."""
    plain, other = op_def_library.apply_op("TfioStorePlainCodec", files=files, codec=codec)
    plain.set_shape([])
    other.set_shape([])
    return plain, other


def pack_stream(
    files: tf.Tensor,
    codecs: tf.Tensor,
    shown: tf.Tensor,
    version: tf.Tensor,
    position: tf.Tensor,
    settings: Settings,
    least: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """As `read_stream`, with the records as a pack: uint8 [bytes], as op_pack.h has it. There are
    ``least`` of them, unless the files end, memory forbids it, or they are still on their way.

    ``shown``, string [f], are the names for errors. There is no such op but the bridge's.
    """
    names = {"files": files, "codecs": codecs, "shown": shown}
    stands = {"version": version, "position": position}
    return _shaped(_apply("TfioStorePackStream", settings, **names, **stands, least=least))


def _shaped(found: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    records, held, after, error = found
    records.set_shape([None])
    held.set_shape([])
    after.set_shape([3])
    error.set_shape([])
    return records, held, after, error


def cut_pack(left: tf.Tensor, pack: tf.Tensor, sizes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts batches from what is ``left`` of earlier packs, and a pack behind it: (what is left now:
    uint8 [bytes], the batches: int64 [k, 4], for `read_pack`).

    ``sizes``, int64 [2], are the records of a batch, and the fewest of a last one. A pack of no
    bytes is the end: what is left is the last batch, and behind that OUT_OF_RANGE.
    """
    later, cuts = op_def_library.apply_op("TfioStoreCutPack", left=left, pack=pack, sizes=sizes)
    later.set_shape([None])
    cuts.set_shape([None, 4])
    return later, cuts


def read_pack(
    left: tf.Tensor, pack: tf.Tensor, cut: tf.Tensor, columns: Mapping[str, Any] | None = None
) -> list[tf.Tensor]:
    """One of the batches of `cut_pack`, as `read_examples` gives it."""
    attributes = columns or _AS_THEY_ARE
    found: list[tf.Tensor] = op_def_library.apply_op(
        "TfioStoreReadPack", left=left, pack=pack, cut=cut, **attributes
    )
    return found


def raise_error(error: tf.Tensor, later: tf.Tensor) -> tf.Tensor:
    """Fail with ``error``, if that says something. Else answer ``later``, to be raised next."""
    if _NATIVE:
        raised = op_def_library.apply_op("TfioStoreRaise", error=error, later=later)
    else:
        from tfio_store.tf.dataset import fallback

        raised = fallback.raise_error(error, later)
    raised.set_shape([])
    return raised


def _apply(op: str, settings: Settings, **inputs: Any) -> Any:
    return op_def_library.apply_op(op, **inputs, **settings.attributes())
