"""tf.train.Example without TensorFlow: mappings and tables to records, records to arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.example.columns import core_table, nan_as_nulls, normal_column
from tfio_store.example.decoding import (
    KINDS,
    Nulls,
    cast_fixed,
    check_apart,
    check_nulls,
    check_room,
    decode_column,
    decode_feature_list,
    decode_fixed,
    decode_nullable,
    decode_steps,
    forms_of,
    is_fixed,
    keys_of,
    masked,
)
from tfio_store.example.feature import Feature
from tfio_store.example.kinds import Labels, check_labels, meant, meant_schema, named
from tfio_store.example.ragged import Nullable, Ragged
from tfio_store.example.schema import RECORD, Schema, WholeRecords, written_schema
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compiled import load
from tfio_store.records.damage import not_an_example
from tfio_store.records.framing import RecordBatch
from tfio_store.records.texts import alike, listed

if TYPE_CHECKING:
    from tfio_store.example import _example
else:
    _example = load("example", "tfio_store.example._example", "tfio_store.example.pure")

__all__ = [
    "Examples",
    "Nullable",
    "Ragged",
    "decode_examples",
    "decode_sequence_examples",
    "encode_example",
    "encode_examples",
    "encode_rows",
    "encode_sequence_example",
    "infer_feature_lists",
    "infer_features",
    "is_example",
    "new_learner",
]

Records = RecordBatch | Iterable[bytes]
SchemaLike = Schema | Mapping[str, Feature | str | tuple[str, tuple[int | None, ...]]]
SchemaToRead = SchemaLike | Literal["auto", "bytes"]
Strings = Literal["object", "batch"]
_How = Mapping[str, Nulls]

_FEATURES, _FEATURE_LISTS = 1, 2
_DTYPES: dict[int, str | None] = {0: None, **{number: name for name, number in KINDS.items()}}


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Serialize one mapping as a ``tf.train.Example``.

    Features are written in the order of their names, so equal mappings give equal bytes.

    Args:
        features (dict): Feature name to value. A value is bytes, str (written as UTF-8), bool, int,
            float, a flat or nested list of one of these, a numpy array or scalar, a `Ragged`, or
            anything that numpy makes an array of (a tensor, a Series). Integers and bools become
            int64, floats float32 (float64 is rounded, as ``tf.train.FloatList`` does), strings
            bytes, numpy's times and durations int64, the number of their unit. Arrays are flattened
            in C order; the schema knows shape and unit. A `Ragged` becomes its values and a second
            feature, NAME/row_lengths. Integers among floats in a list become floats, if float32 has
            them exactly. An empty list becomes a feature without values. A null (None,
            ``pandas.NA``, NaT, ``numpy.ma.masked``) is left out.

    Returns:
        bytes: The record.

    Raises:
        TypeError: A list mixes kinds, or a record cannot hold the dtype. The error names the
            feature.
        ValueError: A number does not fit int64 or is beyond the range of float32, the rows of a
            list differ in length, or some of a feature's values are null and others are not.

    Example:
        >>> record = tfs.encode_example({"x": 7, "name": "ada", "z": [0.5, 1.5]})
        >>> tfs.decode_examples([record], {"x": "int64", "z": ("float32", (2,))})["z"]
        array([[0.5, 1.5]], dtype=float32)
    """
    return _example.encode_example(features)


def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]]
) -> bytes:
    """Serialize one ``tf.train.SequenceExample``.

    Args:
        context (dict): As for `encode_example`.
        feature_lists (dict): Feature name to a sequence of steps. A step's values may be what a
            feature's values in `encode_example` may be.

    Returns:
        bytes: The record.

    Raises:
        TypeError: A value cannot be written. The error names the feature.
        ValueError: A number does not fit int64, or the rows of a list differ in length.

    Example:
        >>> steps = {"frames": [[0.5, 1.0], [2.0]], "words": ["a", "b"]}
        >>> record = tfs.encode_sequence_example({"id": 7}, steps)
        >>> spec = {"id": "int64"}, {"words": "str"}
        >>> context, lists = tfs.decode_sequence_examples([record], *spec)
        >>> context["id"], lists["words"].tolist()
        (array([7]), [['a', 'b']])
    """
    return _example.encode_sequence_example(context, feature_lists)


