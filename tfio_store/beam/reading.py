"""`ReadFromTFRecord` and `ReadAllFromTFRecord`: tasks that a runner can split while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.value_provider import StaticValueProvider, ValueProvider
from apache_beam.transforms.core import RestrictionProvider

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.model import TASK_BUDGET
from tfio_store.dataset.source import Source, is_one, open_dataset
from tfio_store.dataset.source_names import is_pattern
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema, column_names
from tfio_store.read.decode import OnCorrupt, check_policy
from tfio_store.read.fetch import BlockBatch, BlockRange
from tfio_store.records.framing import RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import named_schema, telling
from tfio_store.tables.partitions import Partition, partitions
from tfio_store.tables.read_table import row_types, rows_maker

# Arguments that are named as Beam names them, and what they mean here.


_CODECS = {
    CompressionTypes.AUTO: "auto",
    CompressionTypes.UNCOMPRESSED: None,
    CompressionTypes.GZIP: "GZIP",
    CompressionTypes.DEFLATE: "ZLIB",
    CompressionTypes.ZSTD: "ZSTD",
}


def codec_of(compression_type: str | None, *, auto: str | None) -> str | None:
    """Our name of a `CompressionTypes`. ``auto``: what AUTO amounts to. ValueError for one that
    TFRecord files do not have."""
    name = "uncompressed" if compression_type is None else str(compression_type).lower()
    if name not in _CODECS:
        raise ValueError(
            f"compression_type={compression_type!r}: TFRecord files have one of "
            f"{', '.join(_CODECS)}"
        )
    return auto if name == "auto" else _CODECS[name]


def decoder_of(coder: Any, *, batched: bool) -> Any:
    """The coder, or None if records stay bytes."""
    if coder is None or type(coder) is BytesCoder:
        return None
    if batched:
        raise ValueError("coder= is for single records; batched=True gives columns by the schema")
    return coder


def is_told(given: Any) -> bool:
    """Whether `told` can be asked before the pipeline runs. A parameter of a template has the value
    of the pipeline that ran last in this process, if there was one."""
    return not isinstance(given, ValueProvider) or isinstance(given, StaticValueProvider)


def told(given: Any) -> Any:
    """The value of a template's parameter, and everything else as it is."""
    return given.get() if isinstance(given, ValueProvider) else given


# Reading partitions in tasks that a runner can split while they run, at any block.


@dataclass(frozen=True)
class Give:
    """The elements of a batch of records."""

    coder: Any = None
    batched: bool = False
    schema: Schema | None = None
    columns: tuple[str, ...] | None = None
    with_filename: bool = False

    def maker(self, part: Partition) -> Callable[[BlockBatch], Iterator[Any]]:
        """The function that makes elements of a batch: records, or Arrow batches of them; behind
        the file's name if that is wanted."""
        make = self._of_records(part)
        if not self.with_filename:
            return lambda found: make(found.records)
        return lambda found: ((found.url, one) for one in make(found.records))

    def _of_records(self, part: Partition) -> Callable[[RecordBatch], Iterator[Any]]:
        if self.batched:
            return rows_maker(self.schema or part.schema, self.columns, part)
        if self.coder is None:
            return iter
        return partial(map, self.coder.decode)

    @property
    def type_hint(self) -> Any:
        """The type of the elements, by which Beam chooses how to pass them on."""
        if self.batched:
            import pyarrow as pa

            one: Any = pa.RecordBatch
        else:
            one = bytes if self.coder is None else _type_of(self.coder)
        return beam.typehints.KV[str, one] if self.with_filename else one


def _type_of(coder: Any) -> Any:
    try:
        return coder.to_type_hint()
    except NotImplementedError:  # a coder need not say so
        return Any


