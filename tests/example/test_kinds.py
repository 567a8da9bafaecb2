"""Feature kinds, and classes by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store import Feature, Nullable, Ragged, Schema, SchemaError

NAMES = ["cat", "dog", "ümlaut"]
ANIMAL = Feature.class_label(NAMES)


def animals(**options: Any) -> Schema:
    return Schema({"x": Feature.class_label(NAMES, **options)})


class TestSchema:
    def test_kinds_travel_as_json(self) -> None:
        schema = Schema(
            {
                "label": Feature.class_label(NAMES, default=1, nullable=True),
                "png": Feature.image("png", shape=(None,)),
                "any": Feature.image(),
                "text": Feature.text(default="-"),
            }
        )
        again = Schema.from_json(schema.to_json())
        assert again == schema
        assert again["label"].kind == ANIMAL.kind
        assert "ClassLabel('cat', 'dog'" in repr(again)

    def test_a_reader_that_knows_no_kinds_reads_numbers_and_bytes(self) -> None:
        plain = {"label": ANIMAL.to_json(), "photo": Feature.image("png").to_json()}
        for feature in plain.values():
            del feature["kind"]
        assert Schema.from_json({"features": plain}) == {
            "label": Feature("int64"),
            "photo": Feature("bytes"),
        }

    def test_a_kind_of_a_later_version_is_left_out(self) -> None:
        later = {"dtype": "bytes", "shape": [], "kind": {"video": {"fps": 3}}}
        assert Feature.from_json(later) == Feature("bytes")

    @pytest.mark.parametrize(
        ("kind", "match"),
        [
            ({"class_label": {"names": "cat"}}, "list of str"),
            ({"class_label": {"names": [1]}}, "str, got 1"),
            ({"class_label": {}}, "names"),
            ({"image": {"encoding": "exe"}}, "exe"),
            ({"image": 3}, "schema"),
            (3, "schema"),
        ],
    )
    def test_a_kind_that_is_none(self, kind: Any, match: str) -> None:
        feature = {"dtype": "int64", "shape": [], "kind": kind}
        with pytest.raises(ValueError, match=match):
            Schema.from_json({"features": {"x": feature}})

    @pytest.mark.parametrize("names", [[], ["a", "a"]])
    def test_names_that_tell_no_classes_apart(self, names: list[str]) -> None:
        with pytest.raises(ValueError, match="names must be given, and differ"):
            Feature.class_label(names)

    def test_one_string_is_no_list_of_names(self) -> None:
        with pytest.raises(TypeError, match="list of str"):
            Feature.class_label("cat")

    def test_a_default_that_counts_no_class(self) -> None:
        with pytest.raises(ValueError, match="default 3 counts none"):
            Feature.class_label(NAMES, default=3)

    def test_many_names_are_not_all_shown(self) -> None:
        assert len(repr(Feature.class_label(map(str, range(10_000))))) < 300

    def test_a_kind_of_another_dtype(self) -> None:
        with pytest.raises(ValueError, match="dtype int64, not float32"):
            Feature("float32", kind=ANIMAL.kind)


COLUMNS: dict[str, Any] = {
    "names": ["dog", "cat"],
    "bytes": [b"dog", b"cat"],
    "numpy's strings": [np.str_("dog"), np.bytes_(b"cat")],
    "numpy's strings as objects": np.array([np.str_("dog"), np.bytes_(b"cat")], object),
    "numbers": [1, 0],
    "an array of text": np.array(["dog", "cat"]),
    "an array of fixed bytes": np.array([b"dog", b"cat"]),
    "an array of objects": np.array(["dog", "cat"], object),
    "small integers": np.array([1, 0], np.uint8),
    "whole floats": np.array([1.0, 0.0]),
    "a batch": tfs.RecordBatch.from_records([b"dog", b"cat"]),
}


class TestWritingClasses:
    @pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
    def test_names_and_numbers(self, column: Any) -> None:
        batch = tfs.encode_examples({"x": column}, schema=animals())
        assert list(batch) == [tfs.encode_example({"x": 1}), tfs.encode_example({"x": 0})]

    def test_frames_and_arrow(self) -> None:
        pa, pd = pytest.importorskip("pyarrow", exc_type=ImportError), pytest.importorskip("pandas")
        plain = pa.array(["dog", "cat"])
        columns = [plain, plain.dictionary_encode(), pd.Series(["dog", "cat"], dtype="category")]
        for column in columns:
            batch = tfs.encode_examples({"x": column}, schema=animals())
            assert tfs.decode_examples(batch, {"x": "int64"})["x"].tolist() == [1, 0]

    def test_nulls(self) -> None:
        schema = animals(nullable=True)
        for column in (["dog", None], [1, None], np.ma.array([1, 9], mask=[False, True])):
            batch = tfs.encode_examples({"x": column}, schema=schema)
            assert tfs.decode_examples(batch, schema)["x"].tolist() == [1, None]
            names = tfs.decode_examples(batch, schema, labels="names")["x"]
            assert names.tolist() == ["dog", None]

    def test_a_null_where_none_may_be(self) -> None:
        with pytest.raises(ValueError, match="row 1 is null"):
            tfs.encode_examples({"x": ["dog", None]}, schema=animals())

    @pytest.mark.parametrize(
        ("column", "match"),
        [
            (["dog", "cow"], "feature 'x': row 1 holds 'cow', which is none of .*'cat', 'dog'"),
            ([b"\xff", b"dog"], r"row 0 holds b'.xff'"),
            ([0, 3], "row 1 holds 3, which counts none"),
            ([-1, 0], "row 0 holds -1"),
            ([0, 1.5], "row 1 holds 1.5"),
        ],
    )
    def test_what_is_no_class(self, column: Any, match: str) -> None:
        with pytest.raises(ValueError, match=match):
            tfs.encode_examples({"x": column}, schema=animals())

    def test_rows_of_classes(self) -> None:
        rows = [["dog"], [], ["cat", "dog"]]
        schema = animals(shape=(None,))
        batch = tfs.encode_examples({"x": rows}, schema=schema)
        assert tfs.decode_examples(batch, schema)["x"].tolist() == [[1], [], [0, 1]]
        assert tfs.decode_examples(batch, schema, labels="names")["x"].tolist() == rows
        with pytest.raises(ValueError, match="row 2 holds 'cow'"):
            tfs.encode_examples({"x": [["dog"], [], ["cat", "cow"]]}, schema=schema)

    def test_nested_rows_name_the_row(self) -> None:
        schema = animals(shape=(None, None))
        inner = Ragged(["dog", "cat", "cow"], np.array([0, 1, 2, 3]))
        with pytest.raises(ValueError, match="row 1 holds 'cow'"):
            tfs.encode_examples({"x": Ragged(inner, np.array([0, 1, 3]))}, schema=schema)

    def test_dicts(self, tmp_path: Path) -> None:
        url = str(tmp_path / "train")
        with tfs.ShardedWriter(url, num_shards=1, schema=animals(nullable=True)) as writer:
            for value in (np.str_("dog"), 0, np.bytes_(b"dog"), np.int64(2), None):
                writer.write({"x": value})
            writer.write_batch([{"x": "cat"}, {}])
            with pytest.raises(SchemaError, match="record 0: feature 'x' holds 'cow'"):
                writer.write({"x": "cow"})
        assert tfs.read_table(url)["x"].tolist() == [1, 0, 1, 2, None, 0, None]
        other = tfs.ShardedWriter(str(tmp_path / "other"), num_shards=1, schema=animals())
        with pytest.raises(SchemaError, match="record 1: feature 'x' holds 7"), other:
            other.write_batch([{"x": 1}, {"x": 7}])

    def test_reasons_of_dicts(self, tmp_path: Path) -> None:
        writer = tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, schema=animals())
        for value, reason in (
            ("a row 0 cow", "holds 'a row 0 cow', which is none of"),
            ({1}, "can't be written: rows of type set"),
        ):
            with pytest.raises(SchemaError, match=f"^record 0: feature 'x' {reason}"):
                writer.write({"x": value})
        writer.abort()

    def test_dicts_of_lists(self, tmp_path: Path) -> None:
        url, schema = str(tmp_path / "train"), animals(shape=(None,))
        with tfs.ShardedWriter(url, num_shards=1, schema=schema) as writer:
            for value in (["dog", "cat"], [2], [], np.array([1])):
                writer.write({"x": value})
        assert tfs.read_table(url)["x"].tolist() == [[1, 0], [2], [], [1]]

    def test_steps_of_feature_lists(self, tmp_path: Path) -> None:
        url = str(tmp_path / "train")
        schema = Schema({"x": replace(Feature.class_label(NAMES, shape=(None,)), sequence=True)})
        with tfs.ShardedWriter(url, num_shards=1, schema=schema) as writer:
            writer.write({"x": ["dog", "cat"]})
            writer.write({"x": []})
            with pytest.raises(SchemaError, match=r"^record 0: feature 'x' holds 'cow'"):
                writer.write({"x": ["cow"]})
        assert tfs.read_table(url)["x"].tolist() == [[1, 0], []]
        assert tfs.read_table(url, labels="names")["x"].tolist() == [["dog", "cat"], []]


class TestTables:
    def test_the_manifest_keeps_names(self, tmp_path: Path) -> None:
        url = str(tmp_path / "train")
        tfs.write_table({"x": ["dog", "cat"]}, url, schema=animals())
        assert tfs.infer_schema(url) == animals()
        assert tfs.read_table(url)["x"].tolist() == [1, 0]
        table = tfs.read_table(url, labels="names")
        assert table["x"].tolist() == ["dog", "cat"]
        assert table.schema == {"x": Feature("str")}

    def test_appended_rows_take_names(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow", exc_type=ImportError)
        url = str(tmp_path / "train")
        tfs.write_table({"x": ["dog"], "y": ["a"]}, url, schema=animals())
        tfs.write_table(pa.table({"x": ["cat"], "y": ["b"]}), url, if_exists="append")
        tfs.write_table({"x": [2], "y": ["c"]}, url, if_exists="append")
        assert tfs.read_table(url, labels="names")["x"].tolist() == ["dog", "cat", "ümlaut"]
        assert tfs.read_table(url).to_arrow()["x"].to_pylist() == [1, 0, 2]
        assert tfs.read_table(url, labels="names").to_arrow()["x"].to_pylist()[0] == "dog"
        with pytest.raises(ValueError, match="row 0 holds 'cow'"):
            tfs.write_table({"x": ["cow"], "y": ["c"]}, url, if_exists="append")

    def test_other_names_are_another_schema(self, tmp_path: Path) -> None:
        url = str(tmp_path / "train")
        tfs.write_table({"x": ["dog"]}, url, schema=animals())
        other = {"x": Feature.class_label(["dog", "cat"])}
        with pytest.raises(ValueError, match=r"feature 'x' is .*'cat', 'dog'.*'dog', 'cat'"):
            tfs.write_table({"x": ["dog"]}, url, schema=other, if_exists="append")

    def test_what_was_read_is_written_with_its_kind(self, tmp_path: Path) -> None:
        schema = Schema({"x": Feature.class_label(NAMES), "photo": Feature.image("png")})
        tfs.write_table(
            {"x": ["dog"], "photo": [b"\x89PNG\r\n\x1a\n"]}, str(tmp_path / "a"), schema=schema
        )
        tfs.write_table(tfs.read_table(str(tmp_path / "a")), str(tmp_path / "b"))
        assert tfs.infer_schema(str(tmp_path / "b")) == schema


class TestReadingClasses:
    def test_a_number_without_a_name(self) -> None:
        records = [tfs.encode_example({"x": x}) for x in (0, -1)]
        assert tfs.decode_examples(records, animals())["x"].tolist() == [0, -1]
        with pytest.raises(SchemaError, match=r"record 1: feature 'x' holds -1, .*labels="):
            tfs.decode_examples(records, animals(), labels="names")

    def test_fixed_shapes(self) -> None:
        schema = animals(shape=(2,))
        records = [tfs.encode_example({"x": [0, 1]}), tfs.encode_example({"x": [1, 2]})]
        found = tfs.decode_examples(records, schema, labels="names")["x"]
        assert found.tolist() == [["cat", "dog"], ["dog", "ümlaut"]]

    def test_ragged_nulls_and_defaults(self) -> None:
        records = [tfs.encode_example({"x": [0, 1]}), tfs.encode_example({})]
        schema = animals(shape=(None,), nullable=True)
        found = tfs.decode_examples(records, schema, labels="names")["x"]
        assert isinstance(found, Nullable)
        assert found.tolist() == [["cat", "dog"], None]
        schema = animals(default=1)
        assert tfs.decode_examples(records[1:], schema, labels="names")["x"].tolist() == ["dog"]

    @pytest.mark.parametrize("shape", [(), (2,)])
    def test_names_without_a_mask(self, shape: tuple[int, ...]) -> None:
        """A name is no number, and None stands for a null."""
        schema = Schema({"x": Feature.class_label(NAMES, shape=shape, nullable=True)})
        row: Any = ["dog", "cat"] if shape else "dog"
        batch = tfs.encode_examples({"x": [row, None]}, schema=schema)
        found = tfs.decode_examples(batch, schema, labels="names", nulls="nan")
        assert not isinstance(found["x"], np.ma.MaskedArray)
        assert found["x"].tolist() == [row, [None, None] if shape else None]
        text = Schema({"x": Feature("str", shape, nullable=True)})
        assert found.schema == text
        like = tfs.decode_examples([tfs.encode_example({})], text, nulls="nan")
        assert found["x"][1:].tolist() == like["x"].tolist()
        with pytest.raises(ValueError, match="feature 'x': int64 has no NaN"):
            tfs.decode_examples(batch, schema, nulls="nan")

    def test_ragged_names_have_no_nan(self) -> None:
        with pytest.raises(ValueError, match="feature 'x': a ragged feature has no NaN"):
            tfs.decode_examples(
                [], animals(shape=(None,), nullable=True), labels="names", nulls="nan"
            )

    def test_an_unknown_way(self) -> None:
        with pytest.raises(ValueError, match="labels must be"):
            tfs.decode_examples([], animals(), labels="name")  # type: ignore[arg-type]
