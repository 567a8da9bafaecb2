"""`stats`: what the values of each feature are like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.model import Dataset, Limits
from tfio_store.dataset.source import Source, is_one, open_dataset
from tfio_store.errors import SchemaError
from tfio_store.example import decode_examples
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tools.feature_tally import FeatureStats, FeatureTally, told
from tfio_store.tools.record_schema import schema_of_records
from tfio_store.tools.rows import opened
from tfio_store.tools.source_errors import of_source
from tfio_store.write.progress import OnProgress, Progress, check_on_progress

__all__ = ["DatasetStats", "FeatureStats", "stats"]

_SAMPLE = 256 << 20
_SEED = 0


@dataclass(frozen=True, slots=True)
class DatasetStats:
    """What was found in the records that were looked at.

    Attributes:
        records (int): How many records were looked at.
        nbytes (int): Their bytes.
        whole (bool): Whether that is all of the source.
        features (dict[str, FeatureStats]): What is known of each feature.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> found = tfs.stats("train")
        >>> found.records, found.whole, found.features["x"].most
        (3, True, 3)
    """

    records: int
    nbytes: int
    whole: bool
    features: dict[str, FeatureStats]


def stats(
    source: Source,
    *,
    sample_bytes: int | None = _SAMPLE,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> DatasetStats:
    """Tell of each feature how many records have it, its range, quantiles and distinct values.

    Larger sources are sampled: blocks are read by chance, the same ones each time. Quantiles are
    those of at most 8,192 values by chance.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        sample_bytes (int | None): About how many bytes of records to look at. None: all. Default
            256 MiB.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far. Default None.

    Returns:
        DatasetStats: What the records hold.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A record is damaged, or no Example.
        TruncatedRecordError: A file ends inside a record.
        SchemaError: A record does not hold what the manifest's schema says, or a feature has values
            of two dtypes.
        ValueError: ``sample_bytes`` is below 1.

    Example:
        >>> _ = tfs.write_table({"label": [0, 1, 1, 0], "w": [0.5, 1.0, 1.5, 2.0]}, "train")
        >>> found = tfs.stats("train").features
        >>> found["w"].least, found["w"].most, found["label"].distinct
        (0.5, 2.0, 2)
    """
    if sample_bytes is not None and sample_bytes < 1:
        raise ValueError(f"sample_bytes must be at least 1, or None for all, got {sample_bytes}")
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    source = source if is_one(source) else list(source)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    known = dataset.schema
    tallies: dict[str, FeatureTally] = {}
    records = nbytes = 0
    whole = True
    with RecordReader.of(dataset, max_record_bytes=max_record_bytes) as reader:
        sampled = sample_bytes is not None and not _fits(dataset, sample_bytes)
        for batch in (reader.shuffle(_SEED, window=1) if sampled else reader).batches():
            if sample_bytes is not None and nbytes >= sample_bytes:
                whole = False
                break
            with of_source(source, records):
                for name, dtype, column in _columns(batch, known):
                    _tally(tallies, name, dtype).add(column)
            records, nbytes = records + len(batch), nbytes + batch.nbytes
            if on_progress is not None:
                on_progress(Progress(records, nbytes, 0, None if sampled else dataset.num_records))
    found = {name: told(tally) for name, tally in sorted(tallies.items())}
    return DatasetStats(records, nbytes, whole, found)


def _fits(dataset: Dataset, nbytes: int) -> bool:
    """Whether the source is surely as small. Nothing tells how small compressed files were."""
    if dataset.nbytes > nbytes:
        return False
    return all(codec_of(dataset, i) is None for i in range(len(dataset.shards)))


def _tally(tallies: dict[str, FeatureTally], name: str, dtype: str) -> FeatureTally:
    found = tallies.setdefault(name, FeatureTally(dtype))
    if found.dtype != dtype:
        reason = f"holds {dtype} values, and {found.dtype} elsewhere"
        raise SchemaError(reason, feature=name, record=0)
    return found


def _columns(batch: RecordBatch, known: Any) -> Iterator[tuple[str, str, Any]]:
    """Each feature's name, dtype and decoded column."""
    if not len(batch):
        return
    schema = opened(schema_of_records(batch)) if known is None else known
    for name, column in decode_examples(batch, schema).items():
        yield name, schema[name].dtype, column