def encode_examples(
    columns: Mapping[str, Any], *, schema: SchemaLike | None = None, nan_as_null: bool = False
) -> RecordBatch:
    """Serialize the rows of a table as Examples, without Python code for each row.

    A row has every feature, but for its nulls: these it lacks. By a schema with feature lists
    (``Feature(..., sequence=True)``) the rows become SequenceExamples.

    Args:
        columns (dict): Column name to an array whose first dimension is the rows, a list of bytes,
            str or numbers, a `RecordBatch` of byte strings, a `Ragged` (or the pair (values,
            row_splits)), a pyarrow array, or a pandas Series. Nulls are None, ``pandas.NA``, what a
            masked array masks, what pandas calls missing (but for NaN among floats), what pyarrow
            calls null, and those of a `Nullable`.
        schema (Schema | dict | None): Casts a column to the feature's dtype, or writes it raw, and
            "float64" is raw. Floats may be rounded to a narrower dtype. Anything else that would
            change is an error, and so is a null of a feature that is not nullable. Default None:
            dtypes go as in `encode_example`.
        nan_as_null (bool): Take NaN and NaT for nulls, in columns of single numbers. Default False.

    Returns:
        RecordBatch: One record for each row.

    Raises:
        TypeError: A column cannot be written, or is of another kind than the schema says. The error
            names it.
        ValueError: A value does not fit, or the columns differ in length. The error names the
            column.

    Example:
        >>> batch = tfs.encode_examples({"x": [1, 2], "name": ["ada", "bob"]})
        >>> tfs.decode_examples(batch, {"name": "str"})["name"]
        array(['ada', 'bob'], dtype=object)
    """
    if nan_as_null:
        columns = {name: nan_as_nulls(normal_column(name, columns[name])) for name in columns}
    return encode_rows(columns, None if schema is None else written_schema(schema))


def encode_rows(
    columns: Mapping[str, Any],
    schema: Schema | None,
    *,
    first_row: int = 0,
    exact: Collection[str] = (),
    untyped: Collection[str] = (),
) -> RecordBatch:
    """As `encode_examples`, for rows of a longer table. Errors count from its ``first_row``. Of
    ``exact`` columns the schema may not change a value. ``untyped`` ones are lists without values,
    whose type is unknown yet: records hold them so that any type reads them."""
    context, lists, rows = core_table(columns, schema, first_row, exact, untyped)
    if lists:
        buffer, offsets = _example.encode_sequence_columns(context, lists, rows)
    else:
        buffer, offsets = _example.encode_columns(context, rows)
    return RecordBatch(buffer, offsets[:-1], np.diff(offsets))


def new_learner() -> Any:
    """Make an encoder of mappings that learns their columns; see `tfio_store.example.learned`."""
    return _example.Learner()


class Examples(dict[str, Any]):
    """Decoded columns: a dict of feature name to array, `Ragged`, `RecordBatch` or `Nullable`.

    Args:
        columns (dict): The columns, all with the same number of rows.
        schema (Schema): What the columns are. It stays in the attribute ``schema``.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2], "name": ["ada", "bob"]}, "train")
        >>> table = tfs.read_table("train")
        >>> table.to_pandas().shape, table.to_arrow().num_rows
        ((2, 2), 2)
    """

    def __init__(self, columns: Mapping[str, Any], schema: Schema) -> None:
        super().__init__(columns)
        self.schema = schema

    def to_arrow(self, *, schema: Any = None) -> Any:
        """Make an Arrow table. Needs pyarrow.

        Args:
            schema (pyarrow.Schema | None): The types that some or all columns are to have. Default
                None: those of the table that `write_table` wrote, or what the features amount to.

        Returns:
            pyarrow.Table: Fixed shapes become fixed-size lists, ragged ones lists. Nulls are nulls.

        Raises:
            ImportError: pyarrow is not installed.
            SchemaError: A byte string of a `RecordBatch` is not UTF-8, and the schema has str.
            TypeError: A column has no Arrow type.
            ValueError: A column holds what its wanted type can't. The error names the column.
        """
        from tfio_store.example.arrow import to_arrow

        return to_arrow(self, self.schema, schema)

    def to_pandas(self) -> Any:
        """Make a data frame. Needs pandas.

        Returns:
            pandas.DataFrame: One that `write_table` wrote comes back with its dtypes. Else what is
            not one value per row becomes one object per row, nullable numbers have pandas' nullable
            dtypes (Int64, boolean, …), and other nulls are NaT or None.

        Raises:
            ImportError: pandas is not installed.
        """
        from tfio_store.example.arrow import to_pandas

        return to_pandas(self, self.schema)