class _Blocks(RestrictionProvider):  # type: ignore[misc]
    """A restriction is a range of block numbers of a partition."""

    def initial_restriction(self, element: Partition) -> OffsetRange:
        return OffsetRange(0, len(BlockRange(element.dataset)))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Partition, restriction: OffsetRange) -> int:
        blocks = len(BlockRange(element.dataset))
        size: int = restriction.size()
        return max(1, element.nbytes * size // max(1, blocks))


class ReadBlocks(beam.DoFn):  # type: ignore[misc]
    """Partitions in, their records out."""

    def __init__(self, give: Give, **how: Any) -> None:
        self._give = give
        self._how = how

    def process(
        self,
        element: Partition,
        tracker: Any = beam.DoFn.RestrictionParam(_Blocks()),  # noqa: B008
    ) -> Iterator[Any]:
        restriction = tracker.current_restriction()
        elements = self._give.maker(element)
        blocks = BlockRange(element.dataset, **self._how)
        found = blocks.batches(restriction.start, restriction.stop)
        for batch in _claimed(found, tracker, restriction.start, restriction.stop):
            yield from elements(batch)


def _claimed(
    batches: Iterator[BlockBatch], tracker: Any, start: int, stop: int
) -> Iterator[BlockBatch]:
    """The batches, up to where the runner has given the blocks to another task."""
    with closing(batches):  # type: ignore[type-var]
        for batch in batches:
            while start <= batch.block:  # those without records too
                if not tracker.try_claim(start):
                    return
                start += 1
            yield batch
    tracker.try_claim(stop)


# The transforms.


_TASK_BYTES = 64 << 20
"""Bytes of a task at its beginning. A runner may split it."""


class _Plan(beam.DoFn):  # type: ignore[misc]
    """Sources in, their partitions out."""

    def __init__(self, storage: Storage | None, compression: str | None, schema: object) -> None:
        self._storage = storage
        self._compression = compression
        self._schema = schema

    def process(self, element: Source | ValueProvider) -> Iterator[Partition]:
        source = told(element)
        if not is_one(source) and not isinstance(source, (list, tuple)):
            raise TypeError(f"a source is a path or URL, or a list of those, not {source!r}")
        try:
            found = open_dataset(source, self._storage, compression=self._compression)
            found = telling(found, self._schema)
            yield from partitions(found, target_bytes=_TASK_BYTES)
        except FileNotFoundError:
            if not isinstance(source, str) or not is_pattern(source):
                raise  # while a pattern may match nothing, as in Beam's own


class _Read(beam.PTransform):  # type: ignore[misc]
    """The part that the two transforms share."""

    def __init__(
        self,
        coder: Any,
        compression_type: str | None,
        give: dict[str, Any],
        how: dict[str, Any],
        storage: Storage | None,
    ) -> None:
        super().__init__()
        schema, columns = give.pop("schema"), give.pop("columns")
        if not give["batched"] and not (schema is None and columns is None):
            raise ValueError("schema= and columns= take batched=True")
        self._give = Give(
            coder=decoder_of(coder, batched=give["batched"]),
            schema=named_schema(schema),
            columns=None if columns is None else column_names(columns),
            **give,
        )
        # Records that are wanted as they are need no look into them.
        self._asked = schema if give["batched"] else "bytes"
        self._storage = storage
        self._compression = codec_of(compression_type, auto="auto")
        check_policy(how["on_corrupt"])
        check_positive("memory_budget", how["memory_budget"])
        self._how = how

    def _records(self, sources: Any) -> Any:
        plan = _Plan(self._storage, self._compression, self._asked)
        read = ReadBlocks(self._give, **self._how)
        return (
            sources
            | "Plan" >> beam.ParDo(plan).with_output_types(Partition)
            | "Share" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(read).with_output_types(self._give.type_hint)
        )


class ReadFromTFRecord(_Read):
    """Reads a source into a PCollection: `apache_beam.io.ReadFromTFRecord` for any storage.

    The source is cut into runs of blocks, and each is a task. A runner may split a task while it
    runs, at any block, also in the middle of a GZIP shard. Each record's checksum is checked.

    Args:
        file_pattern (str | PathLike | list | ValueProvider): See `RecordReader`: a file, a glob, a
            dataset's prefix or folder, or a list of these; or a template's parameter, which tells
            one of these when the pipeline runs.
        coder (Coder): Decodes each record. Default ``BytesCoder()``: they are bytes.
        compression_type (str): A `CompressionTypes` of Beam. Default AUTO: each file's first bytes
            tell, not its name.
        validate (bool): Look for the source when the pipeline is made, and not when it runs only.
            Default True.
        batched (bool): Give ``pyarrow.RecordBatch`` elements, of a block of records each. Default
            False: one element for each record.
        schema (Schema | dict | str | None): With ``batched``: what the records hold. "bytes": one
            column, ``record``, of the records as they are. "auto": what the manifest says, or else
            what `infer_schema` finds in some records; what these lack is not read. Default None:
            what the manifest says, or TensorFlow Datasets wrote, or else "bytes".
        columns (list[str] | None): With ``batched``: the columns to read. The others are stepped
            over undecoded. Default None: all of them.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        memory_budget (int): Bytes that one task may have in flight. Default 64 MiB.
        storage_options (dict | None): See `RecordReader`. They travel with the pipeline. Default
            None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        FileNotFoundError: With ``validate``: there is no such source.
        KeyError: With ``validate``: there is no such column.
        ValueError: An argument is not as described.

    Example:
        >>> import apache_beam as beam
        >>> from tfio_store.beam import ReadFromTFRecord
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> with beam.Pipeline("FnApiRunner") as pipeline:
        ...     batches = pipeline | ReadFromTFRecord("train", batched=True)
        ...     _ = batches | beam.Map(lambda batch: print(batch.to_pydict()))
        {'x': [1, 2, 3]}
    """

    def __init__(
        self,
        file_pattern: Source | ValueProvider,
        coder: Any = BytesCoder(),  # noqa: B008
        compression_type: str = CompressionTypes.AUTO,
        validate: bool = True,
        *,
        batched: bool = False,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = TASK_BUDGET,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        storage = given_storage(storage_options, storage)
        give = {"batched": batched, "schema": schema, "columns": columns}
        how = {"on_corrupt": on_corrupt, "memory_budget": memory_budget}
        super().__init__(coder, compression_type, give, how, storage)
        self._source = file_pattern
        if validate and is_told(file_pattern):
            self._validate(told(file_pattern))

    def _validate(self, source: Source) -> None:
        found = open_dataset(source, self._storage, compression=self._compression)
        if self._give.columns is not None:
            known = self._give.schema or telling(found, self._asked).schema
            row_types(known, self._give.columns)

    def expand(self, pbegin: Any) -> Any:
        """Beam calls it.

        Args:
            pbegin (Pipeline): Where it begins.

        Returns:
            PCollection: Of records, or of batches.

        Example:
            >>> pipeline | ReadFromTFRecord("train")  # .expand(pipeline)  # doctest: +SKIP
        """
        return self._records(pbegin | "Source" >> beam.Create([self._source], reshuffle=False))


class ReadAllFromTFRecord(_Read):
    """Reads each source of a PCollection: `apache_beam.io.ReadAllFromTFRecord` for any storage.

    Elements are paths, URLs, globs or datasets, as `ReadFromTFRecord` takes one. A glob that
    matches nothing has no records. Any other source must be there.

    Args:
        coder (Coder): See `ReadFromTFRecord`. Default ``BytesCoder()``.
        compression_type (str): See `ReadFromTFRecord`. Default AUTO.
        with_filename (bool): Give pairs of the file's URL and what comes of it. Default False.
        batched (bool): See `ReadFromTFRecord`. Default False.
        schema (Schema | dict | str | None): See `ReadFromTFRecord`. Default None.
        columns (list[str] | None): See `ReadFromTFRecord`. Default None.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        memory_budget (int): See `ReadFromTFRecord`. Default 64 MiB.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        ValueError: An argument is not as described.

    Example:
        >>> import apache_beam as beam
        >>> from tfio_store.beam import ReadAllFromTFRecord
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> with beam.Pipeline("FnApiRunner") as pipeline:
        ...     records = pipeline | beam.Create(["train"]) | ReadAllFromTFRecord()
        ...     _ = records | beam.combiners.Count.Globally() | beam.Map(print)
        3
    """

    def __init__(
        self,
        coder: Any = BytesCoder(),  # noqa: B008
        compression_type: str = CompressionTypes.AUTO,
        with_filename: bool = False,
        *,
        batched: bool = False,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = TASK_BUDGET,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        storage = given_storage(storage_options, storage)
        give: dict[str, Any] = {"batched": batched, "schema": schema, "columns": columns}
        give["with_filename"] = with_filename
        how = {"on_corrupt": on_corrupt, "memory_budget": memory_budget}
        super().__init__(coder, compression_type, give, how, storage)

    def expand(self, sources: Any) -> Any:
        """Beam calls it.

        Args:
            sources (PCollection): Of sources.

        Returns:
            PCollection: Of records, or of batches.

        Example:
            >>> sources | ReadAllFromTFRecord()  # .expand(sources)  # doctest: +SKIP
        """
        return self._records(sources)
