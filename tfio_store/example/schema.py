"""`Schema`: what the features of a dataset's Examples are, as values that travel in its
manifest."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tfio_store.errors import printable
from tfio_store.example.feature import ROW_LENGTHS, Feature, Shape
from tfio_store.records.texts import html_table, unknown

RECORD = "record"
"""The column of whole records, where their contents are unknown or bytes are wanted."""

_COLUMNS = ("feature", "dtype", "shape", "default")


def column_names(columns: Iterable[str]) -> tuple[str, ...]:
    """The names. TypeError for a single one, whose letters would be taken for names."""
    if isinstance(columns, str):
        raise TypeError(f"columns= takes a list of names, not one: pass [{columns!r}]")
    return tuple(columns)


class Schema(Mapping[str, Feature]):
    """Feature names to `Feature`, in the order given. A schema is immutable, and a mapping.

    Args:
        features (dict): Feature name to a `Feature`, to a dtype (for a scalar), or to (dtype,
            shape).
        arrow (bytes | None): The Arrow types of a table that `write_table` wrote, as an Arrow IPC
            stream without rows. They make `Examples.to_arrow` and ``to_pandas`` exact. Default
            None.

    Attributes:
        records_seen (int | None): How many records `infer_schema` looked at, of which it is the
            schema. None: no record had to be looked at.

    Raises:
        TypeError: A name or a value is of another type. The error names the feature.
        ValueError: A dtype or a shape is none. The error names the feature.

    Example:
        >>> schema = tfs.Schema({"image": ("float32", (3, 64, 64)), "label": "int64"})
        >>> schema.select(["label"])
        Schema:
          feature  dtype  shape  default
          label    int64  ()
        >>> tfs.Schema.from_json(schema.to_json()) == schema
        True
    """

    records_seen: int | None = None

    def __init__(
        self,
        features: Mapping[str, Feature | str | tuple[str, Shape]],
        *,
        arrow: bytes | None = None,
    ) -> None:
        if not isinstance(features, Mapping):
            raise TypeError(
                "features must be a mapping of names to features, such as {'x': 'int64'}, not "
                f"{type(features).__name__}"
            )
        self.arrow = arrow
        self._features: dict[str, Feature] = {}
        for name in features:
            if not isinstance(name, str):
                raise TypeError(f"feature names must be str, got {name!r}")
            try:
                self._features[name] = _feature(features[name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"feature {name!r}: {error}") from None
        self._check_lengths()

    def _of_records(self, count: int | None) -> Schema:
        """The same schema, of so many records that somebody has looked at."""
        self.records_seen = count
        return self

    def _check_lengths(self) -> None:
        context = {name: f for name, f in self._features.items() if not f.sequence}
        for name, feature in context.items():
            if feature.nested and name + ROW_LENGTHS in context:
                raise ValueError(
                    f"feature {name + ROW_LENGTHS!r}: the nested {name!r} needs that name"
                )

    def __getitem__(self, name: str) -> Feature:
        return self._features[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __hash__(self) -> int:
        return hash(frozenset(self._features))

    @property
    def sequence(self) -> bool:
        """Whether records are SequenceExamples, and not Examples (bool)."""
        return any(feature.sequence for feature in self.values())

    def select(self, columns: Iterable[str]) -> Schema:
        """Keep some features only.

        Args:
            columns (list[str]): Their names.

        Returns:
            Schema: With these features.

        Raises:
            KeyError: There is no such feature.
            TypeError: It is one name, not a list.
        """
        names = column_names(columns)
        for name in names:
            if name not in self:
                raise KeyError(unknown("feature", name, self))
        return Schema({name: self[name] for name in names}, arrow=self.arrow)

    def to_json(self) -> dict[str, Any]:
        """Turn the schema into what JSON can hold. The manifest keeps it in this form.

        Returns:
            dict: What `from_json` takes.
        """
        made: dict[str, Any] = {name: feature.to_json() for name, feature in self.items()}
        if self.arrow is None:
            return {"features": made}
        return {"features": made, "arrow": base64.b64encode(self.arrow).decode()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schema:
        """Make a schema of what `to_json` returned.

        Args:
            value (dict): With the key "features", and perhaps "arrow".

        Returns:
            Schema: An equal one.

        Raises:
            ValueError: It is no schema.
        """
        try:
            features = value["features"].items()
            arrow = value.get("arrow")
            return cls(
                {str(name): Feature.from_json(feature) for name, feature in features},
                arrow=None if arrow is None else base64.b64decode(arrow, validate=True),
            )
        except (
            AttributeError,
            KeyError,
            TypeError,
            OverflowError,
            RecursionError,
            binascii.Error,
        ) as error:
            raise ValueError(f"not a schema: {error!r}") from None

    @classmethod
    def of(cls, value: object, *, argument: str = "schema") -> Schema:
        """Make a schema of what a user gave as one.

        Args:
            value (Schema | dict): A schema, what one is made from, or what `to_json` returned.
            argument (str): What errors call it. Default "schema".

        Returns:
            Schema: ``value`` itself, if it is one.

        Raises:
            TypeError: ``value`` is of another type.
            ValueError: ``value`` is no schema.
        """
        if isinstance(value, Schema):
            return value
        if not isinstance(value, Mapping):
            raise TypeError(
                f"{argument}= takes a Schema, or a mapping of feature names to dtypes, not "
                f"{type(value).__name__}"
            )
        try:
            return cls.from_json(value) if _is_json(value) else cls(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{argument}= is no schema: {error}") from None

    def with_defaults(self, defaults: Mapping[str, Any]) -> Schema:
        """Give features a default. `feature_spec` asks for those of nullable features.

        Args:
            defaults (dict): Feature name to what a record without the feature gets.

        Returns:
            Schema: The same, with these defaults.

        Raises:
            KeyError: There is no such feature.
            ValueError: A default does not fit its feature.

        Example:
            >>> schema = tfs.Schema({"x": tfs.Feature("int64", nullable=True)})
            >>> schema.with_defaults({"x": -1})["x"].default
            -1
        """
        self.select(defaults)
        changed = dict(self)
        for name, default in defaults.items():
            try:
                changed[name] = replace(self[name], default=default)
            except ValueError as error:
                raise ValueError(f"feature {name!r}: {error}") from None
        return Schema(changed, arrow=self.arrow)

    def feature_spec(self) -> dict[str, Any]:
        """Make the spec that ``tf.io.parse_example`` takes. Needs TensorFlow.

        TensorFlow gives the dtypes that records hold. Convert with ``tf.cast``, and raw features
        with ``tf.io.decode_raw``. Tensors have no nulls: a nullable feature needs a default, or is
        ragged, and then a null is an empty row.

        TensorFlow cuts the rows of a batch (of shape (None, 2) or (None, None)) from the values of
        all records. A record without whole rows moves values into others, in silence.
        `TFRecordDataset` with the schema itself checks each record.

        Returns:
            dict: Feature name to ``FixedLenFeature`` (fixed shapes) or ``RaggedFeature`` (variable
            ones).

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: A nullable feature has no default, or one is a feature list.

        Example:
            >>> import tensorflow as tf
            >>> spec = tfs.Schema({"x": "int64"}).feature_spec()
            >>> tf.io.parse_example([tfs.encode_example({"x": 7})], spec)["x"].numpy()
            array([7])
            >>> tfs.Schema.from_feature_spec(spec) == tfs.Schema({"x": "int64"})
            True
        """
        from tfio_store.example.feature_spec import to_spec

        for name in [name for name, feature in self.items() if feature.sequence]:
            raise ValueError(
                f"feature {name!r} is a feature list, which no Example has; sequence_spec() is for "
                "tf.io.parse_sequence_example"
            )
        return {name: to_spec(name, feature) for name, feature in self.items()}

    def sequence_spec(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Make the specs that ``tf.io.parse_sequence_example`` takes. Needs TensorFlow.

        Returns:
            tuple[dict, dict]: Of the context as `feature_spec`, and of the feature lists: a
            ``RaggedFeature`` each, which gives tensors of records, steps and values.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: A nullable feature of the context has no default.

        Example:
            >>> import tensorflow as tf
            >>> schema = tfs.Schema({"x": tfs.Feature("int64", (None,), sequence=True)})
            >>> record = tfs.encode_sequence_example({}, {"x": [1, 2]})
            >>> tf.io.parse_sequence_example([record], *schema.sequence_spec())[1]["x"].to_list()
            [[[1], [2]]]
        """
        from tfio_store.example.feature_spec import list_spec

        context = Schema({name: feature for name, feature in self.items() if not feature.sequence})
        lists = {name: list_spec(feature) for name, feature in self.items() if feature.sequence}
        return context.feature_spec(), lists

    @classmethod
    def from_feature_spec(cls, spec: Mapping[str, Any]) -> Schema:
        """Make a schema of a spec for ``tf.io.parse_example``. Needs TensorFlow.

        Args:
            spec (dict): Feature name to a feature of ``tf.io``.

        Returns:
            Schema: What the spec amounts to.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: A feature has no schema: ``SparseFeature``, and most partitions.
        """
        from tfio_store.example.feature_spec import from_spec

        return cls({name: from_spec(name, feature) for name, feature in spec.items()})

    def __repr__(self) -> str:
        """A table: name, dtype, shape, default."""
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        text = "\n".join([f"{self._title()}:", *(("  " + line).rstrip() for line in lines)])
        return printable(text)

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._rows(), _COLUMNS)

    def _title(self) -> str:
        seen = self.records_seen
        return "Schema" + ("" if seen is None else f" of {seen:,} record{'' if seen == 1 else 's'}")

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """A row of texts for each feature, as `_COLUMNS` names them."""
        for name, feature in self.items():
            default = "" if feature.default is None else repr(feature.default)
            names = ("raw", "nullable", "sequence")
            flags = [flag for flag in names if getattr(feature, flag)]
            if feature.kind is not None:
                flags.insert(0, str(feature.kind))
            dtype = feature.dtype + (f" ({', '.join(flags)})" if flags else "")
            yield name, dtype, str(feature.shape), default