def decode_examples(
    records: Records,
    schema: SchemaLike,
    *,
    strings: Strings = "object",
    nulls: Nulls = "mask",
    labels: Labels = "numbers",
    decode_images: bool = False,
) -> Examples:
    """Decode a batch of serialized Examples, or SequenceExamples, into columns.

    Features that the schema does not name are stepped over undecoded. Unknown fields of a record
    are no error; lengths that lie are.

    Args:
        records (RecordBatch | Iterable[bytes] | tf.Tensor): n records. A tensor, or one for each
            record, is of strings.
        schema (Schema | dict): What to decode, as `Schema` takes it.
        strings (str): How byte strings come. "object" (default) gives object arrays of bytes, or of
            str for dtype "str", as ``Tensor.numpy()`` does. (numpy's fixed-width "S" would drop
            trailing zeros, and pad to the longest.) "batch" makes no object for each value, which
            is most of the time that small records take: it gives a flat `RecordBatch` over the
            records' own memory, with n * k entries for a feature of shape (k,), k > 0.
        nulls (str): How nullable features come. "mask" (default) gives masked arrays, and a
            `Nullable` of what has no mask (a `Ragged`, a `RecordBatch`). "nan" gives plain arrays
            with NaN, NaT, or None among strings; integers have none of these. "default" gives the
            features' defaults, and empty rows of ragged ones.
        labels (str): How the classes of `Feature.class_label` come: as "numbers" (default), or as
            "names", in object arrays of str.
        decode_images (bool): Decode the images of `Feature.image`, by Pillow. They come in object
            arrays: each one is an array [h, w, c] of uint8 (of uint16, where it is grey of 16
            bits), of an animation its first frame. Default False: they are encoded bytes.

    Returns:
        Examples: For a fixed shape, an array ``[n, *shape]`` of the feature's dtype. For a shape
        that begins with None, a `Ragged` of n rows with values ``[total, *shape[1:]]``. For a
        feature list a row has the steps of its record. Nullable features come as ``nulls`` says.

    Raises:
        SchemaError: A feature is absent, not nullable and has no default; or its values are of
            another kind or number than the schema says; or a number counts no class, or an image is
            damaged or has more pixels than Pillow's MAX_IMAGE_PIXELS. The error names record and
            feature.
        CorruptRecordError: A record is not an Example.
        ImportError: Images are to be decoded, and Pillow is not installed.
        ValueError: ``strings``, ``nulls`` or ``labels`` is not as described or does not fit a
            feature, or ``schema`` is no schema.

    Example:
        >>> records = [tfs.encode_example({"x": x, "ids": [0] * x}) for x in (2, 1)]
        >>> columns = tfs.decode_examples(records, {"x": "int64", "ids": ("int64", (None,))})
        >>> columns["x"], columns["ids"].tolist()
        (array([2, 1]), [[0, 0], [0]])
    """
    batch, schema = _batch(records), Schema.of(schema)
    check_nulls(nulls)
    check_labels(labels)
    names = named(schema, labels) if nulls == "nan" else ()
    how: _How = {name: "mask" if name in names else nulls for name in schema}
    shown = Schema(schema) if isinstance(schema, WholeRecords) else schema
    found = Examples(masked(decode_columns(batch, schema, strings, how), schema), shown)
    if labels == "numbers" and not decode_images:
        return found
    columns = meant(found, schema, labels, decode_images, names)
    return Examples(columns, meant_schema(schema, labels))


def decode_sequence_examples(
    records: Records,
    context: SchemaLike,
    feature_lists: SchemaLike,
    *,
    strings: Strings = "object",
) -> tuple[Examples, Examples]:
    """Decode a batch of serialized SequenceExamples into columns.

    Args:
        records (RecordBatch | Iterable[bytes] | tf.Tensor): See `decode_examples`.
        context (Schema | dict): The context features to decode.
        feature_lists (Schema | dict): The feature lists to decode. Shapes are those of one step.
        strings (str): See `decode_examples`. Default "object".

    Returns:
        tuple[Examples, Examples]: The context, as from `decode_examples`, and the feature lists.
        Each list is a `Ragged`: row i has the steps of record i. Where the steps vary in shape, the
        values are a `Ragged` again. An absent feature list has no steps.

    Raises:
        SchemaError: See `decode_examples`.
        CorruptRecordError: A record is not a SequenceExample.
        ValueError: See `decode_examples`.

    Example:
        >>> record = tfs.encode_sequence_example({}, {"frames": [[0.5, 1.0], [2.0]]})
        >>> spec = {"frames": ("float32", (None,))}
        >>> tfs.decode_sequence_examples([record], {}, spec)[1]["frames"][0].tolist()
        [[0.5, 1.0], [2.0]]
    """
    batch, wanted = _batch(records), Schema.of(feature_lists, argument="feature_lists")
    outer = Schema.of(context, argument="context")
    check_apart(outer, wanted)
    how: _How = dict.fromkeys(outer, "mask")
    contexts = Examples(masked(decode_columns(batch, outer, strings, how), outer), outer)
    spans = _locate(batch, [name.encode() for name in wanted], _FEATURE_LISTS)
    lists = {
        name: decode_steps(spans, i, feature, batch.buffer, strings)
        for i, (name, feature) in enumerate(wanted.items())
    }
    return contexts, Examples(lists, wanted)


