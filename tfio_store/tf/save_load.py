"""`save` and `load`: a tf.data.Dataset of tensors to a dataset of Examples and back.

Unlike ``tf.data.Dataset.save`` it writes TFRecord shards, on any storage, committed at once. Any
reader of Examples can read them. The manifest holds their schema, and the element spec in JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tfio_store.dataset.folder import read_manifest
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES
from tfio_store.dataset.not_found import saved_by_tensorflow
from tfio_store.dataset.source_names import numbered_target
from tfio_store.errors import ManifestError
from tfio_store.example import encode_examples
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.tf import leaves
from tfio_store.tf.dataset.dataset import TFRecordDataset
from tfio_store.tf.leaves import Leaf, leaf_of
from tfio_store.write.commit import KEEP_REPLACED
from tfio_store.write.progress import OnProgress
from tfio_store.write.sharded_writer import ShardedWriter

SPEC = "element_spec"
"""The key of the element spec in the manifest's metadata."""

_BATCH_BYTES = 1 << 20
_BATCH_MOST = 1024


def save(
    dataset: tf.data.Dataset,
    url: str | os.PathLike[str],
    *,
    num_shards: int | None = None,
    max_shard_bytes: int | None = None,
    compression: str | None = None,
    level: int | None = None,
    if_exists: Any = "error",
    keep_replaced: float = KEEP_REPLACED,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> DatasetManifest:
    """Write every element of a dataset as an Example. `load` gives exactly the same elements back.

    Elements are tensors of any dtype and shape, ragged or sparse tensors, or dicts, tuples or named
    tuples of these. float32, integers and strings become lists that ``tf.io.parse_example`` reads.
    What these cannot hold exactly (float64, uint64, bfloat16, complex and others), and tensors of
    bytes and bools, become their memory, which ``tf.io.decode_raw`` reads.

    Args:
        dataset (tf.data.Dataset): It must end.
        url (str | PathLike): Folder and name, such as ``s3://bucket/folder/train``.
        num_shards (int | None): Elements go round this many shards in turn. Default None: they are
            written in order, into shards of ``max_shard_bytes``.
        max_shard_bytes (int | None): See `ShardedWriter`. Default None: 256 MiB, if ``num_shards``
            is None too.
        compression (str | None): See `ShardedWriter`. Default None.
        level (int | None): See `ShardedWriter`. Default None.
        if_exists (str): See `ShardedWriter`. Default "error".
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        on_progress (Callable | None): See `ShardedWriter`. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        DatasetManifest: What was committed.

    Raises:
        TypeError: ``dataset`` is no dataset, or its elements cannot be saved (datasets, variants
            and others).
        ValueError: The dataset never ends; or, on appending, its elements are of another spec than
            those that are there.
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        OSError: The store fails.

    Example:
        >>> import tensorflow as tf
        >>> manifest = tfs.save(tf.data.Dataset.range(5), "numbers")
        >>> [int(element) for element in tfs.load("numbers")]
        [0, 1, 2, 3, 4]
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"dataset= takes a tf.data.Dataset, not {type(dataset).__name__}")
    if int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise ValueError("dataset= never ends; save a part of it, by .take(n)")
    url, storage = os.fspath(url), given_storage(storage_options, storage)
    _, num_shards, _ = numbered_target(url, num_shards)
    layout = _Layout(dataset.element_spec)
    if if_exists == "append":
        _check_same(layout, url, storage)
    if num_shards is None and max_shard_bytes is None:
        max_shard_bytes = DEFAULT_SHARD_BYTES
    with ShardedWriter(
        url,
        num_shards=num_shards,
        max_shard_bytes=max_shard_bytes,
        compression=compression,
        level=level,
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        on_progress=on_progress,
        schema=layout.schema.to_json(),
        metadata={SPEC: layout.json},
        storage=storage,
    ) as writer:
        for records in layout.encode(dataset):
            writer.write_batch(records)
    return writer.manifest


def load(
    url: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    drop_remainder: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    **options: Any,
) -> tf.data.Dataset:
    """Read the dataset that `save` wrote: the same elements, of the same element spec.

    Elements come in the order of the shards. Those saved with ``num_shards=n`` come in their old
    order with ``num_parallel_reads=n``.

    Args:
        url (str | PathLike): The URL that `save` was given.
        batch_size (int | None): Gives batches as ``.batch`` does, and faster if all shapes are
            fixed. Default None.
        drop_remainder (bool): Leave out a last batch that is not full. Default False.
        storage_options (dict | None): See `TFRecordDataset`. Default None.
        storage (Storage | None): See `TFRecordDataset`. Default None.
        **options (Any): Other keyword options of `TFRecordDataset`: ``shuffle``, ``seed``,
            ``shard``, ``num_parallel_reads``, ``on_corrupt`` and others.

    Returns:
        tf.data.Dataset: Of the element spec that was saved.

    Raises:
        FileNotFoundError: There is no dataset.
        ManifestError: The manifest cannot be read.
        ValueError: `save` did not write the dataset.

    Example:
        >>> import tensorflow as tf
        >>> manifest = tfs.save(tf.data.Dataset.range(5), "numbers")
        >>> [batch.numpy().tolist() for batch in tfs.load("numbers", batch_size=3)]
        [[0, 1, 2], [3, 4]]
    """
    url, storage = os.fspath(url), given_storage(storage_options, storage)
    manifest = read_manifest(url, storage)
    if manifest is None:
        store, path = (storage or Storage()).open(url)
        other = saved_by_tensorflow(store, path.rstrip("/"))
        raise FileNotFoundError(
            f"{redacted(url)}: {other or 'there is no dataset with a manifest'}"
        )
    described = (manifest.metadata or {}).get(SPEC)
    if described is None:
        raise ValueError(
            f"{redacted(url)}: was not written by save; read it by "
            "TFRecordDataset(url, schema=...), with a schema of infer_schema(url)"
        )
    try:
        layout = _Layout(leaves.from_json(described))
    except (TypeError, ValueError) as error:
        raise ManifestError(
            f"{redacted(url)}: its manifest's {SPEC} is damaged: {error}"
        ) from error
    options |= {"storage": storage}
    if batch_size is not None and layout.fixed:
        records = TFRecordDataset(
            url, batch_size=batch_size, drop_remainder=drop_remainder, **options
        )
        batches = layout.parse(records)
        # Batches that are cut from blocks have a count that tf.data does not know of.
        return _counted(batches, int(records.cardinality())) if _unknown(batches) else batches
    elements = _elements(layout, url, options)
    return elements if batch_size is None else elements.batch(batch_size, drop_remainder)


def _elements(layout: _Layout, url: str, options: dict[str, Any]) -> tf.data.Dataset:
    records = TFRecordDataset(url, batch_size=layout.batch_size, **options)
    elements = layout.restore(layout.parse(records).unbatch())
    total = _count(url, layout.batch_size, options)
    return _counted(elements, total)


def _unknown(dataset: tf.data.Dataset) -> bool:
    return bool(dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY)


def _counted(dataset: tf.data.Dataset, total: int) -> tf.data.Dataset:
    return dataset if total < 0 else dataset.apply(tf.data.experimental.assert_cardinality(total))


def _count(url: str, batch_size: int, options: Mapping[str, Any]) -> int:
    """How many elements there will be, or one of tf.data's negative constants."""
    by_blocks = options.get("shuffle", False) is not False or options.get("num_parallel_reads")
    if options.get("shard") is None or by_blocks:
        return int(TFRecordDataset(url, **options).cardinality())
    # read by batches, and so shared out by batches
    workers, index = options["shard"]
    total = _count(url, batch_size, {**options, "shard": None})
    starts = range(index * batch_size, total, workers * batch_size)
    return total if total < 0 else sum(min(batch_size, total - start) for start in starts)


def _check_same(layout: _Layout, url: str, storage: Storage | None) -> None:
    manifest = read_manifest(url, storage)
    if manifest is not None and (manifest.metadata or {}).get(SPEC) != layout.json:
        raise ValueError(
            f"{redacted(url)}: holds elements of another spec; they can't be appended to"
        )


def _as_is(function: Any) -> Any:
    """Mark a function for `Dataset.map` that has no control flow on tensors: AutoGraph is slow."""
    return tf.autograph.experimental.do_not_convert(function)


class _Layout:
    """How elements of one spec are laid out in Examples."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.json = leaves.to_json(spec)
        named = leaves.leaves(spec, spec)
        self.leaves: list[Leaf] = [leaf_of(name, leaf) for name, leaf in named]
        self.parts = [part for leaf in self.leaves for part in leaf.parts]
        features = [(name, f) for part in self.parts for name, f in part.features().items()]
        self.schema = Schema(dict(features))
        if len(self.schema) != len(features):
            names = sorted(
                {name for name, _ in features if [n for n, _ in features].count(name) > 1}
            )
            raise TypeError(
                f"element_spec: two tensors would have the same name: {', '.join(names)}"
            )
        self.feature_spec = self.schema.feature_spec()
        self.fixed = all(leaf.fixed for leaf in self.leaves)

    @property
    def batch_size(self) -> int:
        """About 1 MiB of elements. Few elements if their size is open."""
        sizes = [p.shape.num_elements() or 256 for p in self.parts if not p.empty]
        return max(1, min(_BATCH_MOST, _BATCH_BYTES // (8 * sum(sizes) + 64)))

    # ---- elements to records ----

    def encode(self, dataset: tf.data.Dataset) -> Iterator[RecordBatch]:
        flat = dataset.map(
            _as_is(self._flatten), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        owners = {name: part for part in self.parts for name in part.features()}
        for batch in flat.ragged_batch(self.batch_size).prefetch(2):
            count = len(batch.pop(""))
            columns = {name: owners[name].column(name, column) for name, column in batch.items()}
            yield encode_examples(columns) if columns else RecordBatch.from_records([b""] * count)

    def _flatten(self, *element: Any) -> dict[str, Any]:
        """The tensors to store, by feature, and one more that counts the elements."""
        nest = element if type(self.spec) is tuple else element[0]  # as Dataset.map hands them over
        result: dict[str, Any] = {"": tf.zeros([], tf.int64)}
        found = leaves.leaves(nest, self.spec)
        for leaf, (_, value) in zip(self.leaves, found, strict=True):
            for part, tensor in zip(leaf.parts, leaf.split(value), strict=True):
                result |= part.flatten(tensor)
        return result

    # ---- records to elements ----

    def parse(self, records: tf.data.Dataset) -> tf.data.Dataset:
        """Batches of records to batches of elements, or of what `restore` makes elements of."""
        return records.map(_as_is(self._parse), num_parallel_calls=tf.data.AUTOTUNE)

    def _parse(self, records: Any) -> Any:
        parsed = tf.io.parse_example(records, self.feature_spec) if self.feature_spec else {}
        whole = {
            leaf.name: leaf.parts[0].restore_batch(parsed) for leaf in self.leaves if leaf.fixed
        }
        if self.fixed:
            return leaves.pack(self.spec, iter(whole.values()))
        return parsed | whole | {"": tf.zeros(tf.shape(records), tf.int8)}

    def restore(self, parsed: tf.data.Dataset) -> tf.data.Dataset:
        if self.fixed:
            return parsed
        return parsed.map(_as_is(self._restore), num_parallel_calls=tf.data.AUTOTUNE)

    def _restore(self, parsed: dict[str, Any]) -> Any:
        return leaves.pack(self.spec, (leaf.restore(parsed) for leaf in self.leaves))