def _is_json(value: object) -> bool:
    """Whether it is what `Schema.to_json` returned."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("features"), Mapping)
        and value.keys() <= {"features", "arrow", "learned"}
    )


class WholeRecords(Schema):
    """The schema of ``schema="bytes"``: one column, the records as they are. Only readers have
    it."""

    def __init__(self) -> None:
        super().__init__({RECORD: "bytes"})

    def select(self, columns: Iterable[str]) -> Schema:
        return self if super().select(columns) else Schema({})


def schema_to_read(value: object) -> Schema:
    """The schema that ``schema=`` asks a reader for: "bytes", or what `Schema.of` takes. Of "auto"
    others know more."""
    if isinstance(value, str):
        if value == "bytes":
            return WholeRecords()
        raise ValueError(
            'schema= takes a Schema, a mapping of feature names to dtypes, "auto" or "bytes", not '
            f"{value!r}"
        )
    return Schema.of(value)


def written_schema(value: object) -> Schema:
    """The schema by which a user wants to write. "float64" is memory there: whoever says it wants
    no rounding. What `Schema.to_json` returned describes records that are there, and stays as it
    is.

    As `Schema.of` otherwise; and ValueError for a float64 that has no raw form.
    """
    schema = Schema.of(value)
    wide = [name for name, feature in schema.items() if feature.dtype == "float64"]
    if _is_json(value) or all(schema[name].raw for name in wide):
        return schema
    changed = dict(schema)
    for name in wide:
        try:
            changed[name] = replace(schema[name], raw=True)
        except ValueError:
            raise ValueError(
                f"schema=: feature {name!r} is a feature list of float64, which records hold as "
                "float32 alone; say float32"
            ) from None
    return Schema(changed, arrow=schema.arrow)


def _feature(value: Any) -> Feature:
    if isinstance(value, Feature):
        return value
    if isinstance(value, tuple) and value:
        return Feature(*value)
    return Feature(value)
