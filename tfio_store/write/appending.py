"""What may be appended to a committed dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.example.appending import appended
from tfio_store.example.learned import joined_states, learned_schema, widened
from tfio_store.example.schema import Schema

__all__ = [
    "check_appendable",
    "check_learned",
    "not_looked_into",
    "schema_as_learned",
    "schema_of_both",
]

_UNKNOWN: dict[str, Any] = {"features": {}, "learned": False}
"""The schema of records some of which nobody has looked into. No manifest holds it."""


def schema_as_learned(told: Iterable[tuple[str, dict[str, Any] | None]]) -> dict[str, Any] | None:
    """The schema that a writer's tasks have learned, as JSON; None of no records. SchemaError where
    a feature has two kinds."""
    state = joined_states((task, state) for task, state in told if state is not None)
    if state is None:
        return None
    schema = learned_schema(state)
    return _UNKNOWN if schema is None else {**schema.to_json(), "learned": True}


def not_looked_into(records: int) -> dict[str, Any] | None:
    """The state of what was learned of records that nobody tells of."""
    return {"records": 0, "others": records, "columns": {}} if records else None


def check_learned(kept: Mapping[str, Any], state: dict[str, Any]) -> None:
    """ValueError if a dataset of the ``kept`` schema can't have records of which this was learned.
    The commit asks again."""
    new = learned_schema(state)
    if new is not None:
        widened(Schema.from_json(kept), new)


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
        return None if new == _UNKNOWN else new
    if new is None:
        return kept.schema
    if new == _UNKNOWN or (new.get("learned") and kept.schema is None):
        return None if (kept.schema or {}).get("learned") else kept.schema
    if new.get("learned"):
        assert kept.schema is not None
        both = widened(Schema.from_json(kept.schema), Schema.from_json(new)).to_json()
        return {**both, "learned": True} if kept.schema.get("learned") else both
    check_appendable(kept)
    assert kept.schema is not None
    return appended(Schema.from_json(kept.schema), Schema.from_json(new)).to_json()
