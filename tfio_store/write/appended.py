"""The schema of a dataset and of the records that are appended to it, and what they changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest, Growth, ShardInfo
from tfio_store.example.codec import is_list_of_numbers
from tfio_store.example.feature import Feature
from tfio_store.example.growth import grown_json
from tfio_store.example.learned import joined_states, learned_schema
from tfio_store.example.schema import Schema

_UNKNOWN: dict[str, Any] = {"features": {}, "learned": False}
"""The schema of records some of which were not looked into. No manifest holds it."""


def schema_as_learned(tasks: Iterable[tuple[str, dict[str, Any] | None]]) -> dict[str, Any] | None:
    """The schema that a writer's tasks have learned, as JSON; None of no records. SchemaError where
    a feature has two kinds."""
    state = joined_states((task, state) for task, state in tasks if state is not None)
    if state is None:
        return None
    schema = learned_schema(state)
    return _UNKNOWN if schema is None else {**schema.to_json(), "learned": True}


def not_looked_into(records: int) -> dict[str, Any] | None:
    """The learned state of records that nothing is known of."""
    return {"records": 0, "others": records, "columns": {}} if records else None


def check_appendable(kept: DatasetManifest | None) -> None:
    """ValueError unless the dataset says what records to append must be."""
    if kept is not None and kept.records and kept.schema is None:
        raise ValueError(
            "the dataset to append to has records and no schema. They may not be what the new "
            "records' schema says: append by ShardedWriter without schema=, or overwrite it all"
        )


def schema_of_both(kept: DatasetManifest | None, new: dict[str, Any] | None) -> Any:
    """The schema of a dataset with the appended records, which ``new`` describes, as JSON. It is
    the dataset's own where nothing describes them.

    ValueError or TypeError if no schema describes both.
    """
    if kept is None or (new is not None and not kept.records):
        return None if new == _UNKNOWN else new
    if new is None:
        return kept.schema
    if new == _UNKNOWN or (new.get("learned") and kept.schema is None):
        return None if (kept.schema or {}).get("learned") else kept.schema
    check_appendable(kept)
    assert kept.schema is not None
    return grown_json(kept.schema, new)


# How many values the lists of numbers have, of records that were counted as they were written.


def lists_of_numbers(schema: Mapping[str, Any] | None) -> dict[str, Feature]:
    """The features that are counted, of a schema or its JSON."""
    if schema is None:
        return {}
    known = schema if isinstance(schema, Schema) else Schema.from_json(schema)
    return {name: feature for name, feature in known.items() if is_list_of_numbers(feature)}


def values_of(shards: Sequence[ShardInfo]) -> dict[str, int]:
    """The values in all shards of each list whose values are known in each."""
    return {
        name: sum(shard.values[name] for shard in shards)
        for name in (shards[0].values if shards else ())
        if all(name in shard.values for shard in shards)
    }


def values_of_both(
    kept: DatasetManifest | None, new: DatasetManifest, schema: Mapping[str, Any] | None
) -> dict[str, int]:
    """The values of a dataset of this schema: what was ``kept``, and ``new`` records behind it."""
    parts = [new] if kept is None or not kept.records else [kept, new]
    found = {}
    for name in lists_of_numbers(schema):
        counts = [_count_in(name, part) for part in parts]
        if None not in counts:
            found[name] = sum(count or 0 for count in counts)
    return found


def _count_in(name: str, part: DatasetManifest) -> int | None:
    """The values of a list in a part of a dataset: none, if its schema has no such feature."""
    absent = part.schema is not None and name not in Schema.from_json(part.schema)
    return part.values.get(name, 0 if absent else None)


def growth_of(
    kept: DatasetManifest | None, schema: dict[str, Any] | None, generation: str
) -> tuple[Growth, ...]:
    """The growth of a dataset that has this schema by an append of this generation."""
    if kept is None or not kept.records or kept.schema is None or schema is None:
        return ()
    old, new = Schema.from_json(kept.schema), Schema.from_json(schema)
    added = tuple(name for name in new if name not in old)
    optional = tuple(name for name in old if new[name].nullable and not old[name].nullable)
    if not added and not optional:
        return kept.growth
    return (*kept.growth, Growth(generation, kept.records, added, optional))
