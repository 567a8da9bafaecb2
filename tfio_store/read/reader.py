"""`RecordReader`: every record of a source, in order or shuffled, resumable, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO, Literal

from tfio_store.dataset.inflate.index import with_checkpoints
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset
from tfio_store.dataset.source import Source, open_dataset, reached
from tfio_store.read.cursor import Position
from tfio_store.read.decode import OnCorrupt, check_policy
from tfio_store.read.order import Share, Shuffle, Step, steps_text
from tfio_store.read.stream import FileStream, is_file_object
from tfio_store.read.traversal import Iterated, ReaderOptions, Shared, Traversal
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage

__all__ = ["OnCorrupt", "RecordReader"]


class RecordReader(Iterated):
    """Iterates the records of a source as ``bytes``; `batches` gives them without a copy.

    A reader is a cursor, like a file. Iterating it again goes on behind the last record. At the end
    of the data the cursor moves to the next epoch, so each whole ``for`` loop is one epoch. All
    iterators of a reader, of records and of batches, move the same cursor: together they give each
    record once, and they go on from where `restore` puts them. After `close` they raise ValueError.
    Use a reader in one thread at a time: others get RuntimeError. It pickles with its cursor, and
    works on in a forked child.

    Args:
        source (str | PathLike | list | BinaryIO): A path or URL, a dataset's prefix or folder, a
            name such as ``train@16``, ``train-*.gz``, ``a,b`` or ``{a,b}``, a list of these, or an
            open binary file. The file is read from where it stands, and is not closed.
        compression (str | None): "GZIP", "ZLIB", "ZSTD" or None. "auto" (default) looks at the
            first bytes of each file, never at its name.
        verify (bool): Check the CRC of each record's data. Default True. The CRC of its length is
            always checked.
        on_corrupt (str | Callable): "raise" (default). "skip" loses only the damaged bytes, counts
            the regions in `skipped` and gives one `DataLossWarning` for each file; a file in which
            nothing can be read is an error. A function is called with each `SkippedRegion`, without
            a warning.
        storage_options (dict | None): Options of the storage's fsspec class, as in the example.
            Default None: fsspec finds the credentials, for example in the environment.
        storage (Storage | None): How storage is reached, instead of ``storage_options``: with
            which options, how patiently, by what, and with which cache. Default None.
        index_dir (str | PathLike | None): A folder, or its URL, with the indexes of compressed
            files beside which none can be written; see `build_index`. It stands for
            ``Storage(index_dir=…)``, which all functions take. Default None.
        build_index (str | None): "on_read" indexes GZIP and ZLIB files while they are read, as
            `build_index` does. From the next epoch on they have blocks. If an index cannot be
            written, a warning says so. Not for a reader that is shared out. Default None.
        memory_budget (int): Bytes that may be in flight, be decompressed, wait to be given, or be
            held for shuffling. Default 256 MiB.
        max_record_bytes (int): A longer record is refused before memory is allocated for it.
            Default 1 GiB.
        threads (int | None): How many threads read, decompress and check at a time. The process's
            readers share them. Default None: as many as it may use cores, by its affinity and its
            control groups. More of them help where local files wait for a disk or a network.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ManifestError: A manifest or index cannot be read, or contradicts its dataset.
        CorruptRecordError: While iterating: a checksum does not hold, or data does not decompress.
            It gives the path, and the offset in the uncompressed stream.
        TruncatedRecordError: While iterating: the data ends inside a record.
        RecordTooLargeError: While iterating: a record is longer than ``max_record_bytes``.
        ValueError: An argument is not as described, or the reader is closed.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "folder/train")
        >>> with tfs.RecordReader("folder/train") as reader:
        ...     for record in reader:
        ...         print(tfs.decode_examples([record], {"x": "int64"})["x"])
        [1]
        [2]
        [3]

        A bucket of an S3 server of your own:

        >>> options = {"endpoint_url": "http://localhost:9000", "key": "…", "secret": "…"}
        >>> reader = tfs.RecordReader("s3://b/train", storage_options=options)  # doctest: +SKIP
    """

    _traversal: Traversal

    def __init__(
        self,
        source: Source | BinaryIO,
        *,
        compression: str | None = "auto",
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        index_dir: str | os.PathLike[str] | None = None,
        build_index: Literal["on_read"] | None = None,
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        threads: int | None = None,
    ) -> None:
        options = ReaderOptions(
            verify,
            check_policy(on_corrupt),
            memory_budget,
            max_record_bytes,
            threads=threads,
            index_on_read=_indexes(build_index, on_corrupt, is_file_object(source)),
        )
        if is_file_object(source):
            file = FileStream(source, compression)
            self._begin(Traversal(Shared(file.dataset), options, Position(), file))
            return
        dataset = open_dataset(
            source,
            reached(source, storage_options, storage, index_dir),
            compression=compression,
            limits=options.limits,
        )
        if options.index_on_read:
            dataset = with_checkpoints(dataset, whatever_name=True)
        self._begin(Traversal(Shared(dataset), options, Position()))

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        threads: int | None = None,
        start: Position | None = None,
    ) -> RecordReader:
        """Make a reader of a dataset that is resolved already.

        Args:
            dataset (Dataset): The shards to read.
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.
            threads (int | None): See `RecordReader`. Default None.
            start (Position | None): Where to begin. Default None: at the first record.

        Returns:
            RecordReader: It stands at ``start``.
        """
        options = ReaderOptions(
            verify, check_policy(on_corrupt), memory_budget, max_record_bytes, threads=threads
        )
        return cls._made(Shared(dataset), options, start or Position())

    @classmethod
    def _made(cls, shared: Shared, options: ReaderOptions, cursor: Position) -> RecordReader:
        return cls.__new__(cls)._begin(Traversal(shared, options, cursor))

    def __repr__(self) -> str:
        at = ", closed" if self._traversal.closed else f", epoch {self._traversal.position.epoch}"
        steps = self._traversal.options.steps
        order = f", {steps_text(steps)}" if steps else ""
        return f"<RecordReader of {self._traversal.shared.dataset.summary()}{order}{at}>"

    @property
    def dataset(self) -> Dataset:
        """The shards and blocks that this reader reads (Dataset)."""
        return self._traversal.shared.dataset

    @property
    def skipped(self) -> int:
        """How many damaged regions were passed over so far (int)."""
        return self._traversal.skips.count

    @property
    def num_records(self) -> int | None:
        """How many records the epoch at which the reader stands has in all (int | None).

        None if it cannot be known in advance: a stream is among them, or ``on_corrupt`` may leave
        records out. A reader that has been shared out or shuffled finds its blocks for that, as it
        would for the first record. With ``even=`` a share has the same number in each epoch.
        """
        self._traversal.check_open()
        return self._traversal.num_records()

    # Order and sharing

    def shard(self, index: int, count: int, *, even: str | None = None) -> RecordReader:
        """Make a reader of one of ``count`` shares.

        A share is every ``count``-th block, from block ``index`` on. All ``count`` readers together
        give each record once. Their numbers of blocks differ by at most one. A stream that cannot
        be cut into blocks counts as one block.

        With ``even`` every share has the same number of records: a run of the order of the reader
        that is shared out. Blocks are cut where a run begins and ends. Of N records "drop" gives
        each share N // count, and leaves out the last ones of that order, fewer than ``count``.
        "pad" gives each share one more if N is no multiple of ``count``, and repeats the first ones
        of that order for it. Shuffle first, and each epoch leaves out or repeats others. "split"
        gives each record once: the shares differ by at most one record.

        Shares can be shared out again, for example those of machines among their processes.
        Nothing is read before the first record.

        Args:
            index (int): This reader's share, from 0 to ``count - 1``.
            count (int): The number of shares.
            even (str | None): "drop" or "pad" for shares of the same number of records, "split" for
                shares of almost the same number. Default None: whole blocks.

        Returns:
            RecordReader: It stands at the beginning of its share.

        Raises:
            ValueError: ``index`` is not below ``count``, or the source is a file object. With
                ``even``: ``on_corrupt`` may leave records out; or, with the first record, a
                compressed stream has no blocks.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", max_shard_bytes=1)
            >>> [len(list(tfs.RecordReader("train").shard(i, 2))) for i in range(2)]
            [2, 1]
            >>> reader = tfs.RecordReader("train").shard(1, 2, even="pad")
            >>> reader.num_records, len(list(reader))
            (2, 2)
        """
        return self._with_step(Share(index, count, even))

    def shuffle(self, seed: int, *, epoch: int = 0, window: int = 16) -> RecordReader:
        """Make a reader that gives the records in a random order.

        The order of the blocks depends on ``seed`` and the epoch alone. The records of neighbouring
        blocks (about 1 MiB each) are shuffled in memory, one window at a time. Each full iteration
        begins the next epoch. Call it before `shard` to give each worker other blocks in each
        epoch. Nothing is read before the first record.

        Args:
            seed (int): The same seed gives the same orders.
            epoch (int): The first epoch to give. Default 0.
            window (int): MiB of memory for the records that are shuffled together. Default 16.

        Returns:
            RecordReader: It stands at the beginning of ``epoch``.

        Raises:
            ValueError: Two windows do not fit into the memory budget (at once if the sizes of the
                files prove it, else with the first record), or the source is a file object.

        Example:
            >>> _ = tfs.write_table({"x": list(range(100))}, "train")
            >>> reader = tfs.RecordReader("train").shuffle(seed=1)
            >>> first, second = list(reader), list(reader)
            >>> first == second, sorted(first) == sorted(second)
            (False, True)
        """
        step = Shuffle(seed, window)
        step.check_room(self.dataset.nbytes, self._traversal.options.memory_budget)
        return self._with_step(step, epoch)

    def _with_step(self, step: Step, epoch: int | None = None) -> RecordReader:
        if self._traversal.file is not None:
            raise ValueError(
                "source= is a file object: only sources named by path can be cut into blocks"
            )
        options = self._traversal.options.with_step(step, epoch)
        return RecordReader._made(self._traversal.shared, options, Position(epoch=options.epoch))

    # Coming back

    def state(self, *, unread: int = 0) -> dict[str, Any]:
        """Return where the reader stands. `restore` goes on with the very next record.

        Any process may restore the state, with any memory budget.

        Args:
            unread (int): So many records at the end of the last batch are not used yet: the state
                stands before them. Default 0.

        Returns:
            dict: Small, and JSON can hold it.

        Raises:
            ValueError: The last batch has given fewer records than ``unread``.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> reader = tfs.RecordReader("train")
            >>> _ = next(iter(reader))
            >>> state = reader.state()
            >>> other = tfs.RecordReader("train")
            >>> other.restore(state)
            >>> len(list(other))
            2
        """
        return self._traversal.state(self._stands_at(unread))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to the place where `state` was taken.

        Args:
            state (dict): What `state` returned, or one of what `reshard_state` made of those.

        Raises:
            ValueError: The state is of another source or another order, or the reader is closed.
        """
        self._traversal.check_open()
        position, shared = self._traversal.find(state)
        self._traversal.go_on(shared)
        self._leave(position)

    def __reduce__(self) -> tuple[Any, ...]:
        traversal = self._traversal
        if traversal.file is not None:
            raise TypeError(
                "a reader of an open file object does not pickle; name the file by its path"
            )
        return RecordReader._made, (traversal.shared, traversal.options, self._stands_at())


def _indexes(build_index: object, on_corrupt: OnCorrupt, is_file: bool) -> bool:
    """Whether to index what is read. ValueError for what does not go together."""
    if build_index is None:
        return False
    if build_index != "on_read":
        raise ValueError(f'build_index= takes None or "on_read", not {build_index!r}')
    if is_file:
        raise ValueError("build_index= needs a source that is named by path, not a file object")
    if on_corrupt != "raise":
        raise ValueError(
            'build_index="on_read" needs on_corrupt="raise": an index is of sound files'
        )
    return True