def infer_features(record: bytes) -> dict[str, tuple[str | None, int]]:
    """The features of one serialized Example, or of a SequenceExample's context: name to (wire
    dtype, or None if it is empty; number of values)."""
    return {_text(key): (_DTYPES[kind], count) for key, kind, count in _example.describe(record)}


def infer_feature_lists(record: bytes) -> dict[str, list[tuple[str | None, set[int]]]]:
    """The feature lists of one serialized SequenceExample: name to (wire dtype, or None of steps
    without values; the numbers of values that its steps have), for each kind that occurs."""
    found = {}
    for key, kinds, counts in _example.describe_lists(record):
        each = [(_DTYPES[kind], set(counts[kinds == kind].tolist())) for kind in np.unique(kinds)]
        found[_text(key)] = each
    return found


def is_example(value: object) -> bool:
    """Whether a value of a column or a mapping is a serialized Example or SequenceExample that
    holds something. Other bytes hardly ever parse as one."""
    if not isinstance(value, bytes | bytearray | memoryview) or bytes(value[:1]) not in b"\n\x12":
        return False
    try:
        record = bytes(value)
        return bool(record) and bool(infer_features(record) or infer_feature_lists(record))
    except CorruptRecordError:
        return False


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise not_an_example(f"a feature's name is not UTF-8: {error}") from None


def decode_columns(
    batch: RecordBatch, schema: Schema, strings: Strings, nulls: _How
) -> dict[str, Any]:
    """As `decode_examples`, with a `Nullable` in place of each masked array. ``nulls`` says how
    those of each feature come."""
    if strings not in ("object", "batch"):
        raise ValueError(f"strings must be 'object' or 'batch', got {strings!r}")
    if isinstance(schema, WholeRecords):
        return {RECORD: batch if strings == "batch" else _objects(batch)}
    try:
        columns = _decode_context(batch, schema, strings, nulls)
        if schema.sequence:
            columns |= _decode_lists(batch, schema, strings, nulls)
    except SchemaError as error:
        reason = error.reason + _meant(error.feature, batch[error.record])
        raise SchemaError(reason, feature=error.feature, record=error.record) from None
    return {name: columns[name] for name in schema}


def is_list_of_numbers(feature: Feature) -> bool:
    """Whether `value_counts` counts its values."""
    numbers = feature.item_dtype().kind in "biuf"
    return feature.shape == (None,) and not feature.sequence and numbers


def value_counts(records: Records, lists: Mapping[str, Feature]) -> dict[str, Int64Array]:
    """How many values of lists of numbers each record has, 0 where one is absent.
    CorruptRecordError or SchemaError where that can't be said."""
    spans = _locate(_batch(records), [name.encode() for name in lists], _FEATURES)
    return {name: _value_counts(spans, i, lists[name]) for i, name in enumerate(lists)}


def _value_counts(spans: Any, column: int, feature: Feature) -> Int64Array:
    if feature.raw:
        _, ends = spans.joined(column, fallback=[b""])
        counts: Int64Array = np.diff(ends) // feature.item_dtype().itemsize
    else:
        counts = spans.counts(column, KINDS[feature.wire])
    return counts


def _meant(feature: str, record: bytes) -> str:
    """The end of an error about a feature that the record lacks: what it has instead."""
    there = {**infer_features(record), **infer_feature_lists(record)}
    if feature in there:
        return ""
    return alike(feature, there) or f"; the record has {listed(there)}"


def _objects(batch: RecordBatch) -> Any:
    found = np.empty(len(batch), object)
    found[:] = list(batch)
    return found


