"""`TFRecordWriter`: one file of records, a drop-in for `tf.io.TFRecordWriter`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, Protocol

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.folder import Folder
from tfio_store.dataset.names import split_url
from tfio_store.records.compression import Compressor, codec_name
from tfio_store.records.framing import FrameWriter, RecordBatch
from tfio_store.storage import Storage, Store
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import for_writing, given_storage
from tfio_store.storage.threads import Owner
from tfio_store.write.lifecycle import Lifecycle
from tfio_store.write.pipeline import Memory
from tfio_store.write.records import framed, write_run
from tfio_store.write.shard_stream import ShardLayout, make_piece
from tfio_store.write.shard_uploads import ShardUploads

_MEMORY = Memory.plan(64 << 20, 1)


class TFRecordWriter(Lifecycle):
    """Writes records to one file, as `tf.io.TFRecordWriter` does, on any storage.

    Raw files have the same bytes as TensorFlow's. Compressed ones have other bytes of the same
    content.

    A path is written whole or not at all. The file appears, or replaces the old one, when the
    writer is closed. If an exception leaves the context, the old file stays untouched. A writer
    that is dropped without `close` loses its records, with a warning. In a forked child the writer
    refuses to be used, and leaving the context there ends nothing.

    A file object is written to in the caller's thread. `close` flushes it, and does not close it.
    After an exception it keeps the blocks that were written until then.

    Args:
        path (str | PathLike | BinaryIO): A path, a URL of any storage that fsspec knows, or an open
            binary file.
        options (str | TFRecordOptions | None): "GZIP", "ZLIB", "ZSTD", "" or None (default: raw);
            or a `tf.io.TFRecordOptions`, of which compression_type and compression_level count.
            (The others tune zlib's memory.)
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        OSError: The storage fails. The next call on the writer raises the first failure.
        TypeError: An argument or a record is of another type.
        ValueError: The compression or the backend is unknown, or the writer is closed.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord", "GZIP") as writer:
        ...     writer.write(b"one")
        ...     writer.write({"x": 2})
        ...     writer.write_batch([b"three", b"four"])
        ...     writer.flush()
        >>> len(list(tfs.RecordReader("a.tfrecord")))
        4
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        options: Any = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        compressor = Compressor(*_compression(options))
        if isinstance(path, (str, os.PathLike)):
            store, name = for_writing(given_storage(storage_options, storage)).open(path)
            self._shown = redacted(os.fspath(path))
            self._sink: _Sink = _ToStore(store, name, compressor, weakref.WeakMethod(self._stop))
        elif hasattr(path, "write"):
            self._sink = _ToFile(path, compressor)
            self._shown = "a file object"
        else:
            raise TypeError(
                "path must be a path, a URL or a binary file object open for writing, not "
                f"{type(path).__name__}"
            )
        self._frames = self._sink.frames
        self._owner = self._sink.owner
        self._drop = self._sink.abort

    def write(self, record: BytesLike | Mapping[str, Any]) -> None:
        """Add one record.

        Args:
            record (bytes-like | dict): A mapping is encoded as a `tf.train.Example`.

        Raises:
            OSError: Writing has failed.
            TypeError: ``record`` is neither.
            ValueError: The writer is closed.
        """
        if self._ended:
            self._refuse()
        try:
            waiting = self._frames.write(record)  # type: ignore[arg-type]
        except TypeError:
            if not isinstance(record, Mapping):
                raise
            waiting = write_run(self._frames, [record])
        if waiting >= _MEMORY.block_bytes:
            self._sink.push()

    def write_batch(self, records: Iterable[BytesLike | Mapping[str, Any]] | RecordBatch) -> None:
        """Add many records, several times as fast as one by one.

        If it raises, the writer cannot go on, because some of the records may have been added.

        Args:
            records (Iterable | RecordBatch): Records as `write` takes them.

        Raises:
            OSError: Writing has failed.
            TypeError: A record is of another type.
            ValueError: The writer is closed.
        """
        if self._ended:
            self._refuse()
        try:
            for _ in framed(self._frames, records, _MEMORY.block_bytes):
                if self._ended:
                    self._refuse()
                if self._frames.nbytes >= _MEMORY.block_bytes:
                    self._sink.push()
        except BaseException as error:
            self._end(error)
            raise

    def flush(self) -> None:
        """Hand on every record written so far, as a block of its own, and wait until it is taken.

        A file object then has the bytes, and is flushed. At a path nothing appears before
        `close`, on any storage: a local file keeps its temporary name, and an object store keeps
        the parts it was sent (8 MiB or more each; less than that waits in memory).

        Raises:
            OSError: Writing has failed.
            ValueError: The writer is closed.
        """
        if self._ended:
            self._refuse()
        self._sink.flush()

    def close(self) -> None:
        """Write what is left, and make the file visible. On a local disk it is then durable.

        A second call does nothing, or raises the failure of the first again.

        Raises:
            OSError: Writing has failed. Nothing is visible then.

        Example:
            >>> writer = tfs.TFRecordWriter("a.tfrecord")
            >>> writer.write(b"one")
            >>> writer.close()
        """
        if self._ended:
            self._end_again()
            return
        try:
            self._sink.close()
        except BaseException as error:
            self._end(error)
            raise
        self._drop = None
        self._set_ended(None)
        self._let_go()

    def abort(self) -> None:
        """Give up: nothing appears under the path. After `close` it does nothing.

        Example:
            >>> writer = tfs.TFRecordWriter("a.tfrecord")
            >>> writer.write(b"one")
            >>> writer.abort()
        """
        self._give_up()
        self._let_go()

    def _let_go(self) -> None:
        """Keep nothing behind the end: a `gzip.open(…)` that only this writer holds writes its last
        bytes when it goes."""
        vars(self).pop("_sink", None)


class _Sink(Protocol):
    """Where blocks go."""

    frames: FrameWriter
    owner: Owner

    def push(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class _ToStore:
    """To an object of a store, through threads."""

    def __init__(
        self,
        store: Store,
        path: str,
        compressor: Compressor,
        on_failure: weakref.WeakMethod[Any],
    ) -> None:
        folder, name = split_url(path)
        self._uploads = ShardUploads(
            Folder(store, folder),
            compressor,
            _MEMORY,
            open_shards=1,
            on_failure=on_failure,
        )
        # It opens at once, so that an error about the path comes at once.
        self._stream = self._uploads.open(name, store.open_output(path))
        self.frames = self._stream.frames
        self.owner = self._uploads.owner

    def push(self) -> None:
        self._stream.push()

    def flush(self) -> None:
        self._stream.push()
        self._uploads.drain()

    def close(self) -> None:
        self._uploads.finish()
        self._uploads.close()

    def abort(self) -> None:
        self._uploads.abort()


class _ToFile:
    """To a file object, in the caller's thread."""

    def __init__(self, file: BinaryIO, compressor: Compressor) -> None:
        self.frames = FrameWriter(_MEMORY.block_bytes)
        self.owner = Owner()
        self._file = file
        self._compressor = compressor
        self._layout = ShardLayout(compressor)
        self._header = compressor.header

    def push(self) -> None:
        records = self.frames.records
        if records:
            self._write_header()
            piece = make_piece(self._compressor, self.frames.take(), records)
            self._write(self._layout.add(piece))

    def _write_header(self) -> None:
        header, self._header = self._header, b""
        self._write(header)

    def _write(self, data: BytesLike) -> None:
        left = memoryview(data)
        while len(left):
            taken = self._file.write(left)  # unbuffered files may take less than all
            left = left[len(left) if taken is None else taken :]

    def flush(self) -> None:
        self.push()
        self._flush_file()

    def _flush_file(self) -> None:
        if hasattr(self._file, "flush"):
            self._file.flush()

    def close(self) -> None:
        self.push()
        self._write_header()
        self._write(self._layout.end())
        self._flush_file()

    def abort(self) -> None:
        """Do nothing: what was written can't be taken back."""


def _compression(options: Any) -> tuple[str | None, int | None]:
    """Find codec and level in a name or a `tf.io.TFRecordOptions`."""
    if options is None or isinstance(options, str):
        return codec_name(options, argument="options"), None
    if not hasattr(options, "compression_type"):
        raise TypeError(
            f"options must be a compression's name or a tf.io.TFRecordOptions, not {options!r}"
        )
    kind = options.compression_type
    if kind in _TF_COMPRESSION_TYPES:
        kind = _TF_COMPRESSION_TYPES[kind]
    codec = codec_name(kind, argument="options.compression_type")
    return codec, options.compression_level if codec is not None else None


_TF_COMPRESSION_TYPES = {0: None, 1: "ZLIB", 2: "GZIP"}
"""`tf.compat.v1.io.TFRecordCompressionType`."""
