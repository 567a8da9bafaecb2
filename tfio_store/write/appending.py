"""What may be appended to a committed dataset."""

from __future__ import annotations

from typing import Any

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.example.appending import appended
from tfio_store.example.schema import Schema

__all__ = ["check_appendable", "schema_of_both"]


def check_appendable(kept: DatasetManifest | None) -> None:
    """ValueError unless the dataset tells of its records what those to append must be."""
    if kept is not None and kept.records and kept.schema is None:
        raise ValueError(
            "the dataset to append to has records and no schema. They may not be what the new "
            "records' schema says: append by ShardedWriter without schema=, or overwrite it all"
        )


def schema_of_both(kept: DatasetManifest | None, new: dict[str, Any] | None) -> Any:
    """The schema of a dataset with the records appended that ``new`` tells of, as JSON. It is the
    dataset's own where nothing tells of them.

    ValueError or TypeError if no schema tells of both.
    """
    if kept is None or (new is not None and not kept.records):
        return new
    if new is None:
        return kept.schema
    check_appendable(kept)
    assert kept.schema is not None
    return appended(Schema.from_json(kept.schema), Schema.from_json(new)).to_json()