def _decode_context(
    batch: RecordBatch, schema: Schema, strings: Strings, nulls: _How
) -> dict[str, Any]:
    """The features of Examples, or of the contexts of SequenceExamples."""
    wanted = {name: feature for name, feature in schema.items() if not feature.sequence}
    keys = {name: keys_of(name, feature) for name, feature in wanted.items()}
    spans = _locate(batch, [key for group in keys.values() for key in group], _FEATURES)
    starts = accumulate((len(group) for group in keys.values()), initial=0)
    placed = {name: (at, wanted[name]) for name, at in zip(keys, starts, strict=False)}
    check_room(spans, placed)
    columns: dict[str, Any] = decode_fixed(spans, placed)
    for name, (at, feature) in placed.items():
        if name in columns:
            continue
        how = (batch.buffer, strings, nulls[name])
        try:
            columns[name] = _decode_feature(name, spans, at, feature, *how)
        except SchemaError:  # records hold float64 as memory or rounded, as their writer chose
            if feature.dtype != "float64":
                raise
            with suppress(SchemaError):
                other = replace(feature, raw=not feature.raw)
                columns[name] = _decode_feature(name, spans, at, other, *how)
            if name not in columns:
                raise
    return columns


class NumberForms:
    """How features are decoded that are numbers of a fixed shape which every record has: found out
    once for all records."""

    def __init__(self, schema: Schema) -> None:
        self._keys = [name.encode() for name in schema]
        self._forms = forms_of(schema.values())
        self._placed = {name: (at, feature) for at, (name, feature) in enumerate(schema.items())}

    @classmethod
    def of(cls, schema: Schema) -> NumberForms | None:
        """None where one of the features is anything else."""
        whole = isinstance(schema, WholeRecords)
        return cls(schema) if not whole and all(map(is_fixed, schema.values())) else None

    def columns(self, parts: Sequence[RecordBatch]) -> Numbers:
        """What decodes these batches."""
        whole: list[Any] = [(part.buffer, part.offsets, part.lengths) for part in parts]
        return Numbers(_example.Columns(whole, self._keys, *self._forms), self._placed)


class Numbers:
    """The columns of several batches, end to end. They are decoded without the GIL, by a thread of
    C or by the caller."""

    def __init__(self, columns: Any, placed: Mapping[str, tuple[int, Feature]]) -> None:
        self._columns, self._placed = columns, placed
        self.begin = columns.begin
        self.begins = columns.begins
        self.done = columns.done

    def result(self) -> tuple[dict[str, Any], float] | None:
        """The columns, and the seconds that they took. None where something is unusual: each batch
        is then to be decoded by itself, which tells what is wrong."""
        found = self._columns.result()
        if found is None:
            return None
        columns = cast_fixed(self._columns, self._placed, found[0])
        return (columns, found[1]) if columns else None


def _decode_feature(
    name: str, spans: Any, at: int, feature: Feature, buffer: Any, strings: Strings, nulls: Nulls
) -> Any:
    if feature.nullable:
        return decode_nullable(name, spans, at, feature, buffer, strings, nulls)
    return decode_column(spans, at, feature, buffer, strings)


def _decode_lists(
    batch: RecordBatch, schema: Schema, strings: Strings, nulls: _How
) -> dict[str, Any]:
    wanted = {name: feature for name, feature in schema.items() if feature.sequence}
    spans = _locate(batch, [name.encode() for name in wanted], _FEATURE_LISTS)
    return {
        name: decode_feature_list(spans, i, feature, batch.buffer, strings, nulls[name])
        for i, (name, feature) in enumerate(wanted.items())
    }


def _locate(batch: RecordBatch, keys: list[bytes], map_field: int) -> Any:
    return _example.Spans.locate(batch.buffer, batch.offsets, batch.lengths, keys, map_field)


def _batch(records: Records) -> RecordBatch:
    if isinstance(records, RecordBatch):
        return records
    if hasattr(records, "numpy"):  # a batch of TensorFlow's
        records = records.numpy()
    elif isinstance(records, (list, tuple)) and records and hasattr(records[0], "numpy"):
        records = [record.numpy() for record in records]
    if isinstance(records, (bytes, bytearray, memoryview, str)):
        raise TypeError("records must be a RecordBatch or a list of bytes, not one record")
    if not isinstance(records, Iterable):
        raise TypeError(
            f"records must be a RecordBatch or a list of bytes, not {type(records).__name__}"
        )
    return RecordBatch.from_records(records)
