"""The sizes of files that a dataset's graph reads as streams. Knows no TensorFlow."""

from __future__ import annotations

from tfio_store.dataset.model import Dataset
from tfio_store.dataset.versions import look_at
from tfio_store.errors import DataLossWarning, TruncatedRecordError
from tfio_store.records.warning import warn

__all__ = ["check_sizes"]


def check_sizes(dataset: Dataset, *, skip_corrupt: bool) -> None:
    """Check that a manifest's shards are as long as it tells, because a stream ends where its file
    does. TruncatedRecordError for the first shorter one. With ``skip_corrupt`` a warning for each.
    """
    counted = [i for i, shard in enumerate(dataset.shards) if shard.records is not None]
    for index, info in look_at(dataset, counted).items():
        shard = dataset.shards[index]
        if info.size >= shard.nbytes:
            continue
        error = TruncatedRecordError(
            f"the file ends before the byte {shard.nbytes} that its manifest tells of",
            path=shard.url,
            offset=info.size,
        )
        if not skip_corrupt:
            raise error
        warn(f"{error}: skipped", DataLossWarning)
